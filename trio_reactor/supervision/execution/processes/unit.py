"""One child under its guard, as its supervisor sees it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final, assert_never, final

import trio

from trio_reactor.supervision.errors import CodeFailed, ExecutionFailed
from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.model.child import Child
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import CodeIdentity, Enforced
from trio_reactor.world import World

from . import limits, orders, words
from .channel import Channel
from .hub import Hub
from .limits import Plan
from .output import Tail
from .passing import Passing
from .spawn import Ends

__all__ = ["STACK_PATIENCE", "ProcessUnit"]

STACK_PATIENCE: Final = 5.0
"""Seconds that a guard has to tell a stack."""


@final
class ProcessUnit:
    """A child of this process's, or an adopted one."""

    __slots__ = (
        "_channel",
        "_deadline",
        "_failure",
        "_heard_at",
        "_is_released",
        "_loaded",
        "_order",
        "_output",
        "_passing",
        "_plan",
        "_settled",
        "_slot",
        "_stack",
        "_stack_told",
        "_tell",
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
        self.child = child
        """What it can be found by."""
        self._deadline = deadline
        self._tell = tell
        self._plan = plan
        self._slot = slot
        self._channel = Channel(ends.channel)
        self._output = Tail(max_output)
        self._is_released = False
        self._loaded: CodeIdentity | None = None
        self._failure: tuple[type[CodeFailed | ExecutionFailed], str, str | None] | None = None
        self._heard_at = world.clock()
        self._unread = 0
        self._settled: trio.Event | None = None
        self._stack: trio.Event | None = None
        self._stack_told: str | None = None
        self._order: LaunchOrder | None = None if is_adopted else order
        self._passing = Passing(
            hub=hub,
            ends=ends,
            pidfd=pidfd,
            output=self._output,
            nonce=order.launch.nonce,
            cgroup=plan.cgroup,
            guard=None if child.process is None else child.process.pid,
            is_own=not is_adopted,
            is_started=is_adopted,
            timeout=confirmation_timeout,
            said=self._on_word,
            ended=self._on_end,
            on_release=on_release,
        )

    def __repr__(self) -> str:
        pid = self.child.process.pid if self.child.process is not None else None
        return f"<ProcessUnit {pid}{'' if self.exit is None else f' ended with {self.exit}'}>"

    # What can be asked of it.

    @property
    def enforced(self) -> Enforced:
        """How each of its limits holds."""
        return self._plan.enforced

    @property
    def exit(self) -> ExitStatus | None:
        """How it ended; `None` until that was observed."""
        return self._passing.exit

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
        self._passing.is_started = True
        if not self._passing.observed.is_set():
            try:
                self._passing.link.send(
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
                    self._passing.link.send(orders.message("secret", self.child.secret))
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
            f"the child ended with {self.exit or 'an unknown status'} before it had loaded "
            f"{order.work}",
            outcome="replied",
            detail=self._output.tail()[-orders.MAX_DETAIL :].decode(errors="replace") or None,
        )

    def renew(self, deadline: float, /) -> None:
        """Tell it when it has to end, in seconds on the machine's clock.

        The kernel is told, by the timer that the guard sleeps on; so this never waits, and the
        newest deadline holds.
        """
        if self._passing.link.is_held:
            self._deadline = deadline
            self._passing.link.set_deadline(deadline)
            self._tell(deadline)

    @property
    def deadline(self) -> float:
        """When it has to end, as it was last told."""
        return self._deadline

    def interrupt(self) -> None:
        """Ask it to end: the code's process group gets SIGTERM."""
        self._passing.tell("interrupt")
        # The code can have stopped its guard; woken, that sees whether the deadline has passed.
        self._passing.link.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it and whatever it started."""
        self._passing.kill()

    async def wait_exited(self) -> ExitStatus:
        """Sleep until its end, and that of whatever it started, was observed.

        Raises:
            TerminationUnconfirmed: Its end can no longer be observed.
        """
        return await self._passing.wait()

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
            if not self._passing.tell("stack"):
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
        try:
            await self._passing.leave()
        finally:
            self._channel.let_go()

    # What its guard says.

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
                self._passing.told_status(status)
            case words.Gone():
                self._passing.told_gone()
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
        self._passing.tell("go")

    def _fail(
        self, kind: type[CodeFailed | ExecutionFailed], message: str, detail: str | None = None
    ) -> None:
        if self._loaded is None and self._failure is None:
            self._failure = kind, message, detail
            self._settle()

    def _settle(self) -> None:
        if self._settled is not None:
            self._settled.set()

    def _on_end(self) -> None:
        """Nobody has to wait any more."""
        self._settle()
        if self._stack is not None:
            self._stack.set()
