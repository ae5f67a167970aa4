"""Turns pictures and sound into an .mp4; the part of recording that computes.

Synchronous: whoever uses it does so from a worker thread, one call at a time.
"""

# pyright: reportUnknownMemberType=false
# PyAV's own annotations leave its packets generic and its `add_stream` open to any keyword.

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeAlias

import av
import numpy as np
from av.container import OutputContainer
from av.video.stream import VideoStream

from trio_reactor.renewal import AudioFrame, VideoFrame

__all__ = ["Encoder", "Placed"]

SOUND_RATE: Final = 48_000
"""Samples a second and channel of a recording; what comes at another rate is made to fit."""
SLACK: Final = 0.02
"""Seconds by which sound may come late before the time between is filled with silence."""

Placed: TypeAlias = tuple[VideoFrame | AudioFrame, float]
"""A frame and its place in the recording, in seconds from the start."""


class Encoder:
    """One file in the making.

    Args:
        path: Where; an earlier file is replaced at once.
        frame_rate: Pictures a second.
        width: Of the picture, an even number of pixels; what has another size is made to fit.
        height: Of the picture, an even number of pixels.

    Raises:
        OSError: If the file cannot be written; from every method too.
    """

    def __init__(self, path: Path, frame_rate: float, width: int, height: int) -> None:
        with contextlib.suppress(FileExistsError):  # what is no folder shows when it is used as one
            path.parent.mkdir(parents=True)
        path.open("wb").close()  # PyAV opens it only once there is something to write
        self._path = path
        self._rate = Fraction(frame_rate).limit_denominator(1001)
        self._container = av.open(str(path), "w", format="mp4")
        self._video = _video_stream(self._container, self._rate)
        self._video.width, self._video.height, self._video.pix_fmt = width, height, "yuv420p"
        self._audio = self._container.add_stream("aac", rate=SOUND_RATE, layout="stereo")
        self._next_picture = 0
        self._next_sample = 0

    def encode(self, batch: Sequence[Placed]) -> None:
        """Encode some frames, in this order.

        Raises:
            ValueError: If a frame's data is not what it says it is.
        """
        for frame, at in batch:
            if isinstance(frame, VideoFrame):
                self._encode_picture(_picture(frame), at)
            elif frame.samples:
                self._encode_silence(frame, until=at)
                self._encode_sound(_sound(frame, frame.data))

    def finish(self) -> None:
        """Write what is still held back, and what a player needs to find its way."""
        self._container.mux(self._video.encode(None))
        self._container.mux(self._audio.encode(None))
        self._container.close()

    def abandon(self) -> None:
        """Remove the file.  Never raises because of what could not be written to it."""
        with contextlib.suppress(OSError):
            self._container.close()
        self._path.unlink(missing_ok=True)

    def _encode_picture(self, picture: av.VideoFrame, at: float) -> None:
        picture.time_base = 1 / self._rate
        picture.pts = max(self._next_picture, round(at * self._rate))
        self._next_picture = picture.pts + 1
        self._container.mux(self._video.encode(picture))

    def _encode_silence(self, like: AudioFrame, *, until: float) -> None:
        """Fill the time in which no sound came, a second at a time."""
        missing = round(until * like.rate) - self._next_sample
        if missing <= SLACK * like.rate:
            return
        sample_size = like.size // like.samples
        zero = b"\x80" if like.format == "u8" else b"\x00"
        while missing > 0:
            samples = min(missing, like.rate)
            self._encode_sound(_sound(like, zero * (samples * like.channels * sample_size)))
            missing -= samples

    def _encode_sound(self, sound: av.AudioFrame) -> None:
        sound.pts = self._next_sample
        sound.time_base = Fraction(1, sound.rate)
        self._next_sample += sound.samples
        self._container.mux(self._audio.encode(sound))


def _video_stream(container: OutputContainer, rate: Fraction) -> VideoStream:
    """H.264 where this build of FFmpeg has it."""
    if "libx264" in av.codecs_available:
        return container.add_stream(
            "libx264", rate=rate, options={"preset": "veryfast", "crf": "20"}
        )
    return container.add_stream("mpeg4", rate=rate, options={"qscale": "3"})


def _picture(frame: VideoFrame) -> av.VideoFrame:
    packed = not frame.format.startswith("yuv")
    shape = (frame.height, frame.width, -1) if packed else (-1, frame.width)
    pixels = np.frombuffer(frame.data, np.uint8).reshape(shape)
    return av.VideoFrame.from_ndarray(pixels, format=frame.format)


def _sound(like: AudioFrame, data: bytes | bytearray | memoryview) -> av.AudioFrame:
    samples = len(data) // (like.size // like.samples) // like.channels
    layout = _LAYOUTS.get(like.channels, f"{like.channels}c")
    sound = av.AudioFrame(format=like.format, layout=layout, samples=samples)
    sound.rate = like.rate
    sound.planes[0].update(bytes(data))
    return sound


_LAYOUTS: Final = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}
