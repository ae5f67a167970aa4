"""The broadcast as its user sees it: a command, real processes, a real socket, a real recording."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree as ET

import av
import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

from examples.broadcast.__main__ import app
from examples.broadcast.report import IN_WORDS
from examples.film_server.film import Film
from examples.film_server.stamp import read_stamp
from trio_reactor.renewal.events import LossReason
from trio_reactor.renewal.policy.handoff import HandoffKind

ROOT = Path(__file__).parents[2]
FILM = ROOT / "examples/media/bigbuckbunny.mp4"
COMMAND = [sys.executable, "-m", "examples.broadcast"]
SMALL = ("--width", "320", "--height", "180")
PATIENCE = 100.0

pytestmark = [pytest.mark.timeout(150), pytest.mark.long]


def broadcast(
    out: Path, *options: str, limit: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--output-dir", str(out), *SMALL, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        preexec_fn=limit,
        check=False,
    )


def numbers(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ran.returncode == 0, ran.stderr
    (line,) = ran.stdout.splitlines()
    result: dict[str, Any] = json.loads(line)
    assert list(result) == [
        "sessions",
        "handovers",
        "frames_expected",
        "frames_received",
        "frames_lost",
        "max_gap_ms",
        "recording",
        "timeline",
    ]
    assert result["frames_expected"] == result["frames_received"] + result["frames_lost"]
    return result


def recorded(path: str) -> list[int]:
    """The numbers that the pictures of a recording carry."""
    with av.open(path) as container:
        return [
            read_stamp(frame.to_ndarray()[: frame.height]) for frame in container.decode(video=0)
        ]


def sound(path: str) -> npt.NDArray[np.float32]:
    """The left channel of a recording."""
    with av.open(path) as container:
        return np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])


def sound_of_the_film(pictures: int) -> npt.NDArray[np.float32]:
    """What the left channel should be while these many pictures are shown."""
    film = Film.load(FILM, 128, 72)
    heard = b"".join(bytes(film.sound_of(number)) for number in range(pictures))
    return np.frombuffer(heard, np.int16)[::2] / np.float32(32768)


def likeness(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> float:
    length = min(len(one), len(other))
    return float(np.corrcoef(one[:length], other[:length])[0, 1])


def refused(ran: subprocess.CompletedProcess[str], *names: str) -> None:
    """It said in one line what is wrong, naming it, and went with status 1."""
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: ")
    for name in names:
        assert name in line


def children(parent: int) -> list[int]:
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            after_name = (process / "stat").read_text().rpartition(")")[2]
            if int(after_name.split()[1]) == parent:
                found.append(int(process.name))
    return found


def wait_until(fact: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


@pytest.fixture
def on_air(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A broadcast that has begun to record."""
    process = subprocess.Popen(
        [*COMMAND, "--json", "--output-dir", str(tmp_path), *SMALL, "--duration", "600"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    part = tmp_path / "broadcast.mp4.part"
    with process:
        try:
            wait_until(
                lambda: process.poll() is not None or (part.exists() and part.stat().st_size > 0),
                "something is recorded",
            )
            assert process.poll() is None, process.communicate()[1]
            yield process
        finally:
            if process.poll() is None:
                process.kill()


# ------------------------------------------------------------------------------ the main job


def test_one_programme_comes_whole_out_of_sessions_that_live_a_few_seconds(tmp_path: Path) -> None:
    # Small pictures, and sessions that can be some seconds late: a slow machine loses none either.
    tiny, lifetime = ("--width", "128", "--height", "72"), ("--session-lifetime", "8")
    result = numbers(broadcast(tmp_path, "--json", "--duration", "14", *tiny, *lifetime))
    assert result["frames_expected"] == 350
    assert result["frames_lost"] == 0
    assert result["handovers"] >= 2
    assert result["sessions"] > result["handovers"]
    assert 40 <= result["max_gap_ms"] < 3000
    assert recorded(result["recording"]) == list(range(350))
    heard = sound(result["recording"])
    assert len(heard) / 48_000 == pytest.approx(14, abs=0.1)
    assert likeness(heard, sound_of_the_film(350)) > 0.98
    drawn = ET.parse(result["timeline"]).getroot()
    assert len([text for text in drawn.itertext() if ", handover, " in text]) == result["handovers"]
    # A newcomer is told under the title what the word at an arrow means.
    assert any(f"count-complete: {IN_WORDS['count-complete']}" in text for text in drawn.itertext())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broadcast.mp4", "broadcast.svg"]


def test_what_is_lost_is_counted_and_named_and_the_programme_goes_on(tmp_path: Path) -> None:
    ran = broadcast(tmp_path / "told", "--drop", "--seed", "3", "--duration", "8")
    assert ran.returncode == 0, ran.stderr
    told = [line for line in ran.stdout.splitlines() if line.startswith("lost: ")]
    assert told
    assert all(" of scene " in line for line in told)
    lost = sum(int(line.split()[1]) for line in told)
    pictures = recorded(str(tmp_path / "told" / "broadcast.mp4"))
    assert pictures == sorted(set(pictures))
    assert len(pictures) == 200 - lost
    assert pictures[-1] > 150
    whys = {line.partition(": ")[2].partition(": ")[2].partition(",")[0] for line in told}
    explained = {f"{term}: {words}" for term, words in IN_WORDS.items() if term in whys}
    assert explained
    assert explained <= set(ran.stdout.splitlines())
    heard, whole = sound(str(tmp_path / "told" / "broadcast.mp4")), sound_of_the_film(200)
    assert likeness(heard, whole) > 0.6  # silent where something was lost, in place elsewhere


def test_every_word_of_the_timeline_has_a_meaning_in_plain_words() -> None:
    assert set(IN_WORDS) == {*get_args(HandoffKind), *get_args(LossReason)}


def test_the_result_is_a_table_for_a_person(tmp_path: Path) -> None:
    ran = broadcast(tmp_path, "--duration", "1", "--session-lifetime", "60")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    for words in ("sessions", "handovers", "frames expected", "25", "longest gap", "broadcast.svg"):
        assert words in ran.stdout
    assert "lost: " not in ran.stdout


def test_a_server_that_runs_already_is_used_and_left_running(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "examples.film_server", str(FILM), "--until-eof"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        url = f"ws://127.0.0.1:{port}"
        result = numbers(broadcast(tmp_path, "--json", "--duration", "1", "--url", url))
        assert result["frames_received"] == 25
        assert recorded(result["recording"]) == list(range(25))
        assert server.poll() is None


# ------------------------------------------------------------------------------ what goes wrong


def test_a_film_that_does_not_exist_is_named(tmp_path: Path) -> None:
    refused(
        broadcast(tmp_path, "--json", "--film", "/no/such/film.mp4"),
        "/no/such/film.mp4",
        "No such file",
    )


def test_a_film_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    film = tmp_path / "film.mp4"
    film.write_bytes(b"this is no film at all" * 100)
    refused(broadcast(tmp_path / "out", "--json", "--film", str(film)), str(film), "Invalid data")


def test_a_film_without_pictures_is_named(tmp_path: Path) -> None:
    film = tmp_path / "sound.mp4"
    with av.open(str(film), "w") as container:
        stream = container.add_stream("aac", rate=48_000, layout="mono")
        frame = av.AudioFrame(format="fltp", layout="mono", samples=4800)
        frame.rate = 48_000
        frame.planes[0].update(bytes(4 * 4800))
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    refused(broadcast(tmp_path / "out", "--json", "--film", str(film)), str(film), "no pictures")


def test_a_film_that_only_looks_like_one_is_refused_in_the_servers_words(tmp_path: Path) -> None:
    whole = FILM.read_bytes()
    index = whole.rindex(b"moov") - 4
    film = tmp_path / "hollow.mp4"
    film.write_bytes(whole[:64] + bytes(index - 64) + whole[index:])
    refused(broadcast(tmp_path / "out", "--json", "--film", str(film)), str(film))


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"ws://127.0.0.1:{taken.getsockname()[1]}"
    refused(broadcast(tmp_path, "--json", "--url", url), url, "cannot be reached")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"220 mail.example ESMTP\r\n", b""],
    ids=["http", "smtp", "nothing"],
)
def test_a_server_that_speaks_something_else_is_named(tmp_path: Path, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(4096)
                client.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
        refused(broadcast(tmp_path, "--json", "--url", url), url)
        server.join()


def test_an_output_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    refused(broadcast(file / "out", "--json"), str(file / "out" / "broadcast.mp4"))


def test_a_full_disk_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "broadcast.mp4.part").symlink_to("/dev/full")
    ran = broadcast(tmp_path, "--json", "--duration", "60")
    refused(ran, str(tmp_path / "broadcast.mp4"), "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_may_not_grow_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    def no_large_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    ran = broadcast(tmp_path, "--json", "--duration", "60", limit=no_large_files)
    refused(ran, str(tmp_path / "broadcast.mp4"), "File too large")
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_dies_ends_the_broadcast_and_is_named(
    tmp_path: Path, on_air: subprocess.Popen[str]
) -> None:
    (server,) = children(on_air.pid)
    os.kill(server, signal.SIGKILL)
    stdout, stderr = on_air.communicate(timeout=PATIENCE)
    refused(
        subprocess.CompletedProcess([], on_air.returncode, stdout, stderr),
        "the film server ended by itself",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flag", ["--drop", "--json", "--verbose"])
def test_help_shows_a_flag_without_a_value(flag: str) -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    (line,) = (line for line in shown.splitlines() if f" {flag} " in line)
    assert "<" not in line


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_everything_in_order(
    tmp_path: Path, on_air: subprocess.Popen[str], sign: signal.Signals
) -> None:
    (server,) = children(on_air.pid)
    on_air.send_signal(sign)
    stdout, stderr = on_air.communicate(timeout=PATIENCE)
    assert on_air.returncode == 128 + sign
    assert (stdout, stderr) == ("", "interrupted\n")
    assert not Path(f"/proc/{server}").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        ("--duration", "0"),
        ("--duration", "nan"),
        ("--session-lifetime", "-4"),
        ("--lead", "4"),
        ("--lead", "-1"),
        ("--width", "101"),
        ("--height", "20000"),
        ("--url", "http://127.0.0.1:80"),
        ("--seed", "x"),
        ("--frame-rate", "0"),
    ],
    ids="=".join,
)
def test_a_value_that_makes_no_sense_is_refused_by_the_name_of_its_option(
    tmp_path: Path, options: tuple[str, str]
) -> None:
    ran = CliRunner().invoke(app, ["--json", "--output-dir", str(tmp_path), *options])
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert options[0] in ran.stderr
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_with_a_url_is_said_once(tmp_path: Path) -> None:
    options = ["--json", "--output-dir", str(tmp_path), "--url", "http://127.0.0.1:80"]
    ran = CliRunner().invoke(app, options)
    assert ran.stderr == "--url: begins with ws:// or wss://, not 'http'\n"
