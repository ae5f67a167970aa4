"""What it publishes, in which step, and how observing it ends."""

from __future__ import annotations

import logging

import pytest
import trio
from owner_story import Adapter, Thing, caught, opened
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Publisher, Subscription
from trio_reactor.errors import Failed
from trio_reactor.events import Envelope, Event, EventCodec
from trio_reactor.owner import (
    AttemptEnded,
    AttemptHeld,
    OwnerClosed,
    OwnerFailed,
    open_owner,
)

CODEC = EventCodec(AttemptHeld, AttemptEnded, OwnerFailed, OwnerClosed)


class Said(Event, frozen=True):
    words: str


async def told(subscription: Subscription[Event]) -> list[Event]:
    """Everything that was published, to the end."""
    return [envelope.event async for envelope in subscription]


async def test_it_tells_what_becomes_of_each_attempt_and_then_ends(
    autojump_clock: MockClock,
) -> None:
    channel = EventChannel()
    publisher = channel.publisher("pool")
    with publisher.subscribe() as subscription:
        async with open_owner(events=publisher) as owner:
            await owner.retire(await owner.acquire(Thing, name="one"))
            with caught():
                await owner.acquire(opened(Thing(refuses=OSError("foreign"))), name="two")
            expiring = owner.start(Thing, name="three", lifetime=1)
            await expiring.wait_ended()
            await owner.acquire(Thing, name="four")
        events = await told(subscription)
    held = [event for event in events if isinstance(event, AttemptHeld)]
    ended = [event for event in events if isinstance(event, AttemptEnded)]
    assert [event.attempt for event in held] == ["one", "three", "four"]
    assert [(event.attempt, event.reason) for event in ended] == [
        ("one", "retired"),
        ("two", "failed"),
        ("three", "expired"),
        ("four", "closed"),
    ]
    failure = ended[1].failure
    assert failure is not None
    assert (failure.type, failure.detail) == ("OSError", "foreign")
    assert events[-1] == OwnerClosed("its block was left")
    assert channel.statistics().published == len(events) == 8


async def test_what_opened_only_to_be_closed_was_never_held(autojump_clock: MockClock) -> None:
    publisher = EventChannel().publisher("pool")
    with publisher.subscribe() as subscription:
        async with open_owner(events=publisher) as owner:
            owner.start(opened(Thing(opening=1, hardy=True)), name="late")
            await wait_all_tasks_blocked()
        events = await told(subscription)
    assert events == [AttemptEnded("late", "closed", None), OwnerClosed("its block was left")]


async def test_failed_is_published_in_the_claiming_step_before_any_waiter_runs() -> None:
    publisher = EventChannel().publisher("pool")
    crash = Adapter("foreign words")
    seen: list[str] = []

    async def watch_the_fence() -> None:
        await owner.stopping.wait()
        seen.append("fence")
        assert published() == 1

    def published() -> int:
        return publisher.statistics().published

    subscription = publisher.subscribe()
    with caught() as leaving:
        async with open_owner(events=publisher) as owner:
            owner.start_soon(watch_the_fence)
            await wait_all_tasks_blocked()
            owner.on_failed(lambda failure: seen.append(f"callback {published()}"))
            owner.fail(crash)
            assert published() == 1
            assert publisher.ended
            await trio.sleep_forever()
    assert seen == ["callback 0", "fence"]
    assert leaving.error is crash
    with subscription:
        envelope = await subscription.receive()
        assert isinstance(envelope.event, OwnerFailed)
        assert envelope.event.failure.type == "Adapter"
        with pytest.raises(Failed) as failed:
            await subscription.receive()
        assert failed.value.__cause__ is crash


async def test_readers_of_a_failed_owner_each_get_a_failed_of_their_own() -> None:
    publisher = EventChannel().publisher("pool")
    crash = Adapter()
    errors: list[BaseException | None] = []

    async def read(subscription: Subscription[Event]) -> None:
        with caught() as reading, subscription:
            await told(subscription)
        errors.append(reading.error)

    with caught():
        async with trio.open_nursery() as readers, open_owner(events=publisher) as owner:
            for _ in range(3):
                readers.start_soon(read, publisher.subscribe())
            await wait_all_tasks_blocked()
            owner.fail(crash)
            with trio.CancelScope(shield=True):
                await wait_all_tasks_blocked()
    assert len({id(error) for error in errors}) == 3
    for error in errors:
        assert isinstance(error, Failed)
        assert error.__cause__ is crash


