"""This process, as other processes of the machine can know it."""

from __future__ import annotations

import os
from pathlib import Path

from trio_reactor.supervision.model.child import ProcessIdentity

__all__ = ["is_seen_dead", "this_process"]


def this_process() -> ProcessIdentity:
    """Who this process is; what the system does not tell is empty, and equal to nothing."""
    pid = os.getpid()
    return ProcessIdentity(pid, _start_time(pid) or 0, _boot_id(), _pid_namespace())


def is_seen_dead(process: ProcessIdentity) -> bool:
    """Whether it certainly is no more: it would have to be here, and is not.

    Of a process of another start of the machine, or another namespace, nothing can be seen from
    here; nor where there is no `/proc`.
    """
    here = this_process()
    if not here.boot_id or not here.start_time or not here.pid_namespace:
        return False
    if (process.boot_id, process.pid_namespace) != (here.boot_id, here.pid_namespace):
        return False
    started = _start_time(process.pid)
    if started is None:
        return not _exists(process.pid)
    return started != process.start_time


def _exists(pid: int) -> bool:
    """Whether a process may have this id, also if `/proc` hides those of other users."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _start_time(pid: int) -> int | None:
    """When a process was started, in the kernel's ticks; `None` if none is seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may hold anything, parentheses too.
    state, *fields = stat.rpartition(b")")[2].split()
    # One that was killed and not yet reaped by its parent runs no more.
    return 0 if state in {b"Z", b"X"} else int(fields[18])
