"""One child under its guard, as its supervisor sees it."""

from __future__ import annotations

import logging
import marshal
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, final

import trio

from trio_reactor.supervision.errors import CodeFailed, ExecutionFailed, TerminationUnconfirmed
from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.model.child import Child
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import CodeIdentity, Enforced, PythonCode
from trio_reactor.world import World

from . import deadlines, limits
from .channel import Channel
from .endings import end_carriers
from .hub import Hub, Timer
from .limits import Plan
from .output import Tail
from .spawn import Ends, module_path
from .timer import set_timer

__all__ = ["GUARD_PATIENCE", "STACK_PATIENCE", "ProcessUnit"]

_log = logging.getLogger("trio_reactor.supervision.processes")

GUARD_PATIENCE: Final = 1.0
"""Seconds that a guard has to end everything before it is ended itself."""
STACK_PATIENCE: Final = 5.0
"""Seconds that a guard has to tell a stack."""
_MAX_MESSAGE: Final = 131_072
_MAX_PIECE: Final = 65_536
_MAX_BURST: Final = 64
"""The most messages, or pieces of output, that are read without looking at other units."""
_MAX_NAME: Final = 1_024
_MAX_PATH: Final = 4_096
_MAX_DIGITS: Final = 10
"""More than any process id or exit status has."""
_MAX_DETAIL: Final = 16_384
"""Characters of a traceback, the last ones."""


