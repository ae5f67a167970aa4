"""Thousands of seeds of a randomized world of supervisors."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.supervision_acts import ACTS
from benchmarks.supervision_world import draw_faults, play, supervision_world
from trio_reactor.testing import Schedule, run, simulate

SEEDS = 2_000
PARTS = 10

FAILED_ONCE = [
    12,  # the journal failed with the last ends, and close raised nothing
    22,  # an open that close overtook was said to stop before it was said to be opened
]

PRINTING = """
import logging
logging.disable(logging.CRITICAL)
from benchmarks.supervision_world import draw_faults, supervision_world
from trio_reactor.testing import run
for seed in (4, 71, 205):
    print(run(supervision_world, seed=seed, faults=draw_faults).fingerprint)
"""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of things go wrong by design, and each is logged."""
    caplog.set_level(logging.CRITICAL, "trio_reactor.owner")
    caplog.set_level(logging.CRITICAL, "trio_reactor.supervision")


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_under_no_seed_is_a_word_broken(part: int) -> None:
    summary = play(range(part, SEEDS, PARTS))
    assert summary.runs == SEEDS // PARTS
    # It is a world in which enough happens to mean something.
    assert summary.counts["acknowledged open"] > 2 * summary.runs
    assert summary.counts["runs"] > 0.5 * summary.runs
    for what in (
        "crash",
        "cancelled",
        "fault",
        "found again",
        "acknowledged load",
        "acknowledged stop",
        "renewed",
        "drained",
        "poisoned",
        "ended-unused",
        "jump",
        "SessionRecovered",
        "SessionForgotten",
        "told AdmissionFull",
        "told Closed",
        "told CodeFailed",
        "told LeaseExpired",
        "told SessionConflict",
        "told SessionStopped",
        "told StaleSession",
        "told StoreFailed",
        "told SupervisorPoisoned",
        "told RecordRefused",
        *(f"act: {act}" for act in ACTS),
    ):
        assert summary.counts[what] >= 1, what


def test_where_nothing_fails_by_itself_none_is_broken_either() -> None:
    summary = simulate(supervision_world, range(10_000, 10_100))
    assert summary.counts["SessionAdopted"] >= 1
    assert summary.counts["runs"] > 0.5 * summary.runs


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_seeds_that_failed_once_do_not_fail_again(seed: int) -> None:
    run(supervision_world, seed=seed, faults=draw_faults)


@pytest.mark.parametrize("seed", range(20))
def test_they_hold_too_where_many_tasks_are_held_back(seed: int) -> None:
    schedule = Schedule(hold=0.5, longest=8)
    run(supervision_world, seed=seed, faults=draw_faults, schedule=schedule)


def test_the_same_seed_is_the_same_story_in_any_process() -> None:
    def printed(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", PRINTING],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    assert printed("1") == printed("2")
