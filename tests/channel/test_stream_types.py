"""Subscribing by type: what is received, and what is no type to subscribe to."""

from __future__ import annotations

import contextlib
from typing import Generic, TypeVar

import pytest
import trio
from stream_story import Loud, Ping, Pong
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.events import Event

T = TypeVar("T")


class Changed(Event, Generic[T]):
    to: T


async def test_a_type_takes_its_subclasses_too_and_nothing_else() -> None:
    channel = EventChannel()
    here = channel.publisher("here")
    cases: list[tuple[Subscription[Event], list[int]]] = [
        (channel.subscribe(), [1, 2, 3, 4]),
        (channel.subscribe(Event), [1, 2, 3, 4]),
        (channel.subscribe(Ping), [1, 2]),
        (channel.subscribe(Loud), [2]),
        (channel.subscribe(Pong), [3]),
        (channel.subscribe(Loud, Pong), [2, 3]),
        (channel.subscribe(Pong, Loud), [2, 3]),
        (channel.subscribe(Pong, Event), [1, 2, 3, 4]),
        (channel.subscribe(Changed), [4]),
        (here.subscribe(), [2, 4]),
        (here.subscribe(Ping), [2]),
        (here.subscribe(Event, Pong), [2, 4]),
    ]
    channel.publish(Ping())
    here.publish(Loud())
    channel.publish(Pong(), handle="there")
    here.publish(Changed(3))
    for number, (subscription, expected) in enumerate(cases):
        batch = await subscription.receive_batch()
        assert [envelope.seq for envelope in batch] == expected, number


async def test_a_class_that_is_made_later_is_recognised(nursery: trio.Nursery) -> None:
    channel = EventChannel()
    subscription = channel.subscribe(Ping)
    received: list[Event] = []

    async def read() -> None:
        received.extend([envelope.event async for envelope in subscription])

    nursery.start_soon(read)
    await wait_all_tasks_blocked()

    class Late(Ping):
        pass

    channel.publish(Pong())
    channel.publish(Late(1))
    channel.end()
    await wait_all_tasks_blocked()
    assert received == [Late(1)]


@pytest.mark.parametrize("wrong", [Changed[int], int, "Ping", Ping(), None])
async def test_what_is_no_class_of_events_is_refused_where_it_is_subscribed_to(
    wrong: type[Event],
) -> None:
    """If it were found out later, it would be by an innocent reader, or by who publishes."""
    channel = EventChannel()
    for owner in (channel, channel.publisher("it")):
        with pytest.raises(TypeError):
            owner.subscribe(wrong)
        with pytest.raises(TypeError):
            owner.subscribe(Ping, wrong)
        with pytest.raises(TypeError), owner.observe(lambda: 1, wrong):
            raise AssertionError
    assert channel.statistics().subscriptions == 0


async def test_a_reader_with_a_filter_that_cannot_be_asked_harms_nobody_else() -> None:
    """The wrong filter is refused, or hurts the one who has it; everybody else reads on."""
    channel = EventChannel()
    received: list[int] = []

    async def read_wrong() -> None:
        with contextlib.suppress(TypeError):
            await channel.subscribe(Changed[int]).receive()

    async def read(subscription: Subscription[Event]) -> None:
        received.append((await subscription.receive()).seq)

    for wrong_first in (True, False):
        received.clear()
        async with trio.open_nursery() as nursery:
            if wrong_first:
                nursery.start_soon(read_wrong)
                await wait_all_tasks_blocked()
            for _ in range(3):
                nursery.start_soon(read, channel.subscribe())
                nursery.start_soon(read, channel.subscribe(Ping))
            await wait_all_tasks_blocked()
            nursery.start_soon(read_wrong)
            await wait_all_tasks_blocked()
            seq = channel.publish(Ping())
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert received == [seq] * 6
