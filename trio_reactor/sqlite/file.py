"""The file of a store: made, recognized, and refused where it is not one."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import apsw

from .database import Database

__all__ = ["FileKind", "Unfit", "connect", "take"]


class Unfit(Exception):
    """The file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of store that is kept in a file."""

    name: str
    """What it is called in messages: `a journal of sessions`."""
    application: int
    """What marks a file as one of this kind, in the header of every SQLite file."""
    version: int
    """The version of the tables that are written and read."""
    schema: str
    """What makes the tables."""
    short: str = "store"
    """What it is called where its kind is known."""


def connect(path: str) -> Database:
    """Open the file, which is made if it is not there; nothing in it is read yet.

    Nobody else may read it: it may hold secrets.

    Raises:
        apsw.Error: It cannot be opened.
        OSError: It cannot be made.
    """
    with suppress(FileExistsError):
        # Only one that is new: to close a descriptor of an old one might end somebody's lock.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return cast("Database", apsw.Connection(path))


def take(
    path: str, database: Database, kind: FileKind, *, shared: bool = False, whole: bool = True
) -> None:
    """Make a new file one of its kind, or see that an old one is; see that it can be written.

    Args:
        path: Where it is.
        database: The open file.
        kind: What it has to be.
        shared: Whether other connections may use it too; else SQLite's own lock is taken and kept,
            so that no other program writes into it.
        whole: Whether all of it is read to see that none of it is damaged.

    Raises:
        Unfit: It is none that this library can use; nothing in it was changed.
        apsw.Error: It is damaged, locked, or could not be written.
        OSError: Its directory could not be synced.
    """
    # Looking at a foreign file must not tidy it up.
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if database.readonly("main"):
        raise Unfit(f"this {kind.short} is read-only")
    for setting in (
        *(() if shared else ("locking_mode = EXCLUSIVE",)),
        "synchronous = FULL",
        "fullfsync = ON",  # what a sync is called where an ordinary one is none
    ):
        database.execute(f"PRAGMA {setting}").get  # noqa: B018 - it is run by being read
    database.execute("BEGIN EXCLUSIVE")
    application = database.execute("PRAGMA application_id").get
    version = database.execute("PRAGMA user_version").get
    tables = database.execute("SELECT count(*) FROM sqlite_schema").get
    if application == 0 and version == 0 and tables == 0:
        database.execute(kind.schema)
        database.execute(f"PRAGMA application_id = {kind.application}")
        database.execute(f"PRAGMA user_version = {kind.version}")
    elif application != kind.application:
        raise Unfit(f"this is not {kind.name}")
    elif version != kind.version:
        raise Unfit(f"this {kind.short} has version {version!r}; this library reads {kind.version}")
    elif whole and database.execute("PRAGMA integrity_check(1)").get != "ok":
        raise Unfit(f"this {kind.short} is damaged")
    database.execute("COMMIT")
    mode = database.execute("PRAGMA journal_mode = WAL").get
    if mode != "wal":
        raise Unfit(f"this file system allows no write-ahead log, only {mode!r}")
    # A store that nobody finds after a crash of the machine is none.
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
