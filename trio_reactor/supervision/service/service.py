"""A service: keeps a key running, session after session, until it is done or given up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

import msgspec
import trio

from trio_reactor.errors import Closed, Failed, ReactorError
from trio_reactor.owner import Owner
from trio_reactor.supervision.errors import (
    RecordRefused,
    RestartsExhausted,
    StaleSession,
    SupervisorPoisoned,
)
from trio_reactor.supervision.events import (
    ServiceEnded,
    ServiceGaveUp,
    ServiceRestarting,
    ServiceStarted,
    SupervisionEvent,
)
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import SessionRecord, Stopped
from trio_reactor.supervision.model.work import Limits, Work
from trio_reactor.supervision.outcome import Outcome
from trio_reactor.supervision.supervisor.supervisor import Supervisor

from .decision import Again, Done, Ending, GiveUp, History, Why, decide
from .policy import Restart, RestartPolicy

__all__ = ["Service", "ServiceEnd", "Settings"]

_log = logging.getLogger("trio_reactor.supervision")

_RENEWALS: Final = 3
"""How often a lease is renewed while it lasts."""


class ServiceEnd(msgspec.Struct, frozen=True):
    """How a service ended that was neither given up nor failed."""

    why: str
    """What its last session ended with, one of `StopReason`; `left`: its block was left."""
    restarts: int
    """How often it was restarted in all."""
    last: Stopped | None = None
    """The end of its last session, if it had one that was seen to end."""


class Settings(msgspec.Struct, frozen=True):
    """What a service was opened with."""

    key: Key
    work: Work
    restart: Restart
    policy: RestartPolicy
    lease: float
    limits: Limits
    hang_timeout: float | None


@final
class Service:
    """Keeps one key running.  Made by `open_service`."""

    def __init__(self, owner: Owner, supervisor: Supervisor, settings: Settings) -> None:
        self._owner = owner
        self._supervisor = supervisor
        self._settings = settings
        self._record: SessionRecord | None = None
        self._running_since: float | None = None
        self._changed = trio.Event()
        self._restarts = 0
        self._history = History()
        self._last: Stopped | None = None
        self._generation: int | None = None
        self._request: str | None = None
        self._broken: ReactorError | None = None
        self._end: Outcome[ServiceEnd] = Outcome()
        self._untold: Callable[[], BaseException] | None = None

    def __repr__(self) -> str:
        state = "running" if self.running else "ended" if self._end.settled else "starting"
        return f"<Service {self.key}: {state}, {self._restarts} restarts>"

    @property
    def key(self) -> Key:
        """What it keeps running."""
        return self._settings.key

    @property
    def running(self) -> bool:
        """Whether its code runs now, as far as is known."""
        return self._running_since is not None

    @property
    def restarts(self) -> int:
        """How often it was restarted so far."""
        return self._restarts

    @property
    def record(self) -> SessionRecord | None:
        """The newest session, as it is now or was when it was last known; `None`: none yet."""
        if self._record is not None:
            with suppress(StaleSession):  # forgotten: what was known of it stays
                self._record = self._supervisor.status(self._record.handle).record
        return self._record

    @property
    def channel(self) -> trio.abc.HalfCloseableStream:
        """The application's end of the channel to the newest session's code.

        Each session has one of its own.

        Raises:
            SessionStopped: It has no execution.
            StaleSession: There is no session yet, or it was forgotten.
        """
        if self._record is None:
            raise StaleSession(f"the service {self.key} has no session yet")
        return self._supervisor.channel(self._record.handle)

    async def wait_running(self) -> SessionRecord:
        """Sleep until its code runs; returns the session's record.  Cancelling only leaves.

        Always a checkpoint.

        Raises:
            Closed: It has ended as it should.
            RestartsExhausted, SupervisorPoisoned: As of `wait_ended`.
        """
        await trio.lowlevel.checkpoint()
        while not self.running:
            if self._end.settled:
                end = await self.wait_ended()
                raise Closed(f"the service {self.key} has ended: {end.why}")
            await self._changed.wait()
        record = self.record
        assert record is not None  # noqa: S101 - it runs
        return record

    async def wait_ended(self) -> ServiceEnd:
        """Sleep until nothing keeps the key running any more.  Cancelling only leaves.

        Always a checkpoint.

        Raises:
            RestartsExhausted: It was given up.
            SupervisorPoisoned: Its supervisor can no longer vouch for what it holds.
            RecordRefused: What is to run cannot be recorded.
            ReactorError: Its supervisor failed.
        """
        try:
            return await self._end.wait()
        except trio.Cancelled:
            raise
        except BaseException:
            self._untold = None  # somebody knows; the block need not say it
            raise

    def unreceived(self) -> BaseException | None:
        """Why it failed, if it did and nobody was told; for its block."""
        return None if self._untold is None else self._untold()

    # ------------------------------------------------------------------------------- its task

    async def run(self) -> None:
        """Keep the key running; the task of its owner's."""
        settings = self._settings
        self._say(ServiceStarted(self.key, settings.work, settings.restart))
        why = "left"
        try:
            why = await self._keep()
        finally:
            self._say(ServiceEnded(self.key, why, self._restarts))
            self._end.set(ServiceEnd(why, self._restarts, self._last))
            self._turned()

    async def _keep(self) -> str:
        world = self._supervisor.world
        while True:
            ending = await self._session()
            if self._broken is not None:
                self._fail(_again(self._broken))
                return "failed"
            if self._owner.stopping.is_set:
                return "left"
            settings, history = self._settings, self._history
            match decide(
                settings.restart,
                settings.policy,
                history,
                ending,
                now=world.clock(),
                chance=world.random.random(),
            ):
                case Done():
                    return ending.why
                case GiveUp(restarts=restarts):
                    self._give_up(ending.why, restarts)
                    return "gave-up"
                case Again(pause=pause, history=after):
                    self._history = after
                    self._say(
                        ServiceRestarting(
                            self.key, self._generation, pause, ending.why, len(after.restarts)
                        )
                    )
                    await self._pause(pause)
                    if self._broken is not None:
                        self._fail(_again(self._broken))
                        return "failed"
                    if self._owner.stopping.is_set:
                        return "left"
                    self._restarts += 1

    async def _pause(self, seconds: float) -> None:
        with trio.move_on_after(seconds) as pausing:
            try:
                await self._supervisor.wait_failed()
            except Failed as poison:
                self._broken = poison
                pausing.cancel()

    async def _session(self) -> Ending:
        """One session, from its opening to its observed end."""
        # Shielded: a session that an abandoned open brings would be nobody's.  It is bounded by
        # what ending the key's previous session may take.
        opened: SessionRecord | Why = "not-opened"
        with trio.CancelScope(shield=True):
            opened = await self._open()
        if not isinstance(opened, SessionRecord):
            await trio.lowlevel.checkpoint()
            return Ending(opened)
        handle = opened.handle
        try:
            stopped = await self._hold(handle)
        finally:
            ran_for = self._ran_for()
            with trio.CancelScope(shield=True):
                await self._release(handle)
        if stopped is None:
            return Ending("disposed", ran_for=ran_for)
        self._last = stopped
        status = stopped.stop.exit or stopped.termination.exit or ExitStatus()
        return Ending(stopped.stop.reason, success=status.is_success, ran_for=ran_for)

    async def _open(self) -> SessionRecord | Why:
        supervisor, settings = self._supervisor, self._settings
        if self._request is None:
            # Kept until it is answered: an open whose answer was lost is found, not repeated.
            self._request = supervisor.world.token()
        try:
            if self._generation is None and self._record is None:
                self._generation = await supervisor.high_water(self.key)
            self._record = await supervisor.open(
                self.key,
                request=self._request,
                expected_generation=self._generation,
                lease=settings.lease,
                limits=settings.limits,
            )
        except StaleSession:
            return "superseded"  # somebody else has opened the key since
        except Closed:
            return "shutdown"
        except Failed as failure:
            self._broken = failure
            return "not-opened"
        except ReactorError as failure:
            _log.debug("the service %s could not open: %s", self.key, type(failure).__name__)
            return "not-opened"
        self._request = None
        self._generation = self._record.handle.generation
        return self._record

    async def _hold(self, handle: Handle) -> Stopped | None:
        """Load, renew, and wait for its end; `None` if something broke first."""
        stopped: Stopped | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._load, handle, nursery.cancel_scope)
            nursery.start_soon(self._renew, handle)
            nursery.start_soon(self._watch, nursery.cancel_scope)
            try:
                stopped = await self._supervisor.wait_stopped(handle)
            except ReactorError as failure:
                self._broken = failure
            nursery.cancel_scope.cancel()
        return stopped

    async def _load(self, handle: Handle, holding: trio.CancelScope) -> None:
        settings = self._settings
        try:
            await self._supervisor.load(handle, settings.work, hang_timeout=settings.hang_timeout)
        except RecordRefused as refused:
            # Nothing has changed, and it would be the same the next time.
            self._broken = refused
            holding.cancel()
        except ReactorError as failure:
            # The session stops, which says why, or the supervisor is poisoned, which is watched.
            _log.debug("the service %s could not load: %s", self.key, type(failure).__name__)
        else:
            self._running_since = self._supervisor.world.clock()
            self._turned()

    async def _renew(self, handle: Handle) -> None:
        lease = self._settings.lease
        while True:
            await trio.sleep(lease / _RENEWALS)
            try:
                self._supervisor.renew(handle)
            except ReactorError:
                return  # it stops, or the supervisor is poisoned: others see that

    async def _watch(self, holding: trio.CancelScope) -> None:
        try:
            await self._supervisor.wait_failed()
        except Failed as poison:
            self._broken = poison
            holding.cancel()

    def _ran_for(self) -> float:
        since, self._running_since = self._running_since, None
        return 0.0 if since is None else self._supervisor.world.clock() - since

    async def _release(self, handle: Handle) -> None:
        """End the session if it has not ended; of one that has, it costs nothing."""
        try:
            await self._supervisor.dispose(handle)
        except StaleSession:
            return  # it has stopped, and is forgotten
        except ReactorError as failure:
            # Its supervisor is poisoned by it and raises it with all that went wrong.
            if self._broken is None:
                self._broken = failure
            _log.debug("the service %s could not end its session", self.key)

    # --------------------------------------------------------------------------------- its end

    def _give_up(self, why: str, restarts: int) -> None:
        window = self._settings.policy.window
        failure = None if self._last is None else self._last.stop.failure
        detail = None if failure is None else failure.detail
        self._say(ServiceGaveUp(self.key, why, restarts, window))
        _log.warning("the service %s is given up after %d restarts", self.key, restarts)
        message = f"the service {self.key} was restarted {restarts} times within {window:g} s"
        self._fail(
            lambda: RestartsExhausted(
                message, restarts=restarts, window=window, why=why, detail=detail
            )
        )

    def _fail(self, failing: Callable[[], BaseException]) -> None:
        self._untold = failing
        self._end.fail(failing)

    def _turned(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _say(self, event: SupervisionEvent) -> None:
        events = self._supervisor.events
        if not events.ended:
            events.publish(event)


def _again(failure: ReactorError) -> Callable[[], BaseException]:
    """What makes the same failure afresh for each who is told."""
    if isinstance(failure, SupervisorPoisoned):

        def afresh() -> BaseException:
            error = SupervisorPoisoned(failure.message)
            error.__cause__ = failure.__cause__
            return error

        return afresh
    return lambda: failure
