"""What a provider does: it connects to an authority, and asks and tells what it is asked to.

A provider knows how an authority is reached.  Its *link* is one connection to it, held as a block:
when it is lost, the connection enters another.  A link takes no decisions: it does not retry, keep
or repair anything, and a call of it is one exchange.

Calls of one link are made side by side, of one room one at a time.  Each may be cancelled at any
checkpoint; what became of it is then unknown, and each is harmless if it is made again, as its
description says.  What fails is told by what is raised:

- `RoomNotReadable`: the member may not read this room (any more);
- `RoomRefused`: a refusal that concerns one room, for the time being;
- `ConnectionRefused`: the authority does not want this connection;
- `ProviderFault`: what came back is not what the contract says;
- anything that `errors.is_expected` calls weather: the link is lost.

Everything else is a defect of the provider's and ends the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec
import trio

from trio_reactor.rooms.model.answers import (
    Advanced,
    Answer,
    Discontinued,
    HistoryPage,
    Message,
    MessagePage,
    Page,
    Refreshed,
)
from trio_reactor.rooms.model.edits import Submission
from trio_reactor.rooms.model.terms import CONTRACT, Discovery

__all__ = [
    "Acting",
    "Alive",
    "Announced",
    "Announcement",
    "Client",
    "Conversing",
    "Historic",
    "Holding",
    "Link",
    "Part",
    "Provider",
    "Relisted",
    "Revoked",
    "Said",
    "Storing",
    "Writing",
]

# ------------------------------------------------------------------------- what a stream announces


class Announced(msgspec.Struct, frozen=True, tag="announced"):
    """A room is at this version now."""

    room: str
    version: int
    change: Advanced | None = None
    """What changed, up to that version, if the authority tells right away."""


class Revoked(msgspec.Struct, frozen=True, tag="revoked"):
    """The member may not read this room any more."""

    room: str


class Relisted(msgspec.Struct, frozen=True, tag="relisted"):
    """What is listed has changed, or announcements may have been missed: discover again."""


class Said(msgspec.Struct, frozen=True, tag="said"):
    """A room's conversations have gone on."""

    room: str
    message: Message | None = None
    """What was said, if the authority tells right away."""
    position: str = ""
    """The position after that message."""


class Writing(msgspec.Struct, frozen=True, tag="writing"):
    """Whether anybody may write for the time being."""

    allowed: bool


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """Nothing has happened, and the stream lives."""


class Part(msgspec.Struct, frozen=True, tag="part"):
    """A part of an announcement that is sent in several.

    Their `data`, put together in order, are an announcement as JSON.  Parts come in any order.
    """

    key: str
    """Which announcement; never used for another."""
    number: int
    """Which part, from 0."""
    of: int
    """How many there are."""
    data: bytes
    room: str = ""
    """The only room that it is about, if there is one: it is lost with it."""


Announcement: TypeAlias = Announced | Revoked | Relisted | Said | Writing | Alive | Part

# ---------------------------------------------------------------------------------- what is told


class Client(msgspec.Struct, frozen=True):
    """Who connects."""

    incarnation: str
    """The client's store: never used by another one, nor by this one once it was made anew."""
    contract: int = CONTRACT


class Holding(msgspec.Struct, frozen=True):
    """What a client holds already."""

    versions: Mapping[str, int]
    """The version of each room."""
    parts: Mapping[str, tuple[int, ...]]
    """Of announcements that are not whole, by key, the numbers of the parts that are there."""


# ------------------------------------------------------------------------------------- the link


class Link(Protocol):
    """One connection to an authority, while its block is open."""

    @property
    def events(self) -> trio.abc.ReceiveChannel[Announcement] | None:
        """What the authority announces, in its order; `None`: it does not stream.

        It ends, or raises weather, when the link is lost.  It keeps a bounded number of
        announcements; when a reader falls behind, one `Relisted` may stand for those it missed.
        Announcements about what happened after `hold` returned are never missed otherwise.
        """
        ...

    async def discover(self) -> Discovery:
        """Who is signed in, what is offered, and what rooms there are."""
        ...

    async def hold(self, holding: Holding, /) -> tuple[str, ...]:
        """Say what is held; asked once, of a link that streams, after the first discovery.

        From its return on, everything about these rooms is announced, beginning with those whose
        version is no longer the one that is held.

        Returns:
            The rooms whose held version is beyond the horizon, so that they must be read again.
        """
        ...

    def published(self, room: str, version: int, /) -> None:
        """Hear that a room is held at this version now.  Synchronous; must not raise."""
        ...

    async def bootstrap(
        self, room: str, selection: str, token: str | None, /
    ) -> Page | Discontinued:
        """A page of the whole room: the first, or the one that a token names.

        All pages of a transfer together are of one version, which the last one names.  Asked again
        for a page, a page of the same number or `Discontinued` is answered.
        """
        ...

    async def refresh(self, room: str, since: int, /) -> Refreshed:
        """What is newer than a version."""
        ...

    async def submit(self, submission: Submission, /) -> Answer:
        """Apply an edit, exactly once however often the same submission is sent.

        The authority remembers, of each client in each room, the last sequence and its answer.
        The same sequence is answered as it was; the next one is new; of any other `Unknown` is
        answered and nothing applied.  `Retry` and `Halted` are not remembered.
        """
        ...


@runtime_checkable
class Historic(Protocol):
    """A link that has the capability `history`."""

    async def history(self, room: str, path: str, token: str | None, /) -> HistoryPage:
        """Revisions of one path, the newest first: the first page, or the one a token names."""
        ...


@runtime_checkable
class Storing(Protocol):
    """A link that has the capability `binaries`."""

    async def binary(self, room: str, digest: str, offset: int, most: int, /) -> bytes:
        """Bytes of a binary of this room from an offset on, at most so many; empty: its end."""
        ...

    async def upload(self, room: str, digest: str, size: int, offset: int, data: bytes, /) -> int:
        """Take bytes of a binary that a later submission puts; kept if the link is lost.

        Data that do not begin where what was received ends are ignored.

        Returns:
            How many bytes from the beginning were received by now.
        """
        ...


@runtime_checkable
class Conversing(Protocol):
    """A link that has the capability `conversations`."""

    async def messages(self, room: str, position: str, /) -> MessagePage:
        """What was said in a room after a position; after none if it is empty."""
        ...

    async def say(self, room: str, thread: str, message: str, text: str, /) -> Message:
        """Append a message to a thread, which is made if there is none.

        `message` is its id: the same one said again is answered as it was and not said twice.
        """
        ...


@runtime_checkable
class Acting(Protocol):
    """A link that has the capability `actions`."""

    async def act(
        self, action: str, room: str | None, inputs: Mapping[str, str | int | float | bool], /
    ) -> str:
        """Do something that the terms or the listing offer; what it answers, for a person.

        It is sent once: what became of one that was cut off is unknown.
        """
        ...


class Provider(Protocol):
    """How an authority is reached."""

    def connect(self, client: Client, /) -> AbstractAsyncContextManager[Link]:
        """Connect and sign in, for a block.

        Entering raises:
            ConnectionRefused: The authority does not want this connection.
            Lost, OSError, TimedOut: It cannot be reached.
        """
        ...
