"""One supervisor of a randomized world, from its start to its close or its death."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import trio

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Overflow, ReactorError, is_expected, leaves
from trio_reactor.events import Event
from trio_reactor.supervision import (
    CodeIdentity,
    Handle,
    SessionRecord,
    StaleSession,
    Stopped,
    Stopping,
    Supervisor,
    SupervisorOptions,
    SupervisorPoisoned,
    Termination,
    TerminationUnconfirmed,
    open_supervisor,
)
from trio_reactor.supervision import events as said
from trio_reactor.supervision.simulation import FaultyStore, SimulatedExecution
from trio_reactor.testing import Crashed, Faults, cancel_at

from .supervision_acts import ACTS
from .supervision_ledger import Answers, Named, named

if TYPE_CHECKING:
    from .supervision_world import World

__all__ = ["BodyError", "Life"]

PATIENCE: Final = 60.0
"""Seconds within which everybody has an answer, whatever goes wrong."""
CLOSING: Final = 40.0
"""Seconds within which a supervisor has closed."""
STILL: Final = 3.0
"""Seconds that the disk stands still at most."""

_STEPS: Final[tuple[type[Event], ...]] = (
    said.SessionOpened,
    said.SessionLoading,
    said.ChildRegistered,
    said.SessionLoaded,
    said.SessionStopping,
    said.SessionStopped,
)


class BodyError(Exception):
    """The application's own."""


