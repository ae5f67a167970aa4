"""What a simulated source's connection carries: requests, events, and a media generation."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, final

import trio

from trio_reactor.renewal.source import AudioFrame, EventSink, MediaLosses, MediaSink, VideoFrame
from trio_reactor.testing.faults import Faults

__all__ = ["Connection", "Exchange", "SimulatedMedia"]

T = TypeVar("T")


class Exchange(Generic[T]):
    """A request that was sent, until its answer comes."""

    def __init__(self) -> None:
        self._over = trio.Event()
        self._reply: T | None = None
        self._failure: BaseException | None = None

    def answer(self, reply: T) -> None:
        """Answer it."""
        self._reply = reply
        self._over.set()

    def fail(self, failure: BaseException) -> None:
        """Have it fail, unless it is over."""
        if not self._over.is_set():
            self._failure = failure
            self._over.set()

    async def wait(self) -> T:
        """Wait for the answer, or raise what it failed with."""
        await self._over.wait()
        if self._failure is not None:
            raise self._failure
        return self._reply  # type: ignore[return-value]  # the reply of an exchange of nothing


class Connection:
    """One connection of a source: what is lost together."""

    def __init__(self) -> None:
        self.lost = False
        self.sink: EventSink | None = None
        self.media: SimulatedMedia | None = None
        self.exchanges: dict[Exchange[Any], None] = {}


@final
class SimulatedMedia:
    """One media generation of a simulated source; implements `Media`."""

    def __init__(
        self,
        faults: Faults,
        sink: MediaSink,
        generation: int,
        lost: MediaLosses,
    ) -> None:
        self._faults = faults
        self._generation = generation
        self._frames = lost.frames
        self._samples = lost.samples
        self.sink: MediaSink | None = sink
        """Where its frames go; `None` once it is over."""

    @property
    def generation(self) -> int:
        """Its number."""
        return self._generation

    def losses(self) -> MediaLosses:
        """What was dropped so far, and what went into the void before it was opened."""
        with self._faults.around("losses"):
            pass
        return MediaLosses(self._frames, self._samples)

    def give(self, picture: VideoFrame, sound: AudioFrame | None, *, drop: bool) -> None:
        """Send one picture and its sound, or drop and count them."""
        if self.sink is None or drop:
            self._frames += 1
            self._samples += 0 if sound is None else sound.samples
            return
        if sound is not None:
            self.sink.audio(sound)
        self.sink.video(picture)

    async def aclose(self) -> None:
        """End it.  Idempotent."""
        self.sink = None
        await self._faults.meet("media-close")
