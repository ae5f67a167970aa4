"""Processes that come and go under hundreds of seeds, with faults: nothing runs unseen."""

from __future__ import annotations

import pytest
from allocation_world import draw_faults, world

from trio_reactor.testing import run, simulate

SEEDS = 300
PARTS = 3


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_goes_wrong_nothing_paid_for_is_left_running_unseen(part: int) -> None:
    summary = simulate(world, range(part, SEEDS, PARTS), faults=draw_faults)
    assert summary.counts["over"] == summary.runs
    for how in ("adopted", "terminated", "unconfirmed", "failed"):
        assert summary.counts[how] > 0, how


def test_the_same_seed_is_the_same_story() -> None:
    for seed in (5, 41):
        one = run(world, seed=seed, faults=draw_faults)
        assert one.fingerprint == run(world, seed=seed, faults=draw_faults).fingerprint
