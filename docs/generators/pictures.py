"""Pictures for the pages: timelines of real renewals, played when the site is built.

Each plays on a virtual clock with simulated sources and everything seeded, so it takes a moment and
shows what the library does, not what somebody once drew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

import trio
from trio.testing import MockClock

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import ReactorError
from trio_reactor.events import Event
from trio_reactor.renewal import ClipRequest, Renewal, RenewalOptions, open_renewal
from trio_reactor.renewal.simulation import (
    SimulatedProvider,
    SimulatedSource,
    SimulationOptions,
)
from trio_reactor.renewal.timeline import renewal_timeline
from trio_reactor.timeline import TimelineBuilder, render_svg
from trio_reactor.world import SeededWorld

__all__ = ["PICTURES", "one_session", "two_sessions"]

SCENE: Final = 5.0
"""Seconds that a clip plays."""
FRAME_RATE: Final = 10.0
MAX_EVENTS: Final = 4096
"""Events that the one who draws may be behind."""


def one_session() -> str:
    """Sources of a minute each: planned handovers, a connection that is made again, a death."""
    timeline = renewal_timeline(
        "One session out of many",
        description="Sources that live 60 s each. At 70 s a connection breaks, at 125 s one dies",
    )
    trio.run(_one_session, timeline, clock=MockClock(autojump_threshold=0))
    return render_svg(timeline.build())


def two_sessions() -> str:
    """Two renewals of one application, on one channel."""
    timeline = renewal_timeline(
        "Two renewals, one channel",
        description="The stage's sources live 60 s, the lobby's 40 s",
    )
    trio.run(_two_sessions, timeline, clock=MockClock(autojump_threshold=0))
    return render_svg(timeline.build())


PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "guide/one-session.svg": one_session,
    "guide/two-sessions.svg": two_sessions,
}
"""What is drawn, by where it stands in the site."""


class _Application:
    """A channel, and providers of one world."""

    def __init__(self) -> None:
        self.world = SeededWorld(1)
        self.channel = EventChannel(world=self.world)

    def provider(self, lifetime: float) -> SimulatedProvider:
        return SimulatedProvider(
            self.world,
            SimulationOptions(
                lifetime=lifetime,
                sound=False,
                frame_rate=FRAME_RATE,
                open_delay=3.0,
                reconnect_delay=2.0,
            ),
        )

    def open(self, name: str, provider: SimulatedProvider) -> AbstractAsyncContextManager[Renewal]:
        return open_renewal(
            provider,
            options=RenewalOptions(lead=20.0, jitter=0.0),
            events=self.channel,
            world=self.world,
            name=name,
        )


async def _one_session(timeline: TimelineBuilder) -> None:
    application = _Application()
    provider = application.provider(60.0)
    async with trio.open_nursery() as drawing:
        drawing.start_soon(_draw, timeline, application.channel.subscribe(capacity=MAX_EVENTS))
        async with (
            application.open("session", provider) as renewal,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_play, renewal)
            await trio.sleep_until(70.0)
            _source_on_air(renewal, provider).lose_connection(OSError("the line broke"))
            await trio.sleep_until(125.0)
            _source_on_air(renewal, provider).die()
            await trio.sleep_until(180.0)
            nursery.cancel_scope.cancel()
        application.channel.end()


async def _two_sessions(timeline: TimelineBuilder) -> None:
    application = _Application()
    async with trio.open_nursery() as drawing:
        drawing.start_soon(_draw, timeline, application.channel.subscribe(capacity=MAX_EVENTS))
        async with (
            application.open("stage", application.provider(60.0)) as stage,
            application.open("lobby", application.provider(40.0)) as lobby,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_play, stage)
            nursery.start_soon(_play, lobby)
            await trio.sleep_until(100.0)
            nursery.cancel_scope.cancel()
        application.channel.end()


def _source_on_air(renewal: Renewal, provider: SimulatedProvider) -> SimulatedSource:
    status = renewal.state.on_air
    if status is None or status.source.id is None:
        raise RuntimeError("nothing is on air at this moment, so the picture has no subject")
    return provider.live[status.source.id]


async def _draw(timeline: TimelineBuilder, events: Subscription[Event]) -> None:
    async for envelope in events:
        timeline.feed(envelope)


async def _play(renewal: Renewal) -> None:
    """Keep a session playing, with a clip ahead."""

    async def watch() -> None:
        async for _ in renewal.video:
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        while True:
            try:
                await renewal.enqueue(ClipRequest({"frames": int(SCENE * FRAME_RATE)}))
            except ReactorError as failure:
                if not failure.retryable:
                    raise
            await trio.sleep(SCENE)