def _number(text: str) -> int | None:
    """What was told as a number, if it is one that can be meant: who tells it is not trusted."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        return None
    return int(text)


@final
class ProcessUnit:
    """A child of this process's, or an adopted one."""

    __slots__ = (
        "_channel",
        "_control_open",
        "_ended",
        "_ends",
        "_escalation",
        "_exit",
        "_failure",
        "_gone",
        "_heard_at",
        "_hub",
        "_is_killed",
        "_is_left",
        "_is_own",
        "_is_started",
        "_loaded",
        "_nonce",
        "_on_release",
        "_order",
        "_output",
        "_page",
        "_pidfd",
        "_plan",
        "_settled",
        "_slot",
        "_stack",
        "_stack_told",
        "_status",
        "_timeout",
        "_unconfirmed",
        "_unread",
        "_world",
        "child",
    )

    def __init__(
        self,
        *,
        world: World,
        hub: Hub,
        child: Child,
        plan: Plan,
        ends: Ends,
        pidfd: int,
        page: int,
        slot: int,
        max_output: int,
        confirmation_timeout: float,
        order: LaunchOrder,
        on_release: Callable[[int], None],
        is_adopted: bool = False,
    ) -> None:
        self._world = world
        self._hub = hub
        self.child = child
        """What it can be found by."""
        self._page = page
        self._nonce = order.launch.nonce
        self._plan = plan
        self._ends: Ends | None = ends
        self._pidfd = pidfd
        self._slot = slot
        self._timeout = confirmation_timeout
        self._channel = Channel(ends.channel)
        self._output = Tail(max_output)
        self._is_own = not is_adopted
        self._is_started = is_adopted
        self._is_killed = False
        self._is_left = False
        self._control_open = True
        self._gone = False
        self._status: int | None = None
        self._exit: ExitStatus | None = None
        self._unconfirmed: str | None = None
        self._loaded: CodeIdentity | None = None
        self._failure: tuple[type[CodeFailed | ExecutionFailed], str, str | None] | None = None
        self._heard_at = world.clock()
        self._unread = 0
        self._ended = trio.Event()
        self._settled: trio.Event | None = None
        self._stack: trio.Event | None = None
        self._stack_told: str | None = None
        self._escalation: Timer | None = None
        self._on_release: Callable[[int], None] | None = on_release
        self._order: LaunchOrder | None = None if is_adopted else order
        hub.watch(ends.control.fileno(), self._on_control)
        hub.watch(ends.output, self._on_output)
        hub.watch(pidfd, self._on_exit)

    def __repr__(self) -> str:
        pid = self.child.process.pid if self.child.process is not None else None
        return f"<ProcessUnit {pid}{'' if self._exit is None else f' ended with {self._exit}'}>"

    # What can be asked of it.

    @property
    def enforced(self) -> Enforced:
        """How each of its limits holds."""
        return self._plan.enforced

    @property
    def exit(self) -> ExitStatus | None:
        """How it ended; `None` until that was observed."""
        return self._exit

    @property
    def heard_at(self) -> float:
        """When it last gave a sign of life, on the world's clock, from its start on.

        Bytes on the channel that nobody has received yet are seen when this is looked at.
        """
        unread = self._channel.arrived()
        if unread != self._unread:
            self._unread = unread
            self._heard_at = self._world.clock()
        return self._heard_at

    @property
    def channel(self) -> Channel:
        """The application's end of the channel to the code."""
        return self._channel

    @property
    def output(self) -> Tail:
        """What it wrote."""
        return self._output

    async def start(self) -> CodeIdentity:
        """Have it load the code and run it; returns when the code is loaded.

        Called once, after `renew`.  Cancelling only leaves.

        Raises:
            CodeFailed: The code is missing, does not import, or failed in that.
            ExecutionFailed: The child ended, or did not do what it has to.
        """
        order = self._order
        if order is None:
            raise RuntimeError("a child is started once")
        await trio.lowlevel.checkpoint_if_cancelled()
        self._order = None
        self._settled = trio.Event()
        self._heard_at = self._world.clock()
        self._is_started = True
        if not self._ended.is_set():
            try:
                self._send(("start", self._told(order)))
            except (OSError, ValueError) as failure:
                raise ExecutionFailed(
                    f"the child cannot be told what to run: {failure}"
                ) from failure
            await self._settled.wait()
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()
        if self._loaded is not None:
            return self._loaded
        if self._failure is not None:
            kind, message, detail = self._failure
            raise kind(message, outcome="replied", detail=detail)
        raise ExecutionFailed(
            f"the child ended with {self._exit or 'an unknown status'} before it had loaded "
            f"{order.work}",
            outcome="replied",
            detail=self._output.tail()[-_MAX_DETAIL:].decode(errors="replace") or None,
        )

    def renew(self, deadline: float, /) -> None:
        """Tell it when it has to end, in seconds on the machine's clock.

        The kernel is told, by the timer that the guard sleeps on; so this never waits, and the
        newest deadline holds.
        """
        if self._ends is not None:
            set_timer(self._ends.timer, deadline)
            deadlines.tell(self._page, self._slot, deadline)

    @property
    def deadline(self) -> float:
        """When it has to end, as it was last told."""
        return deadlines.told(self._page, self._slot)

    def interrupt(self) -> None:
        """Ask it to end: the code's process group gets SIGTERM."""
        self._send_if_possible(("interrupt",))

    def kill(self) -> None:
        """End it and whatever it started."""
        if self._ended.is_set() or self._is_killed:
            return
        self._is_killed = True
        if not self._send_if_possible(("kill",)):
            self._end_guard()
            return
        self._signal_guard(signal.SIGCONT)  # the code can have stopped its guard
        self._escalation = self._hub.after(GUARD_PATIENCE, self._end_guard)

    async def wait_exited(self) -> ExitStatus:
        """Sleep until its end, and that of whatever it started, was observed.

        Raises:
            TerminationUnconfirmed: Its end can no longer be observed.
        """
        await self._ended.wait()
        if self._exit is None:
            raise self._as_unconfirmed()
        return self._exit

    async def wait_lost(self) -> None:
        """Sleep until it has ended, as `wait_exited`."""
        await self.wait_exited()

    async def stack(self) -> str:
        """Where its code is, as text for a person; also if its loop is blocked.

        Raises:
            ExecutionFailed: It cannot be told.
        """
        told = self._stack
        if told is None:
            if not self._send_if_possible(("stack",)):
                raise ExecutionFailed("the child has ended, or takes no messages")
            told = self._stack = trio.Event()
            self._stack_told = None  # what was told before is not where it is now
        with trio.move_on_after(STACK_PATIENCE):
            await told.wait()
        if self._stack is told:
            self._stack = None
        if self._stack_told is None:
            raise ExecutionFailed("the child did not tell where its code is")
        return self._stack_told

    async def leave(self) -> None:
        """End it if it still lives, observe that, and let go of what was held for it.

        Raises:
            TerminationUnconfirmed: It may still run.
        """
        self.kill()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + self._timeout):
            await self._ended.wait()
        self._is_left = True
        self._channel.let_go()
        if self._exit is not None:
            self._release()
            return
        if self._unconfirmed is None:
            self._unconfirmed = f"{self} did not end within {self._timeout} seconds"
            self._ended.set()
        raise self._as_unconfirmed()

    # What its guard says.

    def _on_control(self) -> None:
        assert self._ends is not None  # noqa: S101 - it is watched while they are
        for _ in range(_MAX_BURST):
            try:
                message = self._ends.control.recv(_MAX_MESSAGE)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._lose_control()
                return
            kind, *parts = message.decode("utf-8", "replace").split("\0")
            self._on_message(kind, parts)

    def _on_message(self, kind: str, parts: list[str]) -> None:
        match kind, parts:
            case "alive", []:
                # Only the code's own: what its guard says is no sign that the code lives.
                self._heard_at = self._world.clock()
            case "code", [pid] if (number := _number(pid)) is not None and number > 0:
                self._release_code(number)
            case "loaded", [name, digest, version, origin]:
                self._heard_at = self._world.clock()
                self._loaded = CodeIdentity(
                    name[:_MAX_NAME],
                    digest[:_MAX_NAME],
                    version[:_MAX_NAME] or None,
                    origin[:_MAX_PATH] or None,
                )
                self._settle()
            case "failed", [detail]:
                self._fail(CodeFailed, "the code could not be loaded", detail)
            case "broken", [detail]:
                self._fail(ExecutionFailed, "the child does not do what it has to", detail)
            case "exit", [status] if (number := _number(status)) is not None:
                self._status = number
            case "gone", []:
                self._gone = True
            case "stack", [text]:
                self._stack_told = text
                if self._stack is not None:
                    self._stack.set()
            case _:
                self._fail(ExecutionFailed, f"the child says what nobody understands: {kind!r}")
                self.kill()

    def _release_code(self, pid: int) -> None:
        """Set the limits of the code's process from outside, then let it begin."""
        if not self._plan.is_gated:
            return
        try:
            limits.apply(self._plan, pid)
        except (OSError, ValueError, OverflowError) as failure:
            self._fail(ExecutionFailed, f"the child's limits cannot be set: {failure}")
            self.kill()
            return
        self._send_if_possible(("go",))

    def _fail(
        self, kind: type[CodeFailed | ExecutionFailed], message: str, detail: str | None = None
    ) -> None:
        if self._loaded is None and self._failure is None:
            self._failure = kind, message, detail
            self._settle()

    def _settle(self) -> None:
        if self._settled is not None:
            self._settled.set()

    def _lose_control(self) -> None:
        """Its guard speaks no more: it is ending, or was tampered with."""
        assert self._ends is not None  # noqa: S101 - it is watched while they are
        if self._control_open:
            self._control_open = False
            self._hub.forget(self._ends.control.fileno())
            if self._escalation is None:
                self._escalation = self._hub.after(GUARD_PATIENCE, self._end_guard)

    def _on_output(self) -> None:
        assert self._ends is not None  # noqa: S101 - it is watched while they are
        try:
            piece = os.read(self._ends.output, _MAX_PIECE)
        except BlockingIOError:
            return
        if piece:
            self._output.add(piece)
        else:
            self._hub.forget(self._ends.output)

    def _on_exit(self) -> None:
        """Its guard has ended; if it did not say that nothing is left, that is found out."""
        self._hub.forget(self._pidfd)
        if self._escalation is not None:
            self._escalation.cancel()
        ends = self._ends
        assert ends is not None  # noqa: S101 - they are let go of after this
        if self._control_open:
            self._on_control()
        self._hub.forget(ends.control.fileno())
        self._control_open = False
        if self._gone:
            self._finish()
        else:
            trio.lowlevel.spawn_system_task(self._sweep)

    async def _sweep(self) -> None:
        """Its guard did not live to end what it guarded: end it from outside."""
        pid = self.child.process.pid if self.child.process is not None else None
        if self._plan.cgroup is not None:
            limits.kill(self._plan.cgroup)
        _log.debug("%r: its guard was ended; looking for what it left behind", self)
        with trio.move_on_after(self._timeout) as scope:
            # Until it is collected, below, nobody else can have its id, nor start its session.
            await end_carriers(self._nonce, session=pid if self._is_own else None)
        if scope.cancelled_caught:
            self._unconfirmed = f"{self}: what its guard left behind does not end"
            self._ended.set()
            self._settle()
        else:
            self._finish()

    def _finish(self) -> None:
        """Nothing of it is left: record how it ended, then tell."""
        ends = self._ends
        assert ends is not None  # noqa: S101 - they are let go of after this
        for _ in range(_MAX_BURST):
            try:
                piece = os.read(ends.output, _MAX_PIECE)
            except BlockingIOError:
                break
            if not piece:
                break
            self._output.add(piece)
        own = self._collect()
        if self._status is not None:
            self._exit = _exit_of(self._status)
        elif not self._is_started and own is not None:
            self._exit = own
        else:
            self._exit = ExitStatus()
        self._let_go()
        self._ended.set()
        self._settle()
        if self._stack is not None:
            self._stack.set()
        if self._is_left:
            self._release()

    def _collect(self) -> ExitStatus | None:
        """Collect the guard's status, if it is ours and nobody else has."""
        if not self._is_own or self.child.process is None:
            return None
        try:
            ended = os.waitid(os.P_PID, self.child.process.pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return None  # the application ignores its children's ends, or waits for all of them
        if ended is None:
            return None
        return (
            ExitStatus(code=ended.si_status)
            if ended.si_code == os.CLD_EXITED
            else ExitStatus(signal=ended.si_status)
        )

    # What it is told.

    def _told(self, order: LaunchOrder) -> dict[str, Any]:
        work = order.work
        told: dict[str, Any] = {
            "nonce": self._nonce,
            "identity": order.key.identity,
            "instance": order.key.instance,
            "generation": order.generation,
            "orphaned": order.orphaned,
            "secret": self.child.secret,
            "slot": self._slot,
            "gated": self._plan.is_gated,
            "cgroup": self._plan.cgroup,
            "max_output": self._output.keep,
            "max_detail": _MAX_DETAIL,
            "directory": work.directory,
        }
        if isinstance(work, PythonCode):
            return told | {
                "kind": "python",
                "specifier": work.specifier,
                "path": list(work.path),
                "also": module_path(),
                "argument": work.argument,
            }
        return told | {
            "kind": "command",
            "argv": list(work.argv),
            "environment": list(work.environment),
        }

    def _send(self, message: Any) -> None:
        if self._ends is None or not self._control_open:
            raise BrokenPipeError("it has ended")
        self._ends.control.send(marshal.dumps(message))

    def _send_if_possible(self, message: Any) -> bool:
        try:
            self._send(message)
        except OSError:
            return False  # it takes no more, or has ended
        return True

    def _end_guard(self) -> None:
        """End the guard itself; what it guards is then found and ended from outside."""
        self._signal_guard(signal.SIGKILL)

    def _signal_guard(self, number: int) -> None:
        """Through a descriptor that was opened when the guard was made, and is its alone."""
        if self._ends is None:
            return
        # It may have ended, or have another user's rights: its end is observed or is not.
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._pidfd, number)

    # What was held for it.

    def _let_go(self) -> None:
        """Close all but the channel."""
        ends, self._ends = self._ends, None
        if ends is None:
            return
        for fd in (ends.control.fileno(), ends.output, self._pidfd):
            self._hub.forget(fd)
        ends.control.close()
        for fd in (ends.output, ends.timer, self._pidfd):
            os.close(fd)
        if self._plan.cgroup is not None:
            limits.discard(self._plan.cgroup)

    def _release(self) -> None:
        release, self._on_release = self._on_release, None
        if release is not None:
            release(self._slot)

    def _as_unconfirmed(self) -> TerminationUnconfirmed:
        return TerminationUnconfirmed(self._unconfirmed or "it is not known whether it ended")


def _exit_of(status: int) -> ExitStatus:
    """From what `os.waitstatus_to_exitcode` gives."""
    return ExitStatus(code=status) if status >= 0 else ExitStatus(signal=-status)
