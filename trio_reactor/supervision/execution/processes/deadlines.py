"""Where deadlines are told: a timer each for the guards, a page of memory for the code.

The units of an execution share a page, each with a slot of its own, so a unit costs no descriptor
for it.  What is in the page is told to the code and decides nothing: the timer ends it.

The code's processes are of this process's user, so they can open what they can read; the kernel is
told to refuse.  Nobody can make a page shorter or longer, and nobody but this process can write to
it: it has it in its memory since before that was forbidden.  Where a child can be adopted its next
supervisor has to write there, too, so that page can be written by whoever opens it again.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import weakref
from contextlib import suppress
from math import isnan
from typing import Final, final

from trio_reactor.supervision.errors import ExecutionFailed

__all__ = ["MAX_SLOTS", "SLOT_BYTES", "Deadlines", "tell", "told"]

SLOT_BYTES: Final = 16
MAX_SLOTS: Final = 65_536
"""Units of one execution that live at the same time; the page takes up what is written to."""
_PAGE_BYTES: Final = SLOT_BYTES * MAX_SLOTS
_SEAL_FUTURE_WRITE: Final = 0x10
"""Linux 5.1 has it, `fcntl` does not."""
_FAR: Final = 2**62


@final
class Deadlines:
    """A page of one execution.

    Args:
        shared: Whether others are to write to it, too: the supervisors that adopt a child.

    Raises:
        OSError: There are no more descriptors.
    """

    def __init__(self, *, shared: bool) -> None:
        self.fd = os.memfd_create("trio-reactor-deadlines", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, self.fd)
        os.ftruncate(self.fd, _PAGE_BYTES)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
        self._memory: mmap.mmap | None = None
        if not shared:
            self._memory = mmap.mmap(self.fd, _PAGE_BYTES)
            with suppress(OSError):  # an older kernel: then it is as a shared one
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEAL_FUTURE_WRITE)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals | fcntl.F_SEAL_SEAL)
        self._used = 0
        self._free: list[int] = []

    def take(self) -> int:
        """A slot, as the place in the page where it begins.

        Raises:
            ExecutionFailed: `MAX_SLOTS` are taken.
        """
        if self._free:
            return self._free.pop()
        if self._used == MAX_SLOTS:
            raise ExecutionFailed(f"an execution has at most {MAX_SLOTS} children at a time")
        slot = self._used * SLOT_BYTES
        self._used += 1
        return slot

    def give_back(self, slot: int) -> None:
        """Nobody reads it any more."""
        self._free.append(slot)

    def tell(self, slot: int, at: float) -> None:
        """Write down an instant for whoever reads that slot."""
        if self._memory is None:
            tell(self.fd, slot, at)
        else:
            self._memory[slot : slot + SLOT_BYTES] = _encoded(at)


def tell(fd: int, slot: int, at: float) -> None:
    """Write down an instant in a page that is shared."""
    os.pwrite(fd, _encoded(at), slot)


def told(fd: int, slot: int) -> float:
    """The instant that was written down last."""
    return int.from_bytes(os.pread(fd, 8, slot), "little") / 1e9


def _encoded(at: float) -> bytes:
    """An instant, twice: who reads two different ones reads again."""
    instant = 0 if isnan(at) else max(0, min(_FAR, int(at * 1e9))) if at < _FAR / 1e9 else _FAR
    return instant.to_bytes(8, "little") * 2
