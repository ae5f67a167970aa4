"""What can go wrong with a renewal, beside what can go wrong with anything."""

from __future__ import annotations

from trio_reactor.errors import Overflow, ReactorError, leaves

from .source import OpenFailed

__all__ = [
    "ContextBroken",
    "ContractBroken",
    "InputOverflow",
    "NotRenewing",
    "OpenFailed",
    "RouteChanged",
    "SessionRecovering",
    "SessionRetired",
    "SourcesExhausted",
    "refusal",
    "sole",
]


class SessionRecovering(ReactorError):
    """No source takes work at this moment: one is being recovered, replaced or opened."""


class SessionRetired(ReactorError):
    """The last source is gone and none follows: no work is taken any more."""


class NotRenewing(ReactorError):
    """No successor will come: renewal was stopped."""


class InputOverflow(Overflow):
    """Input was not accepted, because it does not fit beside what is held; nothing of it is sent.

    Args:
        message: Which bound, in words.
        bytes: How many bytes were not accepted; exact.
    """

    def __init__(self, message: str, *, bytes: int) -> None:  # noqa: A002 - it is what is counted
        super().__init__(message, missed=1, retryable=True)
        self.bytes = bytes


class RouteChanged(ReactorError):
    """The source that was to take the work changed before it was sent; nothing was sent."""


class ContractBroken(ReactorError):
    """An adapter did what the source protocol does not allow."""


class ContextBroken(ReactorError):
    """What was to be told again to a fresh source is not JSON, or is larger than it may be."""


class SourcesExhausted(ReactorError):
    """Too many sources failed in a row, or one refused for good; the last failure is the cause."""


def refusal(failure: BaseException | None) -> OpenFailed | None:
    """The failed open in a failure, also where an adapter's nursery has put it into a group."""
    if failure is None:
        return None
    return next((leaf for leaf in leaves(failure) if isinstance(leaf, OpenFailed)), None)


def sole(failure: BaseException) -> BaseException:
    """The failure itself, without the groups that nurseries have put around a single one."""
    first, *others = leaves(failure)
    return failure if others else first
