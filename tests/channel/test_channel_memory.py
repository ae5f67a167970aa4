"""A channel keeps what somebody may still receive, and nothing else."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import trio
from channel_story import CountingWorld, Said, Sung, numbers
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel
from trio_reactor.channel.stream import STRIDE
from trio_reactor.errors import Overflow
from trio_reactor.events import Event


class Weighty(Event, frozen=True, weakref=True):
    """An event that can be seen to be gone."""

    number: int


def kept(channel: EventChannel) -> int:
    return channel.statistics().kept


async def test_nothing_is_kept_without_subscribers() -> None:
    channel = EventChannel()
    event = Weighty(1)
    seen = weakref.ref(event)
    channel.publish(event)
    del event
    assert seen() is None
    assert kept(channel) == 0


async def test_an_event_goes_when_the_last_subscription_that_has_not_had_it_closes() -> None:
    channel = EventChannel()
    first, second = channel.subscribe(), channel.subscribe()
    event = Weighty(1)
    seen = weakref.ref(event)
    channel.publish(event)
    del event
    await first.receive_batch()
    first.close()
    assert seen() is not None
    second.close()
    assert seen() is None
    assert kept(channel) == 0


async def test_what_everybody_has_had_goes_as_they_read_on() -> None:
    channel = EventChannel()
    quick, slow = channel.subscribe(capacity=1_000), channel.subscribe(capacity=1_000)
    for number in range(500):
        channel.publish(Said(number))
    await quick.receive_batch()
    assert kept(channel) == 500
    for received in range(500):
        await slow.receive()
        needed = 499 - received
        assert needed <= kept(channel) < needed + STRIDE


async def test_an_event_is_stored_once_however_many_subscribe() -> None:
    channel = EventChannel()
    subscriptions = [channel.subscribe() for _ in range(100)]
    channel.publish(Said(1))
    assert kept(channel) == 1
    envelopes = [subscription.receive_nowait() for subscription in subscriptions]
    assert all(envelope is envelopes[0] for envelope in envelopes)


async def test_readers_that_keep_up_keep_nothing(nursery: trio.Nursery) -> None:
    channel = EventChannel()

    async def read(*types: type[Event]) -> None:
        async for _ in channel.subscribe(*types, capacity=50_000):
            pass

    for types in ((), (Said,), (Sung,)):
        nursery.start_soon(read, *types)
    for number in range(1_000):
        await wait_all_tasks_blocked()
        channel.publish(Said(number))
    await wait_all_tasks_blocked()
    assert kept(channel) == 0
    nursery.cancel_scope.cancel()


async def test_a_forgotten_subscription_keeps_no_more_than_its_own_capacity() -> None:
    channel = EventChannel()
    forgotten = channel.subscribe(capacity=10)
    current = channel.subscribe(capacity=50_000)
    for number in range(10_000):
        channel.publish(Said(number))
        current.receive_nowait()
        assert kept(channel) < 10 + STRIDE
    with pytest.raises(Overflow) as caught:
        forgotten.receive_nowait()
    assert caught.value.missed == 10_000


async def test_a_subscription_far_behind_keeps_what_it_may_still_receive_and_then_nothing() -> None:
    channel = EventChannel()
    current, deep = channel.subscribe(), channel.subscribe(capacity=5_000)
    for number in range(5_000):
        channel.publish(Said(number))
        current.receive_nowait()
    assert kept(channel) == 5_000
    assert deep.receive_nowait().event == Said(0)
    deep_again = [deep.receive_nowait().event for _ in range(4_999)]
    assert deep_again == [Said(number) for number in range(1, 5_000)]
    assert kept(channel) < STRIDE
    deep.close()
    current.close()
    assert kept(channel) == 0


async def test_an_overflow_keeps_nothing_once_it_is_found_out() -> None:
    channel = EventChannel()
    subscription = channel.subscribe(capacity=2)
    for number in range(3):
        channel.publish(Weighty(number))
    with pytest.raises(Overflow):
        await subscription.receive()
    assert kept(channel) == 0


async def test_a_subscription_that_is_garbage_keeps_nothing_and_counts_no_more() -> None:
    channel = EventChannel()
    subscription = channel.subscribe(capacity=1_000)
    event = Weighty(1)
    seen = weakref.ref(event)
    channel.publish(event)
    del event, subscription
    gc.collect()
    channel.publish(Weighty(2))
    assert seen() is None
    statistics = channel.statistics()
    assert (statistics.kept, statistics.subscriptions) == (0, 0)


async def test_garbage_can_be_found_in_any_thread() -> None:
    channel = EventChannel()
    cell = [channel.subscribe()]
    channel.publish(Said(1))
    thread = threading.Thread(target=cell.clear)
    thread.start()
    thread.join()
    channel.publish(Said(2))
    assert kept(channel) == 0


async def test_a_closed_subscription_that_is_garbage_is_not_counted_twice() -> None:
    channel = EventChannel()
    other = channel.subscribe(capacity=1)
    with channel.subscribe() as subscription:
        pass
    del subscription
    channel.publish(Said(1))
    channel.publish(Said(2))
    with pytest.raises(Overflow):
        other.receive_nowait()
    del other
    assert channel.statistics().subscriptions == 0


async def test_a_handle_does_not_keep_subscriptions_alive() -> None:
    channel = EventChannel()
    choir = channel.publisher("choir")
    subscriptions = [choir.subscribe() for _ in range(10)]
    choir.publish(Sung(1))
    assert choir.statistics().subscriptions == 10
    del subscriptions
    assert choir.statistics().subscriptions == 0
    assert kept(channel) == 0
    choir.end()


async def test_a_burst_to_sleeping_readers_keeps_no_more_than_the_deepest_may_receive(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    got: list[int] = []

    async def read(capacity: int) -> None:
        with channel.subscribe(capacity=capacity) as subscription:
            try:
                got.append(len(await subscription.receive_batch()))
            except Overflow as overflow:
                got.append(-overflow.missed)

    for capacity in (10, 200, 1_000):
        nursery.start_soon(read, capacity)
    await wait_all_tasks_blocked()
    for number in range(500):
        channel.publish(Said(number))
    assert kept(channel) == 500
    await wait_all_tasks_blocked()
    assert sorted(got) == [-500, -500, 500]
    assert kept(channel) == 0


async def test_a_reader_cancelled_in_the_middle_of_a_burst_loses_nothing_of_it(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    subscriptions = [channel.subscribe(capacity=100 * (number + 1)) for number in range(4)]
    scopes = [trio.CancelScope() for _ in subscriptions]
    got: list[list[int]] = [[] for _ in subscriptions]

    async def read(index: int) -> None:
        with scopes[index]:
            got[index] += numbers(await subscriptions[index].receive_batch())

    for index in range(4):
        nursery.start_soon(read, index)
    await wait_all_tasks_blocked()
    for number in range(100):
        channel.publish(Said(number))
        if number % 25 == 10:
            scopes[number // 25].cancel()
    await wait_all_tasks_blocked()
    for index, subscription in enumerate(subscriptions):
        if not got[index]:
            got[index] = numbers(await subscription.receive_batch())
        assert got[index] == list(range(100))
    assert kept(channel) < STRIDE


def test_a_channel_can_be_read_without_a_run_and_keeps_nothing_of_it() -> None:
    channel = EventChannel(world=CountingWorld())
    with channel.subscribe() as subscription:
        channel.publish(Said(1))
        assert subscription.receive_nowait().event == Said(1)
    assert kept(channel) == 0
