"""What follows the end of a service's session is decided by a table."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.supervision import Restart, RestartPolicy
from trio_reactor.supervision.model.ends import STOP_REASONS
from trio_reactor.supervision.service.decision import Again, Done, Ending, GiveUp, History, decide

SOMEBODYS = {"disposed", "superseded", "shutdown", "fenced", "taken-over"}


def test_every_end_under_every_mode():
    modes = get_args(Restart)
    assert set(modes) == {"on-failure", "always", "never"}
    for mode, why, success in itertools.product(
        modes, (*STOP_REASONS, "not-opened"), (False, True)
    ):
        decision = decide(
            mode, RestartPolicy(), History(), Ending(why, success), now=0.0, chance=0.0
        )
        done = (
            why in SOMEBODYS
            or mode == "never"
            or (mode == "on-failure" and why == "exited" and success)
        )
        assert isinstance(decision, Done if done else Again), (mode, why, success)


def test_only_an_exit_counts_as_success():
    """What was silent and then ended with status 0 has failed all the same."""
    decision = decide(
        "on-failure",
        RestartPolicy(),
        History(),
        Ending("unresponsive", success=True),
        now=0.0,
        chance=0.0,
    )
    assert isinstance(decision, Again)


def pauses(policy: RestartPolicy, count: int, *, ran_for: float = 0.0) -> list[float]:
    history, found = History(), []
    for _ in range(count):
        decision = decide(
            "always", policy, history, Ending("exited", ran_for=ran_for), now=0.0, chance=0.0
        )
        assert isinstance(decision, Again)
        history = decision.history
        found.append(decision.pause)
    return found


def test_pauses_grow_to_their_bound_and_begin_anew_after_a_good_while():
    policy = RestartPolicy(pause=1.0, factor=2.0, max_pause=5.0, steady=60.0)
    assert pauses(policy, 5) == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert pauses(policy, 3, ran_for=59.9) == [1.0, 2.0, 4.0]
    assert pauses(policy, 3, ran_for=60.0) == [1.0, 1.0, 1.0]


def test_a_streak_without_end_does_not_overflow():
    policy = RestartPolicy(factor=100.0, max_pause=60.0)
    decision = decide("always", policy, History((), 10_000), Ending("exited"), now=0.0, chance=0.0)
    assert isinstance(decision, Again)
    assert decision.pause == 60.0


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_so_many_within_the_window_and_not_one_more(most):
    policy = RestartPolicy(max_restarts=most, window=10.0)
    history = History()
    for second in range(most):
        decision = decide(
            "always", policy, history, Ending("exited"), now=float(second), chance=0.0
        )
        assert isinstance(decision, Again)
        history = decision.history
    late = decide("always", policy, history, Ending("exited"), now=9.9, chance=0.0)
    assert late == GiveUp(most)
    if most:
        later = decide("always", policy, history, Ending("exited"), now=10.0, chance=0.0)
        assert isinstance(later, Again)
        assert len(later.history.restarts) == most


@given(streak=st.integers(0, 100), chance=st.floats(0, 1), jitter=st.floats(0, 1))
def test_chance_only_adds_to_a_pause_and_no_more_than_the_jitter(streak, chance, jitter):
    policy = RestartPolicy(jitter=jitter)
    history = History((), streak)
    plain = decide("always", policy, history, Ending("expired"), now=0.0, chance=0.0)
    shaken = decide("always", policy, history, Ending("expired"), now=0.0, chance=chance)
    assert isinstance(plain, Again)
    assert isinstance(shaken, Again)
    assert plain.pause <= shaken.pause <= plain.pause * (1 + jitter)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pause", 0.0),
        ("pause", float("nan")),
        ("pause", 61.0),
        ("max_pause", float("inf")),
        ("factor", 0.9),
        ("jitter", 1.1),
        ("max_restarts", -1),
        ("window", 31_536_001.0),
        ("steady", -1.0),
        ("paws", 1.0),
    ],
)
def test_a_policy_that_cannot_be_is_named(name, value):
    with pytest.raises(ValueError, match=name):
        RestartPolicy.model_validate({name: value})
