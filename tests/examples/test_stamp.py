"""The number that a picture carries survives what a recording does to it."""

from __future__ import annotations

import io

import av
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.film_server.stamp import (
    MAX_NUMBER,
    MIN_HEIGHT,
    MIN_WIDTH,
    NoStamp,
    read_stamp,
    stamp,
)


def noise(width: int, height: int, seed: int = 7) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)


def compressed(planes: list[npt.NDArray[np.uint8]], codec: str, **options: str) -> list[int]:
    """The numbers read from these pictures after a lossy encoding, with noisy chroma."""
    height, width = planes[0].shape
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        if codec == "mpeg4":
            stream.bit_rate = 100_000
        for index, plane in enumerate(planes):
            chroma = noise(width, height // 2, seed=index)
            picture = np.vstack([plane, chroma])
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="yuv420p")))
        output.mux(stream.encode(None))
    file.seek(0)
    with av.open(file) as source:
        return [read_stamp(frame.to_ndarray()[:height]) for frame in source.decode(video=0)]


@given(
    number=st.integers(0, MAX_NUMBER),
    width=st.integers(MIN_WIDTH, 2000),
    height=st.integers(MIN_HEIGHT, 1200),
)
def test_what_is_stamped_is_read_whatever_the_size(number: int, width: int, height: int) -> None:
    luma = np.full((height, width), 128, np.uint8)
    stamp(luma, number)
    assert read_stamp(luma) == number


def test_a_stamp_touches_only_its_corner() -> None:
    before = noise(640, 360)
    after = before.copy()
    stamp(after, 1234)
    assert np.array_equal(before[16:], after[16:])
    assert np.array_equal(before[:, 128:], after[:, 128:])


@pytest.mark.parametrize(
    ("codec", "options"), [("libx264", {"crf": "40", "preset": "ultrafast"}), ("mpeg4", {})]
)
def test_numbers_survive_harsh_compression_of_a_noisy_picture(
    codec: str, options: dict[str, str]
) -> None:
    planes: list[npt.NDArray[np.uint8]] = []
    numbers = [*range(12), 65535, 65536, MAX_NUMBER]
    for index, number in enumerate(numbers):
        plane = noise(320, 180, seed=index)
        stamp(plane, number)
        planes.append(plane)
    assert compressed(planes, codec, **options) == numbers


def test_a_number_survives_halving_and_doubling_the_picture() -> None:
    luma = noise(1280, 720)
    stamp(luma, 4321)
    halved = luma.reshape(360, 2, 640, 2).mean(axis=(1, 3)).astype(np.uint8)
    assert read_stamp(halved) == 4321
    small = noise(640, 360)
    stamp(small, 77)
    assert read_stamp(small.repeat(2, axis=0).repeat(2, axis=1)) == 77


@pytest.mark.parametrize("level", [0, 16, 128, 235, 255])
def test_a_plain_picture_carries_no_number(level: int) -> None:
    with pytest.raises(NoStamp):
        read_stamp(np.full((180, 320), level, np.uint8))


def test_an_unstamped_picture_carries_no_number() -> None:
    for seed in range(200):
        with pytest.raises(NoStamp):
            read_stamp(noise(320, 180, seed))


def test_a_single_block_that_flips_is_noticed() -> None:
    for block in range(32):
        luma = np.full((180, 320), 128, np.uint8)
        stamp(luma, 1000)
        row, column = divmod(block, 16)
        area = luma[row * 8 : row * 8 + 8, column * 8 : column * 8 + 8]
        area[:] = 251 - area
        with pytest.raises(NoStamp):
            read_stamp(luma)


@pytest.mark.parametrize("number", [-1, MAX_NUMBER + 1])
def test_a_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="from 0 to"):
        stamp(noise(320, 180), number)


@pytest.mark.parametrize("size", [(MIN_WIDTH - 1, 180), (320, MIN_HEIGHT - 1)])
def test_a_picture_too_small_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        stamp(noise(*size), 1)
    with pytest.raises(ValueError, match="at least"):
        read_stamp(noise(*size))
