"""The tables of an authority in a file."""

from __future__ import annotations

from typing import Final

from trio_reactor.sqlite import FileKind

__all__ = ["AUTHORITY"]

AUTHORITY: Final = FileKind(
    name="an authority of rooms",
    short="authority",
    application=0x54525341,
    version=1,
    schema="""
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE room (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL,
        version INTEGER NOT NULL,
        floor INTEGER NOT NULL,
        said INTEGER NOT NULL DEFAULT 0,
        entries INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE ended (name TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE grants (
        member TEXT NOT NULL,
        room INTEGER NOT NULL,
        selection TEXT NOT NULL,
        readonly TEXT NOT NULL,
        PRIMARY KEY (member, room)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE entry (
        room INTEGER NOT NULL,
        path TEXT NOT NULL,
        folded TEXT NOT NULL,
        revision INTEGER NOT NULL,
        text TEXT,
        digest TEXT,
        size INTEGER,
        UNIQUE (room, path)
    ) STRICT;
    CREATE UNIQUE INDEX entry_folded ON entry (room, folded);
    CREATE TABLE step (
        room INTEGER NOT NULL,
        version INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        written BLOB NOT NULL,
        removed BLOB NOT NULL,
        UNIQUE (room, version)
    ) STRICT;
    CREATE TABLE client (
        room INTEGER NOT NULL,
        member TEXT NOT NULL,
        name TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        answer BLOB NOT NULL,
        PRIMARY KEY (room, member, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE revision (
        room INTEGER NOT NULL,
        path TEXT NOT NULL,
        revision INTEGER NOT NULL,
        author TEXT NOT NULL,
        written REAL NOT NULL,
        entry BLOB NOT NULL,
        UNIQUE (room, path, revision)
    ) STRICT;
    CREATE TABLE blob (
        room INTEGER NOT NULL,
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (room, digest)
    ) STRICT;
    CREATE TABLE upload (
        room INTEGER NOT NULL,
        member TEXT NOT NULL,
        digest TEXT NOT NULL,
        start INTEGER NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (room, member, digest, start)
    ) STRICT;
    CREATE TABLE message (
        room INTEGER NOT NULL,
        position INTEGER NOT NULL,
        thread TEXT NOT NULL,
        number INTEGER NOT NULL,
        id TEXT NOT NULL,
        author TEXT NOT NULL,
        said REAL NOT NULL,
        text TEXT NOT NULL,
        UNIQUE (room, position)
    ) STRICT;
    CREATE UNIQUE INDEX message_id ON message (room, author, id);
    CREATE INDEX message_thread ON message (room, thread, number);
    CREATE TABLE announcement (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        room TEXT NOT NULL,
        version INTEGER NOT NULL,
        member TEXT
    ) STRICT;
    """,
)
