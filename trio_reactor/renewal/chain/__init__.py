"""The chain: one logical source out of many physical ones.

Read `chain` for how facts become steps.  `lineup` holds the roles, `upkeep` reconnects and tells
settings, `tally` counts what failed in a row, `proof` says what became of a source, and `announcer`
says all of it as events.
"""
