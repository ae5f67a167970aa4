"""Stopping: fence, ask, wait, kill, and believe nothing but an observed exit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVarTuple, Unpack, final

import msgspec
import trio

from trio_reactor.errors import TimedOut, leaves
from trio_reactor.events import FailureRecord
from trio_reactor.owner import Owner
from trio_reactor.supervision.errors import TerminationUnconfirmed
from trio_reactor.supervision.execution.protocol import Unit
from trio_reactor.supervision.model.ends import Exited, Killed, NotStarted, Stop, Termination
from trio_reactor.supervision.model.records import Loaded, Loading, Stopping
from trio_reactor.supervision.options import SupervisorOptions
from trio_reactor.supervision.outcome import Outcome

from .alarms import Alarms
from .health import Health
from .session import Session, stopped_error
from .transitions import Transitions

__all__ = ["Stops"]

Ts = TypeVarTuple("Ts")

_MAX_CAUSES = 16


@final
class Stops:
    """Ends sessions, each in a task of its own that nobody's cancellation reaches."""

    def __init__(
        self,
        owner: Owner,
        transitions: Transitions,
        health: Health,
        alarms: Alarms,
        options: SupervisorOptions,
    ) -> None:
        self._owner = owner
        self._transitions = transitions
        self._health = health
        self._alarms = alarms
        self._options = options
        self._nursery: trio.Nursery | None = None
        self.causes: list[BaseException] = []
        """What went wrong in seeing to executions that have ended, while closing."""

    async def run(self, ready: trio.Event, closing: Callable[[], Awaitable[None]]) -> None:
        """The task in which sessions end, until the owner closes and none is left.

        Args:
            ready: Set when sessions can be ended.
            closing: What to do when close has begun, before this waits for what is ending.
        """
        async with trio.open_nursery() as self._nursery:
            ready.set()
            await self._owner.closing.wait()
            await closing()

    def expire(self, session: Session) -> None:
        """Stop a session whose lease has run out, if that was not noticed yet.

        The machine's clock counts while the machine sleeps, and the one that alarms sleep on does
        not, so whoever looks at a session looks at its lease first.
        """
        if session.is_live and self._owner.world.boottime() >= session.deadline:
            self.begin(session, Stop("expired"))

    def begin(self, session: Session, stop: Stop) -> Outcome[Termination]:
        """Fence a session and begin to end it, unless somebody did; returns what will be observed.

        Synchronous.  Two stops of one session are one, and the first one's reason stays.
        """
        if not session.is_live:
            return session.ending
        self._transitions.fence(session, stop)
        if session.alarm is not None:
            self._alarms.cancel(session.alarm)
        job = session.job
        if job is not None:
            tells = stop.reason == "load-failed" or (stop.reason == "exited" and job.starting)
            if not tells:
                # A failed load tells its waiters by itself, or waits for the exit status; so does
                # one whose execution has ended, since `start` may be about to say why.
                record = session.record
                job.outcome.fail(lambda: stopped_error(record, stop, session.exit))
            job.scope.cancel()
        self._spawn(self._end, session)
        return session.ending

    def _spawn(self, fn: Callable[[Unpack[Ts]], Awaitable[object]], *args: Unpack[Ts]) -> None:
        assert self._nursery is not None  # noqa: S101 - it runs as long as there are sessions
        self._nursery.start_soon(fn, *args)

    def record_of(self, failure: BaseException) -> FailureRecord:
        """What is recorded of a failure: of what code said, no more than the options allow."""
        record = FailureRecord.of(failure)
        if record.detail is None or len(record.detail) <= self._options.max_detail:
            return record
        return msgspec.structs.replace(record, detail=record.detail[: self._options.max_detail])

    def begin_unresponsive(self, session: Session, again: Callable[[], None]) -> None:
        """See where the silent code of a session is, and stop it unless it is heard meanwhile.

        Args:
            session: A loaded session.
            again: Called if it is heard of after all.
        """
        self._spawn(self._look_and_stop, session, again)

    async def _look_and_stop(self, session: Session, again: Callable[[], None]) -> None:
        unit = session.unit
        assert unit is not None  # noqa: S101 - it is loaded
        stack: str | None = None
        failure: FailureRecord | None = None
        heard = False
        try:
            heard_at = unit.heard_at
            try:
                with trio.fail_after(self._options.confirmation_timeout):
                    stack = (await unit.stack())[: self._options.max_detail]
            except Exception as raised:  # noqa: BLE001 - recorded; it is stopped all the same
                failure = FailureRecord.of(raised)
            heard = unit.heard_at > heard_at
        except Exception as raised:  # noqa: BLE001 - recorded; what cannot be heard is silent
            failure = FailureRecord.of(raised)
        if heard:
            again()
        elif session.is_live:
            self.begin(session, Stop("unresponsive", failure=failure, stack=stack))

    async def _end(self, session: Session) -> None:
        """See a fenced session to its observed end."""
        ending, job = session.ending, session.job
        try:
            if job is not None:
                await job.done.wait()
            termination = await self._terminate(session)
        except TerminationUnconfirmed as failure:
            self._unconfirmed(session, failure)
            return
        except BaseException as cut:
            # A defect, or close's budget is over: nobody can say whether it has ended.
            unconfirmed = TerminationUnconfirmed(
                f"the end of {session.record.handle} could not be observed", causes=(cut,)
            )
            unconfirmed.__cause__ = cut
            self._unconfirmed(session, unconfirmed)
            if not isinstance(cut, Exception):
                raise
            return
        if job is not None:
            stop = _stop_of(session)
            status = termination.exit
            record = session.record
            job.outcome.fail(lambda: stopped_error(record, stop, status))
        # Also where the journal could not take it: the end was observed all the same.
        self._transitions.end(session, termination, lambda _: ending.set(termination))

    def _unconfirmed(self, session: Session, failure: TerminationUnconfirmed) -> None:
        self._health.poison(failure)
        if session.attempt is not None:
            session.attempt.request_retire()
        message, causes = failure.message, failure.causes

        def afresh() -> BaseException:
            error = TerminationUnconfirmed(message, causes=causes)
            error.__cause__ = failure
            return error

        if session.job is not None:
            session.job.outcome.fail(afresh)
        session.ending.fail(afresh)

    async def _terminate(self, session: Session) -> Termination:
        """End a session's execution, if it has one; returns once that was observed.

        Raises:
            TerminationUnconfirmed: It may still run.
        """
        attempt = session.attempt
        if attempt is None:
            return NotStarted()
        causes: list[BaseException] = []
        unit, killed = session.unit, False
        if unit is not None and unit.exit is None:
            killed = await self._ask_then_kill(session, unit, causes)
        attempt.request_retire()
        late = True
        with trio.move_on_after(self._options.confirmation_timeout):
            end = await attempt.wait_ended()
            late = False
            own = end.reason == "failed" and _stop_of(session).reason == "load-failed"
            # What a load failed with is told as that, unless a child may be left of it.
            if end.failure is not None and not (own and not _is_unconfirmed(end.failure)):
                causes.append(end.failure)
        unit = session.unit  # an opening that was given up may have come to something
        if late:
            causes.append(TimedOut(f"what was held for {session.record.handle} is not let go"))
        unobserved = unit.exit is None if unit is not None else late
        if unobserved or any(_is_unconfirmed(cause) for cause in causes):
            raise TerminationUnconfirmed(
                f"the end of {session.record.handle} could not be observed", causes=tuple(causes)
            )
        if self._owner.closing.is_set:
            self.causes.extend(causes)
        recorded = tuple(FailureRecord.of(cause) for cause in causes[:_MAX_CAUSES])
        status = session.exit
        if status is None or not _was_registered(session):
            return NotStarted(recorded)
        return Killed(status, recorded) if killed else Exited(status, recorded)

    async def _ask_then_kill(
        self, session: Session, unit: Unit, causes: list[BaseException]
    ) -> bool:
        """Returns whether it had to be killed.  What goes wrong in asking does not stop killing."""
        _attempt(unit.interrupt, causes)
        if await self._exits(unit, self._options.grace, causes) and unit.exit is not None:
            return False
        _attempt(unit.kill, causes)
        waited = await self._exits(unit, self._options.confirmation_timeout, causes)
        # Where waiting itself has broken, leaving the execution may still observe its exit.
        if waited and unit.exit is None:
            raise TerminationUnconfirmed(
                f"the exit of {session.record.handle} was not observed within "
                f"{self._options.confirmation_timeout} s of its kill",
                causes=tuple(causes),
            )
        return True

    async def _exits(self, unit: Unit, budget: float, causes: list[BaseException]) -> bool:
        """Wait for an exit to be observed; returns whether that could be waited for."""
        with trio.move_on_after(budget):
            try:
                await unit.wait_exited()
            except TerminationUnconfirmed as failure:
                causes.append(failure)
                return True  # it can no longer be observed: there is nothing to wait for
            except Exception as failure:  # noqa: BLE001 - kept; only an observed exit counts
                causes.append(failure)
                return unit.exit is not None
            if unit.exit is None:
                # It was said too early.  The time is its code's all the same.
                await trio.sleep_forever()
        return True


def _attempt(signal: Callable[[], None], causes: list[BaseException]) -> None:
    try:
        signal()
    except Exception as failure:  # noqa: BLE001 - kept; whatever it was, killing comes next
        causes.append(failure)


def _is_unconfirmed(failure: BaseException) -> bool:
    return any(isinstance(leaf, TerminationUnconfirmed) for leaf in leaves(failure))


def _stop_of(session: Session) -> Stop:
    phase = session.ahead
    assert isinstance(phase, Stopping)  # noqa: S101 - it is being ended
    return phase.stop


def _was_registered(session: Session) -> bool:
    """Whether its execution was registered, and so may have run the user's code."""
    phase = session.ahead
    before = phase.before if isinstance(phase, Stopping) else phase
    return isinstance(before, Loaded) or (isinstance(before, Loading) and before.child is not None)
