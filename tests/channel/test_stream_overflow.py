"""Falling behind fails one subscription: at once, alone, for good, with the exact number missed."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from stream_story import Loud, Ping, Pong
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Failed, Overflow
from trio_reactor.events import Event
from trio_reactor.world import SeededWorld


class StillWorld(SeededWorld):
    """A world outside of Trio."""

    def clock(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 0.0


def still_channel() -> EventChannel:
    return EventChannel(world=StillWorld(0))


def missed(subscription: Subscription[Event]) -> int:
    with pytest.raises(Overflow) as overflow:
        subscription.receive_nowait()
    return overflow.value.missed


@pytest.mark.parametrize("capacity", [1, 2, 31, 32, 33, 64, 255, 256, 257, 1000])
@pytest.mark.parametrize("before", [0, 1, 31, 32, 40, 300])
def test_as_many_as_the_capacity_are_kept_and_one_more_is_too_many(
    capacity: int, before: int
) -> None:
    channel = still_channel()
    exact, over = channel.subscribe(capacity=capacity), channel.subscribe(capacity=capacity)
    for _ in range(before):
        channel.publish(Ping())
        exact.receive_nowait()
        over.receive_nowait()
    for _ in range(capacity):
        channel.publish(Ping())
    seqs = [exact.receive_nowait().seq for _ in range(capacity)]
    assert seqs == list(range(before + 1, before + capacity + 1))
    channel.publish(Ping())
    assert missed(over) == capacity + 1  # at once: what it had left is not delivered
    assert exact.receive_nowait().seq == before + capacity + 1


def test_it_is_sticky_and_counts_once() -> None:
    channel = still_channel()
    subscription = channel.subscribe(capacity=3)
    for _ in range(5):
        channel.publish(Ping())
    assert missed(subscription) == 5
    for _ in range(5):
        channel.publish(Ping())
    assert missed(subscription) == 5
    channel.end()
    assert missed(subscription) == 5
    assert subscription.statistics().missed == 5


@pytest.mark.parametrize("through", ["channel", "handle"])
@pytest.mark.parametrize("failing", [False, True])
def test_the_end_does_not_hide_it(through: str, failing: bool) -> None:
    channel = still_channel()
    handle = channel.publisher("it")
    owner = channel if through == "channel" else handle
    behind, prompt = owner.subscribe(capacity=3), owner.subscribe(capacity=4)
    for _ in range(4):
        handle.publish(Ping())
    if failing:
        owner.fail(OSError())
    else:
        owner.end()
    assert missed(behind) == 4
    assert [prompt.receive_nowait().seq for _ in range(4)] == [1, 2, 3, 4]
    with pytest.raises(Failed if failing else trio.EndOfChannel):
        prompt.receive_nowait()


def test_positions_count_whatever_the_filter_lets_through() -> None:
    channel = still_channel()
    here = channel.publisher("here")
    choosy = [channel.subscribe(Pong, capacity=3), here.subscribe(capacity=3)]
    here_only = here.subscribe(Loud, capacity=4)
    for _ in range(4):
        channel.publish(Ping(), handle="there")
    assert [missed(each) for each in choosy] == [4, 4]
    with pytest.raises(trio.WouldBlock):
        here_only.receive_nowait()
    assert here_only.statistics().behind == 0  # what is not for it has passed it
    for _ in range(4):
        channel.publish(Ping(), handle="there")
    here.publish(Loud())
    assert missed(here_only) == 5


async def test_it_fails_alone_and_observing_again_goes_on(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    slow, prompt = channel.subscribe(capacity=2), channel.subscribe(capacity=2)
    state = 0
    for n in range(1, 10):
        state = n
        channel.publish(Ping(n))
        assert (await prompt.receive()).seq == n
    with pytest.raises(Overflow) as overflow:
        await slow.receive()
    assert overflow.value.missed == 9
    assert overflow.value.retryable
    with channel.observe(lambda: state) as (seen, again):
        channel.publish(Ping(10))
        assert seen == 9
        assert (await again.receive()).event == Ping(10)


@pytest.mark.parametrize("types", [(), (Ping,), (Pong,)])
async def test_a_burst_in_one_step_beyond_the_capacity_fails_even_who_waits(
    types: tuple[type[Event], ...],
) -> None:
    channel = EventChannel()
    told: list[int] = []
    batches: list[int] = []

    async def read(subscription: Subscription[Event]) -> None:
        with pytest.raises(Overflow) as overflow:
            await subscription.receive()
        told.append(overflow.value.missed)

    async def read_all(subscription: Subscription[Event]) -> None:
        batches.append(len(await subscription.receive_batch()))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(read, channel.subscribe(*types, capacity=5))
        await wait_all_tasks_blocked()
        nursery.start_soon(read_all, channel.subscribe(capacity=6))
        await wait_all_tasks_blocked()
        for n in range(6):
            channel.publish(Ping(n))
    assert told == [6, 6, 6]
    assert batches == [6]


async def test_statistics_find_it_out_and_say_the_same_as_the_reader_is_told() -> None:
    channel = EventChannel()
    subscription = channel.subscribe(capacity=2)
    for _ in range(3):
        channel.publish(Ping())
    assert subscription.statistics().missed == 3
    channel.publish(Ping())
    with pytest.raises(Overflow) as overflow:
        await subscription.receive()
    assert overflow.value.missed == 3


@given(
    capacity=st.integers(1, 80),
    taken=st.integers(0, 80),
    published=st.integers(1, 300),
    every=st.integers(1, 7),
)
def test_the_number_is_exact(capacity: int, taken: int, published: int, every: int) -> None:
    channel = still_channel()
    subscription = channel.subscribe(Pong, capacity=capacity)
    for n in range(taken):
        channel.publish(Pong(n) if n % every == 0 else Ping(n))
        if n % every == 0:
            assert subscription.receive_nowait().event == Pong(n)
        else:
            with pytest.raises(trio.WouldBlock):
                subscription.receive_nowait()
    for n in range(published):
        channel.publish(Pong(n) if n % every == 0 else Ping(n))
    if published > capacity:
        assert missed(subscription) == published
    else:
        assert [subscription.receive_nowait().event for _ in range(0, published, every)] == [
            Pong(n) for n in range(0, published, every)
        ]
