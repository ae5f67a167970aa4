"""A timeline anyone can look at: what was held when, by whom, and why it changed hands.

Three steps, each a pure one.  A system's own mapping turns each of its events into *steps*; a
`TimelineBuilder` lays the steps of many events out in time; `render_svg` draws the result as one
picture that any browser opens.

    builder = renewal_timeline("One broadcast")
    for envelope in envelopes:
        builder.feed(envelope)
    Path("timeline.svg").write_text(render_svg(builder.build()), encoding="utf-8")
"""

from __future__ import annotations

from .builder import Happened, Step, TimelineBuilder, Turned, TurnedBack, TurnedOff
from .model import Lane, Mark, MarkKind, Span, SpanKind, Timeline
from .svg import render_svg

__all__ = [
    "Happened",
    "Lane",
    "Mark",
    "MarkKind",
    "Span",
    "SpanKind",
    "Step",
    "Timeline",
    "TimelineBuilder",
    "Turned",
    "TurnedBack",
    "TurnedOff",
    "render_svg",
]
