"""Numbers too large and text that is no Unicode: no sink raises, and every event encodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from chain_stage import Stage, Token, tokens, until
from lying_stage import Actor, Reel, giving, picture

from trio_reactor.events import EventCodec
from trio_reactor.renewal import OpenFailed
from trio_reactor.renewal.events import RENEWAL_EVENTS, LifetimeShortened, OnAir, Replaced
from trio_reactor.renewal.source import (
    AudioFrame,
    Clip,
    ClipEnded,
    ClipFailed,
    ClipStarted,
    ClipUpdated,
    GoingAway,
    MediaLosses,
    SourceState,
)

HUGE = 10**400
"""An integer that no float can hold."""
BROKEN = "broken \ud800"
"""Text that cannot be encoded."""


class Seconds(float):
    """A float of somebody else's, as NumPy has."""


def stage(**renewal: Any) -> Stage:
    return Stage(renewal={"stable_after": 0.0, "cleanup_timeout": 2.0} | renewal)


def every_event_encodes(on: Stage) -> None:
    codec = EventCodec(*RENEWAL_EVENTS)
    for envelope in on.envelopes:
        assert codec.decode_json(codec.encode_json(envelope)) == envelope
        assert codec.decode_msgpack(codec.encode_msgpack(envelope)) == envelope


def notice(liar: Actor) -> None:
    liar.events[0].event(GoingAway(HUGE))


def picture_in_time(liar: Actor) -> None:
    liar.media[0].video(picture(time=HUGE))


def sound(liar: Actor) -> None:
    liar.media[0].audio(AudioFrame(bytes(4), 2, 2, 48_000, "s16", HUGE))


@pytest.mark.parametrize("push", [notice, picture_in_time, sound])
async def test_a_number_that_no_float_can_hold_costs_its_source_its_place_and_raises_nothing(
    autojump_clock: object, push: Callable[[Actor], None]
) -> None:
    on, liar = stage(), Actor("liar")
    async with on.open(giving(liar)):
        push(liar)
        await until(lambda: len(on.said(OnAir)) == 2)
    (lost,) = on.said(Replaced)
    assert (lost.old.id, lost.why) == ("liar", "contract-broken")
    every_event_encodes(on)


async def test_a_lifetime_that_no_float_can_hold_is_a_failed_open(autojump_clock: object) -> None:
    on, liar = stage(), Token("liar", HUGE)
    with pytest.raises(OpenFailed):
        async with on.open(tokens(liar)):
            raise AssertionError("it was opened")
    assert liar.closes == 1


@pytest.mark.parametrize("lifetime", [2**70, Seconds(60)])
async def test_whatever_number_a_lifetime_is_its_events_encode(
    autojump_clock: object, lifetime: float
) -> None:
    on = stage()
    async with on.open(tokens(Token("one", lifetime), Token("two"))):
        await trio.sleep(1)
    every_event_encodes(on)


async def test_whatever_number_a_notice_is_its_events_encode(autojump_clock: object) -> None:
    on, source = stage(), Actor("one")
    async with on.open(giving(source)):
        source.events[0].event(GoingAway(Seconds(50)))
        await until(lambda: bool(on.said(LifetimeShortened)))
    every_event_encodes(on)


async def test_an_identity_that_is_no_unicode_text_is_none(autojump_clock: object) -> None:
    on = stage()
    with pytest.raises(OpenFailed, match="identity"):
        async with on.open(tokens(Token(BROKEN))):
            raise AssertionError("it was opened")
    every_event_encodes(on)


@pytest.mark.parametrize(
    "event",
    [
        ClipUpdated(Clip(BROKEN, "queued")),
        ClipStarted(BROKEN),
        ClipEnded(BROKEN, 1),
        ClipFailed(BROKEN, "no"),
        ClipFailed("clip", BROKEN),
        GoingAway(50.0, BROKEN),
    ],
)
async def test_what_an_event_says_in_text_that_is_no_unicode_never_gets_into_ours(
    autojump_clock: object, event: Any
) -> None:
    on, liar = stage(), Actor("liar")
    async with on.open(giving(liar)):
        liar.events[0].event(event)
        await until(lambda: len(on.said(OnAir)) == 2)
    (lost,) = on.said(Replaced)
    assert lost.why == "contract-broken"
    every_event_encodes(on)


async def test_a_state_with_a_clip_whose_name_is_no_unicode_text_is_refused(
    autojump_clock: object,
) -> None:
    on, liar = stage(), Actor("liar")
    liar.told = SourceState((Clip(BROKEN, "queued"),))
    with pytest.raises(OpenFailed):
        async with on.open(giving(liar)):
            raise AssertionError("it was opened")
    every_event_encodes(on)


async def test_losses_of_more_than_64_bits_are_not_known(autojump_clock: object) -> None:
    class Boasting(Reel):
        def losses(self) -> Any:
            return MediaLosses(2**63, 2**70)

    class Liar(Actor):
        def reel(self) -> Any:
            return Boasting(1)

    on, liar = stage(), Liar("liar")
    async with on.open(giving(liar)):
        liar.events[0].lost(None)
        await until(lambda: len(on.said(OnAir)) == 2)
    assert on.said(Replaced)[0].tail.frames_dropped is None
    every_event_encodes(on)
