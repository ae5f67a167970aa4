"""What a source shows: pictures and sound, and the sink that takes them."""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["AudioFrame", "Media", "MediaLosses", "MediaSink", "VideoFrame"]


class VideoFrame(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One picture.  Its bytes are never copied on their way from the source to the reader."""

    data: bytes | bytearray | memoryview
    """The planes, in the layout of `format`."""
    width: int
    height: int
    format: str
    """The pixel format by FFmpeg's name, such as `yuv420p` or `rgb24`."""
    time: float
    """Seconds since the start of its clip, or of its source where there are no clips."""
    clip: str | None = None
    """The clip it belongs to."""
    index: int | None = None
    """Its number within the clip, from 0."""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        data = self.data
        return data.nbytes if isinstance(data, memoryview) else len(data)


class AudioFrame(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A run of sound, interleaved."""

    data: bytes | bytearray | memoryview
    samples: int
    """Interleaved samples: samples a channel times channels."""
    channels: int
    rate: int
    """Samples a second and channel, in Hz."""
    format: str
    """The sample format by FFmpeg's name, such as `s16`."""
    time: float
    """Seconds since the start of its clip, or of its source where there are no clips."""
    clip: str | None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        data = self.data
        return data.nbytes if isinstance(data, memoryview) else len(data)


class MediaLosses(msgspec.Struct, frozen=True):
    """What a media generation dropped before it reached the sink; totals since it was opened."""

    frames: int = 0
    samples: int = 0
    """Interleaved samples."""


class MediaSink(Protocol):
    """Where a source puts its frames.  No method waits or raises, at any time, from any task."""

    def video(self, frame: VideoFrame, /) -> None:
        """Take one picture."""
        ...

    def audio(self, frame: AudioFrame, /) -> None:
        """Take one run of sound."""
        ...

    def lost(self, cause: Exception | None, /) -> None:
        """Hear that no more will come; `None` if the stream ended without an error."""
        ...


class Media(Protocol):
    """One media generation: the flow of frames of one source between two connections."""

    @property
    def generation(self) -> int:
        """Rises with every generation of its source."""
        ...

    def losses(self) -> MediaLosses:
        """What was dropped so far; raises if that cannot be told."""
        ...

    async def aclose(self) -> None:
        """End this generation: nothing is put into its sink any more.  Idempotent.

        Called for every generation, also one whose connection was lost and one that was refused,
        and never changes a later one.
        """
        ...
