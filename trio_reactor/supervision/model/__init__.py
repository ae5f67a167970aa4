"""What supervision is about, as values, and what may become of them: pure.

Nothing here awaits, reads a clock or does I/O.  Read `keys`, `work`, `child`, `ends` and `records`
for what there is; `machine` for the life of a session, as a table; `codec` for how a record is
written down.
"""
