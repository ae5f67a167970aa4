"""A database of a test's own, and what is written to it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.model.ends import NotStarted, Stop
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Open, Phase, SessionRecord, Stopped
from trio_reactor.supervision.model.work import UNLIMITED
from trio_reactor.supervision.store.protocol import Change

ADMIN = "host=127.0.0.1 port=5432 user=postgres dbname=postgres"
OPEN = Open()
STOPPED = Stopped(Stop("disposed"), NotStarted())


@contextmanager
def fresh_database() -> Iterator[str]:
    """The address of a new database, which is dropped at the end with whoever uses it."""
    name = f"trio_reactor_{os.getpid()}_{secrets.token_hex(4)}"
    with psycopg.connect(ADMIN, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            yield f"host=127.0.0.1 port=5432 user=postgres dbname={name}"
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def sql(conninfo: str) -> Iterator[psycopg.Connection]:
    """A connection of the test's own, each statement a transaction."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        yield connection


def change(
    key: str,
    generation: int,
    phase: Phase = OPEN,
    *,
    forgets: tuple[Handle, ...] = (),
    request: str = "request",
) -> Change:
    """A transition of a session."""
    record = SessionRecord(handle(key, generation), request, 30.0, UNLIMITED, 0.0, phase)
    return Change(record, encode(record), forgets)


def handle(key: str, generation: int) -> Handle:
    return Handle(Key(key), generation, f"{generation:032x}")


def terminate_all(connection: psycopg.Connection, role: str = "") -> int:
    """End every other back end of the database, or those whose application name ends like that."""
    rows = connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND application_name LIKE %s",
        (f"%{role}",),
    ).fetchall()
    return len(rows)


def waiting_for_a_lock(connection: psycopg.Connection) -> int:
    """How many back ends of the database wait for a lock now."""
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ).fetchone()
    assert row is not None
    return int(row[0])
