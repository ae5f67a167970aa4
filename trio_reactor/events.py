"""Events: what the library and its users have to say, as values.

An event is a frozen, tagged `msgspec.Struct`, so that one and the same value is matched with
`match`, written to a journal, sent over a wire and drawn on a timeline.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from .errors import Outcome, ReactorError

__all__ = ["Envelope", "Event", "FailureRecord"]


class Event(msgspec.Struct, frozen=True, tag=True):
    """The base of every event.  Subclasses are frozen and tagged with their name."""

    version: ClassVar[int] = 1


class FailureRecord(msgspec.Struct, frozen=True):
    """An exception as data."""

    type: str
    message: str
    outcome: Outcome | None = None
    retryable: bool = False

    @classmethod
    def of(cls, failure: BaseException) -> FailureRecord:
        """The record of an exception; foreign ones give their type and their own words."""
        if isinstance(failure, ReactorError):
            return cls(
                type(failure).__qualname__, failure.message, failure.outcome, failure.retryable
            )
        return cls(type(failure).__qualname__, str(failure)[:1024])


class Envelope(msgspec.Struct, frozen=True):
    """An event with its place in the order of its channel."""

    seq: int
    wall: float
    clock: float
    handle: str
    event: Event
