"""Handles that share a channel, observing a state and what follows, and the bounds of a channel."""

from __future__ import annotations

import pytest
import trio
from channel_story import Said, Sung, numbers
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import (
    ChannelStatistics,
    EventChannel,
    Subscription,
    SubscriptionStatistics,
)
from trio_reactor.errors import Closed, Failed, Overflow
from trio_reactor.events import Event

# ------------------------------------------------------------------------------------- observing


async def test_observing_pairs_the_state_with_every_later_event() -> None:
    channel = EventChannel()
    total = 0

    def say(number: int) -> None:
        nonlocal total
        total += number
        channel.publish(Said(number))

    say(1)
    with channel.observe(lambda: total) as (seen, subscription):
        say(2)
        say(3)
        assert seen == 1
        assert seen + sum(numbers(await subscription.receive_batch())) == total == 6
    with pytest.raises(Closed):
        await subscription.receive()


async def test_the_state_and_the_cursor_are_taken_in_one_step_when_the_block_is_entered() -> None:
    channel = EventChannel()
    observation = channel.observe(lambda: channel.statistics().published)
    channel.publish(Said(1))
    with observation as (published, subscription):
        channel.publish(Said(2))
        assert published == 1
        assert numbers(await subscription.receive_batch()) == [2]


async def test_what_the_state_itself_publishes_is_not_missed() -> None:
    channel = EventChannel()
    with channel.observe(lambda: channel.publish(Said(1))) as (_, subscription):
        assert numbers(await subscription.receive_batch()) == [1]


async def test_observing_can_filter_and_bound() -> None:
    channel = EventChannel()
    with channel.observe(lambda: None, Said, capacity=2) as (_, subscription):
        channel.publish(Sung(1))
        channel.publish(Said(2))
        assert numbers(await subscription.receive_batch()) == [2]
        for number in range(3):
            channel.publish(Sung(number))
        with pytest.raises(Overflow):
            await subscription.receive()


async def test_whoever_fell_behind_observes_again_and_starts_from_the_current_state() -> None:
    channel = EventChannel()
    said: list[int] = []

    def say(number: int) -> None:
        said.append(number)
        channel.publish(Said(number))

    with channel.observe(lambda: list(said), capacity=4) as (replica, subscription):
        for number in range(5):
            say(number)
        with pytest.raises(Overflow) as caught:
            await subscription.receive()
        assert (replica, caught.value.missed) == ([], 5)
    with channel.observe(lambda: list(said), capacity=4) as (replica, subscription):
        say(5)
        replica.extend(numbers(await subscription.receive_batch()))
        assert replica == said == [0, 1, 2, 3, 4, 5]


async def test_a_state_that_cannot_be_told_leaves_no_subscription_behind() -> None:
    channel = EventChannel()

    def state() -> None:
        raise OSError

    with pytest.raises(OSError), channel.observe(state):  # noqa: PT011 - any will do
        pass
    assert channel.statistics().subscriptions == 0


# --------------------------------------------------------------------------------------- handles


async def test_who_subscribes_through_a_handle_sees_its_events_only() -> None:
    channel = EventChannel()
    choir, reader = channel.publisher("choir"), channel.publisher("reader")
    assert (choir.handle, choir.channel) == ("choir", channel)
    everything, choirs, sung = channel.subscribe(), choir.subscribe(), choir.subscribe(Sung)
    with reader.observe(lambda: "state", Said) as (_, readers):
        choir.publish(Sung(1))
        reader.publish(Said(2))
        choir.publish(Said(3))
        channel.publish(Sung(4))
        reader.publish(Sung(5))
        assert numbers(await everything.receive_batch()) == [1, 2, 3, 4, 5]
        assert numbers(await choirs.receive_batch()) == [1, 3]
        assert numbers(await sung.receive_batch()) == [1]
        assert numbers(await readers.receive_batch()) == [2]


