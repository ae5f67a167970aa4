"""Watching: the rows of a room as they are, and then every change, with no gap between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import final

import msgspec
import trio

from trio_reactor.channel import Subscription
from trio_reactor.errors import Overflow
from trio_reactor.events import Event
from trio_reactor.rooms.errors import RoomNotReadable
from trio_reactor.rooms.events import RoomChanged, RoomLost
from trio_reactor.rooms.model.held import Seen
from trio_reactor.rooms.model.paths import beneath

__all__ = ["Change", "Rows", "Watch"]


class Rows(msgspec.Struct, frozen=True):
    """What is to be seen, at one moment."""

    rows: tuple[Seen, ...]
    change: int
    """The newest change of the store's that is in it."""


class Change(msgspec.Struct, frozen=True):
    """What is to be seen differently."""

    rows: tuple[Seen, ...]
    """What is new, or in the place of what was at the same path."""
    removed: tuple[str, ...]
    """Paths at which there is nothing any more."""
    whole: bool = False
    """Whether `rows` are all there is, and whatever else was seen before is gone."""


@final
class Watch:
    """The rows of a query, and then their changes: `async for change in watch`.

    It ends with `RoomNotReadable` when the room is lost.  A reader that falls far behind gets one
    change that is the whole.
    """

    def __init__(
        self,
        room: str,
        root: str,
        events: Subscription[Event],
        first: Rows,
        read: Callable[[tuple[str, ...] | None], Awaitable[Rows]],
        resubscribe: Callable[[], Subscription[Event]],
    ) -> None:
        self.rows = first.rows
        """What was to be seen when the watch began."""
        self._room = room
        self._root = root
        self._events = events
        self._change = first.change
        self._read = read
        self._resubscribe = resubscribe

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def receive(self) -> Change:
        """The next change.  Cancelling it loses nothing.

        Raises:
            RoomNotReadable: The room is lost.
            trio.EndOfChannel: The connection is over.
        """
        while True:
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                envelope = await self._events.receive()
            except Overflow:
                self._events = self._resubscribe()
                found = await self._read(None)
                self._change = found.change
                return Change(found.rows, (), whole=True)
            event = envelope.event
            if isinstance(event, RoomLost) and event.room == self._room:
                raise RoomNotReadable(self._room)
            if (
                not isinstance(event, RoomChanged)
                or event.room != self._room
                or event.change <= self._change
            ):
                continue
            paths = event.paths
            if paths is not None:
                paths = tuple(path for path in paths if beneath(self._root, path))
                if not paths:
                    continue
            # The event is taken: what it tells must not be lost with this task.
            seen: Rows | None = None
            with trio.CancelScope(shield=True):
                seen = await self._read(paths)
            assert seen is not None  # noqa: S101 - a shield that nobody cancels
            found = seen
            if paths is None:
                self._change = max(self._change, found.change)
                return Change(found.rows, (), whole=True)
            there = {seen.entry.path for seen in found.rows}
            return Change(found.rows, tuple(path for path in paths if path not in there))
