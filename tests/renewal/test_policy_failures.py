"""Lifetimes, failures in a row, and the pauses between them."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.policy.failures import FailureCount, counts_as_failed, pause
from trio_reactor.renewal.policy.lifespan import Lifespan, lifetime_fault, notice_fault, plan


@pytest.mark.parametrize(
    ("lifetime", "lead"),
    [
        (math.nan, 0),
        (math.inf, 0),
        (-math.inf, 0),
        (0, 0),
        (0.0, 30),
        (-1, 0),
        (30, 30),
        (29.9, 30),
        ("60", 30),
        (True, 0),
    ],
)
def test_a_lifetime_that_makes_no_sense_has_a_fault(lifetime: object, lead: float) -> None:
    fault = lifetime_fault(lifetime, lead)
    assert fault is not None
    assert "lifetime" in fault


@pytest.mark.parametrize(
    ("lifetime", "lead"), [(None, 30), (None, 0), (30.1, 30), (0.1, 0), (60, 30)]
)
def test_a_lifetime_longer_than_the_lead_has_none(lifetime: float | None, lead: float) -> None:
    assert lifetime_fault(lifetime, lead) is None


def test_a_faulty_lifetime_has_no_plan() -> None:
    with pytest.raises(ValueError, match="not longer than the lead"):
        plan(0.0, 30.0, RenewalOptions(lead=30), Random(1))


def test_the_next_is_due_a_lead_before_the_end_and_somewhat_earlier_by_chance() -> None:
    options = RenewalOptions(lead=30, jitter=0.1)
    due = [plan(100.0, 3600.0, options, Random(seed)).prepare_at for seed in range(200)]
    assert all(at is not None and 3667.0 <= at <= 3670.0 for at in due)
    assert len(set(due)) > 190, "a fleet does not renew in one second"


@given(
    lifetime=st.floats(1e-3, 1e6),
    share=st.floats(0, 0.999),
    jitter=st.floats(0, 1),
    seed=st.integers(0, 100),
)
def test_the_instants_of_a_life_are_in_order(
    lifetime: float, share: float, jitter: float, seed: int
) -> None:
    options = RenewalOptions(lead=lifetime * share, jitter=jitter)
    life = plan(50.0, lifetime, options, Random(seed))
    assert life.expires_at == 50.0 + lifetime
    assert 50.0 <= life.stable_at <= life.expires_at
    if life.prepare_at is not None:
        assert 50.0 <= life.prepare_at <= life.expires_at
        assert life.prepare_at <= life.expires_at - options.lead + 1e-6
        assert life.stable_at <= life.prepare_at
    assert (life.prepare_at is None) == (options.lead == 0)


def test_without_an_end_or_without_a_lead_nothing_is_due() -> None:
    endless = plan(0.0, None, RenewalOptions(), Random(1))
    assert (endless.expires_at, endless.prepare_at, endless.left(1e9)) == (None, None, None)
    unled = plan(0.0, 10.0, RenewalOptions(lead=0), Random(1))
    assert (unled.expires_at, unled.prepare_at) == (10.0, None)


def test_a_source_can_bring_its_end_forward_and_never_put_it_off() -> None:
    life = Lifespan(opened_at=0.0, expires_at=100.0, prepare_at=70.0, stable_at=30.0)
    assert life.shortened(10.0, 200.0, lead=30.0) is life
    assert life.shortened(10.0, 90.0, lead=30.0) is life
    sooner = life.shortened(10.0, 50.0, lead=30.0)
    assert (sooner.expires_at, sooner.prepare_at, sooner.stable_at) == (60.0, 30.0, 30.0)
    at_once = life.shortened(10.0, 5.0, lead=30.0)
    assert (at_once.expires_at, at_once.prepare_at) == (15.0, 10.0)
    late = life.shortened(10.0, -3.0, lead=30.0)
    assert (late.expires_at, late.left(10.0), late.age(10.0)) == (10.0, 0.0, 10.0)


def test_an_endless_source_can_be_given_an_end() -> None:
    endless = Lifespan(opened_at=0.0, expires_at=None, prepare_at=None, stable_at=30.0)
    ended = endless.shortened(10.0, 60.0, lead=20.0)
    assert (ended.expires_at, ended.prepare_at) == (70.0, 50.0)
    assert endless.shortened(10.0, 60.0, lead=0.0).prepare_at is None


@pytest.mark.parametrize("expires_in", [math.nan, math.inf, "soon", None, True])
def test_a_notice_that_makes_no_sense_has_a_fault(expires_in: object) -> None:
    assert notice_fault(expires_in) is not None
    life = Lifespan(opened_at=0.0, expires_at=None, prepare_at=None, stable_at=30.0)
    with pytest.raises(ValueError, match="the notice gives"):
        life.shortened(0.0, expires_in, lead=0.0)  # type: ignore[arg-type]


def test_failures_add_up_in_a_row_and_end_it_at_the_bound() -> None:
    count = FailureCount()
    for number in range(1, 9):
        assert not count.exhausted(8)
        count = count.failed(float(number))
        assert count.consecutive == number
    assert count.exhausted(8)


def test_one_permanent_refusal_is_enough_and_nothing_takes_it_back() -> None:
    count = FailureCount().failed(1.0, permanent=True)
    assert count.exhausted(8)
    assert count.settled(1000.0, stable_at=10.0).exhausted(8)
    assert count.failed(1000.0, stable_at=10.0).permanent


def test_a_source_lost_early_counts_as_failed_and_one_that_lived_longer_begins_anew() -> None:
    assert counts_as_failed(29.9, 30.0)
    assert not counts_as_failed(30.0, 30.0)
    count = FailureCount().failed(0.0)
    early = count.ended(29.0, stable_at=30.0)
    assert early.consecutive == 2
    assert count.ended(31.0, stable_at=30.0) == FailureCount()


def test_preparations_that_fail_beside_a_good_source_are_in_a_row() -> None:
    count = FailureCount().failed(5.0)
    for number in range(1, 5):  # the source on air became a good one at 30
        count = count.failed(100.0 + number, stable_at=30.0)
        assert count.consecutive == number, "the failure before it was good is forgotten, no other"
    assert count.ended(200.0, stable_at=30.0).consecutive == 4
    # The next source has to prove itself before they are forgotten.
    assert count.settled(229.0, stable_at=230.0).consecutive == 4
    assert count.settled(230.0, stable_at=230.0).consecutive == 0


def test_no_total_over_a_life_is_counted_against_it() -> None:
    count = FailureCount()
    for renewal in range(10_000):
        opened = renewal * 100.0
        count = count.failed(opened + 90.0, stable_at=opened + 30.0)
        assert count.consecutive == 1


def test_short_lives_that_are_handed_over_as_planned_are_good_ones() -> None:
    options = RenewalOptions(lead=2, jitter=0.5, stable_after=60)
    count = FailureCount()
    for renewal in range(100):
        life = plan(renewal * 10.0, 10.0, options, Random(renewal))
        assert life.prepare_at is not None
        count = count.failed(life.opened_at, stable_at=None)  # one failed attempt each
        count = count.ended(life.prepare_at, stable_at=life.stable_at)
        assert count.consecutive == 0


def test_a_source_that_announces_its_end_as_soon_as_it_opens_is_found_out() -> None:
    options = RenewalOptions(lead=5, max_failures=4)
    count = FailureCount()
    opened = 0
    while not count.exhausted(options.max_failures):
        life = plan(opened * 10.0, 3600.0, options, Random(1))
        life = life.shortened(life.opened_at, 6.0, lead=options.lead)
        opened += 1
        count = count.ended(life.opened_at + 2.0, stable_at=life.stable_at)
    assert opened == 4


def test_a_pause_doubles_to_its_bound_and_is_shortened_by_chance() -> None:
    steady = RenewalOptions(first_pause=1, max_pause=30, pause_jitter=0)
    assert [pause(count, steady, Random(1)) for count in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]
    assert pause(10**9, steady, Random(1)) == 30
    spread = RenewalOptions(first_pause=1, max_pause=30, pause_jitter=0.5)
    drawn = {pause(4, spread, Random(seed)) for seed in range(100)}
    assert len(drawn) > 90
    assert all(4 <= each <= 8 for each in drawn)
