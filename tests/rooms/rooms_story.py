"""What the stories about a connection to rooms begin with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from trio_reactor.rooms import Rooms, open_rooms
from trio_reactor.rooms.provider.memory import MemoryAuthority, MemoryOptions, MemoryProvider
from trio_reactor.rooms.store.file import ReplicaStore
from trio_reactor.world import SeededWorld

ADA = "ada"


class Stage:
    """An authority in memory and the places of its clients' stores, on a virtual clock."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self.world = SeededWorld(7)
        self.authority = MemoryAuthority(world=self.world, options=MemoryOptions(**options))

    def room(self, name: str, **documents: str) -> None:
        self.authority.create(name)
        self.authority.grant(ADA, name)
        for stem, text in documents.items():
            self.authority.put(name, f"{stem}.md", text)

    def store(self, name: str = "store") -> ReplicaStore:
        return ReplicaStore(self.directory / f"{name}.db", inline=True)

    @asynccontextmanager
    async def rooms(self, store: str = "store", **given: Any) -> AsyncGenerator[Rooms]:
        provider = given.pop("provider", None) or MemoryProvider(self.authority, member=ADA)
        async with open_rooms(provider, self.store(store), world=self.world, **given) as rooms:
            yield rooms

    def texts(self, room: str) -> dict[str, str]:
        """What the authority has in a room."""
        return {
            path: getattr(entry, "text", "")
            for path, entry in self.authority.room(room).entries.items()
        }


async def synchronized(rooms: Rooms) -> None:
    """Wait until all is synchronized, however long that takes by the virtual clock."""
    with trio.fail_after(3_600):
        await rooms.wait_synchronized()


async def texts(rooms: Rooms, room: str) -> dict[str, str]:
    """What is to be seen of a room's documents."""
    return {
        seen.entry.path: getattr(seen.entry, "text", "") for seen in await rooms.documents(room)
    }


async def until(fits: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so, however long that takes by the virtual clock."""
    with trio.fail_after(3_600):
        while not await fits():  # noqa: ASYNC110 - it is in the store, of which no event tells
            await trio.sleep(0.1)


def kept(directory: Path) -> bytes:
    """The bytes of all files of a directory."""
    return b"".join(path.read_bytes() for path in directory.iterdir())
