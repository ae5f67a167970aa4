"""Executions as processes of this machine, each under a guard of its own."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, final

import msgspec
import trio

from trio_reactor.supervision.errors import AdoptionFailed, ExecutionFailed
from trio_reactor.supervision.execution.protocol import LaunchOrder, OrphanPolicy, Unit
from trio_reactor.supervision.model.child import Child, Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import PythonCode
from trio_reactor.world import SystemWorld, World

from . import adoption, deadlines, limits, recovery
from .carriers import check_nonce
from .deadlines import Deadlines
from .hub import Hub
from .identity import boot_id, identity_of
from .spawn import Ends, GuardText, spawn
from .timer import make_timer, set_timer, time_left
from .unit import ProcessUnit

__all__ = ["LocalProcesses"]

_DOORSTEP: Final = 16
"""Those who can wait at a guard's door until it asks them in."""


@final
class LocalProcesses:
    """Children that are processes of this machine.

    Each is one interpreter, the guard, and below it the process that runs the code.  See
    `trio_reactor.supervision.child` for what the code is given.

    Args:
        max_output: Bytes kept of what a child writes to its standard output and error, the last.
        cgroup: A directory of the control groups' file system (version 2) that is this
            application's to make others in; the controllers that limits need (`memory`, `pids`)
            are enabled in its `cgroup.subtree_control`.  Without one, limits are the kernel's of
            each process.
        unenforceable: What to do about a limit that cannot be enforced: refuse the launch, or go
            on and record it as `"none"`.
        confirmation_timeout: Seconds, after it was killed, within which a child that is left must
            be seen to have ended.
        world: The clocks and identifiers.

    Raises:
        ExecutionFailed: This is not Linux.
        ValueError: A number is out of its range.
    """

    def __init__(
        self,
        *,
        max_output: int = 65_536,
        cgroup: str | os.PathLike[str] | None = None,
        unenforceable: Literal["refuse", "record"] = "refuse",
        confirmation_timeout: float = 5.0,
        world: World | None = None,
    ) -> None:
        if sys.platform != "linux":
            raise ExecutionFailed(f"local processes need Linux; this is {sys.platform}")
        if max_output < 0:
            raise ValueError(f"max_output must not be negative: {max_output}")
        if not 0 < confirmation_timeout < float("inf"):
            raise ValueError(
                f"confirmation_timeout must be positive and finite: {confirmation_timeout}"
            )
        if unenforceable not in ("refuse", "record"):
            raise ValueError(f"unenforceable is 'refuse' or 'record', not {unenforceable!r}")
        self._max_output = max_output
        self._cgroup = None if cgroup is None else Path(cgroup)
        self._unenforceable: Literal["refuse", "record"] = unenforceable
        self._confirmation_timeout = confirmation_timeout
        self._world = SystemWorld() if world is None else world
        self._boot_id = boot_id()
        self._hub = Hub()
        self._pages: dict[OrphanPolicy, Deadlines] = {}
        self._text: GuardText | None = None

    @property
    def boot_id(self) -> str:
        """Which start of this machine it is."""
        return self._boot_id

    def launch(self, order: LaunchOrder, /) -> AbstractAsyncContextManager[Unit]:
        """Make a child that waits to be started; see `Execution.launch`.

        Entering makes the process in one step that cannot be cancelled; it takes as long as the
        kernel takes to start a program.
        """
        return _Launch(self, order)

    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        """Find the child of a supervisor that is gone, and end it; see `Execution.recover`."""
        return await recovery.recover(
            orphan, cgroup=self._cgroup, timeout=self._confirmation_timeout
        )

    def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AbstractAsyncContextManager[Unit]:
        """Take over a live child of a supervisor that is gone; see `Adopting.adopt`.

        Entering that is cancelled leaves it as it is: it lives to its deadline.

        Entering raises also:
            TerminationUnconfirmed: It could not be adopted, and may still run.
        """
        return _Adoption(self, orphan, order)

    async def take_over(self, orphan: Orphan, order: LaunchOrder) -> ProcessUnit:
        """Prove ourselves to a child's guard, and become its supervisor.

        Raises:
            AdoptionFailed: It is gone, or did not prove itself; it is not left running.
            TerminationUnconfirmed: It may still run.
        """
        try:
            handed = await adoption.prove(orphan)
        except AdoptionFailed:
            await self.recover(orphan)
            raise
        child = orphan.child
        assert child is not None  # noqa: S101 - it has proved itself
        nonce = orphan.launch.nonce
        plan = limits.plan(
            order.limits,
            cgroup=self._cgroup,
            name=nonce,
            unenforceable="record",  # it was decided when it was launched
            privileged=limits.is_privileged(),
        )
        unit = ProcessUnit(
            world=self._world,
            hub=self._hub,
            child=child,
            order=msgspec.structs.replace(order, launch=orphan.launch),
            plan=plan,
            ends=handed.ends,
            pidfd=handed.pidfd,
            slot=handed.slot,
            # The timer says it: in the page its code could write what it likes.
            deadline=self._world.boottime() + time_left(handed.ends.timer),
            max_output=self._max_output,
            confirmation_timeout=self._confirmation_timeout,
            tell=partial(deadlines.tell, handed.page, handed.slot),
            on_release=partial(os.close, handed.page),
            is_adopted=True,
        )
        unit.output.add(handed.tail, dropped_before=handed.dropped)
        return unit

    def make(self, order: LaunchOrder) -> ProcessUnit:
        """Start a guard, and record who it is.

        Raises:
            ExecutionFailed: It cannot be.
            LimitRefused: A limit cannot be enforced.
        """
        nonce = order.launch.nonce
        if order.launch.boot_id and order.launch.boot_id != self._boot_id:
            raise ExecutionFailed("the launch was ordered before this machine was started again")
        if order.launch.by <= self._world.boottime():
            raise ExecutionFailed("the time to launch the child in has passed")
        try:
            check_nonce(nonce)
        except ValueError as failure:
            raise ExecutionFailed(str(failure)) from failure
        try:
            return self._make(order, nonce)
        except OSError as failure:
            raise ExecutionFailed(f"no child could be made: {failure.strerror}") from failure

    def _make(self, order: LaunchOrder, nonce: str) -> ProcessUnit:
        plan = limits.plan(
            order.limits,
            cgroup=self._cgroup,
            name=nonce,
            unenforceable=self._unenforceable,
            privileged=limits.is_privileged(),
        )
        if self._text is None:
            self._text = GuardText()
        page = self._pages.get(order.orphaned)
        if page is None:
            page = self._pages[order.orphaned] = Deadlines(shared=order.orphaned == "adopt")
        with ExitStack() as undo, ExitStack() as given:
            try:
                ends, theirs, listener = _connect(undo, given, order.orphaned == "adopt", nonce)
                set_timer(ends.timer, order.launch.by)
            except OSError as failure:
                raise ExecutionFailed(
                    f"the child cannot be connected: {failure.strerror}"
                ) from failure
            slot = page.take()
            undo.callback(page.give_back, slot)
            page.tell(slot, order.launch.by)
            limits.prepare(plan)
            if plan.cgroup is not None:
                undo.callback(limits.discard, plan.cgroup)
            output, control, channel, *kept = theirs
            pid = spawn(
                nonce,
                order.launch.by,
                order.orphaned,
                order.work.environment if isinstance(order.work, PythonCode) else (),
                (output, control, channel, ends.timer, page.fd, self._text.fd, *kept),
            )
            undo.callback(_reap, pid)
            try:
                pidfd = os.pidfd_open(pid)
                undo.callback(os.close, pidfd)
                process = identity_of(pid)
            except OSError as failure:
                raise ExecutionFailed(f"the child cannot be identified: {failure}") from failure
            unit = ProcessUnit(
                world=self._world,
                hub=self._hub,
                child=Child(
                    process,
                    address=listener,
                    secret=self._world.token() if listener else "",
                ),
                order=order,
                plan=plan,
                ends=ends,
                pidfd=pidfd,
                slot=slot,
                deadline=order.launch.by,
                max_output=self._max_output,
                confirmation_timeout=self._confirmation_timeout,
                tell=partial(page.tell, slot),
                on_release=partial(page.give_back, slot),
            )
            undo.pop_all()
            return unit