class Life:
    """A supervisor, those who use it, and what must hold of what they are told.

    Args:
        world: Where it lives.
        faults: What goes wrong with its store and with what it asks of the machine.
        options: What it is opened with.
        last: Whether it only looks at what the others left.
    """

    def __init__(
        self, world: World, faults: Faults, options: SupervisorOptions, *, last: bool
    ) -> None:
        self.world = world
        self.chance = world.chance
        self.options = options
        self.last = last
        self.dead = False
        self.open_for_use = False
        """From when it serves until its body is left."""
        self.poisoned = False
        self.supervisor: Supervisor
        self.outside = trio.CancelScope()
        self.execution = SimulatedExecution(world.machine, faults=faults)
        self.store = FaultyStore(world.ledger, faults, crashed=self._die)
        self._others: trio.Nursery
        self._said: dict[Named, int] = {}
        self._stopped: dict[Named, said.SessionStopped | said.SessionRecovered] = {}
        self._closed = False
        self._drained = False
        self._left_at = 0.0

    # --------------------------------------------------------------------------------- its story

    async def run(self) -> None:
        """Open it, use it, and leave it one way or another; judge what it told."""
        channel = EventChannel(world=self.world.simulation.world)
        failure: BaseException | None = None
        async with trio.open_nursery() as background:
            background.start_soon(self._hear, channel.subscribe(capacity=4_096))
            background.start_soon(self._release)
            try:
                with self.outside:
                    await self._used(channel)
            except Exception as raised:  # noqa: BLE001 - judged below
                failure = raised
            self.open_for_use = False
            await trio.testing.wait_all_tasks_blocked()
            background.cancel_scope.cancel()
        self.world.simulation.record("gone", dead=self.dead)
        if not self.dead:
            self._judge(failure)

    async def _used(self, channel: EventChannel) -> None:
        async with trio.open_nursery() as self._others:
            with trio.CancelScope() as watching:
                async with open_supervisor(
                    Answers(
                        self.store,
                        lambda record: self.world.refused.add(named(record.handle)),
                        lambda record: self.world.unsure.add(named(record.handle)),
                    ),
                    self.execution,
                    world=self.world.simulation.world,
                    options=self.options,
                    events=channel,
                ) as self.supervisor:
                    self.open_for_use = True
                    self._others.start_soon(self._watch, watching)
                    self.world.serves(self)
                    try:
                        await (self._audit() if self.last else self._act())
                    finally:
                        self._left_at = trio.current_time()
            self._watching.cancel()
            if trio.current_time() > self._left_at + CLOSING:
                self.wrong(f"closing took {trio.current_time() - self._left_at:g} s")
            # Whoever still waits has been told by now, and only has to wake up.
            self._others.cancel_scope.deadline = trio.current_time() + 2 * PATIENCE

    async def _act(self) -> None:
        chance = self.chance
        names, weights = list(ACTS), [weight for weight, _ in ACTS.values()]
        for _ in range(chance.randint(2, 9)):
            await trio.sleep(chance.choice((0.0, 0.05, chance.uniform(0.0, 1.2))))
            name = chance.choices(names, weights)[0]
            self.world.simulation.record(f"act: {name}")
            await ACTS[name][1](self)
        match chance.randrange(6):
            case 0:
                raise BodyError
            case 1:
                self.outside.cancel()
                await trio.sleep_forever()
            case _:
                await trio.sleep(chance.choice((0.0, chance.uniform(0.0, 3.0))))

    async def _audit(self) -> None:
        """All that was acknowledged is still there, and said in the same way."""
        for record in self.world.acknowledged:
            await self.reopen(record)
        for key, generation in self.world.ledger.high.items():
            if await self.supervisor.high_water(key) != generation:
                self.wrong(f"{key} has forgotten generation {generation}")
        for name, record in self.world.ledger.records.items():
            if not isinstance(record.phase, Stopped) and name not in self.world.adopted:
                self.wrong(f"{record.handle} was not recovered")

    # ------------------------------------------------------------------------- what may befall it

    def crash(self) -> None:
        """Die at this moment."""
        self.store.die()
        self._die()

    def _die(self) -> None:
        self.dead = True
        self.open_for_use = False
        self.execution.die()
        self.outside.cancel()
        self.world.simulation.record("crash")

    async def _release(self) -> None:
        while True:
            await trio.sleep(STILL)
            self.store.release()

    def work(self) -> str:
        """Something to run."""
        return self.chance.choice(self.world.works)

    # --------------------------------------------------------------------------- who asks of it

    def later(self, command: Callable[[], Awaitable[object]]) -> None:
        """Ask for it beside, perhaps with little patience, and bear whatever comes of it."""
        chance, record = self.chance, self.world.simulation.record
        patience: AbstractContextManager[trio.CancelScope | None] = contextlib.nullcontext()
        match chance.randrange(5):
            case 0:
                patience = trio.move_on_after(chance.choice((0.0, 0.005, 0.06, 0.6)))
            case 1:
                patience = cancel_at(chance.randint(0, 5))
            case _:
                pass

        async def ask() -> None:
            try:
                with patience as scope, trio.move_on_after(PATIENCE) as bound:
                    await command()
                if bound.cancelled_caught:
                    self.wrong("somebody waits for ever")
                if scope is not None and scope.cancelled_caught:
                    record("cancelled")
            except ReactorError as failure:
                record(f"told {type(failure).__name__}")
            except ExceptionGroup as failure:  # what draining found
                record("told ExceptionGroup")
                if not self.dead and not is_expected(failure):
                    raise
            except RuntimeError as failure:
                if not self.dead and "as planned" not in str(failure):
                    raise
                record("told a defect")
            except Crashed:
                if not self.dead:
                    raise

        self._others.start_soon(ask)

    def wrong(self, what: str) -> None:
        """Something does not hold, unless nobody is there any more who could have told it."""
        if not self.dead:
            self.world.wrong(what)

    @contextlib.contextmanager
    def _refusing(self, what: str):  # type: ignore[no-untyped-def]
        """A poisoned supervisor takes none of these."""
        poisoned = self.poisoned
        try:
            yield
        except Exception as failure:
            if poisoned and not _says_so(failure):
                self.wrong(f"{what} of a poisoned supervisor: {failure!r}")
            raise
        if poisoned:
            self.wrong(f"{what} of a poisoned supervisor succeeded")

    async def open(self, key: str, request: str, expected: int) -> SessionRecord:
        """Open a session, and see that it is the one."""
        lease = self.chance.choice((None, None, 1.0, 5.0))
        with self._refusing("an open"):
            record = await self.supervisor.open(
                key, request=request, expected_generation=expected or None, lease=lease
            )
        handle = record.handle
        self.world.simulation.record("acknowledged open", key=key, generation=handle.generation)
        if handle.generation != expected + 1:
            self.wrong(f"{handle} was opened where generation {expected} was expected")
        self._acknowledge(record, request)
        return record

    async def reopen(self, record: SessionRecord) -> None:
        """Ask for what was opened before."""
        handle = record.handle
        try:
            with self._refusing("an open"):
                again = await self.supervisor.open(
                    handle.key,
                    request=record.request,
                    expected_generation=(handle.generation - 1) or None,
                )
        except StaleSession:
            if named(handle) not in self.world.ledger.forgotten:
                self.wrong(f"{handle} was acknowledged, and is not there")
            return
        self.world.simulation.record("found again")
        if again.handle != handle:
            self.wrong(f"{record.request} opened {handle}, then {again.handle}")
        self._acknowledge(again, record.request)

    def _acknowledge(self, record: SessionRecord, request: str) -> None:
        handle, world = record.handle, self.world
        if world.ledger.requests.get((handle.key, request)) != handle:
            self.wrong(f"{handle} was acknowledged, and is not in the journal")
        if record not in world.acknowledged:
            world.acknowledged.append(record)

    async def load(self, handle: Handle, work: str) -> CodeIdentity:
        """Load, and see that it is what was to be loaded."""
        with self._refusing("a load"):
            code = await self.supervisor.load(handle, work)
        self.world.simulation.record("acknowledged load", key=str(handle.key))
        loaded = self.world.ledger.loaded.get(named(handle))
        if loaded is None or loaded.code != code:
            self.wrong(f"{handle} has loaded {code.name}, and it is not in the journal")
        if code.name != work:
            self.wrong(f"{handle} was asked to load {work}, and loaded {code.name}")
        return code

    async def renew(self, handle: Handle) -> None:
        """Renew, and see that its lease had not run out."""
        await trio.lowlevel.checkpoint()
        world, name = self.world, named(handle)
        now, before = world.boottime(), world.leases.get(name, 0.0)
        record = world.ledger.records.get(name)
        if record is not None:  # its child is told in the same step
            world.leases[name] = max(before, now + record.lease)
        try:
            with self._refusing("a renewal"):
                left = self.supervisor.renew(handle)
        except BaseException:
            world.leases[name] = before
            raise
        world.simulation.record("renewed")
        if now >= before:
            self.wrong(f"{handle} was renewed after its lease had run out")
        remaining = self.supervisor.status(handle).remaining
        if record is None or left != record.lease or remaining != left:
            self.wrong(f"{handle} was renewed for {left}, of which {remaining} is left")

    async def dispose(self, handle: Handle) -> None:
        """Stop it, and see that it has stopped."""
        try:
            termination = await self.supervisor.dispose(handle)
        except ReactorError as failure:
            self._judge_stop(handle, failure)
            raise
        self.world.simulation.record("acknowledged stop")
        self._has_stopped(handle, termination)

    async def wait_stopped(self, handle: Handle) -> None:
        """Wait for its end, and see that it has come."""
        try:
            stopped = await self.supervisor.wait_stopped(handle)
        except ReactorError as failure:
            self._judge_stop(handle, failure)
            raise
        self._has_stopped(handle, stopped.termination)

    def _judge_stop(self, handle: Handle, failure: ReactorError) -> None:
        if isinstance(failure, StaleSession):
            self._judge_stale(handle)
        elif isinstance(failure, TerminationUnconfirmed):
            if self.supervisor._engine.health.failure is None:
                self.wrong(f"{handle} may still run, and nothing is poisoned")
        else:
            self.wrong(f"a stop of {handle} was told {failure!r}")

    def _judge_stale(self, handle: Handle) -> None:
        name = named(handle)
        if name in self.world.ledger.records and name not in self.world.unsure:
            self.wrong(f"{handle} is in the journal, and unknown")

    def _has_stopped(self, handle: Handle, termination: Termination) -> None:
        world, name = self.world, named(handle)
        for child in world.machine.children.values():
            if (str(child.order.key), child.order.generation) == name:
                self.wrong(f"{handle} has ended, and {child!r}")
        record = world.ledger.records.get(name)
        if record is None:
            if name not in world.ledger.forgotten:
                self.wrong(f"{handle} has stopped, and is not in the journal")
        elif isinstance(record.phase, Stopped):
            if record.phase.termination != termination:
                self.wrong(f"{handle}: {termination} is not what is in the journal")
        elif name not in world.refused and self.supervisor._engine.health.failure is None:
            self.wrong(f"{handle} has stopped, and the journal does not have it")

    def look_at(self, handle: Handle) -> None:
        """See that it is known, whatever befell the supervisor."""
        try:
            status = self.supervisor.status(handle)
        except StaleSession:
            self._judge_stale(handle)
            return
        live = not isinstance(status.phase, Stopping | Stopped)
        if live == (status.remaining is None):
            self.wrong(f"{handle} is {status.phase}, and {status.remaining} s are left")

    async def high_water(self, key: Handle | object) -> None:
        """See that it never falls."""
        world = self.world
        before = {str(each): high for each, high in world.ledger.high.items()}[str(key)]
        high = await self.supervisor.high_water(str(key))
        unsure = any(name == str(key) for name, _ in world.unsure)
        if not before <= (high or 0) and not unsure:
            self.wrong(f"{key} had {before} generations, and has {high}")

    async def forged(self, handle: Handle) -> None:
        """See that nobody gets anything by a handle that is not one."""
        try:
            self.supervisor.status(handle)
        except StaleSession:
            pass
        else:
            self.wrong(f"a forged handle of {handle} was taken")
        with self._refusing("a renewal"):
            self.supervisor.renew(handle)

    async def drain(self) -> None:
        """Drain, and see that nothing is left that runs."""
        timeout = self.chance.choice((0.0, 0.5, 3.0))
        self._drained = True
        rest = await self.supervisor.drain(timeout)
        self.world.simulation.record("drained")
        for handle in rest:
            with contextlib.suppress(StaleSession):
                if self.supervisor.status(handle).remaining is not None:
                    self.wrong(f"{handle} was drained, and is live")
        for session in self.supervisor._engine.registry:
            if session.is_live:
                self.wrong(f"{session!r} is live after everything was drained")

    # ------------------------------------------------------------------------- what it has to say

    async def _watch(self, _: trio.CancelScope) -> None:
        with trio.CancelScope() as self._watching:
            try:
                await self.supervisor.wait_failed()
            except SupervisorPoisoned:
                self.poisoned = True
                self.world.simulation.record("poisoned")

    async def _hear(self, events: Subscription[Event]) -> None:
        with events:
            async for envelope in events:
                if not self.dead:
                    self._judge_event(envelope.event)

    def _judge_event(self, event: Event) -> None:
        if self._closed:
            self.wrong(f"{event} was said after the last word")
        self._closed = isinstance(event, said.SupervisorClosed)
        self.world.simulation.record(type(event).__name__)
        if isinstance(event, said.SessionAdopted):
            self.world.adopted.add((str(event.key), event.generation))
        if isinstance(event, said.SessionRecovered):
            self._stopped[str(event.key), event.generation] = event  # its last word, said once
        if not isinstance(event, _STEPS):
            return
        step = _STEPS.index(type(event))
        name = (str(event.key), event.generation)  # type: ignore[attr-defined]
        if step <= self._said.get(name, -1):
            self.wrong(f"{event} was said after {_STEPS[self._said[name]].__name__}")
        if isinstance(event, said.SessionStopped):
            self._stopped[name] = event
            if self._said.get(name) != step - 1 and name not in self.world.left:
                self.wrong(f"{event} was said, and not that it was stopping")
        elif isinstance(event, said.SessionOpened):
            if self._said:
                pass
        self._said[name] = step

    # ---------------------------------------------------------------------------------- the end

    def _judge(self, failure: BaseException | None) -> None:
        told = [] if failure is None else list(leaves(failure))
        for leaf in told:
            ours = isinstance(leaf, BodyError) or is_expected(leaf) or "as planned" in str(leaf)
            if not ours:
                raise leaf
        own = [leaf for leaf in told if not isinstance(leaf, BodyError)]
        struck = self.world.simulation.trace.counts["fault"]
        if own and (self.last or not struck):
            # With nothing planned to go wrong, only a bound can be reached.
            for leaf in own:
                if self.last or not isinstance(leaf, Overflow):
                    raise leaf
        if self.poisoned and not own:
            self.wrong("it was poisoned, and closed without a word")
        if not self._closed:
            self.wrong("it did not say that it closed")
        self._judge_left(unconfirmed=any(isinstance(e, TerminationUnconfirmed) for e in own))

    def _judge_left(self, *, unconfirmed: bool) -> None:
        world = self.world
        if not unconfirmed:
            for child in world.machine.children.values():
                if child.owned:
                    self.wrong(f"{child!r}, and its supervisor has closed")
        if not hasattr(self, "supervisor"):
            return
        left = self.supervisor.statistics()
        if left.starting or left.waiting or left.transitions:
            self.wrong(f"it has closed, and {left}")
        for session in self.supervisor._engine.registry:
            name = named(session.record.handle)
            if session.is_live:
                self.wrong(f"{session!r} is live, and its supervisor has closed")
            stopped, record = self._stopped.get(name), world.ledger.records.get(name)
            if isinstance(session.record.phase, Stopped) and session.ending is not None:
                if stopped is None:
                    self.wrong(f"{session!r} has stopped, and nobody was told")
                elif record is None:
                    if name not in world.ledger.forgotten:
                        self.wrong(f"{session!r} was told to have stopped, and is not there")
                elif not isinstance(record.phase, Stopped):
                    self.wrong(f"{session!r} was told to have stopped; the journal has {record}")
                elif record.phase.stop.reason != stopped.stop.reason:
                    self.wrong(f"{session!r} was told to have stopped for another reason")
            elif not isinstance(session.record.phase, Stopped) and not (
                name in world.refused or self.poisoned or own_poison(self)
            ):
                self.wrong(f"{session!r} never stopped")


def own_poison(life: Life) -> bool:
    """Whether it was poisoned, perhaps so late that nobody was told."""
    return life.supervisor._engine.health.failure is not None


def _says_so(failure: BaseException) -> bool:
    from trio_reactor.errors import Closed, Failed  # noqa: PLC0415

    return isinstance(failure, SupervisorPoisoned | Closed | Failed)
