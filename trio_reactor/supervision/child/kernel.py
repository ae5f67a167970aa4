"""What a guard asks of the kernel, without the modules that would cost time to import."""

# ruff: noqa: SIM105 - it does without `contextlib`

from __future__ import annotations

import _ctypes
import os

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Container
    from typing import Any, Final
else:
    import _signal  # what `signal` is made from, without the enumerations that cost time

PDEATHSIG: Final = 1
DUMPABLE: Final = 4
CHILD_SUBREAPER: Final = 36

_FIRST_GIVEN: Final = 3
_OF_THE_C_LIBRARY: Final = (32, 33)
_READ_AT_ONCE: Final = 65_536


def prctl(option: int, value: int) -> None:
    """Ask the kernel for something about this process."""
    program: Any = None  # the running program itself, which the stubs do not know of
    address = _ctypes.dlsym(_ctypes.dlopen(program, 0), "prctl")
    if _ctypes.call_function(address, (option, value, 0, 0, 0)) != 0:
        raise OSError(f"prctl({option}) failed")


def block_all_but(numbers: Container[int]) -> None:
    """Have no other signal end this process, or stop it, than those that nothing keeps off."""
    blocked = (
        number
        for number in range(1, _signal.NSIG)
        if number not in numbers and number not in _OF_THE_C_LIBRARY
    )
    _signal.pthread_sigmask(_signal.SIG_BLOCK, blocked)


def close_others(kept: Container[int]) -> None:
    """Close every descriptor but those, and the first three."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd >= _FIRST_GIVEN and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # that of the listing itself


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal, without which it would die of it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            caught = file.read().partition(b"SigCgt:")[2].split(None, 1)[0]
    except (OSError, IndexError):
        return False  # it ended meanwhile
    return bool(int(caught, 16) >> (number - 1) & 1)


def children_of(pid: int) -> list[int]:
    """The processes directly below one, as far as the kernel can tell at the moment."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as listing:
            return [int(word) for word in listing.read().split()]
    except FileNotFoundError:
        return _children_by_looking(pid)


def _children_by_looking(pid: int) -> list[int]:
    """The same, of a kernel that keeps no list."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as listing:
                    fields = listing.read().rpartition(b")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
            if int(fields[1]) == pid:
                found.append(int(entry))
    return found


class Below:
    """The processes directly below this one.

    The kernel's list is opened once: it can be read when there is no descriptor left to be had.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._fd = -1
        try:
            self._fd = os.open(f"/proc/self/task/{self._pid}/children", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            pass  # this kernel keeps none

    def now(self) -> list[int]:
        """Those that it has at the moment."""
        if self._fd < 0:
            return _children_by_looking(self._pid)
        os.lseek(self._fd, 0, os.SEEK_SET)
        listed = b""
        while piece := os.read(self._fd, _READ_AT_ONCE):
            listed += piece
        return [int(word) for word in listed.split()]
