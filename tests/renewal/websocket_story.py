"""What the stories about the WebSocket source have in common."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from fractions import Fraction
from typing import Any, cast

import trio
from trio.testing import wait_all_tasks_blocked

from examples.film_server.film import RATE, Film
from examples.film_server.options import FilmServerOptions
from examples.film_server.server import FilmServer
from trio_reactor.errors import ReactorError
from trio_reactor.renewal.source import (
    AudioFrame,
    ClipRequest,
    Predecessor,
    SourceEvent,
    VideoFrame,
)
from trio_reactor.renewal.websocket import WebSocketOptions, WebSocketSource, websocket_source
from trio_reactor.renewal.websocket.handshake import accept
from trio_reactor.renewal.websocket.link import Link, LinkOptions
from trio_reactor.renewal.websocket.wire import (
    MAX_MESSAGE_BYTES,
    VERSION,
    FromServer,
    Hello,
    Request,
    Welcome,
    decode_from_client,
    encode,
)

WIDTH, HEIGHT = 32, 16
PATIENCE = 20.0
"""Seconds after which a fact is not awaited any longer."""


def film(pictures: int = 100, rate: int = 100, width: int = WIDTH, height: int = HEIGHT) -> Film:
    """A film in which every picture is filled with its own number."""
    size = width * height * 3 // 2
    return Film(
        width,
        height,
        Fraction(rate),
        tuple(bytes([number % 256]) * size for number in range(pictures)),
        bytes(RATE * 4 * pictures // rate),
    )


def scene(start: int, frames: int) -> ClipRequest:
    return ClipRequest({"scene": {"start": start, "frames": frames}})


def uncommitted() -> None:
    """Nothing to be done when a request leaves."""


async def until(fact: Callable[[], bool]) -> None:
    """Wait for a fact that nobody announces."""
    with trio.fail_after(PATIENCE):
        while not fact():
            await wait_all_tasks_blocked(0.005)


class Watcher:
    """Both sinks of one source: keeps all that was pushed, in order, and wakes who waits for it."""

    def __init__(self) -> None:
        self.log: list[SourceEvent | VideoFrame | AudioFrame] = []
        self.losses: list[Exception | None] = []
        self._changed = trio.Event()

    @property
    def frames(self) -> list[VideoFrame]:
        return [entry for entry in self.log if isinstance(entry, VideoFrame)]

    @property
    def sound(self) -> list[AudioFrame]:
        return [entry for entry in self.log if isinstance(entry, AudioFrame)]

    @property
    def events(self) -> list[SourceEvent]:
        media = (VideoFrame, AudioFrame)
        return [cast("SourceEvent", entry) for entry in self.log if not isinstance(entry, media)]

    def event(self, event: SourceEvent, /) -> None:
        self._take(event)

    def video(self, frame: VideoFrame, /) -> None:
        self._take(frame)

    def audio(self, frame: AudioFrame, /) -> None:
        self._take(frame)

    def lost(self, cause: Exception | None, /) -> None:
        self.losses.append(cause)
        self._wake()

    async def until(self, fact: Callable[[], bool]) -> None:
        with trio.fail_after(PATIENCE):
            while not fact():
                await self._changed.wait()

    async def until_event(self, kind: type[SourceEvent], count: int = 1) -> None:
        await self.until(lambda: sum(isinstance(each, kind) for each in self.events) >= count)

    def _take(self, entry: SourceEvent | VideoFrame | AudioFrame) -> None:
        self.log.append(entry)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


async def serving(
    nursery: trio.Nursery, *, shown: Film | None = None, **terms: object
) -> tuple[FilmServer, str]:
    """A film server in this process; returns it and its url."""
    options = FilmServerOptions.model_validate({"build_time": 0.0, **terms})
    server = FilmServer(shown or film(), options)
    port = await nursery.start(server.serve)
    return server, f"ws://127.0.0.1:{port}/film?key=secret"


@contextlib.asynccontextmanager
async def opened(url: str, **options: object) -> AsyncGenerator[WebSocketSource]:
    """An open source."""
    token = cast("str | None", options.pop("token", None))
    opener = websocket_source(url, token=token, options=WebSocketOptions.model_validate(options))
    with trio.fail_after(PATIENCE):
        async with opener(Predecessor()) as source:
            assert isinstance(source, WebSocketSource)
            yield source


class Peer:
    """A server that does what a test says, on every connection it gets."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connections = 0
        self.ended = trio.Event()
        """Set when a connection is over, whoever ended it."""
        self.heard = trio.Event()
        """Set by a script when the client has said what it was to say."""
        self.requests: list[Request] = []
        self.life = trio.CancelScope()
        """Cancelled, the server is gone and so are its connections."""


async def listening(
    nursery: trio.Nursery,
    script: Callable[[trio.SocketStream, Peer], Awaitable[None]],
    *,
    scheme: str = "ws",
) -> Peer:
    """A TCP server that follows a script and then waits for the client to go."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    peer = Peer(f"{scheme}://127.0.0.1:{port}/film?key=secret")

    async def serve(stream: trio.SocketStream) -> None:
        peer.connections += 1
        try:
            async with stream:
                await script(stream, peer)
                while await stream.receive_some():
                    pass
        except (trio.BrokenResourceError, trio.ClosedResourceError, ReactorError):
            pass
        finally:
            peer.ended.set()

    async def live(*, task_status: trio.TaskStatus[Any]) -> None:
        with peer.life:
            await trio.serve_listeners(serve, listeners, task_status=task_status)

    await nursery.start(live)
    return peer


async def speaking(
    nursery: trio.Nursery,
    script: Callable[[Link, Peer], Awaitable[None]],
    streams: list[trio.SocketStream] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
) -> Peer:
    """A WebSocket server that follows a script and then waits for the client to go.

    The streams of its connections are appended to `streams`, to be broken.
    """

    async def serve(stream: trio.SocketStream, peer: Peer) -> None:
        if streams is not None:
            streams.append(stream)
        options = LinkOptions(max_message_bytes=MAX_MESSAGE_BYTES)
        above = stream if tls is None else trio.SSLStream(stream, tls, server_side=True)
        async with accept(above, name="a client", options=options) as link:
            await script(link, peer)
            while True:
                await link.receive()

    return await listening(nursery, serve, scheme="ws" if tls is None else "wss")


async def say(link: Link, *messages: FromServer) -> None:
    for message in messages:
        await link.send(encode(message, bound=MAX_MESSAGE_BYTES))


async def welcome(link: Link, *, grace: float = 5.0, lifetime: float | None = None) -> Hello:
    """Greet a client as a server does."""
    hello = decode_from_client(await link.receive())
    assert isinstance(hello, Hello)
    await say(link, Welcome(VERSION, "session-1", "resume-1", lifetime, grace))
    return hello


async def next_request(link: Link, peer: Peer) -> Request:
    request = decode_from_client(await link.receive())
    assert isinstance(request, Request)
    peer.requests.append(request)
    return request
