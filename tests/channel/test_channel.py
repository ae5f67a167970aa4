"""One reader and its channel: order, envelopes, filters, batches, falling behind, the end."""

from __future__ import annotations

import pytest
import trio
from channel_story import CountingWorld, Said, Shouted, Sung, numbers
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_reactor.channel import EventChannel
from trio_reactor.errors import Closed, Overflow
from trio_reactor.events import Envelope, Event
from trio_reactor.world import SeededWorld


async def test_a_subscription_receives_what_is_published_from_then_on() -> None:
    channel = EventChannel()
    channel.publish(Said(0))
    with channel.subscribe() as subscription:
        for number in range(1, 4):
            channel.publish(Said(number))
        assert numbers([await subscription.receive() for _ in range(3)]) == [1, 2, 3]
        with pytest.raises(trio.WouldBlock):
            subscription.receive_nowait()


async def test_an_envelope_tells_the_place_in_the_order_both_instants_and_the_handle() -> None:
    channel = EventChannel(world=CountingWorld())
    subscription = channel.subscribe()
    assert channel.publish(Said(1)) == 1
    assert channel.publish(Sung(2), handle="choir") == 2
    assert await subscription.receive() == Envelope(1, 1_700_000_001.0, 1.0, "", Said(1))
    assert await subscription.receive() == Envelope(2, 1_700_000_002.0, 2.0, "choir", Sung(2))


async def test_instants_are_those_of_the_world(autojump_clock: trio.testing.MockClock) -> None:
    world = SeededWorld(3, epoch=100.0)
    channel = EventChannel(world=world)
    subscription = channel.subscribe()
    await trio.sleep(7)
    begun = world.clock()
    channel.publish(Said(1))
    envelope = await subscription.receive()
    assert (envelope.clock, envelope.wall) == (begun, 100.0 + begun)


async def test_all_handles_and_all_classes_share_one_strictly_rising_order() -> None:
    channel = EventChannel()
    subscriptions = [channel.subscribe() for _ in range(3)]
    choir, reader = channel.publisher("choir"), channel.publisher("reader")
    returned = [
        publish(event)
        for number in range(5)
        for publish, event in (
            (choir.publish, Sung(number)),
            (channel.publish, Said(number)),
            (reader.publish, Said(number)),
        )
    ]
    assert returned == list(range(1, 16))
    orders = [await subscription.receive_batch() for subscription in subscriptions]
    assert [envelope.seq for envelope in orders[0]] == returned
    assert [envelope.handle for envelope in orders[0]] == ["choir", "", "reader"] * 5
    assert orders[0] == orders[1] == orders[2]


