"""The media generations of one session, and an exact account of what never came.

The server counts every picture that was due while a generation was open, whether a socket took it
or not; this side counts what came, and what the server said it dropped.  Whenever a generation
begins the server says its count, and the difference is what went into the void between the two:
buffered by a socket that broke, or due while there was none.  It is charged to the generation that
begins, because that is the first moment at which it can be told.  So the losses of a session's
generations always add up, and none is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import final

import msgspec

from trio_reactor.renewal.source import AudioFrame, MediaLosses, MediaSink, VideoFrame

from .wire import Losses, MediaOpened, Picture, Sound

__all__ = ["Account", "Generation"]


@final
class Generation:
    """One media generation; implements `Media`."""

    def __init__(
        self,
        opened: MediaOpened,
        sink: MediaSink,
        lost_before: MediaLosses,
        leave: Callable[[Generation], Coroutine[None, None, None]],
    ) -> None:
        self._opened = opened
        self._sink: MediaSink | None = sink
        self._lost_before = lost_before
        self._dropped = MediaLosses()
        self._leave = leave

    @property
    def generation(self) -> int:
        """Rises with every generation of its source."""
        return self._opened.generation

    def losses(self) -> MediaLosses:
        """What was dropped on the way to the sink, as far as it is known.

        What a broken socket swallowed is known, and counted, when the next generation begins.
        """
        return _sum(self._lost_before, self._dropped)

    async def aclose(self) -> None:
        """End it: nothing is put into its sink any more.  Idempotent.

        The server is told within the bounds of the connection; nothing is raised if it cannot be.
        """
        self._sink = None
        await self._leave(self)

    def video(self, frame: VideoFrame) -> None:
        """Pass a picture on."""
        if self._sink is not None:
            self._sink.video(frame)

    def audio(self, frame: AudioFrame) -> None:
        """Pass sound on."""
        if self._sink is not None:
            self._sink.audio(frame)

    def dropped(self, total: MediaLosses) -> MediaLosses:
        """Take the server's new total; returns by how much it rose."""
        before, self._dropped = self._dropped, total
        return MediaLosses(total.frames - before.frames, total.samples - before.samples)

    def end(self, cause: Exception | None) -> None:
        """Tell the sink, once, that no more will come."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.lost(cause)


class _Count(msgspec.Struct):
    frames: int = 0
    samples: int = 0


@final
class Account:
    """Which generation is current, and what of the session's media is accounted for."""

    def __init__(self) -> None:
        self.current: Generation | None = None
        self._known = _Count()
        """What came, or is known to have been lost."""

    def begin(
        self,
        opened: MediaOpened,
        sink: MediaSink,
        leave: Callable[[Generation], Coroutine[None, None, None]],
    ) -> Generation:
        """Start a generation; the one before ends without an error if it had not ended."""
        known = self._known
        void = MediaLosses(
            max(0, opened.frames - known.frames), max(0, opened.samples - known.samples)
        )
        known.frames += void.frames
        known.samples += void.samples
        self.end(None)
        self.current = Generation(opened, sink, void, leave)
        return self.current

    def end(self, cause: Exception | None) -> None:
        """End the current generation, if there is one, and tell its sink."""
        generation, self.current = self.current, None
        if generation is not None:
            generation.end(cause)

    def picture(self, message: Picture) -> None:
        """Take a picture; its bytes are passed on as they came.  A stale one is only counted."""
        self._known.frames += 1
        if self.current is not None and message.generation == self.current.generation:
            self.current.video(
                VideoFrame(
                    data=message.data,
                    width=message.width,
                    height=message.height,
                    format=message.format,
                    time=message.time,
                    clip=message.clip,
                    index=message.index,
                )
            )

    def sound(self, message: Sound) -> None:
        """Take sound; its bytes are passed on as they came.  Stale sound is only counted."""
        self._known.samples += message.samples
        if self.current is not None and message.generation == self.current.generation:
            self.current.audio(
                AudioFrame(
                    data=message.data,
                    samples=message.samples,
                    channels=message.channels,
                    rate=message.rate,
                    format=message.format,
                    time=message.time,
                    clip=message.clip,
                )
            )

    def losses(self, message: Losses) -> None:
        """Take the server's word on what it dropped of the current generation."""
        if self.current is not None and message.generation == self.current.generation:
            rise = self.current.dropped(MediaLosses(message.frames, message.samples))
            self._known.frames += rise.frames
            self._known.samples += rise.samples


def _sum(one: MediaLosses, other: MediaLosses) -> MediaLosses:
    return MediaLosses(one.frames + other.frames, one.samples + other.samples)
