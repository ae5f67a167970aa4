"""The reader's side of one output: frame after frame, and what comes after the last."""

from __future__ import annotations

from typing import Generic, TypeVar, final

import trio
from trio.lowlevel import (
    cancel_shielded_checkpoint,
    checkpoint_if_cancelled,
    current_task,
    enable_ki_protection,
    wait_task_rescheduled,
)

from trio_reactor.errors import Busy, Closed
from trio_reactor.renewal.source import AudioFrame, VideoFrame

from .queue import FrameQueue, QueueStatistics

__all__ = ["MediaReceiver"]

F_co = TypeVar("F_co", bound="VideoFrame | AudioFrame", covariant=True)


@final
class MediaReceiver(trio.abc.ReceiveChannel[F_co], Generic[F_co]):
    """Reads one output; taken from `MediaOutput.video` or `.audio`.

    Closing it ends this receiver and nothing else: what is queued stays for the next one, and an
    output that is not read fails at its bound.
    """

    __slots__ = ("__weakref__", "_closed", "_queue", "_reading")

    def __init__(self, queue: FrameQueue[F_co]) -> None:
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
