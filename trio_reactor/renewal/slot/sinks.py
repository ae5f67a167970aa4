"""Where a source pushes what it has to tell: fenced with the generation of it that they belong to.

A sink never waits.  After a reconnect, or once its source leaves, what an old generation still
pushes changes nothing any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from trio_reactor.fence import Token
from trio_reactor.renewal.source import AudioFrame, GoingAway, SourceEvent, VideoFrame

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["MAX_EARLY", "SlotEvents", "SlotFrames"]

MAX_EARLY: Final = 256
"""How many events a source may push while it is set up, and before its state is known."""


@final
class SlotEvents:
    """Where one generation of a source's events goes; implements `EventSink`.

    What follows a state can come before the task that asked for the state goes on.  It is held
    until then, as the state would undo it.
    """

    __slots__ = ("_held", "_slot", "_token")

    def __init__(self, slot: Slot, token: Token) -> None:
        self._slot = slot
        self._token = token
        self._held: list[SourceEvent] | None = []

    def event(self, event: SourceEvent, /) -> None:
        """Take one event."""
        if not self._token.live:
            return
        # That it will end is no part of the state, and not to be delayed.
        if self._held is None or isinstance(event, GoingAway):
            self._slot.took(event)
        elif len(self._held) < MAX_EARLY:
            self._held.append(event)
        else:
            self._slot.told_too_much()

    def release(self) -> None:
        """Take what was held, now that the state is known."""
        held, self._held = self._held, None
        for event in held or ():
            self.event(event)

    def lost(self, cause: Exception | None, /) -> None:
        """Hear that no more will come."""
        if self._token.live:
            self._slot.broke("events-lost", cause)


@final
class SlotFrames:
    """Where one generation of a source's frames goes: to the output, while the source feeds it.

    Implements `MediaSink`.
    """

    __slots__ = ("_slot", "_token")

    def __init__(self, slot: Slot, token: Token) -> None:
        self._slot = slot
        self._token = token

    def video(self, frame: VideoFrame, /) -> None:
        """Take one picture."""
        slot = self._slot
        if self._token.live and slot.host.on_air is slot:
            slot.book.picture(frame.clip)
            slot.host.output.offer_video(frame)
            if slot.book.complete:
                slot.host.changed()

    def audio(self, frame: AudioFrame, /) -> None:
        """Take one run of sound."""
        slot = self._slot
        if self._token.live and slot.host.on_air is slot:
            slot.book.sound(frame.clip, frame.samples)
            slot.host.output.offer_audio(frame)

    def lost(self, cause: Exception | None, /) -> None:
        """Hear that no more will come."""
        if self._token.live:
            self._slot.broke("media-lost", cause)
