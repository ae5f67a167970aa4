"""The film server as a program: started, used over its socket, and stopped."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest
import trio
from test_film_server_film import write_film
from typer.testing import CliRunner

from examples.film_server.__main__ import app
from trio_reactor.errors import Expired, Lost
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import (
    AudioFrame,
    ClipEnded,
    ClipRequest,
    OpenFailed,
    Predecessor,
    SourceEvent,
    VideoFrame,
)
from trio_reactor.renewal.websocket import WebSocketOptions, WebSocketSource, websocket_source

ROOT = Path(__file__).parents[2]
REAL = ROOT / "examples" / "media" / "bigbuckbunny.mp4"
PATIENCE = 60.0


class Watcher:
    def __init__(self) -> None:
        self.log: list[SourceEvent | VideoFrame | AudioFrame] = []
        self.arrivals: list[float] = []
        self.lost_by: list[Exception | None] = []
        self._changed = trio.Event()

    def event(self, event: SourceEvent, /) -> None:
        self._take(event)

    def video(self, frame: VideoFrame, /) -> None:
        self.arrivals.append(trio.current_time())
        self._take(frame)

    def audio(self, frame: AudioFrame, /) -> None:
        self._take(frame)

    def lost(self, cause: Exception | None, /) -> None:
        self.lost_by.append(cause)
        self._changed.set()

    async def until(self, kind: type[SourceEvent]) -> None:
        while not any(isinstance(entry, kind) for entry in self.log):
            await self._wait()

    async def until_lost(self) -> None:
        while not self.lost_by:
            await self._wait()

    async def _wait(self) -> None:
        self._changed = trio.Event()
        await self._changed.wait()

    def _take(self, entry: SourceEvent | VideoFrame | AudioFrame) -> None:
        self.log.append(entry)
        self._changed.set()


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "examples.film_server", *map(str, arguments)]


@contextlib.asynccontextmanager
async def running(*arguments: object) -> AsyncGenerator[tuple[trio.Process, str]]:
    """A server in a process of its own, and its url; whatever happens, it is gone afterwards."""
    with trio.fail_after(PATIENCE):
        process = await trio.lowlevel.open_process(
            command(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        assert process.stdout is not None
        assert process.stdin is not None
        async with process.stdin, process.stdout:
            try:
                line = b""
                while not line.endswith(b"\n"):
                    part = await process.stdout.receive_some()
                    assert part, "the server ended before it was ready"
                    line += part
                ready = json.loads(line)
                assert list(ready) == ["port"]
                yield process, f"ws://127.0.0.1:{ready['port']}/"
            finally:
                if process.returncode is None:
                    process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()


@contextlib.asynccontextmanager
async def opened(url: str, token: str | None = None) -> AsyncGenerator[WebSocketSource]:
    opener = websocket_source(url, token=token, options=WebSocketOptions(terminate_timeout=2.0))
    async with opener(Predecessor()) as source:
        yield cast("WebSocketSource", source)


def scene(start: int, frames: int) -> ClipRequest:
    return ClipRequest({"scene": {"start": start, "frames": frames}})


def uncommitted() -> None:
    pass


async def test_the_real_film_is_played_in_real_time_and_cut_off_when_its_time_is_over() -> None:
    async with running(REAL, "--lifetime", 2.5, "--build-time", 0) as (process, url):
        async with opened(url) as source:
            assert source.lifetime == pytest.approx(2.5, abs=0.3)
            watcher = Watcher()
            await source.attach(watcher)
            await source.open_media(watcher)
            clip = await source.enqueue(scene(100, 25), commit=uncommitted)
            await source.set_autoplay(True)
            await watcher.until(ClipEnded)

            frames = [entry for entry in watcher.log if isinstance(entry, VideoFrame)]
            assert [frame.index for frame in frames] == list(range(25))
            assert {frame.clip for frame in frames} == {clip}
            assert {(frame.width, frame.height, frame.size) for frame in frames} == {
                (320, 180, 86_400)
            }
            assert len({bytes(frame.data) for frame in frames}) == 25  # the film moves
            sound = [entry for entry in watcher.log if isinstance(entry, AudioFrame)]
            assert [frame.samples for frame in sound] == [3840] * 25
            assert any(bytes(frame.data).strip(b"\0") for frame in sound)
            # None comes before its time, and the last ones are not later than the first ones were.
            began = min(at - index / 25 for index, at in enumerate(watcher.arrivals))
            late = [at - began - index / 25 for index, at in enumerate(watcher.arrivals)]
            assert min(late[15:]) < 0.02

            with pytest.raises(Expired):
                await source.wait_lost()
            evidence = await source.close()
        assert evidence == Cleanup.of(
            source.id, allocation="owned", termination="confirmed", connection="closed"
        )
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.fixture(scope="module")
def short_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small and without sound, so that a server starts quickly."""
    return write_film(tmp_path_factory.mktemp("film") / "short.mp4", frames=25, sound=False)


