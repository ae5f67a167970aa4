"""What a viewer sees of the ends of sessions, over real sockets: renewed, and the usual way.

A server on this machine plays a film in sessions that live a few seconds; opening one and building
its first clip take a second together.  Two viewers watch at the same time.  One has the next
session prepared before the last one ends.  The other does the usual thing: it plays until its
session is cut off, and then opens another.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import trio

from examples.film_server.film import RATE, Film
from examples.film_server.options import Faults, FilmServerOptions
from examples.film_server.server import FilmServer
from trio_reactor.errors import ReactorError
from trio_reactor.renewal import ClipRequest, Renewal, RenewalOptions, open_renewal
from trio_reactor.renewal.events import (
    ClipChanged,
    OnAir,
    Prepared,
    Replaced,
)
from trio_reactor.renewal.source import (
    AudioFrame,
    Predecessor,
    SourceEvent,
    SourceOpener,
    VideoFrame,
)
from trio_reactor.renewal.websocket import WebSocketSource, websocket_source

from .harness import Benchmark

FRAME_RATE: Final = 25
OPEN: Final = 0.5
BUILD: Final = 0.5
"""Seconds; with `OPEN` they make the second that a session takes until it shows anything."""
LIFETIME: Final = 3.6
LEAD: Final = 2.8
SCENE: Final = ClipRequest({"scene": {"start": 0, "frames": FRAME_RATE}})
AHEAD: Final = 2
"""How many scenes, of a second each, a source is given ahead."""
HANDOVERS: Final = 2


def _film() -> Film:
    width, height = 64, 48
    size = width * height * 3 // 2
    pictures = tuple(bytes([number]) * size for number in range(FRAME_RATE))
    return Film(width, height, Fraction(FRAME_RATE), pictures, bytes(RATE * 4))


class _Viewer:
    """Notes the longest gap between any two pictures."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.enough = trio.Event()
        """Set once it has seen the last session that is needed."""
        self._sources: set[str] = set()
        self._last: float | None = None

    @property
    def excess(self) -> float:
        """Seconds by which the longest gap is longer than a picture lasts."""
        return max(0.0, self.longest - 1 / FRAME_RATE)

    def see(self, source: str) -> None:
        now = trio.current_time()
        if self._last is not None:
            self.longest = max(self.longest, now - self._last)
        self._last = now
        self._sources.add(source)
        if len(self._sources) > HANDOVERS:
            self.enough.set()


# ----------------------------------------------------------------------------------------- renewed


async def _renewed(opener: SourceOpener, viewer: _Viewer) -> None:
    """Watch a renewal over some handovers, each of them at a boundary."""
    options = RenewalOptions(lead=LEAD, jitter=0.0)
    async with open_renewal(opener, options=options) as renewal, trio.open_nursery() as nursery:
        nursery.start_soon(_watch, renewal, viewer)
        nursery.start_soon(_listen, renewal)
        nursery.start_soon(_feed_renewal, renewal)
        await viewer.enough.wait()
        nursery.cancel_scope.cancel()


async def _feed_renewal(renewal: Renewal) -> None:
    """Keep the source that takes work some scenes ahead."""
    with renewal.observe(Prepared, OnAir, ClipChanged, Replaced) as (_, events):
        await _keep_ahead(renewal)
        async for envelope in events:
            assert not isinstance(envelope.event, Replaced), "a session was lost, not renewed"
            await _keep_ahead(renewal)


async def _watch(renewal: Renewal, viewer: _Viewer) -> None:
    async for _ in renewal.video:
        source = renewal.state.on_air
        viewer.see("" if source is None or source.source.id is None else source.source.id)


async def _listen(renewal: Renewal) -> None:
    async for _ in renewal.audio:
        pass


async def _keep_ahead(renewal: Renewal) -> None:
    state = renewal.state
    following = state.next if state.next and state.next.phase == "prepared" else None
    source = following or state.on_air
    if source is not None:
        for _ in range(AHEAD - len(source.clips)):
            await renewal.enqueue(SCENE)


# ----------------------------------------------------------------------------------- the usual way


class _Usual:
    """Both sinks of one session."""

    def __init__(self, source: WebSocketSource, viewer: _Viewer) -> None:
        self._source = source
        self._viewer = viewer
        self.wants = trio.Event()

    def event(self, event: SourceEvent, /) -> None:
        self.wants.set()

    def video(self, frame: VideoFrame, /) -> None:
        self._viewer.see(self._source.id)

    def audio(self, frame: AudioFrame, /) -> None:
        pass

    def lost(self, cause: Exception | None, /) -> None:
        pass


async def _usual(opener: SourceOpener, viewer: _Viewer) -> None:
    """Watch one session until it is cut off, then another."""
    while not viewer.enough.is_set():
        async with opener(Predecessor()) as source, trio.open_nursery() as nursery:
            assert isinstance(source, WebSocketSource)
            sinks = _Usual(source, viewer)
            await source.attach(sinks)
            await source.open_media(sinks)
            await source.set_autoplay(True)
            nursery.start_soon(_feed, source, sinks)
            nursery.start_soon(_wait_cut, source, nursery.cancel_scope)
            await viewer.enough.wait()
            nursery.cancel_scope.cancel()


async def _wait_cut(source: WebSocketSource, scope: trio.CancelScope) -> None:
    with contextlib.suppress(ReactorError):
        await source.wait_lost()
    scope.cancel()


async def _feed(source: WebSocketSource, sinks: _Usual) -> None:
    with contextlib.suppress(ReactorError):  # it was cut off
        while True:
            sinks.wants = trio.Event()
            clips = (await source.state()).clips
            for _ in range(AHEAD - len(clips)):
                await source.enqueue(SCENE, commit=lambda: None)
            await sinks.wants.wait()


async def _both() -> tuple[float, float]:
    options = FilmServerOptions(
        lifetime=LIFETIME, build_time=BUILD, faults=Faults(slow_open=OPEN), grace=0.0
    )
    server = FilmServer(_film(), options)
    renewed, usual = _Viewer(), _Viewer()
    async with trio.open_nursery() as serving:
        port = await serving.start(server.serve)
        opener = websocket_source(f"ws://127.0.0.1:{port}/film")
        async with trio.open_nursery() as watching:
            watching.start_soon(_renewed, opener, renewed)
            watching.start_soon(_usual, opener, usual)
        server.stop()
    return renewed.excess, usual.excess


@functools.cache  # both sides are measured in one run, and once is enough
def _run() -> tuple[float, float]:
    return trio.run(_both)


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark(
        "renewal_gap_vs_reconnect",
        "s",
        lambda: _run()[0],
        lambda: _run()[1],
        at_most=0.1,
        rounds=1,
    ),
)
