"""What waits to be sent on one socket: bounded, in order, and exact about what it drops.

Media that finds no room is dropped, the newest first, and counted.  Everything else may not be
dropped: if there is no room for it, the reader is cut off.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias, final

import msgspec
import trio

from trio_reactor.renewal.websocket.wire import CloseCode, FromServer, Losses, Picture, Sound

from .options import FilmServerOptions

__all__ = ["Farewell", "Outbox", "OutboxStatistics"]

Medium: TypeAlias = Picture | Sound


class Farewell(msgspec.Struct, frozen=True):
    """How a socket is closed."""

    code: CloseCode
    reason: str


class OutboxStatistics(msgspec.Struct, frozen=True):
    """What waits, and what was dropped of all generations so far."""

    messages: int
    frames: int
    bytes: int
    dropped_frames: int
    dropped_samples: int


@final
class Outbox:
    """The messages for one socket.

    Args:
        options: Its bounds.
    """

    def __init__(self, options: FilmServerOptions) -> None:
        self._options = options
        self._waiting: deque[FromServer] = deque()
        self._controls = 0
        self._frames = 0
        self._sounds = 0
        self._bytes = 0
        self._losses = Losses(0, 0, 0)
        self._announced = self._losses
        self._dropped = [0, 0]
        self._arrived = trio.Event()
        self.farewell: Farewell | None = None
        """Set once nothing more is taken."""
        self.finished = trio.Event()
        """Set with it."""

    def begin(self, generation: int) -> None:
        """Count what is dropped from here on as this generation's."""
        self._losses = self._announced = Losses(generation, 0, 0)

    def put(self, message: FromServer) -> None:
        """Queue a message, or drop it if it is media and there is no room.  Never waits."""
        if self.farewell is not None:
            return
        if isinstance(message, (Picture, Sound)):
            if self._is_full_for(message):
                self._drop(message)
                return
            self._count(message, 1)
        else:
            if self._controls >= self._options.max_outgoing_messages:
                self.finish(CloseCode.TOO_SLOW, "what may not be dropped was not taken")
                return
            self._controls += 1
        self._waiting.append(message)
        self._arrived.set()

    def finish(self, code: CloseCode, reason: str) -> None:
        """Take nothing more; of what waits, media is given up and the rest is still sent."""
        if self.farewell is not None:
            return
        self.farewell = Farewell(code, reason)
        kept = [each for each in self._waiting if not isinstance(each, (Picture, Sound))]
        self._waiting = deque(kept)
        self._frames = self._sounds = self._bytes = 0
        self._arrived.set()
        self.finished.set()

    async def next(self) -> FromServer | Farewell:
        """The next message to send, or how to close once there is none.  May be cancelled."""
        while True:
            if self._losses != self._announced:
                self._announced = self._losses
                return self._losses
            if self._waiting:
                return self._take()
            if self.farewell is not None:
                return self.farewell
            self._arrived = trio.Event()
            await self._arrived.wait()

    def statistics(self) -> OutboxStatistics:
        """What waits, and what was dropped."""
        return OutboxStatistics(
            len(self._waiting), self._frames, self._bytes, self._dropped[0], self._dropped[1]
        )

    def _take(self) -> FromServer:
        message = self._waiting.popleft()
        if isinstance(message, (Picture, Sound)):
            self._count(message, -1)
        else:
            self._controls -= 1
        return message

    def _count(self, message: Medium, step: int) -> None:
        self._bytes += step * len(message.data)
        if isinstance(message, Picture):
            self._frames += step
        else:
            self._sounds += step

    def _is_full_for(self, message: Medium) -> bool:
        frames = self._options.max_outgoing_frames
        if self._bytes + len(message.data) > self._options.max_outgoing_bytes:
            return True
        if isinstance(message, Picture):
            return self._frames >= frames
        return self._sounds >= frames

    def _drop(self, message: Medium) -> None:
        frames, samples = (1, 0) if isinstance(message, Picture) else (0, message.samples)
        self._dropped[0] += frames
        self._dropped[1] += samples
        losses = self._losses
        self._losses = Losses(losses.generation, losses.frames + frames, losses.samples + samples)
