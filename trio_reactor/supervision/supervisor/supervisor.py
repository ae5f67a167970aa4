"""The supervisor: leased, fenced, journaled worker processes."""

from __future__ import annotations

from math import isfinite
from typing import Never, final

import msgspec
import trio

from trio_reactor.channel import Publisher
from trio_reactor.errors import Closed
from trio_reactor.owner import Owner
from trio_reactor.supervision.errors import SessionStopped
from trio_reactor.supervision.execution.protocol import Output, Unit
from trio_reactor.supervision.model.ends import Stop, Termination
from trio_reactor.supervision.model.keys import Handle, Key, check_name
from trio_reactor.supervision.model.records import SessionRecord, SessionStatus, Stopped, Stopping
from trio_reactor.supervision.model.work import (
    UNLIMITED,
    CodeIdentity,
    Limits,
    Work,
    as_work,
    negotiate,
)
from trio_reactor.supervision.options import MAX_DURATION, SupervisorOptions
from trio_reactor.world import World

from .engine import Engine
from .session import Session

__all__ = ["Supervisor", "SupervisorStatistics"]


class SupervisorStatistics(msgspec.Struct, frozen=True):
    """What a supervisor holds at one moment."""

    sessions: int
    """Sessions that are not stopped."""
    stopped: int
    """Stopped sessions whose records are kept."""
    starting: int
    """Executions that are starting."""
    waiting: int
    """Loads that wait for their turn to start."""
    transitions: int
    """Transitions that wait for the journal."""


