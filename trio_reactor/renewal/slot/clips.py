"""What is known of the clips of one source: its own account of them, and the pictures that came.

The book is opened with the source's state and kept by its events.  A refreshed state, after a
reconnect, replaces what was known; a clip that it no longer has is lost, and no life is invented
for it.  A clip that ends while no pictures can reach us was not seen to its end: it is unfinished
too, unless the source comes back and counts what was missed.  Events and pictures may come on
different ways, so pictures of a clip that was not said to have started yet are counted all the
same, and what is said twice or late changes nothing.

Pure but for being kept: it reads no clock and does no I/O.
"""

from __future__ import annotations

from typing import Final, final

import msgspec

from trio_reactor.renewal.policy.handoff import LastClip
from trio_reactor.renewal.source import (
    Clip,
    ClipEnded,
    ClipFailed,
    ClipStarted,
    ClipUpdated,
    SourceState,
)

__all__ = ["ClipBook", "ClipEvent", "Unfinished"]

ClipEvent = ClipUpdated | ClipStarted | ClipEnded | ClipFailed

_REMEMBERED: Final = 256
"""How many clips are remembered after their end, so that a late word of one revives none; and for
how many that are not over it is counted what came of them."""


class Unfinished(msgspec.Struct, frozen=True):
    """A clip that will not be played to its end."""

    clip: str
    frames_expected: int | None
    frames_received: int


@final
class _Showing:
    """What came of one clip."""

    __slots__ = ("clip", "ended_at", "expected", "pictures", "samples", "started")

    def __init__(self, clip: str) -> None:
        self.clip = clip
        self.started = False
        self.expected: int | None = None
        self.pictures = 0
        self.samples = 0
        self.ended_at: float | None = None


