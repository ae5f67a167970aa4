"""The local store in a file: SQLite, durable before a commit returns, and thorough in forgetting.

One process at a time has it.  What was acknowledged survives a crash of the process and of the
machine.  Writes go through one connection and reads through another, each in a thread of its own,
so that reading does not wait for a commit.

A *witness* lies beside it: a file that says how often the store was opened.  A store that knows of
fewer openings than its witness is an old copy, or was made anew, and what it does not hold is lost,
not forgotten: that is told, and it goes on under a new incarnation.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Final, Literal, TypeAlias, TypeVar, final

import apsw
import msgspec
import trio

from trio_reactor.errors import Closed, Outcome, ReactorError
from trio_reactor.rooms.errors import ReplicaBusy, ReplicaError, ReplicaFailed, ReplicaUnusable
from trio_reactor.rooms.model.held import HeldRoom
from trio_reactor.sqlite import (
    Database,
    FileWitness,
    Owned,
    Turns,
    Unfit,
    connect,
    owned,
    take,
    trouble_of,
)
from trio_reactor.world import World

from . import writing
from .content import Content, Stored
from .tables import REPLICA

__all__ = ["OpenStore", "Opened", "ReplicaStore", "StorageLoss"]

T = TypeVar("T")

_TROUBLE: Final = (apsw.Error, OSError, msgspec.MsgspecError, UnicodeDecodeError)
"""What using the file raises; the last two if what it holds is not what was written."""

StorageLoss: TypeAlias = Literal["missing", "restored"]
"""A store that is not what its witness saw: it was made anew, or is an old copy."""


class Opened(msgspec.Struct, frozen=True):
    """What was found in a store."""

    stored: Stored
    rooms: tuple[HeldRoom, ...]
    fences: tuple[str, ...]
    """Rooms whose erasure was cut short."""
    loss: StorageLoss | None


@final
class ReplicaStore:
    """A local store in a file.

    Args:
        path: Where it is; made if it is not there.  On a local disk, because locks of network file
            systems cannot be trusted.  Beside it there are `PATH-lock` and `PATH-witness`, which
            stay, and `PATH-wal` and `PATH-shm` while it is open.
        inline: Whether it is used in the calling task rather than in threads: on a virtual clock,
            which does not wait for threads.

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
        return f"<ReplicaStore {self.path}>"

    @asynccontextmanager
    async def open(self, world: World) -> AsyncGenerator[tuple[OpenStore, Opened]]:
        """Own the store for a block.

        Raises:
            ReplicaBusy: Another process, or another part of this one, has it.
            ReplicaUnusable: It is foreign, newer, damaged or read-only; nothing in it was changed.
            ReplicaFailed: It could not be opened or made.
        """
        turns = Turns(inline=self._inline)
        held = ExitStack()
        store, opened = await turns.run(
            partial(_opened, self.path, held, world.token(), turns, inline=self._inline)
        )
        try:
            yield store, opened
        finally:
            with trio.CancelScope(shield=True):
                await turns.run(partial(_closed, self.path, store, held))


