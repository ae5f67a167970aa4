"""The shared stores keep every rule of the suite that is for one host's part.

That a second supervisor of one host is refused is tested elsewhere: it needs the first to beat.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres_stage import fresh_database, sql

from trio_reactor.supervision.model.keys import Handle
from trio_reactor.supervision.store.conformance import Case, Rig, cases
from trio_reactor.supervision.store.memory_shared import MemoryDatabase, MemorySharedStore
from trio_reactor.supervision.store.postgres import PostgresStore
from trio_reactor.supervision.store.protocol import Store
from trio_reactor.world import SeededWorld


class SharedMemoryRig(Rig):
    name = "the shared store in memory"
    capabilities = frozenset({"damageable"})

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.world = SeededWorld(1)

    def store(self) -> Store:
        return MemorySharedStore(self.database, host="host", lease=5.0, world=self.world)

    async def damage(self, handle: Handle, /) -> None:
        row = self.database._records[handle.key, handle.generation]
        row.body = b"{" + row.body


class PostgresRig(Rig):
    name = "the store in PostgreSQL"
    capabilities = frozenset({"damageable"})

    def __init__(self, conninfo: str) -> None:
        self.conninfo = conninfo
        with sql(conninfo) as connection:
            connection.execute("DROP SCHEMA IF EXISTS trio_reactor CASCADE")

    def store(self) -> Store:
        return PostgresStore(self.conninfo, host="host", lease=5.0)

    async def damage(self, handle: Handle, /) -> None:
        with sql(self.conninfo) as connection:
            connection.execute(
                "UPDATE trio_reactor.record SET body = '{'::bytea || body WHERE identity = %s",
                (handle.key.identity,),
            )


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with fresh_database() as conninfo:
        yield conninfo


@pytest.mark.parametrize("case", cases(SharedMemoryRig), ids=str)
async def test_the_shared_store_in_memory_conforms(autojump_clock: object, case: Case) -> None:
    await case.run(SharedMemoryRig())


@pytest.mark.server("postgres")
@pytest.mark.parametrize("case", cases(PostgresRig), ids=str)
async def test_the_store_in_postgresql_conforms(database: str, case: Case) -> None:
    await case.run(PostgresRig(database))
