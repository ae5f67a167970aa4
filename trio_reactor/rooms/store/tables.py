"""The tables of a local store.

`entry` is what is to be seen: the confirmed entries of every room, with the queued edits laid over
them.  `beneath` keeps what is confirmed at each path that a queued edit covers; `NULL` in
`revision` means that nothing is.  Full text is indexed by triggers, so nothing can be seen that
cannot be found, nor the other way round.

What is deleted is overwritten in the tables by `secure_delete`.  The index has a setting of that
name too, which is not used: it leaves the beginnings of words behind, and damages the index where a
word comes so often in a text that its places fill more than a page, and that text is written anew.
Instead the index is written anew as a whole when rooms are erased.
"""

from __future__ import annotations

from typing import Final

from trio_reactor.sqlite import FileKind

__all__ = ["REPLICA"]

REPLICA: Final = FileKind(
    name="a store of rooms",
    short="store",
    application=0x54525331 + 1,
    version=1,
    schema="""
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE fence (room TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE TABLE room (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        client TEXT NOT NULL,
        sequence INTEGER NOT NULL DEFAULT 0,
        listing BLOB NOT NULL,
        listed INTEGER NOT NULL DEFAULT 1,
        version INTEGER,
        selection TEXT,
        position TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE TABLE entry (
        id INTEGER PRIMARY KEY,
        room INTEGER NOT NULL,
        path TEXT NOT NULL,
        folded TEXT NOT NULL,
        revision INTEGER,
        text TEXT,
        digest TEXT,
        size INTEGER,
        edited INTEGER NOT NULL DEFAULT 0,
        UNIQUE (room, folded)
    ) STRICT;
    CREATE TABLE beneath (
        room INTEGER NOT NULL,
        path TEXT NOT NULL,
        revision INTEGER,
        text TEXT,
        digest TEXT,
        size INTEGER,
        PRIMARY KEY (room, path)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE edit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        room INTEGER NOT NULL,
        state TEXT NOT NULL,
        client TEXT,
        sequence INTEGER,
        version INTEGER,
        steps BLOB NOT NULL
    ) STRICT;
    CREATE INDEX edit_room ON edit (room, id);
    CREATE TABLE draft (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        room INTEGER NOT NULL,
        written REAL NOT NULL,
        reason TEXT NOT NULL,
        code TEXT NOT NULL,
        detail TEXT,
        steps BLOB NOT NULL,
        theirs BLOB NOT NULL
    ) STRICT;
    CREATE INDEX draft_room ON draft (room, id);
    CREATE TABLE accepted (
        room INTEGER NOT NULL,
        version INTEGER NOT NULL,
        steps BLOB NOT NULL,
        PRIMARY KEY (room, version)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE transfer (
        room INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        selection TEXT NOT NULL,
        version INTEGER NOT NULL,
        next INTEGER NOT NULL,
        token TEXT NOT NULL
    ) STRICT;
    CREATE TABLE staged (
        room INTEGER NOT NULL,
        path TEXT NOT NULL,
        folded TEXT NOT NULL,
        revision INTEGER NOT NULL,
        text TEXT,
        digest TEXT,
        size INTEGER,
        PRIMARY KEY (room, folded)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE blob (
        room INTEGER NOT NULL,
        digest TEXT NOT NULL,
        number INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (room, digest, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE message (
        room INTEGER NOT NULL,
        thread TEXT NOT NULL,
        id TEXT NOT NULL,
        number INTEGER NOT NULL,
        author TEXT NOT NULL,
        said REAL NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (room, thread, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE unsaid (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        room INTEGER NOT NULL,
        thread TEXT NOT NULL,
        id TEXT NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    CREATE TABLE part (
        key TEXT NOT NULL,
        number INTEGER NOT NULL,
        parts INTEGER NOT NULL,
        room TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (key, number)
    ) STRICT, WITHOUT ROWID;
    CREATE VIRTUAL TABLE words USING fts5 (
        path, text, content = 'entry', content_rowid = 'id',
        tokenize = "unicode61 remove_diacritics 2"
    );
    CREATE TRIGGER entry_made AFTER INSERT ON entry BEGIN
        INSERT INTO words (rowid, path, text) VALUES (new.id, new.path, new.text);
    END;
    CREATE TRIGGER entry_gone AFTER DELETE ON entry BEGIN
        INSERT INTO words (words, rowid, path, text)
        VALUES ('delete', old.id, old.path, old.text);
    END;
    CREATE TRIGGER entry_changed AFTER UPDATE OF path, text ON entry BEGIN
        INSERT INTO words (words, rowid, path, text)
        VALUES ('delete', old.id, old.path, old.text);
        INSERT INTO words (rowid, path, text) VALUES (new.id, new.path, new.text);
    END;
    """,
)
