"""What is left of a guard that has ended: how it ended, and what it may not have ended itself."""

from __future__ import annotations

import os
from typing import Final

import trio

from trio_reactor.supervision.model.ends import ExitStatus

from . import limits
from .endings import end_carriers
from .output import Tail

__all__ = ["collect", "exit_of", "read_rest", "sweep"]

_MAX_PIECE: Final = 65_536
_MAX_PIECES: Final = 64
"""More than a pipe holds."""


def exit_of(status: int) -> ExitStatus:
    """From what `os.waitstatus_to_exitcode` gives."""
    return ExitStatus(code=status) if status >= 0 else ExitStatus(signal=-status)


def collect(pid: int, *, keep: bool = False) -> ExitStatus | None:
    """How a child of this process's ended.

    Args:
        pid: Its process id.
        keep: Whether it is left to be collected later, so that its id stays its own.

    Returns:
        `None` if that cannot be known: the application ignores its children's ends, or waits for
        all of them.
    """
    how = os.WEXITED | os.WNOHANG | (os.WNOWAIT if keep else 0)
    try:
        ended = os.waitid(os.P_PID, pid, how)
    except ChildProcessError:
        return None
    if ended is None:
        return None
    if ended.si_code == os.CLD_EXITED:
        return ExitStatus(code=ended.si_status)
    return ExitStatus(signal=ended.si_status)


def read_rest(output: int, tail: Tail) -> None:
    """Read what is still in the pipe that nobody writes to any more."""
    for _ in range(_MAX_PIECES):
        try:
            piece = os.read(output, _MAX_PIECE)
        except BlockingIOError:
            break
        if not piece:
            break
        tail.add(piece)


async def sweep(
    nonce: str, *, cgroup: str | None, session: int | None, timeout: float
) -> str | None:
    """End from outside what a guard did not live to end.

    Args:
        nonce: What that carries.
        cgroup: Its control group, if it has one.
        session: The guard's process id, if nobody has collected it.
        timeout: Seconds that it may take.

    Returns:
        Why it is not certain that nothing is left; `None`: it is.
    """
    if cgroup is not None:
        limits.kill(cgroup)
    try:
        with trio.move_on_after(timeout) as scope:
            await end_carriers(nonce, session=session)
    except OSError as failure:
        return f"what its guard left behind cannot be looked for: {failure.strerror}"
    return "what its guard left behind does not end" if scope.cancelled_caught else None
