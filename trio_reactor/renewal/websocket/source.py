"""A source that is a session of a server, held over a WebSocket.

One task of the source's reads the socket and pushes what it hears into the sinks, in order and in
the step in which it came; pictures and sound are views on the received message, never copied on
this side.  Two facts about the layers below: wsproto copies every byte three times between the
socket and the message, and a message that comes in several pieces is joined once more.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import final

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.renewal.allocation import AllocationRecord, Terminate
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import (
    ClipRequest,
    Commit,
    EventSink,
    Json,
    Media,
    MediaSink,
    OpenFailed,
    Predecessor,
    SourceOpener,
    SourceState,
)

from .address import Address
from .failures import one_failure
from .media import Generation
from .session import Session, WebSocketOptions
from .wire import (
    MAX_IDENTITY,
    CloseMedia,
    Done,
    Enqueue,
    GetState,
    MediaOpened,
    Move,
    OpenMedia,
    PauseAndStop,
    Queued,
    Remove,
    SetAutoplay,
    SetCanvas,
    Snapshot,
    encode_payload,
)

__all__ = ["WebSocketOptions", "WebSocketSource", "websocket_source", "websocket_terminate"]


def websocket_source(
    url: str,
    *,
    token: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
    options: WebSocketOptions | None = None,
) -> SourceOpener[WebSocketSource]:
    """What opens sessions of a server, each one a source.

    Opening raises `OpenFailed`, which names the url and what happened, with everything released
    that had been acquired by then and with the evidence of it.  It is permanent where trying again
    is pointless: the server speaks another protocol or version, or does not admit this client.

    A source lives in its context manager.  Left without a `close`, it is closed; also when the
    block is cancelled, within the budgets of the options.  A source opened after another takes
    nothing over from it.

    The key of a `Predecessor` is given to the server, and what a dead process left is adopted by
    it; `websocket_terminate` ends it.  Left alone, it ends after the grace that its server gives.

    Args:
        url: Where the server is, `ws:` or `wss:`.  Messages name it without its query.
        token: What admits to the service, where that is asked for.
        ssl_context: For `wss:`; `None` for the system's.
        options: The bounds of every source.

    Raises:
        ValueError: If the url is not that of a WebSocket, or the token cannot be sent.
    """
    address = Address.parse(url)
    if token is not None and not (token.isascii() and 0 < len(token) <= MAX_IDENTITY):
        raise ValueError(f"token: is 1 to {MAX_IDENTITY} characters of ASCII")
    bounds = options or WebSocketOptions()

    @contextlib.asynccontextmanager
    async def opened(key: str | None, *, existing: bool) -> AsyncGenerator[WebSocketSource]:
        with one_failure():
            async with trio.open_nursery() as nursery:
                session = Session(
                    address,
                    nursery,
                    token=token,
                    ssl_context=ssl_context,
                    options=bounds,
                    key=key,
                    existing=existing,
                )
                try:
                    await session.open()
                    yield WebSocketSource(session)
                finally:
                    with trio.CancelScope(shield=True):
                        await session.leave()
                    nursery.cancel_scope.cancel()

    def open_source(predecessor: Predecessor, /) -> AbstractAsyncContextManager[WebSocketSource]:
        return opened(predecessor.key, existing=predecessor.adopt is not None)

    return open_source


def websocket_terminate(
    url: str,
    *,
    token: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
    options: WebSocketOptions | None = None,
) -> Terminate:
    """What ends sessions of a server that a dead process has left; for `Allocations`.

    It takes a session up by the key that it was opened under, and closes it.  One that the server
    does not have is over.  The arguments are those of `websocket_source`.

    Raises:
        ValueError: If the url is not that of a WebSocket, or the token cannot be sent.
    """
    open_source = websocket_source(url, token=token, ssl_context=ssl_context, options=options)

    async def terminate(record: AllocationRecord) -> Cleanup:
        try:
            async with open_source(Predecessor(key=record.key, adopt=record)) as source:
                return await source.close()
        except OpenFailed as failure:
            if failure.resumption_refused:
                return Cleanup.of(
                    record.source,
                    allocation="none",
                    termination="not-needed",
                    connection="never-opened",
                )
            raise

    return terminate


@final
class WebSocketSource:
    """An open session; implements `Playable`, `Reconnectable`, `Recordable` and `Mortal`.

    Made by what `websocket_source` returns.

    Whatever asks the server something raises `Refused` if it says no, `TimedOut` if it does not
    answer, and `Lost` if the connection ends first or is not there: with the outcome `unknown` once
    the request may have left, `not-submitted` before.  After the session's own end it raises `Lost`
    or `Expired`, after `close` `Closed`.

    Cancelled before a request left, nothing leaves.  Cancelled after, the request is not taken back
    and its answer is ignored, and the sink that an `attach` or `open_media` brought may have been
    taken already.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"<WebSocketSource {self.id} at {self._session.peer}>"

    @property
    def id(self) -> str:
        """The identity that the server gave the session."""
        return self._session.welcome.session

    @property
    def lifetime(self) -> float | None:
        """Seconds that it lives, counted from when it was opened; `None` for no end."""
        return self._session.welcome.lifetime

    @property
    def allocation(self) -> Json:
        """Where the session is: the server's address, without a query, which may hold a secret."""
        return {"server": self._session.peer}

    async def attach(self, sink: EventSink, /) -> SourceState:
        """Give the current state, and every event after it, without a gap, to this sink."""
        connection = self._session.live()
        snapshot = await connection.ask(
            GetState(), Snapshot, on_reply=lambda _: connection.listen(sink)
        )
        return snapshot.state

    async def state(self) -> SourceState:
        """Ask the server for the current state."""
        return (await self._session.live().ask(GetState(), Snapshot)).state

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        """Queue a clip; returns its identity.

        Args:
            request: What is asked for, in the server's terms.
            position: Its place among the clips that wait, from 0; `None` for the end.
            commit: Called in the step in which the first byte leaves; if it raises, none does.
        """
        command = Enqueue(encode_payload(request.payload), position, request.continue_from)
        return (await self._session.live().ask(command, Queued, before=commit)).clip

    async def remove(self, clip: str, /) -> None:
        """Take a clip out of the queue."""
        await self._session.live().ask(Remove(clip), Done)

    async def move(self, clip: str, /, position: int) -> None:
        """Give a waiting clip another place among those that wait, from 0."""
        await self._session.live().ask(Move(clip, position), Done)

    async def set_autoplay(self, enabled: bool, /) -> None:
        """Whether what is ready is played; a new session does not."""
        await self._session.live().ask(SetAutoplay(enabled), Done)

    async def pause_and_stop(self) -> None:
        """End what is playing and hold what is queued."""
        await self._session.live().ask(PauseAndStop(), Done)

    async def set_canvas(self, width: int, height: int, /) -> None:
        """Set the size of the picture, in pixels, from the next clip that is built."""
        await self._session.live().ask(SetCanvas(width, height), Done)

    async def open_media(self, sink: MediaSink, /) -> Media:
        """Begin a media generation: from now on every frame goes to this sink.

        One that was open ends without an error.  What went into the void since it ended is counted
        by the new one; see `trio_reactor.renewal.websocket.media`.
        """
        session = self._session
        connection = session.live()
        begun: list[Generation] = []

        async def leave(generation: Generation) -> None:
            if session.account.current is generation:
                session.account.end(None)
                # A server that cannot be told has no socket left to send media on.
                with contextlib.suppress(ReactorError):
                    await connection.ask(CloseMedia(generation.generation), Done)

        def begin(opened: MediaOpened) -> None:
            begun.append(session.account.begin(opened, sink, leave))

        await connection.ask(OpenMedia(), MediaOpened, on_reply=begin)
        return begun[0]

    async def reconnect(self) -> None:
        """Take the session up again on a new socket; one that is still there is ended first.

        Raises:
            Closed: If the source was closed, or is meanwhile.
            Expired: If its lifetime is over.
            Lost: If the session is gone, or cannot be reached; retryable if perhaps later.
        """
        await self._session.reconnect()

    async def wait_lost(self) -> None:
        """Return when the session has ended; a socket that dropped is not the end of it.

        It has ended when it was closed, when the server says so, and when it was not taken up again
        within the grace that the server gave it.

        Raises:
            Expired: Its lifetime is over.
            Lost: It ended otherwise by itself.
        """
        await self._session.wait_lost()

    async def close(self) -> Cleanup:
        """Have the server end the session, and close the socket; returns the evidence.

        Idempotent, and everyone gets the same evidence.  If the socket dropped, it is made again
        for this.  Bounded by `terminate_timeout` and `close_timeout`.  A cancelled caller leaves,
        and the termination goes on.
        """
        return await self._session.close()
