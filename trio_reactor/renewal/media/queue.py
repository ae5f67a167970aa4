"""The frames of one output that are still to be read, and who waits for one.

One object a side: the output puts frames in, a receiver takes them out, and neither copies one.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Generic, TypeVar

import msgspec
import trio
from trio.lowlevel import Abort, RaiseCancelT, Task, reschedule

from trio_reactor.errors import Failed
from trio_reactor.renewal.source import AudioFrame, VideoFrame

__all__ = ["EMPTY", "FrameQueue", "QueueStatistics"]

F = TypeVar("F", bound="VideoFrame | AudioFrame")


class QueueStatistics(msgspec.Struct, frozen=True):
    """One of the two outputs."""

    queued: int
    """Frames, or runs of sound, that are queued."""
    samples: int
    """Interleaved samples that are queued; 0 for video."""
    bytes: int
    delivered: int
    """Frames, or runs of sound, that a reader has taken; a total."""
    refused: int
    """Those offered beyond the bound or after the end; a total."""
    waiting: bool
    """Whether a reader waits."""


EMPTY: Final[deque[Any]] = deque(maxlen=0)
"""What a queue is that never had a frame: an empty deque of its own has room for 64."""


class FrameQueue(Generic[F]):
    """The frames of one output that are still to be read, and who waits for one.

    Sizes are kept beside the frames, because a `bytearray` can change its own.
    """

    __slots__ = (
        "bytes",
        "delivered",
        "failure",
        "frames",
        "refused",
        "samples",
        "settled",
        "sizes",
        "task",
    )

    def __init__(self) -> None:
        self.frames: deque[F] = EMPTY
        self.sizes: deque[int] = EMPTY
        self.bytes = 0
        self.samples = 0
        self.delivered = 0
        self.refused = 0
        self.task: Task | None = None
        self.settled = False
        self.failure: BaseException | None = None

    def begin(self) -> None:
        """Have room for frames, from the first on."""
        self.frames, self.sizes = deque(), deque()

    def take(self) -> F:
        """The oldest frame, which is delivered by that."""
        frame = self.frames.popleft()
        self.bytes -= self.sizes.popleft()
        self.delivered += 1
        if isinstance(frame, AudioFrame):
            self.samples -= frame.samples
        return frame

    def wake(self) -> None:
        """Have who waits look again."""
        task = self.task
        if task is not None:
            self.task = None
            reschedule(task)

    def settle(self, failure: BaseException | None) -> None:
        """Carry what comes after the last frame: this failure, or the end."""
        self.failure = failure
        self.settled = True

    def raise_end(self) -> None:
        """Raise what comes after the last frame, if there is an end."""
        if self.failure is not None:
            # Made afresh for everyone who asks, so that its traceback does not grow.
            raise Failed("the output failed") from self.failure
        if self.settled:
            raise trio.EndOfChannel

    def leave(self, _: RaiseCancelT) -> Abort:
        """The abort function of who waits."""
        self.task = None
        return Abort.SUCCEEDED

    def statistics(self) -> QueueStatistics:
        """What is queued, and what was delivered and refused."""
        return QueueStatistics(
            len(self.frames),
            self.samples,
            self.bytes,
            self.delivered,
            self.refused,
            self.task is not None,
        )