@final
class OpenStore:
    """A store, while it is open; implements `writing.Storage`."""

    def __init__(
        self,
        path: str,
        content: Content,
        database: Database,
        reading: Database,
        turns: Turns,
        *,
        inline: bool,
    ) -> None:
        self.path = path
        self._content = content
        self._database = database
        self._reading = reading
        self._seen = Content(reading)
        self._witness = FileWitness(path)
        self._turns = turns
        self._reads = Turns(inline=inline)
        self._at_rest = threading.Lock()
        self._closed = False

    def __repr__(self) -> str:
        return f"<OpenStore {self.path}>"

    async def commit(self, works: Sequence[writing.Work], /) -> Sequence[writing.Outcome]:
        """Do the work in one durable transaction; see `writing.Storage`."""
        return await self._turns.run(partial(self._commit, tuple(works)))

    async def read(self, work: Callable[[Content], T], /) -> T:
        """Read what is committed, at one moment; see `writing.Storage`."""
        return await self._reads.run(partial(self._read, work))

    async def erase(self, rooms: Sequence[str], /) -> None:
        """Delete everything of rooms from the files; see `writing.Storage`."""
        await self._turns.run(partial(self._erase, tuple(rooms)))

    # --------------------------------------------------------------------------------- in threads

    def _commit(self, works: Sequence[writing.Work]) -> Sequence[writing.Outcome]:
        self._check()
        database, content = self._database, self._content
        outcome: Outcome = "not-submitted"
        before = content.change
        try:
            database.execute("BEGIN IMMEDIATE")
            outcomes = [self._do(work) for work in works]
            if content.change != before:
                content.set_fact("change", str(content.change))
            # Its log may have been written and not synced: a crash would tell.
            outcome = "unknown"
            database.execute("COMMIT")
            self._witness.check()
        except _TROUBLE as failure:
            self._undo()
            content.change = before
            raise self._failed(failure, outcome) from failure
        except BaseException:  # a defect leaves no transaction open either
            self._undo()
            content.change = before
            raise
        return outcomes

    def _do(self, work: writing.Work) -> writing.Outcome:
        """Do one piece of work, or undo just that one."""
        database = self._database
        change = self._content.change
        database.execute("SAVEPOINT work")
        try:
            found = work(self._content)
        except ReactorError as refusal:
            database.execute("ROLLBACK TO work")
            database.execute("RELEASE work")
            self._content.change = change
            return (None, refusal)
        database.execute("RELEASE work")
        return (found, None)

    def _read(self, work: Callable[[Content], T]) -> T:
        self._check()
        with self._at_rest:
            try:
                self._reading.execute("BEGIN")
                try:
                    self._seen.change = self._seen.load_number("change")
                    return work(self._seen)
                finally:
                    self._reading.execute("ROLLBACK")
            except _TROUBLE as failure:
                raise self._failed(failure, "not-submitted") from failure

    def _erase(self, rooms: tuple[str, ...]) -> None:
        self._check()
        # A reader that is still at it keeps the log as long as it is.
        with self._at_rest:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                self._content.erase(rooms)
                self._database.execute("COMMIT")
                self._empty_log()
                self._database.execute("BEGIN IMMEDIATE")
                self._content.unfence(rooms)
                self._database.execute("COMMIT")
                self._empty_log()
            except _TROUBLE as failure:
                self._undo()
                raise self._failed(failure, "unknown") from failure
            except BaseException:
                self._undo()
                raise

    def _empty_log(self) -> None:
        """Move everything out of the log, and cut that to nothing."""
        row = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if row is None or row[0] != 0:
            raise apsw.BusyError("the log could not be emptied")

    def _undo(self) -> None:
        # Some failures end the transaction by themselves; where ending it fails, it never commits.
        if self._database.in_transaction:
            with suppress(apsw.Error):
                self._database.execute("ROLLBACK")

    def _check(self) -> None:
        if self._closed:
            raise Closed(f"{self.path}: this store is closed")

    def _failed(self, failure: Exception, outcome: Outcome) -> ReplicaError:
        detail = str(failure)
        # What cannot be decoded is not what was written.
        match trouble_of(failure) if isinstance(failure, apsw.Error | OSError) else "damaged":
            case "full":
                # What was begun is undone, and there may be room later.
                return ReplicaError(
                    f"{self.path}: there is no room for the store",
                    store=self.path,
                    outcome="not-submitted",
                    retryable=True,
                    detail=detail,
                )
            case "busy":
                return ReplicaError(
                    f"{self.path}: another process uses the store",
                    store=self.path,
                    outcome="not-submitted",
                    retryable=True,
                    detail=detail,
                )
            case "gone":
                what = "the store is gone"
            case "damaged":
                what = "the store is damaged"
            case "read-only":
                what = "the store has become read-only"
            case _:
                what = f"the store could not be used: {type(failure).__name__}"
        return ReplicaFailed(
            f"{self.path}: {what}", store=self.path, outcome=outcome, detail=detail
        )


