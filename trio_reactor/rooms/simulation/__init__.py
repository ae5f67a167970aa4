"""A provider at which everything can go wrong, for tests: by plan, on virtual time, no threads.

    authority = MemoryAuthority(world=world)
    faults = Faults(Plan({"submit-answer": {1: Fails("lost")}, "link": {2: Fails(after=7.5)}}))
    provider = FaultyProvider(MemoryProvider(authority, member="ada"), world=world, faults=faults)

What is to go wrong is planned with `trio_reactor.testing.Faults`.  These are its places, each
counted over all links of the provider:

| place | what passes there |
|---|---|
| `connect` | a connection that is being made |
| CALL | a call on its way, before it has had any effect |
| CALL`-copy` | a copy of that call, sent right behind it (`Twice`) |
| CALL`-answer` | its answer on its way, after its effect |
| `link` | a link; failing is its loss, after so many seconds, whatever is going on |
| `event` | an announcement: late with all those behind it, twice, or lost with its link |

CALL is `discover`, `hold`, `bootstrap`, `refresh`, `submit`, `history`, `binary`, `upload`,
`messages`, `say` or `act`.  An announcement that is `Slow` holds up those behind it; at one that
`Fails` the stream falls silent, and so many seconds later the link is lost; at one that `Never`
arrives the stream falls silent for good.

Announcements stay in order, and none is lost alone: an authority does not do that.  What no
authority should do is planned as *lies* instead, which take the place of what is true: `lies` says
which lie is told instead of the nth answer at a place, see `Lie`.

Where a test wants to decide the moment by itself it calls `lose`.
"""

from __future__ import annotations

from .lies import LIES, Lie
from .link import FaultyLink
from .provider import MENU, FaultyProvider, draw_lies

__all__ = ["LIES", "MENU", "FaultyLink", "FaultyProvider", "Lie", "draw_lies"]
