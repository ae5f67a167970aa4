"""A journal in PostgreSQL that supervisors on several machines share."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Final, cast, final

import psycopg
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import Field

from trio_reactor.options import Options
from trio_reactor.supervision.errors import StoreBusy, StoreUnusable
from trio_reactor.supervision.hosts.sleeping import sleep_until
from trio_reactor.supervision.hosts.takeover import (
    Fence,
    Free,
    Lives,
    Seen,
    Watch,
    decide,
    default_margin,
)
from trio_reactor.supervision.model.child import ProcessIdentity
from trio_reactor.supervision.model.keys import MAX_NAME
from trio_reactor.supervision.store.protocol import HostFacts
from trio_reactor.world import SystemWorld, World

from .journal import PostgresJournal, Statement, host_facts
from .link import Address, Link
from .process import is_seen_dead, this_process
from .schema import migrate

__all__ = ["PostgresOptions", "PostgresStore"]

MAX_LEASE: Final = 86_400.0
"""A day, in seconds: what is longer is a mistake of unit."""

_log = logging.getLogger("trio_reactor.supervision.postgres")

_RIVAL = Statement(
    "SELECT incarnation, name, beats, lease, fenced, {schema}.timeline(),"
    " pid, start_time, boot_id, pid_namespace"
    " FROM {schema}.host WHERE name = %s AND NOT fenced"
)
_ENTER = Statement("SELECT {schema}.enter_host(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)")


class PostgresOptions(Options):
    """The options of a `PostgresStore`.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong or unknown.
    """

    host: Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f]*$")]
    """What this host is called: the same at each start, and no other host's."""

    lease: Annotated[float, Field(gt=0, le=MAX_LEASE)]
    """Seconds that this host's executions may run on after the journal was last heard of."""

    schema_name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[^\x00]*$")] = (
        "trio_reactor"
    )
    """The schema that holds the journal; made if it is not there."""

    margin: Annotated[float, Field(ge=0, le=MAX_LEASE)] | None = None
    """Seconds beyond its lease that an earlier incarnation of this host is waited for, where it
    cannot be seen that its process has ended; `None`: the greater of one second and a tenth."""

    patience: Annotated[float, Field(gt=0, le=MAX_LEASE)] | None = None
    """Seconds that a call may take in all, connections that were cut being made again; `None`: the
    lease, after which nothing of this host runs anyway."""

    require_durable: bool = True
    """Whether a server that may lose what it said was durable (`fsync` or `full_page_writes` off)
    is refused; otherwise there is a warning."""


