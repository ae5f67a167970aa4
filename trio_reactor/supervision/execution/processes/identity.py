"""Which process is meant: a process id alone says nothing, since it is given again.

A process is signalled through a descriptor of it, which is opened first and stays the same
process's; then it is seen whether that is the one that is meant; then the signal is sent.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from trio_reactor.supervision.model.child import ProcessIdentity

__all__ = [
    "boot_id",
    "identity_of",
    "is_ended",
    "is_same",
    "pid_namespace",
    "verified",
]


_NONE_OF_THAT_ID: Final = (errno.ESRCH, errno.ENOENT, errno.EINVAL)
"""Also where that is a thread's."""


@functools.cache
def boot_id() -> str:
    """Which start of the machine this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@functools.cache
def pid_namespace() -> int:
    """The namespace in which process ids count here."""
    return os.stat("/proc/self/ns/pid").st_ino


def stat_fields(pid: int) -> list[bytes]:
    """What the kernel says of a process, from its state on (the third field in its manual).

    Raises:
        ProcessLookupError: There is none.
        OSError: It cannot be seen: there are no more descriptors, for instance.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, "there is no such process") from None


def identity_of(pid: int) -> ProcessIdentity:
    """The identity of a process that has that id now.

    Raises:
        ProcessLookupError: There is none.
        OSError: It cannot be seen.
    """
    return ProcessIdentity(pid, int(stat_fields(pid)[19]), boot_id(), pid_namespace())


def is_ended(pid: int) -> bool:
    """Whether the process of that id has ended, be it that nobody has collected it yet.

    Raises:
        OSError: It cannot be seen, which says nothing about it.
    """
    try:
        return stat_fields(pid)[0] in (b"Z", b"X")
    except ProcessLookupError:
        return True


def is_same(identity: ProcessIdentity) -> bool:
    """Whether the process that has that id now is the one that is meant, and lives.

    Raises:
        OSError: It cannot be seen, which says nothing about it.
    """
    try:
        return identity_of(identity.pid) == identity and not is_ended(identity.pid)
    except ProcessLookupError:
        return False


@contextmanager
def verified(identity: ProcessIdentity) -> Generator[int | None]:
    """A descriptor of exactly that process; `None` if it is no more.

    Raises:
        OSError: It cannot be seen, which says nothing about it.
    """
    if identity.boot_id != boot_id() or identity.pid_namespace != pid_namespace():
        yield None
        return
    try:
        fd = os.pidfd_open(identity.pid)
    except OverflowError:
        yield None
        return
    except OSError as failure:
        if failure.errno not in _NONE_OF_THAT_ID:
            raise
        yield None
        return
    try:
        yield fd if is_same(identity) else None
    finally:
        os.close(fd)
