"""When another host's keys may be taken: every combination of what can be known."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.supervision.hosts.takeover import (
    Fence,
    Free,
    Lives,
    Seen,
    Watch,
    beat_period,
    decide,
    default_margin,
    horizon_of,
)
from trio_reactor.supervision.store.protocol import HostFacts

LEASE = 9.0
MARGIN = 1.0
OVER = 100.0 + LEASE + MARGIN


def facts(beats: int = 5, *, fenced: bool = False, timeline: str = "1") -> HostFacts:
    return HostFacts("host:1", "host", beats, LEASE, fenced, timeline)


def test_the_horizon_counts_from_before_the_beat_was_sent() -> None:
    assert horizon_of(100.0, LEASE) == 109.0


def test_two_beats_of_a_lease_may_be_lost() -> None:
    assert 2 * beat_period(LEASE) < LEASE <= 3 * beat_period(LEASE)


@pytest.mark.parametrize(("lease", "margin"), [(1.0, 1.0), (10.0, 1.0), (60.0, 6.0)])
def test_the_margin_is_a_tenth_of_the_lease_and_at_least_a_second(
    lease: float, margin: float
) -> None:
    assert default_margin(lease) == margin


SEEN = (None, 4, 5, 6)
TIMES = (100.0, 101.0, OVER - 0.001, OVER, OVER + 2.9, OVER + 3.1)


@pytest.mark.parametrize(
    ("fenced", "beats", "same_timeline", "now"),
    list(itertools.product((False, True), SEEN, (True, False), TIMES)),
)
def test_it_is_fenced_only_after_a_whole_wait_in_which_nothing_changed(
    fenced: bool, beats: int | None, same_timeline: bool, now: float
) -> None:
    seen = None if beats is None else Seen(facts(beats), 100.0)
    read = facts(5, fenced=fenced, timeline="1" if same_timeline else "2")
    verdict = decide(read, seen, now=now, margin=MARGIN)
    if fenced:
        assert verdict == Free()
    elif seen is None or not same_timeline:
        assert verdict == Watch(Seen(read, now), now + beat_period(LEASE))
    elif beats != 5:
        fresh = Seen(read, now)
        stale = now > OVER + beat_period(LEASE)
        assert verdict == (Watch(fresh, now + beat_period(LEASE)) if stale else Lives(fresh))
    elif now < OVER:
        assert verdict == Watch(seen, min(OVER, now + beat_period(LEASE)))
    else:
        assert verdict == Fence(seen)


@given(
    beats=st.lists(st.booleans(), max_size=12),
    pauses=st.lists(st.floats(0.001, 5.0), min_size=12, max_size=12),
)
def test_whatever_is_read_a_fence_comes_a_lease_and_a_margin_after_the_last_change(
    beats: list[bool], pauses: list[float]
) -> None:
    now, count, changed_at, seen = 0.0, 0, 0.0, None
    for beaten, pause in zip(beats, pauses, strict=False):
        now += pause
        if beaten:
            count, changed_at = count + 1, now
        verdict = decide(facts(count), seen, now=now, margin=MARGIN)
        match verdict:
            case Fence():
                assert now - changed_at >= LEASE + MARGIN
                return
            case Lives(seen=seen) | Watch(seen=seen):
                assert seen.facts.beats == count
            case Free():
                raise AssertionError
