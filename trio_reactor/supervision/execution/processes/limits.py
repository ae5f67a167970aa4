"""How limits are enforced.

By a control group where one can be written, else by the kernel's limits of each process.  What
neither can hold is refused, or recorded as not held.
"""

from __future__ import annotations

import errno
import math
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from trio_reactor.supervision.errors import LimitRefused
from trio_reactor.supervision.model.work import Enforced, Enforcement, Limits

from .identity import stat_fields

__all__ = ["Plan", "apply", "plan"]

_RESOURCES: Final = {
    "memory": resource.RLIMIT_AS,
    "cpu_time": resource.RLIMIT_CPU,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}
_CONTROLLERS: Final = {"memory": "memory.max", "processes": "pids.max"}


class Plan(msgspec.Struct, frozen=True):
    """What is to be set for one child."""

    enforced: Enforced
    rlimits: tuple[tuple[int, int], ...] = ()
    """Which of the kernel's limits, and its value."""
    cgroup: str | None = None
    """The control group to be made for it."""
    settings: tuple[tuple[str, str], ...] = ()
    """What is written to files of that group."""

    @property
    def is_gated(self) -> bool:
        """Whether the code's process has to wait until its limits are set."""
        return bool(self.rlimits) or self.cgroup is not None


def plan(
    limits: Limits,
    *,
    cgroup: Path | None,
    name: str,
    unenforceable: Literal["refuse", "record"],
    privileged: bool,
) -> Plan:
    """Decide how each limit is to hold.

    Args:
        limits: What is asked for.
        cgroup: A control group in which others can be made, if there is one.
        name: What that of this child is called.
        unenforceable: What to do about a limit that cannot hold.
        privileged: Whether the kernel exempts this process's user from its limit of processes.

    Raises:
        LimitRefused: One cannot hold.
    """
    controllers = _controllers(cgroup)
    rlimits: list[tuple[int, int]] = []
    settings: list[tuple[str, str]] = []
    held: dict[str, Enforcement | None] = {}
    for limit in limits.__struct_fields__:
        bound: float | None = getattr(limits, limit)
        if bound is None:
            held[limit] = None
        elif _CONTROLLERS.get(limit, "").partition(".")[0] in controllers:
            settings.append((_CONTROLLERS[limit], str(math.ceil(bound))))
            held[limit] = "cgroup"
        elif limit == "processes" and privileged:
            if unenforceable == "refuse":
                raise LimitRefused(
                    f"a limit of {bound} processes cannot be enforced: there is no control group "
                    "for it, and the kernel exempts a privileged user from its own",
                    limit=limit,
                )
            held[limit] = "none"
        else:
            rlimits.append((_RESOURCES[limit], math.ceil(bound)))
            held[limit] = "rlimit"
    return Plan(
        Enforced(**held),
        tuple(rlimits),
        None if cgroup is None else str(cgroup / name),
        tuple(settings),
    )


def prepare(plan: Plan) -> None:
    """Make the control group and set its bounds, before there is a child.

    Raises:
        LimitRefused: It cannot be.
    """
    if plan.cgroup is None:
        return
    try:
        Path(plan.cgroup).mkdir()
        for file, value in plan.settings:
            (Path(plan.cgroup) / file).write_text(value)
    except OSError as failure:
        discard(plan.cgroup)
        raise LimitRefused(
            f"the control group {plan.cgroup} cannot be used: {failure.strerror}", limit="cgroup"
        ) from failure


def apply(plan: Plan, pid: int, *, parent: int) -> None:
    """Set the limits of a process that waits for it.

    Args:
        plan: What is to be set.
        pid: The process that is meant, as it was told.
        parent: Whose child it has to be; that lives, and has not collected it.

    Raises:
        OSError: It is nobody's, or somebody else's; or a limit cannot be set.
    """
    if int(stat_fields(pid)[1]) != parent:
        raise ProcessLookupError(errno.ESRCH, f"process {pid} is not the child's own")
    if plan.cgroup is not None:
        (Path(plan.cgroup) / "cgroup.procs").write_text(str(pid))
    for which, bound in plan.rlimits:
        _, hard = resource.prlimit(pid, which)
        value = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        # A process that ignores the signal for its CPU time is killed a second later.
        spare = 1 if which == resource.RLIMIT_CPU else 0
        ceiling = value + spare if hard == resource.RLIM_INFINITY else min(value + spare, hard)
        resource.prlimit(pid, which, (value, ceiling))


def discard(cgroup: str) -> None:
    """Remove a child's control group, if it is empty."""
    # It may be gone already, or hold what could not be ended, which is told otherwise.
    with suppress(OSError):
        os.rmdir(cgroup)


def kill(cgroup: str) -> None:
    """End everything in a child's control group, if it exists."""
    with suppress(OSError):  # it may be gone; what it holds is looked for one by one, too
        (Path(cgroup) / "cgroup.kill").write_text("1")


def is_privileged() -> bool:
    """Whether the kernel exempts this process's user from its limit of processes."""
    if os.geteuid() == 0:
        return True
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("CapEff:"):
                effective = int(line.split()[1], 16)
                return bool(effective & (1 << 24 | 1 << 21))  # CAP_SYS_RESOURCE, CAP_SYS_ADMIN
    return False


def _controllers(cgroup: Path | None) -> frozenset[str]:
    """Which of them hold for groups made in that one."""
    if cgroup is None:
        return frozenset()
    try:
        return frozenset((cgroup / "cgroup.subtree_control").read_text().split())
    except OSError:
        return frozenset()
