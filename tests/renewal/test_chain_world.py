"""Whole chains under hundreds of seeds, with faults."""

from __future__ import annotations

import pytest
from chain_world import bound_world, draw_faults, world

from trio_reactor.testing import run, simulate

SEEDS = 240
PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_goes_wrong_the_promises_hold(part: int) -> None:
    summary = simulate(world, range(part, SEEDS, PARTS), faults=draw_faults)
    assert summary.counts["on-air"] > summary.runs
    assert summary.counts["off-air"] > 0


@pytest.mark.parametrize("part", range(2))
def test_where_nothing_goes_wrong_everything_is_played(part: int) -> None:
    summary = simulate(world, range(1000 + part, 1060, 2))
    assert summary.counts["on-air"] > summary.runs


@pytest.mark.parametrize("part", range(2))
def test_requests_that_are_bound_to_sources_keep_their_promises_too(part: int) -> None:
    summary = simulate(bound_world, range(part, 160, 2), faults=draw_faults)
    assert summary.counts["sealed"] > 0
    assert summary.counts["sequence-over"] > 0


def test_the_same_seed_is_the_same_session() -> None:
    for seed in (3, 77):
        one = run(world, seed=seed, faults=draw_faults)
        other = run(world, seed=seed, faults=draw_faults)
        assert one.fingerprint == other.fingerprint
