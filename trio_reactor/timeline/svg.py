"""Draws a timeline as one SVG picture that any browser opens.

The picture stands alone: no script, no font or style from elsewhere.  It follows the reader's
choice of light or dark, says in words what it shows (`title`, `desc`, and a tooltip on everything
drawn), and never tells two things apart by colour only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .axis import seconds, tick_label, ticks
from .model import PALETTE, Mark, MarkKind, Span, SpanKind, Timeline
from .shapes import (
    STYLE,
    Box,
    arrow,
    bar,
    fitted,
    knob,
    line,
    named,
    readable_on,
    sign,
    text,
    words,
)

__all__ = ["render_svg"]

WIDTH: Final = 1200
PAD: Final = 32
ROW: Final = 38
BAR: Final = 24
FLAGS: Final = 26
"""Height of the row above the lanes where marks are named."""
CHARACTER: Final = 6.8
"""Width of a character of the small text on average; generous, so that labels fit."""
SIGN: Final = 12.0
"""Width of the sign of a mark."""
LONGEST_NAME: Final = 44
"""Characters of a mark's name that are shown above the lanes."""
NARROWEST: Final = 2.0
"""Width of a span that lasted no time at all, so that it can still be seen."""

SPAN_KINDS: Final[dict[SpanKind, str]] = {
    "opening": "opening",
    "ready": "ready, in reserve",
    "active": "in use",
    "leaving": "leaving",
    "broken": "broken",
}
MARK_KINDS: Final[dict[MarkKind, str]] = {
    "handover": "handover",
    "loss": "loss",
    "recovery": "recovery",
    "note": "note",
}


def render_svg(timeline: Timeline) -> str:
    """The timeline as an SVG document.

    A pure function: the same timeline gives the same text.  Labels may be any text; they are
    escaped, and characters that XML cannot hold are replaced.
    """
    return "\n".join(_Drawing(timeline).lines()) + "\n"


