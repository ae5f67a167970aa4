"""Receiving: always a checkpoint, one reader at a time, and nothing is lost by a cancellation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from stream_story import Loud, Ping, Pong
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Busy, Closed, Failed, Overflow
from trio_reactor.events import Event

WAYS: list[Callable[[Subscription[Event]], Awaitable[object]]] = [
    Subscription.receive,
    Subscription.receive_batch,
]
FILTERS: list[tuple[type[Event], ...]] = [(), (Ping,), (Event, Pong)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("types", FILTERS)
async def test_it_is_a_checkpoint_whatever_comes_of_it(
    way: Callable[[Subscription[Event]], Awaitable[object]], types: tuple[type[Event], ...]
) -> None:
    channel = EventChannel()
    handle = channel.publisher("it")
    ready, closed, behind, of_handle = (
        channel.subscribe(*types),
        channel.subscribe(*types),
        channel.subscribe(*types, capacity=1),
        handle.subscribe(*types),
    )
    for _ in range(2):
        handle.publish(Ping())
        handle.publish(Pong())
    closed.close()
    handle.fail(OSError())
    with assert_checkpoints():
        await way(ready)
    with assert_checkpoints(), pytest.raises(Closed):
        await way(closed)
    with assert_checkpoints(), pytest.raises(Overflow):
        await way(behind)
    with assert_checkpoints():
        await way(of_handle)
    await of_handle.receive_batch() if way is Subscription.receive else None
    with assert_checkpoints(), pytest.raises(Failed):
        await way(of_handle)
    await ready.receive_batch() if way is Subscription.receive else None
    channel.end()
    with assert_checkpoints(), pytest.raises(trio.EndOfChannel):
        await way(ready)
    with assert_checkpoints():
        await ready.aclose()
    with assert_checkpoints():
        await ready.aclose()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("types", FILTERS)
async def test_what_is_ready_is_not_lost_when_it_is_cancelled(
    way: Callable[[Subscription[Event]], Awaitable[object]], types: tuple[type[Event], ...]
) -> None:
    channel = EventChannel()
    subscription = channel.subscribe(*types)
    for n in range(3):
        channel.publish(Ping(n))
    for _ in range(3):
        with trio.CancelScope() as scope:
            scope.cancel()
            await way(subscription)
        assert scope.cancelled_caught
    assert [envelope.event for envelope in await subscription.receive_batch()] == [
        Ping(n) for n in range(3)
    ]


async def test_a_ready_receiver_lets_others_run() -> None:
    channel = EventChannel()
    subscription = channel.subscribe(capacity=100)
    for n in range(100):
        channel.publish(Ping(n))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(100):
            await subscription.receive()
        nursery.cancel_scope.cancel()
    assert turns >= 90


async def test_one_reader_at_a_time_and_the_first_is_not_disturbed(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    received: list[int] = []

    async def read() -> None:
        received.append((await subscription.receive()).seq)

    async def all_are_refused() -> None:
        with pytest.raises(Busy):
            await subscription.receive()
        with pytest.raises(Busy):
            await subscription.receive_batch()
        with pytest.raises(Busy):
            subscription.receive_nowait()
        with pytest.raises(trio.BusyResourceError):
            subscription.receive_nowait()

    nursery.start_soon(read)
    await wait_all_tasks_blocked()
    await all_are_refused()  # it sleeps
    channel.publish(Ping())
    await all_are_refused()  # it was woken
    await wait_all_tasks_blocked()
    with pytest.RaisesGroup(Busy):
        async with trio.open_nursery() as two:
            two.start_soon(read)
            two.start_soon(read)
    assert received == [1]
    channel.publish(Ping())
    assert (await subscription.receive()).seq == 2


async def test_after_a_cancelled_wait_it_can_be_read_again() -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    for n in range(1, 4):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(subscription.receive)
                await wait_all_tasks_blocked()
                assert subscription.statistics().waiting
                scope.cancel()
        assert not subscription.statistics().waiting
        channel.publish(Ping(n))
        assert (await subscription.receive()).seq == n


@pytest.mark.parametrize("types", FILTERS)
async def test_a_batch_is_all_there_is_up_to_a_limit(types: tuple[type[Event], ...]) -> None:
    channel = EventChannel()
    subscription = channel.subscribe(*types, capacity=1_000)
    for n in range(700):
        channel.publish(Ping(n))
    assert [e.seq for e in await subscription.receive_batch(1)] == [1]
    assert [e.seq for e in await subscription.receive_batch(299)] == list(range(2, 301))
    assert (await subscription.receive()).seq == 301
    assert subscription.receive_nowait().seq == 302
    assert [e.seq for e in await subscription.receive_batch(9_999)] == list(range(303, 701))
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="limit"):
            await subscription.receive_batch(wrong)
    with pytest.raises(trio.WouldBlock):
        subscription.receive_nowait()


@pytest.mark.parametrize("way", WAYS)
async def test_closing_wakes_who_sleeps_and_discards_what_is_left(
    way: Callable[[Subscription[Event]], Awaitable[object]],
) -> None:
    channel = EventChannel()
    asleep, left = channel.subscribe(), channel.subscribe()
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            with pytest.raises(Closed):
                await way(asleep)

        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        asleep.close()
        asleep.close()
    channel.publish(Ping())
    with trio.CancelScope() as scope:
        scope.cancel()
        await left.aclose()
    assert scope.cancelled_caught
    with pytest.raises(Closed):
        await way(left)
    assert channel.statistics().subscriptions == 0


async def test_statistics_tell_what_is_kept_and_waited_for(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    here, there = channel.publisher("here"), channel.publisher("there")
    mine, all_of_it = here.subscribe(capacity=9), channel.subscribe()
    nursery.start_soon(mine.receive)
    await wait_all_tasks_blocked()
    assert (channel.statistics().waiting, here.statistics().waiting) == (1, 1)
    assert there.statistics().subscriptions == 0
    assert mine.statistics().waiting
    assert mine.statistics().capacity == 9
    there.publish(Ping())
    await wait_all_tasks_blocked()
    there.publish(Ping())
    here.publish(Ping())
    assert (channel.statistics().published, here.statistics().published) == (3, 1)
    assert (channel.statistics().kept, here.statistics().kept, there.statistics().kept) == (3, 1, 2)
    assert all_of_it.statistics().behind == 3
    assert channel.statistics().subscriptions == 2
    await wait_all_tasks_blocked()
    assert channel.statistics().waiting == 0
    here.end()
    assert (here.statistics().ended, there.statistics().ended) == (True, False)
    channel.end()
    assert there.statistics().ended
    assert channel.statistics().ended
    assert channel.statistics().kept == 3


async def test_the_state_and_all_that_comes_later_are_taken_in_one_step() -> None:
    channel = EventChannel()
    total = 0

    async def add() -> None:
        nonlocal total
        for n in range(1, 50):
            total += n
            channel.publish(Ping(n))
            await trio.lowlevel.checkpoint()
        channel.end()

    async def follow(after: int) -> None:
        for _ in range(after):
            await trio.lowlevel.checkpoint()
        with channel.observe(lambda: total, Ping) as (state, events):
            followed = state
            async for envelope in events:
                followed += envelope.event.n
        assert followed == total

    async with trio.open_nursery() as nursery:
        nursery.start_soon(add)
        for after in range(0, 60, 3):
            nursery.start_soon(follow, after)
    assert channel.statistics().subscriptions == 0


async def test_what_is_observed_is_closed_when_the_block_is_left() -> None:
    channel = EventChannel()
    with channel.observe(lambda: 1) as (_, events):
        channel.publish(Ping())
    with pytest.raises(Closed):
        await events.receive()


async def test_a_state_that_cannot_be_told_leaves_no_subscription() -> None:
    channel = EventChannel()

    def broken() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), channel.observe(broken):
        raise AssertionError
    assert channel.statistics().subscriptions == 0
    with pytest.raises(ValueError, match="body"), channel.observe(lambda: 1):
        raise ValueError("body")
    assert channel.statistics().subscriptions == 0


async def test_the_order_is_one_and_strictly_rising(autojump_clock: object) -> None:
    channel = EventChannel()
    subscription = channel.subscribe(capacity=1_000)

    async def say(handle: str) -> None:
        publisher = channel.publisher(handle)
        for n in range(20):
            publisher.publish(Ping(n))
            await trio.sleep(0.001 * len(handle))

    async with trio.open_nursery() as nursery:
        for handle in ("a", "bb", "ccc"):
            nursery.start_soon(say, handle)
    batch = await subscription.receive_batch()
    assert [envelope.seq for envelope in batch] == list(range(1, 61))
    assert [envelope.clock for envelope in batch] == sorted(envelope.clock for envelope in batch)
    for handle in ("a", "bb", "ccc"):
        said = [e.event for e in batch if e.handle == handle]
        assert said == [Ping(n) for n in range(20)]


async def test_bounds_are_refusals_that_say_which() -> None:
    with pytest.raises(ValueError, match="max_subscriptions"):
        EventChannel(max_subscriptions=0)
    with pytest.raises(ValueError, match="max_capacity"):
        EventChannel(max_capacity=0)
    channel = EventChannel(max_subscriptions=2, max_capacity=10)
    for wrong in (0, -1, 11):
        with pytest.raises(ValueError, match="capacity"):
            channel.subscribe(capacity=wrong)
    with channel.subscribe(capacity=10), channel.publisher("it").subscribe(capacity=1):
        with pytest.raises(Overflow):
            channel.subscribe(capacity=1)
        with pytest.raises(Overflow), channel.observe(lambda: 1, capacity=1):
            raise AssertionError
    channel.subscribe(Loud, capacity=1)
