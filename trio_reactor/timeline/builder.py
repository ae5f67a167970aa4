"""Lays out in time what events say.

What an event means is its own system's business: a mapping, given to the builder, turns each into
steps.  A lane is in one state at a time, so a step that turns a lane to a new state also ends the
state before it; that is all the builder needs to know, and the mapping remembers nothing.

Handles that share a channel share its timeline: each has lanes of its own, so two of one kind never
meet in one.  Lanes carry the name of their handle where there is more than one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

import msgspec

from trio_reactor.events import Envelope, Event

from .model import Lane, Mark, MarkKind, Span, SpanKind, Timeline

__all__ = ["Happened", "Step", "TimelineBuilder", "Turned", "TurnedBack", "TurnedOff"]


class Turned(msgspec.Struct, frozen=True, tag=True):
    """A lane turned to a new state, which ends the state it was in."""

    lane: str
    label: str
    kind: SpanKind
    reason: str = ""
    """Why the state before it ended."""
    by: str | None = None
    """By whom the lane is held from now on."""


class TurnedBack(msgspec.Struct, frozen=True, tag=True):
    """A lane turned back to the state before this one, as after a disturbance.

    Nothing happens if it is in no state, or if `by` is given and it is held by another.
    """

    lane: str
    reason: str = ""
    by: str | None = None


class TurnedOff(msgspec.Struct, frozen=True, tag=True):
    """The state of a lane ended and none follows.

    Nothing happens if it is in no state, or if `by` is given and it is held by another.
    """

    lane: str
    reason: str = ""
    by: str | None = None


class Happened(msgspec.Struct, frozen=True, tag=True):
    """Something happened at one moment."""

    label: str
    kind: MarkKind
    lane: str | None = None
    to: str | None = None


Step: TypeAlias = Turned | TurnedBack | TurnedOff | Happened


class _Place(msgspec.Struct, frozen=True):
    """A lane of a handle: two handles may each have one of the same name."""

    handle: str
    lane: str


class _Item(msgspec.Struct, frozen=True):
    handle: str
    what: Span | Mark


class _Open(msgspec.Struct, frozen=True):
    since: float
    step: Turned
    before: Turned | None = None


class TimelineBuilder:
    """Makes a `Timeline` out of events, one after the other.

    It keeps the newest `max_items` spans and marks; older ones are counted, and the timeline says
    how many are missing.  Not thread-safe; no method waits.

    Args:
        title: The timeline's.
        steps: What an event means.  A pure function; events it gives no steps for are passed over.
        description: A sentence under the title.
        first: Lanes to be shown above all others of their handle, in this order, once something
            happens in them.
        max_items: How many spans and marks are kept, at least 1.

    Raises:
        ValueError: If `max_items` is less than 1.
    """

    def __init__(
        self,
        title: str,
        *,
        steps: Callable[[Event], Iterable[Step]],
        description: str = "",
        first: Iterable[Lane] = (),
        max_items: int = 4096,
    ) -> None:
        if max_items < 1:
            raise ValueError("max_items must be at least 1")
        self.title = title
        self.description = description
        self._steps = steps
        self._first = tuple(first)
        self._max_items = max_items
        self._items: deque[_Item] = deque()
        self._open: dict[_Place, _Open] = {}
        self._omitted = 0
        self._latest = 0.0

    def feed(self, envelope: Envelope) -> None:
        """Take one event, in the order of its channel."""
        self._latest = max(self._latest, envelope.clock)
        for step in self._steps(envelope.event):
            self.take(step, envelope.clock, handle=envelope.handle)

    def take(self, step: Step, time: float, *, handle: str = "") -> None:
        """Take one step that became true at a time; none may lie before another.

        Args:
            step: What became true.
            time: When, in seconds.
            handle: Whose lanes it speaks of.
        """
        self._latest = max(self._latest, time)
        match step:
            case Turned():
                place = _Place(handle, step.lane)
                before = self._finish(place, time, step.reason)
                self._open[place] = _Open(time, step, before.step if before else None)
            case TurnedBack():
                place = _Place(handle, step.lane)
                before = self._finish(place, time, step.reason, step.by)
                if before is not None and before.before is not None:
                    self._open[place] = _Open(time, before.before)
            case TurnedOff():
                self._finish(_Place(handle, step.lane), time, step.reason, step.by)
            case Happened():
                self._keep(handle, Mark(time, step.label, step.kind, step.lane, step.to))
            case _:  # pragma: no cover - the type checker proves it
                assert_never(step)

    def build(self, until: float | None = None) -> Timeline:
        """The timeline so far; what has not ended is shown up to `until` or the latest event.

        The builder stays as it is, so a timeline can be made while events still come.
        """
        end = self._latest if until is None else max(until, self._latest)
        items = [
            *self._items,
            *(_Item(place.handle, _span(opened, end, "")) for place, opened in self._open.items()),
        ]
        handles = dict.fromkeys(item.handle for item in sorted(items, key=_began))
        shared = len(handles) > 1
        lanes: list[Lane] = []
        for handle in handles:
            own = [item.what for item in items if item.handle == handle]
            prefix = f"{handle}: " if shared and handle else ""
            for lane in self._lanes(own):
                label = None if lane.label is None else f"{prefix}{lane.label}"
                lanes.append(Lane(f"{prefix}{lane.name}", lane.colour, label))
        told = [
            _told_of(item.what, f"{item.handle}: " if shared and item.handle else "")
            for item in items
        ]
        return Timeline(
            title=self.title,
            description=self.description,
            lanes=tuple(lanes),
            spans=tuple(each for each in told if isinstance(each, Span)),
            marks=tuple(each for each in told if isinstance(each, Mark)),
            omitted=self._omitted,
        )

    def _finish(
        self, place: _Place, time: float, reason: str, by: str | None = None
    ) -> _Open | None:
        """End the state of a lane, unless another is asked about; returns what it was."""
        opened = self._open.get(place)
        if opened is None or (by is not None and opened.step.by != by):
            return None
        del self._open[place]
        self._keep(place.handle, _span(opened, max(time, opened.since), reason))
        return opened

    def _keep(self, handle: str, what: Span | Mark) -> None:
        self._items.append(_Item(handle, what))
        if len(self._items) > self._max_items:
            self._items.popleft()
            self._omitted += 1

    def _lanes(self, items: Iterable[Span | Mark]) -> tuple[Lane, ...]:
        """Lanes in the order in which something first happened in them, after those put first."""
        seen: dict[str, float] = {}

        def saw(lane: str | None, time: float) -> None:
            if lane is not None:
                seen[lane] = min(time, seen.get(lane, time))

        spans = [item for item in items if isinstance(item, Span)]
        for span in spans:
            saw(span.lane, span.start)
        for mark in (item for item in items if isinstance(item, Mark)):
            saw(mark.lane, mark.time)
            saw(mark.to, mark.time)
        for span in spans:
            if span.by is not None and span.by not in seen:
                saw(span.by, span.start)
        first = [lane for lane in self._first if lane.name in seen]
        above = {lane.name for lane in first}
        rest = sorted((name for name in seen if name not in above), key=lambda name: seen[name])
        return (*first, *(Lane(name) for name in rest))


def _began(item: _Item) -> float:
    return item.what.start if isinstance(item.what, Span) else item.what.time


def _told_of(what: Span | Mark, prefix: str) -> Span | Mark:
    """A span or mark with the name of its handle, where there is more than one."""
    if not prefix:
        return what
    if isinstance(what, Span):
        return msgspec.structs.replace(
            what,
            lane=f"{prefix}{what.lane}",
            by=None if what.by is None else f"{prefix}{what.by}",
        )
    if what.lane is None:
        # It concerns no lane more than another, so only its words can say whose it is.
        return msgspec.structs.replace(what, label=f"{prefix}{what.label}")
    return msgspec.structs.replace(
        what,
        lane=f"{prefix}{what.lane}",
        to=None if what.to is None else f"{prefix}{what.to}",
    )


def _span(opened: _Open, end: float, reason: str) -> Span:
    step = opened.step
    return Span(step.lane, step.label, opened.since, end, step.kind, reason, step.by)
