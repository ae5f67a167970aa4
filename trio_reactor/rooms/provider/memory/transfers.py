"""Rooms that are being read page by page, while they move on.

A transfer is told by a name and a mark, which its token carries.  Read as a *snapshot*, a room's
entries are kept as they were when the transfer began.  Read by *replay*, each page is of the room
as it is when that page is asked for, and the steps that were taken since the transfer began are the
last pages; nothing is kept but that version, and where they were trimmed the transfer cannot go on.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from typing import final

import msgspec

from trio_reactor.rooms.model.answers import Discontinued, Page
from trio_reactor.rooms.model.entries import Entry

from .options import MemoryOptions
from .room import Room

__all__ = ["Transfers"]


class _Transfer(msgspec.Struct):
    name: str
    member: str
    selection: str
    room: Room
    version: int
    entries: tuple[Entry, ...] | None
    """In the order of their paths; `None`: it is read by replay."""


class _Mark(msgspec.Struct, frozen=True):
    """Where in its transfer a page begins."""

    number: int = 0
    after: str | None = ""
    """The path before its first; `None`: it is one of steps."""
    since: int = 0
    """The version that its first step leads on from."""


@final
class Transfers:
    """Those that are being read; a bounded number of them.

    Args:
        options: How they are read, and how many at most.
        identifier: Gives a name that no other transfer had.
    """

    def __init__(self, options: MemoryOptions, identifier: Callable[[], str]) -> None:
        self._options = options
        self._identifier = identifier
        self._going: dict[str, _Transfer] = {}

    def __len__(self) -> int:
        return len(self._going)

    def clear(self) -> None:
        """End all of them."""
        self._going.clear()

    def end(self, room: str, member: str | None = None) -> None:
        """End those of a room, or of one member in it."""
        for name, transfer in tuple(self._going.items()):
            if transfer.room.name == room and member in {None, transfer.member}:
                del self._going[name]

    def page(
        self, room: Room, member: str, selection: str, token: str | None
    ) -> Page | Discontinued:
        """The first page, or the one that a token names."""
        if token is None:
            transfer, mark = self._begin(room, member, selection), _Mark()
        else:
            name, mark = _read(token)
            found = self._going.pop(name, None)
            if found is None:
                return Discontinued()
            # The one that was asked for last comes last.
            self._going[name] = transfer = found
            if (transfer.member, transfer.selection) != (member, selection):
                return Discontinued()
            if transfer.room is not room:
                return Discontinued()
        if mark.after is None:
            return self._steps(transfer, mark)
        return self._entries(transfer, mark, mark.after)

    def _begin(self, room: Room, member: str, selection: str) -> _Transfer:
        name = self._identifier()
        entries = None
        if self._options.paging == "snapshot":
            entries = tuple(room.entries[path] for path in sorted(room.entries))
        transfer = _Transfer(name, member, selection, room, room.version, entries)
        self._going[name] = transfer
        if len(self._going) > self._options.max_transfers:
            del self._going[next(iter(self._going))]
        return transfer

    def _entries(self, transfer: _Transfer, mark: _Mark, after: str) -> Page:
        room, size = transfer.room, self._options.page_size
        if transfer.entries is None:
            paths = heapq.nsmallest(size + 1, (path for path in room.entries if path > after))
            rest = tuple(room.entries[path] for path in paths)
        else:
            begin = mark.number * size
            rest = transfer.entries[begin : begin + size + 1]
        entries = rest[:size]
        following = None
        if len(rest) > size:
            following = _Mark(mark.number + 1, entries[-1].path)
        elif transfer.entries is None and room.version > transfer.version:
            following = _Mark(mark.number + 1, None, transfer.version)
        return Page(
            room.name,
            transfer.name,
            mark.number,
            transfer.version,
            entries,
            None if following is None else _written(transfer.name, following),
        )

    def _steps(self, transfer: _Transfer, mark: _Mark) -> Page | Discontinued:
        room = transfer.room
        if mark.since < room.floor:
            del self._going[transfer.name]
            return Discontinued()
        advanced = room.changes(mark.since)
        following = None
        if advanced.more:
            following = _written(transfer.name, _Mark(mark.number + 1, None, advanced.version))
        return Page(
            room.name,
            transfer.name,
            mark.number,
            transfer.version if advanced.more else advanced.version,
            advanced.entries,
            following,
            advanced.removed,
        )


def _written(name: str, mark: _Mark) -> str:
    return json.dumps([name, mark.number, mark.after, mark.since], ensure_ascii=False)


def _read(token: str) -> tuple[str, _Mark]:
    try:
        name, number, after, since = msgspec.json.decode(
            token.encode(), type=tuple[str, int, str | None, int]
        )
    except (msgspec.DecodeError, UnicodeEncodeError):
        return "", _Mark()  # no transfer has this name
    return name, _Mark(number, after, since)
