"""A byte stream that tells how much came through it and that it has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import trio

__all__ = ["Tap"]


@final
class Tap(trio.abc.Stream):
    """Passes everything on to a stream and notes what trio-websocket does not tell.

    Args:
        stream: The stream underneath.
        handshake_bound: Bytes that may come while `on_end` is set; beyond, the stream has ended.
        on_end: Called once, synchronously, when the stream ends; set to `None` once the opening
            handshake is over.
    """

    def __init__(self, stream: trio.abc.Stream, *, handshake_bound: int) -> None:
        self._stream = stream
        self._bound = handshake_bound
        self.on_end: Callable[[], None] | None = None
        self.received = 0
        """Bytes that came so far."""
        self.end: str | None = None
        """How it ended, as the predicate of a sentence about the peer."""
        self.gone = False
        """Whether the peer ended it, or it broke, before it was closed here."""
        self.flooded = False
        """Whether the peer said more than it may before the handshake was over."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive what is there, up to this many bytes; nothing if it has ended."""
        try:
            received = await self._stream.receive_some(max_bytes)
        except trio.BrokenResourceError:
            self._ended("broke the connection", gone=True)
            raise
        except trio.ClosedResourceError:
            self._ended("was cut off")
            raise
        if not received:
            self._ended("closed the connection", gone=True)
        self.received += len(received)
        if self.on_end is not None and self.received > self._bound:
            self.flooded = True
            self._ended(f"said more than {self._bound} bytes")
            return b""
        return received

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close it, as the stream underneath is closed."""
        self._ended("was refused")
        await self._stream.aclose()

    def _ended(self, how: str, *, gone: bool = False) -> None:
        if self.end is None:
            self.end, self.gone = how, gone
            if self.on_end is not None:
                self.on_end()
