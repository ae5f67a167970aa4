"""The channel beside models of it: one step at a time, and with readers that sleep."""

from __future__ import annotations

import gc
from typing import Literal

import pytest
import trio
from channel_story import CountingWorld, Said, Shouted, Sung
from hypothesis import Phase, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from trio_reactor.channel import EventChannel, Publisher, Subscription
from trio_reactor.channel.stream import STRIDE
from trio_reactor.errors import Closed, Failed, Overflow
from trio_reactor.events import Event

CLASSES: tuple[type[Said | Sung], ...] = (Said, Sung, Shouted)
FILTERS: tuple[tuple[type[Event], ...], ...] = ((), (Said,), (Sung,), (Sung, Shouted), (Event,))
HANDLES = ("", "choir", "reader")

Fate = Literal["open", "closed", "overflowed"]


class Model:
    """A subscription as a few numbers and the list of all that was published."""

    def __init__(
        self,
        order: Order,
        subscription: Subscription[Event],
        types: tuple[type[Event], ...],
        capacity: int,
        handle: str | None,
    ) -> None:
        self.order = order
        self.subscription = subscription
        self.types = types or (Event,)
        self.capacity = capacity
        self.handle = handle
        self.cursor = len(order.published)
        self.fate: Fate = "open"
        self.missed = 0
        self.stop: int | None = None
        """Where its handle ended."""

    @property
    def head(self) -> int:
        return len(self.order.published) if self.stop is None else self.stop

    def look(self) -> str:
        """What asking for an event comes to; moves on past what is hidden."""
        if self.fate == "open" and self.head - self.cursor > self.capacity:
            self.fate, self.missed = "overflowed", self.head - self.cursor
        if self.fate != "open":
            return self.fate
        while self.cursor < self.head and not self.wants(self.cursor):
            self.cursor += 1
        if self.cursor < self.head:
            return "event"
        return "end" if self.stop is not None or self.order.over else "nothing"

    def wants(self, position: int) -> bool:
        handle, event = self.order.published[position]
        return isinstance(event, self.types) and self.handle in {None, handle}

    def take(self, limit: int | None) -> list[int]:
        """The `seq` of what is received."""
        taken: list[int] = []
        while self.cursor < self.head and (limit is None or len(taken) < limit):
            if self.wants(self.cursor):
                taken.append(self.cursor + 1)
            self.cursor += 1
        return taken


class Order:
    """The channel's order as a list."""

    def __init__(self) -> None:
        self.published: list[tuple[str, Event]] = []
        self.over = False
        self.failed = False


def expect(came_to: str, raised: Exception, model: Model, failed: bool) -> None:
    match came_to:
        case "overflowed":
            assert isinstance(raised, Overflow)
            assert raised.missed == model.missed
        case "closed":
            assert isinstance(raised, Closed)
        case "end":
            assert isinstance(raised, Failed if failed else trio.EndOfChannel)
        case "nothing":
            assert isinstance(raised, trio.WouldBlock)
        case _:
            raise AssertionError(came_to)


