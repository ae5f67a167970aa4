"""Rigs for the stores of the library."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec

from trio_reactor.supervision.model.keys import Handle
from trio_reactor.supervision.store.conformance import Rig
from trio_reactor.supervision.store.memory import MemoryStore
from trio_reactor.supervision.store.protocol import Store
from trio_reactor.supervision.store.sqlite import SqliteStore


class MemoryRig(Rig):
    name = "the store in memory"
    capabilities = frozenset({"exclusive", "damageable"})

    def __init__(self) -> None:
        self.memory = MemoryStore()

    def store(self) -> Store:
        return self.memory

    async def damage(self, handle: Handle, /) -> None:
        session = (handle.key, handle.generation)
        found = self.memory._records[session]
        self.memory._records[session] = msgspec.structs.replace(found, encoded=b"{" + found.encoded)


class SqliteRig(Rig):
    name = "the store in a file"
    capabilities = frozenset({"exclusive", "damageable"})
    inline = False

    def __init__(self, directory: Path) -> None:
        self.path = directory / "journal"

    def store(self) -> Store:
        return SqliteStore(self.path, inline=self.inline)

    async def damage(self, handle: Handle, /) -> None:
        changed = execute(
            self.path,
            # One letter in the middle of it, and it can still be decoded.
            "UPDATE record SET encoded = CAST(replace(CAST(encoded AS TEXT), 'request', 'requesT')"
            " AS BLOB) WHERE identity = ? RETURNING 1",
            handle.key.identity,
        )
        assert changed == [(1,)]


def execute(path: Path, statement: str, *bindings: Any) -> list[Any]:
    """Run a statement on a file that is not open otherwise."""
    with closing(apsw.Connection(str(path))) as database:
        return list(database.execute(statement, bindings))