@final
class PostgresStore:
    """A journal in PostgreSQL that supervisors on several machines share; implements `Store`.

    Args:
        conninfo: Where the database is, in libpq's words.
        host: What this host is called: the same at each start, and no other host's.
        lease: Seconds that this host's executions may run on after the journal was last heard of.
        schema: The schema that holds the journal; made if it is not there.
        margin: See `PostgresOptions`.
        patience: See `PostgresOptions`.
        require_durable: See `PostgresOptions`.
        world: Where clocks, chance and names come from; by default the real ones.

    Raises:
        pydantic.ValidationError: A `ValueError` that names each option that is wrong.
        ValueError: `conninfo` cannot be read.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        host: str,
        lease: float,
        schema: str = "trio_reactor",
        margin: float | None = None,
        patience: float | None = None,
        require_durable: bool = True,
        world: World | None = None,
    ) -> None:
        self.options = PostgresOptions(
            host=host,
            lease=float(lease),
            schema_name=schema,
            margin=margin,
            patience=patience,
            require_durable=require_durable,
        )
        self._world = SystemWorld() if world is None else world
        self._patience = self.options.lease if patience is None else patience
        try:
            given = conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError as failure:
            raise ValueError(f"conninfo: {failure}") from failure
        shown = {name: given[name] for name in ("host", "port", "dbname") if given.get(name)}
        self._address = Address(
            make_conninfo(conninfo, **(self._defaults() | given)),
            f"postgresql {make_conninfo('', **shown)}".strip(),
            f"trio_reactor {host}"[:63],
            min(self._patience, self.options.lease),
        )

    def __repr__(self) -> str:
        return f"<PostgresStore {self._address.shown}: {self.options.host}>"

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[PostgresJournal]:
        """Own this host's part of the journal for a block, as a new incarnation.

        An earlier incarnation of this host is fenced, and what it had is this one's.  At once, if
        its process can be seen to have ended; else after its lease and the margin, if it was not
        heard of meanwhile.  Leaving the block says that this one holds nothing any more, if so.

        Entering raises:
            StoreBusy: A supervisor of that name lives.
            StoreUnusable: The schema is something else or newer, or the server cannot be trusted.
            StoreFailed: It could not be reached or made.
        """
        options = self.options
        link = Link(self._address, "opening", self._world)
        incarnation = f"{options.host}:{self._world.token()}"
        try:
            await link.run(self._prepare, within=self._patience)
            await self._enter(link, incarnation)
        finally:
            with trio.CancelScope(shield=True):
                await link.aclose()
        journal = PostgresJournal(
            self._address,
            options.schema_name,
            incarnation=incarnation,
            lease=options.lease,
            patience=self._patience,
            world=self._world,
        )
        try:
            yield journal
        finally:
            with trio.CancelScope(shield=True):
                await journal.leave()

    async def _enter(self, link: Link, incarnation: str) -> None:
        """Become this host's only incarnation that is not fenced."""
        name = self.options.host
        seen: Seen | None = None
        rival: HostFacts | None = None
        while True:
            enter = partial(self._entered, incarnation, rival)
            if not await link.run(enter, within=self._patience):
                return
            found = await link.run(self._rival, within=self._patience)
            now = self._world.boottime()
            if found is None:
                rival = None
                continue
            facts, process = found
            if is_seen_dead(process):
                rival = facts
                continue
            margin = self.options.margin
            margin = default_margin(facts.lease) if margin is None else margin
            if seen is not None and seen.facts.incarnation != facts.incarnation:
                raise self._busy(name)
            match decide(facts, seen, now=now, margin=margin):
                case Free():
                    rival = None
                case Lives():
                    raise self._busy(name)
                case Watch(seen=seen, until=until):
                    rival = None
                    await sleep_until(self._world, until)
                case Fence(seen=seen):
                    rival = seen.facts

    def _busy(self, name: str) -> StoreBusy:
        return StoreBusy(
            f"{self._address.shown}: another supervisor of the host {name!r} lives",
            store=self._address.shown,
            outcome="replied",
        )

    def _defaults(self) -> dict[str, str]:
        """What a connection needs so that a dead one is noticed."""
        seconds = max(2, round(self.options.lease / 3))
        return {
            "connect_timeout": str(seconds),
            "keepalives_idle": str(seconds),
            "keepalives_interval": str(max(1, seconds // 3)),
            "keepalives_count": "3",
            "tcp_user_timeout": str(seconds * 1000),
            "target_session_attrs": "read-write",
        }

    # ----------------------------------------------------------------------------- in a thread

    def _prepare(self, connection: psycopg.Connection) -> None:
        """See that the server can be trusted, and bring the schema to this version."""
        store = self._address.shown
        row = connection.execute(
            "SELECT current_setting('fsync'), current_setting('full_page_writes'),"
            " current_setting('synchronous_standby_names') <> '',"
            " EXISTS (SELECT FROM pg_stat_replication)"
        ).fetchone()
        fsync, pages, waits, replicated = cast("tuple[str, str, bool, bool]", row)
        if "off" in {fsync, pages}:
            message = (
                f"{store}: the server may lose what it said was durable"
                f" (fsync {fsync}, full_page_writes {pages})"
            )
            if self.options.require_durable:
                raise StoreUnusable(message, store=store, outcome="replied")
            _log.warning("%s", message)
        if replicated and not waits:
            _log.warning(
                "%s: no standby is synchronous: a failover may give one generation out twice", store
            )
        migrate(connection, self.options.schema_name, store)

    def _rival(self, connection: psycopg.Connection) -> tuple[HostFacts, ProcessIdentity] | None:
        """The incarnation of this host that is not fenced, and its process."""
        row = connection.execute(
            _RIVAL.within(self.options.schema_name), (self.options.host,)
        ).fetchone()
        if row is None:
            return None
        return host_facts(row[:6]), ProcessIdentity(*row[6:])

    def _entered(
        self, incarnation: str, rival: HostFacts | None, connection: psycopg.Connection
    ) -> str:
        """Enter, over that rival; returns which incarnation is in the way, or nothing."""
        process = this_process()
        row = connection.execute(
            _ENTER.within(self.options.schema_name),
            (
                incarnation,
                self.options.host,
                self.options.lease,
                process.boot_id,
                process.pid_namespace,
                process.pid,
                process.start_time,
                *((None, None, None) if rival is None else _condition(rival)),
            ),
        ).fetchone()
        return cast("str", row[0]) if row is not None else ""


def _condition(rival: HostFacts) -> tuple[str, int, str]:
    return rival.incarnation, rival.beats, rival.timeline
