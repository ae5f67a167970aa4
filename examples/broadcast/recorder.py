"""Writes what the broadcast puts out into one .mp4, as it comes.

Encoding is work for a processor, not for an event loop: frames go through a bounded queue to a
worker thread, a batch at a time.  Who brings frames faster than they can be encoded waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Final

import trio
from av.error import FFmpegError

from trio_reactor.errors import ReactorError
from trio_reactor.owner import OwnerOptions, open_owner
from trio_reactor.renewal import AudioFrame, VideoFrame

from .encoder import Encoder, Placed

__all__ = ["Recorder", "RecordingFailed", "open_recorder"]

MAX_WAITING: Final = 64
"""Frames, pictures and sound together, between the event loop and the encoder."""
FINISHING: Final = 30.0
"""Seconds that what is still queued may take to be encoded at the end."""


class RecordingFailed(ReactorError):
    """The recording could not be written; the message names the file and why."""


class Recorder:
    """One recording in progress; made by `open_recorder`."""

    def __init__(self, frames: trio.MemorySendChannel[Placed]) -> None:
        self._frames = frames

    async def write(self, frame: VideoFrame | AudioFrame, at: float) -> None:
        """Take one picture or run of sound; waits while the encoder is behind.

        Every picture given is recorded, in the order given.  Where time was lost between two, the
        former stands still and the sound is silent, so that picture and sound stay together.

        Args:
            frame: What to record.
            at: Its place in the recording, in seconds from the start.
        """
        await self._frames.send((frame, at))


@contextlib.asynccontextmanager
async def open_recorder(
    path: Path, *, frame_rate: float, width: int, height: int
) -> AsyncGenerator[Recorder]:
    """Open a recording, which has its name only once it is complete.

    Until the block is left it is written beside it as `*.part`; a block left by an error, or
    cancelled, removes that.

    Args:
        path: Where; an earlier recording of this name is replaced.
        frame_rate: Pictures a second.
        width: Of the picture, an even number of pixels.
        height: Of the picture, an even number of pixels.

    Raises:
        RecordingFailed: If it cannot be written; the block is then cancelled at once.
    """
    part = path.with_name(f"{path.name}.part")
    with _naming(path):
        encoder = await trio.to_thread.run_sync(Encoder, part, frame_rate, width, height)
    try:
        options = OwnerOptions(cleanup_timeout=FINISHING)
        async with open_owner("recorder", options=options) as recording:
            entrance, waiting = trio.open_memory_channel[Placed](MAX_WAITING)
            encoded = trio.Event()

            async def encode() -> None:
                async for placed in waiting:
                    batch = [placed, *_at_hand(waiting)]
                    with _naming(path):
                        await trio.to_thread.run_sync(encoder.encode, batch)
                encoded.set()

            recording.start_soon(encode)
            async with entrance:
                yield Recorder(entrance)
            await encoded.wait()
        with _naming(path):
            await trio.to_thread.run_sync(encoder.finish)
            part.replace(path)
    except BaseException:  # whatever it was, half a recording is none
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(encoder.abandon)
        raise


def _at_hand(frames: trio.MemoryReceiveChannel[Placed]) -> Generator[Placed]:
    """What can be had without waiting."""
    with contextlib.suppress(trio.WouldBlock, trio.EndOfChannel):
        while True:
            yield frames.receive_nowait()


@contextlib.contextmanager
def _naming(path: Path) -> Generator[None]:
    """Names the file in whatever goes wrong with it."""
    try:
        yield
    except (OSError, FFmpegError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RecordingFailed(f"cannot write the recording {path}: {reason}") from error
