"""Exclusive ownership of a file, which ends with the process, however that ends.

It is a POSIX record lock.  A child that is forked does not have it, so a child that outlives
its owner does not keep the next one out, as it would with `flock`.  Two things are to be known
of such locks, and are seen to here.  They do not exclude one another within one process: a registry
does.  And a process that closes *any* descriptor of a file loses its locks on it: so the lock is on
a file of its own, which nobody has a reason to open, and which is never opened twice here.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

__all__ = ["Owned", "owned"]


class Owned(Exception):
    """Somebody has it.

    Args:
        here: Whether it is this process.
    """

    def __init__(self, *, here: bool) -> None:
        super().__init__("this process has it" if here else "another process has it")
        self.here = here


_guard: Final = threading.Lock()
_held: Final[dict[tuple[int, int, int], list[int]]] = {}
"""The descriptors of the lock files that are locked here, by process, device and inode."""


@contextmanager
def owned(path: str) -> Generator[None]:
    """Own a lock file, which is made if it is not there, for a block.  Blocks nobody.

    Raises:
        Owned: Somebody has it.
        OSError: It cannot be made, opened or locked.
    """
    identity = _acquire(path)
    try:
        yield
    finally:
        with _guard:
            for descriptor in _held.pop(identity):
                os.close(descriptor)


def _acquire(path: str) -> tuple[int, int, int]:
    with _guard:
        while True:
            try:
                # Before it is opened: to close it again would end the lock.
                if _identity(os.stat(path)) in _held:
                    raise Owned(here=True)
            except FileNotFoundError:
                pass
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            identity = _identity(os.fstat(descriptor))
            if identity in _held:  # put there by a rename just now
                _held[identity].append(descriptor)
                raise Owned(here=True)
            if not _locked(descriptor):
                raise Owned(here=False)
            try:
                same = _identity(os.stat(path)) == identity
            except FileNotFoundError:
                same = False
            if same:
                _held[identity] = [descriptor]
                return identity
            os.close(descriptor)  # somebody removed it meanwhile: it keeps nobody out


def _locked(descriptor: int) -> bool:
    """Lock it, or close it."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        return False
    except BaseException:  # it is closed whatever that was
        os.close(descriptor)
        raise
    return True


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    # What was locked before a fork is not locked in the child.
    return (os.getpid(), found.st_dev, found.st_ino)
