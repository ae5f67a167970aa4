"""Errors: Trio's vocabulary, what a caller must know to go on, and weather told from defects."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import get_args

import pytest
import trio

from trio_reactor import errors
from trio_reactor.errors import (
    Busy,
    Closed,
    Expired,
    Failed,
    Lost,
    Outcome,
    Overflow,
    ReactorError,
    Refused,
    Retired,
    TimedOut,
    is_expected,
    leaves,
)

OWN = [Busy, Closed, Expired, Failed, Lost, Overflow, ReactorError, Refused, Retired, TimedOut]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def test_every_error_of_the_module_is_tested_here() -> None:
    found = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, ReactorError)
    ]
    assert sorted(OWN, key=lambda each: each.__name__) == sorted(
        found, key=lambda each: each.__name__
    )


@pytest.mark.parametrize(
    ("own", "trios"),
    [
        (Closed, trio.ClosedResourceError),
        (Failed, trio.BrokenResourceError),
        (Lost, trio.BrokenResourceError),
        (Expired, trio.BrokenResourceError),
        (Overflow, trio.BrokenResourceError),
        (Retired, trio.ClosedResourceError),
        (Busy, trio.BusyResourceError),
        (TimedOut, trio.TooSlowError),
    ],
)
def test_code_that_handles_trios_errors_handles_these(
    own: type[ReactorError], trios: type[Exception]
) -> None:
    with pytest.raises(trios, match="what happened"):
        raise own("what happened")
    with pytest.raises(ReactorError, match="what happened"):
        raise own("what happened")


@pytest.mark.parametrize("own", OWN)
def test_the_message_is_the_librarys_and_the_other_sides_words_are_kept_apart(
    own: type[ReactorError],
) -> None:
    error = own("refused by the other side")
    error.detail = "the user's name is …"
    assert str(error) == error.message == "refused by the other side"
    assert "user" not in repr(error)


def test_what_the_other_side_said_travels_with_the_error() -> None:
    assert Refused("refused", outcome="replied", detail="quota").detail == "quota"
    assert Refused("refused").detail is None


@pytest.mark.parametrize("own", OWN)
def test_unless_it_says_otherwise_nothing_was_submitted_and_trying_again_does_not_help(
    own: type[ReactorError],
) -> None:
    error = own("what happened")
    assert error.outcome == "not-submitted"
    assert error.retryable is False


@pytest.mark.parametrize(
    ("own", "outcome", "retryable"), list(itertools.product(OWN, OUTCOMES, [True, False]))
)
def test_nothing_whose_outcome_is_unknown_can_be_retryable(
    own: type[ReactorError], outcome: Outcome, retryable: bool
) -> None:
    if outcome == "unknown" and retryable:
        with pytest.raises(ValueError, match="unknown cannot be retryable"):
            own("what happened", outcome=outcome, retryable=retryable)
    else:
        error = own("what happened", outcome=outcome, retryable=retryable)
        assert (error.outcome, error.retryable) == (outcome, retryable)


def test_an_overflow_says_exactly_how_much_was_missed() -> None:
    assert Overflow("capacity: 4").missed == 0
    assert Overflow("capacity: 4", missed=3, outcome="unknown").missed == 3


@pytest.mark.parametrize("copied", [copy.copy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_says_the_same(copied: Callable[[Overflow], Overflow]) -> None:
    error = Overflow("capacity: 4", missed=3, outcome="replied", retryable=True)
    error.detail = "theirs"
    again = copied(error)
    assert type(again) is Overflow
    assert vars(again) == vars(error)
    assert str(again) == str(error)


# Expected or defective


class Weather(Exception):
    """What an adapter declares expected."""


WEATHER = [
    Closed("closed"),
    Failed("failed"),
    Lost("lost"),
    Refused("refused"),
    TimedOut("too slow"),
    OSError("no route"),
    ConnectionResetError("reset"),
    TimeoutError("timed out"),
    FileNotFoundError("no file"),
    trio.BrokenResourceError(),
    trio.ClosedResourceError(),
    trio.BusyResourceError(),
    trio.EndOfChannel(),
    trio.TooSlowError(),
]
DEFECTS = [
    TypeError("not callable"),
    ValueError("wrong"),
    KeyError("missing"),
    AssertionError("impossible"),
    RuntimeError("wrong"),
    trio.WouldBlock(),
    Weather("undeclared"),
    KeyboardInterrupt(),
    SystemExit(1),
]


@pytest.mark.parametrize("failure", WEATHER, ids=lambda each: type(each).__name__)
def test_weather_is_expected(failure: BaseException) -> None:
    assert is_expected(failure)


@pytest.mark.parametrize("failure", DEFECTS, ids=lambda each: type(each).__name__)
def test_everything_else_is_a_defect(failure: BaseException) -> None:
    assert not is_expected(failure)


def test_what_an_adapter_declares_is_weather_for_that_adapter() -> None:
    assert is_expected(Weather("declared"), (Weather,))
    assert is_expected(OSError("still"), (Weather,))
    assert not is_expected(TypeError("still not"), (Weather,))
    assert not is_expected(Weather("nobody declared it here"))


def test_a_group_is_expected_only_if_every_leaf_is_however_deep() -> None:
    weather = ExceptionGroup("w", [OSError(), ExceptionGroup("w", [Lost("lost"), Weather()])])
    assert is_expected(weather, (Weather,))
    assert not is_expected(weather)
    assert not is_expected(ExceptionGroup("d", [OSError(), TypeError()]))
    assert not is_expected(
        ExceptionGroup("d", [OSError(), ExceptionGroup("d", [OSError(), TypeError()])])
    )
    assert not is_expected(BaseExceptionGroup("d", [OSError(), KeyboardInterrupt()]))


def test_declaring_a_group_expected_does_not_excuse_its_leaves() -> None:
    assert not is_expected(ExceptionGroup("d", [TypeError()]), (ExceptionGroup,))


def test_the_leaves_of_a_group_are_the_originals_in_their_order() -> None:
    one, two, three = OSError(), TypeError(), Lost("lost")
    group = ExceptionGroup("g", [one, ExceptionGroup("g", [two]), three])
    assert [id(leaf) for leaf in leaves(group)] == [id(one), id(two), id(three)]
    assert list(leaves(one)) == [one]


def test_a_cause_is_not_a_leaf() -> None:
    failure = Failed("failed for good earlier")
    failure.__cause__ = TypeError("the original")
    assert is_expected(failure)
