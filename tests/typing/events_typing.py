"""What the type checkers know of events and channels; checked by `make check`, never run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import assert_type

import trio

from trio_reactor.channel import EventChannel, Publisher, Subscription
from trio_reactor.events import Envelope, Event, EventCodec


class A(Event, frozen=True):
    a: int


class B(Event, frozen=True):
    b: str


class C(Event, frozen=True):
    c: float


class D(Event, frozen=True):
    pass


class E(Event, frozen=True):
    pass


class F(Event, frozen=True):
    pass


class G(Event, frozen=True):
    pass


class H(Event, frozen=True):
    pass


class I(Event, frozen=True):  # noqa: E742 - one more than there are overloads for
    pass


def subscribing_by_class_narrows(channel: EventChannel, publisher: Publisher) -> None:
    assert_type(channel.subscribe(), Subscription[Event])
    assert_type(channel.subscribe(A), Subscription[A])
    assert_type(channel.subscribe(A, B), Subscription[A | B])
    assert_type(channel.subscribe(A, B, C), Subscription[A | B | C])
    assert_type(channel.subscribe(A, B, C, D), Subscription[A | B | C | D])
    assert_type(channel.subscribe(A, B, C, D, E), Subscription[A | B | C | D | E])
    assert_type(channel.subscribe(A, B, C, D, E, F), Subscription[A | B | C | D | E | F])
    assert_type(channel.subscribe(A, B, C, D, E, F, G), Subscription[A | B | C | D | E | F | G])
    assert_type(
        channel.subscribe(A, B, C, D, E, F, G, H), Subscription[A | B | C | D | E | F | G | H]
    )
    assert_type(channel.subscribe(A, B, C, D, E, F, G, H, I), Subscription[Event])
    assert_type(channel.subscribe(A, B, capacity=7), Subscription[A | B])
    assert_type(publisher.subscribe(A, B, capacity=7), Subscription[A | B])
    assert_type(publisher.subscribe(), Subscription[Event])
    assert_type(channel.publisher("it"), Publisher)
    assert_type(publisher.channel, EventChannel)


def subscribing_to_what_is_chosen_later_does_not(
    channel: EventChannel, chosen: list[type[Event]]
) -> None:
    assert_type(channel.subscribe(*chosen), Subscription[Event])


async def what_is_received_is_narrowed(channel: EventChannel) -> None:
    async with channel.subscribe(A, B) as subscription:
        assert_type(await subscription.receive(), Envelope[A | B])
        assert_type(subscription.receive_nowait(), Envelope[A | B])
        assert_type(await subscription.receive_batch(limit=3), list[Envelope[A | B]])
        async for envelope in subscription:
            match envelope.event:
                case A(a=number):
                    assert_type(number, int)
                case B() as event:
                    assert_type(event.b, str)
    with channel.subscribe(A) as only:
        assert_type((await only.receive()).event.a, int)


def observing_pairs_the_state_with_what_follows(channel: EventChannel, it: Publisher) -> None:
    with channel.observe(lambda: 3, A, B, capacity=9) as (state, subscription):
        assert_type(state, int)
        assert_type(subscription, Subscription[A | B])
    with it.observe(lambda: "state") as (text, everything):
        assert_type(text, str)
        assert_type(everything, Subscription[Event])
    assert_type(
        channel.observe(lambda: 3, A, B, C, D, E, F, G, H),
        AbstractContextManager[tuple[int, Subscription[A | B | C | D | E | F | G | H]]],
    )
    assert_type(
        channel.observe(lambda: 3, A, B, C, D, E, F, G, H, I),
        AbstractContextManager[tuple[int, Subscription[Event]]],
    )


def a_narrower_one_stands_for_a_wider_one(narrow: Subscription[A]) -> None:
    wider: Subscription[A | B] = narrow
    widest: Subscription[Event] = wider
    receiving: trio.abc.ReceiveChannel[Envelope[Event]] = widest
    print(receiving)


def what_is_no_event_is_refused(channel: EventChannel) -> None:
    channel.subscribe(int)  # type: ignore[type-var]  # pyright: ignore[reportCallIssue, reportArgumentType]
    channel.subscribe(A | B)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    channel.publish(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    A(1).a = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def a_bare_envelope_is_one_of_any_event(bare: Envelope, codec: EventCodec) -> None:
    assert_type(bare.event, Event)
    assert_type(codec.decode_json(codec.encode_json(bare)), Envelope[Event])
    assert_type(codec.decode_msgpack(b""), Envelope[Event])
