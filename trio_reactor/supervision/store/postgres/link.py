"""A connection to PostgreSQL that is made again when it is cut.

psycopg blocks, so each call runs in a worker thread, one at a time.  A call that is cancelled, or
that takes too long, is abandoned: its connection is cut, which ends the thread, and is never used
again.  Nobody knows then what became of its transaction, so whatever is called here must be
harmless if it is done twice.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar, final

import msgspec
import psycopg
import trio

from trio_reactor.errors import Outcome
from trio_reactor.fence import Fence
from trio_reactor.supervision.errors import StoreFailed
from trio_reactor.world import World

from .failures import as_store_error, weather_of

__all__ = ["Address", "Link", "Work"]

T = TypeVar("T")

Work: TypeAlias = Callable[[psycopg.Connection], T]
"""What is done with a connection, in a thread; harmless if it is done twice."""

FIRST_PAUSE: Final = 0.02
"""Seconds before a connection that was cut is made again; they double, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE: Final = 1.0
MAX_THREADS: Final = 4
"""How many calls of one link may be abandoned and not yet over."""

_log = logging.getLogger("trio_reactor.supervision.postgres")


@final
class Address(msgspec.Struct, frozen=True):
    """Where the database is, and how it is spoken to."""

    conninfo: str
    shown: str
    """The address without its password."""
    application: str
    statement_timeout: float
    """Seconds after which the server gives a statement up."""

    def connect(self, role: str) -> psycopg.Connection:
        """Make a connection on which each statement is a transaction, durable when it returns."""
        milliseconds = max(1, int(self.statement_timeout * 1000))
        connection = psycopg.connect(
            self.conninfo, autocommit=True, application_name=f"{self.application} {role}"
        )
        try:
            connection.execute(
                "SELECT set_config('statement_timeout', %(ms)s, false),"
                " set_config('idle_in_transaction_session_timeout', %(ms)s, false),"
                " set_config('default_transaction_isolation', 'read committed', false),"
                # What is lower would lose with a crash, or a failover, what was said to be there.
                " set_config('synchronous_commit',"
                "   CASE WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply')"
                "   THEN current_setting('synchronous_commit') ELSE 'on' END, false)",
                {"ms": str(milliseconds)},
            )
        except BaseException:  # whatever it was, the connection is not left behind
            connection.close()
            raise
        return connection


@final
class Link:
    """One connection, used by one call at a time.

    Args:
        address: Where to.
        role: What it is for, as the server's list of sessions shows it.
        world: Where chance comes from.
    """

    def __init__(self, address: Address, role: str, world: World) -> None:
        self._address = address
        self._role = role
        self._world = world
        self._turn = trio.Lock()
        self._threads = trio.CapacityLimiter(MAX_THREADS)
        self._wire: _Wire | None = None
        self._closed = Fence(f"the connection for {role}")

    async def run(self, work: Work[T], *, within: float, again: bool = True) -> T:
        """Do it, and if `again`, do it again while the connection is lost or the server undoes it.

        Args:
            work: What to do.
            within: Seconds that it may take in all, its turn and all pauses included.
            again: Whether a failure that may pass is met by another try.

        Raises:
            StoreFailed: It failed, or took too long; the `outcome` is what is known of it.
            StoreUnusable: What is there cannot be used.
            Closed: The link is closed.
        """
        outcome: Outcome = "not-submitted"
        last: psycopg.Error | None = None
        with trio.move_on_after(within):
            async with self._turn:
                pause = FIRST_PAUSE
                while True:
                    # It may have been closed while this waited: nothing would close another.
                    self._closed.check()
                    call = _Call(self._wire, self._connect, work)
                    self._wire = None
                    try:
                        value = await self._call(call)
                    except psycopg.Error as failure:
                        last = failure
                        weather = weather_of(failure)
                        if call.submitted and weather == "lost":
                            outcome = "unknown"
                        if not again or weather in {"unusable", "failed"}:
                            raise as_store_error(
                                failure, self._address.shown, outcome=outcome
                            ) from failure
                        _log.debug("%s: %s: %s", self._role, weather, type(failure).__name__)
                    except trio.Cancelled:
                        if call.submitted:
                            outcome = "unknown"
                        raise
                    else:
                        return value
                    await trio.sleep(pause * self._world.random.uniform(0.5, 1.0))
                    pause = min(2 * pause, LONGEST_PAUSE)
        raise StoreFailed(
            f"{self._address.shown}: the journal could not be used within {within:g} s",
            store=self._address.shown,
            outcome=outcome,
            detail=None if last is None else str(last),
        ) from last

    async def aclose(self) -> None:
        """Close the connection for good; waits for a call that is under way."""
        self._closed.set("it was closed")
        async with self._turn:
            wire, self._wire = self._wire, None
            if wire is not None:
                wire.close()

    def _connect(self) -> _Wire:
        return _Wire(self._address.connect(self._role))

    async def _call(self, call: _Call[T]) -> T:
        kept = False
        try:
            value = await trio.to_thread.run_sync(
                call.run, abandon_on_cancel=True, limiter=self._threads
            )
            kept = True
        except psycopg.Error as failure:
            kept = weather_of(failure) != "lost"
            raise
        finally:
            if kept:
                self._wire = call.taken_back()
            else:
                call.abandon()
        return value


@final
class _Wire:
    """A connection, and a hold on its socket with which another thread can cut it.

    libpq closes its own descriptor when the connection breaks, and the number may then be
    somebody else's; this one is ours until it is closed here.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        try:
            self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        except BaseException:  # whatever it was, the connection is not left behind
            connection.close()
            raise

    def cut(self) -> None:
        """Cut it, whoever waits for it."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            _log.debug("the connection was cut already")

    def close(self) -> None:
        self.connection.close()
        self._socket.close()


@final
class _Call(Generic[T]):
    """One piece of work in a thread, which can be abandoned from another."""

    def __init__(self, wire: _Wire | None, connect: Callable[[], _Wire], work: Work[T]) -> None:
        self._wire = wire
        self._connect = connect
        self._work = work
        self._lock = threading.Lock()
        self._running = False
        self._abandoned = False
        self.submitted = False
        """Whether anything may have reached the server."""

    def run(self) -> T:
        """Connect if need be, and do it; in the thread."""
        if not self._begin():
            raise psycopg.InterfaceError("abandoned before it began")
        try:
            wire = self._wire
            if wire is None:
                wire = self._connect()
                with self._lock:
                    self._wire = wire
                    if self._abandoned:
                        raise psycopg.InterfaceError("abandoned while it connected")
            self.submitted = True
            return self._work(wire.connection)
        finally:
            with self._lock:
                self._running = False
                if self._abandoned:
                    self._close()

    def abandon(self) -> None:
        """Let go of it: cut what it runs on, or close what it does not."""
        with self._lock:
            self._abandoned = True
            if not self._running:
                self._close()
            elif self._wire is not None:
                self._wire.cut()

    def taken_back(self) -> _Wire | None:
        """The connection, after the work is over."""
        wire = self._wire
        if wire is not None and wire.connection.closed:
            wire.close()
            return None
        return wire

    def _begin(self) -> bool:
        with self._lock:
            self._running = not self._abandoned
            return self._running

    def _close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
