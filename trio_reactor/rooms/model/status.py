"""How things stand: of one room, and of all of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = ["Attention", "Reach", "RoomStatus", "State", "Status"]

State: TypeAlias = Literal["unreachable", "transferring", "needs-attention", "synchronized"]
"""`unreachable`: the authority is not there, and what is held is shown.  `transferring`: something
is on its way.  `needs-attention`: it goes on only if somebody does something.  `synchronized`:
nothing is stale, queued or unread."""

Reach: TypeAlias = Literal["connecting", "opening", "open", "unreachable", "refused", "stopped"]
"""How far the connection is."""

Attention: TypeAlias = Literal[
    "connection-refused",
    "room-refused",
    "provider-fault",
    "not-listed",
    "drafts",
    "writing-halted",
    "store",
    "erasure",
]
"""What somebody has to see to."""


class RoomStatus(msgspec.Struct, frozen=True):
    """How one room stands."""

    room: str
    state: State
    held: bool
    """Whether there is anything of it to be read."""
    version: int | None
    queued: int
    """Edits and messages that the authority has not taken yet."""
    attention: tuple[Attention, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """How all the rooms stand."""

    state: State
    reach: Reach
    synchronized: float | None
    """When all were last synchronized, in seconds since 1970 UTC; recorded before it is said."""
    rooms: int
    """How many are listed."""
    transferring: int
    """How many are behind, or have something on its way."""
    queued: int
    """In how many something waits for the authority."""
    attention: tuple[Attention, ...] = ()
