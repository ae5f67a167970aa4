"""Opening: one session of a key at a time, each of a higher generation.

A key's opens stand in one lane.  What was given to the journal goes on when its caller leaves, so
the next one first waits until that is settled, and then finds what came of it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import final

from trio_reactor.errors import ReactorError
from trio_reactor.lanes import Lanes
from trio_reactor.owner import Owner
from trio_reactor.supervision.errors import AdmissionFull, StaleSession
from trio_reactor.supervision.journal import Write
from trio_reactor.supervision.model.ends import Stop
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Open, SessionRecord, Stopped
from trio_reactor.supervision.model.work import Limits
from trio_reactor.supervision.options import SupervisorOptions

from .alarms import Alarms
from .health import Health
from .keys import Keys
from .registry import Registry
from .session import Session
from .stopping import Stops
from .transitions import Transitions

__all__ = ["Opens"]

_log = logging.getLogger("trio_reactor.supervision")


@final
class Opens:
    """Opens sessions."""

    def __init__(
        self,
        owner: Owner,
        keys: Keys,
        registry: Registry,
        transitions: Transitions,
        stops: Stops,
        health: Health,
        alarms: Alarms,
        options: SupervisorOptions,
        admits: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._world = owner.world
        self._keys = keys
        self._registry = registry
        self._transitions = transitions
        self._stops = stops
        self._health = health
        self._alarms = alarms
        self._options = options
        self._admits = admits
        self._lanes: Lanes[Key] = Lanes()
        self._in_flight: dict[Key, Write] = {}

    async def open(
        self, key: Key, *, request: str, expected: int, lease: float, limits: Limits
    ) -> SessionRecord:
        """Open a session; see `Supervisor.open`."""
        async with self._lanes(key):
            await self._settled(key)
            self._admits()
            known = self._registry.by_request(key, request)
            if known is not None:
                self._stops.expire(known)
                return known.record
            generation = await self._keys.claim(key, expected)
            if generation != expected:
                raise StaleSession(
                    f"{key}: the highest generation is {generation or None}, "
                    f"and {expected or None} was expected"
                )
            await self._supersede(key)
            self._admits()
            if self._registry.running + len(self._in_flight) >= self._options.max_sessions:
                raise AdmissionFull(
                    f"max_sessions: {self._options.max_sessions} sessions are there already",
                    missed=1,
                    retryable=True,
                )
            record = SessionRecord(
                handle=Handle(key, generation + 1, self._world.token()),
                request=request,
                lease=lease,
                limits=limits,
                opened_at=self._world.wall(),
                phase=Open(),
                host=self._keys.host,
            )
            write = self._in_flight[key] = self._transitions.open(
                record, lambda: self._opened(record), lambda: self._gone(key)
            )
            await write.wait()
            session = self._registry.by_request(key, request)
            return record if session is None else session.record

    async def settled(self) -> None:
        """Sleep until no open is with the journal."""
        while self._in_flight:
            await self._settled(next(iter(self._in_flight)))

    def lease(self, session: Session) -> None:
        """Stop a session when its lease runs out; it may be renewed meanwhile."""

        def due() -> float | None:
            if not session.is_live:
                return None
            left = session.deadline - self._world.boottime()
            if left > 0:
                return left
            self._stops.begin(session, Stop("expired"))
            return None

        session.alarm = self._alarms.after(session.deadline - self._world.boottime(), due)

    # -------------------------------------------------------------------------------- in its lane

    async def _settled(self, key: Key) -> None:
        """Sleep until what an earlier open gave to the journal is settled."""
        write = self._in_flight.get(key)
        if write is not None:
            with contextlib.suppress(ReactorError):  # it is that open's failure
                await write.wait()

    async def _supersede(self, key: Key) -> None:
        """Stop the key's previous session, and wait until its end was observed.

        Raises:
            TerminationUnconfirmed: It may still run.
        """
        for session in self._registry.of_key(key):
            if isinstance(session.record.phase, Stopped) and not session.ending.settled:
                continue  # stopped, by an earlier supervisor
            self._stops.expire(session)
            termination = await self._stops.begin(session, Stop("superseded")).wait()
            if termination.causes:
                # Not this open's failure: the end was observed all the same.
                _log.warning("%s: cleaning up its last session failed", key)

    # ----------------------------------------------------------------------- in the writer's task

    def _opened(self, record: SessionRecord) -> None:
        self._gone(record.handle.key)
        session = Session(record, self._world.boottime() + record.lease)
        self._registry.add(session)
        self.lease(session)
        if self._owner.closing.is_set:
            self._stops.begin(session, Stop("shutdown"))

    def _gone(self, key: Key) -> None:
        del self._in_flight[key]
