"""The broadcast: many short sessions go in, one unbroken picture and sound come out.

Four tasks share one renewal.  One asks for scenes, a little ahead of what has come; one
takes the pictures, one the sound, and both hand them to the recorder; one listens to what happens,
for the numbers and for the timeline.  Nothing here knows when a session ends or which one a scene
goes to: that is what the renewal is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import trio

from examples.film_server.stamp import read_stamp
from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import ReactorError
from trio_reactor.events import Event
from trio_reactor.renewal import (
    Renewal,
    RenewalOptions,
    SourceOpener,
    VideoFrame,
    open_renewal,
)
from trio_reactor.renewal.events import (
    ClipChanged,
    ClipLost,
    HandedOver,
    Recovering,
    Replaced,
    SourceOpened,
)
from trio_reactor.renewal.source import ClipEnded, ClipFailed
from trio_reactor.renewal.timeline import renewal_timeline

from .programme import RunningOrder, Scene
from .recorder import Recorder
from .report import Tally, Term

__all__ = ["Broadcast"]

MAX_EVENTS: Final = 4096
"""Events that the listener may be behind."""


class Broadcast:
    """One programme on its way from short sessions to a recording.

    Args:
        recorder: Where pictures and sound go.
        frame_rate: Pictures a second.
        watch: Called whenever one of the numbers has changed.
    """

    def __init__(
        self, recorder: Recorder, frame_rate: float, watch: Callable[[Broadcast], None]
    ) -> None:
        self.tally = Tally()
        self.timeline = renewal_timeline("Broadcast")
        self.sessions = 0
        self.handovers = 0
        self.unproven = 0
        """Sessions that are not proven to have ended."""
        self.terms: Counter[Term] = Counter()
        """How often the timeline says in which word why a session gave way, or what was lost."""
        self._recorder = recorder
        self._frame_rate = frame_rate
        self._watch = watch
        self._changed = trio.Event()
        self._happened = 0
        self._order = RunningOrder()

    @property
    def played(self) -> float:
        """Seconds of the programme that are over, with what was lost of it."""
        return (self.tally.received + self.tally.lost) / self._frame_rate

    async def play(
        self,
        scenes: Iterable[Scene],
        *,
        ahead: int,
        open_source: SourceOpener,
        options: RenewalOptions,
    ) -> None:
        """Play these scenes, to the last picture.

        Args:
            scenes: What to play.
            ahead: A scene is asked for when fewer pictures than these are still to come.
            open_source: Opens a session that plays scenes.
            options: The renewal's.

        Raises:
            ReactorError: If no session could be opened, or all of it failed for good; alone or in
                a group.
            OutOfOrder: If the pictures that came are not the ones that were asked for.
            NoStamp: If a picture does not carry its number.
        """
        channel = EventChannel()
        events = channel.subscribe(capacity=MAX_EVENTS)
        async with trio.open_nursery() as listening:
            listening.start_soon(self._listen, events)
            async with (
                open_renewal(open_source, options=options, events=channel) as renewal,
                trio.open_nursery() as playing,
            ):
                playing.start_soon(self._take_pictures, renewal)
                playing.start_soon(self._take_sound, renewal)
                for scene in scenes:
                    await self._until(lambda: self.tally.outstanding < ahead)
                    await self._ask_for(scene, renewal)
                await renewal.stop_renewal()  # what is asked for is played; no more is needed
                await self._until(lambda: self.tally.outstanding == 0)
                report = await renewal.close()  # what is queued still comes out, then readers end
            channel.end()
        self.tally.finish()
        self.unproven = len(report.unresolved)

    async def _ask_for(self, scene: Scene, renewal: Renewal) -> None:
        """Ask for a scene, and again if nothing was sent because of what happened meanwhile."""
        self._order.ask(scene)
        self.tally.expect(scene)
        self._count()
        while True:
            before = self._happened
            try:
                accepted = await renewal.enqueue(scene.request)
            except ReactorError as failure:
                if failure.retryable:
                    await self._next_event(before)
                    continue
                if failure.outcome != "unknown":
                    raise
                # It may have arrived or not, and nothing is ever sent twice: it is lost.
                self.tally.disturbed(failure.message)
                self._over(scene)
            else:
                self._order.accepted(accepted.source.incarnation, accepted.clip)
            return

    async def _take_pictures(self, renewal: Renewal) -> None:
        async for frame in renewal.video:
            number = read_stamp(_luma(frame))
            self.tally.arrived(number, trio.current_time())
            self._count()
            await self._recorder.write(frame, number / self._frame_rate)

    async def _take_sound(self, renewal: Renewal) -> None:
        async for frame in renewal.audio:
            scene = self._order.heard(frame.clip, frame.time)
            if scene is not None:
                await self._recorder.write(frame, scene.first / self._frame_rate + frame.time)

    async def _listen(self, events: Subscription[Event]) -> None:
        async for envelope in events:
            self.timeline.feed(envelope)
            self._hear(envelope.event)
            self._happened += 1
            self._count()

    def _hear(self, event: Event) -> None:
        match event:
            case SourceOpened():
                self.sessions += 1
            case HandedOver(evidence=evidence):
                self.handovers += 1
                self.terms[evidence.kind] += 1
            case Recovering(source=source, why=why) | Replaced(old=source, why=why):
                self.terms[why] += 1
                self.tally.disturbed(f"{why}, session {source.id}")
            case ClipLost(clip=clip, source=source, why=why):
                how = "went on unseen in" if why == "not-in-state" else "was lost with"
                self.tally.disturbed(f"{how} session {source.id}")
                self._over(self._order.scene(source.incarnation, clip))
            case ClipChanged(source=source, change=ClipFailed(clip=clip)):
                self.tally.disturbed("it could not be played")
                self._over(self._order.scene(source.incarnation, clip))
            case ClipChanged(source=source, change=ClipEnded(clip=clip)):
                self._over(self._order.scene(source.incarnation, clip))
            case _:
                pass

    def _over(self, scene: Scene | None) -> None:
        if scene is not None:
            self.tally.over(scene)
            self._count()

    def _count(self) -> None:
        """Wake whoever waits for a number to change."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        self._watch(self)

    async def _next_event(self, after: int) -> None:
        await self._until(lambda: self._happened > after)

    async def _until(self, fact: Callable[[], bool]) -> None:
        while not fact():
            await self._changed.wait()


def _luma(frame: VideoFrame) -> npt.NDArray[np.uint8]:
    """The brightness of a planar picture: its first plane, not copied."""
    return np.frombuffer(frame.data, np.uint8, frame.width * frame.height).reshape(
        frame.height, frame.width
    )
