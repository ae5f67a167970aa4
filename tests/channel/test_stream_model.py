"""Any sequence of what can be done to a channel, against a model that is a plain list.

The rules write a programme; when it ends it is played on a real channel, on a virtual clock, and
the model is played beside it.  Several things can be done in one step; `settle` lets readers run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio
import trio.testing
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from stream_story import Loud, Ping, Pong

from trio_reactor.channel import EventChannel, Publisher, Subscription
from trio_reactor.channel.stream import STRIDE
from trio_reactor.errors import Closed, Failed, Overflow
from trio_reactor.events import Event

CHANNEL = ""
Told = tuple[str, object]


@dataclass
class Said:
    """An event of the model's list; its place is its `seq`, less one."""

    cls: type[Event]
    handle: str


class Nothing(Exception):
    """There is nothing to say yet."""


@dataclass
class Model:
    """One list of events, and how it and its handles ended."""

    said: list[Said] = field(default_factory=list)
    endings: dict[str, str] = field(default_factory=dict)

    def ending(self, handle: str) -> str | None:
        return self.endings.get(handle) or self.endings.get(CHANNEL)


@dataclass
class Reading:
    """A subscription of the model's, and the real one beside it."""

    model: Model
    through: str
    types: tuple[type[Event], ...]
    capacity: int
    real: Subscription[Event]
    position: int
    fate: Told | None = None
    rest: list[int] = field(default_factory=list)
    limit: int | None = None
    scope: trio.CancelScope | None = None
    told: Told | None = None

    @property
    def behind(self) -> int:
        return len(self.model.said) - self.position

    def wants(self, said: Said) -> bool:
        of_it = self.through in (CHANNEL, said.handle)
        return of_it and (not self.types or issubclass(said.cls, self.types))

    def look(self) -> None:
        """Find out that it fell behind."""
        if self.fate is None and self.behind > self.capacity:
            self.fate = ("overflow", self.behind)

    def finish(self, how: str) -> None:
        """The handle that it observes ends."""
        if CHANNEL in self.model.endings:
            return
        self.look()
        if self.fate is None:
            came = enumerate(self.model.said[self.position :], self.position + 1)
            self.rest = [seq for seq, said in came if self.wants(said)]
            self.fate = (how, None)

    def take(self, limit: int) -> Told:
        """What receiving up to so many now gives, or `Nothing`."""
        self.look()
        if self.fate is not None:
            if self.fate[0] in ("ended", "failed") and self.rest:
                taken, self.rest = self.rest[:limit], self.rest[limit:]
                return ("took", taken)
            return self.fate
        taken: list[int] = []
        while self.position < len(self.model.said) and len(taken) < limit:
            self.position += 1
            if self.wants(self.model.said[self.position - 1]):
                taken.append(self.position)
        if taken:
            return ("took", taken)
        if CHANNEL in self.model.endings:
            return (self.model.endings[CHANNEL], None)
        raise Nothing


def told(end: BaseException) -> Told:
    match end:
        case Overflow():
            return ("overflow", end.missed)
        case Failed():
            return ("failed", None)
        case Closed():
            return ("closed", None)
        case trio.EndOfChannel():
            return ("ended", None)
    raise end


ENDS = (Overflow, Failed, Closed, trio.EndOfChannel)


