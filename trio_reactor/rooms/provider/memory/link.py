"""The provider: connects to an authority in memory, as one member."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import final

import trio

from trio_reactor.rooms.errors import RoomRefused
from trio_reactor.rooms.model.answers import (
    Answer,
    Discontinued,
    HistoryPage,
    Message,
    MessagePage,
    Page,
    Refreshed,
)
from trio_reactor.rooms.model.edits import Submission
from trio_reactor.rooms.model.names import check_name
from trio_reactor.rooms.model.paths import check_path
from trio_reactor.rooms.model.terms import Discovery
from trio_reactor.rooms.provider.protocol import (
    Announced,
    Announcement,
    Client,
    Holding,
    Revoked,
    Writing,
)

from .announcing import Announcements
from .authority import Grant, Inputs, MemoryAuthority
from .room import Room

__all__ = ["MemoryLink", "MemoryProvider"]


@final
class MemoryProvider:
    """Connects to an authority in memory as one of its members; implements `Provider`.

    Args:
        authority: What it connects to.
        member: Who signs in.
    """

    def __init__(self, authority: MemoryAuthority, *, member: str) -> None:
        self.authority = authority
        self.member = check_name("a member", member)

    def __repr__(self) -> str:
        return f"<MemoryProvider of {self.member}>"

    @asynccontextmanager
    async def connect(self, client: Client, /) -> AsyncGenerator[MemoryLink]:
        """Connect, for a block.

        Raises:
            ConnectionRefused: The authority does not want this connection.
            Lost: It cannot be reached.
        """
        await trio.lowlevel.checkpoint()
        link = MemoryLink(self.authority, self.member)
        number = self.authority.admitted(link.announcements, client)
        try:
            yield link
        finally:
            self.authority.left(number)
            link.announcements.close()


@final
class MemoryLink:
    """One connection to an authority in memory; implements `Link` and what belongs to it.

    Each call takes effect, if it does, in one step after its only checkpoint: one that is cancelled
    has had none.
    """

    def __init__(self, authority: MemoryAuthority, member: str) -> None:
        self.member = member
        self.announcements = Announcements(member, authority.options.max_announcements)
        self._authority = authority

    def __repr__(self) -> str:
        return f"<MemoryLink of {self.member}{': lost' if self.announcements.lost.is_set else ''}>"

    @property
    def events(self) -> trio.abc.ReceiveChannel[Announcement] | None:
        """What the authority announces; `None`: it does not stream."""
        return self.announcements if self._authority.options.streaming else None

    async def discover(self) -> Discovery:
        """Who is signed in, what is offered, and what rooms there are."""
        await self._pass()
        return self._authority.discovery(self.member)

    async def hold(self, holding: Holding, /) -> tuple[str, ...]:
        """Say what is held; returns the rooms that must be read again."""
        await self._pass()
        authority, put = self._authority, self.announcements.put
        readable = {listing.room for listing in authority.discovery(self.member).rooms}
        expired: list[str] = []
        for room, version in holding.versions.items():
            if room not in readable:
                put(Revoked(room))
                continue
            found = authority.room(room)
            if not found.floor <= version <= found.version:
                expired.append(room)
            elif version < found.version:
                put(Announced(room, found.version), room)
        for room, part in authority.parting.missing(holding.parts):
            if room in readable:
                put(part, room)
        if authority.halted:
            put(Writing(allowed=False))
        self.announcements.holding = True
        return tuple(expired)

    def published(self, room: str, version: int, /) -> None:
        """Hear that a room is held at this version now."""
        if not self.announcements.holding:
            return
        for listing in self._authority.discovery(self.member).rooms:
            if listing.room == room and listing.version > version:
                self.announcements.put(Announced(room, listing.version), room)

    async def bootstrap(
        self, room: str, selection: str, token: str | None, /
    ) -> Page | Discontinued:
        """A page of the whole room: the first, or the one that a token names."""
        found, grant = await self._readable(room)
        if grant.selection != selection:
            if token is not None:
                return Discontinued()
            raise RoomRefused(room, "selection", retryable=True)
        return self._authority.transfers.page(found, self.member, selection, token)

    async def refresh(self, room: str, since: int, /) -> Refreshed:
        """What is newer than a version."""
        found, _ = await self._readable(room)
        return found.since(since)

    async def submit(self, submission: Submission, /) -> Answer:
        """Apply an edit, exactly once however often the same submission is sent."""
        await self._pass()
        return self._authority.submitted(self.member, submission)

    async def history(self, room: str, path: str, token: str | None, /) -> HistoryPage:
        """Revisions of one path, the newest first."""
        found, _ = await self._readable(room)
        try:
            check_path(path)
            before = None if token is None else int(token)
        except (TypeError, ValueError) as flaw:
            raise RoomRefused(room, "invalid", detail=str(flaw)) from flaw
        return found.history(path, before)

    async def binary(self, room: str, digest: str, offset: int, most: int, /) -> bytes:
        """Bytes of a binary of this room from an offset on, at most so many; empty: its end."""
        found, _ = await self._readable(room)
        data = found.binaries.get(digest)
        if data is None or offset < 0 or most < 1:
            raise RoomRefused(room, "no-such-binary")
        return data[offset : offset + most]

    async def upload(self, room: str, digest: str, size: int, offset: int, data: bytes, /) -> int:
        """Take bytes of a binary that a later submission puts."""
        found, grant = await self._readable(room)
        if "" in grant.readonly:
            raise RoomRefused(room, "read-only")
        if found.bytes_of(digest) == size:
            return size  # it was put here once
        most = self._authority.limits.max_binary_bytes
        uploads = self._authority.uploads
        return uploads.take(room, self.member, digest, size, offset, data, most=most)

    async def messages(self, room: str, position: str, /) -> MessagePage:
        """What was said in a room after a position; after none if it is empty."""
        found, _ = await self._readable(room)
        return found.heard(position)

    async def say(self, room: str, thread: str, message: str, text: str, /) -> Message:
        """Append a message to a thread, which is made if there is none."""
        found, _ = await self._readable(room)
        return self._authority.spoken(found, self.member, thread, message, text)

    async def act(self, action: str, room: str | None, inputs: Inputs, /) -> str:
        """Do something that the terms or the listing offer; what it answers, for a person."""
        await self._pass()
        return self._authority.acted(self.member, action, room, inputs)

    async def _readable(self, room: str) -> tuple[Room, Grant]:
        await self._pass()
        return self._authority.readable(self.member, room)

    async def _pass(self) -> None:
        await trio.lowlevel.checkpoint()
        self.announcements.check()
