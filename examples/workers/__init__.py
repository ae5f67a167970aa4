"""A small plugin host: real modules, each in a leased process of its own.

`story` starts the host as a process, kills it in the midst of its work, counts at the operating
system what is left, and starts it again.  `host` is that process: it opens sessions for the plugins
of `catalogue` and speaks with them over their channels (`client`).  `serving` is the plugins' side
of that, and the only module here that a plugin needs.
"""
