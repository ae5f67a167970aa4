"""One child under its guard, as its supervisor sees it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final, assert_never, final

import trio

from trio_reactor.supervision.errors import CodeFailed, ExecutionFailed, TerminationUnconfirmed
from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.model.child import Child
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import CodeIdentity, Enforced
from trio_reactor.world import World

from . import limits, orders, traces, words
from .channel import Channel
from .hub import Hub, Timer
from .limits import Plan
from .output import Tail
from .spawn import Ends
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
"""The most messages that are read without looking at other units."""
_MAX_LAST: Final = 4_096
"""The most that are read of what a guard said before it ended; sockets hold fewer."""


@final
class ProcessUnit:
    """A child of this process's, or an adopted one."""

    __slots__ = (
        "_channel",
        "_control_open",
        "_deadline",
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
        "_is_released",
        "_is_started",
        "_loaded",
        "_nonce",
        "_on_release",
        "_order",
        "_output",
        "_pidfd",
        "_plan",
        "_settled",
        "_slot",
        "_stack",
        "_stack_told",
        "_status",
        "_tell",
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
        slot: int,
        deadline: float,
        max_output: int,
        confirmation_timeout: float,
        order: LaunchOrder,
        tell: Callable[[float], None],
        on_release: Callable[[], None],
        is_adopted: bool = False,
    ) -> None:
        self._world = world
        self._hub = hub
        self.child = child
        """What it can be found by."""
        self._deadline = deadline
        self._tell = tell
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
        self._is_released = False
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
        self._on_release: Callable[[], None] | None = on_release
        self._order: LaunchOrder | None = None if is_adopted else order
        watched = (
            (ends.control.fileno(), self._on_control),
            (ends.output, self._on_output),
            (pidfd, self._on_exit),
        )
        try:
            for fd, ready in watched:
                hub.watch(fd, ready)
        except OSError:
            for fd, _ in watched:
                hub.forget(fd)  # they are closed by whoever made them
            raise

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
                self._send(
                    orders.start(
                        order,
                        slot=self._slot,
                        is_gated=self._plan.is_gated,
                        cgroup=self._plan.cgroup,
                        max_output=self._output.keep,
                    )
                )
                if self.child.secret:
                    # A message of its own: the guard has forked before it reads that, so the
                    # code's process never had it.
                    self._send(orders.message("secret", self.child.secret))
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
            detail=self._output.tail()[-orders.MAX_DETAIL :].decode(errors="replace") or None,
        )

    def renew(self, deadline: float, /) -> None:
        """Tell it when it has to end, in seconds on the machine's clock.

        The kernel is told, by the timer that the guard sleeps on; so this never waits, and the
        newest deadline holds.
        """
        if self._ends is not None:
            self._deadline = deadline
            set_timer(self._ends.timer, deadline)
            self._tell(deadline)

    @property
    def deadline(self) -> float:
        """When it has to end, as it was last told."""
        return self._deadline

    def interrupt(self) -> None:
        """Ask it to end: the code's process group gets SIGTERM."""
        self._send_if_possible("interrupt")
        # The code can have stopped its guard; woken, that sees whether the deadline has passed.
        self._signal_guard(signal.SIGCONT)

    def kill(self) -> None:
        """End it and whatever it started."""
        if self._ended.is_set() or self._is_killed:
            return
        self._is_killed = True
        if not self._send_if_possible("kill"):
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
            if not self._send_if_possible("stack"):
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
            # Its guard lives, and is watched still: it can end yet.
            self._unconfirmed = f"{self} did not end within {self._timeout} seconds"
            self._ended.set()
        else:
            self._give_up()
        raise self._as_unconfirmed()

    # What its guard says.

    def _on_control(self) -> None:
        self._listen(_MAX_BURST)

    def _listen(self, most: int) -> None:
        assert self._ends is not None  # noqa: S101 - it is watched while they are
        for _ in range(most):
            try:
                message = self._ends.control.recv(_MAX_MESSAGE)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._lose_control()
                return
            self._on_word(words.heard(message))

    def _on_word(self, word: words.Word) -> None:
        match word:
            case words.Alive():
                # Only the code's own: what its guard says is no sign that the code lives.
                self._heard_at = self._world.clock()
            case words.CodeMade(pid):
                self._release_code(pid)
            case words.CodeRuns(identity):
                self._heard_at = self._world.clock()
                self._loaded = identity
                self._settle()
            case words.CodeRefused(detail):
                self._fail(CodeFailed, "the code could not be loaded", detail)
            case words.Broken(detail):
                self._fail(ExecutionFailed, "the child does not do what it has to", detail)
            case words.Ended(status):
                self._status = status
            case words.Gone():
                self._gone = True
            case words.StackTold(text):
                self._stack_told = text
                if self._stack is not None:
                    self._stack.set()
            case words.Nonsense(quoted):
                self._fail(ExecutionFailed, f"the child says what nobody understands: {quoted!r}")
                self.kill()
            case _:
                assert_never(word)

    def _release_code(self, pid: int) -> None:
        """Set the limits of the code's process from outside, then let it begin.

        Until then it runs nothing of the user's, so it is told the truth the first time.
        """
        process = self.child.process
        if not self._plan.is_gated or self._is_released or process is None:
            return
        self._is_released = True
        try:
            limits.apply(self._plan, pid, parent=process.pid)
        except (OSError, ValueError, OverflowError) as failure:
            self._fail(ExecutionFailed, f"the child's limits cannot be set: {failure}")
            self.kill()
            return
        self._send_if_possible("go")

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
        ends = self._ends
        assert ends is not None  # noqa: S101 - they are let go of after this
        if self._control_open:
            self._listen(_MAX_LAST)
        self._hub.forget(ends.control.fileno())
        self._control_open = False
        if self._escalation is not None:
            self._escalation.cancel()
        if self._gone and self._is_by_itself():
            self._finish()
        else:
            trio.lowlevel.spawn_system_task(self._sweep)

    def _is_by_itself(self) -> bool:
        """Whether its guard ended as one does that has done its work."""
        own = self._collect(keep=True)
        return own is None or own.is_success or not self._is_started

    async def _sweep(self) -> None:
        """Its guard did not live to end what it guarded: end it from outside."""
        pid = self.child.process.pid if self.child.process is not None else None
        _log.debug("%r: its guard was ended; looking for what it left behind", self)
        failure = await traces.sweep(
            self._nonce,
            cgroup=self._plan.cgroup,
            # Until it is collected, below, nobody else can have its id, nor start its session.
            session=pid if self._is_own else None,
            timeout=self._timeout,
        )
        if failure is None:
            self._finish()
            return
        self._unconfirmed = f"{self}: {failure}"
        self._ended.set()
        self._settle()
        if self._is_left:
            self._give_up()

    def _finish(self) -> None:
        """Nothing of it is left: record how it ended, then tell."""
        ends = self._ends
        assert ends is not None  # noqa: S101 - they are let go of after this
        traces.read_rest(ends.output, self._output)
        own = self._collect()
        if self._status is not None:
            self._exit = traces.exit_of(self._status)
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

    def _collect(self, *, keep: bool = False) -> ExitStatus | None:
        """The guard's status, if it is ours and nobody else has collected it."""
        if not self._is_own or self.child.process is None:
            return None
        return traces.collect(self.child.process.pid, keep=keep)

    # What it is told.

    def _send(self, message: bytes) -> None:
        if self._ends is None or not self._control_open:
            raise BrokenPipeError("it has ended")
        self._ends.control.send(message)

    def _send_if_possible(self, word: str) -> bool:
        try:
            self._send(orders.message(word))
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

    def _give_up(self) -> None:
        """Its guard is no more, and what that left cannot be ended: nothing more can be learnt.

        Its slot stays taken, since somebody may read it.
        """
        if self._ends is not None:
            self._collect()
            self._let_go()

    def _release(self) -> None:
        release, self._on_release = self._on_release, None
        if release is not None:
            release()

    def _as_unconfirmed(self) -> TerminationUnconfirmed:
        return TerminationUnconfirmed(self._unconfirmed or "it is not known whether it ended")