async def test_a_handle_ends_those_who_observe_it_and_never_the_channel(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    choir, reader = channel.publisher("choir"), channel.publisher("reader")
    came_to: list[tuple[str, list[int]]] = []

    async def read(name: str, subscription: Subscription[Event]) -> None:
        got = [envelope.seq async for envelope in subscription]
        came_to.append((name, got))

    nursery.start_soon(read, "everything", channel.subscribe())
    nursery.start_soon(read, "choir", choir.subscribe())
    nursery.start_soon(read, "reader", reader.subscribe())
    await wait_all_tasks_blocked()
    choir.publish(Sung(1))
    choir.end()
    await wait_all_tasks_blocked()
    assert came_to == [("choir", [1])]
    with pytest.raises(Closed, match="choir"):
        choir.publish(Sung(2))
    reader.publish(Said(3))
    channel.publish(Said(4))
    channel.end()
    await wait_all_tasks_blocked()
    assert sorted(came_to[1:]) == [("everything", [1, 2, 3]), ("reader", [2])]


async def test_a_handle_that_fails_gives_each_who_observes_it_a_failure_of_its_own() -> None:
    channel = EventChannel()
    choir = channel.publisher("choir")
    original = OSError("hoarse")
    first, second, everything = choir.subscribe(), choir.subscribe(), channel.subscribe()
    choir.publish(Sung(1))
    choir.fail(original)
    choir.end()
    raised: list[Failed] = []
    for subscription in (first, second):
        assert (await subscription.receive()).event == Sung(1)
        with pytest.raises(Failed, match="choir") as caught:
            await subscription.receive()
        raised.append(caught.value)
    with pytest.raises(Failed) as caught:
        choir.publish(Sung(2))
    raised.append(caught.value)
    assert [failed.__cause__ for failed in raised] == [original] * 3
    assert len({id(failed) for failed in raised}) == 3
    assert channel.publish(Said(2)) == 2
    assert numbers(await everything.receive_batch()) == [1, 2]


async def test_what_a_handle_published_is_delivered_however_busy_the_channel_then_is() -> None:
    channel = EventChannel()
    choir = channel.publisher("choir")
    one, batch = choir.subscribe(capacity=4), choir.subscribe(Sung, capacity=4)
    for number in range(4):
        choir.publish(Sung(number))
    choir.end()
    for number in range(1_000):
        channel.publish(Said(number), handle="choir")
    assert channel.statistics().kept == 0
    assert one.statistics().behind == 4
    assert numbers([await one.receive() for _ in range(4)]) == [0, 1, 2, 3]
    assert numbers(await batch.receive_batch(limit=3)) == [0, 1, 2]
    assert numbers(await batch.receive_batch()) == [3]
    for subscription in (one, batch):
        with pytest.raises(trio.EndOfChannel):
            await subscription.receive()


async def test_who_had_fallen_behind_before_the_handle_ended_is_told_that() -> None:
    channel = EventChannel()
    choir = channel.publisher("choir")
    subscription = choir.subscribe(capacity=1)
    channel.publish(Said(1))
    channel.publish(Said(2))
    choir.end()
    channel.publish(Said(3))
    with pytest.raises(Overflow) as caught:
        await subscription.receive()
    assert caught.value.missed == 2


async def test_each_publisher_ends_only_what_came_through_itself() -> None:
    channel = EventChannel()
    old, new = channel.publisher("choir"), channel.publisher("choir")
    through_old, through_new = old.subscribe(), new.subscribe()
    old.end()
    new.publish(Sung(1))
    assert numbers(await through_new.receive_batch()) == [1]
    with pytest.raises(trio.EndOfChannel):
        await through_old.receive()
    with old.subscribe() as late, pytest.raises(trio.EndOfChannel):
        await late.receive()


async def test_the_end_of_the_channel_ends_every_handle() -> None:
    channel = EventChannel()
    choir = channel.publisher("choir")
    subscription = choir.subscribe()
    choir.publish(Sung(1))
    channel.end()
    choir.fail(OSError())  # too late: it has ended
    assert numbers(await subscription.receive_batch()) == [1]
    with pytest.raises(trio.EndOfChannel):
        await subscription.receive()
    with pytest.raises(Failed):
        choir.publish(Sung(2))
    with pytest.raises(Closed):
        channel.publisher("reader").publish(Said(2))


# ------------------------------------------------------------------------- bounds and statistics


async def test_there_is_a_bound_to_subscriptions_and_closed_ones_make_room() -> None:
    channel = EventChannel(max_subscriptions=2)
    first, second = channel.subscribe(), channel.publisher("it").subscribe()
    with pytest.raises(Overflow, match="as many subscriptions as it may, 2"):
        channel.subscribe()
    first.close()
    first.close()
    third = channel.subscribe()
    with pytest.raises(Overflow), channel.observe(lambda: None):
        pass
    del second, third
    channel.subscribe().close()


@pytest.mark.parametrize("capacity", [0, -1, 101])
async def test_there_is_a_bound_to_capacity(capacity: int) -> None:
    channel = EventChannel(max_capacity=100)
    with pytest.raises(ValueError, match="capacity must be from 1 to 100"):
        channel.subscribe(capacity=capacity)
    assert channel.statistics().subscriptions == 0
    channel.subscribe(capacity=100).close()


@pytest.mark.parametrize("bound", ["max_subscriptions", "max_capacity"])
def test_a_channel_without_room_is_refused_by_the_name_of_the_bound(bound: str) -> None:
    with pytest.raises(ValueError, match=bound):
        EventChannel(**{bound: 0})


async def test_statistics_tell_what_is_published_kept_and_waited_for(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    choir = channel.publisher("choir")
    assert channel.statistics() == ChannelStatistics(0, 0, 0, 0, ended=False)
    nursery.start_soon(channel.subscribe(Said).receive)
    idle = choir.subscribe()
    await wait_all_tasks_blocked()
    choir.publish(Sung(1))
    channel.publish(Sung(2))
    await wait_all_tasks_blocked()
    assert channel.statistics() == ChannelStatistics(2, 2, 2, 1, ended=False)
    assert choir.statistics() == ChannelStatistics(1, 1, 1, 0, ended=False)
    assert idle.statistics() == SubscriptionStatistics(256, 2, 0, waiting=False)
    choir.end()
    assert (channel.statistics().ended, choir.statistics().ended) == (False, True)
    nursery.cancel_scope.cancel()
    channel.end()
    assert channel.statistics().ended
    idle.close()
    assert choir.statistics() == ChannelStatistics(1, 0, 0, 0, ended=True)


async def test_things_say_what_they_are() -> None:
    channel = EventChannel(name="the news")
    choir = channel.publisher("choir")
    choir.publish(Sung(1))
    assert repr(channel) == "<EventChannel the news: 1 published>"
    assert repr(choir) == "<Publisher choir: 1 published>"
    assert repr(channel.subscribe(capacity=7)) == "<Subscription at 2, capacity 7>"
