"""What carries a launch's nonce: the processes that belong to it, found without their guard.

Whatever is started inherits the environment, and with it the nonce; what has thrown that away still
is below something that has not, or in its guard's session.

One thing escapes: a process that threw its environment away, has a session of its own, and whose
ancestors have all ended *together with their guard*.  While the guard lives nothing does, since all
is below it; and a control group (`LocalProcesses(cgroup=...)`) holds this one too.
"""

from __future__ import annotations

import os
from typing import Final

from trio_reactor.supervision.model.child import ProcessIdentity

from .identity import boot_id, pid_namespace, stat_fields

__all__ = ["MIN_NONCE", "NONCE_VARIABLE", "carriers_of", "check_nonce"]

NONCE_VARIABLE: Final = "TRIO_REACTOR_LAUNCH"
MIN_NONCE: Final = 16
"""Characters of a nonce: whatever carries it is ended, so nothing may carry it by chance."""
_MAX_NONCE: Final = 200


def check_nonce(nonce: str) -> None:
    """See that a launch's nonce can be one.

    Raises:
        ValueError: It is too short, too long, or not of letters and digits.
    """
    if not MIN_NONCE <= len(nonce) <= _MAX_NONCE:
        raise ValueError(
            f"the launch's nonce must have {MIN_NONCE} to {_MAX_NONCE} characters, "
            f"and has {len(nonce)}"
        )
    if not (nonce.isascii() and nonce.isalnum()):
        raise ValueError("the launch's nonce must be letters and digits")


def carriers_of(nonce: str, *, session: int | None = None) -> list[ProcessIdentity]:
    """The processes that live now and belong to a launch.

    It reads all of `/proc`, so it is for a thread.

    Args:
        nonce: What they carry in their environment or among their arguments.
        session: The guard's process id, if it is certain that it has not been given again.

    Raises:
        OSError: A process cannot be looked at for a reason of ours, so nothing is certain.
        ValueError: It is no nonce.
    """
    check_nonce(nonce)
    wanted = nonce.encode()
    parents: dict[int, int] = {}
    starts: dict[int, int] = {}
    found: set[int] = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        pid = int(entry)
        try:
            fields = stat_fields(pid)
        except ProcessLookupError:
            continue  # it ended meanwhile
        parents[pid] = int(fields[1])
        if fields[0] in (b"Z", b"X"):
            continue
        starts[pid] = int(fields[19])
        if session is not None and int(fields[3]) == session:
            found.add(pid)
            continue
        for name in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if wanted in file.read():
                        found.add(pid)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # another user's, so not ours; or it ended meanwhile
    found.discard(os.getpid())
    grown = True
    while grown:
        below = {pid for pid, parent in parents.items() if parent in found and pid in starts}
        grown = not below <= found
        found |= below
    return [
        ProcessIdentity(pid, starts[pid], boot_id(), pid_namespace())
        for pid in sorted(found)
        if pid != os.getpid()
    ]
