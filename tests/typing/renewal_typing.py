"""What the type checkers know of a renewal; checked by `make check`, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import assert_type

from trio_reactor import Event, Subscription
from trio_reactor.renewal import (
    Accepted,
    AudioFrame,
    Borrow,
    Cleanup,
    ClipRequest,
    Predecessor,
    Pressure,
    Renewal,
    RenewalReport,
    RenewalState,
    RenewalStatistics,
    Source,
    SourceOpener,
    VideoFrame,
    open_renewal,
)
from trio_reactor.renewal.events import HandedOver, OnAir, SourceRef
from trio_reactor.renewal.simulation import SimulatedProvider, SimulatedSource
from trio_reactor.renewal.websocket import WebSocketSource, websocket_source
from trio_reactor.world import World


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


class Line:
    """A source with something of its own."""

    id = "line"
    lifetime = None

    async def close(self) -> Cleanup:
        return Cleanup.of(self.id, allocation="owned", termination="confirmed", connection="closed")

    async def ask(self, question: str) -> str:
        return question


@asynccontextmanager
async def line(_: Predecessor) -> AsyncGenerator[Line]:
    yield Line()


async def lent(renewal: Renewal[Line], bare: Renewal) -> None:
    async with renewal.borrow() as source:
        assert_type(source, Line)
        assert_type(await source.ask("what"), str)
    async with bare.borrow() as plain:
        assert_type(plain, Source)
    assert_type(renewal.borrow(), Borrow[Line])
    assert_type(await renewal.renew("a new credential"), SourceRef)
    assert_type(renewal.statistics(), RenewalStatistics)
    await renewal.send_input(b"sound")


async def well(source: Line) -> None:
    await source.ask("are you")


async def kinds(any_kind: SourceOpener, own: SourceOpener[Line]) -> None:
    async with open_renewal(any_kind) as renewal:
        assert_type(renewal, Renewal[Source])
    async with open_renewal(own, check=well) as of_its_own:
        assert_type(of_its_own, Renewal[Line])
    async with open_renewal(line) as given:
        assert_type(given, Renewal[Line])
    await kinds(line, line)


async def shipped(world: World) -> None:
    async with open_renewal(websocket_source("ws://localhost")) as remote:
        assert_type(remote, Renewal[WebSocketSource])
        async with remote.borrow() as source:
            assert_type(source, WebSocketSource)
    async with open_renewal(SimulatedProvider(world)) as simulated:
        assert_type(simulated, Renewal[SimulatedSource])


def bare(renewal: Renewal, own: Renewal[Line]) -> Renewal:
    assert_type(renewal, Renewal[Source])
    return own
