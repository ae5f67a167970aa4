"""Transitions: each is decided by the table, journaled, and then visible.

With one exception: a stop is fenced in memory at once, also when the journal cannot take it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import final

import msgspec

from trio_reactor.channel import Publisher
from trio_reactor.errors import Closed
from trio_reactor.events import FailureRecord
from trio_reactor.supervision.errors import RecordRefused
from trio_reactor.supervision.events import (
    ChildRegistered,
    CleanupFailed,
    SessionForgotten,
    SessionLoaded,
    SessionLoading,
    SessionOpened,
    SessionRecovered,
    SessionStopped,
    SessionStopping,
    SupervisionEvent,
)
from trio_reactor.supervision.journal import Write, Writer
from trio_reactor.supervision.model.ends import NotStarted, Stop, Termination
from trio_reactor.supervision.model.keys import Handle
from trio_reactor.supervision.model.machine import (
    CodeLoaded,
    Ended,
    LoadBegun,
    Registered,
    advance,
    stopped,
    stopping,
)
from trio_reactor.supervision.model.records import (
    Loaded,
    Loading,
    Open,
    Phase,
    SessionRecord,
    Stopping,
)

from .health import Health
from .registry import Registry
from .session import Session

__all__ = ["Transitions"]

_log = logging.getLogger("trio_reactor.supervision")


@final
class Transitions:
    """Takes sessions from one phase to the next."""

    def __init__(
        self, registry: Registry, writer: Writer, publisher: Publisher, health: Health
    ) -> None:
        self._registry = registry
        self._writer = writer
        self._publisher = publisher
        self._health = health

    def publish(self, event: SupervisionEvent) -> None:
        """Say what happened; nothing once the application's channel has ended."""
        if not self._publisher.ended:
            self._publisher.publish(event)

    def open(
        self, record: SessionRecord, opened: Callable[[], None], refused: Callable[[], None]
    ) -> Write:
        """Journal a session's first record.

        Args:
            record: The record.
            opened: Called when the journal has it: makes the session known and leases it.
            refused: Called if it could not take it.

        Raises:
            RecordRefused, Overflow: It was not given to the journal.
        """

        def committed() -> None:
            # Said first: where close has begun, it stops as soon as it is known.
            key, generation = record.handle.key, record.handle.generation
            self.publish(SessionOpened(key, generation, record.lease, record.limits))
            opened()

        return self._writer.submit(record, committed=committed, refused=lambda _: refused())

    def check_room(self) -> None:
        """See that the journal would take a step now.

        Raises:
            Overflow: `max_transitions` wait for it.
        """
        self._writer.check_room()

    def proceed(self, session: Session, event: LoadBegun | Registered | CodeLoaded) -> Write:
        """Journal a step of a live session; it is visible once the journal has it.

        Raises:
            RecordRefused, Overflow: It was not given to the journal, and nothing changed.
            RuntimeError: The table does not know this step from where the session is.
        """
        phase = advance(session.ahead, event)
        if phase is None:
            raise RuntimeError(f"{session!r} cannot take {type(event).__name__}")
        record = _in_phase(session.record, phase)

        def committed() -> None:
            if session.is_live:  # a stop may have fenced it meanwhile
                session.record = record
                self.publish(_told(record, event))

        write = self._writer.submit(record, committed=committed, refused=_ignored)
        session.ahead = phase
        return write

    def fence(self, session: Session, stop: Stop) -> None:
        """Fence a live session: visible at once, and given to the journal."""
        before = session.ahead
        assert isinstance(before, Open | Loading | Loaded)  # noqa: S101 - it is live
        session.ahead = stopping(before, stop)
        session.record = _in_phase(session.record, session.ahead)
        session.journaled = False
        handle = session.record.handle
        self.publish(SessionStopping(handle.key, handle.generation, stop))

        def committed(_: SessionRecord) -> None:
            session.journaled = True

        self._give(
            session.record,
            lambda: _in_phase(session.record, stopping(before, _bare_stop(stop))),
            committed=committed,
            refused=_ignored,
        )

    def end(
        self,
        session: Session,
        termination: Termination,
        ended: Callable[[BaseException | None], None],
        *,
        recovered: bool = False,
    ) -> None:
        """Journal that a session's end was observed, and forget the oldest beyond the bound.

        Args:
            session: A session that is stopping.
            termination: What was observed.
            ended: Called once the journal has it, with `None`, or with why it cannot take it.
            recovered: Whether an earlier supervisor had it.
        """
        before = session.ahead
        assert isinstance(before, Stopping)  # noqa: S101 - its stop comes before its end
        phase = stopped(before, Ended(termination, recovered))
        forgets = self._registry.evict(session)

        def committed(record: SessionRecord) -> None:
            session.record, session.ahead, session.journaled = record, phase, True
            session.job = session.attempt = None
            self._registry.has_stopped(session)
            self._registry.forget(forgets)
            handle = record.handle
            told = SessionRecovered if recovered else SessionStopped
            self.publish(told(handle.key, handle.generation, phase.stop, termination))
            if termination.causes:
                _log.warning("%s: cleaning up failed", handle)
                self.publish(CleanupFailed(handle.key, handle.generation, termination.causes))
            for forgotten in forgets:
                self.publish(SessionForgotten(forgotten.key, forgotten.generation))
            ended(None)

        def refused(failure: BaseException) -> None:
            session.journaled = False
            self._registry.keep(session, forgets)
            ended(failure)

        def bare() -> SessionRecord:
            stop = stopping(before.before, _bare_stop(before.stop))
            end = stopped(stop, Ended(_bare_termination(termination), recovered))
            return _in_phase(session.record, end)

        self._give(
            _in_phase(session.record, phase),
            bare,
            forgets=forgets,
            committed=committed,
            refused=refused,
        )

    def _give(
        self,
        record: SessionRecord,
        bare: Callable[[], SessionRecord],
        *,
        forgets: tuple[Handle, ...] = (),
        committed: Callable[[SessionRecord], None],
        refused: Callable[[BaseException], None],
    ) -> None:
        """Give the record of an end to the journal, or the bare one if that cannot be written.

        If neither can be given to it, the supervisor is poisoned.
        """

        def submit(chosen: SessionRecord) -> None:
            self._writer.submit(
                chosen,
                forgets=forgets,
                ends=True,
                committed=partial(committed, chosen),
                refused=refused,
            )

        try:
            try:
                submit(record)
            except RecordRefused:
                submit(bare())
        except (Closed, RecordRefused) as failure:
            self._health.poison(failure)
            refused(failure)


def _in_phase(record: SessionRecord, phase: Phase) -> SessionRecord:
    return msgspec.structs.replace(record, phase=phase)


def _ignored(_: BaseException) -> None:
    """Whoever waits for the write is told, and the writer's failure poisons the supervisor."""


def _told(record: SessionRecord, event: LoadBegun | Registered | CodeLoaded) -> SupervisionEvent:
    key, generation = record.handle.key, record.handle.generation
    match event:
        case LoadBegun(work=work):
            return SessionLoading(key, generation, work)
        case Registered(child=child, enforced=enforced):
            return ChildRegistered(key, generation, child.process, enforced)
        case CodeLoaded(code=code):
            return SessionLoaded(key, generation, code)


def _bare_stop(stop: Stop) -> Stop:
    """The same without what others said, which may be what does not fit."""
    failure = stop.failure
    bare = None if failure is None else FailureRecord(failure.type, "not recorded: too large")
    return Stop(stop.reason, stop.exit, bare)


def _bare_termination(termination: Termination) -> Termination:
    match termination:
        case NotStarted():
            return NotStarted()
        case _:
            return type(termination)(termination.exit)
