"""A supervisor is killed at every step there is, and started again."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from crash_story import CODE, LEASE

from trio_reactor.supervision import (
    Loaded,
    LocalProcesses,
    PythonCode,
    SqliteStore,
    Stopped,
    SupervisorOptions,
    open_supervisor,
)

ROOT = Path(__file__).parent.parent.parent
SHARES = 4
"""In how many tests the steps are told, so that they can run side by side."""

GRACE = 1.5
"""Seconds in which a guard that has lost its supervisor, or its lease, must have ended everything,
on a machine that has other things to do."""


class Mould:
    """The process that plays stories, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).parent / "crash_story.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )

    def play(self, directory: Path, *, fatal: int, orphaned: str, tag: str, play: bool) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "directory": str(directory),
            "fatal": fatal,
            "orphaned": orphaned,
            "tag": tag,
            "play": play,
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        status: int = json.loads(self._process.stdout.readline())
        return status

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture
def mould() -> Iterator[Mould]:
    made = Mould()
    yield made
    made.close()


def stage(tmp_path: Path, name: str) -> Path:
    directory = tmp_path / name
    directory.mkdir()
    (directory / "crash_code.py").write_text(CODE)
    return directory


def alive(tag: str) -> list[int]:
    """The processes that a story started, by what the operating system says."""
    mark = f"CRASH_STORY={tag}".encode()
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            environment = Path("/proc", entry, "environ").read_bytes()
            state = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark in environment.split(b"\0") and state not in "ZX":
            found.append(int(entry))
    return found


def wait_ended(pids: list[int], timeout: float) -> None:
    """Wait until the operating system says that all of these are gone."""
    until = time.monotonic() + timeout
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            left = max(0.0, until - time.monotonic())
            ended, _, _ = select.select([fd], [], [], left)
            assert ended, f"process {pid} still runs"
        finally:
            os.close(fd)


def facts(directory: Path) -> list[dict[str, Any]]:
    path = directory / "acknowledged"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def _see_to_it(directory: Path, orphaned: str, tag: str) -> None:
    """Start again, and compare what there is with what was acknowledged."""
    left = alive(tag)
    options = SupervisorOptions.model_validate(
        {"lease": LEASE, "grace": 0.2, "confirmation_timeout": 5.0, "orphaned": orphaned}
    )
    store = SqliteStore(directory / "journal.db")
    async with open_supervisor(store, LocalProcesses(), options=options) as supervisor:
        adopted = False
        generations: dict[str, int] = {}
        for fact in facts(directory):
            if "opened" in fact:
                key, generation = fact["opened"], fact["generation"]
                known = await supervisor.open(key, request=fact["request"])
                assert known.handle.generation == generation, fact
                generations[key] = max(generation, generations.get(key, 0))
                if isinstance(known.phase, Loaded):
                    adopted = True
                else:
                    assert isinstance(known.phase, Stopped), fact
            elif "disposed" in fact:
                known = await supervisor.open(fact["disposed"], request="b1")
                assert isinstance(known.phase, Stopped)
                assert known.phase.stop.reason == "disposed"
                assert not known.phase.recovered
        assert adopted <= (orphaned == "adopt")
        if not adopted:
            # What the last one left has ended before anything is served.
            assert not [pid for pid in alive(tag) if pid in left]
        for key in ("a", "b", "c"):
            high = await supervisor.high_water(key)
            assert (high or 0) >= generations.get(key, 0)
            again = await supervisor.open(key, expected_generation=high)
            assert again.handle.generation == (high or 0) + 1
            work = PythonCode(
                "crash_code:obedient", path=(str(directory),), argument=str(directory)
            )
            await supervisor.load(again.handle, work)


def _steps(mould: Mould, tmp_path: Path, orphaned: str) -> list[str]:
    directory = stage(tmp_path, "rehearsal")
    tag = uuid.uuid4().hex
    assert mould.play(directory, fatal=0, orphaned=orphaned, tag=tag, play=True) == 0, (
        directory / "failure"
    ).read_text()
    assert not alive(tag)
    steps = (directory / "steps").read_text().splitlines()
    assert len(steps) > 50
    return steps


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("orphaned", ["kill", "adopt"])
def test_killed_at_any_step_nothing_is_orphaned_nothing_runs_twice_nothing_is_lost(
    mould: Mould, tmp_path: Path, orphaned: str, share: int
) -> None:
    steps = _steps(mould, tmp_path, orphaned)
    for fatal in range(1 + share, len(steps) + 1, SHARES):
        directory = stage(tmp_path, f"step-{fatal}")
        tag = uuid.uuid4().hex
        status = mould.play(directory, fatal=fatal, orphaned=orphaned, tag=tag, play=True)
        where = f"killed at step {fatal}: {steps[fatal - 1]}"
        assert status in (-9, 0), where  # the last steps' order may differ from the rehearsal's
        try:
            if fatal % 3 == 0:
                # Nobody comes: what is left ends by itself.
                wait_ended(alive(tag), GRACE + (LEASE if orphaned == "adopt" else 0.0))
            trio.run(_see_to_it, directory, orphaned, tag)
            wait_ended(alive(tag), GRACE)
            assert not (directory / "overlap").exists()
        except BaseException as failure:
            failure.add_note(where)
            raise


def test_killed_at_any_step_of_a_recovery_the_next_one_sees_to_it(
    mould: Mould, tmp_path: Path
) -> None:
    steps = _steps(mould, tmp_path, "adopt")
    loaded = next(n for n, step in enumerate(steps, 1) if step == "written: b generation 1 loaded")
    for fatal in range(1, 40):
        directory = stage(tmp_path, f"step-{fatal}")
        tag = uuid.uuid4().hex
        first = mould.play(directory, fatal=loaded, orphaned="adopt", tag=tag, play=True)
        assert first == -9
        status = mould.play(directory, fatal=fatal, orphaned="kill", tag=tag, play=False)
        trio.run(_see_to_it, directory, "kill", tag)
        assert not (directory / "overlap").exists()
        assert not alive(tag)
        if status == 0:
            break
    else:
        pytest.fail("the recovery never came to its end")
