"""What the type checkers know of a renewal; checked by `make check`, never run."""

from __future__ import annotations

from typing import assert_type

from trio_reactor import Event, Subscription
from trio_reactor.renewal import (
    Accepted,
    AudioFrame,
    ClipRequest,
    Pressure,
    RenewalReport,
    RenewalState,
    SourceOpener,
    VideoFrame,
    open_renewal,
)
from trio_reactor.renewal.events import HandedOver, OnAir


async def session(opener: SourceOpener) -> None:
    async with open_renewal(opener, name="tv") as renewal:
        assert_type(await renewal.enqueue(ClipRequest({"scene": 1})), Accepted)
        assert_type(await renewal.video.receive(), VideoFrame)
        assert_type(await renewal.audio.receive(), AudioFrame)
        assert_type(renewal.pressure(), Pressure)
        with renewal.observe(HandedOver, OnAir) as (state, subscription):
            assert_type(state, RenewalState)
            assert_type(subscription, Subscription[HandedOver | OnAir])
            assert_type((await subscription.receive()).event, HandedOver | OnAir)
        with renewal.observe() as (_, everything):
            assert_type(everything, Subscription[Event])
        assert_type(await renewal.close(), RenewalReport)
        assert_type(renewal.report, RenewalReport | None)
