"""Ends and failures: of the channel, of one handle's end of it, and which of them comes first."""

from __future__ import annotations

import traceback

import pytest
import trio
from stream_story import Ping, Pong
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Publisher, Subscription
from trio_reactor.errors import Closed, Failed
from trio_reactor.events import Event


def failure() -> OSError:
    try:
        raise OSError("the wire is cut")
    except OSError as error:
        return error


async def outcome(subscription: Subscription[Event]) -> tuple[list[int], BaseException]:
    received: list[int] = []
    while True:
        try:
            received.append((await subscription.receive()).seq)
        except (trio.EndOfChannel, trio.ClosedResourceError, trio.BrokenResourceError) as end:
            return received, end


@pytest.mark.parametrize("through", ["channel", "handle"])
async def test_an_end_delivers_first_and_stays(through: str) -> None:
    channel = EventChannel()
    handle = channel.publisher("it")
    owner: EventChannel | Publisher = channel if through == "channel" else handle
    subscription = owner.subscribe()
    handle.publish(Ping())
    handle.publish(Ping())
    owner.end()
    owner.fail(failure())
    received, end = await outcome(subscription)
    assert received == [1, 2]
    assert type(end) is trio.EndOfChannel
    for _ in range(2):
        with pytest.raises(trio.EndOfChannel):
            await subscription.receive()
        with pytest.raises(trio.EndOfChannel):
            await subscription.receive_batch()
        with pytest.raises(trio.EndOfChannel):
            subscription.receive_nowait()
    with pytest.raises(Closed):
        handle.publish(Ping())
    late = owner.subscribe()
    assert (await outcome(late))[0] == []


@pytest.mark.parametrize("through", ["channel", "handle"])
async def test_everyone_gets_a_failure_of_their_own_and_the_original_does_not_grow(
    through: str,
) -> None:
    channel = EventChannel()
    handle = channel.publisher("it")
    owner: EventChannel | Publisher = channel if through == "channel" else handle
    original = failure()
    length = len(traceback.extract_tb(original.__traceback__))
    subscriptions: list[Subscription[Event]] = [owner.subscribe() for _ in range(20)]
    ends: list[BaseException] = []

    async def read(subscription: Subscription[Event]) -> None:
        received, end = await outcome(subscription)
        assert received == [1]
        ends.append(end)

    async with trio.open_nursery() as nursery:
        for subscription in subscriptions[:10]:
            nursery.start_soon(read, subscription)
        await wait_all_tasks_blocked()
        handle.publish(Ping())
        owner.fail(original)
        owner.end()
        for subscription in subscriptions[10:]:
            nursery.start_soon(read, subscription)
    for subscription in subscriptions:
        ends.append((await outcome(subscription))[1])
        with pytest.raises(Failed) as again:
            await subscription.receive_batch()
        ends.append(again.value)
    for _ in range(10):
        with pytest.raises(Failed) as refused:
            handle.publish(Ping())
        ends.append(refused.value)
    assert all(type(end) is Failed and end.__cause__ is original for end in ends)
    assert len({id(end) for end in ends}) == len(ends) == 70
    assert len(traceback.extract_tb(original.__traceback__)) == length
    assert original.__context__ is None
    assert "the wire is cut" not in str(ends[0])


async def test_a_failure_ends_no_async_for_quietly() -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    channel.publish(Ping())
    channel.fail(failure())
    seen = 0
    with pytest.raises(Failed):
        async for _ in subscription:
            seen += 1
    assert seen == 1


async def test_a_handle_ends_those_who_observe_it_and_nobody_else() -> None:
    channel = EventChannel()
    one, two, twin = (channel.publisher(name) for name in ("one", "two", "one"))
    of_one, of_two, of_twin = one.subscribe(), two.subscribe(), twin.subscribe()
    with one.observe(lambda: "state") as (state, observed):
        assert state == "state"
        everything = channel.subscribe()
        one.publish(Ping(1))
        two.publish(Ping(2))
        twin.publish(Pong(3))
        one.fail(failure())
        two.publish(Ping(4))
        with pytest.raises(Failed):
            one.publish(Ping(5))
        twin.publish(Ping(6))
        for subscription in (of_one, observed):
            received, end = await outcome(subscription)
            assert received == [1, 3]
            assert type(end) is Failed
    assert [e.seq for e in await of_two.receive_batch()] == [2, 4]
    assert [e.seq for e in await of_twin.receive_batch()] == [1, 3, 5]
    batch = await everything.receive_batch()
    assert [(e.seq, e.handle) for e in batch] == [
        (1, "one"), (2, "two"), (3, "one"), (4, "two"), (5, "one"),
    ]  # fmt: skip
    assert one.ended
    assert not two.ended
    assert not channel.statistics().ended
    channel.end()
    for subscription in (of_two, of_twin, everything):
        assert type((await outcome(subscription))[1]) is trio.EndOfChannel
    assert two.ended


@pytest.mark.parametrize("first", ["channel", "handle"])
async def test_of_the_channels_end_and_the_handles_the_first_counts(first: str) -> None:
    channel = EventChannel()
    handle = channel.publisher("it")
    before = handle.subscribe()
    handle.publish(Ping())
    if first == "channel":
        channel.end()
        handle.fail(failure())
    else:
        handle.fail(failure())
        channel.end()
    received, end = await outcome(before)
    assert received == [1]
    assert type(end) is (trio.EndOfChannel if first == "channel" else Failed)
    with pytest.raises((Closed, Failed)):
        handle.publish(Ping())
    assert handle.ended


async def test_what_is_published_in_an_ended_handles_name_is_not_for_those_it_ended() -> None:
    channel = EventChannel()
    handle = channel.publisher("it")
    subscription = handle.subscribe()
    handle.publish(Ping(1))
    handle.end()
    channel.publish(Ping(2), handle="it")
    assert (await outcome(subscription))[0] == [1]
    assert (await outcome(handle.subscribe()))[0] == []


async def test_an_end_is_delivered_also_to_those_whose_filter_hid_all_that_came(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    asleep, ready = channel.subscribe(Pong), channel.subscribe(Pong)
    ended: list[bool] = []

    async def read() -> None:
        assert [envelope async for envelope in asleep] == []
        ended.append(True)

    nursery.start_soon(read)
    await wait_all_tasks_blocked()
    channel.publish(Ping())
    channel.end()
    await wait_all_tasks_blocked()
    assert ended == [True]
    with pytest.raises(trio.EndOfChannel):
        ready.receive_nowait()


async def test_what_an_ended_handle_left_outlasts_any_burst_and_goes_when_closed() -> None:
    channel = EventChannel()
    handle = channel.publisher("it")
    subscription, closed = handle.subscribe(capacity=3), handle.subscribe(capacity=3)
    for n in range(3):
        handle.publish(Ping(n))
    handle.end()
    for n in range(100):
        channel.publish(Pong(n))
    assert [e.seq for e in await subscription.receive_batch(2)] == [1, 2]
    assert (await outcome(subscription))[0] == [3]
    closed.close()
    assert type((await outcome(closed))[1]) is Closed
