"""A store in a file: SQLite, durable before a commit returns.

One supervisor at a time has it (see `trio_reactor.sqlite.ownership`).  What was acknowledged
survives a crash of the process and of the machine: the log is synced by every commit, and the
directory when the file is made.  A transaction that was cut short is undone by whoever opens the
file next.

SQLite blocks, so every transaction runs in a worker thread, one after the other, and one that has
begun is finished, also if the task that wants it is cancelled: it is then known what is recorded.

Each row carries a checksum, since SQLite does not notice a changed byte in the middle of a value.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar, final

import apsw
import trio

from trio_reactor.errors import Closed, ReactorError
from trio_reactor.sqlite import Owned, Trouble, Turns, Unfit, connect, owned, take, trouble_of
from trio_reactor.supervision.errors import StoreBusy, StoreFailed, StoreUnusable
from trio_reactor.supervision.store.protocol import Change, Contents

from .rows import Rows
from .tables import JOURNAL

__all__ = ["SqliteJournal", "SqliteStore"]

T = TypeVar("T")


@final
class SqliteStore:
    """A journal in a file; implements `Store`.

    Args:
        path: Where it is; made if it is not there.  On a local disk, because locks of network file
            systems cannot be trusted.  Beside it there are `PATH-lock`, which stays, and `PATH-wal`
            while it is open.
        inline: Whether transactions run in the calling task rather than in a thread: on a virtual
            clock, which does not wait for threads.

    Raises:
        ValueError: If the path is empty or holds a NUL.
    """

    def __init__(self, path: str | os.PathLike[str], *, inline: bool = False) -> None:
        name = os.fspath(path)
        if not name or "\0" in name:
            raise ValueError(f"path: {name!r} names no file")
        self.path = os.path.realpath(name)
        self._inline = inline

    def __repr__(self) -> str:
        return f"<SqliteStore {self.path}>"

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SqliteJournal]:
        """Own the journal exclusively for a block.

        Cancelled before it has begun, it changes nothing; after that it is cancelled once it is
        open, and closes.

        Raises:
            StoreBusy: Another supervisor has it, in this process or another.
            StoreUnusable: The file is foreign, newer, damaged or read-only; nothing in it changed.
            StoreFailed: It could not be opened or made.
        """
        thread = Turns(inline=self._inline)
        held = ExitStack()
        rows = await thread.run(partial(_opened, self.path, held))
        journal = SqliteJournal(self.path, rows, thread)
        try:
            yield journal
        finally:
            with trio.CancelScope(shield=True):
                await thread.run(partial(_closed, self.path, journal, held))


@final
class SqliteJournal:
    """The journal of a `SqliteStore`, while it is open; implements `Journal`."""

    def __init__(self, path: str, rows: Rows, thread: Turns) -> None:
        self.path = path
        self._rows = rows
        self._thread = thread
        self._closed = False

    def __repr__(self) -> str:
        return f"<SqliteJournal {self.path}>"

    async def load(self) -> Contents:
        """Everything in it.

        Raises:
            RecordUnreadable: A record is damaged or newer; nothing was overwritten.
            StoreFailed: It could not be read.
            Closed: Its block was left.
        """
        return await self._run(self._rows.load)

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        """Make the changes durable, in their order, in one transaction.

        Cancelled before it has begun, it changes nothing; after that it is finished.

        Raises:
            StoreFailed: It is full, or could not be written, or the file is gone; none of them was
                made, unless its `outcome` is `unknown`.
            Closed: Its block was left.
        """
        return await self._run(partial(self._rows.commit, tuple(changes)))

    async def _run(self, transaction: Callable[[], T]) -> T:
        def run() -> T:
            # It may have been closed while this waited for its turn.
            if self._closed:
                raise Closed(f"{self.path}: this journal is closed")
            return transaction()

        return await self._thread.run(run)


# --------------------------------------------------------------------------------- in the thread


def _opened(path: str, held: ExitStack) -> Rows:
    """The rows of the open file; what is to be left when it is closed is entered into `held`."""
    with ExitStack() as stack:
        try:
            stack.enter_context(owned(f"{path}-lock"))
            database = connect(path)
            stack.callback(database.close)
            take(path, database, JOURNAL)
            rows = Rows(path, database)
        except Owned as failure:
            raise StoreBusy(
                f"{path}: another supervisor uses this journal", store=path, detail=str(failure)
            ) from failure
        except Unfit as failure:
            raise StoreUnusable(f"{path}: {failure}", store=path) from failure
        except (apsw.Error, OSError) as failure:
            raise _refused(path, failure) from failure
        held.enter_context(stack.pop_all())
    return rows


def _closed(path: str, journal: SqliteJournal, held: ExitStack) -> None:
    journal._closed = True
    try:
        held.close()
    except apsw.Error as failure:
        raise StoreFailed(
            f"{path}: the journal could not be closed: {type(failure).__name__}",
            store=path,
            outcome="replied",
            detail=str(failure),
        ) from failure


def _refused(path: str, failure: apsw.Error | OSError) -> StoreBusy | StoreUnusable | StoreFailed:
    detail = str(failure)
    if isinstance(failure, apsw.SQLError):
        trouble: Trouble = "damaged"  # its tables are not what they are called
    else:
        trouble = trouble_of(failure)
    match trouble:
        case "busy":
            what = "another process uses this journal"
            return StoreBusy(f"{path}: {what}", store=path, detail=detail)
        case "damaged":
            what = "this is not a journal, or it is damaged"
            return StoreUnusable(f"{path}: {what}", store=path, detail=detail)
        case "read-only":
            what = "this journal is read-only"
            return StoreUnusable(f"{path}: {what}", store=path, detail=detail)
        case _:
            what = f"the journal could not be opened: {type(failure).__name__}"
            return StoreFailed(f"{path}: {what}", store=path, detail=detail)
