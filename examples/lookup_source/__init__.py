"""A source that is borrowed, for a small service that looks words up, over TCP.

`source` is the whole adapter, about a hundred lines, and `client` is what it stands on, as a
provider's own library would be.  The guide "Write a source" walks through both.  `server` is the
other side, and `rig` what the conformance suite needs of it; all run in one process.

The client says `open`, then `find <word>` as often as it likes, and at last `close`.  The server
answers in the order in which it was asked:

    hello <session> <seconds>       to `open`: the session and its lifetime
    no <why>                        to `open`: there is none
    is <meaning>                    to `find`
    not                             to `find`: it does not know the word
    bye <why>                       to `close`, and also unasked: the session has ended

A session ends with its connection.
"""
