"""Loading: launch, register, and only then let the user's code run.

One load is one task of the owner's, however many ask for it and whoever of them is cancelled.  What
it journals comes before what it does: the nonce before there is a child, the child before it may
run the user's code.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import final

import msgspec
import trio

from trio_reactor.errors import Closed, Failed, Lost, Retired, TimedOut, is_expected
from trio_reactor.events import FailureRecord
from trio_reactor.owner import Owner
from trio_reactor.supervision.errors import CodeFailed, ExecutionFailed, SessionConflict
from trio_reactor.supervision.execution.protocol import Execution, LaunchOrder, Unit
from trio_reactor.supervision.model import codec
from trio_reactor.supervision.model.child import Launch
from trio_reactor.supervision.model.ends import Stop
from trio_reactor.supervision.model.machine import CodeLoaded, LoadBegun, Registered
from trio_reactor.supervision.model.records import Loaded, Loading
from trio_reactor.supervision.model.work import CodeIdentity, Work
from trio_reactor.supervision.options import SupervisorOptions

from .alarms import Alarms
from .health import Health
from .session import LoadJob, Session
from .stopping import Stops
from .transitions import Transitions

__all__ = ["Loads"]


@final
class Loads:
    """Loads code into sessions."""

    def __init__(
        self,
        owner: Owner,
        execution: Execution,
        transitions: Transitions,
        stops: Stops,
        health: Health,
        alarms: Alarms,
        options: SupervisorOptions,
        told_deadline: Callable[[Session], float],
    ) -> None:
        self._owner = owner
        self._world = owner.world
        self._execution = execution
        self._transitions = transitions
        self._stops = stops
        self._health = health
        self._alarms = alarms
        self._options = options
        self._told_deadline = told_deadline
        self._turns = trio.CapacityLimiter(options.max_starting)

    @property
    def starting(self) -> int:
        """How many executions are starting."""
        return int(self._turns.borrowed_tokens)

    @property
    def waiting(self) -> int:
        """How many loads wait for their turn."""
        return self._turns.statistics().tasks_waiting

    async def load(
        self, session: Session, work: Work, *, hang_timeout: float | None
    ) -> CodeIdentity:
        """Join the load of a live session, or begin it; see `Supervisor.load`."""
        phase = session.record.phase
        job = session.job
        before = job.work if job else phase.work if isinstance(phase, Loaded | Loading) else None
        if before is not None and before != work:
            raise SessionConflict(f"{session.record.handle} was asked to load something else")
        if job is None:
            if isinstance(phase, Loaded):
                await trio.lowlevel.checkpoint()
                return phase.code
            job = self._begin(session, work, hang_timeout)
        return await job.outcome.wait()

    def watch(self, session: Session, hang_timeout: float | None) -> None:
        """Stop a loaded session once its code is silent for so long."""
        if hang_timeout is None:
            return
        timeout = hang_timeout

        def due() -> float | None:
            unit = session.unit
            if not session.is_live or unit is None:
                return None
            left = unit.heard_at + timeout - self._world.clock()
            if left > 0:
                return left
            self._stops.begin_unresponsive(session, lambda: self.watch(session, timeout))
            return None

        self._alarms.after(timeout, due)

    # ------------------------------------------------------------------------------- one load

    def _begin(self, session: Session, work: Work, hang_timeout: float | None) -> LoadJob:
        # What cannot be recorded is refused before anything has changed.
        launch = Launch(nonce="0" * 32, by=0.0, boot_id=self._execution.boot_id)
        codec.encode(msgspec.structs.replace(session.record, phase=Loading(work, launch)))
        job = LoadJob(work, hang_timeout)
        self._owner.start_soon(
            self._run, session, job, name=f"load of {session.record.handle}", drain=True
        )
        session.job = job
        return job

    async def _run(self, session: Session, job: LoadJob) -> None:
        try:
            with job.scope:
                code = await self._load(session, job)
                # Set in the step in which it is known: a stop that comes now comes after it.
                job.outcome.set(code)
                self.watch(session, job.hang_timeout)
        except Exception as failure:  # noqa: BLE001 - a load's failure is its session's, told below
            self._failed(session, job, failure)
        finally:
            job.done.set()

    async def _load(self, session: Session, job: LoadJob) -> CodeIdentity:
        options, world, handle = self._options, self._world, session.record.handle
        async with self._turn(session):
            await _still_wanted()
            launch = Launch(
                nonce=world.token(),
                by=world.boottime() + options.start_timeout,
                boot_id=self._execution.boot_id,
            )
            await self._transitions.proceed(session, LoadBegun(job.work, launch)).wait()
            order = LaunchOrder(
                key=handle.key,
                generation=handle.generation,
                launch=launch,
                work=job.work,
                limits=session.record.limits,
                orphaned=options.orphaned,
            )
            await _still_wanted()
            unit = await self._launched(session, order)
            await _still_wanted()
            await self._transitions.proceed(session, Registered(unit.child, unit.enforced)).wait()
            await _still_wanted()
            unit.renew(self._told_deadline(session))
            with _budget(options.load_timeout, f"{handle}: the code did not load"):
                job.starting = True
                try:
                    code = await unit.start()
                finally:
                    job.starting = False
        await _still_wanted()
        await self._transitions.proceed(session, CodeLoaded(code)).wait()
        return code

    @asynccontextmanager
    async def _turn(self, session: Session) -> AsyncGenerator[None]:
        with _budget(self._options.start_timeout, f"{session.record.handle}: no turn to start"):
            await self._turns.acquire_on_behalf_of(session)
        loaded = False
        try:
            yield
            loaded = True
        finally:
            attempt = session.attempt
            # A load that was given up may leave a child that is still launched, or ended: it counts
            # until it is gone.
            if loaded or attempt is None or attempt.phase == "ended":
                self._release(session)

    def _release(self, session: Session) -> None:
        if session in self._turns.statistics().borrowers:
            self._turns.release_on_behalf_of(session)

    async def _launched(self, session: Session, order: LaunchOrder) -> Unit:
        """The child, which waits; its exit is watched from its existence on.

        Raises:
            ExecutionFailed: There is none.
        """

        @asynccontextmanager
        async def launching() -> AsyncGenerator[Unit]:
            async with self._execution.launch(order) as unit:
                session.unit = unit  # with no checkpoint: a stop finds it
                yield unit

        handle = session.record.handle
        attempt = self._owner.start(
            launching,
            name=f"execution of {handle}",
            on_lost=lambda _: self.exited(session),
            # Its failure is its session's, which tells it; so it is none of close's.
            on_ended=lambda _: self._release(session),
        )
        session.attempt = attempt
        with _budget(self._options.start_timeout, f"{handle}: no child came to exist"):
            try:
                return await attempt.wait_opened()
            except (Failed, Lost, Retired, Closed) as gone:
                failure = attempt.failure
                if attempt.reason == "failed" and isinstance(failure, Exception):
                    raise failure from None
                raise gone from None

    def exited(self, session: Session) -> None:
        """The execution of a session has ended by itself, or can no longer be observed."""
        # Its guard ends it at its deadline, which can be heard of before our own alarm goes off.
        self._stops.expire(session)
        self._stops.begin(session, Stop("exited", exit=session.exit))

    def _failed(self, session: Session, job: LoadJob, failure: Exception) -> None:
        """A load has failed: stop the session, unless it was stopped, and tell who waits."""
        if not is_expected(failure):
            self._health.poison(failure)
        if not session.is_live:
            if isinstance(failure, CodeFailed):
                # Its end was heard of first.  Why it ended is told to who waits all the same.
                job.outcome.fail(_afresh(failure))
            return  # else the stop has told them why, or tells them when the exit is known
        if self._owner.stopping.is_set and isinstance(failure, Closed):
            self._stops.begin(session, Stop("shutdown"))
            return
        if session.exit is not None and not isinstance(failure, CodeFailed):
            self.exited(session)
            return
        ended = isinstance(failure, ExecutionFailed) and session.unit is not None
        if not ended:
            job.outcome.fail(_afresh(failure))
        record = FailureRecord.of(failure)
        self._stops.begin(session, Stop("load-failed", exit=session.exit, failure=record))


async def _still_wanted() -> None:
    """Pass the fence: a stop has cancelled the load.  Yields only if it raises `Cancelled`."""
    await trio.lowlevel.checkpoint_if_cancelled()


@contextmanager
def _budget(seconds: float, what: str) -> Generator[None]:
    """A block that may take so long.

    Raises:
        TimedOut: It took longer.
    """
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise TimedOut(f"{what} in time")


def _afresh(failure: Exception) -> Callable[[], BaseException]:
    """Makes the failure for each who waits: the original for the first, then others from it."""
    originals = [failure]

    def make() -> BaseException:
        if originals:
            return originals.pop()
        error: BaseException
        match failure:
            case CodeFailed():
                error = CodeFailed(failure.message, detail=failure.detail)
            case ExecutionFailed():
                error = ExecutionFailed(failure.message, detail=failure.detail)
            case TimedOut():
                error = TimedOut(failure.message)
            case _:
                error = Failed("the load has failed")
        error.__cause__ = failure
        return error

    return make
