"""A journal in a file: SQLite, one transaction a change, durable before it returns.

Only one process uses a file at a time.  The lock is the operating system's and ends with the
process, however that ends; a transaction that was cut short is undone by whoever opens the file
next.  So a crash leaves nothing to be cleared away by hand.

SQLite blocks, so every transaction runs in a worker thread, one after the other.  A change that has
begun is finished, also if the task that wants it is cancelled meanwhile: it is then known what is
recorded.  That is waited for within a budget only, because a thread that a disk holds up cannot be
interrupted: it is left alone then, the journal takes nothing more, and the thread closes the file
when it comes back.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar, cast, final

import apsw
import msgspec
import trio

from trio_reactor.errors import Closed, Overflow
from trio_reactor.fence import Fence
from trio_reactor.renewal.jsonvalue import Json

from .records import AllocationRecord, JournalBusy, JournalError, JournalFailed, JournalUnusable
from .writer import FileWriter

__all__ = ["DEFAULT_MAX_RECORDS", "DEFAULT_TIMEOUT", "SqliteJournal", "open_journal"]

T = TypeVar("T")

DEFAULT_MAX_RECORDS: Final = 1024
"""How many records a journal has room for, unless told otherwise."""

DEFAULT_TIMEOUT: Final = 10.0
"""How long a journal waits for its disk, in seconds, unless told otherwise."""

APPLICATION: Final = 0x54524A31
"""What marks a file as a journal of this kind, in the header of every SQLite file."""
VERSION: Final = 1


class _Rows(Protocol):
    """What a statement gives; apsw's own annotations are not complete before Python 3.12."""

    @property
    def get(self) -> object:
        """The only value of the only row."""
        ...

    def __iter__(self) -> Iterator[object]: ...


class _Database(Protocol):
    """As much of `apsw.Connection` as is needed here."""

    def execute(
        self, statements: str, bindings: Sequence[int | float | str | None] = (), /
    ) -> _Rows: ...

    def readonly(self, name: str, /) -> bool: ...

    def config(self, option: int, value: int, /) -> int: ...

    def close(self) -> None: ...

    def __enter__(self) -> object: ...

    def __exit__(self, *failure: object) -> bool | None: ...


_Row: TypeAlias = tuple[str, str, float, str | None, str, float | None]

_SCHEMA: Final = f"""
    CREATE TABLE allocation (
        key TEXT PRIMARY KEY NOT NULL,
        renewal TEXT NOT NULL,
        intended_at REAL NOT NULL,
        source TEXT,
        allocation TEXT NOT NULL,
        ends_by REAL
    ) STRICT, WITHOUT ROWID;
    PRAGMA application_id = {APPLICATION};
    PRAGMA user_version = {VERSION};
"""


@asynccontextmanager
async def open_journal(
    path: str | os.PathLike[str],
    *,
    max_records: int = DEFAULT_MAX_RECORDS,
    timeout: float = DEFAULT_TIMEOUT,
    inline: bool = False,
) -> AsyncGenerator[SqliteJournal]:
    """Open the journal in a file, which is made if it is not there, and keep it to this process.

    Args:
        path: Where it is; on a local disk, because locks of network file systems cannot be trusted.
        max_records: How many records it has room for; one more is refused with `Overflow`.
        timeout: Seconds that opening, reading, a change and closing may take, each.  What takes
            longer is left to its thread, which closes the file when it comes back; until then the
            file stays locked, also for this process.
        inline: Whether transactions run in the calling task rather than in a thread: on a virtual
            clock, which does not wait for threads; there `timeout` means nothing.

    Cancelled while it opens, it leaves at once.

    Raises:
        JournalBusy: Another process has it open, or this one has.
        JournalUnusable: The file is foreign, newer, damaged or read-only; nothing in it changed.
        JournalFailed: It could not be opened, or not in time.
        ValueError: If `max_records` is not at least 1, or `timeout` is no number of seconds.
    """
    if isinstance(max_records, bool) or max_records < 1:
        raise ValueError(f"max_records: at least 1, not {max_records!r}")
    if isinstance(timeout, bool) or not 0 < timeout < math.inf:
        raise ValueError(f"timeout: seconds, more than 0, not {timeout!r}")
    name = os.fspath(path)
    writer = FileWriter[_Database](name, timeout, inline=inline)
    await writer.open(partial(_opened, name))
    journal = SqliteJournal(name, writer, max_records)
    try:
        yield journal
    finally:
        with trio.CancelScope(shield=True):  # within the writer's own budget
            await journal.aclose()


