"""The rows of a journal: read with suspicion, and written in one transaction.

All of this runs in the journal's thread.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, final

import apsw

from trio_reactor.errors import Outcome, ReactorError
from trio_reactor.sqlite import Database, FileWitness, Row, trouble_of
from trio_reactor.supervision.errors import (
    RecordRefused,
    RecordUnreadable,
    StaleSession,
    StoreFailed,
)
from trio_reactor.supervision.model.codec import decode
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Open, SessionRecord
from trio_reactor.supervision.store.protocol import Change, Contents

__all__ = ["Rows"]

_OWN: Final = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    OverflowError,
    UnicodeEncodeError,
)
"""What is wrong with one change rather than with the journal."""


@final
class Rows:
    """What is in the file of a journal, which is open and owned."""

    def __init__(self, path: str, database: Database) -> None:
        self.path = path
        self._database = database
        self._witness = FileWitness(path)
        written = database.execute("SELECT max(written) FROM record").get
        self._written = written if isinstance(written, int) else 0

    def load(self) -> Contents:
        """Everything in it; raises as `Journal.load` does."""
        try:
            high_water = dict(
                self._key(row)
                for row in self._database.execute(
                    "SELECT CAST(identity AS BLOB), CAST(instance AS BLOB), generation, checksum"
                    " FROM high_water"
                )
            )
            records = tuple(
                self._record(row, high_water)
                for row in self._database.execute(
                    "SELECT CAST(identity AS BLOB), CAST(instance AS BLOB), generation, checksum,"
                    " encoded FROM record ORDER BY written"
                )
            )
        except apsw.Error as failure:
            raise self._failed(failure, "not-submitted") from failure
        return Contents(records, high_water)

    def commit(self, changes: Sequence[Change]) -> Sequence[ReactorError | None]:
        """Make the changes; raises as `Journal.commit` does."""
        if not changes:
            return ()
        database = self._database
        outcome: Outcome = "not-submitted"
        try:
            database.execute("BEGIN IMMEDIATE")
            outcomes = [self._made(change) for change in changes]
            # Its log may have been written and not synced: a crash would tell.
            outcome = "unknown"
            database.execute("COMMIT")
            self._witness.check()
        except (apsw.Error, OSError) as failure:
            self._undo()
            raise self._failed(failure, outcome) from failure
        except BaseException:  # a defect leaves no transaction open either
            self._undo()
            raise
        return outcomes

    # ------------------------------------------------------------------------------------ reading

    def _key(self, row: Row) -> tuple[Key, int]:
        identity, instance, generation, checksum = row
        name = f"{self.path}: the generation of {_shown(identity, instance)}"
        if not isinstance(generation, int) or checksum != _sum(identity, instance, generation):
            raise RecordUnreadable(f"{name} is damaged", name=name)
        return _read_key(identity, instance, name), generation

    def _record(self, row: Row, high_water: Mapping[Key, int]) -> SessionRecord:
        identity, instance, generation, checksum, encoded = row
        name = f"{self.path}: the record of {_shown(identity, instance)} generation {generation!r}"
        if (
            not isinstance(generation, int)
            or not isinstance(encoded, bytes)
            or checksum != _sum(identity, instance, generation, encoded)
        ):
            raise RecordUnreadable(f"{name} is damaged", name=name)
        key = _read_key(identity, instance, name)
        if not 0 < generation <= high_water.get(key, 0):
            raise RecordUnreadable(f"{name} is of no generation that its key ever had", name=name)
        return decode(encoded, name=name, handle=Handle(key, generation, ""))

    # ------------------------------------------------------------------------------------ writing

    def _made(self, change: Change) -> ReactorError | None:
        """Make one change, or undo just that one; returns why."""
        database = self._database
        database.execute("SAVEPOINT change")
        try:
            refusal = self._make(change)
        except _OWN as failure:
            if not database.in_transaction:
                raise
            refusal = RecordRefused(
                f"the record of {change.record.handle} cannot be stored", detail=str(failure)
            )
            refusal.__cause__ = failure
        if refusal is not None:
            database.execute("ROLLBACK TO change")
        database.execute("RELEASE change")
        return refusal

    def _make(self, change: Change) -> ReactorError | None:
        database = self._database
        handle = change.record.handle
        key, generation = handle.key, handle.generation
        identity, instance = key.identity.encode(), key.instance.encode()
        checksum = _sum(identity, instance, generation, change.encoded)
        self._written += 1
        if isinstance(change.record.phase, Open):
            found = database.execute(
                "SELECT generation FROM high_water WHERE identity = ? AND instance = ?",
                (key.identity, key.instance),
            ).get
            highest = found if isinstance(found, int) else 0
            if generation != highest + 1:
                return StaleSession(
                    f"{handle} cannot follow generation {highest}", outcome="replied"
                )
            database.execute(
                "INSERT OR REPLACE INTO high_water VALUES (?, ?, ?, ?)",
                (key.identity, key.instance, generation, _sum(identity, instance, generation)),
            )
            database.execute(
                "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?)",
                (
                    self._written,
                    key.identity,
                    key.instance,
                    generation,
                    change.encoded,
                    checksum,
                ),
            )
        else:
            database.execute(
                "UPDATE record SET written = ?, encoded = ?, checksum = ?"
                " WHERE identity = ? AND instance = ? AND generation = ?",
                (
                    self._written,
                    change.encoded,
                    checksum,
                    key.identity,
                    key.instance,
                    generation,
                ),
            )
            if not database.changes():
                return StaleSession(f"{handle} is not in the journal", outcome="replied")
        for forgotten in change.forgets:
            database.execute(
                "DELETE FROM record WHERE identity = ? AND instance = ? AND generation = ?",
                (forgotten.key.identity, forgotten.key.instance, forgotten.generation),
            )
        return None

    def _undo(self) -> None:
        # Some failures end the transaction by themselves; where ending it fails, it never commits.
        if self._database.in_transaction:
            with suppress(apsw.Error):
                self._database.execute("ROLLBACK")

    def _failed(self, failure: apsw.Error | OSError, outcome: Outcome) -> StoreFailed:
        match trouble_of(failure):
            case "full":
                what = "there is no room for the journal"
            case "gone":
                what = "the journal is gone"
            case "damaged":
                what = "the journal is damaged"
            case _:
                what = f"the journal could not be used: {type(failure).__name__}"
        return StoreFailed(
            f"{self.path}: {what}", store=self.path, outcome=outcome, detail=str(failure)
        )


def _sum(identity: object, instance: object, generation: int, encoded: bytes = b"") -> int:
    """The checksum of a row; of what is no row of ours, one that none has."""
    if not isinstance(identity, bytes) or not isinstance(instance, bytes):
        return -1
    # A NUL is in no name, so no two rows look the same.
    return zlib.crc32(encoded, zlib.crc32(b"%s\0%s\0%d\0" % (identity, instance, generation)))


def _read_key(identity: object, instance: object, name: str) -> Key:
    try:
        if not isinstance(identity, bytes) or not isinstance(instance, bytes):
            raise TypeError("a name is not text")  # noqa: TRY301 - as damaged as any other
        return Key(identity.decode(), instance.decode())
    except (TypeError, ValueError) as failure:
        raise RecordUnreadable(f"{name} is damaged", name=name, detail=str(failure)) from failure


def _shown(identity: object, instance: object) -> str:
    parts = (identity, instance) if instance else (identity,)
    return "/".join(
        part.decode(errors="backslashreplace") if isinstance(part, bytes) else repr(part)
        for part in parts
    )
