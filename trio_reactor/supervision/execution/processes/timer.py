"""A timer of the kernel's on the machine's clock, which another process can wait for."""

from __future__ import annotations

import os
import sys
import time
from math import isnan
from typing import Final

__all__ = ["make_timer", "set_timer", "time_left"]

_CLOEXEC: Final = os.O_CLOEXEC
_NONBLOCK: Final = os.O_NONBLOCK
_ABSOLUTE: Final = 1

if sys.version_info >= (3, 13):

    def make_timer() -> int:
        """A descriptor of a timer that is not set.

        Raises:
            OSError: There are no more descriptors.
        """
        return os.timerfd_create(time.CLOCK_BOOTTIME, flags=_CLOEXEC | _NONBLOCK)

    def set_timer(fd: int, at: float) -> None:
        """Have it go off at that instant of the machine's clock, at once if it has passed.

        Raises:
            OSError: It is no timer.
        """
        os.timerfd_settime_ns(fd, flags=_ABSOLUTE, initial=_nanoseconds(at))

    def time_left(fd: int) -> float:
        """Seconds until it goes off; zero once it has.

        Raises:
            OSError: It is no timer.
        """
        left, _ = os.timerfd_gettime_ns(fd)
        return left / 1e9

else:
    import ctypes

    class _Setting(ctypes.Structure):
        _fields_ = (
            ("interval_seconds", ctypes.c_long),
            ("interval_nanoseconds", ctypes.c_long),
            ("seconds", ctypes.c_long),
            ("nanoseconds", ctypes.c_long),
        )

    _library = ctypes.CDLL(None, use_errno=True)
    _create = _library.timerfd_create
    _set = _library.timerfd_settime
    _get = _library.timerfd_gettime

    def make_timer() -> int:
        """A descriptor of a timer that is not set.

        Raises:
            OSError: There are no more descriptors.
        """
        fd: int = _create(time.CLOCK_BOOTTIME, _CLOEXEC | _NONBLOCK)
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return fd

    def set_timer(fd: int, at: float) -> None:
        """Have it go off at that instant of the machine's clock, at once if it has passed.

        Raises:
            OSError: It is no timer.
        """
        seconds, nanoseconds = divmod(_nanoseconds(at), 1_000_000_000)
        setting = _Setting(0, 0, seconds, nanoseconds)
        if _set(fd, _ABSOLUTE, ctypes.byref(setting), None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def time_left(fd: int) -> float:
        """Seconds until it goes off; zero once it has.

        Raises:
            OSError: It is no timer.
        """
        setting = _Setting()
        if _get(fd, ctypes.byref(setting)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return float(setting.seconds) + float(setting.nanoseconds) / 1e9


_FAR: Final = 2**62
"""In nanoseconds: a century and a half."""


def _nanoseconds(at: float) -> int:
    """Within what the kernel takes; zero would switch it off.  What is no number is over."""
    if isnan(at):
        return 1
    return max(1, min(_FAR, int(at * 1e9))) if at < _FAR / 1e9 else _FAR