def _opened(
    path: str, held: ExitStack, incarnation: str, turns: Turns, *, inline: bool
) -> tuple[OpenStore, Opened]:
    with ExitStack() as stack:
        try:
            stack.enter_context(owned(f"{path}-lock"))
            database = connect(path)
            stack.callback(database.close)
            take(path, database, REPLICA, shared=True, whole=False)
            database.execute("PRAGMA secure_delete = ON").get  # noqa: B018 - it is run by being read
            # What is sorted or put aside must not lie in a file that nobody overwrites.
            database.execute("PRAGMA temp_store = MEMORY").get  # noqa: B018 - as above
            # What an erasure that was cut short had overwritten last is in the log alone.
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").get  # noqa: B018 - as above
            content = Content(database)
            if content.fact("closed") == "no" and (
                database.execute("PRAGMA integrity_check(1)").get != "ok"
            ):
                raise Unfit("this store is damaged")  # noqa: TRY301 - as every other is
            witness = _Witness(f"{path}-witness")
            loss = _begun(content, database, witness, incarnation)
            opened = Opened(content.stored(), content.rooms(), content.fences(), loss)
            reading = connect(path)
            stack.callback(reading.close)
            reading.execute("PRAGMA query_only = ON").get  # noqa: B018 - as above
            reading.execute("PRAGMA temp_store = MEMORY").get  # noqa: B018 - as above
            store = OpenStore(path, content, database, reading, turns, inline=inline)
        except Owned as failure:
            raise ReplicaBusy(
                f"{path}: this store is in use", store=path, detail=str(failure)
            ) from failure
        except (Unfit, msgspec.MsgspecError, ValueError) as failure:
            raise ReplicaUnusable(f"{path}: {failure}", store=path) from failure
        except (apsw.Error, OSError) as failure:
            raise _refused(path, failure) from failure
        held.enter_context(stack.pop_all())
    return store, opened


def _begun(
    content: Content, database: Database, witness: _Witness, incarnation: str
) -> StorageLoss | None:
    """Count this opening, in the store first and then in its witness; say what is amiss."""
    known, seen = content.load_number("generation"), witness.read()
    loss: StorageLoss | None = None
    if known < seen:
        loss = "missing" if known == 0 else "restored"
    generation = max(known, seen) + 1
    database.execute("BEGIN IMMEDIATE")
    content.set_fact("generation", str(generation))
    content.set_fact("closed", "no")
    if known == 0 or loss is not None:
        content.renew_clients(incarnation)
    database.execute("COMMIT")
    witness.write(generation)
    return loss


def _closed(path: str, store: OpenStore, held: ExitStack) -> None:
    store._closed = True
    try:
        with held:
            if not store._database.in_transaction:
                store._content.set_fact("closed", "yes")
    except (apsw.Error, OSError) as failure:
        raise ReplicaFailed(
            f"{path}: the store could not be closed: {type(failure).__name__}",
            store=path,
            outcome="replied",
            detail=str(failure),
        ) from failure


def _refused(path: str, failure: apsw.Error | OSError) -> ReplicaError:
    detail = str(failure)
    match "damaged" if isinstance(failure, apsw.SQLError) else trouble_of(failure):
        case "busy":
            return ReplicaBusy(f"{path}: another process uses it", store=path, detail=detail)
        case "damaged":
            what = "this is not a store of rooms, or it is damaged"
            return ReplicaUnusable(f"{path}: {what}", store=path, detail=detail)
        case "read-only":
            return ReplicaUnusable(f"{path}: this store is read-only", store=path, detail=detail)
        case _:
            what = f"the store could not be opened: {type(failure).__name__}"
            return ReplicaFailed(f"{path}: {what}", store=path, detail=detail)


@final
class _Witness:
    """How often a store was opened, as a file beside it says."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> int:
        """The number; 0 if there is none that can be read."""
        try:
            with open(self._path, encoding="ascii") as file:
                return int(file.read(32))
        except FileNotFoundError:
            return 0
        except ValueError as failure:
            raise Unfit("the witness of this store is damaged") from failure

    def write(self, generation: int) -> None:
        """Replace it, durably."""
        fresh = f"{self._path}-new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, str(generation).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(fresh, self._path)
        directory = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
