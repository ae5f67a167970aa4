"""Opens links, from either side, and sees to it that they always end.

A link's stream is closed whatever happened, so a peer that does not answer can delay nobody beyond
a named budget.  In the opening handshake, a stream that ends is noticed at once, a peer that talks
without end is cut off, and one that never spoke WebSocket is told apart from one that is not there.

Failures are `OpenFailed`; what a peer makes trio-websocket raise later ends the link and is never
raised here.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeAlias, cast

import h11
import trio
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
    wrap_server_stream,
)
from wsproto.utilities import ProtocolError

from trio_reactor.errors import leaves
from trio_reactor.renewal.source import OpenFailed

from .address import Address
from .failures import one_failure
from .link import Link, LinkOptions
from .tap import Tap

__all__ = ["accept", "connect"]

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

Handshake: TypeAlias = Callable[[trio.Nursery, trio.abc.Stream], Awaitable[WebSocketConnection]]


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
