"""A session of a server, which outlives its sockets: opened, taken up again, terminated.

Everything that runs for it runs in one nursery, which its opener entered.  A socket's task is
cancelled with its opener only while it opens; then it is shielded, so that a session whose opener
is cancelled can still be terminated on the server's side, and it is ended by name.
"""

from __future__ import annotations

import logging
import math
import ssl
from typing import final

import msgspec
import trio
from pydantic import Field

from trio_reactor.errors import Expired, Lost, ReactorError, TimedOut
from trio_reactor.events import FailureRecord
from trio_reactor.fence import Fence
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import OpenFailed

from .address import Address
from .connection import NEVER_OPENED, PERHAPS_ALLOCATED, Connection, greet
from .handshake import connect
from .link import Disconnected, Link, LinkOptions
from .media import Account
from .wire import SESSION_OVER, VERSION, CloseCode, Hello, Terminate, Terminated, Welcome, WireError

__all__ = ["Session", "WebSocketOptions"]

logger = logging.getLogger("trio_reactor.websocket")


class WebSocketOptions(LinkOptions):
    """The bounds of a WebSocket source; times are in seconds.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    open_timeout: float = Field(
        default=10.0, gt=0, description="For connecting, both handshakes and the greeting."
    )
    reply_timeout: float = Field(default=30.0, gt=0, description="For the answer to one request.")
    terminate_timeout: float = Field(
        default=5.0, gt=0, description="For the server's word that the session is gone."
    )
    max_pending: int = Field(
        default=64, ge=1, le=65536, description="Requests that may wait for their answers."
    )


class _End(msgspec.Struct, frozen=True):
    """How a session ended by itself."""

    message: str
    expired: bool = False
    detail: str | None = None

    def failure(self) -> Lost | Expired:
        kind = Expired if self.expired else Lost
        return kind(self.message, detail=self.detail)


@final
class Session:
    """The session, from this side.

    Args:
        address: Where its server is.
        nursery: What runs for it; entered and left by its opener.
        token: What admits to the service.
        ssl_context: For `wss:`; `None` for the system's.
        options: Its bounds.
        key: What it is asked for under.
        existing: Whether it was opened under this key before, and is only to be taken up.
    """

    def __init__(
        self,
        address: Address,
        nursery: trio.Nursery,
        *,
        token: str | None,
        ssl_context: ssl.SSLContext | None,
        options: WebSocketOptions,
        key: str | None = None,
        existing: bool = False,
    ) -> None:
        self.peer = str(address)
        self.account = Account()
        self._address = address
        self._nursery = nursery
        self._token = token
        self._ssl_context = ssl_context
        self._options = options
        self._key = key
        self._existing = existing
        self._welcome: Welcome | None = None
        self._resume: str | None = None
        """What takes it up again; the server may change it with every socket."""
        self._connection: Connection | None = None
        self._connections = 0
        """How many there were."""
        self._left_in_order = False
        """Whether the last one was closed, rather than dropped."""
        self._connecting = trio.Lock()
        self._attempt: trio.CancelScope | None = None
        self._closing = Fence(f"the session at {self.peer}")
        self._end: _End | None = None
        self._ended = trio.Event()
        self._gone = False
        """Whether the server said that it is."""
        self._cleanup: Cleanup | None = None
        self._terminated = trio.Event()

    @property
    def welcome(self) -> Welcome:
        """What the server said when the session was opened."""
        assert self._welcome is not None  # noqa: S101 - nobody has it before it is opened
        return self._welcome

    def live(self) -> Connection:
        """Its connection.

        Raises:
            Closed: If it was closed from this side.
            Expired: If its lifetime is over.
            Lost: If it ended otherwise, or has no connection at the moment.
        """
        self._admit()
        if self._connection is None:
            raise Lost(f"there is no connection to {self.peer}", retryable=True)
        return self._connection

    async def open(self) -> None:
        """Open it.

        Raises:
            OpenFailed: With what is proven of what was allocated.
        """
        await self._nursery.start(self._converse)

    async def reconnect(self) -> None:
        """Take it up again on a new socket; one that is still there is ended first.

        Raises:
            Closed: If it is closed, or is meanwhile.
            Expired: If its lifetime is over.
            Lost: If it is gone, or cannot be reached; retryable if it may be reached later.
        """
        async with self._connecting:
            self._admit()
            with trio.CancelScope() as attempt:
                self._attempt = attempt
                try:
                    await self._take_up()
                finally:
                    self._attempt = None
            self._closing.check()  # which is also what cancels an attempt

    async def wait_lost(self) -> None:
        """Return when it has ended; raises why if it ended by itself."""
        await self._ended.wait()
        if self._end is not None:
            raise self._end.failure()

    async def close(self) -> Cleanup:
        """Terminate it, once, whoever asks and however often; returns the evidence.

        A cancelled caller leaves, the termination goes on.
        """
        if self._closing.set("it was closed"):
            self._nursery.start_soon(self._terminate)
        await self._terminated.wait()
        assert self._cleanup is not None  # noqa: S101 - set in the step before
        return self._cleanup

    async def leave(self) -> None:
        """Terminate it if it was opened and nobody did; for its opener, shielded."""
        if self._welcome is not None:
            await self.close()

    # --------------------------------------------------------------------------- connections

    async def _converse(self, *, task_status: trio.TaskStatus[None]) -> None:
        """One socket, from its opening to its end; runs in a task of the session's."""
        connection: Connection | None = None
        cause: ReactorError | None = None
        asked = False
        try:
            with trio.CancelScope() as scope:
                scope.deadline = trio.current_time() + self._options.open_timeout
                async with connect(
                    self._address, options=self._options, ssl_context=self._ssl_context
                ) as link:
                    asked = True
                    hello = Hello(VERSION, self._token, self._resume, self._key, self._existing)
                    welcome = await greet(link, hello, self.peer)
                    await self._check_same(link, welcome)
                    # With no checkpoint after the greeting: from here it is ended by name only.
                    scope.shield, scope.deadline = True, math.inf
                    connection = self._connected(link, welcome, scope)
                    task_status.started()
                    await connection.read()
            if connection is None:
                raise self._too_slow(asked=asked)
        except OpenFailed as failure:
            failure.cleanup = failure.cleanup or NEVER_OPENED
            raise
        except (Disconnected, WireError) as failure:
            cause = failure
        finally:
            if connection is not None:
                self._disconnected(connection, cause)

    async def _check_same(self, link: Link, welcome: Welcome) -> None:
        """See that what was taken up again is what was asked for.  Checkpoints only if it is not.

        The end of another session, however well it is confirmed, says nothing of this one's.
        """
        if self._welcome is not None and welcome.session != self._welcome.session:
            await link.close(CloseCode.DONE, "not the session that was asked for")
            raise OpenFailed(
                f"{self.peer} gave another session than the one that was to be taken up again",
                permanent=True,
                cleanup=PERHAPS_ALLOCATED,
            )

    def _too_slow(self, *, asked: bool) -> OpenFailed:
        return OpenFailed(
            f"{self.peer} gave no session within {self._options.open_timeout} s",
            outcome="unknown" if asked else "not-submitted",
            retryable=not asked,
            cleanup=PERHAPS_ALLOCATED if asked else NEVER_OPENED,
        )

    def _connected(self, link: Link, welcome: Welcome, scope: trio.CancelScope) -> Connection:
        if self._welcome is None:
            self._welcome = welcome
        self._resume = welcome.resume
        self._connections += 1
        self._connection = Connection(
            self.peer,
            link,
            self.account,
            scope,
            reply_timeout=self._options.reply_timeout,
            max_pending=self._options.max_pending,
        )
        logger.debug("%s: session %s is connected", self.peer, self.welcome.session)
        return self._connection

    def _disconnected(self, connection: Connection, cause: ReactorError | None) -> None:
        """Decide, in one step, what the end of a socket means for the session."""
        code = cause.code if isinstance(cause, Disconnected) else None
        closing = self._closing.is_set
        why = cause or Lost(f"the connection to {self.peer} was ended from this side")
        logger.debug("%s: session %s: %s", self.peer, self.welcome.session, why.message)
        self._connection = None
        self._left_in_order = code is not None
        if code in SESSION_OVER:
            self._gone = True
            expired = code == CloseCode.LIFETIME_OVER
            self._over(_End(why.message, expired=expired, detail=why.detail))
        elif not closing:
            self._nursery.start_soon(self._outlive, self._connections)
        connection.gone.set()
        connection.lose(why, told=None if closing else cause)

    async def _outlive(self, connections: int) -> None:
        """A session outlives its socket for its grace, unless it gets another."""
        await trio.sleep(self.welcome.grace)
        async with self._connecting:
            if self._connections == connections:
                self._over(_End(f"the session at {self.peer} was without a socket for too long"))

    async def _take_up(self) -> None:
        if self._connection is not None:
            connection = self._connection
            connection.end()
            await connection.gone.wait()
        try:
            await self._nursery.start(self._converse)
        except OpenFailed as failure:
            message = f"the session was not taken up again: {failure.message}"
            if failure.resumption_refused:
                self._gone = True
                self._over(_End(message, detail=failure.detail))
            again = not failure.permanent and not failure.resumption_refused
            raise Lost(message, retryable=again, detail=failure.detail) from failure

    # ----------------------------------------------------------------------------------- its end

    def _admit(self) -> None:
        self._closing.check()
        if self._end is not None:
            raise self._end.failure()

    def _over(self, end: _End) -> None:
        if self._end is None and not self._closing.is_set:
            self._end = end
            self._ended.set()

    async def _terminate(self) -> None:
        failure: ReactorError | None = None
        confirmed = closed = False
        try:
            with trio.CancelScope(shield=True):
                if self._attempt is not None:
                    self._attempt.cancel()
                async with self._connecting:
                    failure = await self._ask_to_end()
                    confirmed = failure is None
                    closed = await self._disconnect(confirmed=confirmed)
        finally:  # a defect, too, leaves nobody waiting and no socket open
            if self._connection is not None:
                self._connection.end()
            self._cleanup = Cleanup.of(
                self.welcome.session,
                allocation="owned",
                termination="confirmed" if confirmed else "unconfirmed",
                connection="closed" if closed else "failed",
                failures=() if failure is None else (FailureRecord.of(failure),),
            )
            self._ended.set()
            self._terminated.set()
            if not self._cleanup.complete:
                logger.warning(
                    "%s: session %s: termination %s, connection %s",
                    self.peer,
                    self.welcome.session,
                    self._cleanup.termination,
                    self._cleanup.connection,
                )

    async def _ask_to_end(self) -> ReactorError | None:
        """Have the server end it; returns what kept that from being confirmed.

        A socket that drops before the answer is made again, for as long as that is possible: to
        end a session twice does no harm.
        """
        failure: ReactorError | None = None
        with trio.move_on_after(self._options.terminate_timeout) as budget:
            while not self._gone:
                try:
                    if self._connection is None:
                        await self._take_up()
                except ReactorError as unreachable:
                    failure = unreachable
                    break
                connection = self._connection
                if connection is None:  # it dropped in the step in which it was made
                    continue
                try:
                    await connection.ask(Terminate(), Terminated)
                except Lost as lost:
                    failure = lost
                    connection.end()
                    await connection.gone.wait()
                except ReactorError as refused:
                    failure = refused
                    break
                else:
                    return None
        if self._gone:
            return None
        if budget.cancelled_caught:
            return TimedOut(
                f"{self.peer} did not confirm within {self._options.terminate_timeout} s "
                "that the session is gone",
                outcome="unknown",
            )
        return failure

    async def _disconnect(self, *, confirmed: bool) -> bool:
        """Part from the socket, if there is one; returns whether the last was closed in order.

        A server that confirmed closes first.  Were both to close at once, trio-websocket's server
        would sometimes end the stream before its own farewell has left.
        """
        connection = self._connection
        if connection is not None:
            if confirmed:
                with trio.move_on_after(self._options.close_timeout):
                    await connection.gone.wait()
                    return self._left_in_order
                connection.end()
                await connection.gone.wait()
                return False
            closed = await connection.link.close(CloseCode.DONE, "no longer wanted")
            connection.end()
            await connection.gone.wait()
            return closed
        return self._left_in_order
