"""The pure policy: what a chain does next, and everything that decides it.

Nothing here imports Trio, does I/O or reads a clock.  Read `phases` for the life of one source, a
table, and `decision` for the step of the chain: from `facts` to one of `steps`.  `handoff` knows
the boundary, `lifespan` when a successor is due, `failures` how often it may go wrong, and
`resumption` what a successor is offered.
"""
