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
    Stopped,
    SupervisorOptions,
    SupervisorPoisoned,
    TerminationUnconfirmed,
    open_supervisor,
)
from trio_reactor.supervision import events as said
from trio_reactor.supervision.simulation import FaultyStore, SimulatedExecution
from trio_reactor.testing import Crashed, Faults, cancel_at

from .supervision_acts import ACTS
from .supervision_asks import Asks
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


class Life(Asks):
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
        super().__init__(world)
        self.options = options
        self.last = last
        self.outside = trio.CancelScope()
        self.execution = SimulatedExecution(world.machine, faults=faults)
        self.store = FaultyStore(world.ledger, faults, crashed=self._die)
        self._others: trio.Nursery
        self._said: dict[Named, int] = {}
        self._stopped: dict[Named, said.SessionStopped | said.SessionRecovered] = {}
        self._closed = False
        self._left_at = 0.0
        self._watching = trio.CancelScope()

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
            await trio.testing.wait_all_tasks_blocked()
            background.cancel_scope.cancel()
        self.world.simulation.record("gone", dead=self.dead)
        if not self.dead:
            self._judge(failure)

    async def _used(self, channel: EventChannel) -> None:
        async with trio.open_nursery() as self._others:
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
                self._others.start_soon(self._watch)
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

    # ------------------------------------------------------------------------- what it has to say

    async def _watch(self) -> None:
        with self._watching:
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
            phase = session.record.phase
            if isinstance(phase, Stopped) and not phase.recovered and session.ending.settled:
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
                name in world.refused or self.is_poisoned
            ):
                self.wrong(f"{session!r} never stopped")
