"""What can go wrong with a renewal, beside what can go wrong with anything."""

from __future__ import annotations

from trio_reactor.errors import Overflow, ReactorError, leaves

from .source import OpenFailed

__all__ = [
    "ClipNotQueued",
    "ClipUnknown",
    "ContextBroken",
    "ContractBroken",
    "InputOverflow",
    "MemberKnown",
    "NotRenewing",
    "OpenFailed",
    "OwnerConflict",
    "QueueFull",
    "RouteChanged",
    "SequenceOver",
    "SequenceUnknown",
    "SequenceUnresolved",
    "SessionRecovering",
    "SessionRetired",
    "SourcesExhausted",
    "refusal",
    "sole",
]


class SessionRecovering(ReactorError):
    """No source takes work at this moment: one is being recovered, replaced or opened."""


class SessionRetired(ReactorError):
    """The source that was to take the work is gone; or the last is, and none follows."""


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


class OwnerConflict(ReactorError):
    """What a request is bound to is not all at one source; nothing was sent."""


class ClipUnknown(ReactorError):
    """No source has the clip that was named, nor is it remembered of one that is gone.

    Its name is in `detail`.
    """


class ClipNotQueued(ReactorError):
    """The clip that was named does not wait in a queue any more; its name is in `detail`."""


class QueueFull(ReactorError):
    """A bound on what may be pending or known at a time is reached; nothing was sent."""


class SequenceOver(ReactorError):
    """The sequence takes no more members; nothing was sent."""


class MemberKnown(ReactorError):
    """The sequence has a member of this name already; nothing was sent."""


class SequenceUnknown(ReactorError):
    """There is no such sequence, or it was released; its name is in `detail`."""


class SequenceUnresolved(ReactorError):
    """The sequence cannot be released, or acknowledged, as it stands."""


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