SMALL = ("--width", 32, "--height", 24, "--build-time", 0)


async def test_a_server_that_is_killed_is_noticed_at_once(short_film: Path) -> None:
    async with (
        running(short_film, *SMALL) as (process, url),
        opened(url) as source,
    ):
        watcher = Watcher()
        await source.attach(watcher)
        process.kill()
        await watcher.until_lost()
        await process.wait()
        with pytest.raises(Lost, match="cannot be reached") as failed:
            await source.reconnect()
        assert failed.value.retryable
        evidence = await source.close()
        assert (evidence.termination, evidence.connection) == ("unconfirmed", "failed")
        with pytest.raises(OpenFailed, match="cannot be reached"):
            async with opened(url):
                pass


@pytest.mark.parametrize("how", ["interrupted", "terminated", "standard input ended"])
async def test_a_server_stops_in_order(short_film: Path, how: str) -> None:
    async with (
        running(short_film, *SMALL, "--until-eof") as (process, url),
        opened(url) as source,
    ):
        if how == "standard input ended":
            assert process.stdin is not None
            await process.stdin.aclose()
        else:
            process.send_signal(signal.SIGINT if how == "interrupted" else signal.SIGTERM)
        with pytest.raises(Lost, match="1001"):
            await source.wait_lost()
        assert (await source.close()).complete
        assert await process.wait() == 0


async def test_a_dropped_socket_is_made_again_across_processes(short_film: Path) -> None:
    async with (
        running(short_film, *SMALL, "--drop-rate", 20, "--drop-limit", 2, "--seed", 1) as (_, url),
        opened(url) as source,
    ):
        for _ in range(2):  # each socket drops once, in the middle of this or after it
            watcher = Watcher()
            with contextlib.suppress(Lost):
                await source.attach(watcher)
                await source.open_media(watcher)
                await watcher.until_lost()
            await source.reconnect()
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        await source.enqueue(scene(0, 3), commit=uncommitted)
        await source.set_autoplay(True)
        await watcher.until(ClipEnded)
        assert (await source.close()).complete


async def test_a_token_from_the_environment_admits(
    short_film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILM_SERVER_TOKEN", "paid")
    async with running(short_film, *SMALL) as (_, url):
        with pytest.raises(OpenFailed, match="not-authorised"):
            async with opened(url):
                pass
        async with opened(url, token="paid") as source:
            assert source.id


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lifetime", "-1"], "--lifetime: Input should be greater than 0"),
        (["--fail-rate", "2"], "--fail-rate: Input should be less than or equal to 1"),
        (["--width", "31"], "width: an even number from 16 to 1920, not 31"),
        (["--lifetime", "nan"], "--lifetime: Input should be a finite number"),
    ],
)
def test_wrong_terms_are_named(short_film: Path, arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, [str(short_film), *arguments])
    assert result.exit_code == 2
    assert result.stderr.strip() == said


def test_a_missing_film_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(tmp_path / "no.mp4")])
    assert result.exit_code == 2
    assert result.stderr.endswith("no.mp4: cannot be played: No such file or directory\n")


async def test_a_port_that_is_taken_is_named(short_film: Path) -> None:
    async with running(short_film, *SMALL) as (_, url):
        port = url.rpartition(":")[2].strip("/")
        taken = await trio.run_process(
            command(short_film, "--port", port), cwd=ROOT, capture_stderr=True, check=False
        )
    assert taken.returncode == 1
    assert taken.stderr.decode().startswith(f"--port: 127.0.0.1:{port} cannot be had: ")


async def test_no_two_clips_of_a_server_have_one_name() -> None:
    async with running(REAL, "--lifetime", 30) as (_, url):
        names: list[str] = []
        for _ in range(2):
            async with opened(url) as source:
                names += [await source.enqueue(scene(0, 1), commit=uncommitted) for _ in range(2)]
        assert len(set(names)) == 4
