"""Sources that do as they are told by a test, and openers that give them in order."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
from chain_stage import Token

from trio_reactor.renewal.source import (
    ClipRequest,
    Commit,
    EventSink,
    Media,
    MediaLosses,
    MediaSink,
    Predecessor,
    Source,
    SourceOpener,
    SourceState,
    VideoFrame,
)

__all__ = ["Actor", "Lasting", "Reel", "giving", "picture"]


def picture(clip: str | None = None, **changes: Any) -> VideoFrame:
    given: dict[str, Any] = {"data": bytes(4), "width": 2, "height": 2, "format": "gray"}
    told: dict[str, Any] = {**given, "time": 0.0, "clip": clip, **changes}
    return VideoFrame(**told)


class Reel:
    """A media generation without frames of its own."""

    def __init__(self, generation: Any) -> None:
        self.generation = generation
        self.closes = 0

    def losses(self) -> Any:
        return MediaLosses()

    async def aclose(self) -> None:
        self.closes += 1
        await trio.lowlevel.checkpoint()


class Actor(Token):
    """A source that plays what a test has it play."""

    def __init__(self, identity: Any = "honest", lifetime: Any = None) -> None:
        super().__init__(identity, lifetime)
        self.events: list[EventSink] = []
        self.media: list[MediaSink] = []
        self.answer: Any = "clip"
        self.told: Any = SourceState()
        self.reels = 0

    async def attach(self, sink: EventSink, /) -> SourceState:
        self.events.append(sink)
        await trio.lowlevel.checkpoint()
        return self.told  # type: ignore[no-any-return]

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        commit()
        await trio.lowlevel.checkpoint()
        return self.answer  # type: ignore[no-any-return]

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

    def reel(self) -> Any:
        """What is to be the next generation."""
        self.reels += 1
        return Reel(self.reels)

    async def open_media(self, sink: MediaSink, /) -> Media:
        self.media.append(sink)
        await trio.lowlevel.checkpoint()
        return self.reel()  # type: ignore[no-any-return]


class Lasting(Actor):
    """One that can reconnect."""

    async def reconnect(self) -> None:
        await trio.lowlevel.checkpoint()


def giving(*given: Any) -> SourceOpener:
    """Opens these, in order, and honest ones after them."""
    left = iter(given)
    count = 0

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Source]:
        nonlocal count
        await trio.lowlevel.checkpoint()
        count += 1
        yield next(left, None) or Actor(f"honest {count}")

    return opener
