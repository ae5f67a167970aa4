"""Which rooms are lost, and which discovery may give one back.

Discoveries are counted as they *begin*.  A fence remembers how many had begun when it went up, and
whether the room has been erased since.  So of a discovery that lists a fenced room it can be said:

| the discovery began | the room | then |
|---|---|---|
| before the fence | is being erased, or is erased | it is old news: the fence stays |
| after the fence | is being erased | the fence stays, and another discovery is owed |
| after the fence | is erased | the room is given back, as a new one |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import msgspec

__all__ = ["Admission", "Fences"]


class _Fence(msgspec.Struct):
    begun: int
    erased: bool = False


class Admission(msgspec.Struct, frozen=True):
    """What becomes of the rooms that a discovery lists."""

    admitted: tuple[str, ...]
    """Those that are followed, in their order."""
    owes: bool
    """Whether another discovery is owed, once what is being erased is."""


@final
class Fences:
    """The rooms that are lost."""

    def __init__(self, interrupted: Iterable[str] = ()) -> None:
        self._begun = 0
        self._fences = {room: _Fence(0) for room in interrupted}

    def __contains__(self, room: object) -> bool:
        """Whether a room is lost."""
        return room in self._fences

    @property
    def unerased(self) -> tuple[str, ...]:
        """The rooms that are lost and not erased."""
        return tuple(room for room, fence in self._fences.items() if not fence.erased)

    def begin(self) -> int:
        """Count a discovery that begins; returns its number."""
        self._begun += 1
        return self._begun

    def raise_(self, rooms: Iterable[str]) -> tuple[str, ...]:
        """Fence rooms; returns those that were not fenced, or were erased, so that they must be."""
        fresh: list[str] = []
        for room in dict.fromkeys(rooms):
            fence = self._fences.get(room)
            if fence is None:
                self._fences[room] = _Fence(self._begun)
                fresh.append(room)
            else:
                fence.begun = self._begun
        return tuple(fresh)

    def erased(self, rooms: Iterable[str]) -> None:
        """Hear that nothing is left of rooms."""
        for room in rooms:
            fence = self._fences.get(room)
            if fence is not None:
                fence.erased = True

    def admit(self, listed: Iterable[str], discovery: int) -> Admission:
        """Decide about the rooms that a discovery lists; what is given back is fenced no more."""
        admitted: list[str] = []
        owes = False
        for room in listed:
            fence = self._fences.get(room)
            if fence is not None and fence.begun < discovery:
                if fence.erased:
                    del self._fences[room]
                    fence = None
                else:
                    owes = True
            if fence is None:
                admitted.append(room)
        return Admission(tuple(admitted), owes)