async def test_an_applications_channel_ends_with_no_owner() -> None:
    channel = EventChannel()
    with channel.subscribe() as everything:
        async with open_owner(events=channel.publisher("first")) as owner:
            await owner.acquire(Thing)
        with caught():
            async with open_owner(events=channel.publisher("second")) as owner:
                owner.fail(Adapter())
        channel.publish(Said("still here"))
        channel.end()
        envelopes = [envelope async for envelope in everything]
    assert [envelope.handle for envelope in envelopes] == ["first"] * 3 + ["second", ""]
    assert envelopes[-1].event == Said("still here")


async def test_an_application_that_ended_its_channel_breaks_no_owner() -> None:
    channel = EventChannel()
    async with open_owner(events=channel.publisher("pool")) as owner:
        first = await owner.acquire(Thing)
        channel.end()
        await owner.acquire(Thing)
        await owner.retire(first)
    assert owner.report is not None
    assert owner.report.failures == ()
    channel = EventChannel()
    crash = Adapter()
    with caught() as leaving:
        async with open_owner(events=channel.publisher("pool")) as owner:
            channel.fail(OSError())
            owner.fail(crash)
    assert leaving.error is crash


async def test_a_name_that_no_event_can_carry_is_a_defect_and_breaks_nothing() -> None:
    publisher = EventChannel().publisher("pool")
    with caught() as leaving:
        async with open_owner(events=publisher) as owner:
            attempt = await owner.acquire(Thing, name="lone \ud800 surrogate")
            assert attempt.held
    assert [type(leaf) for leaf in leaving.leaves] == [ValueError, ValueError]
    assert attempt.phase == "ended"


async def test_an_exception_that_cannot_be_put_into_words_hinders_no_close() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

        __repr__ = __str__

    publisher = EventChannel().publisher("pool")
    with caught() as leaving:
        async with open_owner(events=publisher) as owner:
            owner.start(opened(Thing(refuses=Unspeakable())))
            await wait_all_tasks_blocked()
    assert [type(leaf) for leaf in leaving.leaves] == [Unspeakable]
    assert owner.report is not None


async def test_its_state_and_its_events_can_be_observed_without_a_gap() -> None:
    publisher = EventChannel().publisher("pool")
    async with open_owner(events=publisher) as owner:
        await owner.acquire(Thing)
        with publisher.observe(owner.statistics, AttemptHeld) as (state, subscription):
            assert state.held == 1
            await owner.acquire(Thing, name="second")
            assert (await subscription.receive()).event == AttemptHeld("second")


async def test_its_events_and_its_report_go_over_a_wire_and_come_back_equal() -> None:
    channel = EventChannel()
    publisher = channel.publisher("pool")
    envelopes: list[Envelope[Event]] = []
    with channel.subscribe() as everything:
        with caught():
            async with open_owner(events=publisher) as owner:
                await owner.acquire(Thing)
                owner.start(opened(Thing(refuses=OSError())))
                await wait_all_tasks_blocked()
                owner.fail(Adapter())
        channel.end()
        envelopes.extend([envelope async for envelope in everything])
    assert {type(envelope.event) for envelope in envelopes} >= {AttemptHeld, OwnerFailed}
    for envelope in envelopes:
        assert CODEC.decode_json(CODEC.encode_json(envelope)) == envelope
        assert CODEC.decode_msgpack(CODEC.encode_msgpack(envelope)) == envelope


async def test_closed_is_told_before_any_closer_runs_and_its_callback_has_the_report() -> None:
    publisher = EventChannel().publisher("pool")
    seen: list[str] = []
    async with open_owner(events=publisher) as owner:
        owner.on_closed(lambda report: seen.append(f"callback {report is owner.report}"))
        await owner.close()
        seen.append(f"closer {publisher.ended}")
    assert seen == ["callback True", "closer True"]


async def test_a_callback_at_the_end_that_raises_is_told_by_close() -> None:
    defect = Adapter()

    def stumble(_: object) -> None:
        raise defect

    with caught() as leaving:
        async with open_owner() as owner:
            owner.on_closed(stumble)
    assert leaving.leaves == [defect]


async def test_nothing_of_a_providers_words_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "trio_reactor")
    with caught():
        async with open_owner() as owner:
            owner.start(opened(Thing(complains=OSError("secret"))))
            await wait_all_tasks_blocked()
            owner.fail(Adapter("secret"))
    assert caplog.records
    assert "secret" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.INFO]


async def test_without_a_channel_nothing_is_published() -> None:
    publisher: Publisher | None = None
    async with open_owner(events=publisher) as owner:
        await owner.acquire(Thing)
    assert owner.events is None
