"""What is held here of a room: entries as they are seen, edits that wait, and drafts."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .answers import Clash
from .edits import Operation
from .entries import Entry
from .terms import Listing

__all__ = [
    "Draft",
    "DraftReason",
    "EditState",
    "HeldRoom",
    "QueuedEdit",
    "Seen",
    "Step",
    "Transfer",
]


class Seen(msgspec.Struct, frozen=True):
    """An entry as it is to be seen here: what is confirmed, or what was edited over it."""

    entry: Entry
    """Of one that was made here its revision is 0."""
    edited: bool
    """Whether it shows an edit that the authority has not confirmed."""


class Step(msgspec.Struct, frozen=True):
    """An operation of a queued edit."""

    operation: Operation
    follows: bool = False
    """Whether it is based on what an earlier queued edit makes of its path, and not on a revision
    yet."""
    was: str | None = None
    """The text that its author saw, for a merge."""


EditState: TypeAlias = Literal["queued", "submitted", "accepted"]


class QueuedEdit(msgspec.Struct, frozen=True):
    """An edit that the authority has not taken, or that has not come back from it yet."""

    id: int
    """Which of this store's, in the order in which they were made."""
    state: EditState
    steps: tuple[Step, ...]
    client: str | None = None
    """Under whose name it was submitted."""
    sequence: int | None = None
    """Under which sequence it was submitted."""
    version: int | None = None
    """The version that it became, if it was accepted."""


DraftReason: TypeAlias = Literal[
    "conflict", "rejected", "unknown", "withdrawn", "restored", "follows"
]
"""Why an edit is a draft: its base was gone; it was refused; nobody knows what became of it; it was
taken back; the authority forgot it; or an edit that it builds on became a draft."""


class Draft(msgspec.Struct, frozen=True):
    """An edit that was given back: nothing is lost of it, and nothing is done with it by itself."""

    id: int
    written: float
    """When it became one, in seconds since 1970 UTC, by this machine's clock."""
    reason: DraftReason
    code: str
    """The authority's word for it, if it had one."""
    detail: str | None
    """What the authority said."""
    steps: tuple[Step, ...]
    theirs: tuple[Clash, ...]
    """What was there instead, of a conflict."""


class Transfer(msgspec.Struct, frozen=True):
    """A bootstrap that has come so far."""

    name: str
    selection: str
    version: int
    """At which it began."""
    next: int
    """The number of the page that is due."""
    token: str
    """What that page is asked for with."""


class HeldRoom(msgspec.Struct, frozen=True):
    """What a store has of a room, but for its content."""

    listing: Listing
    listed: bool
    """Whether the authority still lists it."""
    version: int | None
    """The version that is held; `None`: none is."""
    selection: str | None
    """The selection that is held."""
    queued: int
    """Edits that are queued, submitted or accepted and not here yet."""
    drafts: int
    unsaid: int
    """Messages that wait to be said."""
    transfer: Transfer | None
    position: str = ""
    """How far its conversations were read."""