@final
class SqliteJournal:
    """A journal in a file; implements `AllocationJournal`.  Made by `open_journal`.

    Cancelled before its transaction has begun, a method changes nothing; after that it is finished,
    within the journal's `timeout`.  Reading can be cancelled at any time.  A thread that was left
    alone in a transaction is the last to use the file: after that every method raises
    `JournalFailed`.
    """

    def __init__(self, path: str, writer: FileWriter[_Database], max_records: int) -> None:
        self.path = path
        self._writer = writer
        self._max_records = max_records
        self._claimed_by: str | None = None
        self._closed = Fence(f"the journal {path} is closed")

    def __repr__(self) -> str:
        return f"<SqliteJournal {self.path}>"

    @contextmanager
    def claimed(self, by: str) -> Generator[None]:
        """A block in which one renewal uses it, alone."""
        if self._claimed_by is not None:
            raise JournalBusy(
                f"{self.path}: the renewal {self._claimed_by!r} uses this journal", path=self.path
            )
        self._claimed_by = by
        try:
            yield
        finally:
            self._claimed_by = None

    async def load(self) -> tuple[AllocationRecord, ...]:
        """Everything that is recorded, in the order in which it was intended."""
        return await self._run(partial(_load, self.path), finish=False)

    async def put(self, record: AllocationRecord, /) -> None:
        """Record it, in the place of the one with the same key if there is one.

        Raises:
            JournalFailed: It could not be written, or not in time.
            Overflow: There is no room for one more.
        """
        await self._run(lambda connection: _put(connection, record, self._max_records))

    async def forget(self, key: str, /) -> None:
        """Delete the record with this key, if there is one."""
        await self._run(lambda connection: _forget(connection, key))

    async def aclose(self) -> None:
        """Close the file, or have the thread close it that uses it.  Idempotent."""
        if self._closed.mark("it was closed"):
            await self._writer.close()
            self._closed.announce()
        else:
            await trio.lowlevel.checkpoint()

    async def _run(self, transaction: Callable[[_Database], T], *, finish: bool = True) -> T:
        if self._closed.is_set:
            raise Closed(f"the journal {self.path} is closed")

        def run(connection: _Database) -> T:
            # It may have been closed while this waited for its turn.
            if self._closed.is_set:
                raise Closed(f"the journal {self.path} is closed")
            return transaction(connection)

        try:
            return await self._writer.run(run, finish=finish)
        except apsw.Error as failure:
            raise JournalFailed(
                f"{self.path}: the journal could not be used: {type(failure).__name__}",
                path=self.path,
                outcome="unknown",
                detail=str(failure),
            ) from failure


# ------------------------------------------------------------------------- in the writer's thread


def _opened(path: str) -> _Database:
    try:
        connection = cast("_Database", apsw.Connection(path))
    except apsw.Error as failure:
        raise _refused(path, failure) from failure
    try:
        _take(path, connection)
    except BaseException as failure:
        with contextlib.suppress(apsw.Error):
            connection.close()
        if isinstance(failure, apsw.Error):
            raise _refused(path, failure) from failure
        raise
    return connection


def _take(path: str, connection: _Database) -> None:
    """Lock the file and see that it is ours; a new one is made ours."""
    if os.path.exists(f"{path}-wal"):
        # None of ours has one, and looking at a foreign file must not tidy it up.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if connection.readonly("main"):
        raise JournalUnusable(f"{path}: this journal is read-only", path=path)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    # A crash of the machine must not undo what was said to be recorded: `FULL` does not sync the
    # directory in which a rollback journal was deleted.
    connection.execute("PRAGMA synchronous = EXTRA")
    # The lock that this takes is kept until the file is closed.
    connection.execute("BEGIN EXCLUSIVE")
    application = connection.execute("PRAGMA application_id").get
    version = connection.execute("PRAGMA user_version").get
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application == 0 and version == 0 and tables == 0:
        connection.execute(_SCHEMA)
    elif application != APPLICATION:
        raise JournalUnusable(f"{path}: this is not a journal of allocations", path=path)
    elif version != VERSION:
        raise JournalUnusable(
            f"{path}: this journal has version {version}; this library reads {VERSION}", path=path
        )
    elif connection.execute("PRAGMA integrity_check").get != "ok":
        raise JournalUnusable(f"{path}: this journal is damaged", path=path)
    connection.execute("COMMIT")
    _load(path, connection)


def _refused(path: str, failure: apsw.Error) -> JournalError:
    detail = str(failure)
    if isinstance(failure, (apsw.BusyError, apsw.LockedError)):
        return JournalBusy(f"{path}: another process uses this journal", path=path, detail=detail)
    if isinstance(failure, (apsw.NotADBError, apsw.CorruptError, apsw.SQLError)):
        return JournalUnusable(
            f"{path}: this is not a journal, or it is damaged", path=path, detail=detail
        )
    if isinstance(failure, (apsw.ReadOnlyError, apsw.PermissionsError)):
        return JournalUnusable(f"{path}: this journal is read-only", path=path, detail=detail)
    return JournalFailed(
        f"{path}: the journal could not be opened: {type(failure).__name__}",
        path=path,
        detail=detail,
    )


def _load(path: str, connection: _Database) -> tuple[AllocationRecord, ...]:
    rows = connection.execute(
        "SELECT key, renewal, intended_at, source, allocation, ends_by"
        " FROM allocation ORDER BY intended_at, key"
    )
    records: list[AllocationRecord] = []
    for row in rows:
        key, renewal, intended_at, source, allocation, ends_by = cast("_Row", row)
        try:
            found = cast("Json", msgspec.json.decode(allocation))
        except msgspec.DecodeError as failure:
            raise JournalUnusable(
                f"{path}: the record {key} of this journal is damaged",
                path=path,
                detail=str(failure),
            ) from failure
        records.append(AllocationRecord(key, renewal, intended_at, source, found, ends_by))
    return tuple(records)


def _put(connection: _Database, record: AllocationRecord, max_records: int) -> None:
    allocation = msgspec.json.encode(record.allocation).decode()
    with connection:
        others = connection.execute(
            "SELECT count(*) FROM allocation WHERE key <> ?", (record.key,)
        ).get
        if isinstance(others, int) and others >= max_records:
            raise Overflow(f"max_records: the journal has {others} records already")
        connection.execute(
            "INSERT OR REPLACE INTO allocation VALUES (?, ?, ?, ?, ?, ?)",
            (
                record.key,
                record.renewal,
                record.intended_at,
                record.source,
                allocation,
                record.ends_by,
            ),
        )


def _forget(connection: _Database, key: str) -> None:
    with connection:
        connection.execute("DELETE FROM allocation WHERE key = ?", (key,))
