"""The film that is served, and the list of what is played of it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from examples.film_server.film import (
    RATE,
    Film,
    FilmUnusable,
    check_canvas,
    render,
)
from examples.film_server.playlist import NotPossible, Playlist
from examples.film_server.stamp import read_stamp
from trio_reactor.renewal.source import Clip, ClipEnded, ClipFailed, ClipStarted, ClipUpdated

REAL = Path(__file__).parents[2] / "examples" / "media" / "bigbuckbunny.mp4"


def write_film(path: Path, *, frames: int = 10, rate: int = 25, sound: bool = True) -> Path:
    """A small film whose pictures grow brighter; if it has sound, a tone on the left."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=rate)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio = container.add_stream("aac", rate=44_100) if sound else None
        for number in range(frames):
            planes = np.full((72, 64), 16 + 20 * number % 200, np.uint8)
            container.mux(video.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        container.mux(video.encode(None))
        if audio is not None:
            times = np.arange(44_100 * frames // rate) / 44_100
            tone = (np.sin(times * 440 * 2 * np.pi) * 0.5).astype(np.float32)
            for start in range(0, len(tone), 1024):
                left = tone[start : start + 1024]
                samples = np.stack([left, np.zeros_like(left)])
                frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="stereo")
                frame.sample_rate = 44_100
                frame.pts = start
                container.mux(audio.encode(frame))
            container.mux(audio.encode(None))
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_film(tmp_path_factory.mktemp("film") / "small.mp4")


def test_a_film_is_decoded_to_raw_pictures_and_even_sound(small: Path) -> None:
    film = Film.load(small, 32, 24)
    assert (len(film), film.frame_rate) == (10, Fraction(25))
    assert {len(picture) for picture in film.pictures} == {32 * 24 * 3 // 2}
    brightness = [np.frombuffer(picture, np.uint8)[: 32 * 24].mean() for picture in film.pictures]
    assert brightness == pytest.approx([16 + 20 * number % 200 for number in range(10)], abs=4)
    samples = np.frombuffer(film.sound, np.int16)
    assert len(samples) == pytest.approx(RATE * 10 / 25 * 2, rel=0.2)
    assert np.abs(samples[::2]).max() > 10_000
    assert np.abs(samples[1::2]).max() < 1000  # two channels, interleaved


def test_the_real_film_is_what_its_readme_says() -> None:
    film = Film.load(REAL, 320, 180)
    assert (len(film), film.frame_rate) == (132, 25)
    assert len(film.pictures[0]) == 86_400
    assert len(film.sound) / 4 / RATE == pytest.approx(5.3, abs=0.1)
    assert len(film.sound_of(7)) == 1920 * 4
    assert "CC BY 3.0" in (REAL.parent / "README.md").read_text()
    assert "© Blender Foundation" in (REAL.parent / "README.md").read_text()


def test_a_film_without_sound_is_silent(tmp_path: Path) -> None:
    film = Film.load(write_film(tmp_path / "mute.mp4", sound=False), 32, 24)
    assert film.sound == b""
    assert bytes(film.sound_of(3)) == bytes(1920 * 4)


def test_sound_and_pictures_do_not_drift_apart() -> None:
    film = Film(16, 16, Fraction(30_000, 1001), (b"",) * 3000, bytes(4 * 5_000_000))
    heard = sum(len(film.sound_of(number)) // 4 for number in range(3000))
    assert heard == 3000 * RATE * 1001 // 30_000


def test_a_film_repeats(small: Path) -> None:
    film = Film.load(small, 32, 24)
    assert film.excerpt(8, 4) == (*film.pictures[8:], *film.pictures[:2])
    assert film.excerpt(8, 4)[0] is film.pictures[8]
    assert film.sound_of(12) == film.sound_of(2)


def test_pictures_are_scaled_and_numbered(small: Path) -> None:
    film = Film.load(small, 32, 24)
    shown = film.excerpt(0, 3)
    assert render(film, shown, canvas=(32, 24), first_stamp=None) == shown
    larger = render(film, shown, canvas=(160, 90), first_stamp=1000)
    lumas = [np.frombuffer(each, np.uint8).reshape(135, 160)[:90] for each in larger]
    assert [read_stamp(luma) for luma in lumas] == [1000, 1001, 1002]
    assert film.pictures[0] is shown[0]
    with pytest.raises(ValueError, match="a stamp needs a canvas of 128x16 or more"):
        render(film, shown, canvas=(32, 24), first_stamp=0)


def test_a_file_that_is_no_film_is_named(tmp_path: Path) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("once upon a time")
    for path in (text, tmp_path / "missing.mp4", tmp_path):
        with pytest.raises(FilmUnusable, match=str(path)):
            Film.load(path, 32, 24)


def test_sound_alone_is_no_film(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=48_000)
        samples = np.zeros((1, 960), np.int16)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate = 48_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(FilmUnusable, match="has no pictures"):
        Film.load(path, 32, 24)


def test_a_film_too_large_is_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.film_server.film.MAX_FILM_BYTES", 5000)
    with pytest.raises(FilmUnusable, match="over 5000 bytes when decoded"):
        Film.load(small, 32, 24)


@pytest.mark.parametrize(
    ("width", "height", "named"), [(31, 24, "width"), (32, 8, "height"), (4000, 24, "width")]
)
def test_a_size_that_cannot_be_is_named(width: int, height: int, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: an even number from 16 to 1920"):
        check_canvas(width, height)


# ------------------------------------------------------------------------------- the list


def playlist(*clips: str, bound: int = 8, ready_bound: int = 8) -> Playlist:
    made = Playlist(bound=bound, ready_bound=ready_bound)
    for clip in clips:
        made.enqueue(clip, 10, None)
    return made


def order(made: Playlist) -> list[str]:
    return [clip.id for clip in made.state.clips]


def test_a_clip_goes_from_queued_to_gone() -> None:
    made = Playlist(bound=8, ready_bound=8)
    assert made.enqueue("a", 10, None) == [ClipUpdated(Clip("a", "queued", 10))]
    assert made.next_to_build == Clip("a", "queued", 10)
    assert made.building("a") == [ClipUpdated(Clip("a", "building", 10))]
    assert made.next_to_build is None
    assert made.built("a") == [ClipUpdated(Clip("a", "ready", 10))]
    assert made.start() is None  # nobody wants it yet
    made.set_autoplay(True)
    assert made.start() == (Clip("a", "playing", 10), [ClipStarted("a", 10)])
    assert made.on_air == "a"
    assert made.start() is None
    assert made.end(10) == [ClipEnded("a", 10)]
    assert made.end(10) == []
    assert not made.state.clips


def test_only_the_first_clip_can_start() -> None:
    made = playlist("a", "b")
    made.set_autoplay(True)
    made.built("b")
    assert not made.can_start
    made.built("a")
    assert made.can_start


def test_positions_count_what_waits_behind_the_clip_on_air() -> None:
    made = playlist("a", "b", "c")
    made.set_autoplay(True)
    made.built("a")
    made.start()
    made.enqueue("d", 10, 0)
    assert order(made) == ["a", "d", "b", "c"]
    made.move("d", 2)
    assert order(made) == ["a", "b", "c", "d"]
    made.move("d", 0)
    assert order(made) == ["a", "d", "b", "c"]
    made.enqueue("e", 10, 3)
    assert order(made) == ["a", "d", "b", "c", "e"]
    for position in (-1, 5):
        with pytest.raises(NotPossible) as refused:
            made.enqueue("f", 10, position)
        assert refused.value.code == "out-of-range"
    with pytest.raises(NotPossible, match="position: from 0 to 3, not 4"):
        made.move("d", 4)


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda made: made.remove("a"), "on-air"),
        (lambda made: made.move("a", 0), "on-air"),
        (lambda made: made.remove("z"), "unknown-clip"),
        (lambda made: made.move("z", 0), "unknown-clip"),
        (lambda made: made.enqueue("d", 10, None), "full"),
    ],
)
def test_what_cannot_be_done_changes_nothing(act: Callable[[Playlist], Any], code: str) -> None:
    made = playlist("a", "b", "c", bound=3)
    made.set_autoplay(True)
    made.built("a")
    made.start()
    before = made.state
    with pytest.raises(NotPossible) as refused:
        act(made)
    assert refused.value.code == code
    assert made.state == before


def test_a_result_that_comes_late_brings_nothing_back() -> None:
    made = playlist("a")
    made.building("a")
    assert made.remove("a") == [ClipEnded("a", 0)]
    assert made.built("a") == []
    assert made.failed("a", "too late") == []
    assert not made.state.clips


def test_a_clip_that_fails_is_gone() -> None:
    made = playlist("a", "b")
    made.building("a")
    assert made.failed("a", "broken") == [ClipFailed("a", "broken")]
    assert order(made) == ["b"]
    assert made.next_to_build == Clip("b", "queued", 10)
