"""Hosts that are paused, cut off and restarted never run one key twice at a time."""

from __future__ import annotations

import pytest
from tenure_world import Hasty, Play

from trio_reactor.testing import run

SEEDS = 500
PARTS = 5


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_outside_witness_ever_sees_two_executions_of_one_key(part: int) -> None:
    started = taken = fenced = 0
    seeds = range(part, SEEDS, PARTS)
    for seed in seeds:
        result = run(Play(), seed=seed)
        assert result.value.overlaps == 0, f"seed {seed}"
        started += result.value.started
        kinds = [fact.what for fact in result.trace]
        taken += kinds.count("taken")
        fenced += kinds.count("fenced")
    # It is only worth something if all of it happens.
    assert started > 4 * len(seeds)
    assert taken > len(seeds) / 4
    assert fenced > len(seeds) / 40


def test_the_witness_does_see_them_where_nobody_waits_out_a_lease() -> None:
    assert any(run(Play(margin=0.0, journal=Hasty), seed=seed).value.overlaps for seed in range(30))
