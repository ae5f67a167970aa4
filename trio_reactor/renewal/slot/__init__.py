"""One physical source of a chain, from its opening to its end.

Read `slot` for its life.  `sinks` take what the source pushes, `clips` is the book of its clips,
`settings` what it is told, `underway` a reconnect or check, `leaving` how it ends; `host` is what
it needs of its chain.
"""