class ChannelModel(RuleBasedStateMachine):
    """Everything but sleeping, step by step."""

    models = Bundle("models")

    def __init__(self) -> None:
        super().__init__()
        self.channel = EventChannel(world=CountingWorld())
        self.order = Order()
        self.all: list[Model] = []
        self.publishers: dict[str, Publisher] = {}
        self.ended: dict[str | None, bool] = {}
        """The handles that are over, and whether they failed."""
        for handle in HANDLES:
            self.publishers[handle] = self.channel.publisher(handle)

    def publish(self, handle: str | None, event: Event) -> None:
        publish = self.channel.publish if handle is None else self.publishers[handle].publish
        if self.order.over or handle in self.ended:
            failed = self.ended.get(handle, self.order.failed)
            with pytest.raises(Failed if failed else Closed):
                publish(event)
        else:
            self.order.published.append((handle or "", event))
            assert publish(event) == len(self.order.published)

    @rule(
        cls=st.sampled_from(CLASSES),
        handle=st.sampled_from(HANDLES),
        count=st.integers(1, 9) | st.integers(30, 90),
    )
    def publish_through_a_handle(self, cls: type[Said], handle: str, count: int) -> None:
        for _ in range(count):
            self.publish(handle, cls(1))

    @rule(cls=st.sampled_from(CLASSES), count=st.integers(1, 9))
    def publish_to_the_channel(self, cls: type[Said], count: int) -> None:
        for _ in range(count):
            self.publish(None, cls(1))

    @rule(
        target=models,
        types=st.sampled_from(FILTERS),
        capacity=st.integers(1, 12) | st.integers(50, 200),
        handle=st.none() | st.sampled_from(HANDLES),
    )
    def subscribe(self, types: tuple[type[Event], ...], capacity: int, handle: str | None) -> Model:
        side = self.channel if handle is None else self.publishers[handle]
        with side.observe(lambda: len(self.order.published)) as (published, _):
            assert published == len(self.order.published)
        subscription = side.subscribe(*types, capacity=capacity)
        model = Model(self.order, subscription, types, capacity, handle)
        if handle in self.ended and not self.order.over:
            model.stop = model.cursor
        self.all.append(model)
        return model

    @rule(model=models)
    def receive_nowait(self, model: Model) -> None:
        came_to = model.look()
        try:
            envelope = model.subscription.receive_nowait()
        except Exception as raised:  # noqa: BLE001 - it is looked at
            expect(came_to, raised, model, self.failed(model))
        else:
            assert came_to == "event"
            assert [envelope.seq] == model.take(1)
            assert (envelope.handle, envelope.event) == self.order.published[envelope.seq - 1]

    @rule(
        model=models,
        batch=st.booleans(),
        limit=st.none() | st.integers(1, 20),
        cancel=st.booleans(),
    )
    def receive(self, model: Model, batch: bool, limit: int | None, cancel: bool) -> None:
        # Whoever is cancelled is told nothing, so not that it fell behind either.
        told = not cancel or model.head - model.cursor <= model.capacity
        came_to = model.look() if told else "overflowed"

        async def receive() -> list[int]:
            with trio.CancelScope() as scope:
                if cancel or came_to == "nothing":
                    scope.cancel()
                if batch:
                    return [each.seq for each in await model.subscription.receive_batch(limit)]
                return [(await model.subscription.receive()).seq]
            return []

        try:
            taken = trio.run(receive)
        except Exception as raised:  # noqa: BLE001 - it is looked at
            assert not cancel
            expect(came_to, raised, model, self.failed(model))
        else:
            due = came_to == "event" and not cancel
            assert taken == (model.take(limit if batch else 1) if due else [])

    @rule(model=models)
    def close(self, model: Model) -> None:
        model.subscription.close()
        model.fate = "closed"

    @rule(model=consumes(models))
    def forget(self, model: Model) -> None:
        self.all.remove(model)
        del model.subscription
        gc.collect()  # what it raised may have kept it in a cycle

    @rule(model=models)
    def look(self, model: Model) -> None:
        statistics = model.subscription.statistics()
        before = model.cursor
        if model.head - model.cursor > model.capacity:
            model.look()
        assert model.cursor == before
        assert statistics.missed == (model.missed if model.fate == "overflowed" else 0)
        if model.fate == "open" and model.stop is None:
            # What it hides counts until it is passed, and who asks may have passed it already.
            assert statistics.behind <= model.head - model.cursor

    @rule(handle=st.sampled_from(HANDLES), fail=st.booleans())
    def end_a_handle(self, handle: str, fail: bool) -> None:
        publisher = self.publishers[handle]
        publisher.fail(OSError()) if fail else publisher.end()
        if handle in self.ended:
            return
        self.ended[handle] = fail
        if self.order.over:
            return
        for model in self.all:
            if model.handle == handle and model.fate == "open":
                model.look()
                if model.fate == "open":
                    model.stop = len(self.order.published)

    @rule(fail=st.booleans(), sure=st.integers(1, 10))
    def end(self, fail: bool, sure: int) -> None:
        assume(sure == 1)
        self.channel.fail(OSError()) if fail else self.channel.end()
        if not self.order.over:
            self.order.over, self.order.failed = True, fail

    @invariant()
    def what_is_kept_is_what_is_needed(self) -> None:
        head = len(self.order.published)
        behind = [
            (head - model.cursor, model.capacity)
            for model in self.all
            if model.fate == "open" and model.stop is None
        ]
        # To within a stride; and the model passes later than the channel may what is hidden.
        needed = [count for count, capacity in behind if count < capacity + STRIDE]
        statistics = self.channel.statistics()
        assert statistics.kept < max(needed, default=0) + STRIDE
        assert statistics.published == head
        assert statistics.subscriptions == sum(model.fate != "closed" for model in self.all)

    def failed(self, model: Model) -> bool:
        if model.stop is not None:
            return self.ended[str(model.handle)]
        return self.order.failed


TestChannelModel = ChannelModel.TestCase
TestChannelModel.settings = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
