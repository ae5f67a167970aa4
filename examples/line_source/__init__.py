"""A source for a small service that speaks in lines over TCP.

`source` is the adapter that the guide "A source that plays" builds step by step.  `client` is what
it stands on, and knows nothing of sources; `server` is the other side, which the tests run in the
same process.

The client says `<number> <command> ...` and is answered `ok <number> ...` or `no <number> why`.
Beside that the server tells what happens, a line each:

    hello <session> <seconds>       once, after `open`: the session and its lifetime
    clip <clip> <phase> <frames>    a clip waits, is being built, or is ready
    start <clip> <frames>           a clip went on air
    frame <clip> <index> <hex>      a picture of 8 by 8 grey pixels
    end <clip> <frames>             a clip is over
    soon <seconds> <why>            the session will end sooner
    over <why>                      the session has ended

A session ends with its connection.
"""
