"""The chain: one logical source out of many physical ones.

Read `chain` for how facts become steps.  `first` opens the first source, `facts` says what is
known, `lineup` holds the roles, `hearing` takes what slots tell, `upkeep` reconnects and tells
settings, `tally` counts what failed in a row, `ledger` keeps what became of each source, and
`announcer` says all of it as events.
"""