def _connect(
    undo: ExitStack, given: ExitStack, adoptable: bool, nonce: str
) -> tuple[Ends, list[int], str]:
    """Make what connects this process with a guard.

    Returns:
        Our ends; what the guard is given of it, its output first; and where it can be found by an
        adopter.

    Raises:
        OSError: There are no more descriptors.
    """
    output, output_given = os.pipe2(os.O_CLOEXEC)
    undo.callback(os.close, output)
    given.callback(os.close, output_given)
    os.set_blocking(output, False)
    control, control_given = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    undo.callback(control.close)
    given.callback(control_given.close)
    control.setblocking(False)
    channel, channel_given = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    undo.callback(channel.close)
    given.callback(channel_given.close)
    channel.setblocking(False)
    timer = make_timer()
    undo.callback(os.close, timer)
    theirs = [output_given, control_given.fileno(), channel_given.fileno()]
    address = ""
    if adoptable:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given.callback(listener.close)
        address = f"@trio-reactor-{nonce}"
        listener.bind("\0" + address[1:])
        listener.listen(_DOORSTEP)
        theirs += [listener.fileno(), channel.fileno(), output]
    return Ends(control, channel, output, timer), theirs, address


def _reap(pid: int) -> None:
    """End a guard that nobody has told anything, and see it end."""
    with suppress(ProcessLookupError, ChildProcessError):  # somebody may collect all children
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@final
class _Launch:
    """The life of one child, as a block."""

    __slots__ = ("_order", "_processes", "_unit")

    def __init__(self, processes: LocalProcesses, order: LaunchOrder) -> None:
        self._processes = processes
        self._order: LaunchOrder | None = order
        self._unit: ProcessUnit | None = None

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> Unit:
        order, self._order = self._order, None
        if order is None:
            raise RuntimeError("a launch is entered once")
        await trio.lowlevel.checkpoint()
        self._unit = self._processes.make(order)
        return self._unit

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._unit is not None  # noqa: S101 - it was entered
        unit, self._unit = self._unit, None
        await unit.leave()


@final
class _Adoption:
    """The rest of an adopted child's life, as a block."""

    __slots__ = ("_order", "_orphan", "_processes", "_unit")

    def __init__(self, processes: LocalProcesses, orphan: Orphan, order: LaunchOrder) -> None:
        self._processes = processes
        self._orphan = orphan
        self._order = order
        self._unit: ProcessUnit | None = None

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> Unit:
        self._unit = await self._processes.take_over(self._orphan, self._order)
        return self._unit

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._unit is not None  # noqa: S101 - it was entered
        await self._unit.leave()
