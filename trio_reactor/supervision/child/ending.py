"""How a guard ends all that is below it, and sees that nothing is left.

What the code starts stays below the guard, whatever sessions and groups it is in: whose parent ends
becomes a child of the guard's, a subreaper.  So killing its children until it has none ends all.
Nothing here needs a descriptor or memory that could be refused, but a control group's.
"""

# ruff: noqa: SIM105 - it does without `contextlib`

from __future__ import annotations

import os
import select

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    import signal as _signal
    from typing import Final

    from .kernel import Below
else:
    import _signal  # what `signal` is made from, without the enumerations that cost time

RECHECK_MS: Final = 20
"""Milliseconds after which what does not end is killed again: a process can become killable."""


def end_all(below: Below, code: int, cgroup: str | None, wake: int) -> int | None:
    """Kill everything below this process until there is nothing.

    Args:
        below: What is directly below it.
        code: The code's process, which has not been collected; 0 if there is none.
        cgroup: Their control group, if they have one.
        wake: What can be read when a child ended.

    Returns:
        How the code ended, as `waitpid` says; `None` if that is not known.
    """
    if cgroup:
        _kill_group(cgroup)
    if code:
        try:
            os.killpg(code, _signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # its members are ended one by one
    status: int | None = None
    wait = select.poll()
    wait.register(wake, select.POLLIN)
    while True:
        for pid in below.now():
            try:
                os.kill(pid, _signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        try:
            ended, how = os.waitpid(-1, os.WNOHANG)
            while ended:
                if ended == code:
                    status = how
                ended, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if wait.poll(RECHECK_MS):
            try:
                os.read(wake, 4096)
            except BlockingIOError:
                pass
    if cgroup:
        try:
            os.rmdir(cgroup)
        except OSError:
            pass  # the supervisor sees to it
    return status


def _kill_group(cgroup: str) -> None:
    try:
        kill = os.open(f"{cgroup}/cgroup.kill", os.O_WRONLY)
        os.write(kill, b"1")
        os.close(kill)
    except OSError:
        pass  # then one by one
