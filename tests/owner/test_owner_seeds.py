"""Two thousand seeds of a randomized world around one owner, in the whole well under 30 seconds."""

from __future__ import annotations

import logging

import pytest

from benchmarks.owner_world import draw_faults, owner_world, play
from trio_reactor.testing import Schedule, run

SEEDS = 2_000
PARTS = 8


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of things are late by design, and a warning is logged for each."""
    caplog.set_level(logging.ERROR, "trio_reactor.owner")


@pytest.mark.parametrize("part", range(PARTS))
def test_under_no_seed_is_anything_broken(part: int) -> None:
    summary = play(range(part, SEEDS, PARTS))
    assert summary.runs == SEEDS // PARTS
    # It is a world in which enough happens to mean something.
    assert summary.counts["opened"] > 3 * summary.runs
    for what in (
        "failed",
        "cancelled",
        "close asked for",
        "fault",
        "told Lost",
        "told Expired",
        "told Retired",
        "told Closed",
        "told Refused",
        "told RuntimeError",
        "told TimedOut",
        "told Failed",
        "told ExceptionGroup",
    ):
        assert summary.counts[what] >= 3, what


@pytest.mark.parametrize("seed", [5240, 7791])
def test_seeds_that_failed_once_do_not_fail_again(seed: int) -> None:
    run(owner_world, seed=seed, faults=draw_faults)


@pytest.mark.parametrize("seed", range(20))
def test_it_holds_too_where_many_tasks_are_held_back(seed: int) -> None:
    run(owner_world, seed=seed, faults=draw_faults, schedule=Schedule(hold=0.5, longest=8))


def test_the_same_seed_does_the_same() -> None:
    first, second = (run(owner_world, seed=7, faults=draw_faults) for _ in range(2))
    assert first.fingerprint == second.fingerprint
