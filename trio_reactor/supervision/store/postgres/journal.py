"""One host's journal in PostgreSQL: every call is one statement, and one transaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, LiteralString, cast, final

import psycopg
import trio
from psycopg import sql

from trio_reactor.errors import ReactorError
from trio_reactor.supervision.errors import (
    HostFenced,
    RecordRefused,
    StaleSession,
    StoreError,
    StoreFailed,
)
from trio_reactor.supervision.hosts.takeover import beat_period
from trio_reactor.supervision.model.codec import decode
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Open, SessionRecord, Stopped
from trio_reactor.supervision.store.protocol import Change, Contents, HostFacts, KeyFacts
from trio_reactor.world import World

from .link import Address, Link

__all__ = ["PostgresJournal", "Statement", "host_facts"]

_log = logging.getLogger("trio_reactor.supervision.postgres")

MADE: Final = "made"
REFUSED: Final = "refused: "


class Statement:
    """A statement of the journal's, in its schema.

    Args:
        text: The statement, with `{schema}` for the schema's name.
    """

    def __init__(self, text: LiteralString) -> None:
        self._text: LiteralString = text

    def within(self, schema: str) -> sql.Composed:
        """The statement for one schema."""
        return sql.SQL(self._text).format(schema=sql.Identifier(schema))


_RECORDS = Statement(
    "SELECT body, identity, instance, generation FROM {schema}.record"
    " WHERE incarnation = %s ORDER BY revision"
)
_HIGH_WATER = Statement(
    "SELECT identity, instance, generation FROM {schema}.key k WHERE incarnation = %(me)s"
    " OR EXISTS (SELECT FROM {schema}.record r WHERE r.incarnation = %(me)s"
    "   AND r.identity = k.identity AND r.instance = k.instance)"
)
_COMMIT = Statement(
    "SELECT {schema}.commit_batch(%s, %s, %s::text[], %s::text[], %s::bigint[], %s::boolean[],"
    " %s::boolean[], %s::bytea[], %s::integer[], %s::text[], %s::text[], %s::bigint[])"
)
_BEAT = Statement(
    "UPDATE {schema}.host SET beats = beats + 1 WHERE incarnation = %s AND NOT fenced"
    " RETURNING beats"
)
_LOOK = Statement(
    "SELECT k.generation, k.incarnation, r.body FROM {schema}.key k"
    " LEFT JOIN {schema}.record r USING (identity, instance, generation)"
    " WHERE k.identity = %s AND k.instance = %s"
)
_HOST = Statement(
    "SELECT incarnation, name, beats, lease, fenced, {schema}.timeline()"
    " FROM {schema}.host WHERE incarnation = %s"
)
_FENCE = Statement("SELECT {schema}.fence_host(%s, %s, %s)")
_LEAVE = Statement("SELECT {schema}.leave_host(%s)")


def host_facts(row: tuple[object, ...]) -> HostFacts:
    """The facts in a row: incarnation, name, beats, lease, fenced, timeline."""
    return HostFacts(*cast("tuple[str, str, int, float, bool, str]", row))


@final
class PostgresJournal:
    """This host's part of a journal in PostgreSQL; implements `SharedJournal`.

    Commits, beats and looks each have a connection of their own, so that none waits for another.
    """

    def __init__(
        self,
        address: Address,
        schema: str,
        *,
        incarnation: str,
        lease: float,
        patience: float,
        world: World,
    ) -> None:
        self._store = address.shown
        self._schema = schema
        self._incarnation = incarnation
        self._lease = lease
        self._patience = patience
        self._writes = Link(address, "journal", world)
        self._beats = Link(address, "beats", world)
        self._looks = Link(address, "looks", world)
        self._batch = 0

    def __repr__(self) -> str:
        return f"<PostgresJournal {self._store}: {self._incarnation}>"

    @property
    def incarnation(self) -> str:
        """This start of this host's supervisor; never used again."""
        return self._incarnation

    @property
    def lease(self) -> float:
        """Seconds from a beat that this host may hold anything."""
        return self._lease

    async def load(self) -> Contents:
        """What earlier incarnations of this host held: it is this one's since it entered.

        Raises:
            RecordUnreadable: A record is damaged or newer; nothing was overwritten.
            StoreError: It could not be read.
        """

        def read(
            connection: psycopg.Connection,
        ) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
            with connection.transaction():
                return (
                    connection.execute(self._of(_RECORDS), (self._incarnation,)).fetchall(),
                    connection.execute(self._of(_HIGH_WATER), {"me": self._incarnation}).fetchall(),
                )

        records, generations = await self._writes.run(read, within=self._patience)
        return Contents(
            records=tuple(self._record(*row) for row in records),
            high_water={
                _key(identity, instance): cast("int", generation)
                for identity, instance, generation in generations
            },
        )

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        """Make the changes durable, in one transaction; see `Journal.commit`.

        A batch whose answer was lost is sent again under its number, until it is known what became
        of it; the server makes it once.

        Raises:
            HostFenced: This incarnation is fenced; none of them was made.
            StoreError: None of them was made, or nobody can know (`outcome`).
        """
        self._batch += 1
        forgets = [
            (number, handle)
            for number, change in enumerate(changes, start=1)
            for handle in change.forgets
        ]
        handles = [change.record.handle for change in changes]
        arguments = (
            self._incarnation,
            self._batch,
            [handle.key.identity for handle in handles],
            [handle.key.instance for handle in handles],
            [handle.generation for handle in handles],
            [isinstance(change.record.phase, Open) for change in changes],
            [isinstance(change.record.phase, Stopped) for change in changes],
            [change.encoded for change in changes],
            [number for number, _ in forgets],
            [handle.key.identity for _, handle in forgets],
            [handle.key.instance for _, handle in forgets],
            [handle.generation for _, handle in forgets],
        )

        def write(connection: psycopg.Connection) -> list[str] | None:
            return cast("list[str] | None", _value(connection, self._of(_COMMIT), arguments))

        verdicts = await self._writes.run(write, within=self._patience)
        if verdicts is None:
            raise HostFenced(f"{self._incarnation} is fenced", outcome="replied")
        if len(verdicts) != len(changes):
            raise StoreFailed(
                f"{self._store}: somebody else writes as {self._incarnation}",
                store=self._store,
                outcome="unknown",
            )
        return [
            _refusal(verdict, handle) for verdict, handle in zip(verdicts, handles, strict=True)
        ]

    async def beat(self) -> bool:
        """Say that this host lives, once; returns `False` if it is fenced.

        Cancelled, it cuts its connection; the next one makes another.

        Raises:
            StoreFailed: The journal could not be reached, or nobody knows whether it was told.
        """

        def tell(connection: psycopg.Connection) -> bool:
            found = connection.execute(self._of(_BEAT), (self._incarnation,)).fetchone()
            return found is not None

        return await self._beats.run(tell, within=beat_period(self._lease), again=False)

    async def look(self, key: Key, /) -> KeyFacts:
        """What is there of a key, whoever holds it."""

        def read(connection: psycopg.Connection) -> tuple[object, ...] | None:
            return connection.execute(self._of(_LOOK), (key.identity, key.instance)).fetchone()

        row = await self._looks.run(read, within=self._patience)
        if row is None:
            return KeyFacts(0, "", None)
        generation, host, body = row
        record = (
            None if body is None else self._record(body, key.identity, key.instance, generation)
        )
        return KeyFacts(cast("int", generation), cast("str", host), record)

    async def host(self, incarnation: str, /) -> HostFacts | None:
        """What is there of an incarnation; `None` if it is forgotten, and so fenced."""

        def read(connection: psycopg.Connection) -> tuple[object, ...] | None:
            return connection.execute(self._of(_HOST), (incarnation,)).fetchone()

        row = await self._looks.run(read, within=self._patience)
        return None if row is None else host_facts(row)

    async def fence(self, seen: HostFacts, /) -> bool:
        """Fence an incarnation that was not heard of since it was seen like that.

        It waits for what that incarnation is writing at the moment.

        Returns:
            Whether it is fenced now; `False`: it was heard of, or the database failed over.
        """

        def write(connection: psycopg.Connection) -> bool:
            return bool(
                _value(connection, self._of(_FENCE), (seen.incarnation, seen.beats, seen.timeline))
            )

        return await self._looks.run(write, within=self._patience)

    async def leave(self) -> None:
        """Say that this host holds nothing, if that is so, and close the connections.

        What could not be said is found out by those who wait for it.
        """

        def write(connection: psycopg.Connection) -> bool:
            return bool(_value(connection, self._of(_LEAVE), (self._incarnation,)))

        try:
            left = await self._writes.run(write, within=self._patience)
        except StoreError as failure:
            _log.warning("%s could not be signed off: %s", self._incarnation, failure)
        else:
            _log.debug("%s %s", self._incarnation, "left" if left else "left sessions behind")
        finally:
            with trio.CancelScope(shield=True):
                for link in (self._writes, self._beats, self._looks):
                    await link.aclose()

    def _of(self, statement: Statement) -> sql.Composed:
        return statement.within(self._schema)

    def _record(
        self, body: object, identity: object, instance: object, generation: object
    ) -> SessionRecord:
        key = _key(identity, instance)
        number = cast("int", generation)
        return decode(
            bytes(cast("bytes", body)),
            name=f"{self._store}: the record of {key} generation {number}",
            handle=Handle(key, number, ""),
        )


def _key(identity: object, instance: object) -> Key:
    return Key(cast("str", identity), cast("str", instance))


def _value(
    connection: psycopg.Connection, statement: sql.Composed, arguments: Sequence[object]
) -> object:
    """The only value of the only row."""
    row = connection.execute(statement, arguments).fetchone()
    return None if row is None else cast("object", row[0])


def _refusal(verdict: str, handle: Handle) -> ReactorError | None:
    if verdict == MADE:
        return None
    if verdict.startswith(REFUSED):
        return RecordRefused(
            f"the record of {handle} was refused",
            outcome="replied",
            detail=verdict.removeprefix(REFUSED),
        )
    why = "another host has it" if verdict == "held" else "it is not the next or the newest"
    return StaleSession(f"{handle}: {why}", outcome="replied")