class _Drawing:
    """The geometry of one picture."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.colours = timeline.colours()
        self.labels = {lane.name: lane.label or lane.name for lane in timeline.lanes}
        self.rows = {lane.name: index for index, lane in enumerate(timeline.lanes)}
        longest = max((len(label) for label in self.labels.values()), default=0)
        self.left = PAD + min(max(longest * 7.6 + 30, 90), 240)
        self.right = WIDTH - PAD
        self.top = 84 + FLAGS
        self.bottom = self.top + ROW * max(len(timeline.lanes), 1)
        self.height = self.bottom + 92
        self.duration = timeline.end - timeline.start or 1.0

    def x(self, time: float) -> float:
        """Where a time is."""
        share = (time - self.timeline.start) / self.duration
        return self.left + share * (self.right - self.left)

    def y(self, lane: str) -> float:
        """The middle of a lane's row."""
        return self.top + ROW * (self.rows[lane] + 0.5)

    def since(self, time: float) -> str:
        """A time in words, counted from the start."""
        return seconds(time - self.timeline.start)

    # ------------------------------------------------------------------------------- the parts

    def lines(self) -> Iterator[str]:
        """The document, line by line."""
        yield '<?xml version="1.0" encoding="UTF-8"?>'
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline" '
            f'viewBox="0 0 {WIDTH} {self.height:g}" width="{WIDTH}" height="{self.height:g}" '
            f'role="graphics-document" aria-roledescription="timeline" '
            f'aria-labelledby="timeline-title" aria-describedby="timeline-desc">'
        )
        yield f'<title id="timeline-title">{text(self.timeline.title)}</title>'
        yield f'<desc id="timeline-desc">{text(self.summary())}</desc>'
        yield f"<style>{STYLE}</style>"
        yield f'<rect class="ground" width="{WIDTH}" height="{self.height:g}" rx="12"/>'
        yield words(PAD, 44, self.timeline.title, "ink title")
        yield words(PAD, 68, self.subtitle(), "quiet", size=13)
        yield from self.grid()
        yield from self.lanes()
        for span in self.timeline.spans:
            yield from self.span(span)
        yield from self.marks()
        yield from self.legend()
        yield "</svg>"

    def subtitle(self) -> str:
        """What stands under the title."""
        parts = [self.timeline.description] if self.timeline.description else []
        if self.timeline.omitted:
            parts.append(f"{self.timeline.omitted} earlier spans and marks are not shown")
        return " · ".join(parts)

    def summary(self) -> str:
        """The picture in words."""
        timeline = self.timeline
        counts = [f"{len(timeline.lanes)} lanes", f"{len(timeline.spans)} spans"]
        counts += [
            f"{name}: {count}"
            for kind, name in MARK_KINDS.items()
            if (count := sum(mark.kind == kind for mark in timeline.marks))
        ]
        length = seconds(timeline.end - timeline.start)
        parts = (self.subtitle(), f"{', '.join(counts)}; {length} in all")
        return ". ".join(part for part in parts if part) + "."

    def grid(self) -> Iterator[str]:
        """Bands behind the lanes, lines at the ticks, and the axis."""
        for index in range(0, len(self.timeline.lanes), 2):
            yield (
                f'<rect class="band" x="{PAD / 2:g}" y="{self.top + ROW * index:g}" '
                f'width="{WIDTH - PAD:g}" height="{ROW}" rx="6"/>'
            )
        step, marked = ticks(self.duration)
        for tick in marked:
            x = self.x(self.timeline.start + tick)
            yield line(x, self.top - 4, x, self.bottom, "grid")
            yield words(x, self.bottom + 20, tick_label(tick, step), "quiet", anchor="middle")
        yield line(self.left, self.bottom, self.right, self.bottom, "axis")

    def lanes(self) -> Iterator[str]:
        """The names at the left."""
        for lane in self.timeline.lanes:
            label, y = self.labels[lane.name], self.y(lane.name)
            shown = fitted(label, (self.left - PAD - 26) / CHARACTER * 0.9)
            yield f"<g><title>{text(label)}</title>"
            yield f'<circle cx="{PAD + 5}" cy="{y:g}" r="5" fill="{self.colours[lane.name]}"/>'
            yield words(PAD + 18, y + 4.5, shown, "ink name")
            yield "</g>"

    def span(self, span: Span) -> Iterator[str]:
        """One bar with its label and its tooltip."""
        x, y = self.x(span.start), self.y(span.lane)
        width = max(self.x(span.end) - x, NARROWEST)
        colour = self.colours[span.by or span.lane]
        holder = "" if span.by is None else f", held by {self.labels[span.by]}"
        because = f" Ended: {span.reason}." if span.reason else ""
        yield from named(
            f"{self.labels[span.lane]}: {span.label} ({SPAN_KINDS[span.kind]}{holder}) from "
            f"{self.since(span.start)} to {self.since(span.end)}, "
            f"{seconds(span.duration)}.{because}"
        )
        yield bar(Box(x, y - BAR / 2, width, BAR), span.kind, colour)
        shown = fitted(span.label, (width - 12) / CHARACTER)
        if shown:
            on_colour = span.kind == "active"
            yield words(
                x + 7,
                y + 4,
                shown,
                "" if on_colour else "ink",
                fill=readable_on(colour) if on_colour else None,
            )
        yield "</g>"

    def marks(self) -> Iterator[str]:
        """The marks: what happened in the lanes, and its name above where there is room."""
        clusters = self.clusters()
        names = self.names(clusters)
        for index, cluster in enumerate(clusters):
            yield from named("\n".join(self.told(mark) for mark in cluster))
            yield from self.mark(cluster, self.x(cluster[0].time), reaches_up=index in names)
            if index in names:
                name, start = names[index]
                yield words(start, self.top - 14, name, "quiet")
            yield "</g>"

    def names(self, clusters: list[list[Mark]]) -> dict[int, tuple[str, float]]:
        """The names that find room above the lanes, and where; handovers, which are many, last."""
        names: dict[int, tuple[str, float]] = {}
        taken: list[tuple[float, float]] = []
        order = sorted(range(len(clusters)), key=lambda at: clusters[at][0].kind == "handover")
        for index in order:
            cluster = clusters[index]
            labels = dict.fromkeys(mark.label for mark in cluster if mark.label)
            name = fitted("; ".join(labels), LONGEST_NAME)
            width = len(name) * CHARACTER + 14
            start = min(self.x(cluster[0].time), self.right - width + 14)
            free = all(start + width <= begin or start >= end for begin, end in taken)
            if name and free:
                taken.append((start, start + width))
                names[index] = (name, start)
        return names

    def clusters(self) -> list[list[Mark]]:
        """The marks in order of time; those of one kind that would cover each other are together.

        Otherwise only the topmost could be seen and pointed at.
        """
        clusters: list[list[Mark]] = []
        latest: dict[tuple[str | None, MarkKind], list[Mark]] = {}
        for mark in sorted(self.timeline.marks, key=lambda mark: mark.time):
            place = (mark.lane, mark.kind)
            cluster = latest.get(place)
            if cluster is None or self.x(mark.time) - self.x(cluster[0].time) > SIGN:
                cluster = latest[place] = []
                clusters.append(cluster)
            cluster.append(mark)
        return clusters

    def told(self, mark: Mark) -> str:
        """A mark in words."""
        where = "" if mark.lane is None else f", {self.labels[mark.lane]}"
        onto = "" if mark.to is None else f" → {self.labels[mark.to]}"
        return f"{self.since(mark.time)}, {MARK_KINDS[mark.kind]}{where}{onto}: {mark.label}"

    def mark(self, cluster: list[Mark], x: float, *, reaches_up: bool) -> Iterator[str]:
        """The sign of marks that are one to the eye, and a rule that leads up to their name."""
        lane, kind = cluster[0].lane, cluster[0].kind
        onto = {mark.to for mark in cluster if mark.to is not None}
        rows = [self.y(name) for name in (*onto, *([] if lane is None else [lane]))]
        if reaches_up or lane is None:
            above = self.top - 10 if reaches_up else self.top
            yield line(x, above, x, max(rows, default=self.bottom), "rule dashed")
        if lane is None:
            return
        y = self.y(lane)
        for below in sorted(self.y(name) for name in onto):
            yield line(x, y, x, below, "link")
            yield arrow(x, below, down=below >= y)
        yield knob(x, y, 3.5) if kind == "handover" and onto else "".join(sign(kind, x, y))

    def legend(self) -> Iterator[str]:
        """What the looks mean, of those that occur."""
        x, y = float(self.left), self.bottom + 58
        colour = next(iter(self.colours.values()), PALETTE[0])
        held = {span.kind for span in self.timeline.spans}
        samples = [
            (bar(Box(0, y - 7, 28, 14), kind, colour), name)
            for kind, name in SPAN_KINDS.items()
            if kind in held
        ]
        happened = {mark.kind for mark in self.timeline.marks}
        samples += [
            ("".join(sign(kind, 14, y)), name)
            for kind, name in MARK_KINDS.items()
            if kind in happened
        ]
        for shape, name in samples:
            yield f'<g transform="translate({x:.2f} 0)">{shape}'
            yield words(36, y + 4, name, "quiet")
            yield "</g>"
            x += 36 + len(name) * CHARACTER + 28
