"""What is known of a chain in one step, as values: all that a decision looks at."""

from __future__ import annotations

from typing import Final

import msgspec

from trio_reactor.renewal.source import OpenCause

from . import phases
from .handoff import BoundaryFacts

__all__ = ["MAX_OWNED", "ChainFacts", "SourceFacts"]

MAX_OWNED: Final = 2
"""How many sources a chain owns at once, those that are leaving included."""


class SourceFacts(msgspec.Struct, frozen=True):
    """What is known of a source that is live."""

    phase: phases.LivePhase
    expires_at: float | None = None
    """When its life ends, on the clock; `None` for no end, and while it opens."""
    prepare_at: float | None = None
    """When its successor is due; `None` for never."""
    exclusive: bool = False
    """Whether there can be no second one while it lives."""
    busy: bool = False
    """Whether its recovery, or the check of it, is under way."""
    has_work: bool = False
    """Whether it was given work that it has not finished."""
    checked: bool = True
    """Whether nothing is to be looked at any more before it goes on air."""
    settled: bool = True
    """Whether it has taken everything that was set and that it is to have now."""
    telling: bool = False
    """Whether somebody tells it what was set."""


class ChainFacts(msgspec.Struct, frozen=True):
    """What is known of a chain in one step.

    Raises:
        ValueError: If a source is in a role that its phase has no place in, or more are owned than
            may be.
    """

    now: float
    current: SourceFacts | None = None
    """On air or recovering; `None` while the place is vacant."""
    next: SourceFacts | None = None
    """Opening, prepared, or recovering off air."""
    leaving: int = 0
    """How many sources have been let go and have not left yet."""
    exclusive_leaving: bool = False
    """Whether one of these is exclusive."""
    boundary: BoundaryFacts = BoundaryFacts(open_sequences=False, idle_since=None, next_ready=False)
    """What decides whether `current` may hand over."""
    vacancy: OpenCause = "first"
    """Why the current place is vacant, if it is."""
    retry_at: float | None = None
    """Before when nothing may be opened because something failed, on the clock."""
    fresh: bool = False
    """Whether a resumption was refused and the fresh open that follows is due: no pause counts."""
    exhausted: bool = False
    """Whether the failures in a row are too many, or one of them was permanent."""
    renewing: bool = True
    """Whether successors are wanted at all."""
    wanted: bool = False
    """Whether a successor was asked for, whatever the lifetime of the current source."""
    stopping: bool = False

    def __post_init__(self) -> None:
        if self.current is not None and not phases.is_on_air(self.current.phase):
            raise ValueError(f"the current source cannot be {self.current.phase}")
        if self.next is not None and phases.is_on_air(self.next.phase):
            raise ValueError(f"the next source cannot be {self.next.phase}")
        if self.owned > MAX_OWNED:
            raise ValueError(f"{self.owned} sources are owned, {MAX_OWNED} at most may be")

    @property
    def owned(self) -> int:
        """How many sources are owned, those that are leaving included."""
        return self.leaving + (self.current is not None) + (self.next is not None)