class Stage:
    """Plays a programme on a channel and on the model."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.channel = EventChannel()
        self.owners: dict[str, EventChannel | Publisher] = {
            CHANNEL: self.channel,
            "a": self.channel.publisher("a"),
            "b": self.channel.publisher("b"),
        }
        self.model = Model()
        self.readings: list[Reading] = []

    def publish(self, handle: str, classes: list[type[Event]]) -> None:
        for cls in classes:
            ending = self.model.ending(handle)
            try:
                seq = self.owners[handle].publish(cls())
            except (Closed, Failed) as end:
                refused = told(end)[0]
            else:
                refused = None
                self.model.said.append(Said(cls, handle))
                assert seq == len(self.model.said)
            assert refused == ("closed" if ending == "ended" else ending)

    def subscribe(self, through: str, types: tuple[type[Event], ...], capacity: int) -> None:
        real = self.owners[through].subscribe(*types, capacity=capacity)
        reading = Reading(self.model, through, types, capacity, real, len(self.model.said))
        if through != CHANNEL and through in self.model.endings:
            reading.finish(self.model.endings[through])
        self.readings.append(reading)

    def finish(self, handle: str, how: str) -> None:
        owner = self.owners[handle]
        if how == "ended":
            owner.end()
        else:
            owner.fail(OSError())
        if handle in self.model.endings:
            return
        self.model.endings[handle] = how
        for reading in self.readings:
            if handle != CHANNEL and reading.through == handle:
                reading.finish(how)

    def nowait(self, reading: Reading) -> None:
        if reading.limit is not None:
            return
        try:
            expected = reading.take(1)
        except Nothing:
            expected = ("nothing", None)
        try:
            got: Told = ("took", [reading.real.receive_nowait().seq])
        except trio.WouldBlock:
            got = ("nothing", None)
        except ENDS as end:
            got = told(end)
        assert got == expected

    def close(self, reading: Reading) -> None:
        reading.real.close()
        reading.fate, reading.rest = ("closed", None), []

    async def receive(self, reading: Reading, limit: int) -> None:
        if reading.limit is not None:
            return
        reading.limit, reading.told, reading.scope = limit, None, trio.CancelScope()
        self.nursery.start_soon(self._receive, reading, limit, reading.scope)
        await self.settle()

    async def _receive(self, reading: Reading, limit: int, scope: trio.CancelScope) -> None:
        with scope:
            try:
                if limit == 1:
                    got = [await reading.real.receive()]
                else:
                    got = await reading.real.receive_batch(limit)
                reading.told = ("took", [envelope.seq for envelope in got])
            except ENDS as end:
                reading.told = told(end)
        if scope.cancelled_caught:
            reading.told = ("cancelled", None)

    async def settle(self) -> None:
        await trio.testing.wait_all_tasks_blocked()
        open_ones = 0
        for reading in self.readings:
            if reading.limit is not None:
                self._settle(reading, reading.limit)
            open_ones += reading.fate != ("closed", None)
            if reading.limit is None:
                reading.look()
            statistics = reading.real.statistics()
            assert statistics.waiting == (reading.limit is not None)
            assert (statistics.missed or None) == (
                reading.fate[1] if reading.fate is not None else None
            )
            assert statistics.behind == (
                reading.behind if reading.fate is None else len(reading.rest)
            )
        statistics = self.channel.statistics()
        assert statistics.published == len(self.model.said)
        assert statistics.subscriptions == open_ones
        assert statistics.waiting == sum(each.limit is not None for each in self.readings)
        assert statistics.ended == (CHANNEL in self.model.endings)
        behind = [
            reading.behind
            for reading in self.readings
            if reading.fate is None and reading.limit is None
        ]
        if not open_ones:
            assert statistics.kept == 0
        assert statistics.kept >= max(behind, default=0)
        deepest = max((each.capacity for each in self.readings), default=0)
        assert statistics.kept <= deepest + STRIDE - 1

    def _settle(self, reading: Reading, limit: int) -> None:
        if reading.told == ("cancelled", None):
            # What is not for it may have passed it, and nothing else.
            statistics = reading.real.statistics()
            stands = statistics.missed or statistics.behind
            while reading.fate is None and reading.behind > stands:
                assert not reading.wants(self.model.said[reading.position])
                reading.position += 1
            reading.limit = None
            return
        try:
            expected = reading.take(limit)
        except Nothing:
            assert reading.told is None
            return
        assert reading.told == expected
        reading.limit = None

    async def drain(self) -> None:
        """What is left at the end is all there."""
        await self.settle()
        for reading in self.readings:
            if reading.scope is not None:
                reading.scope.cancel()
        await self.settle()
        for reading in self.readings:
            for _ in range(len(self.model.said) + 2):
                self.nowait(reading)


Act = Callable[[Stage], Any]

handles = st.sampled_from([CHANNEL, "a", "b"])
classes = st.sampled_from([Ping, Loud, Pong])
filters = st.sampled_from([(), (), (Ping,), (Pong,), (Loud, Pong), (Event,)])
capacities = st.sampled_from([1, 2, 3, 5, 8, 33, 200])
numbers = st.integers(0, 7)


class Programme(RuleBasedStateMachine):
    """Writes what is to be played."""

    def __init__(self) -> None:
        super().__init__()
        self.acts: list[Act] = []

    def to(self, number: int, act: Callable[[Stage, Reading], Any]) -> None:
        def play(stage: Stage) -> Any:
            if stage.readings:
                return act(stage, stage.readings[number % len(stage.readings)])
            return None

        self.acts.append(play)

    @rule(handle=handles, events=st.lists(classes, min_size=1, max_size=6))
    def publish(self, handle: str, events: list[type[Event]]) -> None:
        self.acts.append(lambda stage: stage.publish(handle, events))

    @rule(handle=handles, cls=classes, times=st.sampled_from([30, 70, 300]))
    def publish_many(self, handle: str, cls: type[Event], times: int) -> None:
        self.acts.append(lambda stage: stage.publish(handle, [cls] * times))

    @rule(through=handles, types=filters, capacity=capacities, asleep=st.booleans())
    def subscribe(
        self, through: str, types: tuple[type[Event], ...], capacity: int, asleep: bool
    ) -> None:
        self.acts.append(lambda stage: stage.subscribe(through, types, capacity))
        if asleep:
            self.acts.append(lambda stage: stage.receive(stage.readings[-1], 1))

    @rule(number=numbers)
    def receive_nowait(self, number: int) -> None:
        self.to(number, Stage.nowait)

    @rule(number=numbers, limit=st.sampled_from([1, 1, 2, 1_000]))
    def receive(self, number: int, limit: int) -> None:
        self.to(number, lambda stage, reading: stage.receive(reading, limit))

    @rule(number=numbers)
    def cancel(self, number: int) -> None:
        self.to(number, lambda _, reading: reading.scope and reading.scope.cancel())

    @rule(number=numbers)
    def close(self, number: int) -> None:
        self.to(number, Stage.close)

    @rule(
        handle=st.sampled_from(["a", "b", "b", CHANNEL]), how=st.sampled_from(["ended", "failed"])
    )
    def finish(self, handle: str, how: str) -> None:
        self.acts.append(lambda stage: stage.finish(handle, how))

    @rule()
    def settle(self) -> None:
        self.acts.append(Stage.settle)

    def teardown(self) -> None:
        async def main() -> None:
            async with trio.open_nursery() as nursery:
                stage = Stage(nursery)
                for act in self.acts:
                    waiting = act(stage)
                    if waiting is not None and not isinstance(waiting, bool):
                        await waiting
                await stage.drain()
                nursery.cancel_scope.cancel()

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


TestProgramme = Programme.TestCase
TestProgramme.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