@final
class Supervisor:
    """Holds sessions, each with at most one execution.  Made by `open_supervisor`."""

    def __init__(self, owner: Owner, engine: Engine, publisher: Publisher) -> None:
        self._owner = owner
        self._engine = engine
        self.events = publisher
        """What it has to say, to be observed (`trio_reactor.supervision.events`)."""

    def __repr__(self) -> str:
        return f"<Supervisor {self._owner.name}: {self._engine.registry.running} sessions>"

    @property
    def options(self) -> SupervisorOptions:
        """What it was opened with."""
        return self._engine.options

    @property
    def world(self) -> World:
        """Where its clocks, chance and tokens come from."""
        return self._owner.world

    # ------------------------------------------------------------------------------- sessions

    async def open(
        self,
        key: Key | str,
        *,
        request: str | None = None,
        expected_generation: int | None = None,
        lease: float | None = None,
        limits: Limits = UNLIMITED,
    ) -> SessionRecord:
        """Open a session of a key, in the place of the one before.

        The same request finds the same session again, stopped or not: so whoever does not know what
        became of an open asks again.  Otherwise the key's previous session is stopped, its end
        observed, and the new one is journaled.  One key's opens go one after the other; different
        keys do not wait for one another.

        If it is cancelled once the journal has begun to take it, the session is there and leased,
        and the same request finds it.

        Args:
            key: What is opened; a text is an identity.
            request: Names this request; by default it is like no other.
            expected_generation: The key's highest generation so far; `None`: it was never opened.
            lease: Seconds that it lives unless it is renewed; by default that of the options.
            limits: What its execution may use, at most what the options offer.

        Returns:
            The session's record, with its handle.

        Raises:
            StaleSession: The key's highest generation is another, or the session that this request
                opened was forgotten.
            KeyHeld: Another host that lives holds the key.
            TerminationUnconfirmed: The previous session's execution may still run.
            AdmissionFull, Overflow: A bound was reached.
            StoreError: The journal could not take it.
            SupervisorPoisoned: The supervisor cannot vouch for what it holds.
            Closed: It closes, or drains; a task that is cancelled already gets that instead.
            ValueError, TypeError: An argument cannot be; it is named.
        """
        key = _as_key(key)
        request = self._owner.world.token() if request is None else _as_request(request)
        expected = _as_generation(expected_generation)
        options = self._engine.options
        lease = options.lease if lease is None else _checked("lease", lease, options.max_lease)
        allowed = negotiate(options.limits, _as_limits(limits))
        try:
            self._engine.check_opening()
            return await self._engine.opens.open(
                key, request=request, expected=expected, lease=lease, limits=allowed
            )
        except Closed:
            # What closes it has mostly cancelled this task too: then that is what it gets.
            await trio.lowlevel.checkpoint_if_cancelled()
            raise

    def renew(self, handle: Handle) -> float:
        """Let a session live for its lease from now on.

        Synchronous: its child is told, and nobody waits for that.

        Returns:
            The seconds it has left.

        Raises:
            StaleSession: There is no such session.
            LeaseExpired: Its lease has run out.
            SessionStopped: It is stopping or stopped for another reason, which may be that its
                child could not be told.
            SupervisorPoisoned: The supervisor cannot vouch for what it holds.
            Closed: It closes.
        """
        self._engine.check()
        return self._engine.renew(self._live(handle))

    async def load(
        self,
        handle: Handle,
        work: Work | str,
        *,
        hang_timeout: float | None = None,
    ) -> CodeIdentity:
        """Run code in a session; returns when it is loaded.

        Asking twice for the same is one load with one result.  Cancelling only leaves: the load
        goes on.  Of code that ends as soon as it is loaded, either its identity is returned or
        `SessionStopped` raised, with the reason `exited` and how it ended; `wait_stopped` tells
        that in both cases.

        Args:
            handle: The session.
            work: What runs; a text is the specifier of a Python callable.
            hang_timeout: Seconds without a sign of life after which it is stopped; by default that
                of the options.

        Raises:
            CodeFailed: The code could not be loaded; the session stops.
            ExecutionFailed, TimedOut: There is no execution; the session stops.
            SessionStopped: The execution ended meanwhile, or another stop came first.
            LeaseExpired: Its lease has run out, before or meanwhile.
            SessionConflict: It was asked to load something else before.
            StaleSession: There is no such session.
            RecordRefused: What runs cannot be recorded; nothing has changed.
            Overflow: `max_transitions` wait for the journal; nothing has changed.
            ValueError, TypeError: An argument cannot be; it is named, and nothing has changed.
            SupervisorPoisoned, Closed, StoreError: As of `open`.
        """
        try:
            self._engine.check_beginning()
        except Closed:
            await trio.lowlevel.checkpoint_if_cancelled()  # as in `open`
            raise
        session = self._live(handle)
        timeout = self._engine.options.hang_timeout
        if hang_timeout is not None:
            timeout = _checked("hang_timeout", hang_timeout, MAX_DURATION)
        return await self._engine.loads.load(session, as_work(work), hang_timeout=timeout)

    async def dispose(self, handle: Handle) -> Termination:
        """Stop a session; returns when the end of its execution was observed.

        Of a stopped session it returns what was recorded.  Cancelling only leaves: the stop goes
        on.  It works also while the supervisor is poisoned.

        Raises:
            StaleSession: There is no such session.
            TerminationUnconfirmed: Its execution may still run.
        """
        session = self._engine.registry.find(_as_handle(handle))
        self._engine.expire(session)
        phase = session.record.phase
        if isinstance(phase, Stopped):
            await trio.lowlevel.checkpoint()
            return phase.termination
        return await self._engine.stops.begin(session, Stop("disposed")).wait()

    async def wait_stopped(self, handle: Handle) -> Stopped:
        """Sleep until a session is over; returns why, and the observed end of its execution.

        It stops nothing.  Always a checkpoint; cancelling only leaves.  Who waits is told also if
        the session's record is forgotten at once.

        Raises:
            StaleSession: There is no such session.
            TerminationUnconfirmed: Its execution may still run.
        """
        session = self._engine.registry.find(_as_handle(handle))
        phase = session.record.phase
        if isinstance(phase, Stopped):
            await trio.lowlevel.checkpoint()
            return phase
        termination = await session.ending.wait()
        phase = session.record.phase
        if isinstance(phase, Stopped):
            return phase
        # The journal could not take it; the end was observed all the same.
        assert isinstance(phase, Stopping)  # noqa: S101 - its end is settled
        return Stopped(phase.stop, termination)

    def status(self, handle: Handle) -> SessionStatus:
        """A session as it is now.

        Raises:
            StaleSession: There is no such session.
        """
        session = self._engine.registry.find(_as_handle(handle))
        self._engine.expire(session)
        remaining = None
        if session.is_live:
            remaining = max(session.deadline - self._owner.world.boottime(), 0.0)
        return SessionStatus(session.record, remaining, session.journaled)

    async def high_water(self, key: Key | str) -> int | None:
        """The highest generation that a key ever had; `None`: it was never opened.

        Of a journal that several share it is asked for.  Always a checkpoint.

        Raises:
            StoreError: It could not be asked for.
        """
        key = _as_key(key)
        return await self._engine.keys.high_water(key) or None

    # ------------------------------------------------------------------------------ executions

    def channel(self, handle: Handle) -> trio.abc.HalfCloseableStream:
        """The application's end of the channel to a session's code.

        `send_eof` tells the code that nothing more comes.  What the code sent before it ended can
        be received until the session is forgotten.

        Raises:
            StaleSession: There is no such session.
            SessionStopped: It never had an execution of this supervisor's.
        """
        return self._unit(handle).channel

    def output(self, handle: Handle) -> Output:
        """What a session's execution wrote; also after its end, until the session is forgotten.

        Raises:
            StaleSession: There is no such session.
            SessionStopped: It never had an execution of this supervisor's.
        """
        return self._unit(handle).output

    async def stack(self, handle: Handle) -> str:
        """Where a session's code is, for a person to read.

        Raises:
            ExecutionFailed: It cannot be told.
            StaleSession, LeaseExpired, SessionStopped: As of `renew`.
        """
        self._live(handle)
        return await self._unit(handle).stack()

    # ------------------------------------------------------------------------------ the whole

    async def drain(self, timeout: float) -> tuple[Handle, ...]:
        """Open nothing more, let sessions end by themselves, then stop the rest.

        Cancelling leaves it draining.

        Args:
            timeout: Seconds that they have.

        Returns:
            Those that had to be stopped.

        Raises:
            BaseExceptionGroup: `TerminationUnconfirmed` of each that may still run.
        """
        return await self._engine.drain(_checked("timeout", timeout, MAX_DURATION, from_zero=True))

    async def wait_failed(self) -> Never:
        """Sleep until the supervisor is poisoned, and raise why; cancelling only leaves.

        Raises:
            SupervisorPoisoned: From what poisoned it.
        """
        await self._engine.health.wait()

    def statistics(self) -> SupervisorStatistics:
        """What it holds now; also after close."""
        engine = self._engine
        return SupervisorStatistics(
            sessions=engine.registry.running,
            stopped=engine.registry.stopped,
            starting=engine.loads.starting,
            waiting=engine.loads.waiting,
            transitions=engine.writer.statistics().waiting,
        )

    # -------------------------------------------------------------------------------- checking

    def _live(self, handle: Handle) -> Session:
        session = self._engine.registry.find(_as_handle(handle))
        self._engine.expire(session)
        error = session.error()
        if error is not None:
            raise error
        return session

    def _unit(self, handle: Handle) -> Unit:
        session = self._engine.registry.find(_as_handle(handle))
        if session.unit is None:
            raise session.error() or SessionStopped(
                f"{handle} has loaded nothing", reason="not-loaded"
            )
        return session.unit


