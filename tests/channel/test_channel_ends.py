"""How a subscription comes to its end: it falls behind, the channel ends or fails, it is closed."""

from __future__ import annotations

import pytest
import trio
from channel_story import CountingWorld, Said, Sung, numbers
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel
from trio_reactor.errors import Busy, Closed, Failed, Overflow, ReactorError

# --------------------------------------------------------------------------------- falling behind


async def test_falling_behind_fails_at_once_with_the_exact_number_and_alone() -> None:
    channel = EventChannel()
    with channel.subscribe(capacity=3) as slow, channel.subscribe(capacity=100) as other:
        channel.publish(Said(0))
        await slow.receive()
        for number in range(1, 4):
            channel.publish(Said(number))
        assert slow.statistics().behind == 3  # as far as it may be
        channel.publish(Said(4))
        for receive in (slow.receive, slow.receive_batch):
            with pytest.raises(Overflow) as caught:
                await receive()
            assert caught.value.missed == 4
        assert numbers(await other.receive_batch()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("capacity", [1, 7, 32, 33])
async def test_it_may_be_as_far_behind_as_its_capacity_wherever_it_stands(capacity: int) -> None:
    for had in range(70):
        channel = EventChannel(world=CountingWorld())
        subscription = channel.subscribe(capacity=capacity)
        for number in range(had):
            channel.publish(Said(number))
            subscription.receive_nowait()
        for number in range(capacity):
            channel.publish(Said(number))
        assert numbers(await subscription.receive_batch()) == list(range(capacity))


async def test_it_has_failed_for_good_and_misses_no_more() -> None:
    channel = EventChannel()
    subscription = channel.subscribe(capacity=1)
    for number in range(3):
        channel.publish(Said(number))
    assert subscription.statistics().missed == 3
    channel.publish(Said(3))
    with pytest.raises(Overflow) as caught:
        subscription.receive_nowait()
    assert caught.value.missed == 3
    channel.end()
    with pytest.raises(Overflow):  # not the end of the channel
        await subscription.receive()


async def test_an_overflow_is_a_broken_resource_and_says_what_to_do() -> None:
    channel = EventChannel()
    subscription = channel.subscribe(capacity=1)
    channel.publish(Said(1))
    channel.publish(Said(2))
    with pytest.raises(trio.BrokenResourceError, match="observe again") as caught:
        await subscription.receive()
    assert isinstance(caught.value, ReactorError)
    assert caught.value.outcome == "not-submitted"


async def test_a_burst_in_one_step_longer_than_the_capacity_fails_even_a_waiting_reader(
    nursery: trio.Nursery,
) -> None:
    channel = EventChannel()
    missed: list[int] = []

    async def read(capacity: int) -> None:
        with channel.subscribe(capacity=capacity) as subscription:
            try:
                missed.append(-len(await subscription.receive_batch()))
            except Overflow as overflow:
                missed.append(overflow.missed)

    for capacity in (4, 5, 6):
        nursery.start_soon(read, capacity)
    await wait_all_tasks_blocked()
    for number in range(5):
        channel.publish(Said(number))
    await wait_all_tasks_blocked()
    assert sorted(missed) == [-5, -5, 5]


async def test_so_does_a_burst_of_what_its_filter_hides(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    missed: list[int] = []

    async def read(capacity: int) -> None:
        with channel.subscribe(Said, capacity=capacity) as subscription:
            try:
                await subscription.receive()
            except Overflow as overflow:
                missed.append(overflow.missed)

    for capacity in (3, 4, 5, 6, 7):
        nursery.start_soon(read, capacity)
    await wait_all_tasks_blocked()
    for number in range(5):
        channel.publish(Sung(number))
    await wait_all_tasks_blocked()
    assert missed == [5, 5]
    assert channel.statistics().waiting == 3
    nursery.cancel_scope.cancel()


async def test_a_reader_that_hangs_or_raises_delays_nobody(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    got: list[int] = []

    async def hang() -> None:
        with channel.subscribe(capacity=2) as subscription:
            await subscription.receive()
            await trio.sleep_forever()

    async def crash() -> None:
        with channel.subscribe() as subscription:
            await subscription.receive()
            raise OSError

    async def read() -> None:
        with channel.subscribe(capacity=2) as subscription:
            while True:
                got.extend(numbers(await subscription.receive_batch()))

    with pytest.RaisesGroup(OSError):
        async with trio.open_nursery() as inner:
            inner.start_soon(hang)
            nursery.start_soon(read)
            inner.start_soon(crash)
            await wait_all_tasks_blocked()
            for number in range(10):
                channel.publish(Said(number))
                with trio.CancelScope(shield=True):
                    await wait_all_tasks_blocked()
                assert got == list(range(number + 1))
    nursery.cancel_scope.cancel()


# ------------------------------------------------------------------------------- ending, failing


async def test_ending_delivers_what_was_published_and_then_ends() -> None:
    channel = EventChannel()
    one, batch = channel.subscribe(), channel.subscribe()
    channel.publish(Said(1))
    channel.publish(Said(2))
    channel.end()
    assert numbers([await one.receive(), one.receive_nowait()]) == [1, 2]
    assert numbers(await batch.receive_batch()) == [1, 2]
    for subscription in (one, batch):
        for receive in (subscription.receive, subscription.receive_batch):
            with pytest.raises(trio.EndOfChannel):
                await receive()
        with pytest.raises(trio.EndOfChannel):
            subscription.receive_nowait()


async def test_failing_delivers_what_was_published_and_then_raises_a_fresh_failure() -> None:
    channel = EventChannel()
    original = OSError("the disk is on fire")
    subscriptions = [channel.subscribe() for _ in range(2)]
    channel.publish(Said(1))
    channel.fail(original)
    raised: list[Failed] = []
    for subscription in subscriptions:
        assert (await subscription.receive()).event == Said(1)
        for _ in range(2):
            with pytest.raises(Failed) as caught:
                await subscription.receive()
            raised.append(caught.value)
    assert all(failed.__cause__ is original for failed in raised)
    assert len({id(failed) for failed in raised}) == 4
    assert original.__traceback__ is None
    assert "fire" not in str(raised[0])  # foreign words stay in the cause


async def test_nothing_can_be_published_after_the_end_or_a_failure() -> None:
    ended, failed = EventChannel(), EventChannel()
    original = OSError()
    ended.end()
    failed.fail(original)
    with pytest.raises(Closed):
        ended.publish(Said(1))
    raised = []
    for _ in range(2):
        with pytest.raises(Failed) as caught:
            failed.publish(Said(1))
        raised.append(caught.value)
    assert [failure.__cause__ for failure in raised] == [original, original]
    assert raised[0] is not raised[1]


async def test_the_first_end_or_failure_stays() -> None:
    ended, failed = EventChannel(), EventChannel()
    ended.end()
    ended.fail(OSError())
    failed.fail(OSError())
    failed.end()
    with pytest.raises(trio.EndOfChannel):
        await ended.subscribe().receive()
    with pytest.raises(Failed):
        await failed.subscribe().receive()


async def test_who_subscribes_after_the_end_is_told_of_it() -> None:
    channel = EventChannel()
    channel.publish(Said(1))
    channel.fail(OSError())
    with channel.subscribe() as subscription, pytest.raises(Failed):
        await subscription.receive()


# ---------------------------------------------------------------------------------------- closing


async def test_closing_wakes_the_reader_that_sleeps(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    subscription = channel.subscribe()

    async def close() -> None:
        await wait_all_tasks_blocked()
        subscription.close()

    nursery.start_soon(close)
    with pytest.raises(trio.ClosedResourceError):
        await subscription.receive()


async def test_closing_while_a_ready_event_is_on_its_way_raises_too(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    channel.publish(Said(1))
    raised: list[Closed] = []

    async def read() -> None:
        with pytest.raises(Closed) as caught:
            await subscription.receive()
        raised.append(caught.value)

    class CloseInBetween(trio.abc.Instrument):
        """Closes it when its reader goes on from the checkpoint."""

        steps = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.steps += task.coro.cr_code is read.__code__
            if self.steps == 2:
                subscription.close()

    trio.lowlevel.add_instrument(CloseInBetween())
    nursery.start_soon(read)
    await wait_all_tasks_blocked()
    assert len(raised) == 1


async def test_closing_is_idempotent_and_what_is_left_is_gone() -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    channel.publish(Said(1))
    subscription.close()
    subscription.close()
    await subscription.aclose()
    channel.fail(OSError())
    with pytest.raises(Closed):
        await subscription.receive_batch()


async def test_a_cancelled_aclose_has_closed_it() -> None:
    subscription = EventChannel().subscribe()
    with trio.CancelScope() as scope:
        scope.cancel()
        await subscription.aclose()
    with pytest.raises(Closed):
        subscription.receive_nowait()


async def test_one_reader_at_a_time(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    subscription = channel.subscribe()
    nursery.start_soon(subscription.receive)
    await wait_all_tasks_blocked()
    for receive in (subscription.receive, subscription.receive_batch):
        with pytest.raises(trio.BusyResourceError):
            await receive()
    with pytest.raises(Busy):
        subscription.receive_nowait()
    channel.publish(Said(1))
    channel.publish(Said(2))
    with pytest.raises(Busy):  # it has been woken, but has not run
        subscription.receive_nowait()
    await wait_all_tasks_blocked()
    assert subscription.receive_nowait().event == Said(2)
