"""What an operator does to an authority in a file."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TypeVar, final

import trio

from trio_reactor.errors import Closed
from trio_reactor.rooms.model.answers import Answer, Message
from trio_reactor.rooms.model.edits import Operation
from trio_reactor.rooms.model.entries import Entry
from trio_reactor.sqlite import Turns
from trio_reactor.world import SystemWorld, World

from .doorbell import Doorbell
from .ledger import Ledger, opened
from .options import LocalOptions

__all__ = ["OPERATOR", "LocalAuthority"]

T = TypeVar("T")

OPERATOR = "operator"
"""Who an operator writes as."""


@final
class LocalAuthority:
    """An authority in a file, for who operates it; made by `LocalAuthority.open`.

    Every method is one durable transaction, and wakes every process that listens.  Cancelled
    before it has begun, it changes nothing; after that it is finished.
    """

    def __init__(self, ledger: Ledger, turns: Turns, path: str) -> None:
        self.path = path
        self._ledger = ledger
        self._turns = turns
        self._bell = Doorbell(path)
        self._closed = False

    def __repr__(self) -> str:
        return f"<LocalAuthority {self.path}>"

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        options: LocalOptions | None = None,
        world: World | None = None,
    ) -> AbstractAsyncContextManager[LocalAuthority]:
        """Open the file for a block, or make it.

        Raises:
            AuthorityUnusable: It is foreign, newer, damaged or read-only.
            AuthorityFailed: It cannot be used just now.
            ValueError: The path names no file.
        """
        name = os.fspath(path)
        if not name or "\0" in name:
            raise ValueError(f"path: {name!r} names no file")
        return cls._opened(
            os.path.realpath(name), options or LocalOptions(), world or SystemWorld()
        )

    @classmethod
    @asynccontextmanager
    async def _opened(
        cls, path: str, options: LocalOptions, world: World
    ) -> AsyncGenerator[LocalAuthority]:
        turns = Turns(inline=False)
        ledger = await turns.run(partial(opened, path, options, world))
        authority = cls(ledger, turns, path)
        try:
            yield authority
        finally:
            authority._closed = True
            with trio.CancelScope(shield=True):
                await turns.run(ledger.close)

    async def create(self, room: str, *, title: str = "") -> None:
        """Make a room, which nobody may read yet.

        Raises:
            ValueError: There is one of this name, or it cannot be a name.
        """
        await self._run(partial(self._ledger.create, room, title))

    async def remove(self, room: str) -> None:
        """End a room; whoever could read it cannot any more."""
        await self._run(partial(self._ledger.remove, room))

    async def grant(
        self, member: str, room: str, *, readonly: tuple[str, ...] = (), selection: str = ""
    ) -> None:
        """Let a member read a room, and write it but for some directories."""
        await self._run(
            partial(self._ledger.grant, member, room, readonly=readonly, selection=selection)
        )

    async def revoke(self, member: str, room: str) -> None:
        """Let a member not read a room any more."""
        await self._run(partial(self._ledger.revoke, member, room))

    async def write(self, room: str, *operations: Operation, author: str = OPERATOR) -> Answer:
        """Change a room in one step; the bases of the operations have to be what is there."""
        return await self._run(partial(self._ledger.write, room, operations, author))

    async def put_blob(self, room: str, data: bytes) -> str:
        """Keep the bytes of a binary that is to be written; returns their digest."""
        return await self._run(partial(self._ledger.put_blob, room, data))

    async def say(self, member: str, room: str, thread: str, message: str, text: str) -> Message:
        """Say something as a member."""
        return await self._run(partial(self._ledger.spoken, member, room, thread, message, text))

    async def trim(self, room: str, floor: int) -> None:
        """Forget what changed up to a version, which becomes the horizon."""
        await self._run(partial(self._ledger.trim, room, floor))

    async def halt(self) -> None:
        """Let nobody write for the time being."""
        await self._run(partial(self._ledger.halt, halted=True))

    async def resume(self) -> None:
        """Let everybody write again."""
        await self._run(partial(self._ledger.halt, halted=False))

    async def begin_epoch(self) -> None:
        """Begin a new history: nothing that was known of this one holds any more."""
        await self._run(self._ledger.begin_epoch)

    async def forget(self, room: str, client: str) -> None:
        """Forget what a client's last submission to a room was answered."""
        await self._run(partial(self._ledger.forget, room, client))

    async def entries(self, room: str) -> tuple[Entry, ...]:
        """What is in a room, in the order of the paths."""
        return await self._run(partial(self._ledger.entries, room))

    async def rooms(self) -> tuple[tuple[str, int], ...]:
        """The rooms there are, with their versions."""
        return await self._run(self._ledger.rooms)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._closed:
            await trio.lowlevel.checkpoint()
            raise Closed("this authority was closed")

        def run() -> T:
            found = work()
            self._bell.ring()
            return found

        return await self._turns.run(run)
