"""The errors of the library: Trio's vocabulary, and what a caller must know to go on.

Every error is a `ReactorError` and, beside that, the Trio exception that means the same, so code
that handles Trio's errors handles these.  Two facts travel with each:

`outcome`
    What became of the operation: it was `not-submitted` (nothing left this process), its fate is
    `unknown`, or the other side `replied`.

`retryable`
    Whether trying again can help and cannot do harm.  Never true while the outcome is unknown.

Failures come in two kinds.  The *expected* ones are weather: a refusal, a lost connection, a
timeout.  Everything else is a *defect*, a bug in somebody's code, and is never retried as if it
were weather.  `is_expected` is the one place that tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, cast

import trio

__all__ = [
    "EXPECTED",
    "Busy",
    "Closed",
    "Expired",
    "Failed",
    "Lost",
    "Outcome",
    "Overflow",
    "ReactorError",
    "Refused",
    "Retired",
    "TimedOut",
    "is_expected",
    "leaves",
]

Outcome = Literal["not-submitted", "unknown", "replied"]
"""What became of an operation, as far as this side can tell."""


class ReactorError(Exception):
    """Any failure that this library raises by itself.

    Args:
        message: What happened, in the library's words.  Never a provider's or a user's text.
        outcome: What became of the operation.
        retryable: Whether trying again can help and cannot do harm.
        detail: What the other side said, kept apart from the message and never logged.

    Raises:
        ValueError: If it is called retryable although its outcome is unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        outcome: Outcome = "not-submitted",
        retryable: bool = False,
        detail: str | None = None,
    ) -> None:
        if retryable and outcome == "unknown":
            raise ValueError("a failure whose outcome is unknown cannot be retryable")
        super().__init__(message)
        self.message = message
        self.outcome: Outcome = outcome
        self.retryable = retryable
        self.detail = detail


class Closed(ReactorError, trio.ClosedResourceError):
    """The thing was closed, or began to close, on this side; nothing new is admitted."""


class Failed(ReactorError, trio.BrokenResourceError):
    """The thing failed for good earlier; the original failure is the cause.

    Made afresh for everyone who asks: one exception object raised to many callers grows its
    traceback with each of them and keeps their frames alive.
    """


class Lost(ReactorError, trio.BrokenResourceError):
    """A held thing died by itself while it was in use."""


class Expired(ReactorError, trio.BrokenResourceError):
    """A held thing reached the end of its lifetime while it was in use."""


class Retired(ReactorError, trio.ClosedResourceError):
    """A held thing, or its acquisition, was ended on request while its owner still admitted."""


class Refused(ReactorError):
    """The other side answered, and the answer was no."""


class Busy(ReactorError, trio.BusyResourceError):
    """Somebody else is using what only one may use at a time."""


class TimedOut(ReactorError, trio.TooSlowError):
    """A budget of time ran out."""


class Overflow(ReactorError, trio.BrokenResourceError):
    """A bound was reached.

    Args:
        message: Which bound, in words.
        missed: How many items were not taken because of it; exact.
    """

    def __init__(
        self,
        message: str,
        *,
        missed: int = 0,
        outcome: Outcome = "not-submitted",
        retryable: bool = False,
    ) -> None:
        super().__init__(message, outcome=outcome, retryable=retryable)
        self.missed = missed


EXPECTED: Final[tuple[type[BaseException], ...]] = (
    ReactorError,
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.BusyResourceError,
    trio.EndOfChannel,
    trio.TooSlowError,
)
"""The failures that are weather wherever they come from."""


def leaves(failure: BaseException) -> Iterator[BaseException]:
    """The exceptions of a group, however deep; a plain exception is its own only leaf."""
    if isinstance(failure, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", failure)
        for inner in group.exceptions:
            yield from leaves(inner)
    else:
        yield failure


def is_expected(failure: BaseException, declared: tuple[type[BaseException], ...] = ()) -> bool:
    """Whether a failure is weather rather than a defect.

    Args:
        failure: What was raised.  A group is expected only if every one of its leaves is.
        declared: What an adapter declares expected beside `EXPECTED`.
    """
    return all(isinstance(leaf, EXPECTED + declared) for leaf in leaves(failure))
