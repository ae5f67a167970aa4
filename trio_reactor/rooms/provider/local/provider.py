"""The provider: connects to an authority in a file, as one member."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar, final

import trio

from trio_reactor.errors import Closed
from trio_reactor.rooms.errors import ConnectionRefused
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
from trio_reactor.rooms.model.terms import CONTRACT, Discovery
from trio_reactor.rooms.provider.protocol import Announcement, Client, Holding
from trio_reactor.sqlite import Turns
from trio_reactor.world import SystemWorld, World

from .doorbell import Doorbell, Listener
from .errors import AuthorityUnusable
from .ledger import Ledger, opened
from .options import LocalOptions

__all__ = ["LocalLink", "LocalProvider"]

T = TypeVar("T")


@final
class LocalProvider:
    """Connects to an authority in a file as one of its members; implements `Provider`.

    Whoever may write the file may do anything to it: members are kept apart by what is asked in
    their name, not by locks.

    Args:
        path: The file; made if it is not there.  On a local disk.
        member: Who signs in.
        options: What is kept at most; the same for all that use the file.
        world: Where instants and tokens come from; the real world by default.

    Raises:
        ValueError, TypeError: The path names no file, or the member cannot be one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        member: str,
        options: LocalOptions | None = None,
        world: World | None = None,
    ) -> None:
        name = os.fspath(path)
        if not name or "\0" in name:
            raise ValueError(f"path: {name!r} names no file")
        self.path = os.path.realpath(name)
        self.member = check_name("a member", member)
        self._options = options or LocalOptions()
        self._world = world or SystemWorld()

    def __repr__(self) -> str:
        return f"<LocalProvider {self.path} of {self.member}>"

    @asynccontextmanager
    async def connect(self, client: Client, /) -> AsyncGenerator[LocalLink]:
        """Connect, for a block.

        Raises:
            ConnectionRefused: The file is no authority that can be used.
            AuthorityFailed: It cannot be used just now.
        """
        if client.contract != CONTRACT:
            await trio.lowlevel.checkpoint()
            raise ConnectionRefused(
                f"contract {client.contract} is asked for; this is {CONTRACT}", code="contract"
            )
        turns = Turns(inline=False)
        try:
            ledger = await turns.run(partial(opened, self.path, self._options, self._world))
        except AuthorityUnusable as failure:
            raise ConnectionRefused(
                failure.message, code="authority", detail=failure.detail
            ) from failure
        try:
            with Doorbell(self.path).listen(self._world.token()) as listener:
                link = LocalLink(ledger, turns, self.path, self.member, listener)
                try:
                    yield link
                finally:
                    link.closed = True
        finally:
            with trio.CancelScope(shield=True):
                await turns.run(ledger.close)


@final
class LocalLink(trio.abc.ReceiveChannel[Announcement]):
    """One connection to an authority in a file; implements `Link` and what belongs to it.

    It is its own stream of announcements.  A call that is cancelled may take effect all the same.
    """

    def __init__(
        self, ledger: Ledger, turns: Turns, path: str, member: str, listener: Listener
    ) -> None:
        self.member = member
        self.closed = False
        self._ledger = ledger
        self._turns = turns
        self._bell = Doorbell(path)
        self._listener = listener
        self._waiting: deque[Announcement] = deque()
        self._last: int | None = None

    def __repr__(self) -> str:
        return f"<LocalLink of {self.member}{': closed' if self.closed else ''}>"

    @property
    def events(self) -> trio.abc.ReceiveChannel[Announcement] | None:
        """What the authority announces."""
        return self

    async def receive(self) -> Announcement:
        """The next announcement.  Always a checkpoint; none is lost if it is cancelled.

        Raises:
            Closed: The link was left.
            AuthorityFailed: The file could not be read.
        """
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self.closed:
                raise Closed("this link was left")
            if self._last is not None:
                last = self._last
                found, reached = await self._run(partial(self._ledger.announced, self.member, last))
                if self._last == last:
                    self._last = reached
                    self._waiting.extend(found)
                    if found:
                        continue
            await self._listener.wait()
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """Read no more; always a checkpoint."""
        self.closed = True
        await trio.lowlevel.checkpoint()

    async def discover(self) -> Discovery:
        """Who is signed in, what is offered, and what rooms there are."""
        discovery, last = await self._run(partial(self._ledger.discovery, self.member))
        if self._last is None:
            self._last = last
            self._bell.ring()  # whoever reads already looks from here on
        return discovery

    async def hold(self, holding: Holding, /) -> tuple[str, ...]:
        """Say what is held; returns the rooms that must be read again."""
        expired, news, last = await self._run(
            partial(self._ledger.expired, self.member, tuple(holding.versions.items()))
        )
        # What was announced since the discovery is read too: it may be about the listing.
        self._last = last if self._last is None else self._last
        self._waiting.extend(news)
        self._bell.ring()  # for who reads already
        return expired

    def published(self, room: str, version: int, /) -> None:
        """Hear that a room is held at this version now; whatever is newer is announced anyway."""

    async def bootstrap(
        self, room: str, selection: str, token: str | None, /
    ) -> Page | Discontinued:
        """A page of the whole room: the first, or the one that a token names."""
        return await self._run(partial(self._ledger.page, self.member, room, selection, token))

    async def refresh(self, room: str, since: int, /) -> Refreshed:
        """What is newer than a version."""
        return await self._run(partial(self._ledger.since, self.member, room, since))

    async def submit(self, submission: Submission, /) -> Answer:
        """Apply an edit, exactly once however often the same submission is sent."""
        return await self._run(partial(self._ledger.submitted, self.member, submission), rings=True)

    async def history(self, room: str, path: str, token: str | None, /) -> HistoryPage:
        """Revisions of one path, the newest first."""
        return await self._run(partial(self._ledger.history, self.member, room, path, token))

    async def binary(self, room: str, digest: str, offset: int, most: int, /) -> bytes:
        """Bytes of a binary of this room from an offset on, at most so many; empty: its end."""
        return await self._run(
            partial(self._ledger.binary, self.member, room, digest, offset, most)
        )

    async def upload(self, room: str, digest: str, size: int, offset: int, data: bytes, /) -> int:
        """Take bytes of a binary that a later submission puts."""
        return await self._run(
            partial(self._ledger.uploaded, self.member, room, digest, size, offset, data)
        )

    async def messages(self, room: str, position: str, /) -> MessagePage:
        """What was said in a room after a position; after none if it is empty."""
        return await self._run(partial(self._ledger.messages, self.member, room, position))

    async def say(self, room: str, thread: str, message: str, text: str, /) -> Message:
        """Append a message to a thread, which is made if there is none."""
        return await self._run(
            partial(self._ledger.spoken, self.member, room, thread, message, text), rings=True
        )

    async def _run(self, work: Callable[[], T], *, rings: bool = False) -> T:
        """Do it in the thread, where the bell is rung too: a commit is told of, whoever waits."""
        if self.closed:
            await trio.lowlevel.checkpoint()
            raise Closed("this link was left")

        def run() -> T:
            found = work()
            if rings:
                self._bell.ring()
            return found

        return await self._turns.run(run)