async def test_a_sleeping_reader_is_woken_by_the_next_event(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    got: list[Envelope[Event]] = []

    async def read() -> None:
        async for envelope in subscription:
            got.append(envelope)  # noqa: PERF401 - seen as it grows

    nursery.start_soon(read)
    for number in range(3):
        await wait_all_tasks_blocked()
        assert numbers(got) == list(range(number))
        channel.publish(Said(number))
    channel.end()
    await wait_all_tasks_blocked()
    assert numbers(got) == [0, 1, 2]


async def test_it_is_a_receive_channel_for_with_async_with_and_async_for() -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    assert isinstance(subscription, trio.abc.ReceiveChannel)
    channel.publish(Said(1))
    channel.end()
    async with subscription:
        assert [envelope.event async for envelope in subscription] == [Said(1)]
    with pytest.raises(Closed):
        await subscription.receive()
    with channel.subscribe() as other:
        pass
    with pytest.raises(Closed):
        other.receive_nowait()


# ------------------------------------------------------------------------------------ checkpoints


async def test_every_receive_is_a_checkpoint_also_when_an_event_is_ready() -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    channel.publish(Said(1))
    with assert_checkpoints():
        await subscription.receive()
    channel.publish(Said(2))
    with assert_checkpoints():
        await subscription.receive_batch()
    with assert_checkpoints():
        await subscription.aclose()


async def test_a_failure_or_an_end_comes_after_a_checkpoint_too() -> None:
    channel = EventChannel()
    with channel.subscribe(capacity=1) as behind, channel.subscribe() as last:
        channel.publish(Said(1))
        channel.publish(Said(2))
        with assert_checkpoints(), pytest.raises(Overflow):
            await behind.receive()
        with assert_checkpoints(), pytest.raises(Overflow):
            await behind.receive_batch()
        channel.end()
        await last.receive_batch()
        with assert_checkpoints(), pytest.raises(trio.EndOfChannel):
            await last.receive()


async def test_a_receive_that_is_cancelled_with_an_event_ready_has_taken_nothing() -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    channel.publish(Said(1))
    for receive in (subscription.receive, subscription.receive_batch):
        with trio.CancelScope() as scope:
            scope.cancel()
            await receive()
        assert scope.cancelled_caught
    assert (await subscription.receive()).event == Said(1)


async def test_a_receive_that_is_cancelled_asleep_has_taken_nothing(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    subscription = channel.subscribe(Said)
    with trio.CancelScope() as scope:

        async def publish_and_cancel() -> None:
            await wait_all_tasks_blocked()
            scope.cancel()
            channel.publish(Said(1))

        nursery.start_soon(publish_and_cancel)
        await subscription.receive()
    assert scope.cancelled_caught
    assert subscription.receive_nowait().event == Said(1)


# ---------------------------------------------------------------------------------------- batches


async def test_a_batch_is_everything_that_is_there() -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    for number in range(10):
        channel.publish(Said(number))
    assert numbers(await subscription.receive_batch(limit=4)) == [0, 1, 2, 3]
    assert numbers(await subscription.receive_batch()) == [4, 5, 6, 7, 8, 9]


async def test_a_batch_waits_for_its_first_event(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    batches: list[list[int]] = []

    async def read() -> None:
        while True:
            batches.append(numbers(await subscription.receive_batch()))

    nursery.start_soon(read)
    for burst in ([0], [1, 2, 3], [4, 5]):
        await wait_all_tasks_blocked()
        for number in burst:
            channel.publish(Said(number))
    await wait_all_tasks_blocked()
    assert batches == [[0], [1, 2, 3], [4, 5]]
    nursery.cancel_scope.cancel()


async def test_the_limit_of_a_batch_counts_what_the_filter_lets_through() -> None:
    channel = EventChannel()
    subscription = channel.subscribe(Said)
    for number in range(10):
        channel.publish(Said(number))
        channel.publish(Sung(number))
    assert numbers(await subscription.receive_batch(limit=3)) == [0, 1, 2]
    assert numbers(await subscription.receive_batch(limit=3)) == [3, 4, 5]
    assert numbers(await subscription.receive_batch(limit=300)) == [6, 7, 8, 9]


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_batch_of_nothing_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="limit must be at least 1"):
        await EventChannel().subscribe().receive_batch(limit)


# ---------------------------------------------------------------------------------------- filters


async def test_a_filter_lets_its_classes_and_their_subclasses_through() -> None:
    channel = EventChannel()
    wanted = {
        channel.subscribe(): [Said(1), Sung(2), Shouted(3)],
        channel.subscribe(Event): [Said(1), Sung(2), Shouted(3)],
        channel.subscribe(Said): [Said(1), Shouted(3)],
        channel.subscribe(Shouted): [Shouted(3)],
        channel.subscribe(Sung, Shouted): [Sung(2), Shouted(3)],
    }
    for event in (Said(1), Sung(2), Shouted(3)):
        channel.publish(event)
    for subscription, events in wanted.items():
        assert [envelope.event for envelope in await subscription.receive_batch()] == events


async def test_what_the_filter_hides_does_not_wake_the_reader_but_counts_as_positions(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    subscription = channel.subscribe(Said, capacity=4)
    woken: list[Envelope[Said]] = []

    async def read() -> None:
        async for envelope in subscription:
            woken.append(envelope)  # noqa: PERF401 - seen as it grows

    nursery.start_soon(read)
    for number in range(20):  # it keeps up, so however much is hidden never makes it fall behind
        await wait_all_tasks_blocked()
        channel.publish(Sung(number))
    await wait_all_tasks_blocked()
    assert woken == []
    assert subscription.statistics().waiting
    channel.publish(Said(20))
    await wait_all_tasks_blocked()
    assert [(envelope.seq, envelope.event) for envelope in woken] == [(21, Said(20))]
    channel.end()


async def test_hidden_positions_make_a_reader_that_does_not_read_fall_behind() -> None:
    channel = EventChannel()
    subscription = channel.subscribe(Said, capacity=4)
    for number in range(4):
        channel.publish(Sung(number))
    with pytest.raises(trio.WouldBlock):  # the hidden ones are behind it now
        subscription.receive_nowait()
    for number in range(5):
        channel.publish(Sung(number))
    with pytest.raises(Overflow) as caught:
        subscription.receive_nowait()
    assert caught.value.missed == 5
