"""An authority in memory, and the provider that connects to it: for tests, and for trying out.

    authority = MemoryAuthority(world=world)
    authority.create("plans")
    authority.grant("ada", "plans")
    authority.put("plans", "today.md", "# Today")
    provider = MemoryProvider(authority, member="ada")

It does all that the protocol of providers can say: versions, a log with a horizon, grants with
read-only directories, limits, rooms read page by page while they move, conversations, history,
binaries, actions, announcements with changes and in parts, halted writing.  It has no faults and no
delays of its own; `trio_reactor.rooms.simulation` has those.

What an operator does to it is synchronous: `create`, `remove`, `grant`, `revoke`, `write`, `put`,
`put_binary`, `delete`, `say`, `trim`, `forget`, `answer_next`, `halt`, `resume`, `offer`, `refuse`,
`admit`, `cut`, `begin_epoch`, `snapshot` and `restore`.
"""

from __future__ import annotations

from .authority import Copy, Grant, MemoryAuthority
from .link import MemoryLink, MemoryProvider
from .options import MemoryOptions

__all__ = ["Copy", "Grant", "MemoryAuthority", "MemoryLink", "MemoryOptions", "MemoryProvider"]
