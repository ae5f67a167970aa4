"""What the documentation says that only the code knows: diagrams and tables, made from it.

A page holds a marker, a comment that nobody sees, where something is to stand:

    <!-- generated: records trio_reactor.renewal.events:RENEWAL_EVENTS -->

When the site is built, `hook` replaces it by what the code says at that moment, so a diagram or a
table cannot go stale, and nothing that was generated is committed.  `markers` says what a marker
may ask for; every generator is pure and takes any table, class or package, not those of one system.
A system with a state table, events, options or errors of its own needs a marker on a page of its
own, and nothing here.  `pictures` are timelines, played and drawn in that moment too.
"""
