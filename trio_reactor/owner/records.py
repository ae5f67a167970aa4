"""What an owner is given and what it tells: options, events, report, statistics."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pydantic

from trio_reactor.events import Event, FailureRecord
from trio_reactor.options import Options

from .ends import EndReason

__all__ = [
    "AttemptEnded",
    "AttemptHeld",
    "CloseReport",
    "OwnerClosed",
    "OwnerFailed",
    "OwnerOptions",
    "OwnerStatistics",
]


class OwnerOptions(Options):
    """The options of an owner.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    cleanup_timeout: Annotated[
        float, pydantic.Field(gt=0, description="Seconds that all of close may take.")
    ] = 10.0
    retire_timeout: Annotated[
        float, pydantic.Field(gt=0, description="Seconds that one thing may take to leave.")
    ] = 10.0
    drain_timeout: Annotated[
        float | None,
        pydantic.Field(
            gt=0,
            description="Seconds that workers which drain may take at close, before the budget of "
            "the rest; none: they are within it.",
        ),
    ] = None
    max_attempts: Annotated[
        int, pydantic.Field(ge=1, description="Things opening, held or leaving at one time.")
    ] = 100_000
    max_workers: Annotated[int, pydantic.Field(ge=1, description="Workers at one time.")] = 100_000
    retained_failures: Annotated[
        int, pydantic.Field(ge=1, description="Failures kept for close; more are counted.")
    ] = 256


class AttemptHeld(Event, frozen=True):
    """A thing was opened and is held."""

    attempt: str


class AttemptEnded(Event, frozen=True):
    """An attempt has left altogether."""

    attempt: str
    reason: EndReason
    failure: FailureRecord | None


class OwnerFailed(Event, frozen=True):
    """The owner failed for good; observing it ends with this."""

    failure: FailureRecord


class OwnerClosed(Event, frozen=True):
    """The owner has closed; the last event of it."""

    reason: str


class CloseReport(msgspec.Struct, frozen=True):
    """What close found, the same for everybody who asks."""

    name: str
    reason: str
    """Why it closed."""
    duration: float
    """Seconds from the beginning of close to its end."""
    acquired: int
    """Things that were opened, over the owner's life."""
    lost: int
    expired: int
    timed_out: tuple[str, ...]
    """What did not leave within the budget; at most 32 of them, then how many more."""
    failures: tuple[FailureRecord, ...]
    """Defects, and expected failures that nobody received."""
    failures_omitted: int
    """Failures beyond `retained_failures`."""
    terminal: FailureRecord | None
    """The owner's terminal failure."""


class OwnerStatistics(msgspec.Struct, frozen=True):
    """What an owner holds at one moment."""

    opening: int
    held: int
    leaving: int
    workers: int
    waiting: int
    """Tasks that wait for one of its attempts or for its close."""
    acquired: int
    """Things that were opened, over the owner's life."""
    lost: int
    expired: int
    failures_retained: int
    failures_omitted: int
    stopping: str | None
    """Why nothing new is acquired; `None` while it is."""
    closing: str | None
    overdue: tuple[str, ...]
    """What is still there after the budget it had to leave; at most 32, then how many more."""
