"""The output media: one logical video and one audio output across all sources.

A source pushes its frames from its own reader task, between two reads of its socket; they are put
into a queue without waiting and without being copied, and the reader is woken.  The object that a
source pushed is the object that the reader gets.

What is promised:

- frames arrive in the order in which they were offered, also across a handover;
- nothing is dropped: a reader that is cancelled loses nothing, a later one goes on with what is
  there, and an output that nobody drains fails at its bound, for good and for all to see;
- after the end, and after a failure, what was queued is still delivered first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, final

import msgspec
import trio
from trio.lowlevel import (
    Abort,
    RaiseCancelT,
    Task,
    cancel_shielded_checkpoint,
    checkpoint_if_cancelled,
    current_task,
    enable_ki_protection,
    reschedule,
    wait_task_rescheduled,
)

from trio_reactor.errors import Busy, Closed, Failed, Overflow
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.source import AudioFrame, VideoFrame

from .losses import LossesUnknown, LossLedger

__all__ = [
    "LossLedger",
    "LossesUnknown",
    "MediaOutput",
    "MediaReceiver",
    "MediaStatistics",
    "Pressure",
    "QueueStatistics",
]

F_co = TypeVar("F_co", bound="VideoFrame | AudioFrame", covariant=True)
F = TypeVar("F", bound="VideoFrame | AudioFrame")


class Pressure(msgspec.Struct, frozen=True):
    """How far the readers are behind, exactly, and what was lost before it reached the output."""

    frames: int
    """Pictures queued."""
    samples: int
    """Interleaved samples queued."""
    bytes: int
    """Bytes queued of both."""
    frames_lost: int
    """Pictures that the sources lost while they fed the output; a total."""
    samples_lost: int
    """Interleaved samples that they lost; a total."""


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


class MediaStatistics(msgspec.Struct, frozen=True):
    """Both outputs."""

    video: QueueStatistics
    audio: QueueStatistics


_EMPTY: Final[deque[Any]] = deque(maxlen=0)
"""What a queue is that never had a frame: an empty deque of its own has room for 64."""


class _Queue(Generic[F]):
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
        self.frames: deque[F] = _EMPTY
        self.sizes: deque[int] = _EMPTY
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
        frame = self.frames.popleft()
        self.bytes -= self.sizes.popleft()
        self.delivered += 1
        if isinstance(frame, AudioFrame):
            self.samples -= frame.samples
        return frame

    def wake(self) -> None:
        task = self.task
        if task is not None:
            self.task = None
            reschedule(task)

    def settle(self, failure: BaseException | None) -> None:
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
        return QueueStatistics(
            len(self.frames),
            self.samples,
            self.bytes,
            self.delivered,
            self.refused,
            self.task is not None,
        )


@final
class MediaReceiver(trio.abc.ReceiveChannel[F_co], Generic[F_co]):
    """Reads one output; taken from `MediaOutput.video` or `.audio`.

    Closing it ends this receiver and nothing else: what is queued stays for the next one, and an
    output that is not read fails at its bound.
    """

    __slots__ = ("__weakref__", "_closed", "_queue", "_reading")

    def __init__(self, queue: _Queue[F_co]) -> None:
        self._queue = queue
        self._reading = False
        self._closed = False

    @enable_ki_protection
    async def receive(self) -> F_co:
        """The next frame, as soon as there is one.

        Always a checkpoint.  If it is cancelled no frame is taken.

        Raises:
            Busy: If another task is waiting in here.
            Closed: If this receiver was closed, also while waiting.
            trio.EndOfChannel: If the output has ended and everything was read.
            Failed: If the output has failed and everything was read; the failure is its cause.
        """
        if self._reading:
            raise Busy("another task reads this output")
        queue = self._queue
        self._reading = True
        try:
            await checkpoint_if_cancelled()
            if queue.frames and not self._closed:
                frame = queue.take()
                await cancel_shielded_checkpoint()
                return frame
            if self._closed or queue.settled:
                await cancel_shielded_checkpoint()
            else:
                queue.task = current_task()
                await wait_task_rescheduled(queue.leave)
            if self._closed:
                raise Closed("this receiver is closed")
            if not queue.frames:
                queue.raise_end()
            return queue.take()
        finally:
            self._reading = False

    @enable_ki_protection
    def receive_nowait(self) -> F_co:
        """The next frame, if there is one now.

        Raises:
            trio.WouldBlock: If there is none.
            Busy: If a task is waiting in `receive`.
            Closed: If this receiver was closed.
            trio.EndOfChannel: If the output has ended and everything was read.
            Failed: If the output has failed and everything was read; the failure is its cause.
        """
        if self._closed:
            raise Closed("this receiver is closed")
        if self._reading:
            raise Busy("another task reads this output")
        if not self._queue.frames:
            self._queue.raise_end()
            raise trio.WouldBlock
        return self._queue.take()

    @property
    def closed(self) -> bool:
        """Whether this receiver was closed."""
        return self._closed

    @enable_ki_protection
    def close(self) -> None:
        """Close this receiver; who waits in `receive` gets `Closed`.  Idempotent."""
        if not self._closed:
            self._closed = True
            if self._reading:
                self._queue.wake()

    async def aclose(self) -> None:
        """`close`, and a checkpoint."""
        self.close()
        await trio.lowlevel.checkpoint()

    def statistics(self) -> QueueStatistics:
        """What is queued for it, and what was delivered."""
        return self._queue.statistics()


@final
class MediaOutput:
    """The two outputs of a renewal.

    Args:
        options: `max_frames`, `max_samples` and `max_bytes` count.
        on_overflow: Called with the `Overflow` once, in the step in which a frame was offered
            beyond a bound: the place to claim the terminal failure of the whole.  Both outputs fail
            with what it passed to `fail`, else with that `Overflow`.

    Attributes:
        losses: What the sources lost; the chain tells it which of them feeds the output.
    """

    def __init__(self, options: RenewalOptions, on_overflow: Callable[[Overflow], object]) -> None:
        self._max_frames = options.max_frames
        self._max_samples = options.max_samples
        self._max_bytes = options.max_bytes
        self._on_overflow = on_overflow
        self._open = True
        self._settled = False
        self._video: _Queue[VideoFrame] = _Queue()
        self._audio: _Queue[AudioFrame] = _Queue()
        self._video_receiver: MediaReceiver[VideoFrame] = MediaReceiver(self._video)
        self._audio_receiver: MediaReceiver[AudioFrame] = MediaReceiver(self._audio)
        self.losses = LossLedger()

    @property
    def video(self) -> MediaReceiver[VideoFrame]:
        """Reads the pictures: the present receiver, or another if that was closed."""
        if self._video_receiver.closed:
            self._video_receiver = MediaReceiver(self._video)
        return self._video_receiver

    @property
    def audio(self) -> MediaReceiver[AudioFrame]:
        """Reads the sound: the present receiver, or another if that was closed."""
        if self._audio_receiver.closed:
            self._audio_receiver = MediaReceiver(self._audio)
        return self._audio_receiver

    @enable_ki_protection
    def offer_video(self, frame: VideoFrame) -> None:
        """Queue a picture and wake the reader.  Never waits.

        What would exceed a bound is not taken: the outputs fail.  After their end nothing is taken
        any more, and only counted.
        """
        queue = self._video
        content = frame.data
        size = content.nbytes if type(content) is memoryview else len(content)
        if not self._open:
            queue.refused += 1
            return
        if len(queue.frames) >= self._max_frames:
            self._overflow(queue, f"max_frames: {self._max_frames} pictures are queued")
            return
        if queue.bytes + self._audio.bytes + size > self._max_bytes:
            self._overflow_bytes(queue, size)
            return
        if queue.frames is _EMPTY:
            queue.begin()
        queue.frames.append(frame)
        queue.sizes.append(size)
        queue.bytes += size
        task = queue.task
        if task is not None:
            queue.task = None
            reschedule(task)

    @enable_ki_protection
    def offer_audio(self, frame: AudioFrame) -> None:
        """Queue a run of sound and wake the reader.  Never waits; see `offer_video`."""
        queue = self._audio
        content = frame.data
        size = content.nbytes if type(content) is memoryview else len(content)
        if not self._open:
            queue.refused += 1
            return
        # Runs are bounded by their number too: some have no samples.
        if (
            queue.samples + frame.samples > self._max_samples
            or len(queue.frames) >= self._max_samples
        ):
            self._overflow(
                queue,
                f"max_samples: {queue.samples} of {self._max_samples} interleaved samples are "
                f"queued, {frame.samples} more were offered",
            )
            return
        if queue.bytes + self._video.bytes + size > self._max_bytes:
            self._overflow_bytes(queue, size)
            return
        if queue.frames is _EMPTY:
            queue.begin()
        queue.frames.append(frame)
        queue.sizes.append(size)
        queue.bytes += size
        queue.samples += frame.samples
        task = queue.task
        if task is not None:
            queue.task = None
            reschedule(task)

    @enable_ki_protection
    def end(self) -> None:
        """End both outputs: their readers get what is queued, then the end.

        Does nothing if they have ended or failed.
        """
        self._settle(None)

    @enable_ki_protection
    def fail(self, failure: BaseException) -> None:
        """Fail both outputs: their readers get what is queued, then `Failed` from the failure.

        Does nothing if they have ended or failed.  Whoever calls it has recorded the failure where
        a woken reader may look for it.
        """
        self._settle(failure)

    def pressure(self) -> Pressure:
        """How far the readers are behind, and what was lost.  Readable after the end too.

        Raises:
            LossesUnknown: If what the sources lost cannot be told.
        """
        lost = self.losses.total()
        video, audio = self._video, self._audio
        return Pressure(
            len(video.frames), audio.samples, video.bytes + audio.bytes, lost.frames, lost.samples
        )

    def statistics(self) -> MediaStatistics:
        """What is queued, waited for, delivered and refused.  Readable after the end too."""
        return MediaStatistics(self._video.statistics(), self._audio.statistics())

    def _settle(self, failure: BaseException | None) -> None:
        if self._settled:
            return
        self._open = False
        self._settled = True
        # Both carry their end before any reader is woken.
        self._video.settle(failure)
        self._audio.settle(failure)
        self._video.wake()
        self._audio.wake()

    def _overflow_bytes(self, queue: _Queue[F], size: int) -> None:
        queued = self._video.bytes + self._audio.bytes
        self._overflow(
            queue,
            f"max_bytes: {queued} of {self._max_bytes} bytes are queued, {size} more were offered",
        )

    def _overflow(self, queue: _Queue[F], message: str) -> None:
        queue.refused += 1
        self._open = False
        failure = Overflow(f"{message}; nobody reads the output fast enough", missed=1)
        try:
            self._on_overflow(failure)
        finally:
            self._settle(failure)
