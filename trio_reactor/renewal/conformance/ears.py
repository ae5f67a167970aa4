"""The sinks of a source under test: they keep all that was pushed, in order."""

from __future__ import annotations

from typing import cast, final

import trio

from trio_reactor.renewal.source import (
    AudioFrame,
    Clip,
    ClipEnded,
    ClipFailed,
    ClipStarted,
    ClipUpdated,
    SourceEvent,
    SourceState,
    VideoFrame,
)

__all__ = ["Ears", "follow", "heard_of"]


@final
class _Events:
    """Implements `EventSink`."""

    def __init__(self, ears: Ears) -> None:
        self._ears = ears

    def event(self, event: SourceEvent, /) -> None:
        """Keep one event."""
        self._ears.told.append(event)
        self._ears.wake()

    def lost(self, cause: Exception | None, /) -> None:
        """Keep that there are no more."""
        self._ears.events_lost.append(cause)
        self._ears.wake()


@final
class _Media:
    """Implements `MediaSink`."""

    def __init__(self, ears: Ears) -> None:
        self._ears = ears

    def video(self, frame: VideoFrame, /) -> None:
        """Keep one picture."""
        self._ears.pictures.append(frame)
        self._ears.wake()

    def audio(self, frame: AudioFrame, /) -> None:
        """Keep one run of sound."""
        self._ears.sounds.append(frame)
        self._ears.wake()

    def lost(self, cause: Exception | None, /) -> None:
        """Keep that there are no more."""
        self._ears.media_lost.append(cause)
        self._ears.wake()


@final
class Ears:
    """A sink for events and one for media, with all that they were given."""

    def __init__(self) -> None:
        self.events = _Events(self)
        self.media = _Media(self)
        self.told: list[SourceEvent] = []
        self.pictures: list[VideoFrame] = []
        self.sounds: list[AudioFrame] = []
        self.events_lost: list[Exception | None] = []
        self.media_lost: list[Exception | None] = []
        self.changed = trio.Event()

    def wake(self) -> None:
        """Wake who waits for something to come."""
        self.changed.set()
        self.changed = trio.Event()

    @property
    def amount(self) -> tuple[int, int, int]:
        """How many events, pictures and runs of sound came."""
        return len(self.told), len(self.pictures), len(self.sounds)

    def started(self, clip: str) -> bool:
        """Whether a clip went on air."""
        return any(isinstance(each, ClipStarted) and each.clip == clip for each in self.told)

    def over(self, clip: str) -> bool:
        """Whether a clip was played or failed."""
        return any(
            isinstance(each, ClipEnded | ClipFailed) and each.clip == clip for each in self.told
        )

    def ready(self, clip: str) -> bool:
        """Whether a clip could be played, or was said to have been."""
        return self.over(clip) or any(
            (isinstance(each, ClipUpdated) and each.clip.id == clip and each.clip.phase == "ready")
            or (isinstance(each, ClipStarted) and each.clip == clip)
            for each in self.told
        )


def heard_of(event: SourceEvent) -> str | None:
    """The clip that an event is about, if it is about one."""
    match event:
        case ClipUpdated(clip=clip):
            return clip.id
        case ClipStarted(clip=name) | ClipEnded(clip=name) | ClipFailed(clip=name):
            return name
        case _:
            return None


def follow(state: SourceState, events: list[SourceEvent]) -> dict[str, str]:
    """The phases of the clips that whoever was given this state, and then these events, knows."""
    known: dict[str, Clip] = {clip.id: clip for clip in state.clips}
    for event in events:
        match event:
            case ClipUpdated(clip=clip):
                known[clip.id] = clip
            case ClipStarted(clip=name, frames=frames):
                known[name] = Clip(name, "playing", frames)
            case ClipEnded(clip=name) | ClipFailed(clip=name):
                known.pop(name, None)
            case _:
                pass
    return {name: cast("str", clip.phase) for name, clip in known.items()}
