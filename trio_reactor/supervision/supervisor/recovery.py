"""Recovery: what an earlier supervisor left behind is ended or taken over before anything else.

Each record that is not stopped may stand for a running child: of a loaded session surely, of a
launch perhaps.  The execution finds it by what the journal has of it, and either it is proven that
nothing of it runs, or the start fails.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import final

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.owner import Attempt, Owner
from trio_reactor.supervision.errors import TerminationUnconfirmed
from trio_reactor.supervision.events import SessionAdopted
from trio_reactor.supervision.execution.protocol import Adopting, Execution, LaunchOrder, Unit
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.ends import ExitStatus, Killed, NotStarted, Stop, Termination
from trio_reactor.supervision.model.records import (
    LivePhase,
    Loaded,
    Open,
    SessionRecord,
    Stopped,
    Stopping,
)
from trio_reactor.supervision.options import SupervisorOptions
from trio_reactor.supervision.outcome import Outcome

from .registry import Registry
from .session import Session
from .transitions import Transitions

__all__ = ["Recovery"]


@final
class Recovery:
    """Sees to the sessions of earlier supervisors."""

    def __init__(
        self,
        owner: Owner,
        execution: Execution,
        registry: Registry,
        transitions: Transitions,
        options: SupervisorOptions,
        adopted: Callable[[Session], None],
        exited: Callable[[Session], None],
    ) -> None:
        self._owner = owner
        self._world = owner.world
        self._execution = execution
        self._registry = registry
        self._transitions = transitions
        self._options = options
        self._adopted = adopted
        self._exited = exited

    async def run(self, records: tuple[SessionRecord, ...]) -> None:
        """See to all of them, side by side; returns once each is stopped or taken over.

        Raises:
            BaseExceptionGroup: `TerminationUnconfirmed` for each that may still run, what the
                journal refused the end of one for, and what else went wrong.
        """
        failures: list[BaseException] = []
        unsettled: dict[Session, None] = {}
        with trio.move_on_after(self._options.recovery_timeout) as scope:
            async with trio.open_nursery() as nursery:
                for record in records:
                    session = Session(record, deadline=0.0)
                    if isinstance(record.phase, Stopped):
                        self._registry.add(session)
                    else:
                        # Unknown to the others, so that nobody else ends it, until it is proven
                        # that nothing of it runs, or it is taken over.
                        unsettled[session] = None
                        nursery.start_soon(self._recover_or_tell, session, unsettled, failures)
        if scope.cancelled_caught:
            names = ", ".join(str(session.record.handle) for session in list(unsettled)[:8])
            failures.append(
                TerminationUnconfirmed(
                    f"{len(unsettled)} sessions were not recovered within "
                    f"{self._options.recovery_timeout} s: {names}"
                )
            )
        if failures:
            raise BaseExceptionGroup("what was left behind could not be recovered", failures)

    async def _recover_or_tell(
        self, session: Session, unsettled: dict[Session, None], failures: list[BaseException]
    ) -> None:
        try:
            await self._recover(session)
            del unsettled[session]
        except Exception as failure:  # noqa: BLE001 - one of several, raised together by `run`
            failures.append(failure)

    async def _recover(self, session: Session) -> None:
        phase = session.record.phase
        assert not isinstance(phase, Stopped)  # noqa: S101 - those are over
        before: LivePhase = phase.before if isinstance(phase, Stopping) else phase
        if isinstance(phase, Loaded) and await self._adopt(session, phase):
            return
        termination = await self._ended(session, before)
        self._registry.add(session)
        if not isinstance(phase, Stopping):
            self._transitions.fence(session, Stop("recovered"))
        written: Outcome[BaseException | None] = Outcome()
        self._transitions.end(session, termination, written.set, recovered=True)
        refused = await written.wait()
        session.ending.set(termination)
        if refused is not None:
            raise refused  # the next supervisor would find it as if nothing had been done

    async def _ended(self, session: Session, before: LivePhase) -> Termination:
        """End what may run of a session; returns what was observed.

        Raises:
            TerminationUnconfirmed: It may still run.
        """
        if isinstance(before, Open):
            return NotStarted()
        budget = self._options.grace + self._options.confirmation_timeout
        handle = session.record.handle
        try:
            with trio.fail_after(budget):
                status = await self._execution.recover(Orphan(before.launch, before.child))
        except TerminationUnconfirmed:
            raise
        except (ReactorError, OSError, trio.TooSlowError) as failure:
            raise TerminationUnconfirmed(
                f"the end of {handle}, left by an earlier supervisor, could not be observed",
                causes=(failure,),
            ) from failure
        if before.child is None:
            return NotStarted()
        return Killed(ExitStatus() if status is None else status)

    async def _adopt(self, session: Session, phase: Loaded) -> bool:
        """Take over a live execution; returns whether that was done."""
        execution, handle = self._execution, session.record.handle
        if (
            self._options.orphaned != "adopt"
            or not phase.child.secret
            or not isinstance(execution, Adopting)
        ):
            return False
        order = LaunchOrder(
            key=handle.key,
            generation=handle.generation,
            launch=phase.launch,
            work=phase.work,
            limits=session.record.limits,
            orphaned="adopt",
        )
        orphan = Orphan(phase.launch, phase.child)

        @asynccontextmanager
        async def adopting() -> AsyncGenerator[Unit]:
            async with execution.adopt(orphan, order) as unit:
                session.unit = unit
                yield unit

        def lost(_: Attempt[Unit]) -> None:
            # Until it is taken over, its loss is only one that is recovered like the others.
            if session.attempt is attempt:
                self._exited(session)

        attempt = self._owner.start(
            adopting, name=f"execution of {handle}", on_lost=lost, on_ended=_received
        )
        with trio.move_on_after(self._options.grace + self._options.confirmation_timeout):
            try:
                unit = await attempt.wait_opened()
            except ReactorError:
                session.unit = None
                if attempt.is_defect:
                    raise
                return False
            session.attempt = attempt
            session.deadline = unit.deadline
            self._registry.add(session)
            self._adopted(session)
            remaining = max(unit.deadline - self._world.boottime(), 0.0)
            self._transitions.publish(SessionAdopted(handle.key, handle.generation, remaining))
            return True
        attempt.request_retire()
        await attempt.wait_ended()
        session.unit = None
        return False


def _received(_: Attempt[Unit]) -> None:
    """Its failure leads to the recovery, which tells what it finds; so it is none of close's."""
