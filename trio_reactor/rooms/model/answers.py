"""What an authority answers: to a submission, and to being asked what is new."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .entries import Entry

__all__ = [
    "Accepted",
    "Advanced",
    "Answer",
    "BeyondHorizon",
    "Clash",
    "Conflicted",
    "Current",
    "Discontinued",
    "Expired",
    "Halted",
    "HistoryPage",
    "Message",
    "MessagePage",
    "Page",
    "Refreshed",
    "Rejected",
    "Retry",
    "Revision",
    "Unknown",
]

# ------------------------------------------------------------------------------ to a submission


class Accepted(msgspec.Struct, frozen=True, tag="accepted"):
    """It was applied, as one step."""

    version: int
    """What the room's version became, and the revision of what it wrote."""


class Clash(msgspec.Struct, frozen=True):
    """One path at which something else is than a submission was based on."""

    path: str
    current: Entry | None
    """What is there; `None`: nothing."""


class Conflicted(msgspec.Struct, frozen=True, tag="conflicted"):
    """It was not applied: it is based on what is no longer there."""

    clashes: tuple[Clash, ...]
    """Where, at least one."""


class Rejected(msgspec.Struct, frozen=True, tag="rejected"):
    """It was not applied and will not be: something about it is not allowed."""

    code: str
    """What, for programs: `read-only`, `too-large`, `invalid`, or the authority's own."""
    detail: str | None = None
    """What the authority says, for a person."""


class Expired(msgspec.Struct, frozen=True, tag="expired"):
    """It was certainly not applied, and is too old to be; a new one on what is there now may."""


class Retry(msgspec.Struct, frozen=True, tag="retry"):
    """It was not applied this time; the same one may be sent again."""

    after: float = 0.0
    """Seconds before that makes sense."""


class Halted(msgspec.Struct, frozen=True, tag="halted"):
    """It was not applied: nobody may write for the time being; the same one may be sent again."""


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """The authority does not remember what became of it, and did not apply it now."""


Answer: TypeAlias = Accepted | Conflicted | Rejected | Expired | Retry | Halted | Unknown

# ------------------------------------------------------------------------------ to being read


class Page(msgspec.Struct, frozen=True, tag="page"):
    """A part of a whole room.

    A room that is moving may be read page by page too: pages of paths first, each as it is when it
    is read, then what changed meanwhile.  So only with the last page the whole is of one version.
    """

    room: str
    transfer: str
    """Which reading of the room it belongs to."""
    number: int
    """Which page of that, from 0."""
    version: int
    """The room's version when the transfer began; of the last page, the version that the whole is
    of, which may be a later one.  No entry is newer than the last page's."""
    entries: tuple[Entry, ...]
    """They take the place of those that earlier pages had at the same paths."""
    next: str | None
    """The token that the next page is asked for with; `None`: this is the last."""
    removed: tuple[str, ...] = ()
    """Paths at which there is nothing any more, whatever earlier pages had there."""


class Discontinued(msgspec.Struct, frozen=True, tag="discontinued"):
    """A transfer cannot be continued where it stopped; a new one has to be begun."""


class Current(msgspec.Struct, frozen=True, tag="current"):
    """Nothing is newer than the version that was named."""

    room: str
    version: int


class Advanced(msgspec.Struct, frozen=True, tag="advanced"):
    """What changed from one version to a later one."""

    room: str
    since: int
    version: int
    entries: tuple[Entry, ...]
    """What was written, as it is at `version`."""
    removed: tuple[str, ...]
    """Paths at which there is nothing at `version`."""
    more: bool = False
    """Whether the room is known to be at a still later version: ask again from this one."""


class BeyondHorizon(msgspec.Struct, frozen=True, tag="beyond-horizon"):
    """What changed since then is no longer known; the whole room has to be read again."""

    room: str


Refreshed: TypeAlias = Current | Advanced | BeyondHorizon


class Revision(msgspec.Struct, frozen=True):
    """What was at a path once."""

    revision: int
    author: str
    """The member who wrote it; empty if that is not known."""
    at: float
    """When, in seconds since 1970 UTC, by the authority's clock; for a person, never for order."""
    entry: Entry | None
    """What it became; `None`: it was deleted."""


class HistoryPage(msgspec.Struct, frozen=True):
    """Revisions of one path, the newest first."""

    room: str
    path: str
    revisions: tuple[Revision, ...]
    next: str | None
    """The token that older ones are asked for with; `None`: there are none."""


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    thread: str
    id: str
    """Chosen by its author's client; the same message sent twice is one."""
    number: int
    """Which of the thread's, from 1, in the order in which the authority took them."""
    author: str
    at: float
    """When the authority took it, in seconds since 1970 UTC; for a person, never for order."""
    text: str


class MessagePage(msgspec.Struct, frozen=True):
    """Messages of a room, whatever their thread, in the order in which they were taken."""

    room: str
    messages: tuple[Message, ...]
    position: str
    """What the next are asked for with."""
    more: bool = False
    """Whether there are more already."""
