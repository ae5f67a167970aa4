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

from collections.abc import Callable
from typing import TypeVar, final

import msgspec
from trio.lowlevel import enable_ki_protection, reschedule

from trio_reactor.errors import Overflow
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.source import AudioFrame, VideoFrame

from .losses import LossLedger
from .queue import EMPTY, FrameQueue, QueueStatistics
from .receiver import MediaReceiver

__all__ = ["MediaOutput", "MediaStatistics", "Pressure"]

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


class MediaStatistics(msgspec.Struct, frozen=True):
    """Both outputs."""

    video: QueueStatistics
    audio: QueueStatistics


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
        self._video: FrameQueue[VideoFrame] = FrameQueue()
        self._audio: FrameQueue[AudioFrame] = FrameQueue()
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
        if queue.frames is EMPTY:
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
        if queue.frames is EMPTY:
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

    def _overflow_bytes(self, queue: FrameQueue[F], size: int) -> None:
        queued = self._video.bytes + self._audio.bytes
        self._overflow(
            queue,
            f"max_bytes: {queued} of {self._max_bytes} bytes are queued, {size} more were offered",
        )

    def _overflow(self, queue: FrameQueue[F], message: str) -> None:
        queue.refused += 1
        self._open = False
        failure = Overflow(f"{message}; nobody reads the output fast enough", missed=1)
        try:
            self._on_overflow(failure)
        finally:
            self._settle(failure)
