"""A film, decoded once: raw pictures, and the sound that belongs to each of them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final

import av
import msgspec
import numpy as np
import numpy.typing as npt
from av.error import FFmpegError

from trio_reactor.errors import ReactorError

from .stamp import MIN_HEIGHT, MIN_WIDTH, stamp

__all__ = [
    "CHANNELS",
    "MAX_FILM_BYTES",
    "PIXELS",
    "RATE",
    "SAMPLES",
    "Film",
    "FilmUnusable",
    "check_canvas",
    "render",
]

RATE: Final = 48_000
"""Samples a second and channel."""
CHANNELS: Final = 2
SAMPLES: Final = "s16"
PIXELS: Final = "yuv420p"
SAMPLE_BYTES: Final = 2

MAX_FILM_BYTES: Final = 512 * 1024 * 1024
"""The largest film, decoded: about four minutes at the size of 320x180."""
MIN_SIDE: Final = 16
MAX_SIDE: Final = 1920


class FilmUnusable(ReactorError):
    """The file is no film that can be played."""


class Film(msgspec.Struct, frozen=True, eq=False):
    """A film in memory."""

    width: int
    height: int
    frame_rate: Fraction
    """Pictures a second."""
    pictures: tuple[bytes, ...]
    """In yuv420p."""
    sound: bytes
    """Samples of 16 bits, two channels interleaved; may be shorter or longer than the pictures."""

    @classmethod
    def load(cls, path: Path, width: int, height: int) -> Film:
        """Decode a file.  It blocks for as long as that takes.

        Args:
            path: Of a file with at least a video stream.
            width: To which pictures are scaled, in pixels.
            height: To which pictures are scaled, in pixels.

        Raises:
            FilmUnusable: If it cannot be read or decoded, or is too large.
            ValueError: If the size of the picture is none.
        """
        check_canvas(width, height)
        try:
            return _decode(path, width, height)
        except (OSError, FFmpegError) as error:
            reason = error.strerror or type(error).__name__
            raise FilmUnusable(f"{path}: cannot be played: {reason}") from error

    def __len__(self) -> int:
        """How many pictures it has."""
        return len(self.pictures)

    def excerpt(self, start: int, frames: int) -> tuple[bytes, ...]:
        """These pictures, counted on past the film's end; not copies."""
        return tuple(self.pictures[(start + offset) % len(self)] for offset in range(frames))

    def sound_of(self, number: int) -> memoryview:
        """The sound that is heard while a picture is seen, counted on past the film's end.

        The film repeats, and where it has no sound there is silence.  Picture and sound do not
        drift apart, also where a picture's time is no whole number of samples.
        """
        number %= len(self.pictures)
        begin, end = self._sample(number), self._sample(number + 1)
        size = CHANNELS * SAMPLE_BYTES
        heard = memoryview(self.sound)[begin * size : end * size]
        missing = (end - begin) * size - len(heard)
        return heard if missing == 0 else memoryview(bytes(heard) + bytes(missing))

    def _sample(self, number: int) -> int:
        return round(Fraction(RATE) * number / self.frame_rate)


def check_canvas(width: int, height: int) -> None:
    """Refuse a size of the picture that cannot be used.

    Raises:
        ValueError: Naming what is wrong with it.
    """
    for name, side in (("width", width), ("height", height)):
        if side % 2 or not MIN_SIDE <= side <= MAX_SIDE:
            raise ValueError(f"{name}: an even number from {MIN_SIDE} to {MAX_SIDE}, not {side}")


def render(
    film: Film,
    pictures: tuple[bytes, ...],
    *,
    canvas: tuple[int, int],
    first_stamp: int | None,
) -> tuple[bytes, ...]:
    """Pictures of a film, scaled and numbered.  It blocks for as long as that takes.

    Args:
        film: Whose pictures they are.
        pictures: What is shown.
        canvas: Width and height, in pixels.
        first_stamp: The number burned into the first picture, and counted up from there; `None`
            for no numbers.

    Raises:
        ValueError: If the canvas is too small for a stamp.
    """
    if canvas != (film.width, film.height):
        pictures = tuple(_scaled(picture, film, canvas) for picture in pictures)
    if first_stamp is None:
        return pictures
    if canvas[0] < MIN_WIDTH or canvas[1] < MIN_HEIGHT:
        raise ValueError(f"a stamp needs a canvas of {MIN_WIDTH}x{MIN_HEIGHT} or more")
    return tuple(
        _stamped(picture, canvas, number) for number, picture in enumerate(pictures, first_stamp)
    )


def _decode(path: Path, width: int, height: int) -> Film:
    pictures: list[bytes] = []
    sound = bytearray()
    with av.open(str(path)) as container:
        if not container.streams.video:
            raise FilmUnusable(f"{path}: has no pictures")
        video = container.streams.video[0]
        rate = video.average_rate
        if rate is None or rate <= 0:
            raise FilmUnusable(f"{path}: has no frame rate")
        resampler = av.AudioResampler(format=SAMPLES, layout="stereo", rate=RATE)
        for frame in container.decode(video, *container.streams.audio[:1]):
            if isinstance(frame, av.VideoFrame):
                scaled = frame.reformat(width, height, PIXELS)
                pictures.append(scaled.to_ndarray().tobytes())
            elif isinstance(frame, av.AudioFrame):
                sound += _interleaved(resampler.resample(frame))
            if len(pictures) * width * height * 3 // 2 + len(sound) > MAX_FILM_BYTES:
                raise FilmUnusable(f"{path}: is over {MAX_FILM_BYTES} bytes when decoded")
        if sound:
            sound += _interleaved(resampler.resample(None))
    if not pictures:
        raise FilmUnusable(f"{path}: has no pictures")
    return Film(width, height, Fraction(rate), tuple(pictures), bytes(sound))


def _interleaved(frames: list[av.AudioFrame]) -> bytes:
    size = CHANNELS * SAMPLE_BYTES
    return b"".join(bytes(frame.planes[0])[: frame.samples * size] for frame in frames)


def _planes(picture: bytes, width: int, height: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(picture, np.uint8).reshape(height * 3 // 2, width)


def _scaled(picture: bytes, film: Film, canvas: tuple[int, int]) -> bytes:
    frame = av.VideoFrame.from_ndarray(_planes(picture, film.width, film.height), format=PIXELS)
    return frame.reformat(canvas[0], canvas[1], PIXELS).to_ndarray().tobytes()


def _stamped(picture: bytes, canvas: tuple[int, int], number: int) -> bytes:
    planes = _planes(picture, *canvas).copy()
    stamp(planes[: canvas[1]], number)
    return planes.tobytes()
