"""What a session has been asked to play: a pure machine of clips.

A clip is queued, being built, ready, on air, and gone.  Clips are built and played in the order of
the list.  The clip on air comes first; positions count the clips that wait behind it.

Every step returns the events that it makes; nothing here waits, reads a clock or knows a socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import msgspec

from trio_reactor.renewal.source import (
    Clip,
    ClipEnded,
    ClipFailed,
    ClipPhase,
    ClipStarted,
    ClipUpdated,
    SourceEvent,
    SourceState,
)
from trio_reactor.renewal.websocket.wire import Denial

__all__ = ["NotPossible", "Playlist"]


class NotPossible(Exception):
    """A request that cannot be carried out.

    Args:
        code: Why, by name.
        reason: Why, in words.
    """

    def __init__(self, code: Denial, reason: str) -> None:
        super().__init__(reason)
        self.code: Denial = code
        self.reason = reason


@final
class Playlist:
    """The clips of one session, in playing order.

    Args:
        bound: How many it may hold.
        ready_bound: How many may be ready and wait; no more are built meanwhile.
    """

    def __init__(self, *, bound: int, ready_bound: int) -> None:
        self._bound = bound
        self._ready_bound = ready_bound
        self._clips: list[Clip] = []
        self._autoplay = False

    @property
    def state(self) -> SourceState:
        """The clips and whether they are played."""
        return SourceState(tuple(self._clips), self._autoplay)

    @property
    def on_air(self) -> str | None:
        """The clip that is playing."""
        playing = self.state.playing
        return None if playing is None else playing.id

    @property
    def can_start(self) -> bool:
        """Whether the next clip is ready and wanted."""
        return self._autoplay and bool(self._clips) and self._clips[0].phase == "ready"

    @property
    def next_to_build(self) -> Clip | None:
        """The first clip that is not built yet, unless one is being built or enough are ready."""
        phases = [clip.phase for clip in self._clips]
        if "building" in phases or phases.count("ready") >= self._ready_bound:
            return None
        return next((clip for clip in self._clips if clip.phase == "queued"), None)

    def holds(self, clip: str) -> bool:
        """Whether it is in the list."""
        return any(clip == each.id for each in self._clips)

    def enqueue(self, clip: str, frames: int, position: int | None) -> Sequence[SourceEvent]:
        """Add a clip.

        Raises:
            NotPossible: If the list is full, or there is no such position.
        """
        if len(self._clips) >= self._bound:
            raise NotPossible("full", f"the session holds {self._bound} clips already")
        queued = Clip(clip, "queued", frames)
        self._clips.insert(self._place(position, among=len(self._waiting)), queued)
        return [ClipUpdated(queued)]

    def move(self, clip: str, position: int) -> Sequence[SourceEvent]:
        """Give a waiting clip another position.

        Raises:
            NotPossible: If it does not wait, or there is no such position.
        """
        moved = self._clips[self._index_of_waiting(clip)]
        place = self._place(position, among=len(self._waiting) - 1)
        self._clips.remove(moved)
        self._clips.insert(place, moved)
        return [ClipUpdated(moved)]

    def remove(self, clip: str) -> Sequence[SourceEvent]:
        """Take a waiting clip out.

        Raises:
            NotPossible: If it does not wait.
        """
        del self._clips[self._index_of_waiting(clip)]
        return [ClipEnded(clip, 0)]

    def set_autoplay(self, enabled: bool) -> None:
        """Whether what is ready is played; a clip on air is played to its end either way."""
        self._autoplay = enabled

    def building(self, clip: str) -> Sequence[SourceEvent]:
        """A clip is being built."""
        return self._phase(clip, "building")

    def built(self, clip: str) -> Sequence[SourceEvent]:
        """A clip is ready; nothing happens if it was removed meanwhile."""
        return self._phase(clip, "ready") if self.holds(clip) else []

    def failed(self, clip: str, reason: str) -> Sequence[SourceEvent]:
        """A clip could not be built; nothing happens if it was removed meanwhile."""
        if not self.holds(clip):
            return []
        self._clips = [each for each in self._clips if each.id != clip]
        return [ClipFailed(clip, reason)]

    def start(self) -> tuple[Clip, Sequence[SourceEvent]] | None:
        """Put the next clip on air, if it is ready and wanted."""
        if not self.can_start:
            return None
        clip = self._clips[0] = msgspec.structs.replace(self._clips[0], phase="playing")
        return clip, [ClipStarted(clip.id, clip.frames)]

    def end(self, frames: int) -> Sequence[SourceEvent]:
        """Take the clip on air off, after this many pictures; nothing happens if there is none."""
        clip = self.on_air
        if clip is None:
            return []
        del self._clips[0]
        return [ClipEnded(clip, frames)]

    @property
    def _waiting(self) -> list[Clip]:
        return [clip for clip in self._clips if clip.phase != "playing"]

    def _place(self, position: int | None, *, among: int) -> int:
        """The index in the list of a position among this many clips that wait."""
        if position is None:
            position = among
        if not 0 <= position <= among:
            raise NotPossible("out-of-range", f"position: from 0 to {among}, not {position}")
        return position + (self.on_air is not None)

    def _index_of_waiting(self, clip: str) -> int:
        for index, each in enumerate(self._clips):
            if each.id == clip:
                if each.phase == "playing":
                    raise NotPossible("on-air", f"clip {clip} is on air")
                return index
        raise NotPossible("unknown-clip", f"there is no clip {clip[:64]!r}")

    def _phase(self, clip: str, phase: ClipPhase) -> Sequence[SourceEvent]:
        for index, each in enumerate(self._clips):
            if each.id == clip:
                self._clips[index] = msgspec.structs.replace(each, phase=phase)
                return [ClipUpdated(self._clips[index])]
        return []
