"""What a submission came to, as data, and the exceptions that are made of it."""

from __future__ import annotations

import msgspec
import pytest

from trio_reactor.errors import Lost, Overflow, ReactorError, Refused
from trio_reactor.events import FailureRecord
from trio_reactor.renewal.engine.failure import KINDS, Failure
from trio_reactor.renewal.engine.submission import (
    Accepted,
    Completed,
    SubmissionState,
    Submitting,
    Unsent,
)
from trio_reactor.renewal.events import SourceRef


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("outcome", ["not-submitted", "unknown", "replied"])
def test_a_failure_comes_back_as_what_it_was_and_says_the_same(
    kind: type[ReactorError], outcome: str
) -> None:
    original = kind("words", outcome=outcome, retryable=outcome != "unknown")  # type: ignore[arg-type]
    original.detail = None if kind is Overflow else "theirs"
    made = Failure.of(original)
    again = made.afresh()
    assert type(again) is kind
    assert again is not original
    assert again is not made.afresh()
    said = [(each.message, each.outcome, each.retryable, each.detail) for each in (original, again)]
    assert said[0] == said[1]
    assert (again.__cause__, again.__context__, again.__traceback__) == (None, None, None)
    assert Failure.of(again) == made


class OutOfCredit(Refused):
    def __init__(self, credit: float) -> None:
        super().__init__("no credit is left", outcome="replied")
        self.credit = credit


def test_an_adapters_own_failure_comes_back_as_the_nearest_that_is_known() -> None:
    made = Failure.of(OutOfCredit(0.5))
    assert (made.kind, made.record.type) == ("Refused", "OutOfCredit")
    assert type(made.afresh()) is Refused


def test_a_class_of_the_same_name_is_not_taken_for_the_one_that_is_known() -> None:
    class Expired(Lost):
        pass

    assert Failure.of(Expired("gone")).kind == "Lost"


def test_a_record_that_does_not_tell_its_outcome_leaves_it_unknown() -> None:
    again = Failure("Lost", FailureRecord("Lost", "gone")).afresh()
    assert (type(again), again.outcome) == (Lost, "unknown")


@pytest.mark.parametrize(
    "state",
    [
        Unsent(),
        Submitting(SourceRef(1, "a")),
        Completed(Accepted(SourceRef(1, "a"), "clip")),
        Completed(Failure.of(Refused("no", outcome="replied"))),
    ],
)
def test_the_state_of_a_submission_goes_through_json_and_comes_back_equal(
    state: SubmissionState,
) -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(state), type=SubmissionState)
    assert decoded == state
