"""Which scenes are shown: a run of pictures cut into pieces of one to two seconds.

Pure.  Every picture of a programme has a number, which is burned into it, so that whoever sees the
output can tell by its content alone whether anything is missing.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from trio_reactor.renewal import ClipRequest

__all__ = ["Pace", "RunningOrder", "Scene", "pace", "programme"]

REMEMBERED: Final = 16
"""Scenes of which it is remembered which clip they became; far more than are ever under way."""


class Scene(msgspec.Struct, frozen=True):
    """A run of pictures that is asked for as one clip."""

    number: int
    """Its place in the programme, from 1."""
    first: int
    """The number of its first picture in the programme."""
    frames: int

    @property
    def end(self) -> int:
        """The number after its last picture."""
        return self.first + self.frames

    @property
    def request(self) -> ClipRequest:
        """What the film server is asked for: the film goes on where the scene before ended."""
        return ClipRequest(
            {"scene": {"start": self.first, "frames": self.frames, "stamp": self.first}}
        )


class Pace(msgspec.Struct, frozen=True):
    """How a programme is cut and asked for, in pictures."""

    shortest: int
    longest: int
    ahead: int
    """The next scene is asked for when fewer than these are still to come."""


def pace(*, lifetime: float, lead: float, frame_rate: float) -> Pace:
    """Scenes of one to two seconds, asked for up to two seconds ahead; less for short sessions.

    A handover comes when the old session has played what it was given, at most the scene that was
    asked for last and the rest of the one before.  That has to fit into the time between preparing
    the next session and the end of the old one; and because the next session is given the same
    amount, and waits as long for its turn, twice that has to fit into its life.

    Args:
        lifetime: Seconds that a session lives.
        lead: Seconds before its end at which its successor is prepared; 0 for not at all.
        frame_rate: Pictures a second.
    """
    ahead = min(2.0, lifetime / 8)
    longest = min(2.0, lifetime / 4)
    if lead:
        ahead = min(ahead, lead / 4)
        longest = min(longest, lead / 2)
    return Pace(
        shortest=max(1, round(min(1.0, longest) * frame_rate)),
        longest=max(1, round(longest * frame_rate)),
        ahead=max(1, round(ahead * frame_rate)),
    )


def programme(
    frames: int, *, shortest: int, longest: int, chance: random.Random
) -> Iterator[Scene]:
    """Cut a programme into scenes of varying length; all of them together have these frames.

    Args:
        frames: Pictures in all.
        shortest: Pictures of a scene at least; only the last may have fewer.
        longest: Pictures of a scene at most.
        chance: Where the variation comes from.
    """
    number, first = 1, 0
    while first < frames:
        length = min(chance.randint(shortest, longest), frames - first)
        yield Scene(number, first, length)
        number, first = number + 1, first + length


class _Entry(msgspec.Struct, frozen=True):
    source: int
    clip: str
    scene: Scene


class RunningOrder:
    """Which clip of which session each scene became.

    Sessions name their clips as they like, so two of them may use the same name.  What a session
    says of a clip is told apart by the session; sound, which only knows its clip, by the order in
    which scenes are played, which is the one in which they were asked for.
    """

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque(maxlen=REMEMBERED)
        self._asked: Scene | None = None
        self._heard: tuple[int, float] = (0, 0.0)

    def ask(self, scene: Scene) -> None:
        """A scene is being asked for; what comes under an unknown name until then is of it."""
        self._asked = scene

    def accepted(self, source: int, clip: str) -> None:
        """It became this clip of this session."""
        if self._asked is not None:
            self._entries.append(_Entry(source, clip, self._asked))
            self._asked = None

    def scene(self, source: int, clip: str) -> Scene | None:
        """The scene that this clip of this session is."""
        for entry in reversed(self._entries):
            if (entry.source, entry.clip) == (source, clip):
                return entry.scene
        return self._asked

    def heard(self, clip: str | None, time: float) -> Scene | None:
        """The scene that some sound belongs to; sound comes in the order of the scenes.

        Args:
            clip: The clip, as its session names it.
            time: Of the sound, in seconds from the beginning of its clip.
        """
        number, latest = self._heard
        for entry in self._entries:
            begins_again = entry.scene.number == number and time < latest
            if entry.clip == clip and entry.scene.number >= number and not begins_again:
                self._heard = (entry.scene.number, time)
                return entry.scene
        return self._asked