@final
class ClipBook:
    """The clips of one source."""

    def __init__(self, now: float) -> None:
        self._clips: dict[str, Clip] = {}
        self._ready = 0
        """How many of them are ready: asked for in each step of a handover."""
        self._over: dict[str, None] = {}
        self._unsaid: set[str] = set()
        """The clips that are known from an answer or a whole state, and of which no event told."""
        self.idle_since: float | None = now
        """Since when there has been no clip in any phase; `None` while there is one."""
        self._shown: dict[str, _Showing] = {}
        """What came of the clips that are not over, started or not."""
        self._last: _Showing | None = None
        self._unseen: dict[str, Unfinished] = {}
        """The clips whose ends were not seen, because the pictures did not reach us."""

    def __len__(self) -> int:
        return len(self._clips)

    def __contains__(self, clip: object) -> bool:
        return clip in self._clips

    def knows(self, clip: str) -> bool:
        """Whether it has the clip, or remembers its end."""
        return clip in self._clips or clip in self._over

    @property
    def clips(self) -> tuple[Clip, ...]:
        """The clips in playing order, as far as the source's state and what it was asked tell."""
        return tuple(self._clips.values())

    @property
    def known(self) -> tuple[str, ...]:
        """The clips that it has, after those of which it remembers the end."""
        return (*self._over, *self._clips)

    @property
    def has_ready(self) -> bool:
        """Whether a clip could be shown at once."""
        return self._ready > 0

    @property
    def last(self) -> LastClip | None:
        """The last clip that went on air, if one was seen to start."""
        last = self._last
        if last is None:
            return None
        return LastClip(last.clip, last.expected, last.pictures, last.ended_at)

    @property
    def samples(self) -> int:
        """Interleaved samples received of the last clip."""
        return 0 if self._last is None else self._last.samples

    @property
    def complete(self) -> bool:
        """Whether the last clip has ended and all its pictures have come."""
        last = self._last
        return (
            last is not None
            and last.ended_at is not None
            and last.expected is not None
            and last.pictures >= last.expected
        )

    def refresh(self, state: SourceState, now: float) -> tuple[Unfinished, ...]:
        """Take the source's whole state; returns the clips it no longer has."""
        kept = {clip.id: clip for clip in state.clips}
        gone = tuple(self._unfinished(clip) for clip in self._clips.values() if clip.id not in kept)
        for lost in gone:
            self._forget(lost.clip)
        for known in kept:
            self._over.pop(known, None)  # the whole state is the source's last word
        self._unsaid = {
            known
            for known, clip in kept.items()
            if known in self._unsaid or self._clips.get(known) != clip
        }
        self._clips = kept
        self._ready = sum(clip.phase == "ready" for clip in kept.values())
        playing = state.playing
        if playing is not None:
            self._start(playing.id, playing.frames)
        self._settle(now)
        return gone

    def apply(self, event: ClipEvent, now: float, *, seen: bool = True) -> bool:
        """Take one event of the source's; returns whether it told anything new.

        Args:
            event: The event.
            now: The present, on the clock.
            seen: Whether the source's pictures reach us.
        """
        match event:
            case ClipUpdated(clip=clip):
                news = self._update(clip)
            case ClipStarted(clip=clip, frames=frames):
                news = self._update(Clip(clip, "playing", frames))
            case ClipEnded(clip=clip, frames=frames):
                if not seen:
                    self._miss(clip, frames)
                news = self._end(clip, frames, now)
            case ClipFailed(clip=clip):
                news = self._end(clip, None, now)
        self._settle(now)
        return news

    def accepted(self, clip: str, now: float, position: int | None = None) -> None:
        """A request was answered with this identity; its events may have come before.

        Args:
            clip: The identity.
            now: The present, on the clock.
            position: Its place among the clips that wait, from 0; `None` for the end.
        """
        if not self.knows(clip):
            self._clips[clip] = Clip(clip, "queued")
            self._unsaid.add(clip)
            self._settle(now)
        if position is not None:
            self.moved(clip, position)

    def moved(self, clip: str, position: int) -> None:
        """A clip was given another place among those that wait, from 0; beyond, the last."""
        known = self._clips.get(clip)
        if known is None or known.phase == "playing":
            return
        others = [each for each in self._clips.values() if each.id != clip]
        waiting = [each for each in others if each.phase != "playing"]
        waiting.insert(max(0, min(position, len(waiting))), known)
        playing = [each for each in others if each.phase == "playing"]
        self._clips = {each.id: each for each in (*playing, *waiting)}

    def picture(self, clip: str | None) -> None:
        """A picture came, of this clip if it says so."""
        showing = self._showing(clip)
        if showing is not None:
            showing.pictures += 1

    def sound(self, clip: str | None, samples: int) -> None:
        """Sound came; interleaved samples."""
        showing = self._showing(clip)
        if showing is not None:
            showing.samples += samples

    def unfinished(self) -> tuple[Unfinished, ...]:
        """What is lost if the source goes now."""
        waiting = (self._unfinished(clip) for clip in self._clips.values())
        return (*self._unseen.values(), *waiting)

    def regained(self) -> None:
        """Pictures reach us again, and the source counts those that did not."""
        self._unseen.clear()

    def _miss(self, clip: str, frames: int | None) -> None:
        """A clip ends, after this many pictures if that is told; what is missing cannot come."""
        known = self._clips.get(clip)
        if known is None:
            return
        lost = self._unfinished(known)
        if frames is not None:
            lost = msgspec.structs.replace(lost, frames_expected=frames)
        elif clip not in self._shown:
            return  # it never went on air
        if lost.frames_expected is None or lost.frames_received < lost.frames_expected:
            self._unseen[clip] = lost
            if len(self._unseen) > _REMEMBERED:
                del self._unseen[next(iter(self._unseen))]

    def _showing(self, clip: str | None) -> _Showing | None:
        last = self._last
        if clip is None or (last is not None and clip == last.clip):
            return last
        if clip in self._over:
            return None
        showing = self._shown.get(clip)
        if showing is None:
            showing = self._shown[clip] = _Showing(clip)
            if len(self._shown) > _REMEMBERED:
                del self._shown[next(iter(self._shown))]
        return showing

    def _unfinished(self, clip: Clip) -> Unfinished:
        showing = self._shown.get(clip.id)
        if showing is None:
            return Unfinished(clip.id, clip.frames, 0)
        expected = clip.frames if showing.expected is None else showing.expected
        return Unfinished(clip.id, expected, showing.pictures)

    def _update(self, clip: Clip) -> bool:
        if clip.id in self._over:
            return False
        known, said = self._clips.get(clip.id), clip.phase
        if known is not None and clip.frames is None:
            clip = Clip(clip.id, clip.phase, known.frames)
        if known is not None and known.phase == "playing":
            clip = Clip(clip.id, "playing", clip.frames)  # a word that came late
        self._clips[clip.id] = clip
        self._ready += (clip.phase == "ready") - (known is not None and known.phase == "ready")
        if clip.phase == "playing":
            self._start(clip.id, clip.frames)
        if clip.phase != said:
            return clip != known
        unsaid = clip.id in self._unsaid
        self._unsaid.discard(clip.id)
        return unsaid or clip != known

    def _start(self, clip: str, frames: int | None) -> None:
        last = self._shown.setdefault(clip, _Showing(clip))
        if not last.started:
            last.started = True
            self._last = last
        if frames is not None:
            last.expected = frames

    def _end(self, clip: str, frames: int | None, now: float) -> bool:
        if clip in self._over:
            return False
        last = self._shown.get(clip)
        if last is not None and not last.started:
            known = self._clips.get(clip)
            self._start(clip, None if known is None else known.frames)  # nobody said that it did
        if last is not None:
            last.ended_at = now
            last.expected = last.expected if frames is None else frames
        self._forget(clip)
        return True

    def _forget(self, clip: str) -> None:
        known = self._clips.pop(clip, None)
        self._ready -= known is not None and known.phase == "ready"
        self._shown.pop(clip, None)
        self._unsaid.discard(clip)
        self._over[clip] = None
        if len(self._over) > _REMEMBERED:
            del self._over[next(iter(self._over))]

    def _settle(self, now: float) -> None:
        if self._clips:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = now
