"""The plugin host as its user sees it: a command, real processes, and nothing of them left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import trio
from trio.testing import memory_stream_pair
from typer.testing import CliRunner

from examples.workers import words
from examples.workers.__main__ import app
from examples.workers.client import Client, Told
from examples.workers.serving import reply
from trio_reactor.errors import Busy, Lost

ROOT = Path(__file__).parents[2]
PATIENCE = 100.0
OURS = "TEST_OF_WORKERS"

pytestmark = [pytest.mark.timeout(150), pytest.mark.long]


@pytest.fixture
def mark() -> str:
    return os.urandom(8).hex()


def begin(mark: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "examples.workers", "--json", *options],
        cwd=ROOT,
        env={**os.environ, OURS: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(mark: str, *options: str) -> subprocess.CompletedProcess[str]:
    with begin(mark, *options) as process:
        out, error = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess([], process.returncode, out, error)


def living(mark: str) -> dict[int, str]:
    """What carries the mark and lives, with its arguments."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if f"{OURS}={mark}".encode() not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                arguments = (entry / "cmdline").read_bytes()
                found[int(entry.name)] = arguments.replace(b"\0", b" ").decode()
    return found


def numbers(ran: subprocess.CompletedProcess[str]) -> dict[str, int]:
    told: dict[str, int] = json.loads(ran.stdout.splitlines()[-1])
    names = ["sessions", "calls", "expired", "superseded", "recovered", "orphans"]
    assert list(told) == names
    return told


def test_the_whole_story_leaves_no_orphan(mark: str, tmp_path: Path) -> None:
    ran = run(mark, "--directory", str(tmp_path), "--timeline", str(tmp_path / "story.svg"))
    assert (ran.returncode, ran.stderr) == (0, "")
    told = numbers(ran)
    calls = told.pop("calls")
    # Seven are kept running in both lives; eight are for the scenes.
    assert told == {"sessions": 22, "expired": 1, "superseded": 1, "recovered": 7, "orphans": 0}
    assert calls >= 2 * 18 + 8
    assert living(mark) == {}
    drawn = ET.fromstring((tmp_path / "story.svg").read_text())
    texts = " ".join("".join(each.itertext()) for each in drawn.iter())
    for words_ in ("pondering", "unresponsive", "superseded", "expired", "recovered"):
        assert words_ in texts

    # The keys of a journal that is used again go on from where they were; and this time a person
    # sees a table, and where it hung.
    again = subprocess.run(
        [sys.executable, "-m", "examples.workers", "--directory", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (again.returncode, again.stderr) == (0, "")
    for words_ in (
        "in thinking_for_ever",
        "the memory at address 0",
        "exited: signal 11",
        "superseded: ",
        "expired: ",
        "unresponsive: ",
        "Orphans: 0",
    ):
        assert words_ in again.stdout


def test_plugins_that_are_of_no_use_are_named_and_the_others_go_on(
    mark: str, tmp_path: Path
) -> None:
    good = tmp_path / "good.py"
    good.write_text(Path(words.__file__).read_text())
    broken = tmp_path / "broken.py"
    broken.write_text("import no_module_of_this_name\n")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(good.read_text().replace('"goes": 1', '"goes": 7'))
    silent = tmp_path / "silent.py"
    silent.write_text("def main(session):\n    pass\n")
    unfit = tmp_path / "un-fit.py"
    unfit.touch()
    missing = tmp_path / "missing.py"
    shadowed = tmp_path / "io.py"
    shadowed.write_text(good.read_text())
    files = (good, broken, wrong, silent, unfit, missing, shadowed)
    ran = run(mark, *(f"--plugin={file}" for file in files))
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    said = ran.stderr.splitlines()
    for file, why in (
        (broken, "no_module_of_this_name"),
        (wrong, "wrong answer"),
        (silent, "ended before it|exited, with status 0"),
        (unfit, "not that of a Python module"),
        (missing, "no such file"),
        (shadowed, "'io' has no attribute"),
    ):
        found = [line for line in said if str(file) in line and re.search(why, line)]
        assert len(found) == 1, (file, ran.stderr)
    assert str(good) not in ran.stderr
    told = numbers(ran)
    assert (told["recovered"], told["orphans"]) == (7, 0)
    assert living(mark) == {}


def wait_for_children(process: subprocess.Popen[str], mark: str, least: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while sum("marshal" in arguments for arguments in living(mark).values()) < least:
        assert process.poll() is None
        assert time.monotonic() < deadline


@pytest.fixture
def at_work(mark: str) -> Iterator[subprocess.Popen[str]]:
    with begin(mark) as process:
        try:
            wait_for_children(process, mark, 8)
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_it_works_leaves_nothing_running(
    at_work: subprocess.Popen[str], mark: str, sign: signal.Signals
) -> None:
    at_work.send_signal(sign)
    out, error = at_work.communicate(timeout=PATIENCE)
    assert (at_work.returncode, out, error) == (128 + sign, "", "interrupted\n")
    assert living(mark) == {}


def test_it_is_killed_itself_and_all_ends_by_itself(
    at_work: subprocess.Popen[str], mark: str
) -> None:
    at_work.kill()
    at_work.wait(PATIENCE)
    for pid in living(mark):
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            signal.pidfd_send_signal(fd, 0)
            with open(fd, closefd=True) as waited:
                poll = select.poll()
                poll.register(waited, select.POLLIN)
                assert poll.poll(PATIENCE * 1000)
    assert living(mark) == {}


def test_a_host_that_fails_is_told_in_its_own_words(mark: str, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"this is no journal at all" * 100)
    ran = run(mark, "--directory", str(tmp_path))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "journal.db" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert living(mark) == {}


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = CliRunner().invoke(app, ["--json", "--directory", str(tmp_path / "file" / "in")])
    assert ran.exit_code == 1
    assert str(tmp_path / "file" / "in") in ran.output


# ------------------------------------------------------------------------------ the protocol


def test_what_a_plugin_raises_is_told_to_whoever_asked() -> None:
    def answer(request: int) -> float:
        return 1 / request

    assert json.loads(reply(b'{"id":1,"method":"answer","of":4}', answer)) == {
        "id": 1,
        "answer": 0.25,
    }
    assert json.loads(reply(b'{"id":2,"method":"answer","of":0}', answer)) == {
        "id": 2,
        "error": "ZeroDivisionError: division by zero",
    }


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b'{"id":2,"answer":1}\n', "answered request 2"),
        (b"hello\n", "no answer"),
        (b'{"id":1,"error":"no idea"}\n', "could not answer"),
        (b'{"id":1,"answer', "ended before it answered"),
        (b"x" * 1_048_577, "longer"),
    ],
)
async def test_what_is_no_answer_is_refused(said: bytes, why: str) -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(said)
    await theirs.send_eof()
    with pytest.raises((Told, Lost), match=why):
        await Client(ours).ask("anything")


async def test_a_client_whose_request_was_abandoned_is_spent(autojump_clock: Any) -> None:
    ours, _ = memory_stream_pair()
    client = Client(ours)
    with trio.move_on_after(1):
        await client.ask("anything")
    with pytest.raises(Busy):
        await client.ask("something else")
