"""An open WebSocket that carries binary messages, for either side.

trio-websocket does the protocol; a `Link` sees to what a program that holds many short connections
needs beside it:

- *A message is sent whole or the link is gone.*  A cancelled send would leave half a message on the
  stream and everything after it unreadable; so sending is shielded, within `send_timeout`.
- *Closing is bounded*, and tells whether the peer took part in it.
- *A peer that went silent is found out*: whoever sent nothing for `heartbeat` seconds is pinged.

Links are made by `connect` and `accept`, which see to it that they always end.
"""

from __future__ import annotations

import contextlib
import logging
import struct
from collections.abc import Callable
from typing import final

import trio
from pydantic import Field
from trio_websocket import CloseReason as WebSocketCloseReason
from trio_websocket import (
    ConnectionClosed,
    WebSocketConnection,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import ProtocolError

from trio_reactor.errors import Lost
from trio_reactor.options import Options

from .tap import Tap
from .wire import MAX_MESSAGE_BYTES, CloseCode

__all__ = ["Disconnected", "Link", "LinkOptions"]

logger = logging.getLogger("trio_reactor.websocket")


class LinkOptions(Options):
    """The bounds of a link; times are in seconds.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    send_timeout: float = Field(
        default=10.0, gt=0, description="For one message to be taken; then the link is cut."
    )
    close_timeout: float = Field(
        default=2.0, gt=0, description="For the closing handshake; then the link is cut."
    )
    heartbeat: float | None = Field(
        default=20.0, gt=0, description="Silence after which the peer is pinged; none for never."
    )
    max_message_bytes: int = Field(
        default=MAX_MESSAGE_BYTES, ge=1024, le=1 << 30, description="The largest message received."
    )


class Disconnected(Lost):
    """The link has ended.

    Args:
        message: What happened, in the library's words.
        code: The WebSocket close code; `None` if the stream ended without one.
        detail: The reason the peer gave.
    """

    def __init__(self, message: str, *, code: int | None = None, detail: str | None = None) -> None:
        super().__init__(message, detail=detail)
        self.code = code


@final
class Link:
    """An open WebSocket that carries binary messages; see `handshake`.

    `receive` is for one task, `send` and `close` are for any number.
    """

    def __init__(
        self,
        name: str,
        connection: WebSocketConnection,
        tap: Tap,
        ended: trio.Event,
        options: LinkOptions,
    ) -> None:
        self._name = name
        self._ended = ended
        self._connection = connection
        self._tap = tap
        self._options = options
        self._sending = trio.Lock()
        self._cut: str | None = None
        self._closing: trio.Event | None = None
        """There once it is closed from this side, and set when that is over."""

    def __repr__(self) -> str:
        return f"<Link {self._name}: {'open' if self.open else 'ended'}>"

    @property
    def open(self) -> bool:
        """Whether neither side has begun to end it."""
        return self._cut is None and self._connection.closed is None

    async def receive(self) -> bytes:
        """The next message.  A checkpoint; a cancelled call loses nothing.

        Raises:
            Disconnected: If the link has ended, and all that came before was received; also if the
                peer sent text, or a message over the bound.
        """
        try:
            message = await self._connection.get_message()
        except ConnectionClosed as closed:
            if closed.reason is None:  # its reader failed; if that was a defect, this is cancelled
                await self._ended.wait()
                await trio.lowlevel.checkpoint()
            if self._closing is not None:  # let the closing handshake be finished
                await self._closing.wait()
            raise self._disconnected() from closed
        if isinstance(message, str):
            await self.close(CloseCode.VIOLATION, "only binary messages are understood")
            raise Disconnected(
                f"{self._name} sent text, where this protocol is binary", code=CloseCode.VIOLATION
            )
        return message

    async def send(self, message: bytes, *, before: Callable[[], None] | None = None) -> None:
        """Send a message.

        Cancelled while others send, it sends nothing.  Once `before` has been called it is no
        longer cancelled: it goes on, no longer than `send_timeout`.

        Args:
            message: What to send.
            before: Called right before the first byte leaves, with no checkpoint between; if it
                raises, nothing is sent.

        Raises:
            Disconnected: If the link has ended, or the message was not taken in time.
        """
        async with self._sending:
            if not self.open:
                raise self._disconnected()
            if before is not None:
                before()
            with trio.CancelScope(shield=True) as scope:
                scope.deadline = trio.current_time() + self._options.send_timeout
                try:
                    await self._connection.send_message(message)
                except (ConnectionClosed, ProtocolError) as closed:
                    raise self._disconnected() from closed
            if scope.cancelled_caught:
                await self.cut(f"did not take a message within {self._options.send_timeout} s")
                raise self._disconnected()

    async def close(self, code: int, reason: str) -> bool:
        """Close in the ordinary way; returns whether the peer is known to have taken part in it.

        Bounded by `close_timeout`, after which the stream is cut; so it is when cancelled.

        Args:
            code: Why, as a WebSocket close code.
            reason: Why, in words; never empty, so that the peer's answer can be recognised.
        """
        if self._cut is not None:
            return False
        closing = trio.Event()
        if self.open:
            self._closing = closing
        try:
            with trio.move_on_after(self._options.close_timeout):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._cancel_when_ended, nursery.cancel_scope)
                    # Both sides may begin in the same step; then there is nothing to be said.
                    with contextlib.suppress(ProtocolError):
                        await self._connection.aclose(code, reason)
                    # If the peer began, trio-websocket's reader may be just about to answer it.
                return self._closed_by_both()
            await self.cut(f"did not close within {self._options.close_timeout} s")
            return False
        finally:
            closing.set()

    def _closed_by_both(self) -> bool:
        match self._connection.closed:
            case None:
                return False
            case WebSocketCloseReason(code=1000, reason=None):  # ours, if it was not answered
                return not self._tap.gone
            case closed:
                return closed.code != CloseReason.ABNORMAL_CLOSURE

    async def _cancel_when_ended(self, scope: trio.CancelScope) -> None:
        """What waits for trio-websocket's reader would wait for ever once that was cancelled."""
        await self._ended.wait()
        scope.cancel()

    async def cut(self, why: str) -> None:
        """End the stream at once, without a word to the peer.  Idempotent; hardly waits."""
        if self._cut is None:
            self._cut = why
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._tap)

    async def watch(self) -> None:
        """Ping a peer that went silent; returns when the link has ended, or is ended for silence.

        A peer that answers nothing is found out within three times `heartbeat`.
        """
        interval = self._options.heartbeat
        beat = 0
        while interval is not None and self.open:
            received = self._tap.received
            await trio.sleep(interval)
            if self._tap.received != received:
                continue
            beat += 1
            with trio.move_on_after(interval) as scope:
                try:
                    await self._connection.ping(struct.pack("!Q", beat))
                except (ConnectionClosed, ProtocolError):
                    return
            if scope.cancelled_caught and self.open:
                await self.cut(f"was silent for {2 * interval} s")

    def _disconnected(self) -> Disconnected:
        if self._cut is not None:
            return Disconnected(f"{self._name} {self._cut}")
        if self._closing is not None:
            return Disconnected(f"the WebSocket with {self._name} was closed from this side")
        closed = self._connection.closed
        detail = closed.reason if closed is not None else None
        match closed.code if closed is not None else None:
            case None | CloseReason.ABNORMAL_CLOSURE:
                return Disconnected(f"{self._name} went without closing the WebSocket")
            case CloseReason.MESSAGE_TOO_BIG:
                bound = self._options.max_message_bytes
                return Disconnected(
                    f"the WebSocket with {self._name} ended: a message was over its bound, "
                    f"which is {bound} bytes here",
                    code=CloseReason.MESSAGE_TOO_BIG,
                    detail=detail,
                )
            case code:
                return Disconnected(
                    f"the WebSocket with {self._name} ended with code {code}",
                    code=code,
                    detail=detail,
                )
