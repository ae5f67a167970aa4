"""One WebSocket, from its first byte to its last, for either side.

trio-websocket does the protocol; a `Link` sees to what a program that holds many short connections
needs beside it:

- *It always ends.*  The link owns its TCP stream and closes it whatever happened: a peer that does
  not answer a handshake, a message or a close can delay nobody beyond a named budget.
- *A stream that ends in the opening handshake is noticed at once*, a peer that talks without end
  there is cut off, and one that never spoke WebSocket is told apart from one that is not there.
- *A message is sent whole or the link is gone.*  A cancelled send would leave half a message on the
  stream and everything after it unreadable; so sending is shielded, within `send_timeout`.
- *A peer that went silent is found out*: whoever sent nothing for `heartbeat` seconds is pinged.

Failures are `OpenFailed` before a link is open and `Disconnected` after.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Final, TypeAlias, cast, final

import h11
import trio
from pydantic import BaseModel, ConfigDict, Field
from trio_websocket import CloseReason as WebSocketCloseReason
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
    wrap_server_stream,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import ProtocolError

from trio_reactor.errors import Lost, leaves
from trio_reactor.renewal.source import OpenFailed

from .address import Address
from .tap import Tap
from .wire import MAX_MESSAGE_BYTES, CloseCode

__all__ = ["Disconnected", "Link", "LinkOptions", "accept", "connect", "one_failure"]

logger = logging.getLogger("trio_reactor.websocket")

MAX_HANDSHAKE_BYTES: Final = 64 * 1024
"""What a peer may say before the WebSocket is open."""
QUEUED_MESSAGES: Final = 8
"""Messages that wait between trio-websocket's reader and ours."""
RECEIVE_BYTES: Final = 256 * 1024
"""Bytes asked for in one read: most messages come in one or two pieces, which saves joining."""
TRY_AGAIN: Final = frozenset({408, 425, 429})
"""HTTP statuses below 500 that say nothing against trying again."""

WEATHER: Final = (
    HandshakeError,
    ConnectionClosed,
    ProtocolError,
    h11.ProtocolError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
)
"""What trio-websocket's reader is known to raise at what a peer does."""


class LinkOptions(BaseModel):
    """The bounds of a link; times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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


Handshake: TypeAlias = Callable[[trio.Nursery, trio.abc.Stream], Awaitable[WebSocketConnection]]


@final
class Link:
    """An open WebSocket that carries binary messages; made by `connect` and `accept`.

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


