"""The provider's side of a simulated session: it queues clips, builds them and plays them."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import trio

from trio_reactor.errors import Refused
from trio_reactor.renewal.source import (
    Clip,
    ClipEnded,
    ClipFailed,
    ClipPhase,
    ClipRequest,
    ClipStarted,
    ClipUpdated,
    SourceEvent,
    SourceState,
)
from trio_reactor.world import World

from .options import SimulationOptions

__all__ = ["Player"]


class _Clip:
    """A clip at its source."""

    __slots__ = ("frames", "id", "number", "phase", "shown")

    def __init__(self, identity: str, number: int, frames: int) -> None:
        self.id = identity
        self.number = number
        self.frames = frames
        self.phase: ClipPhase = "queued"
        self.shown = 0

    def told(self) -> Clip:
        return Clip(self.id, self.phase, self.frames)


@final
class Player:
    """Plays the clips of one source, one right after the other, at the frame rate.

    Args:
        name: What the identities of its clips begin with.
        world: Whose clock counts.
        options: Rates and delays.
        nursery: Where clips are built.
        tell: Takes what it has to tell.
        show: Takes a picture that is due: the clip's identity, its number, and the picture's.
    """

    def __init__(
        self,
        name: str,
        world: World,
        options: SimulationOptions,
        nursery: trio.Nursery,
        tell: Callable[[SourceEvent], None],
        show: Callable[[str, int, int], None],
    ) -> None:
        self._name = name
        self._world = world
        self._options = options
        self._nursery = nursery
        self._tell = tell
        self._show = show
        self._clips: dict[str, _Clip] = {}
        self._count = 0
        self._showing = trio.CancelScope()
        self._changed = trio.Event()
        self.autoplay = False

    @property
    def clips(self) -> tuple[Clip, ...]:
        """What it has, in playing order."""
        return tuple(clip.told() for clip in self._clips.values())

    def state(self) -> SourceState:
        """All of it."""
        return SourceState(self.clips, self.autoplay)

    def queue(self, request: ClipRequest, position: int | None) -> str:
        """Queue a clip, and begin to build it; returns its identity.

        Raises:
            Refused: The request makes no sense.
        """
        frames = request.payload.get("frames")
        build = request.payload.get("build", self._options.build_delay)
        if not isinstance(frames, int) or frames < 1:
            raise Refused("a clip has a number of frames, at least 1", outcome="replied")
        if not isinstance(build, int | float) or build < 0:
            raise Refused("the seconds to build a clip are at least 0", outcome="replied")
        self._count += 1
        clip = _Clip(f"{self._name}/clip-{self._count}", self._count, frames)
        self._insert(clip, position)
        self._tell(ClipUpdated(clip.told()))
        fails = request.payload.get("fails") is True
        self._nursery.start_soon(self._build, clip, float(build), fails)
        return clip.id

    def remove(self, clip: str) -> None:
        """Take a clip out of the queue."""
        if self._known(clip).phase == "playing":
            raise Refused("a clip that plays cannot be removed", outcome="replied")
        del self._clips[clip]
        self._tell(ClipEnded(clip, 0))

    def move(self, clip: str, position: int) -> None:
        """Give a clip another position among those that wait."""
        moved = self._known(clip)
        del self._clips[clip]
        self._insert(moved, position)
        self._tell(ClipUpdated(moved.told()))

    def set_autoplay(self, enabled: bool) -> None:
        """Whether what is ready is played."""
        self.autoplay = enabled
        self._changed.set()

    def stop(self) -> None:
        """End what is playing, and play nothing more."""
        self.autoplay = False
        self._showing.cancel()

    def forget(self, clip: str) -> None:
        """Lose a clip without a word."""
        if self._clips.pop(clip).phase == "playing":
            self._showing.cancel()

    async def play(self) -> None:
        """Play what is ready, in order, for ever."""
        due = self._world.clock()
        while True:
            clip = next(iter(self._clips.values()), None)
            if not self.autoplay or clip is None or clip.phase != "ready":
                self._changed = trio.Event()
                await self._changed.wait()
                due = self._world.clock()
                continue
            with trio.CancelScope() as self._showing:
                await self._play(clip, due)
            stopped = self._showing.cancelled_caught
            due = self._world.clock() if stopped else due + clip.frames / self._options.frame_rate
            if self._clips.pop(clip.id, None) is not None:
                self._tell(ClipEnded(clip.id, clip.shown))

    async def _play(self, clip: _Clip, due: float) -> None:
        clip.phase = "playing"
        self._tell(ClipStarted(clip.id, clip.frames))
        for index in range(clip.frames):
            self._show(clip.id, clip.number, index)
            clip.shown += 1
            await trio.sleep_until(due + (index + 1) / self._options.frame_rate)

    async def _build(self, clip: _Clip, seconds: float, fails: bool) -> None:
        clip.phase = "building"
        self._tell(ClipUpdated(clip.told()))
        await trio.sleep(seconds)
        if clip.id not in self._clips:
            return
        if fails:
            del self._clips[clip.id]
            self._tell(ClipFailed(clip.id, "it could not be built"))
        else:
            clip.phase = "ready"
            self._tell(ClipUpdated(clip.told()))
        self._changed.set()

    def _insert(self, clip: _Clip, position: int | None) -> None:
        waiting = [known for known in self._clips.values() if known.phase != "playing"]
        first = [known for known in self._clips.values() if known.phase == "playing"]
        waiting.insert(len(waiting) if position is None else position, clip)
        self._clips = {known.id: known for known in (*first, *waiting)}

    def _known(self, clip: str) -> _Clip:
        if clip not in self._clips:
            raise Refused("there is no such clip", outcome="replied")
        return self._clips[clip]
