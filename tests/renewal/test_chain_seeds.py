"""Thousands of seeds of a randomized world around one renewal."""

from __future__ import annotations

import logging

import pytest

from benchmarks.renewal_acts import ACTS
from benchmarks.renewal_world import draw_faults, play, renewal_world
from trio_reactor.testing import Schedule, run, simulate

SEEDS = 2_000
PARTS = 10

FAILED_ONCE = [
    772,  # a clip that ended while its pictures could not come was named lost by nobody
]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of things are late by design, and a warning is logged for each."""
    caplog.set_level(logging.ERROR, "trio_reactor.owner")


@pytest.mark.parametrize("part", range(PARTS))
def test_under_no_seed_is_a_promise_broken(part: int) -> None:
    summary = play(range(part, SEEDS, PARTS))
    assert summary.runs == SEEDS // PARTS
    # It is a world in which enough happens to mean something.
    assert summary.counts["on-air"] > 1.5 * summary.runs
    assert summary.counts["dispatched"] > 3 * summary.runs
    for what in (
        "handed over",
        "replaced",
        "fault",
        "cancelled",
        "over: closed",
        "over: failed",
        "told SessionRecovering",
        "told Lost",
        "told Refused",
        "told Closed",
        "told SessionRetired",
        "told QueueFull",
        "told SequenceUnknown",
        "told InputOverflow",
        "renewed",
        "cut short",
        "checked",
        "resumption refused",
        "input accepted",
        "sealed while some was pending",
        "sequence forgotten to make room",
        "told not to close inside",
        *(f"act: {act}" for act in ACTS),
    ):
        assert summary.counts[what] >= 1, what


@pytest.mark.parametrize("part", range(2))
def test_where_nothing_fails_by_itself_none_is_broken_either(part: int) -> None:
    summary = simulate(renewal_world, range(10_000 + part, 10_100, 2))
    assert summary.counts["on-air"] > 1.5 * summary.runs


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_seeds_that_failed_once_do_not_fail_again(seed: int) -> None:
    run(renewal_world, seed=seed, faults=draw_faults)


@pytest.mark.parametrize("seed", range(20))
def test_they_hold_too_where_many_tasks_are_held_back(seed: int) -> None:
    run(renewal_world, seed=seed, faults=draw_faults, schedule=Schedule(hold=0.5, longest=8))


def test_the_same_seed_is_the_same_session() -> None:
    for seed in (3, 77):
        one = run(renewal_world, seed=seed, faults=draw_faults)
        other = run(renewal_world, seed=seed, faults=draw_faults)
        assert one.fingerprint == other.fingerprint