def _checked(name: str, given: object, most: float, *, from_zero: bool = False) -> float:
    """A number of seconds.  What a caller gave is looked at whatever its type says."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {given!r}")
    if not isfinite(given) or given > most or given < 0 or (given == 0 and not from_zero):
        least = "at least 0" if from_zero else "more than 0"
        raise ValueError(f"{name} must be {least} and at most {most:.10g} seconds, not {given}")
    return float(given)


def _as_key(given: object) -> Key:
    if isinstance(given, str):
        return Key(given)
    if not isinstance(given, Key):
        raise TypeError(f"a key must be a Key or a text, not {given!r}")
    return given


def _as_handle(given: object) -> Handle:
    if not isinstance(given, Handle):
        # It may be somebody's token, so it is not shown.
        raise TypeError(f"a handle must be a Handle, not of type {type(given).__name__}")
    return given


def _as_request(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"request must be a text, not {given!r}")
    check_name("request", given)
    return given


def _as_generation(given: object) -> int:
    """The generation that is expected; `None` is none, so 0."""
    if given is None:
        return 0
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"expected_generation must be a whole number or None, not {given!r}")
    if given < 0:
        raise ValueError(f"expected_generation must not be negative, not {given}")
    return given


def _as_limits(given: object) -> Limits:
    if not isinstance(given, Limits):
        raise TypeError(f"limits must be Limits, not {given!r}")
    return given
