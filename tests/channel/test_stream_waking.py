"""Publishing never waits, and wakes one sleeper a burst, who wakes the others."""

from __future__ import annotations

import pytest
import trio
from stream_story import READER, Loud, Ping, Pong, Steps, counting
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.events import Envelope, Event

BURST = 1_000
READERS = 1_000


async def read_batches(
    subscription: Subscription[Event], batches: list[list[Envelope[Event]]]
) -> None:
    while True:
        batches.append(await subscription.receive_batch())


async def test_a_burst_wakes_one_of_a_thousand_sleepers_and_each_of_them_once(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    batches: list[list[Envelope[Event]]] = []
    for _ in range(READERS):
        nursery.start_soon(read_batches, channel.subscribe(capacity=BURST), batches, name=READER)
    await wait_all_tasks_blocked()
    assert channel.statistics().waiting == READERS
    with counting() as steps:
        for n in range(BURST):
            channel.publish(Ping(n))
        assert len(steps.woken) == 1  # publishing woke one
        assert steps.steps == 0
        assert channel.statistics().waiting == READERS - 1
        assert channel.statistics().kept == BURST  # each event once, for all of them
        await wait_all_tasks_blocked()
        assert len(steps.woken) == len(set(steps.woken)) == READERS
        assert steps.steps == READERS
    assert [len(batch) for batch in batches] == [BURST] * READERS
    assert len({id(envelope) for batch in batches for envelope in batch}) == BURST
    assert channel.statistics().kept == 0
    nursery.cancel_scope.cancel()


async def test_those_whom_a_burst_does_not_concern_sleep_on(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    here, there = channel.publisher("here"), channel.publisher("there")
    taken: list[list[Envelope[Event]]] = []
    hidden: list[list[Envelope[Event]]] = []
    subscriptions = [
        *(channel.subscribe(Pong) for _ in range(20)),
        *(there.subscribe() for _ in range(20)),
        *(there.subscribe(Ping) for _ in range(20)),
    ]
    for subscription in subscriptions:
        nursery.start_soon(read_batches, subscription, hidden, name="unconcerned")
    for concerned in (channel.subscribe(), channel.subscribe(Ping), here.subscribe(Ping)):
        nursery.start_soon(read_batches, concerned, taken, name=READER)
    await wait_all_tasks_blocked()
    with counting("unconcerned") as steps:
        for n in range(5):
            here.publish(Ping(n))
        await wait_all_tasks_blocked()
        assert steps.steps <= 1  # nobody, or the one who woke those whom it does concern
    assert [len(batch) for batch in taken] == [5, 5, 5]
    assert hidden == []
    assert all(each.statistics().behind == 0 for each in subscriptions)
    assert channel.statistics().waiting == 63
    nursery.cancel_scope.cancel()


async def test_each_burst_wakes_again(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    batches: list[list[Envelope[Event]]] = []
    for _ in range(3):
        nursery.start_soon(read_batches, channel.subscribe(), batches, name=READER)
    await wait_all_tasks_blocked()
    with counting() as steps:
        for burst in range(1, 6):
            steps.forget()
            for n in range(burst):
                channel.publish(Ping(n))
            assert len(steps.woken) == 1
            await wait_all_tasks_blocked()
            assert len(steps.woken) == 3
    assert sorted(len(batch) for batch in batches) == sorted([1, 2, 3, 4, 5] * 3)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("failing", [False, True])
async def test_an_end_wakes_one_who_wakes_the_others(failing: bool) -> None:
    channel = EventChannel()
    ends: list[type[BaseException]] = []

    async def read(subscription: Subscription[Event]) -> None:
        try:
            await subscription.receive()
        except (trio.EndOfChannel, trio.BrokenResourceError) as end:
            ends.append(type(end))

    with counting() as steps:
        async with trio.open_nursery() as nursery:
            for types in ((), (Ping,), (Pong, Loud)) * 10:
                nursery.start_soon(read, channel.subscribe(*types), name=READER)
            await wait_all_tasks_blocked()
            steps.forget()
            if failing:
                channel.fail(OSError("gone"))
            else:
                channel.end()
            assert len(steps.woken) == 1
        assert len(steps.woken) == 30
    assert len(ends) == 30
    assert len(set(ends)) == 1


async def test_a_reader_that_hangs_or_crashes_delays_nobody(autojump_clock: object) -> None:
    channel = EventChannel()
    received: list[int] = []

    async def crash(subscription: Subscription[Event]) -> None:
        await subscription.receive()
        raise ZeroDivisionError

    async def hang(subscription: Subscription[Event]) -> None:
        await subscription.receive()
        await trio.sleep_forever()

    async def read(subscription: Subscription[Event]) -> None:
        async for envelope in subscription:
            received.append(envelope.seq)
            if envelope.seq == 3:
                return

    with trio.fail_after(1):
        async with trio.open_nursery() as hanging:
            for _ in range(3):
                hanging.start_soon(hang, channel.subscribe(capacity=1))
            async with trio.open_nursery() as reading:
                reading.start_soon(read, channel.subscribe())
                with pytest.RaisesGroup(*[ZeroDivisionError] * 3):
                    async with trio.open_nursery() as crashing:
                        for _ in range(3):
                            crashing.start_soon(crash, channel.subscribe())
                        await wait_all_tasks_blocked()
                        channel.publish(Ping(1))
                channel.publish(Ping(2))
                channel.publish(Ping(3))
            hanging.cancel_scope.cancel()
    assert received == [1, 2, 3]


async def test_a_reader_that_publishes_reads_its_own_word(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    read: list[int] = []

    async def echo(subscription: Subscription[Event]) -> None:
        async for envelope in subscription:
            read.append(envelope.seq)
            if envelope.seq == 10:
                channel.end()
            else:
                channel.publish(Pong(envelope.seq))

    async with trio.open_nursery() as inner:
        inner.start_soon(echo, channel.subscribe())
        await wait_all_tasks_blocked()
        channel.publish(Ping())
    assert read == list(range(1, 11))


def test_the_instrument_counts_what_it_is_for() -> None:
    async def main() -> Steps:
        async def tick() -> None:
            await trio.lowlevel.checkpoint()

        with counting() as steps:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tick, name=READER)
                nursery.start_soon(tick, name="another")
        return steps

    steps = trio.run(main)
    assert (len(steps.woken), steps.steps) == (2, 2)
