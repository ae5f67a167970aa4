"""Announcements that are too large to be sent at once, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import msgspec

from trio_reactor.rooms.provider.protocol import Announced, Announcement, Part, Said

from .options import MemoryOptions

__all__ = ["Parting"]


class _Parted(msgspec.Struct, frozen=True):
    room: str
    parts: tuple[Part, ...]


@final
class Parting:
    """Makes announcements of a room small enough, and keeps those that were sent in parts.

    Args:
        options: The bounds.
        identifier: Gives a key that no other announcement had.
    """

    def __init__(self, options: MemoryOptions, identifier: Callable[[], str]) -> None:
        self._options = options
        self._identifier = identifier
        self._kept: dict[str, _Parted] = {}

    def divide(self, announcement: Announced | Said) -> tuple[Announcement, ...]:
        """What is sent of an announcement: without what is too large, and in parts if need be."""
        match announcement:
            case Announced(room, version, change) if self._over(change):
                announcement = Announced(room, version)
            case Said(room, message) if self._over(message):
                announcement = Said(room)
            case _:
                pass
        data, size = msgspec.json.encode(announcement), self._options.part_bytes
        if len(data) <= size:
            return (announcement,)
        pieces = [data[begin : begin + size] for begin in range(0, len(data), size)]
        key = self._identifier()
        parts = tuple(Part(key, number, len(pieces), piece) for number, piece in enumerate(pieces))
        self._kept[key] = _Parted(announcement.room, parts)
        if len(self._kept) > self._options.max_parted:
            del self._kept[next(iter(self._kept))]
        return parts

    def missing(self, held: Mapping[str, tuple[int, ...]]) -> tuple[tuple[str, Part], ...]:
        """The parts that are not there of announcements that are not whole, with their rooms."""
        return tuple(
            (kept.room, part)
            for key, numbers in held.items()
            if (kept := self._kept.get(key)) is not None
            for part in kept.parts
            if part.number not in numbers
        )

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()

    def end(self, room: str) -> None:
        """Forget what was announced of a room."""
        for key, kept in tuple(self._kept.items()):
            if kept.room == room:
                del self._kept[key]

    def _over(self, what: object) -> bool:
        most = self._options.change_bytes
        return what is not None and len(msgspec.json.encode(what)) > most
