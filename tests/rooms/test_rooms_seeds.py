"""Many seeds of a randomized world of rooms."""

from __future__ import annotations

import logging

import pytest
from rooms_world import draw_faults, rooms_world

from trio_reactor.testing import Schedule, run, simulate

SEEDS = 300
PARTS = 6

FAILED_ONCE = [
    244,  # a connection that was lost while its rooms were listed anew, as all was being closed
]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of things go wrong by design, and each is logged."""
    caplog.set_level(logging.CRITICAL, "trio_reactor")


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_under_no_seed_is_a_word_lost_or_applied_twice(part: int) -> None:
    summary = simulate(rooms_world, range(part, SEEDS, PARTS), faults=draw_faults)
    assert summary.runs == SEEDS // PARTS
    # Every client of every run has come together with the authority, after a busy time.
    assert summary.counts["converged"] == 3 * summary.runs
    assert summary.counts["acknowledged"] > 2 * summary.runs
    for what in ("fault", "lost", "refused", "synchronized", "closed"):
        assert summary.counts[what] > summary.runs, what


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_seeds_that_failed_once_do_not_fail_again(seed: int) -> None:
    run(rooms_world, seed=seed, faults=draw_faults)


@pytest.mark.parametrize("seed", range(5))
def test_it_holds_too_where_many_tasks_are_held_back(seed: int) -> None:
    run(rooms_world, seed=seed, faults=draw_faults, schedule=Schedule(hold=0.5, longest=8))
