"""Takes sockets, gives sessions, and lets things go wrong as they do in life."""

from __future__ import annotations

import hmac
import logging
import math
import random
import socket
import struct
from typing import final

import msgspec
import trio

from trio_reactor.renewal.source import OpenFailed
from trio_reactor.renewal.websocket.handshake import accept
from trio_reactor.renewal.websocket.link import Disconnected, Link, LinkOptions
from trio_reactor.renewal.websocket.wire import (
    MAX_MESSAGE_BYTES,
    MAX_REQUEST_BYTES,
    VERSION,
    CloseCode,
    Hello,
    Refusal,
    RefusalCode,
    Request,
    Welcome,
    WireError,
    decode_from_client,
    encode,
)
from trio_reactor.world import SystemWorld, World

from .film import Film
from .options import FilmServerOptions
from .outbox import Farewell, Outbox
from .session import Session, SessionStatistics

__all__ = ["FilmServer", "FilmServerStatistics"]

logger = logging.getLogger("film_server")


class FilmServerStatistics(msgspec.Struct, frozen=True):
    """What a server holds and did."""

    connections: int
    sessions: tuple[str, ...]
    opened: int
    refused: int
    sockets_dropped: int


class _NotAdmitted(Exception):
    def __init__(self, code: RefusalCode, reason: str) -> None:
        super().__init__(reason)
        self.code: RefusalCode = code
        self.reason = reason


