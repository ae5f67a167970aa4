"""The file of a journal: made, recognized, and refused where it is not one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeAlias, cast

import apsw

__all__ = ["APPLICATION", "VERSION", "Database", "Row", "Unfit", "Value", "connect", "take"]

APPLICATION: Final = 0x54525331
"""What marks a file as a journal of this kind, in the header of every SQLite file."""
VERSION: Final = 1
"""The version of the tables that are written and read."""

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Value, ...]

_SCHEMA: Final = f"""
    CREATE TABLE record (
        written INTEGER NOT NULL,
        identity TEXT NOT NULL,
        instance TEXT NOT NULL,
        generation INTEGER NOT NULL,
        encoded BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        UNIQUE (identity, instance, generation)
    ) STRICT;
    CREATE TABLE high_water (
        identity TEXT NOT NULL,
        instance TEXT NOT NULL,
        generation INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (identity, instance)
    ) STRICT, WITHOUT ROWID;
    PRAGMA application_id = {APPLICATION};
    PRAGMA user_version = {VERSION};
"""


class Unfit(Exception):
    """The file cannot be used as a journal; the message says why."""


class Rows(Protocol):
    """What a statement gives; apsw's own annotations are not complete before Python 3.12."""

    @property
    def get(self) -> Value:
        """The only value of the only row; `None` if there is none."""
        ...

    def __iter__(self) -> Iterator[Row]: ...


class Database(Protocol):
    """As much of `apsw.Connection` as is needed here."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        ...

    def execute(self, statements: str, bindings: Sequence[Value] = (), /) -> Rows:
        """Run statements, the first up to its first row."""
        ...

    def changes(self) -> int:
        """How many rows the last statement changed."""
        ...

    def readonly(self, name: str, /) -> bool:
        """Whether a database cannot be written."""
        ...

    def config(self, option: int, value: int, /) -> int:
        """Set an option of the connection."""
        ...

    def close(self) -> None:
        """Close it; what was not committed is undone."""
        ...


def connect(path: str) -> Database:
    """Open the file, which is made if it is not there; nothing in it is read yet.

    Nobody else may read it: it holds the tokens of sessions.

    Raises:
        apsw.Error: It cannot be opened.
        OSError: It cannot be made.
    """
    with suppress(FileExistsError):
        # Only one that is new: to close a descriptor of an old one might end somebody's lock.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return cast("Database", apsw.Connection(path))


def take(path: str, database: Database) -> None:
    """Make a new file a journal, or see that an old one is; see that it can be written.

    SQLite's own lock is taken too and kept, so that no other program writes into it.

    Raises:
        Unfit: It is no journal that this library can use; nothing in it was changed.
        apsw.Error: It is damaged, locked, or could not be written.
        OSError: Its directory could not be synced.
    """
    # Looking at a foreign file must not tidy it up.
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if database.readonly("main"):
        raise Unfit("this journal is read-only")
    for setting in (
        "locking_mode = EXCLUSIVE",
        "synchronous = FULL",
        "fullfsync = ON",  # what a sync is called where an ordinary one is none
    ):
        database.execute(f"PRAGMA {setting}").get  # noqa: B018 - it is run by being read
    database.execute("BEGIN EXCLUSIVE")
    application = database.execute("PRAGMA application_id").get
    version = database.execute("PRAGMA user_version").get
    tables = database.execute("SELECT count(*) FROM sqlite_schema").get
    if application == 0 and version == 0 and tables == 0:
        database.execute(_SCHEMA)
    elif application != APPLICATION:
        raise Unfit("this is not a journal of sessions")
    elif version != VERSION:
        raise Unfit(f"this journal has version {version!r}; this library reads {VERSION}")
    elif database.execute("PRAGMA integrity_check(1)").get != "ok":
        raise Unfit("this journal is damaged")
    database.execute("COMMIT")
    mode = database.execute("PRAGMA journal_mode = WAL").get
    if mode != "wal":
        raise Unfit(f"this file system allows no write-ahead log, only {mode!r}")
    # A journal that nobody finds after a crash of the machine is none.
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
