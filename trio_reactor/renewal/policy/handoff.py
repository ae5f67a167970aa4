"""When one source may hand over to the next, and the evidence that it was time.

A handoff happens at a boundary and nowhere else: no sequence is open on the old source, the old
source is idle, the next one has something to show, and the pictures of the old one's last clip have
arrived: all of them by count, or, where the count is not known or not reached, all that came within
a grace after the clip ended.

`boundary` is given facts and answers with the evidence, with the time from which there will be
some if nothing changes, or with nothing: then only a change can help.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "BoundaryFacts",
    "GraceFrom",
    "GraceUntil",
    "HandoffEvidence",
    "HandoffKind",
    "LastClip",
    "boundary",
]

HandoffKind = Literal["no-observed-start", "count-complete", "grace-elapsed"]
"""What showed that the old source had nothing more to give."""

GraceFrom = Literal["ended", "idle"]
"""What began the grace: the clip was said to have ended, or its source was found idle."""


class LastClip(msgspec.Struct, frozen=True):
    """The clip of a source that was the last to go on air."""

    clip: str
    frames_expected: int | None
    """How many pictures were announced or said to have been sent, if that is known."""
    frames_received: int
    ended_at: float | None = None
    """When it was said to have ended, on the clock; `None` if that was not heard."""


class BoundaryFacts(msgspec.Struct, frozen=True):
    """What decides whether an old source may hand over."""

    open_sequences: bool
    """Whether a sequence is open on the old source, or a command to it is not answered."""
    idle_since: float | None
    """Since when the old source has had no clip in any phase, on the clock; `None` if it has."""
    next_ready: bool
    """Whether the next source has something to show; always true of one that plays no clips."""
    last: LastClip | None = None
    """The old source's last clip; `None` if none was seen to start."""


class HandoffEvidence(msgspec.Struct, frozen=True):
    """What was known in the step in which a handoff became eligible.

    Raises:
        ValueError: If it claims what its own numbers do not show.
    """

    kind: HandoffKind
    captured_at: float
    """On the clock."""
    clip: str | None = None
    frames_expected: int | None = None
    frames_received: int = 0
    grace_from: GraceFrom | None = None
    """What began the grace; `None` without a last clip."""
    grace_began: float | None = None
    """When it began, on the clock; `None` without a last clip."""

    def __post_init__(self) -> None:
        observed = self.clip is not None
        if observed != (self.kind != "no-observed-start"):
            raise ValueError(f"{self.kind} contradicts the clip {self.clip!r}")
        if observed != (self.grace_began is not None) or observed != (self.grace_from is not None):
            raise ValueError(f"{self.kind} contradicts the grace {self.grace_from}")
        if self.kind == "count-complete" and not _complete(
            self.frames_expected, self.frames_received
        ):
            raise ValueError(
                f"{self.frames_received} of {self.frames_expected} frames is not a complete count"
            )


class GraceUntil(msgspec.Struct, frozen=True):
    """Nothing is missing but the rest of the grace."""

    at: float
    """When it will be over, on the clock; later than now."""


def boundary(
    facts: BoundaryFacts, *, now: float, grace: float
) -> HandoffEvidence | GraceUntil | None:
    """Whether this is a boundary.

    Args:
        facts: What is known of the two sources.
        now: The time, on the clock.
        grace: Seconds to wait for the pictures of the last clip after it ended.

    Returns:
        The evidence if it is; how long to wait if only the grace is missing; else `None`.
    """
    if facts.open_sequences or facts.idle_since is None or not facts.next_ready:
        return None
    last = facts.last
    if last is None:
        return HandoffEvidence("no-observed-start", now)
    # A clip whose end was never heard must not hold the handoff until the source expires, so the
    # grace begins at the latest where the source was found idle.
    came_from: GraceFrom = "idle" if last.ended_at is None else "ended"
    began = facts.idle_since if last.ended_at is None else last.ended_at
    kind: HandoffKind
    if _complete(last.frames_expected, last.frames_received):
        kind = "count-complete"
    elif now >= began + grace:
        kind = "grace-elapsed"
    else:
        return GraceUntil(began + grace)
    return HandoffEvidence(
        kind,
        now,
        last.clip,
        last.frames_expected,
        last.frames_received,
        came_from,
        began,
    )


def _complete(expected: int | None, received: int) -> bool:
    return expected is not None and received >= expected
