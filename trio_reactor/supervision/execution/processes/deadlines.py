"""Where deadlines are told: a timer each for the guards, a page of memory for the code.

All units of an execution share one page, each with a slot of its own, so a unit costs no descriptor
for it.  The code's processes can read it and not write.
"""

from __future__ import annotations

import os
from math import isnan
from typing import Final, final

__all__ = ["SLOT_BYTES", "Deadlines"]

SLOT_BYTES: Final = 16
_FAR: Final = 2**62


@final
class Deadlines:
    """The page of one execution."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("trio-reactor-deadlines", os.MFD_CLOEXEC)
        self._size = 0
        self._free: list[int] = []

    def take(self) -> int:
        """A slot, as the place in the page where it begins."""
        if self._free:
            return self._free.pop()
        slot = self._size
        self._size += SLOT_BYTES
        os.ftruncate(self.fd, self._size)
        return slot

    def give_back(self, slot: int) -> None:
        """Nobody reads it any more."""
        self._free.append(slot)

    def close(self) -> None:
        """Let go of the page; whoever has it mapped or open keeps it."""
        os.close(self.fd)


def tell(fd: int, slot: int, at: float) -> None:
    """Write down an instant, twice: who reads two different ones reads again."""
    told = 0 if isnan(at) else max(0, min(_FAR, int(at * 1e9))) if at < _FAR / 1e9 else _FAR
    encoded = told.to_bytes(8, "little")
    os.pwrite(fd, encoded + encoded, slot)


def told(fd: int, slot: int) -> float:
    """The instant that was written down last."""
    return int.from_bytes(os.pread(fd, 8, slot), "little") / 1e9
