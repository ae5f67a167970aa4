"""What a frame costs on its way from a source's reader task to the application."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from trio_reactor.renewal import Cleanup, ClipRequest, Predecessor, VideoFrame, open_renewal
from trio_reactor.renewal.source import (
    ClipStarted,
    Commit,
    EventSink,
    MediaLosses,
    MediaSink,
    SourceState,
)

from .harness import Benchmark

__all__ = ["BENCHMARKS"]

FRAMES = 20_000
BUFFER = bytes(1280 * 720 * 3 // 2)


def _frame(index: int) -> VideoFrame:
    return VideoFrame(BUFFER, 1280, 720, "yuv420p", index / 24, "clip", index)


class _Media:
    """A media generation that loses nothing."""

    generation = 1

    def losses(self) -> MediaLosses:
        return MediaLosses()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class _Source:
    """A source that plays one clip, as fast as it is read."""

    id = "source"
    lifetime: float | None = None

    def __init__(self) -> None:
        self.media_sink: MediaSink | None = None

    async def close(self) -> Cleanup:
        await trio.lowlevel.checkpoint()
        return Cleanup.of(self.id, allocation="owned", termination="confirmed", connection="closed")

    async def attach(self, sink: EventSink, /) -> SourceState:
        await trio.lowlevel.checkpoint()
        sink.event(ClipStarted("clip", FRAMES))
        return SourceState()

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        await trio.lowlevel.checkpoint()
        commit()
        return "clip"

    async def remove(self, clip: str, /) -> None:
        await trio.lowlevel.checkpoint()

    async def move(self, clip: str, /, position: int) -> None:
        await trio.lowlevel.checkpoint()

    async def set_autoplay(self, enabled: bool, /) -> None:
        await trio.lowlevel.checkpoint()

    async def pause_and_stop(self) -> None:
        await trio.lowlevel.checkpoint()

    async def set_canvas(self, width: int, height: int, /) -> None:
        await trio.lowlevel.checkpoint()

    async def open_media(self, sink: MediaSink, /) -> _Media:
        await trio.lowlevel.checkpoint()
        self.media_sink = sink
        return _Media()

    async def play(self) -> None:
        sink = self.media_sink
        if sink is None:
            raise AssertionError("no media was opened")
        for index in range(FRAMES):
            sink.video(_frame(index))
            await trio.lowlevel.checkpoint()  # the next read of its socket


def _forward() -> float:
    """Microseconds of CPU a frame through a renewal, from source to application."""

    async def main() -> float:
        source = _Source()

        @asynccontextmanager
        async def opener(_: Predecessor) -> AsyncGenerator[_Source]:
            await trio.lowlevel.checkpoint()
            yield source

        async with open_renewal(opener) as renewal, trio.open_nursery() as nursery:
            begun = time.process_time()
            nursery.start_soon(source.play)
            for _ in range(FRAMES):
                frame = await renewal.video.receive()
                if frame.data is not BUFFER:
                    raise AssertionError("the buffer was copied on its way")
            spent = time.process_time() - begun
        return spent / FRAMES * 1e6

    return trio.run(main)


def _memory_channel() -> float:
    """Microseconds of CPU a frame through a plain memory channel."""

    async def main() -> float:
        send, receive = trio.open_memory_channel[VideoFrame](96)

        async def source() -> None:
            for index in range(FRAMES):
                send.send_nowait(_frame(index))
                await trio.lowlevel.checkpoint()  # the next read of its socket

        async with trio.open_nursery() as nursery:
            begun = time.process_time()
            nursery.start_soon(source)
            for _ in range(FRAMES):
                frame = await receive.receive()
                if frame.data is not BUFFER:
                    raise AssertionError("the buffer was copied on its way")
            spent = time.process_time() - begun
        return spent / FRAMES * 1e6

    return trio.run(main)


BENCHMARKS = (
    Benchmark(
        "media_forward_vs_memory_channel",
        "us/frame",
        _forward,
        baseline=_memory_channel,
        at_most=2.0,
    ),
)
