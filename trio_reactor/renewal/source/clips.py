"""What a source plays: clips, what it tells of them, and the sink that hears it."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from trio_reactor.renewal.jsonvalue import Json

__all__ = [
    "Clip",
    "ClipEnded",
    "ClipFailed",
    "ClipPhase",
    "ClipRequest",
    "ClipStarted",
    "ClipUpdated",
    "EventSink",
    "GoingAway",
    "SourceEvent",
    "SourceState",
]


ClipPhase = Literal["queued", "building", "ready", "playing"]


class ClipRequest(msgspec.Struct, frozen=True):
    """What is to be played next, in the provider's terms."""

    payload: dict[str, Json]
    """What the provider is asked for."""
    continue_from: str | None = None
    """The clip that this one continues; both must be played by the same source."""


class Clip(msgspec.Struct, frozen=True):
    """One clip as its source sees it."""

    id: str
    """Its identity, distinct from those of all other sources: a request that names a clip of which
    two live sources have one is refused."""
    phase: ClipPhase
    frames: int | None = None
    """How many pictures it has, once that is known."""


class SourceState(msgspec.Struct, frozen=True):
    """Everything a source has to say about its clips, in playing order."""

    clips: tuple[Clip, ...] = ()
    autoplay: bool = False

    @property
    def playing(self) -> Clip | None:
        """The clip on air, if there is one."""
        return next((clip for clip in self.clips if clip.phase == "playing"), None)


class ClipUpdated(msgspec.Struct, frozen=True, tag=True):
    """A clip was queued, is being built, or is ready."""

    clip: Clip


class ClipStarted(msgspec.Struct, frozen=True, tag=True):
    """A clip went on air; its pictures follow."""

    clip: str
    frames: int | None = None


class ClipEnded(msgspec.Struct, frozen=True, tag=True):
    """A clip was played to its end, or removed; it is no longer in the state."""

    clip: str
    frames: int | None = None
    """How many pictures of it were sent."""


class ClipFailed(msgspec.Struct, frozen=True, tag=True):
    """A clip could not be built or played; it is no longer in the state."""

    clip: str
    reason: str
    """The provider's words."""


class GoingAway(msgspec.Struct, frozen=True, tag=True):
    """The source will end sooner than it said."""

    expires_in: float
    """Seconds from now."""
    reason: str = ""
    """The provider's words."""


SourceEvent = ClipUpdated | ClipStarted | ClipEnded | ClipFailed | GoingAway


class EventSink(Protocol):
    """Where a source puts its events.  No method waits or raises, at any time, from any task."""

    def event(self, event: SourceEvent, /) -> None:
        """Take one event."""
        ...

    def lost(self, cause: Exception | None, /) -> None:
        """Hear that no more will come; `None` if they ended without an error."""
        ...