@contextlib.asynccontextmanager
async def connect(
    address: Address,
    *,
    options: LinkOptions,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncGenerator[Link]:
    """Open a link to a server; leaving ends it, in the ordinary way only if `close` was called.

    Opening takes as long as the server makes it take: the caller sets the deadline.  Cancelled, it
    releases what it had.

    Raises:
        OpenFailed: If there is no server, or it speaks something else, or says no.
    """

    async def handshake(nursery: trio.Nursery, tap: trio.abc.Stream) -> WebSocketConnection:
        return await wrap_client_stream(
            nursery,
            cast("trio.SocketStream", tap),  # all it needs is a Stream
            address.host_header,
            address.resource,
            message_queue_size=QUEUED_MESSAGES,
            max_message_size=options.max_message_bytes,
            receive_buffer_size=RECEIVE_BYTES,
        )

    stream = await _dial(address, ssl_context)
    async with _linked(str(address), stream, handshake, options) as link:
        yield link


@contextlib.asynccontextmanager
async def accept(
    stream: trio.abc.Stream, *, name: str, options: LinkOptions
) -> AsyncGenerator[Link]:
    """Open a link to a client that has connected; leaving ends it and closes the stream.

    Opening takes as long as the client makes it take: the caller sets the deadline.

    Raises:
        OpenFailed: If the client speaks something else, or goes.
    """

    async def handshake(nursery: trio.Nursery, tap: trio.abc.Stream) -> WebSocketConnection:
        request = await wrap_server_stream(
            nursery,
            tap,
            message_queue_size=QUEUED_MESSAGES,
            max_message_size=options.max_message_bytes,
            receive_buffer_size=RECEIVE_BYTES,
        )
        return await request.accept()

    async with _linked(name, stream, handshake, options) as link:
        yield link


async def _dial(address: Address, ssl_context: ssl.SSLContext | None) -> trio.abc.Stream:
    try:
        if not address.tls:
            return await trio.open_tcp_stream(address.host, address.port)
        stream = await trio.open_ssl_over_tcp_stream(
            address.host, address.port, https_compatible=True, ssl_context=ssl_context
        )
    except OSError as error:
        raise OpenFailed(
            f"{address} cannot be reached", outcome="not-submitted", retryable=True
        ) from error
    try:
        await stream.do_handshake()
    except BaseException as error:  # also when cancelled, nothing stays open
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(stream)
        if isinstance(error, trio.BrokenResourceError):
            raise _not_secured(address, error) from error
        raise
    return stream


@contextlib.asynccontextmanager
async def _linked(
    name: str, stream: trio.abc.Stream, handshake: Handshake, options: LinkOptions
) -> AsyncGenerator[Link]:
    """The link over a stream, which it closes whatever happens."""
    tap = Tap(stream, handshake_bound=MAX_HANDSHAKE_BYTES)
    try:
        with one_failure():
            async with trio.open_nursery() as nursery:
                ended = trio.Event()
                connection = await nursery.start(_speak, name, tap, handshake, ended)
                link = Link(name, connection, tap, ended, options)
                nursery.start_soon(link.watch)
                yield link
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(stream)


async def _speak(
    name: str,
    tap: Tap,
    handshake: Handshake,
    ended: trio.Event,
    *,
    task_status: trio.TaskStatus[WebSocketConnection],
) -> None:
    """Run trio-websocket's reader; what a peer makes it raise never reaches the nursery."""
    connection: WebSocketConnection | None = None
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as opening:
                # Without this, a stream that ends now would leave the handshake waiting for ever.
                tap.on_end = opening.cancel
                connection = await handshake(nursery, tap)
            tap.on_end = None
            if connection is None:
                nursery.cancel_scope.cancel()
            else:
                task_status.started(connection)
    except BaseExceptionGroup as group:
        weather, rest = group.split(WEATHER)
        if rest is not None:
            with one_failure():
                raise rest from None
        failure = next(leaves(group))
        logger.debug("%s: its reader ended with %s", name, type(failure).__qualname__)
        del group, weather, rest
    finally:
        ended.set()
    if connection is None:
        raise _not_opened(name, tap, failure) from failure


def _not_opened(name: str, tap: Tap, failure: BaseException | None) -> OpenFailed:
    if isinstance(failure, ConnectionRejected):
        status = failure.status_code
        passing = status >= 500 or status in TRY_AGAIN
        return OpenFailed(
            f"{name} answered the opening handshake with HTTP status {status}",
            permanent=not passing,
            retryable=passing,
        )
    if failure is not None and not isinstance(failure, trio.BrokenResourceError):
        return OpenFailed(f"{name} does not speak WebSocket", permanent=True)
    return OpenFailed(
        f"{name} {tap.end or 'went'} in the opening handshake",
        permanent=tap.flooded,
        outcome="not-submitted",
        retryable=not tap.flooded,
    )


def _not_secured(address: Address, error: BaseException) -> OpenFailed:
    cause = error.__cause__
    permanent = isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError)
    if isinstance(cause, ssl.SSLCertVerificationError):
        what = "is not trusted: its certificate does not hold"
    elif permanent:
        what = "does not speak TLS"
    else:
        what = "closed the connection in the TLS handshake"
    return OpenFailed(
        f"{address} {what}",
        permanent=permanent,
        outcome="not-submitted",
        retryable=not permanent,
    )


@contextlib.contextmanager
def one_failure() -> Generator[None]:
    """Let a nursery's only failure out as itself, not in a group.

    A cancellation from outside that came beside it is dropped for it, as it is wherever an
    exception replaces a `Cancelled`; the next checkpoint raises it again.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        failures = group.split(trio.Cancelled)[1] or group
        if len(failures.exceptions) != 1:
            raise
        only = failures.exceptions[0]
        context = only.__context__
        try:
            raise only
        finally:
            only.__context__ = context  # the group, which holds it, would make a cycle
            del only, context, failures
