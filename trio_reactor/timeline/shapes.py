"""What a drawing is made of: shapes and words as SVG, in colours that can be read.

Everything looks as `STYLE` says of its class, in light and in dark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from .model import MarkKind, SpanKind

__all__ = [
    "INK",
    "PAPER",
    "STYLE",
    "Box",
    "arrow",
    "bar",
    "contrast",
    "fitted",
    "knob",
    "line",
    "named",
    "readable_on",
    "sign",
    "text",
    "words",
]

INK: Final = "#1c2333"
PAPER: Final = "#ffffff"
BROKEN: Final = "#c81e2c"

STYLE: Final = """
.timeline{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
  font-size:12px}
.timeline .ground{fill:#fcfcfe}
.timeline .band{fill:#f1f4f9}
.timeline .ink{fill:#1c2333}
.timeline .quiet{fill:#586275}
.timeline .grid{stroke:#dde2ec;stroke-width:1}
.timeline .axis{stroke:#8b95a7;stroke-width:1}
.timeline .rule{stroke:#586275;stroke-width:1.2;fill:none}
.timeline .link{stroke:#1c2333;stroke-width:1.6;fill:none}
.timeline .knob{fill:#1c2333;stroke:#fcfcfe;stroke-width:1.5}
.timeline .loss{fill:#c81e2c;stroke:#fcfcfe;stroke-width:1.5}
.timeline .recovery{fill:#12805c;stroke:#fcfcfe;stroke-width:1.5}
.timeline .sign{stroke:#ffffff;stroke-width:1.8;stroke-linecap:round;fill:none}
.timeline .title{font-size:20px;font-weight:650}
.timeline .name{font-size:13px;font-weight:550}
.timeline .faint{fill-opacity:.14}
.timeline .half{fill-opacity:.34}
.timeline .dashed{stroke-dasharray:4 3}
.timeline g:hover>.bar{stroke-width:2.5}
@media (prefers-color-scheme:dark){
.timeline .ground{fill:#12161f}
.timeline .band{fill:#191f2b}
.timeline .ink{fill:#e8ecf4}
.timeline .quiet{fill:#a3adbf}
.timeline .grid{stroke:#2b3343}
.timeline .axis{stroke:#69748a}
.timeline .rule{stroke:#a3adbf}
.timeline .link{stroke:#e8ecf4}
.timeline .knob{fill:#e8ecf4;stroke:#12161f}
.timeline .loss{fill:#e5484d;stroke:#12161f}
.timeline .recovery{fill:#1b9e73;stroke:#12161f}
.timeline .faint{fill-opacity:.26}
.timeline .half{fill-opacity:.5}
}
"""


class Box(NamedTuple):
    """A rectangle on the picture."""

    x: float
    y: float
    width: float
    height: float


_LOOKS: Final[dict[SpanKind, str]] = {
    "opening": "bar faint dashed",
    "ready": "bar half",
    "active": "bar",
    "leaving": "bar faint",
    "broken": "bar faint dashed",
}


def bar(box: Box, kind: SpanKind, colour: str) -> str:
    """The bar of a span, with the look of its kind."""
    edge = BROKEN if kind == "broken" else colour
    return (
        f'<rect class="{_LOOKS[kind]}" x="{box.x:.2f}" y="{box.y:.2f}" width="{box.width:.2f}" '
        f'height="{box.height:g}" rx="{min(5.0, box.width / 2):.2f}" fill="{edge}" '
        f'stroke="{edge}" stroke-width="1.2"/>'
    )


def sign(kind: MarkKind, x: float, y: float) -> Iterator[str]:
    """The sign of a mark, around a point."""
    match kind:
        case "handover":
            yield line(x, y - 9, x, y + 8, "link")
            yield knob(x, y - 8, 3)
            yield arrow(x, y + 9, down=True)
        case "loss":
            yield f'<circle class="loss" cx="{x:.2f}" cy="{y:.2f}" r="8"/>'
            yield f'<path class="sign" d="M{x - 3:.2f} {y - 3:.2f}l6 6m0 -6l-6 6"/>'
        case "recovery":
            yield f'<circle class="recovery" cx="{x:.2f}" cy="{y:.2f}" r="8"/>'
            yield f'<path class="sign" d="M{x - 4:.2f} {y:.2f}l3 3l5 -6"/>'
        case "note":
            yield f'<path class="knob" d="M{x:.2f} {y - 6:.2f}l6 6l-6 6l-6 -6z"/>'


def knob(x: float, y: float, radius: float) -> str:
    """Where an arrow begins."""
    return f'<circle class="knob" cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}"/>'


def arrow(x: float, y: float, *, down: bool) -> str:
    """The head of an arrow, with its tip at a point."""
    back = -9 if down else 9
    return f'<path class="knob" d="M{x:.2f} {y:.2f}l-5 {back}h10z"/>'


def line(x1: float, y1: float, x2: float, y2: float, look: str) -> str:
    """A straight line."""
    return f'<line class="{look}" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"/>'


def words(
    x: float,
    y: float,
    content: str,
    look: str,
    *,
    anchor: str = "start",
    size: int | None = None,
    fill: str | None = None,
) -> str:
    """A line of words; the point is where its baseline begins, or its middle."""
    attributes = [f'x="{x:.2f}" y="{y:.2f}"']
    if look:
        attributes.append(f'class="{look}"')
    if anchor != "start":
        attributes.append(f'text-anchor="{anchor}"')
    if size is not None:
        attributes.append(f'font-size="{size}"')
    if fill is not None:
        attributes.append(f'fill="{fill}"')
    return f"<text {' '.join(attributes)}>{text(content)}</text>"


def named(tooltip: str) -> Iterator[str]:
    """Begins a group that has this tooltip, which assistive technology reads as its name."""
    yield f'<g role="img" aria-label={quoteattr(_clean(tooltip))}>'
    yield f"<title>{text(tooltip)}</title>"


# ----------------------------------------------------------------------------------- text, colour

# Characters that an XML 1.0 document cannot hold, in whatever way they are written.
_UNSPEAKABLE: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def _clean(words: str) -> str:
    return _UNSPEAKABLE.sub("\ufffd", words)


def text(words: str) -> str:
    """Any words as the text of an XML element."""
    return escape(_clean(words))


def fitted(words: str, characters: float) -> str:
    """As much of the words as fits, or nothing if that would say nothing."""
    room = math.floor(characters)
    if len(words) <= room:
        return words
    return f"{words[: room - 1].rstrip()}…" if room >= 8 else ""


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it, from 0 to 1."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 defines it, from 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def readable_on(colour: str) -> str:
    """The one of ink and paper that contrasts more with this colour."""
    return max((PAPER, INK), key=lambda text: contrast(text, colour))
