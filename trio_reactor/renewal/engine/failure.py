"""A failure as data, from which it is raised afresh to everyone who asks.

One exception object raised to many grows its traceback with each of them and keeps alive whatever
their frames know: a source, a chain.  So what is kept is a record, and a class to make it from.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import msgspec

from trio_reactor.errors import (
    Busy,
    Closed,
    Expired,
    Failed,
    Lost,
    Overflow,
    ReactorError,
    Refused,
    Retired,
    TimedOut,
)
from trio_reactor.events import FailureRecord
from trio_reactor.renewal.errors import (
    ClipNotQueued,
    ClipUnknown,
    ContractBroken,
    MemberKnown,
    OwnerConflict,
    QueueFull,
    RouteChanged,
    SequenceOver,
    SessionRecovering,
    SessionRetired,
)

__all__ = ["KINDS", "Failure"]

KINDS: Final = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (
            Busy,
            ClipNotQueued,
            ClipUnknown,
            Closed,
            ContractBroken,
            Expired,
            Failed,
            Lost,
            MemberKnown,
            Overflow,
            OwnerConflict,
            QueueFull,
            ReactorError,
            Refused,
            Retired,
            RouteChanged,
            SequenceOver,
            SessionRecovering,
            SessionRetired,
            TimedOut,
        )
    }
)
"""The classes that a failure is raised as, by name."""


class Failure(msgspec.Struct, frozen=True, tag=True):
    """What a request came to instead of an answer."""

    kind: str
    """What it is raised as, by name: the nearest of `KINDS`."""
    record: FailureRecord

    @classmethod
    def of(cls, failure: ReactorError) -> Failure:
        """The failure as data."""
        kind = next(
            each.__name__ for each in type(failure).__mro__ if KINDS.get(each.__name__) is each
        )
        return cls(kind, FailureRecord.of(failure))

    def afresh(self) -> ReactorError:
        """An exception that says the same, without a traceback or a cause."""
        record = self.record
        kind = KINDS.get(self.kind, ReactorError)
        failure = kind(
            record.message, outcome=record.outcome or "unknown", retryable=record.retryable
        )
        failure.detail = record.detail
        return failure
