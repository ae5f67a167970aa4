"""A recording has every picture it was given, in order, with the sound where it belongs."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
import trio

from examples.broadcast.recorder import MAX_WAITING, RecordingFailed, open_recorder
from examples.film_server.stamp import read_stamp, stamp
from trio_reactor.renewal.source import AudioFrame, VideoFrame

WIDTH, HEIGHT = 160, 90
SAMPLES = 1920
"""Samples a channel that go with one picture, at 48 kHz and 25 pictures a second."""


def picture(number: int, *, width: int = WIDTH, height: int = HEIGHT) -> VideoFrame:
    noise = np.random.default_rng(number)
    planes = noise.integers(0, 256, (height * 3 // 2, width), dtype=np.uint8)
    stamp(planes[:height], number)
    return VideoFrame(planes.tobytes(), width, height, "yuv420p", number / 25)


def sound(level: int, *, channels: int = 2) -> AudioFrame:
    """A square wave, as loud as its level, for the length of one picture."""
    wave = np.where(np.arange(SAMPLES) // 24 % 2, level, -level).astype(np.int16)
    return AudioFrame(
        wave.repeat(channels).tobytes(), SAMPLES * channels, channels, 48_000, "s16", 0
    )


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def recorded(path: Path) -> tuple[list[int], list[float]]:
    """The numbers of the pictures of a recording, and when each is shown."""
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    return (
        [read_stamp(frame.reformat(format="gray").to_ndarray()) for frame in frames],
        [round(frame.time, 3) for frame in frames if frame.time is not None],
    )


def loudness(path: Path) -> list[float]:
    """How loud the recording is in each fortieth of a second, from 0 to 1."""
    with av.open(str(path)) as container:
        pieces = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    samples = np.concatenate(pieces)
    whole = samples[: len(samples) // 1200 * 1200].reshape(-1, 1200)
    return [float(level) for level in np.abs(whole).mean(axis=1)]


async def test_every_picture_given_is_recorded_in_order(tmp_path: Path) -> None:
    path = tmp_path / "new" / "film.mp4"
    async with open_recorder(path, frame_rate=25, width=WIDTH, height=HEIGHT) as recorder:
        for number in range(3 * MAX_WAITING):
            await recorder.write(picture(number), number / 25)
            await recorder.write(sound(9000), number / 25)
        assert not path.exists()
    numbers, times = recorded(path)
    assert numbers == list(range(3 * MAX_WAITING))
    assert times == [round(number / 25, 3) for number in numbers]
    assert entries(path.parent) == [path]


async def test_lost_time_is_a_picture_that_stands_still_and_silence(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    kept = [*range(25), *range(50, 75)]
    async with open_recorder(path, frame_rate=25, width=WIDTH, height=HEIGHT) as recorder:
        for number in kept:
            await recorder.write(picture(number), number / 25)
            await recorder.write(sound(9000), number / 25)
    numbers, times = recorded(path)
    assert numbers == kept
    assert times == [round(number / 25, 3) for number in kept]
    loud = loudness(path)
    assert min(loud[4:36]) > 0.1
    assert max(loud[44:76]) < 0.02
    assert min(loud[84:116]) > 0.1


async def test_pictures_that_claim_one_and_the_same_place_are_all_recorded(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    async with open_recorder(path, frame_rate=25, width=WIDTH, height=HEIGHT) as recorder:
        for number in range(5):
            await recorder.write(picture(number), 0.0)
    assert recorded(path)[0] == [0, 1, 2, 3, 4]


async def test_pictures_and_sound_of_another_shape_are_made_to_fit(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    async with open_recorder(path, frame_rate=25, width=640, height=360) as recorder:
        for number in range(10):
            await recorder.write(picture(number, width=1280, height=720), number / 25)
            await recorder.write(sound(9000, channels=6), number / 25)
    with av.open(str(path)) as container:
        assert (container.streams.video[0].width, container.streams.video[0].height) == (640, 360)
        assert container.streams.audio[0].channels == 2
    assert recorded(path)[0] == list(range(10))


async def test_a_frame_that_is_not_what_it_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    with pytest.raises(RecordingFailed, match=r"film\.mp4"):
        async with open_recorder(path, frame_rate=25, width=WIDTH, height=HEIGHT) as recorder:
            await recorder.write(VideoFrame(b"short", WIDTH, HEIGHT, "yuv420p", 0), 0.0)
    assert entries(tmp_path) == []


async def test_a_recording_without_sound_is_one_too(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    async with open_recorder(path, frame_rate=25, width=WIDTH, height=HEIGHT) as recorder:
        await recorder.write(picture(7), 0.0)
    assert recorded(path)[0] == [7]


async def test_an_earlier_recording_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_text("the one before")
    with pytest.raises(ZeroDivisionError):
        async with open_recorder(path, frame_rate=25, width=WIDTH, height=HEIGHT) as recorder:
            for number in range(40):
                await recorder.write(picture(number), number / 25)
            raise ZeroDivisionError
    assert path.read_text() == "the one before"
    assert entries(tmp_path) == [path]


async def test_a_cancelled_recording_leaves_nothing_behind(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        path = tmp_path / "film.mp4"
        async with open_recorder(path, frame_rate=25, width=WIDTH, height=HEIGHT) as recorder:
            for number in range(200):
                await recorder.write(picture(number), number / 25)
                if number == 100:
                    scope.cancel()
    assert scope.cancelled_caught
    assert entries(tmp_path) == []


async def test_who_brings_frames_faster_than_they_are_encoded_waits(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    async with open_recorder(path, frame_rate=25, width=1280, height=720) as recorder:
        big = picture(1, width=1280, height=720)
        with trio.CancelScope() as impatient:
            impatient.cancel()
            written = 0
            while True:
                await recorder.write(big, written / 25)
                written += 1
        assert impatient.cancelled_caught


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(RecordingFailed, match=r"film\.mp4: Not a directory"):
        async with open_recorder(file / "film.mp4", frame_rate=25, width=WIDTH, height=HEIGHT):
            pass


async def test_a_full_disk_ends_the_block_and_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    (tmp_path / "film.mp4.part").symlink_to("/dev/full")
    with pytest.raises(RecordingFailed, match=r"film\.mp4: No space left on device") as caught:
        async with open_recorder(path, frame_rate=25, width=WIDTH, height=HEIGHT) as recorder:
            for number in range(10_000):
                await recorder.write(picture(number), number / 25)
    assert isinstance(caught.value.__cause__, OSError)
    assert entries(tmp_path) == []


async def test_a_disk_that_fills_up_at_the_very_end_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    (tmp_path / "film.mp4.part").symlink_to("/dev/full")
    with pytest.raises(RecordingFailed, match="No space left"):
        async with open_recorder(path, frame_rate=25, width=WIDTH, height=HEIGHT) as recorder:
            await recorder.write(picture(1), 0.0)
    assert entries(tmp_path) == []
