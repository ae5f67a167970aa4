"""What a timeline consists of: lanes, spans in them, and marks.

Every value is frozen and checks itself when it is made, so what is drawn needs no checking.  Times
are seconds on any one clock.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Final, Literal

import msgspec

__all__ = ["PALETTE", "Lane", "Mark", "MarkKind", "Span", "SpanKind", "Timeline"]

SpanKind = Literal["opening", "ready", "active", "leaving", "broken"]
"""How something was held: being acquired, held in reserve, in use, being let go, or failing."""

MarkKind = Literal["handover", "loss", "recovery", "note"]
"""What happened in one moment."""

PALETTE: Final = ("#2f6fde", "#b4540a", "#12805c", "#8a4fd3", "#c2366b", "#0b7c93")
"""Colours for lanes, in turn: white text is readable on each, and each is distinct on both grounds,
light and dark, also for most people who see fewer colours."""

_COLOUR: Final = re.compile(r"#[0-9a-fA-F]{6}\Z")


class Lane(msgspec.Struct, frozen=True):
    """One row: a thing that is held, or a holder.

    Raises:
        ValueError: If the colour is not of the form `#rrggbb`.
    """

    name: str
    """Its identity, which spans and marks refer to."""
    colour: str | None = None
    """As `#rrggbb`; `None` takes the next of the palette."""
    label: str | None = None
    """What a person reads; `None` shows the name."""

    def __post_init__(self) -> None:
        if self.colour is not None and not _COLOUR.match(self.colour):
            raise ValueError(f"a lane's colour is of the form #rrggbb, not {self.colour!r}")


class Span(msgspec.Struct, frozen=True):
    """Something that was so for a while.

    Raises:
        ValueError: If a time is not finite or the end lies before the start.
    """

    lane: str
    label: str
    start: float
    end: float
    kind: SpanKind = "active"
    reason: str = ""
    """Why it ended; empty while it has not."""
    by: str | None = None
    """By whom it was held: the lane whose colour the span has, its own if `None`."""

    def __post_init__(self) -> None:
        _finite("span", self.start, self.end)
        if self.end < self.start:
            raise ValueError(f"a span of lane {self.lane!r} ends before it starts")

    @property
    def duration(self) -> float:
        """Its length in seconds."""
        return self.end - self.start


class Mark(msgspec.Struct, frozen=True):
    """Something that happened at one moment.

    Raises:
        ValueError: If its time is not finite.
    """

    time: float
    label: str
    kind: MarkKind = "note"
    lane: str | None = None
    """Where; `None` concerns every lane."""
    to: str | None = None
    """For a handover, the lane that took over."""

    def __post_init__(self) -> None:
        _finite("mark", self.time)


class Timeline(msgspec.Struct, frozen=True):
    """Lanes from top to bottom, with everything in them.

    Raises:
        ValueError: If two lanes have one name, or a span or mark refers to a lane that is not
            there.
    """

    title: str
    lanes: tuple[Lane, ...] = ()
    spans: tuple[Span, ...] = ()
    marks: tuple[Mark, ...] = ()
    description: str = ""
    """A sentence under the title."""
    omitted: int = 0
    """Spans and marks that are not shown because a bound was reached."""

    def __post_init__(self) -> None:
        names = {lane.name for lane in self.lanes}
        if len(names) != len(self.lanes):
            raise ValueError("two lanes of a timeline have the same name")
        referred = {name for span in self.spans for name in (span.lane, span.by)}
        referred |= {name for mark in self.marks for name in (mark.lane, mark.to)}
        missing = sorted(name for name in referred if name is not None and name not in names)
        if missing:
            raise ValueError(f"a timeline refers to a lane it does not have: {missing[0]!r}")

    @property
    def start(self) -> float:
        """The earliest time in it; 0 if it is empty."""
        times = (*(span.start for span in self.spans), *(mark.time for mark in self.marks))
        return min(times, default=0.0)

    @property
    def end(self) -> float:
        """The latest time in it; 0 if it is empty."""
        times = (*(span.end for span in self.spans), *(mark.time for mark in self.marks))
        return max(times, default=0.0)

    def colours(self) -> dict[str, str]:
        """The colour of every lane by its name."""
        palette = itertools.cycle(PALETTE)
        return {lane.name: lane.colour or next(palette) for lane in self.lanes}


def _finite(what: str, *times: float) -> None:
    for time in times:
        if not math.isfinite(time):
            raise ValueError(f"a {what} of a timeline has a time that is not finite: {time}")
