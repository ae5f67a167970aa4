"""What carries a launch's nonce: the processes that belong to it, found without their guard.

Whatever is started inherits the environment, and with it the nonce; what has thrown that away still
is below something that has not, or in its guard's session.

One thing escapes: a process that threw its environment away, has a session of its own, and whose
ancestors have all ended *together with their guard*.  While the guard lives nothing does, since all
is below it; and a control group (`LocalProcesses(cgroup=...)`) holds this one too.
"""

from __future__ import annotations

import os

from trio_reactor.supervision.model.child import ProcessIdentity

from .identity import boot_id, pid_namespace, stat_fields

__all__ = ["NONCE_VARIABLE", "carriers_of"]

NONCE_VARIABLE = "TRIO_REACTOR_LAUNCH"


def carriers_of(nonce: str, *, session: int | None = None) -> list[ProcessIdentity]:
    """The processes that live now and belong to a launch.

    It reads all of `/proc`, so it is for a thread.

    Args:
        nonce: What they carry in their environment or among their arguments.
        session: The guard's process id, if it is certain that it has not been given again.
    """
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
        except OSError:
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
            except OSError:
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
