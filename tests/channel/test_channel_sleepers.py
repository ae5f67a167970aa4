"""Readers that sleep, are woken, cancelled and closed in the midst of bursts, beside a model."""

from __future__ import annotations

from dataclasses import dataclass, field

import trio
from channel_story import Said, Shouted, Sung
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Closed, Overflow
from trio_reactor.events import Event

READERS = 4
FILTERS: tuple[tuple[type[Event], ...], ...] = ((), (Said,), (Sung,), (Shouted, Sung))

Outcome = list[int] | str | None
"""The `seq` of what was received, or how else it came out; `None` as long as it has not."""


@dataclass(frozen=True)
class Publish:
    cls: type[Said | Sung]


@dataclass(frozen=True)
class Read:
    """Begin to receive, unless that one is at it; it runs once the burst is over."""

    index: int
    batch: bool


@dataclass(frozen=True)
class Cancel:
    index: int


@dataclass(frozen=True)
class Close:
    index: int


Act = Publish | Read | Cancel | Close

indices = st.integers(0, READERS - 1)
publishes = st.builds(Publish, st.sampled_from((Said, Sung, Shouted)))
acts = st.one_of(
    publishes,
    publishes,
    st.builds(Read, indices, st.booleans()),
    st.builds(Cancel, indices),
)
bursts = st.lists(acts, max_size=8) | st.lists(st.builds(Read, indices, st.booleans()), min_size=3)
kinds = st.lists(
    st.tuples(st.sampled_from(FILTERS), st.integers(1, 6) | st.just(50)),
    min_size=READERS,
    max_size=READERS,
)


@dataclass
class Side:
    """One reader: the real one, and what the model says of it."""

    subscription: Subscription[Event]
    types: tuple[type[Event], ...]
    capacity: int
    cursor: int = 0
    reading: Read | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    outcome: Outcome = None
    cancelled_after: int | None = None
    """How many of the burst's events were published when it was cancelled."""
    fate: str | None = None

    async def read(self, batch: bool) -> None:
        with self.scope:
            try:
                if batch:
                    envelopes = await self.subscription.receive_batch()
                else:
                    envelopes = [await self.subscription.receive()]
                self.outcome = [envelope.seq for envelope in envelopes]
            except Overflow as overflow:
                self.outcome = f"missed {overflow.missed}"
            except Closed:
                self.outcome = "closed"
            except trio.EndOfChannel:
                self.outcome = "end"
        if self.scope.cancelled_caught:
            self.outcome = "cancelled"

    def due(self, published: list[Event]) -> Outcome:
        """What receiving comes to when it is looked at now; `None` if it sleeps."""
        assert self.reading is not None
        if self.fate is not None:
            return self.fate
        behind = len(published) - self.cursor
        if behind > self.capacity:
            return f"missed {behind}"
        wanted = [
            seq
            for seq, event in enumerate(published, 1)
            if seq > self.cursor and isinstance(event, self.types or Event)
        ]
        if not wanted:
            return None
        return wanted if self.reading.batch else wanted[:1]

    def settle(self, published: list[Event]) -> None:
        """Compare, and let the model go on from there."""
        if self.reading is None:
            assert self.outcome is None
            return
        due = self.due(published)
        if self.outcome == "cancelled":
            assert self.cancelled_after is not None
            statistics = self.subscription.statistics()
            left = len(published) - self.cursor
            if self.fate is None and statistics.missed:
                assert statistics.missed == left > self.capacity
                self.fate = f"missed {left}"
            elif self.fate is None:
                # It may have passed what its filter hides, and nothing else.
                passed = published[self.cursor : len(published) - statistics.behind]
                assert not any(isinstance(event, self.types or Event) for event in passed)
                self.cursor += len(passed)
        elif self.cancelled_after == 0 and self.fate is None:
            raise AssertionError(f"cancelled before anything came, it came to {self.outcome}")
        else:
            assert self.outcome == due
            if due is None:
                self.cursor = len(published)
                return
            if isinstance(due, list):
                self.cursor = due[-1] if not self.reading.batch else len(published)
            elif due.startswith("missed"):
                self.fate = due
        self.reading = self.outcome = self.cancelled_after = None
        self.scope = trio.CancelScope()


@given(kinds, st.lists(bursts, min_size=2, max_size=12), st.lists(st.builds(Close, indices)))
@settings(
    max_examples=150,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
def test_sleeping_readers_receive_what_the_model_says(
    kinds: list[tuple[tuple[type[Event], ...], int]],
    bursts: list[list[Act]],
    closes: list[Close],
) -> None:
    trio.run(play, kinds, bursts, closes)


async def play(
    kinds: list[tuple[tuple[type[Event], ...], int]],
    bursts: list[list[Act]],
    closes: list[Close],
) -> None:
    channel = EventChannel()
    sides = [
        Side(channel.subscribe(*types, capacity=capacity), types, capacity)
        for types, capacity in kinds
    ]
    published: list[Event] = []
    async with trio.open_nursery() as nursery:
        for number, burst in enumerate(bursts):
            came = 0
            began: list[Side] = []
            ended = number == len(bursts) - 1
            for act in [*burst, *(closes if ended else [])]:
                match act:
                    case Publish(cls):
                        published.append(cls(len(published)))
                        assert channel.publish(published[-1]) == len(published)
                        came += 1
                    case Read(index, batch):
                        side = sides[index]
                        if side.reading is None:
                            side.reading = act
                            nursery.start_soon(side.read, batch)
                            began.append(side)
                    case Cancel(index):
                        side = sides[index]
                        if side.reading is not None and side.cancelled_after is None:
                            side.cancelled_after = 0 if side in began else came
                            side.scope.cancel()
                    case Close(index):
                        sides[index].subscription.close()
                        sides[index].fate = "closed"
            await wait_all_tasks_blocked()
            for side in sides:
                side.settle(published)
        assert channel.statistics().waiting == sum(side.reading is not None for side in sides)
        channel.end()
        await wait_all_tasks_blocked()
        assert channel.statistics().waiting == 0
        for side in sides:
            if side.reading is not None:
                assert side.outcome == "end"
            side.subscription.close()
    assert channel.statistics().kept == 0
