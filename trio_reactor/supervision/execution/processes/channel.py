"""The application's end of the channel to the code."""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
from contextlib import suppress
from typing import Final, final

import trio

from trio_reactor.errors import Closed, Lost

__all__ = ["Channel"]

_PIECE: Final = 65_536
_MAX_REST: Final = 1_048_576
"""The most bytes that are kept of what the code sent last; a socket holds fewer."""


@final
class Channel(trio.abc.HalfCloseableStream):
    """A stream of bytes to and from the code, over a socket.

    One task at a time sends, one receives.  Cancelled, `send_all` may have sent a part.  After the
    unit is let go of, what the code had sent can still be received; then comes the end.

    Args:
        end: A connected socket that does not block.
    """

    __slots__ = ("_closed", "_end", "_received", "_rest", "_sending")

    def __init__(self, end: socket.socket) -> None:
        self._end: socket.socket | None = end
        self._rest = b""
        self._received = 0
        self._closed = False
        self._sending = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it.

        Raises:
            trio.BrokenResourceError: The code is gone.
            trio.ClosedResourceError: This end is closed.
            trio.BusyResourceError: Another task is sending.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._begin_to_send()
        try:
            view = memoryview(data)
            while view:
                end = self._sending_end()
                try:
                    sent = end.send(view)
                except BlockingIOError:
                    with suppress(trio.ClosedResourceError):  # the loop tells what it is
                        await trio.lowlevel.wait_writable(end)
                except OSError as failure:
                    raise Lost("the code's end of the channel is gone") from failure
                else:
                    view = view[sent:]
        finally:
            self._sending = False
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        """Sleep until something can be sent.

        Raises:
            trio.BrokenResourceError: The code is gone.
            trio.ClosedResourceError: This end is closed.
            trio.BusyResourceError: Another task is sending.
        """
        self._begin_to_send()
        try:
            with suppress(trio.ClosedResourceError):
                await trio.lowlevel.wait_writable(self._sending_end())
            self._sending_end()  # let go of, or closed, meanwhile
        finally:
            self._sending = False

    async def send_eof(self) -> None:
        """Send no more; the code sees the end of it.

        Raises:
            trio.ClosedResourceError: This end is closed.
            trio.BusyResourceError: Another task is sending.
        """
        await trio.lowlevel.checkpoint()
        self._begin_to_send()
        self._sending = False
        end = self._end
        if end is not None:
            with suppress(OSError):  # the code's end may be gone, so nobody waits for it
                end.shutdown(socket.SHUT_WR)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive some bytes; empty at the end.  Cancelled, it has received nothing.

        Raises:
            trio.ClosedResourceError: This end is closed.
            trio.BusyResourceError: Another task is receiving.
            ValueError: `max_bytes` is not positive.
        """
        size = _PIECE if max_bytes is None else max_bytes
        if size < 1:
            raise ValueError("max_bytes must be at least 1")
        await trio.lowlevel.checkpoint()
        while True:
            if self._closed:
                raise Closed("the channel is closed")
            end = self._end
            if end is None:
                piece, self._rest = self._rest[:size], self._rest[size:]
                self._received += len(piece)
                return piece
            try:
                piece = end.recv(size)
            except BlockingIOError:
                pass
            except ConnectionError:
                return b""  # it ended with something of ours unread
            else:
                self._received += len(piece)
                return piece
            try:
                await trio.lowlevel.wait_readable(end)
            except trio.ClosedResourceError:
                continue  # let go of, or closed: the loop tells which

    async def aclose(self) -> None:
        """Close this end; the code sees the end of it.  What was not received is dropped."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close this end at once."""
        self._closed = True
        self._rest = b""
        self._let_go()

    def let_go(self) -> None:
        """Keep what the code sent in memory, and give the socket back."""
        end = self._end
        if end is None:
            return
        pieces: list[bytes] = []
        size = 0
        while size < _MAX_REST:
            try:
                piece = end.recv(_PIECE)
            except OSError:
                break
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        self._rest = b"".join(pieces)
        self._let_go()

    def arrived(self) -> int:
        """How many bytes of the code's have come so far, received or not."""
        if self._end is None:
            return self._received + len(self._rest)
        waiting = fcntl.ioctl(self._end, termios.FIONREAD, bytes(4))
        return self._received + int.from_bytes(waiting, sys.byteorder)

    def _let_go(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            trio.lowlevel.notify_closing(end)
            end.close()

    def _begin_to_send(self) -> None:
        if self._closed:
            raise Closed("the channel is closed")
        if self._sending:
            raise trio.BusyResourceError("another task is sending")
        self._sending = True

    def _sending_end(self) -> socket.socket:
        if self._closed:
            raise Closed("the channel is closed")
        if self._end is None:
            raise Lost("the code has ended")
        return self._end
