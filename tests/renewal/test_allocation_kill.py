"""A process is killed at each step of what it records; the next one leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from allocation_child import STEPS

CHILD = Path(__file__).with_name("allocation_child.py")

RUNNING = ("allocated", "identity-written", "on-air", "closing")
"""The steps at which a session runs on without its process."""

RECORDED = ("intent-written", "allocated", "identity-written", "on-air", "closing", "closed")
"""The steps after which something is recorded."""


def live(directory: Path, step: str, recovery: str) -> list[str]:
    """Run a process, to its end or to that step; returns what it said it did with what it found."""
    done = subprocess.run(
        [sys.executable, "-W", "error", CHILD, directory, step, recovery],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == (0 if step == "none" else -signal.SIGKILL), done.stderr
    return done.stdout.split()


def sessions(directory: Path) -> list[str]:
    return sorted(each.name for each in (directory / "sessions").iterdir())


def check(directory: Path) -> list[str]:
    """The provider has nothing, and had nothing twice; returns what it did."""
    log = (directory / "log").read_text().splitlines()
    assert sessions(directory) == []
    allocated = [line for line in log if line.startswith("allocated")]
    ended = [line for line in log if line.startswith("ended")]
    assert len(set(allocated)) == len(allocated)
    assert {line.split()[1] for line in allocated} == {line.split()[1] for line in ended}
    assert len(ended) == len(allocated)
    return log


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    return tmp_path


@pytest.mark.parametrize("recovery", ["adopt", "terminate"])
@pytest.mark.parametrize("step", STEPS)
def test_whatever_step_a_process_died_at_the_next_one_leaves_nothing_running(
    directory: Path, step: str, recovery: str
) -> None:
    live(directory, step, recovery)
    left = sessions(directory)
    assert len(left) == (step in RUNNING), "the witness saw it die there"

    did = live(directory, "none", recovery)
    log = check(directory)
    known = step in ("identity-written", "on-air", "closing")
    if recovery == "adopt" and known:
        assert did == ["adopted"]
        # The session that was running is the one that went on: no second one was paid for.
        assert log == [f"allocated {left[0]}", f"adopted {left[0]}", f"ended {left[0]}"]
    elif step in RECORDED:
        assert did == ["terminated"]
    else:
        assert did == []


@pytest.mark.parametrize("recovery", ["adopt", "terminate"])
def test_a_process_that_dies_while_it_recovers_is_recovered_from_as_well(
    directory: Path, recovery: str
) -> None:
    for first, second in (("allocated", "identity-written"), ("on-air", "closed")):
        live(directory, first, recovery)
        live(directory, second, recovery)
        live(directory, "none", recovery)
        check(directory)