@final
class FilmServer:
    """A server of sessions that play one film.

    Args:
        film: What is played.
        options: Its terms, its bounds, and what goes wrong.
        world: Where identifiers, and chance without a seed, come from.
    """

    def __init__(
        self, film: Film, options: FilmServerOptions, *, world: World | None = None
    ) -> None:
        self._film = film
        self._options = options
        self._world = world or SystemWorld()
        seed = options.faults.seed
        self._chance = self._world.random if seed is None else random.Random(seed)  # noqa: S311
        self._link = LinkOptions(
            send_timeout=options.send_timeout,
            close_timeout=options.close_timeout,
            max_message_bytes=MAX_REQUEST_BYTES,
        )
        self._sessions: dict[str, Session] = {}
        """By what takes them up again."""
        self._asked_for: dict[str, Session] = {}
        """By the keys that they were asked for under, where there was one."""
        self._connections = 0
        self._opened = 0
        self._refused = 0
        self._dropped = 0
        self._stopping = trio.Event()
        self._idle = trio.Event()

    def statistics(self) -> FilmServerStatistics:
        """What it holds and did."""
        return FilmServerStatistics(
            self._connections,
            tuple(session.id for session in self._sessions.values()),
            self._opened,
            self._refused,
            self._dropped,
        )

    def session_statistics(self, session: str) -> SessionStatistics | None:
        """What a session did, by its identity; `None` if it is over."""
        for each in self._sessions.values():
            if each.id == session:
                return each.statistics()
        return None

    def stop(self) -> None:
        """End every session and stop serving; `serve` returns once that is done."""
        self._stopping.set()

    async def serve(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until it is stopped; `task_status` is given the port.

        Raises:
            OSError: If the port cannot be had.
        """
        listeners = await trio.open_tcp_listeners(port, host=host)
        async with trio.open_nursery() as sessions:
            listening = trio.CancelScope()

            async def serve_stream(stream: trio.SocketStream) -> None:
                await self._serve_stream(stream, sessions)

            async def listen() -> None:
                with listening:
                    await trio.serve_listeners(serve_stream, listeners, handler_nursery=sessions)

            sessions.start_soon(listen)
            task_status.started(listeners[0].socket.getsockname()[1])
            await self._stopping.wait()
            listening.cancel()
            for session in list(self._sessions.values()):
                session.end(CloseCode.GOING_AWAY, "the server stops")
            with trio.move_on_after(2 * self._options.close_timeout):
                while self._connections:
                    self._idle = trio.Event()
                    await self._idle.wait()
            sessions.cancel_scope.cancel()

    # -------------------------------------------------------------------------------- sockets

    async def _serve_stream(self, stream: trio.SocketStream, sessions: trio.Nursery) -> None:
        if self._connections >= self._options.max_connections or self._stopping.is_set():
            await trio.aclose_forcefully(stream)
            return
        self._connections += 1
        try:
            with trio.CancelScope() as opening:
                opening.deadline = trio.current_time() + self._options.hello_timeout
                async with accept(stream, name="a client", options=self._link) as link:
                    hello = await self._hear_hello(link)
                    opening.deadline = math.inf
                    await self._greet(link, hello, stream, sessions)
        except (OpenFailed, Disconnected, WireError) as failure:
            logger.debug("a socket ended: %s", failure.message)
        finally:
            self._connections -= 1
            self._idle.set()

    async def _hear_hello(self, link: Link) -> Hello:
        message = await link.receive()
        try:
            heard = decode_from_client(message)
        except WireError as failure:
            await link.close(CloseCode.VIOLATION, failure.message)
            raise
        if isinstance(heard, Hello):
            return heard
        await link.close(CloseCode.VIOLATION, "a request before the greeting")
        raise WireError("a request came before the greeting")

    async def _greet(
        self, link: Link, hello: Hello, stream: trio.SocketStream, sessions: trio.Nursery
    ) -> None:
        outbox = Outbox(self._options)
        try:
            self._check(hello)
            await trio.sleep(self._options.faults.slow_open)
            known = len(self._sessions)
            session = self._wanted(hello, sessions)
            new = len(self._sessions) > known
        except _NotAdmitted as refusal:
            self._refused += 1
            await self._say(link, Refusal(refusal.code, refusal.reason))
            await link.close(CloseCode.NOT_ADMITTED, refusal.code)
            return
        session.attach(outbox)
        welcome = Welcome(
            VERSION, session.id, session.secret, session.remaining, self._options.grace
        )
        try:
            await self._say(link, welcome)
        except Disconnected:
            if new:  # nobody knows of it
                session.end(CloseCode.DONE, "its client did not wait for it")
            raise
        else:
            await self._converse(link, stream, session, outbox)
        finally:
            session.detach(outbox)

    async def _converse(
        self, link: Link, stream: trio.SocketStream, session: Session, outbox: Outbox
    ) -> None:
        async with trio.open_nursery() as nursery:
            scope = nursery.cancel_scope
            nursery.start_soon(self._write, link, outbox, scope)
            nursery.start_soon(self._cut_off, link, outbox)
            nursery.start_soon(self._drop, stream)
            await self._read(link, session)
            if outbox.farewell is None:  # else the farewell is still to be said
                scope.cancel()

    async def _read(self, link: Link, session: Session) -> None:
        """Carry out what the client asks for, until its socket ends."""
        try:
            while isinstance(heard := decode_from_client(await link.receive()), Request):
                session.handle(heard)
            await link.close(CloseCode.VIOLATION, "a greeting in the middle of a conversation")
        except WireError as failure:
            await link.close(CloseCode.VIOLATION, failure.message)
        except Disconnected as failure:
            if failure.code == CloseCode.DONE:
                session.end(CloseCode.DONE, "closed by its client")

    async def _write(self, link: Link, outbox: Outbox, scope: trio.CancelScope) -> None:
        try:
            while True:
                match await outbox.next():
                    case Farewell(code=code, reason=reason):
                        await link.close(code, reason)
                        break
                    case message:
                        await link.send(encode(message, bound=MAX_MESSAGE_BYTES))
        except Disconnected as failure:
            logger.debug("a socket ended: %s", failure.message)
        scope.cancel()

    async def _cut_off(self, link: Link, outbox: Outbox) -> None:
        """Whoever does not read does not keep the session from ending."""
        await outbox.finished.wait()
        await trio.sleep(self._options.close_timeout)
        await link.cut("did not take its farewell")

    async def _drop(self, stream: trio.SocketStream) -> None:
        """Break the connection as a network does: with a reset, without a word."""
        faults = self._options.faults
        after = math.inf if faults.drop_after is None else faults.drop_after
        if faults.drop_rate:
            after = min(after, self._chance.expovariate(faults.drop_rate))
        await trio.sleep(after)
        if faults.drop_limit is None or self._dropped < faults.drop_limit:
            self._dropped += 1
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await trio.aclose_forcefully(stream)

    async def _say(self, link: Link, message: Welcome | Refusal) -> None:
        await link.send(encode(message, bound=MAX_MESSAGE_BYTES))

    # ------------------------------------------------------------------------------- sessions

    def _check(self, hello: Hello) -> None:
        if hello.version != VERSION:
            raise _NotAdmitted("version", f"version {VERSION} is spoken here")
        wanted = self._options.token
        if wanted is not None and not hmac.compare_digest(
            (hello.token or "").encode(), wanted.encode()
        ):
            raise _NotAdmitted("not-authorised", "the token is missing or wrong")

    def _wanted(self, hello: Hello, sessions: trio.Nursery) -> Session:
        """The session that a client asks for: an old one, or a new one."""
        if hello.resume is not None:
            return self._take_up(hello.resume)
        session = None if hello.key is None else self._asked_for.get(hello.key)
        if session is not None and session.over is None:
            return session
        if hello.existing:
            raise _NotAdmitted("no-such-session", "there is none under this key")
        session = self._open(sessions)
        if hello.key is not None:
            self._asked_for[hello.key] = session
        return session

    def _take_up(self, secret: str) -> Session:
        session = self._sessions.get(secret)
        if session is None or session.over is not None:
            raise _NotAdmitted("no-such-session", "the session is over or never was")
        return session

    def _open(self, sessions: trio.Nursery) -> Session:
        if self._refused_on_purpose():
            raise _NotAdmitted("unavailable", "it is refused on purpose")
        if len(self._sessions) >= self._options.max_sessions or self._stopping.is_set():
            raise _NotAdmitted("full", f"{self._options.max_sessions} sessions are open")
        self._opened += 1
        session = Session(
            f"film-{self._world.token()[:12]}",
            self._world.token(),
            self._film,
            self._options,
            self._chance,
        )
        self._sessions[session.secret] = session
        sessions.start_soon(self._run_session, session)
        return session

    def _refused_on_purpose(self) -> bool:
        return self._refused < self._options.faults.refuse_opens

    async def _run_session(self, session: Session) -> None:
        try:
            await session.run()
        finally:
            del self._sessions[session.secret]
            self._asked_for = {
                key: each for key, each in self._asked_for.items() if each is not session
            }
