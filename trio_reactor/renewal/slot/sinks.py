"""Where a source pushes what it has to tell: fenced with the generation of it that they belong to.

A sink never waits and never raises.  After a reconnect, or once its source leaves, what an old
generation still pushes changes nothing any more.  What makes no sense is not taken, and its source
is not trusted any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast, final

from trio_reactor.fence import Token
from trio_reactor.renewal.events import LossReason
from trio_reactor.renewal.source import AudioFrame, GoingAway, SourceEvent, VideoFrame

from .validity import audio_fault, event_fault, video_fault

if TYPE_CHECKING:
    from .slot import Slot

from trio_reactor.wording import a_kind

__all__ = ["MAX_HELD", "SlotEvents", "SlotFrames", "SlotNotices"]

MAX_HELD: Final = 256
"""How many events a source may push before the state that they follow has arrived."""


@final
class SlotEvents:
    """Where one generation of a source's events goes; implements `EventSink`.

    Events follow the state that `attach` gives, and can be pushed while that is still on its way.
    So they are held until the state was taken: else it would undo what they told.
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
        fault = event_fault(event)
        if fault is not None:
            self._slot.distrust(fault)
        elif self._held is None or isinstance(event, GoingAway):  # which does not wait
            self._slot.took(event)
        elif len(self._held) < MAX_HELD:
            self._held.append(event)
        else:
            self._slot.distrust("told too much before it gave its state")

    def release(self) -> None:
        """Take what was held, and everything else as it comes.  Idempotent."""
        held, self._held = self._held, None
        for event in held or ():
            self.event(event)

    def lost(self, cause: Exception | None, /) -> None:
        """Hear that no more will come."""
        if self._token.live:
            _lose(self._slot, "events-lost", cause)


@final
class SlotNotices:
    """Where a source announces its end, whichever connection it has: until it is let go."""

    __slots__ = ("_slot", "_token")

    def __init__(self, slot: Slot, token: Token) -> None:
        self._slot = slot
        self._token = token

    def __call__(self, notice: GoingAway, /) -> None:
        """Take one notice."""
        if not self._token.live:
            return
        told = cast("object", notice)  # an adapter may give anything
        if not isinstance(told, GoingAway):
            self._slot.distrust(f"announced {a_kind(told)}, which is no GoingAway")
        elif (fault := event_fault(told)) is not None:
            self._slot.distrust(fault)
        else:
            self._slot.took(told)


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
        if not self._token.live:
            return
        fault = video_fault(frame)
        if fault is not None:
            slot.distrust(fault)
        elif slot.host.on_air is slot:
            slot.book.picture(frame.clip)
            slot.host.output.offer_video(frame)
            if slot.book.complete:
                slot.host.changed()

    def audio(self, frame: AudioFrame, /) -> None:
        """Take one run of sound."""
        slot = self._slot
        if not self._token.live:
            return
        fault = audio_fault(frame)
        if fault is not None:
            slot.distrust(fault)
        elif slot.host.on_air is slot:
            slot.book.sound(frame.clip, frame.samples)
            slot.host.output.offer_audio(frame)

    def lost(self, cause: Exception | None, /) -> None:
        """Hear that no more will come."""
        if self._token.live:
            _lose(self._slot, "media-lost", cause)


def _lose(slot: Slot, why: LossReason, cause: Exception | None) -> None:
    given = cast("object", cause)  # an adapter may give anything
    if given is None or isinstance(given, Exception):
        slot.broke(why, cause)
    else:
        slot.distrust(f"gave {a_kind(given)} as the cause of a loss")
