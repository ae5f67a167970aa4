"""Where the code is: what its interpreter can tell, and what the kernel knows in any case.

The code can answer slowly, or for ever; so what it says is waited for within a bound, and not at
all once the deadline has passed or the supervisor is gone.
"""

from __future__ import annotations

import os
import select
import time

from .given import TIMER
from .kernel import catches, children_of

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    from typing import Final

SIGNAL_STACK: Final = 64
"""What has the interpreter write down where its threads are: the last real-time signal."""
MAX_STACK: Final = 65_536
STACK_QUIET: Final = 0.05
"""Seconds without another byte after which a stack is all there."""
STACK_PATIENCE: Final = 1.0
"""Seconds that a process is given to write its stack."""
MAX_PROCESSES: Final = 64
"""Processes that are told of."""


def take_stack(pid: int, pipe: int, control: int | None, forked: bytes) -> bytes:
    """Where the code is, as text for a person.

    Args:
        pid: The code's process, which has not been collected.
        pipe: Where its interpreter writes.
        control: The supervisor's socket, if there is one.
        forked: What a process is told to be that is this one's copy still.
    """
    told = _ask(pid, pipe, control) if catches(pid, SIGNAL_STACK) else b""
    return (without_own_frames(told) + b"\n\n" + _kernel_view(pid, forked)).strip()


def _ask(pid: int, pipe: int, control: int | None) -> bytes:
    """What its interpreter writes."""
    wait = select.poll()
    wait.register(pipe, select.POLLIN)
    wait.register(TIMER, select.POLLIN)
    if control is not None:
        wait.register(control, 0)  # its end alone
    os.kill(pid, SIGNAL_STACK)
    told = b""
    until = time.monotonic() + STACK_PATIENCE
    while len(told) < MAX_STACK and (left := until - time.monotonic()) > 0:
        ready = wait.poll(1000 * (min(left, STACK_QUIET) if told else left))
        if [fd for fd, _ in ready] != [pipe]:
            break  # all there, or there is something more urgent
        piece = os.read(pipe, MAX_STACK - len(told))
        if not piece:
            break
        told += piece
    return told


def without_own_frames(stack: bytes) -> bytes:
    """A stack without the frames that called the code, with which each thread's may end."""
    here = os.path.dirname(without_own_frames.__code__.co_filename)
    own = (b'  File "%s/' % os.fsencode(here), b'  File "<string>", ')
    kept: list[bytes] = []
    ending = True
    for line in reversed(stack.splitlines()):
        ending = not line or (ending and line.startswith(own))
        if not line or not ending:
            kept.append(line)
    return b"\n".join(reversed(kept))


def _kernel_view(code: int, forked: bytes) -> bytes:
    """What the kernel says of the code's process and of those right below it."""
    lines = [b"as the kernel sees it:"]
    try:
        with open("/proc/self/cmdline", "rb") as file:
            own = file.read(256)
        pids = (code, *children_of(code))
    except OSError as failure:
        return b"the kernel does not tell: " + str(failure).encode()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read(256)
            # What was only forked has this process's arguments, which tell nothing of it.
            command = forked if command == own else command.replace(b"\0", b" ")
            with open(f"/proc/{pid}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            with open(f"/proc/{pid}/wchan", "rb") as file:
                place = file.read(64)
        except OSError:
            continue  # it ended meanwhile
        lines.append(b"  %d state %s in %s: %s" % (pid, state, place or b"0", command))
        if len(lines) > MAX_PROCESSES:
            break
    return b"\n".join(lines)
