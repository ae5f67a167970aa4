"""One continuous picture and sound, out of sessions that each live only a few seconds.

    python -m examples.broadcast                   20 seconds out of sessions of 4 seconds
    python -m examples.broadcast --drop            the same, with connections that break
    python -m examples.broadcast --help            everything that can be set

Beside the table that it prints, it leaves a recording of what was put out and a timeline of which
session was on air when.  Read `broadcast` first: it is the whole use of a renewal.  `application`
puts the pieces together, `programme` and `report` are the pure parts of it, `recorder` writes the
film and `server` runs the other side, in a process of its own.
"""
