"""What a simulated source shows: pictures that say which they are, and a tone."""

from __future__ import annotations

import functools
import math
import struct
from array import array
from typing import Final, NamedTuple

from trio_reactor.renewal.source import AudioFrame, VideoFrame

from .options import SMALLEST, SimulationOptions

__all__ = ["Renderer", "Stamp", "read_stamp"]

_STAMP: Final = struct.Struct(">4sIII")
_MAGIC: Final = b"sim1"
_LOUDNESS: Final = 8_000
assert _STAMP.size == SMALLEST  # noqa: S101 - the options refuse what is smaller


class Stamp(NamedTuple):
    """What a simulated picture says of itself."""

    source: int
    """The number of its source at the provider, from 1."""
    clip: int
    """The number of its clip at that source, from 1."""
    frame: int
    """Its number within the clip, from 0."""


def read_stamp(frame: VideoFrame) -> Stamp:
    """Which source, clip and frame a simulated picture is.

    Raises:
        ValueError: If it is no simulated picture.
    """
    if len(frame.data) < _STAMP.size:
        raise ValueError("this is no simulated picture: it is too small")
    magic, *numbers = _STAMP.unpack_from(frame.data)
    if magic != _MAGIC:
        raise ValueError("this is no simulated picture: it has no stamp")
    return Stamp(*numbers)


class Renderer:
    """Makes the pictures and the sound of one source.

    Args:
        source: Its number at the provider, from 1.
        options: Sizes and rates.
    """

    def __init__(self, source: int, options: SimulationOptions) -> None:
        self._source = source
        self._options = options
        pixels = options.width * options.height - _STAMP.size
        self._body = bytes((source * 16 + pixel) % 256 for pixel in range(pixels))
        self._run = None
        if options.sound:
            length = max(1, round(options.sample_rate / options.frame_rate))
            self._run = _tone(length, options.channels, 8 + source % 24)

    def picture(self, clip: str, number: int, index: int) -> VideoFrame:
        """One picture of a clip, by the clip's identity and number."""
        options = self._options
        return VideoFrame(
            _STAMP.pack(_MAGIC, self._source, number, index) + self._body,
            options.width,
            options.height,
            "gray",
            index / options.frame_rate,
            clip,
            index,
        )

    def sound(self, clip: str, index: int) -> AudioFrame | None:
        """The sound for the time of that picture, if there is any."""
        if self._run is None:
            return None
        options = self._options
        return AudioFrame(
            self._run,
            len(self._run) // 2,
            options.channels,
            options.sample_rate,
            "s16",
            index / options.frame_rate,
            clip,
        )


@functools.lru_cache(maxsize=64)
def _tone(length: int, channels: int, cycles: int) -> bytes:
    """Sound for the time of one picture, at a pitch that runs on from one to the next."""
    wave = (
        int(_LOUDNESS * math.sin(2 * math.pi * cycles * sample / length))
        for sample in range(length)
    )
    return array("h", (value for value in wave for _ in range(channels))).tobytes()
