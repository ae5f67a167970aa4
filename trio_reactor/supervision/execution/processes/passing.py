"""How the end of a child is brought about and observed.

It ends when its guard has, and the guard said before that nothing below it is left.  A guard that
did not live to say so, or was killed after it, is not relied on: what it may have left is looked
for and ended from outside.  An end that was not observed so is none.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from typing import Final, final

import trio

from trio_reactor.supervision.errors import TerminationUnconfirmed
from trio_reactor.supervision.model.ends import ExitStatus

from . import limits, orders, traces
from .hub import Hub, Timer
from .link import Link
from .output import Tail
from .spawn import Ends
from .words import Word

__all__ = ["GUARD_PATIENCE", "Passing"]

_log = logging.getLogger("trio_reactor.supervision.processes")

GUARD_PATIENCE: Final = 1.0
"""Seconds that a guard has to end everything before it is ended itself."""


@final
class Passing:
    """The link with a child's guard, to its observed end.

    Args:
        hub: Watches for it.
        ends: What connects with the guard.
        pidfd: The guard's process.
        output: Takes what the code writes.
        nonce: What belongs to the child carries.
        cgroup: Its control group, if it has one.
        guard: The guard's process id.
        is_own: Whether that is a child of this process's.
        is_started: Whether code may run.
        timeout: Seconds within which it has to end once it was killed.
        said: Told of each word of the guard's.
        ended: Told once its end was observed, or can no longer be.
        on_release: Gives back what was held until nobody reads it any more.

    Raises:
        OSError: It cannot be watched; nothing was closed.
    """

    __slots__ = (
        "_cgroup",
        "_ended",
        "_escalation",
        "_guard",
        "_hub",
        "_is_gone",
        "_is_killed",
        "_is_left",
        "_is_own",
        "_nonce",
        "_on_release",
        "_output",
        "_status",
        "_timeout",
        "_unconfirmed",
        "exit",
        "is_started",
        "link",
        "observed",
    )

    def __init__(
        self,
        *,
        hub: Hub,
        ends: Ends,
        pidfd: int,
        output: Tail,
        nonce: str,
        cgroup: str | None,
        guard: int | None,
        is_own: bool,
        is_started: bool,
        timeout: float,
        said: Callable[[Word], None],
        ended: Callable[[], None],
        on_release: Callable[[], None],
    ) -> None:
        self._hub = hub
        self._output = output
        self._nonce = nonce
        self._cgroup = cgroup
        self._guard = guard
        self._is_own = is_own
        self._timeout = timeout
        self._ended = ended
        self._on_release: Callable[[], None] | None = on_release
        self._escalation: Timer | None = None
        self._is_killed = False
        self._is_left = False
        self._is_gone = False
        self._status: int | None = None
        self._unconfirmed: str | None = None
        self.is_started = is_started
        """Whether code may have run."""
        self.exit: ExitStatus | None = None
        """How it ended; `None` until that was observed."""
        self.observed = trio.Event()
        """Set when its end was observed, or can no longer be."""
        self.link = Link(
            hub=hub,
            ends=ends,
            pidfd=pidfd,
            output=output,
            said=said,
            fell_silent=self._on_silence,
            ended=self._on_end,
        )

    # What its guard said.

    def told_status(self, status: int) -> None:
        """The code's process has ended, as `os.waitstatus_to_exitcode` gives it."""
        self._status = status

    def told_gone(self) -> None:
        """Nothing that the guard has guarded is left."""
        self._is_gone = True

    # What brings it about.

    def tell(self, word: str) -> bool:
        """Tell its guard something.

        Returns:
            Whether it takes messages.
        """
        try:
            self.link.send(orders.message(word))
        except OSError:
            return False  # it takes no more, or has ended
        return True

    def kill(self) -> None:
        """End it and whatever it started.  Never waits."""
        if self.observed.is_set() or self._is_killed:
            return
        self._is_killed = True
        if not self.tell("kill"):
            self._end_guard()
            return
        self.link.signal(signal.SIGCONT)  # the code can have stopped its guard
        self._escalation = self._hub.after(GUARD_PATIENCE, self._end_guard)

    async def wait(self) -> ExitStatus:
        """Sleep until its end, and that of whatever it started, was observed.

        Raises:
            TerminationUnconfirmed: It can no longer be observed.
        """
        await self.observed.wait()
        if self.exit is None:
            raise self._as_unconfirmed()
        return self.exit

    async def leave(self) -> None:
        """End it if it still lives, observe that, and let go of what was held for it.

        Raises:
            TerminationUnconfirmed: It may still run.
        """
        self.kill()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + self._timeout):
            await self.observed.wait()
        self._is_left = True
        if self.exit is not None:
            self._release()
            return
        if self._unconfirmed is None:
            # Its guard lives, and is watched still: it can end yet.
            self._unconfirmed = f"{self} did not end within {self._timeout} seconds"
            self.observed.set()
        else:
            self._give_up()
        raise self._as_unconfirmed()

    def _end_guard(self) -> None:
        """End the guard itself; what it guards is then found and ended from outside."""
        self.link.signal(signal.SIGKILL)

    # What is observed.

    def _on_silence(self) -> None:
        if self._escalation is None:
            self._escalation = self._hub.after(GUARD_PATIENCE, self._end_guard)

    def _on_end(self) -> None:
        """If its guard did not say that nothing is left, that is found out."""
        if self._escalation is not None:
            self._escalation.cancel()
        if self._is_gone and self._is_by_itself():
            self._finish()
        else:
            trio.lowlevel.spawn_system_task(self._sweep)

    def _is_by_itself(self) -> bool:
        """Whether its guard ended as one does that has done its work."""
        own = self._collect(keep=True)
        return own is None or own.is_success or not self.is_started

    async def _sweep(self) -> None:
        """Its guard did not live to end what it guarded: end it from outside."""
        _log.debug("%r: its guard was ended; looking for what it left behind", self)
        failure = await traces.sweep(
            self._nonce,
            cgroup=self._cgroup,
            # Until it is collected, below, nobody else can have its id, nor start its session.
            session=self._guard if self._is_own else None,
            timeout=self._timeout,
        )
        if failure is None:
            self._finish()
            return
        self._unconfirmed = f"{self}: {failure}"
        self.observed.set()
        self._ended()
        if self._is_left:
            self._give_up()

    def _finish(self) -> None:
        """Nothing of it is left: record how it ended, then tell."""
        self.link.read_rest()
        own = self._collect()
        if self._status is not None:
            self.exit = traces.exit_of(self._status)
        elif not self.is_started and own is not None:
            self.exit = own
        else:
            self.exit = ExitStatus()
        self._let_go()
        self.observed.set()
        self._ended()
        if self._is_left:
            self._release()

    def _collect(self, *, keep: bool = False) -> ExitStatus | None:
        """The guard's status, if it is ours and nobody else has collected it."""
        if self._guard is None or not self._is_own:
            return None
        return traces.collect(self._guard, keep=keep)

    # What was held for it.

    def _let_go(self) -> None:
        """Give back all but the channel and what others may read."""
        if self.link.is_held:
            self.link.let_go()
            if self._cgroup is not None:
                limits.discard(self._cgroup)

    def _give_up(self) -> None:
        """Its guard is no more, and what that left cannot be ended: nothing more can be learnt.

        The slot of an own child stays taken, since somebody may read it.
        """
        if self.link.is_held:
            self._collect()
            self._let_go()
            if not self._is_own:
                self._release()

    def _release(self) -> None:
        release, self._on_release = self._on_release, None
        if release is not None:
            release()

    def _as_unconfirmed(self) -> TerminationUnconfirmed:
        return TerminationUnconfirmed(self._unconfirmed or "it is not known whether it ended")

    def __repr__(self) -> str:
        return f"<child {self._guard}>"
