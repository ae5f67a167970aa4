"""The parts of a supervisor, put together; and what concerns all of its sessions at once."""

from __future__ import annotations

import logging
from typing import final

import trio

from trio_reactor.channel import Publisher
from trio_reactor.errors import Closed, ReactorError
from trio_reactor.events import FailureRecord
from trio_reactor.owner import Owner
from trio_reactor.supervision.errors import HostFenced
from trio_reactor.supervision.events import KeyTaken, SupervisorPoisoned
from trio_reactor.supervision.execution.protocol import Execution
from trio_reactor.supervision.hosts.tenure import Tenure
from trio_reactor.supervision.journal import Writer
from trio_reactor.supervision.model.ends import Stop
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Stopped, child_of
from trio_reactor.supervision.options import SupervisorOptions
from trio_reactor.supervision.store.protocol import Contents, Journal, KeyFacts, SharedJournal

from .alarms import Alarms
from .health import Health
from .keys import Keys, LocalKeys, SharedKeys
from .loading import Loads
from .opening import Opens
from .recovery import Recovery
from .registry import Registry
from .session import Session
from .stopping import Stops
from .transitions import Transitions

__all__ = ["Engine"]

_log = logging.getLogger("trio_reactor.supervision")


@final
class Engine:
    """Everything of one supervisor."""

    def __init__(
        self,
        owner: Owner,
        journal: Journal,
        execution: Execution,
        options: SupervisorOptions,
        publisher: Publisher,
    ) -> None:
        self._owner = owner
        self._world = owner.world
        self._journal = journal
        self.options = options
        self._draining: str | None = None
        self._confessed: list[BaseException] = []
        self.health = Health(owner.name, self._poisoned)
        self.registry = Registry(max_stopped=options.max_stopped)
        self.alarms = Alarms(owner.world, self.health.poison)
        self.writer = Writer(
            journal, max_transitions=options.max_transitions, on_failed=self.health.poison
        )
        self._transitions = Transitions(self.registry, self.writer, publisher, self.health)
        self.stops = Stops(owner, self._transitions, self.health, self.alarms, options)
        self.loads = Loads(
            owner,
            execution,
            self._transitions,
            self.stops,
            self.health,
            self.alarms,
            options,
            self.told_deadline,
        )
        self._tenure: Tenure | None = None
        self.keys: Keys = LocalKeys(self.registry)
        if isinstance(journal, SharedJournal):
            self._tenure = Tenure(
                journal,
                owner.world,
                margin=options.margin,
                on_horizon=lambda _: self._horizon_moved(),
                on_fenced=self._fenced,
            )
            self.keys = SharedKeys(journal, self._tenure, self._taken)
        self.opens = Opens(
            owner,
            self.keys,
            self.registry,
            self._transitions,
            self.stops,
            self.health,
            self.alarms,
            options,
            self.check_opening,
        )
        self._recovery = Recovery(
            owner,
            execution,
            self.registry,
            self._transitions,
            options,
            self._adopted,
            self.loads.exited,
        )

    async def start(self) -> None:
        """Begin to work: read the journal, see to what was left behind.

        Raises:
            StoreError, RecordUnreadable: The journal could not be read.
            BaseExceptionGroup: What was left behind could not be recovered.
        """
        contents: Contents = await self._journal.load()
        for key, generation in contents.high_water.items():
            self.registry.raise_high_water(key, generation)
        self._owner.start_soon(self._write, name="journal", drain=True)
        self._owner.start_soon(self.alarms.run, name="alarms")
        ready = trio.Event()
        self._owner.start_soon(self._end_sessions, ready, name="stops", drain=True)
        await ready.wait()
        if self._tenure is not None:
            self._owner.start_soon(self._beat, self._tenure, name="beats")
        await self._recovery.run(contents.records)
        self.health.check()
        if self._tenure is not None:
            await self._tenure.wait_holding()

    # --------------------------------------------------------------------------------- checking

    def check(self) -> None:
        """Raise unless a live session may go on.

        Raises:
            SupervisorPoisoned: It cannot vouch for what it holds.
            Closed, Failed: It closes.
        """
        self.health.check()
        self._owner.check()

    def check_beginning(self) -> None:
        """Raise unless something new may be acquired: as `check`, and once the body is left."""
        self.check()
        if self._owner.stopping.is_set:
            raise Closed(f"{self._owner.name} begins nothing new: {self._owner.stopping.reason}")

    def check_opening(self) -> None:
        """Raise unless a session may be opened: as `check_beginning`, and while it drains."""
        self.check_beginning()
        if self._draining is not None:
            raise Closed(f"{self._owner.name} opens nothing new: {self._draining}")

    # --------------------------------------------------------------------------------- renewing

    def expire(self, session: Session) -> None:
        """Stop a session whose lease has run out, if that was not noticed yet."""
        self.stops.expire(session)

    def renew(self, session: Session) -> float:
        """Move a live session's deadline; returns the seconds it has left.

        Raises:
            SessionStopped: Its child could not be told, and so it stops.
        """
        lease = session.record.lease
        session.deadline = self._world.boottime() + lease
        self._tell(session)
        error = session.error()
        if error is not None:
            raise error
        return lease

    def _tell(self, session: Session) -> None:
        """Tell a session's child when it has to end.

        One that is not registered yet is told when it is: so long, its launch's deadline holds.
        One that cannot be told ends at the deadline it knows of: its session stops, and no other.
        """
        if session.unit is None or child_of(session.record.phase) is None:
            return
        try:
            session.unit.renew(self.told_deadline(session))
        except Exception as failure:  # noqa: BLE001 - whatever the adapter raised, it is recorded
            self.stops.begin(session, Stop("unreachable", failure=FailureRecord.of(failure)))

    def told_deadline(self, session: Session) -> float:
        """When a session's child has to end: with its lease, or when this host may hold nothing."""
        if self._tenure is None:
            return session.deadline
        return min(session.deadline, self._tenure.horizon)

    def _adopted(self, session: Session) -> None:
        self.opens.lease(session)
        self.loads.watch(session, self.options.hang_timeout)

    # ------------------------------------------------------------- where hosts share a journal

    async def _beat(self, tenure: Tenure) -> None:
        try:
            await tenure.run()
        except Exception as failure:  # noqa: BLE001 - whatever it is, nobody beats any more
            self.health.poison(failure)

    def _horizon_moved(self) -> None:
        """A beat was answered: every child may live longer, as far as its lease goes."""
        for session in self.registry:
            if session.is_live:
                self._tell(session)

    def _fenced(self) -> None:
        """Nothing of this host may run any more: its children end by themselves, if not by us."""
        if self._tenure is not None and self._tenure.fenced:
            host = self.keys.host
            self.health.poison(HostFenced(f"{self._owner.name} was fenced as {host}"))
        for session in self.registry:
            if session.is_live:
                self.stops.begin(session, Stop("fenced"))

    def _taken(self, key: Key, facts: KeyFacts) -> None:
        self._transitions.publish(KeyTaken(key, facts.generation, facts.host))

    # ----------------------------------------------------------------------------------- ending

    async def drain(self, timeout: float) -> tuple[Handle, ...]:
        """Open nothing more, wait, and stop the rest; see `Supervisor.drain`."""
        self._draining = "it drains"
        with trio.move_on_after(timeout):
            await self.opens.settled()
            await self.registry.wait_idle()
        # What an open has given to the journal it brings, however late; nothing else is opened.
        await self.opens.settled()
        rest = [session for session in self.registry if session.is_live]
        ending = [s for s in self.registry if not isinstance(s.record.phase, Stopped)]
        failures = await self._stop(ending)
        if failures:
            raise BaseExceptionGroup(f"{self._owner.name} has drained", failures)
        return tuple(session.record.handle for session in rest)

    async def _stop(self, sessions: list[Session]) -> list[BaseException]:
        """Stop these, side by side; returns what went wrong."""
        endings = [self.stops.begin(session, Stop("shutdown")) for session in sessions]
        failures: list[BaseException] = []
        for ending in endings:
            try:
                await ending.wait()
            except ReactorError as failure:
                failures.append(failure)
        return failures

    async def _end_sessions(self, ready: trio.Event) -> None:
        try:
            await self.stops.run(ready, self._shut_down)
        finally:
            self.writer.close()
            self._confess()

    async def _write(self) -> None:
        try:
            await self.writer.run()
        finally:
            # What was written last, the ends of sessions, is written after they are seen to.
            self._confess()

    def _confess(self) -> None:
        """Have close raise what went wrong, each once."""
        for failure in (*self.health.failures, *self.stops.causes):
            if not any(failure is told for told in self._confessed):
                self._confessed.append(failure)
                self._owner.fail(failure)

    async def _shut_down(self) -> None:
        """Close has begun: stop every session, and what an open in flight still brings."""
        for session in self.registry:
            if session.is_live:
                self.stops.begin(session, Stop("shutdown"))
        await self.opens.settled()

    def _poisoned(self, failure: BaseException) -> None:
        self._transitions.publish(SupervisorPoisoned(FailureRecord.of(failure)))
