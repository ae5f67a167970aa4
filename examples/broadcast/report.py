"""What came of a broadcast: numbers that add up, a table to read, one line of JSON.

Pure.  What is missing is found by content: every picture carries its number, numbers only rise, and
what was asked for and did not come is lost.  Why it was lost is told by the events.
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias, get_args

import msgspec
from rich.table import Table

from trio_reactor.renewal.events import LossReason
from trio_reactor.renewal.policy.handoff import HandoffKind

from .programme import Scene

__all__ = ["HANDOVERS", "IN_WORDS", "Gap", "Numbers", "OutOfOrder", "Tally", "Term", "table"]

Term: TypeAlias = HandoffKind | LossReason
"""What the library calls it when a session gives way, or when something is lost."""

HANDOVERS: Final[tuple[HandoffKind, ...]] = get_args(HandoffKind)
"""Those of why a session gave way."""

IN_WORDS: Final[dict[Term, str]] = {
    "count-complete": "a session gave way when every frame of its last scene had come",
    "grace-elapsed": "a session gave way when its last scene was over and late frames had had time",
    "no-observed-start": "a session gave way before it had played anything",
    "media-lost": "a connection broke, and no frames came until there was another",
    "events-lost": "a connection broke, and nothing was heard until there was another",
    "reconnect-failed": "a connection could not be made again, so another session took over",
    "outcome-unknown": "a request was not answered, so another session took over",
    "check-failed": "a session was found unfit, so another took over",
    "contract-broken": "what a session said made no sense, so another took over",
    "died": "a session ended by itself, so another took over",
    "expired": "a session's time was up while it still played",
}
"""The same for a person who sees such a word for the first time."""


MAX_NAMED: Final = 256
"""Gaps that are named, and disturbances that are remembered; all are counted."""


class OutOfOrder(Exception):
    """A picture came that was not asked for, came twice, or came after a later one."""


class Gap(msgspec.Struct, frozen=True):
    """Pictures of one scene that were asked for and did not come."""

    scene: int
    first: int
    last: int
    why: str
    """What had happened when they were due."""

    @property
    def frames(self) -> int:
        """How many they are."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        span = f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
        frames = "1 frame" if self.frames == 1 else f"{self.frames} frames"
        return f"{frames} of scene {self.scene} ({span}): {self.why}"


class Numbers(msgspec.Struct, frozen=True):
    """The result, as `--json` prints it.

    Raises:
        ValueError: If the numbers do not add up.
    """

    sessions: int
    handovers: int
    frames_expected: int
    frames_received: int
    frames_lost: int
    max_gap_ms: float | None
    """The longest time between two pictures at the output; `None` with fewer than two."""
    recording: str
    timeline: str

    def __post_init__(self) -> None:
        if self.frames_expected != self.frames_received + self.frames_lost:
            raise ValueError(
                f"{self.frames_expected} frames were expected, but {self.frames_received} received "
                f"and {self.frames_lost} lost"
            )


class Tally:
    """Counts what was asked for and what came.

    The two ends of a broadcast are counted apart, one by who asks, the other by what the pictures
    that arrive say of themselves, so that the numbers prove something when they agree.
    """

    def __init__(self) -> None:
        self.expected = 0
        self.received = 0
        self.lost = 0
        self.longest_gap: float | None = None
        """Seconds between two pictures that followed one another at the output."""
        self.gaps: deque[Gap] = deque(maxlen=MAX_NAMED)
        self._scenes: deque[Scene] = deque()
        self._over: set[int] = set()
        self._next = 0
        self._last_arrival: float | None = None
        self._disturbances: deque[tuple[int, str]] = deque(maxlen=MAX_NAMED)

    def expect(self, scene: Scene) -> None:
        """Count a scene that is asked for; scenes come in the order of their pictures."""
        self._scenes.append(scene)
        self.expected += scene.frames

    def arrived(self, number: int, time: float) -> None:
        """Count a picture by the number it carries.

        Args:
            number: The number that was read from the picture.
            time: When it reached the output, in seconds.

        Raises:
            OutOfOrder: If it cannot be the next one.
        """
        if number < self._next:
            raise OutOfOrder(f"picture {number} came after picture {self._next - 1}")
        if not self._scenes or number >= self._scenes[-1].end:
            raise OutOfOrder(f"picture {number} came without having been asked for")
        self._miss(number)
        self.received += 1
        self._next = number + 1
        if self._last_arrival is not None:
            self.longest_gap = max(self.longest_gap or 0.0, time - self._last_arrival)
        self._last_arrival = time

    def disturbed(self, why: str) -> None:
        """Note that something went wrong: what is missing from here on is missing because of it."""
        self._disturbances.append((self._next, why))

    def over(self, scene: Scene) -> None:
        """Note that a scene was said to be over, whether all of it has come or not."""
        if any(waiting is scene for waiting in self._scenes):
            self._over.add(scene.number)

    @property
    def outstanding(self) -> int:
        """How many pictures of what was asked for are still to come."""
        return sum(
            max(0, scene.end - max(scene.first, self._next))
            for scene in self._scenes
            if scene.number not in self._over
        )

    def finish(self) -> None:
        """Count what did not come, once nothing more will."""
        if self._scenes:
            self._miss(self._scenes[-1].end)

    def _miss(self, until: int) -> None:
        """Whatever was asked for before this number and has not come is lost."""
        while self._scenes and self._scenes[0].first < until:
            scene = self._scenes[0]
            first, end = max(scene.first, self._next), min(scene.end, until)
            if first < end:
                self.lost += end - first
                self.gaps.append(Gap(scene.number, first, end - 1, self._why(first)))
                self._next = end
            if scene.end > until:
                break
            self._over.discard(scene.number)
            self._scenes.popleft()

    def _why(self, number: int) -> str:
        """The first thing that went wrong since the last picture that came before this one."""
        latest = max((since for since, _ in self._disturbances if since <= number), default=None)
        causes = (why for since, why in self._disturbances if since == latest)
        return next(causes, "dropped on the way")


def table(numbers: Numbers) -> Table:
    """The result for a person to read."""
    shown = Table(title="Broadcast", title_justify="left", show_header=False, min_width=44)
    shown.add_column(style="bold")
    shown.add_column(justify="right")
    gap = numbers.max_gap_ms
    for name, value in (
        ("sessions", f"{numbers.sessions}"),
        ("handovers", f"{numbers.handovers}"),
        ("frames expected", f"{numbers.frames_expected}"),
        ("frames received", f"{numbers.frames_received}"),
        ("frames lost", f"{numbers.frames_lost}"),
        ("longest gap between frames", "-" if gap is None else f"{gap:.0f} ms"),
    ):
        shown.add_row(name, value)
    return shown
