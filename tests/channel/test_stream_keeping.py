"""What a channel keeps: each event once, for those who may still receive it, and within bounds."""

from __future__ import annotations

import gc
import weakref

import pytest
import trio
from stream_story import Ping, Pong
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Publisher, Subscription
from trio_reactor.channel.stream import STRIDE
from trio_reactor.errors import Overflow
from trio_reactor.events import Event


class Heavy(Event, weakref=True):
    n: int


def publish(channel: EventChannel | Publisher, count: int) -> list[weakref.ref[Heavy]]:
    seen: list[weakref.ref[Heavy]] = []
    for n in range(count):
        event = Heavy(n)
        seen.append(weakref.ref(event))
        channel.publish(event)
    return seen


def alive(events: list[weakref.ref[Heavy]]) -> int:
    return sum(each() is not None for each in events)


async def test_nothing_is_kept_without_subscribers() -> None:
    channel = EventChannel()
    assert alive(publish(channel, 1_000)) == 0
    assert channel.statistics().kept == 0
    assert channel.statistics().published == 1_000


async def test_nothing_is_kept_after_the_last_one_closes() -> None:
    channel = EventChannel()
    with channel.subscribe() as first, channel.subscribe(Pong) as second:
        events = publish(channel, 200)
        assert alive(events) == 200
        first.close()
        assert alive(events) == 200  # for the other
        second.close()
        assert alive(events) == 0
    assert alive(publish(channel, 10)) == 0


async def test_nothing_is_kept_for_garbage() -> None:
    channel = EventChannel(max_subscriptions=1)
    subscription = channel.subscribe()
    events = publish(channel, 100)
    del subscription
    gc.collect()
    assert channel.statistics().subscriptions == 0
    assert alive(events) == 0
    channel.subscribe()  # its place is free
    gc.collect()
    assert alive(publish(channel, 10)) == 0


async def test_what_was_received_is_let_go_while_the_reader_reads() -> None:
    channel = EventChannel()
    subscription = channel.subscribe(capacity=10_000)
    events = publish(channel, 5_000)
    for taken in range(5_000):
        assert alive(events[taken:]) == 5_000 - taken if taken % 500 == 0 else True
        subscription.receive_nowait()
        if taken % 500 == 0:
            assert alive(events) <= 5_000 - taken + STRIDE
    assert alive(events) < STRIDE
    await subscription.aclose()
    assert alive(events) == 0


@pytest.mark.parametrize("capacity", [1, 7, 256])
async def test_a_forgotten_slow_subscription_bounds_what_is_kept(capacity: int) -> None:
    channel = EventChannel(max_capacity=capacity)
    forgotten = channel.subscribe(capacity=capacity)
    most = 0
    refs: list[weakref.ref[Heavy]] = []
    for _ in range(3 * capacity + 3 * STRIDE):
        refs += publish(channel, 1)
        most = max(most, channel.statistics().kept)
    assert capacity <= most <= capacity + STRIDE - 1
    assert alive(refs) == 0  # it fell behind, so nothing is kept for it any more
    assert channel.statistics().kept == 0
    with pytest.raises(Overflow):
        forgotten.receive_nowait()


async def test_a_slow_subscription_does_not_make_the_channel_keep_more_for_the_prompt() -> None:
    channel = EventChannel()
    slow = channel.subscribe(capacity=1_000)
    prompt = channel.subscribe(capacity=10)
    for n in range(5_000):
        channel.publish(Ping(n))
        prompt.receive_nowait()
        assert channel.statistics().kept <= 1_000 + STRIDE
    assert channel.statistics().kept < STRIDE
    assert slow.statistics().missed == 5_000


async def test_nothing_is_kept_for_those_who_sleep_nor_for_those_cancelled_in_their_sleep() -> None:
    channel = EventChannel()
    subscriptions = [channel.subscribe(), channel.subscribe(Pong), channel.subscribe(capacity=9)]

    async def read(subscription: Subscription[Event]) -> None:
        await subscription.receive()

    async with trio.open_nursery() as nursery:
        for subscription in subscriptions:
            nursery.start_soon(read, subscription)
        await wait_all_tasks_blocked()
        nursery.start_soon(read, channel.subscribe(capacity=50))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        await trio.lowlevel.cancel_shielded_checkpoint()
    assert channel.statistics().kept == 0
    events = publish(channel, 5)
    assert alive(events) == 5
    for subscription in subscriptions:
        subscription.close()
    gc.collect()
    channel.statistics()
    assert alive(events) == 0


async def test_the_end_of_a_handle_keeps_for_its_readers_only_what_is_theirs() -> None:
    channel = EventChannel()
    here = channel.publisher("here")
    subscription = here.subscribe()
    mine, others = publish(here, 5), publish(channel, 5)
    here.end()
    assert (alive(mine), alive(others)) == (5, 0)
    assert channel.statistics().kept == 0
    assert subscription.statistics().behind == 5
    assert len(await subscription.receive_batch()) == 5
    assert alive(mine) == 0


async def test_many_bursts_with_sleepers_closes_and_cancellations_leave_nothing_behind() -> None:
    channel = EventChannel()
    refs: list[weakref.ref[Heavy]] = []

    async def read(subscription: Subscription[Event], times: int) -> None:
        with subscription:
            for _ in range(times):
                await subscription.receive()

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            for n in range(60):
                nursery.start_soon(read, channel.subscribe(capacity=40), n)
                if n % 3 == 0:
                    await wait_all_tasks_blocked()
                refs += publish(channel, n % 5)
            scope.cancel()
    assert channel.statistics().subscriptions == 0
    assert channel.statistics().kept == 0
    assert alive(refs) == 0
