"""How the child of a supervisor that is gone is found and ended."""

from __future__ import annotations

import signal
from pathlib import Path

import trio

from trio_reactor.supervision.errors import TerminationUnconfirmed
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.ends import ExitStatus

from . import limits
from .carriers import check_nonce
from .endings import end_carriers
from .identity import boot_id, pid_namespace, verified

__all__ = ["recover"]


async def recover(orphan: Orphan, *, cgroup: Path | None, timeout: float) -> ExitStatus | None:
    """Find the child of a supervisor that is gone, and end it and whatever it started.

    A child that was never registered runs none of the user's code: only the supervisor that made
    it could have it do so, through a socket that nobody else has.  So one that appears after it
    was looked for does no harm; it ends itself at once, on finding its supervisor gone.

    Args:
        orphan: What is known of it.
        cgroup: Where children's control groups are made.
        timeout: Seconds that it may take to end.

    Returns:
        How it ended, which nobody can know who is not its parent; `None` if there is none.

    Raises:
        TerminationUnconfirmed: It may still run.
    """
    launch, child = orphan.launch, orphan.child
    process = None if child is None else child.process
    booted = launch.boot_id or ("" if process is None else process.boot_id)
    await trio.lowlevel.checkpoint()
    if booted and booted != boot_id():
        return None  # no process outlives its machine
    if process is not None and process.pid_namespace != pid_namespace():
        raise TerminationUnconfirmed(
            f"process {process.pid} is of another namespace, and cannot be seen from here"
        )
    try:
        check_nonce(launch.nonce)
    except ValueError as failure:
        raise TerminationUnconfirmed(f"it cannot be looked for: {failure}") from failure
    try:
        return await _end(orphan, cgroup=cgroup, timeout=timeout)
    except OSError as failure:
        raise TerminationUnconfirmed(
            f"what an earlier supervisor left behind cannot be looked for: {failure.strerror}"
        ) from failure


async def _end(orphan: Orphan, *, cgroup: Path | None, timeout: float) -> ExitStatus | None:
    launch = orphan.launch
    process = None if orphan.child is None else orphan.child.process
    found = False
    with trio.move_on_after(timeout) as scope:
        if process is not None:
            with verified(process) as fd:
                if fd is not None:
                    found = True
                    # Its guard ends everything below it, and itself when nothing is left.
                    try:
                        signal.pidfd_send_signal(fd, signal.SIGTERM)
                        signal.pidfd_send_signal(fd, signal.SIGCONT)
                    except (ProcessLookupError, PermissionError):
                        pass
                    with trio.move_on_after(min(1.0, timeout / 2)):
                        await trio.lowlevel.wait_readable(fd)
        group = None if cgroup is None else str(cgroup / launch.nonce)
        if group is not None:
            limits.kill(group)
        found = bool(await end_carriers(launch.nonce)) or found
        if group is not None:
            limits.discard(group)
    if scope.cancelled_caught:
        raise TerminationUnconfirmed("what an earlier supervisor left behind does not end")
    return ExitStatus() if found else None
