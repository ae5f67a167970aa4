"""No wake is lost: whatever becomes of the one who was woken, everybody receives everything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from stream_story import READER, Ping, Pong, Steps, counting
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Closed, Failed
from trio_reactor.events import Event
from trio_reactor.testing import Order, orders

ENDS: dict[type[BaseException], str] = {
    trio.EndOfChannel: "ended",
    Failed: "failed",
    Closed: "closed",
    trio.Cancelled: "cancelled",
}


class Reader:
    """Reads until it cannot, and notes what it received and why it stopped."""

    def __init__(self, subscription: Subscription[Event], *, batches: bool, wants: type) -> None:
        self.subscription = subscription
        self.batches = batches
        self.wants = wants
        self.received: list[int] = []
        self.stopped = "not at all"
        self.scope = trio.CancelScope()
        self.task: trio.lowlevel.Task | None = None

    async def read(self) -> None:
        self.task = trio.lowlevel.current_task()
        with self.scope:
            try:
                while True:
                    if self.batches:
                        batch = await self.subscription.receive_batch()
                        self.received += [envelope.seq for envelope in batch]
                    else:
                        self.received.append((await self.subscription.receive()).seq)
            except (*ENDS,) as end:
                self.stopped = ENDS[type(end)]
                if isinstance(end, trio.Cancelled):
                    raise

    def drain(self) -> None:
        """Receive what is left after it was cancelled."""
        try:
            while True:
                self.received.append(self.subscription.receive_nowait().seq)
        except trio.WouldBlock:
            pass
        except (*ENDS,) as end:
            self.stopped = ENDS[type(end)]


class Stage:
    """Five sleeping readers, of different kinds, and what is done to the one that was woken."""

    def __init__(self, steps: Steps, ending: str) -> None:
        self.channel = EventChannel()
        self.publisher = self.channel.publisher("it")
        self.steps = steps
        self.ending = ending
        self.published: list[tuple[int, type[Event]]] = []
        make = self.publisher if ending.startswith("handle") else self.channel
        self.readers = [
            Reader(make.subscribe(), batches=False, wants=Event),
            Reader(make.subscribe(), batches=True, wants=Event),
            Reader(make.subscribe(Ping), batches=False, wants=Ping),
            Reader(make.subscribe(Pong), batches=False, wants=Pong),
            Reader(make.subscribe(Pong, capacity=7), batches=True, wants=Pong),
        ]

    def courier(self) -> Reader:
        """The one woken last that did not run since, or else one that sleeps."""
        woken = self.steps.woken[-1] if self.steps.woken else None
        for reader in self.readers:
            if reader.task is woken:
                return reader
        return self.readers[0]

    def publish(self) -> None:
        for event in (Ping(), Pong()):
            try:
                self.published.append((self.publisher.publish(event), type(event)))
            except (Closed, Failed):
                return

    def cancel(self) -> None:
        self.courier().scope.cancel()

    def close(self) -> None:
        self.courier().subscription.close()

    def end(self) -> None:
        target = self.publisher if self.ending.startswith("handle") else self.channel
        if self.ending.endswith("ends"):
            target.end()
        else:
            target.fail(OSError("gone"))

    def actions(self) -> dict[str, Callable[[], object]]:
        return {
            "publish": self.publish,
            "again": self.publish,
            "cancel": self.cancel,
            "close": self.close,
            "end": self.end,
        }

    def check(self) -> None:
        for reader in self.readers:
            expected = [seq for seq, cls in self.published if issubclass(cls, reader.wants)]
            if reader.scope.cancel_called and reader.stopped == "cancelled":
                reader.drain()
            if reader.stopped == "closed":
                assert reader.received == expected[: len(reader.received)]
            else:
                assert reader.received == expected
                assert reader.stopped == ("ended" if self.ending.endswith("ends") else "failed")


async def play(order: Order, ending: str) -> None:
    with counting() as steps:
        stage = Stage(steps, ending)
        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                for reader in stage.readers:
                    nursery.start_soon(reader.read, name=READER)
                await wait_all_tasks_blocked()
                steps.forget()
                await order.play(stage.actions(), nursery)
        stage.check()


@pytest.mark.parametrize("ending", ["ends", "fails", "handle ends", "handle fails"])
async def test_in_every_order_of_publish_cancel_close_and_end(
    ending: str, autojump_clock: object
) -> None:
    for order in orders("publish", "cancel", "close", "end"):
        try:
            await play(order, ending)
        except BaseException as failure:
            failure.add_note(f"in the order {order}")
            raise


async def test_in_every_order_of_two_bursts_at_once_with_a_cancellation_and_a_close(
    autojump_clock: object,
) -> None:
    for order in orders("publish", "again", "cancel", "close", "end"):
        if len(order.blocks) > 2 or "end" not in order.blocks[-1]:
            continue
        try:
            await play(order, "ends")
        except BaseException as failure:
            failure.add_note(f"in the order {order}")
            raise


@pytest.mark.parametrize("how", ["nursery", "scope", "close", "finish"])
@pytest.mark.parametrize("others", [1, 3])
async def test_whatever_ends_the_one_who_was_woken_the_others_are_woken(
    how: str, others: int, autojump_clock: object
) -> None:
    """The one who is woken is known: it sleeps alone at first, and is the first of its kind."""
    for victims in range(others + 1):
        channel = EventChannel()
        handle = channel.publisher("it")
        received: list[int] = []
        nurseries: dict[trio.lowlevel.Task, trio.Nursery] = {}
        subscriptions: dict[trio.lowlevel.Task, Subscription[Event]] = {}

        async def read(
            subscription: Subscription[Event],
            nurseries: dict[trio.lowlevel.Task, trio.Nursery] = nurseries,
            subscriptions: dict[trio.lowlevel.Task, Subscription[Event]] = subscriptions,
            received: list[int] = received,
        ) -> None:
            async def inner() -> None:
                subscriptions[trio.lowlevel.current_task()] = subscription
                nurseries[trio.lowlevel.current_task()] = nursery
                try:
                    received.append((await subscription.receive()).seq)
                    await trio.lowlevel.checkpoint()
                except (trio.ClosedResourceError, trio.EndOfChannel):
                    received.append(0)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(inner, name=READER)

        with counting() as steps, trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                for _ in range(others + 1):
                    nursery.start_soon(read, handle.subscribe() if victims else channel.subscribe())
                await wait_all_tasks_blocked()
                steps.forget()
                handle.publish(Ping())
                (woken,) = steps.woken
                doomed = [woken, *(task for task in nurseries if task is not woken)][: victims or 1]
                for task in doomed:
                    match how:
                        case "nursery":
                            nurseries[task].cancel_scope.cancel()
                        case "scope":
                            nurseries[task].cancel_scope.deadline = trio.current_time()
                        case "close":
                            subscriptions[task].close()
                        case _:
                            handle.end()
        spared = others + 1 - len(doomed)
        assert received.count(1) >= spared, (how, victims, received)


async def test_a_sleep_cancelled_before_the_burst_is_not_woken_and_the_next_one_is(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    scopes = [trio.CancelScope() for _ in range(3)]
    subscriptions = [channel.subscribe() for _ in scopes]
    received: list[int] = []

    async def read(subscription: Subscription[Event], scope: trio.CancelScope) -> None:
        with scope:
            received.append((await subscription.receive()).seq)

    for subscription, scope in zip(subscriptions, scopes, strict=True):
        nursery.start_soon(read, subscription, scope, name=READER)
    await wait_all_tasks_blocked()
    scopes[2].cancel()
    scopes[0].cancel()
    channel.publish(Ping())
    channel.publish(Ping())
    await wait_all_tasks_blocked()
    assert received == [1]
    assert [each.statistics().behind for each in subscriptions] == [2, 1, 2]
    assert [envelope.seq for envelope in await subscriptions[0].receive_batch()] == [1, 2]


async def test_whoever_falls_asleep_while_a_wake_is_on_its_way_makes_nobody_miss_anything(
    nursery: trio.Nursery,
) -> None:
    """The one who was woken has not run when another falls asleep and a third burst comes."""
    channel = EventChannel()
    seen: dict[str, list[int]] = {"early": [], "choosy": [], "late": []}

    async def read(name: str, subscription: Subscription[Event]) -> None:
        async for envelope in subscription:
            seen[name].append(envelope.seq)

    nursery.start_soon(read, "early", channel.subscribe())
    nursery.start_soon(read, "choosy", channel.subscribe(Pong))
    await wait_all_tasks_blocked()
    for n in range(40):
        nursery.start_soon(read, "late", channel.subscribe())
        channel.publish(Ping(n))
        await trio.lowlevel.checkpoint()
        channel.publish(Pong(n))
    await wait_all_tasks_blocked()
    assert seen["early"] == list(range(1, 81))
    assert seen["choosy"] == list(range(2, 81, 2))
    assert sorted(seen["late"]) == sorted(seq for n in range(40) for seq in range(2 * n + 1, 81))
    nursery.cancel_scope.cancel()
