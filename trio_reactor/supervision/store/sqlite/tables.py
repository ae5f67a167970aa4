"""The tables of a journal."""

from __future__ import annotations

from typing import Final

from trio_reactor.sqlite import FileKind

__all__ = ["JOURNAL"]

JOURNAL: Final = FileKind(
    name="a journal of sessions",
    short="journal",
    application=0x54525331,
    version=1,
    schema="""
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
    """,
)
