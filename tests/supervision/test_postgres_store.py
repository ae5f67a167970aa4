"""Opening a journal in PostgreSQL: its schema, its server, and who may be in it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import pytest
import trio
from postgres_stage import STOPPED, change, fresh_database, sql
from tcp_proxy import open_proxy

from trio_reactor.supervision.errors import (
    RecordUnreadable,
    StoreBusy,
    StoreFailed,
    StoreUnusable,
)
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.store.postgres import PostgresStore
from trio_reactor.supervision.store.protocol import SharedJournal, Store

pytestmark = pytest.mark.server("postgres")


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with fresh_database() as conninfo:
        yield conninfo


@pytest.fixture
def conninfo(database: str) -> str:
    with sql(database) as connection:
        connection.execute("DROP SCHEMA IF EXISTS trio_reactor CASCADE")
    return database


def count(conninfo: str, what: str) -> int:
    with sql(conninfo) as connection:
        row = connection.execute(f"SELECT count(*) FROM trio_reactor.{what}").fetchone()
        assert row is not None
        return int(row[0])


async def test_it_is_a_store_whose_journal_is_shared(conninfo: str) -> None:
    store: Store = PostgresStore(conninfo, host="one", lease=5.0)
    async with store.open() as journal:
        assert isinstance(journal, SharedJournal)


async def test_many_that_open_a_new_schema_at_once_make_it_once(conninfo: str) -> None:
    async def opened(number: int) -> None:
        async with PostgresStore(conninfo, host=f"host {number}", lease=5.0).open() as journal:
            assert await journal.beat()

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(opened, number)
    assert count(conninfo, "migration") == 1


async def test_schemas_do_not_know_of_each_other(conninfo: str) -> None:
    one = PostgresStore(conninfo, host="host", lease=5.0)
    other = PostgresStore(conninfo, host="host", lease=5.0, schema='an "other"; one')
    with sql(conninfo) as connection:
        try:
            async with one.open() as journal, other.open() as elsewhere:
                assert await journal.commit([change("a", 1)]) == [None]
                assert await elsewhere.commit([change("a", 1)]) == [None]
        finally:
            connection.execute('DROP SCHEMA "an ""other""; one" CASCADE')


async def test_a_newer_schema_is_refused_and_left_as_it_is(conninfo: str) -> None:
    store = PostgresStore(conninfo, host="one", lease=5.0)
    async with store.open():
        pass
    with sql(conninfo) as connection:
        connection.execute("INSERT INTO trio_reactor.migration (version) VALUES (99)")
    hosts = count(conninfo, "host")
    with pytest.raises(StoreUnusable, match="version 99"):
        async with store.open():
            raise AssertionError
    assert count(conninfo, "host") == hosts


async def test_a_schema_of_something_else_is_refused_and_left_as_it_is(conninfo: str) -> None:
    with sql(conninfo) as connection:
        connection.execute("CREATE SCHEMA trio_reactor")
        connection.execute("CREATE TABLE trio_reactor.record (mine text)")
    with pytest.raises(StoreUnusable, match="something else"):
        async with PostgresStore(conninfo, host="one", lease=5.0).open():
            raise AssertionError
    assert count(conninfo, "record") == 0


async def test_a_server_that_syncs_nothing_is_refused(
    conninfo: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The server is shared: one is imitated by a function that is found first.
    with sql(conninfo) as connection:
        connection.execute("CREATE SCHEMA unsafe")
        connection.execute(
            "CREATE FUNCTION unsafe.current_setting(name text) RETURNS text LANGUAGE sql AS"
            " $$ SELECT CASE name WHEN 'fsync' THEN 'off'"
            " ELSE pg_catalog.current_setting(name) END $$"
        )
    unsafe = conninfo + " options='-c search_path=unsafe,pg_catalog'"
    try:
        with pytest.raises(StoreUnusable, match="fsync off"):
            async with PostgresStore(unsafe, host="one", lease=5.0).open():
                raise AssertionError
        async with PostgresStore(unsafe, host="one", lease=5.0, require_durable=False).open():
            assert "fsync off" in caplog.text
    finally:
        with sql(conninfo) as connection:
            connection.execute("DROP SCHEMA unsafe CASCADE")


async def test_commits_are_synchronous_whatever_the_role_says(conninfo: str) -> None:
    hasty = conninfo + " options='-c synchronous_commit=off'"
    with sql(conninfo) as connection:
        # Whoever commits records what was in force.
        async with PostgresStore(hasty, host="one", lease=5.0).open() as journal:
            connection.execute("CREATE TABLE trio_reactor.seen (setting text)")
            connection.execute(
                "CREATE FUNCTION trio_reactor.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " INSERT INTO trio_reactor.seen VALUES (current_setting('synchronous_commit'));"
                " RETURN NEW; END $$"
            )
            connection.execute(
                "CREATE TRIGGER see AFTER INSERT ON trio_reactor.record"
                " FOR EACH ROW EXECUTE FUNCTION trio_reactor.see()"
            )
            await journal.commit([change("a", 1)])
        rows = connection.execute("SELECT setting FROM trio_reactor.seen").fetchall()
        assert rows == [("on",)]


async def test_a_damaged_record_is_named_and_nothing_is_overwritten(conninfo: str) -> None:
    store = PostgresStore(conninfo, host="one", lease=5.0)
    async with store.open() as journal:
        await journal.commit([change("a", 1)])
        with sql(conninfo) as connection:
            connection.execute("UPDATE trio_reactor.record SET body = '{\"version\":99'")
        with pytest.raises(RecordUnreadable, match="a generation 1"):
            await journal.load()
        with pytest.raises(RecordUnreadable, match="a generation 1"):
            await journal.look(Key("a"))
    async with store.open() as journal:
        with pytest.raises(RecordUnreadable, match="a generation 1"):
            await journal.load()
    with sql(conninfo) as connection:
        row = connection.execute("SELECT body FROM trio_reactor.record").fetchone()
        assert row is not None
        assert bytes(row[0]) == b'{"version":99'


async def test_a_supervisor_of_the_same_name_that_beats_is_busy(conninfo: str) -> None:
    store = PostgresStore(conninfo, host="one", lease=0.6)
    async with store.open() as journal, trio.open_nursery() as nursery:

        async def beating() -> None:
            while True:
                assert await journal.beat()
                await trio.sleep(0.05)

        nursery.start_soon(beating)
        with pytest.raises(StoreBusy, match="'one'"):
            async with store.open():
                raise AssertionError
        nursery.cancel_scope.cancel()


async def test_two_that_open_one_name_at_once_are_one_and_a_busy_one(conninfo: str) -> None:
    entered: list[str] = []
    busy = 0

    async def opened(nursery: trio.Nursery) -> None:
        nonlocal busy
        try:
            async with PostgresStore(conninfo, host="one", lease=0.6).open() as journal:
                entered.append(journal.incarnation)
                while True:
                    assert await journal.beat()
                    await trio.sleep(0.05)
        except StoreBusy:
            busy += 1
            if busy == 3:
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(opened, nursery)
    assert len(entered) == 1


async def test_a_silent_one_is_fenced_after_its_lease_and_the_margin(conninfo: str) -> None:
    store = PostgresStore(conninfo, host="one", lease=0.6, margin=0.3)
    async with store.open() as silent:
        assert await silent.beat()
        await silent.commit([change("a", 1)])
        began = time.monotonic()
        async with store.open() as journal:
            assert time.monotonic() - began >= 0.9
            assert await silent.beat() is False
            assert len((await journal.load()).records) == 1


CHILD = """
import os, sys, trio
from postgres_stage import change
from trio_reactor.supervision.store.postgres import PostgresStore

async def main():
    async with PostgresStore(sys.argv[1], host="one", lease=60.0).open() as journal:
        await journal.commit([change("a", 1)])
        assert await journal.beat()
        os.kill(os.getpid(), 9)

trio.run(main)
"""


async def test_one_whose_process_is_seen_to_be_gone_is_not_waited_for(conninfo: str) -> None:
    paths = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    child = await trio.run_process(
        [sys.executable, "-c", CHILD, conninfo],
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
        capture_stderr=True,
    )
    assert child.returncode == -9, child.stderr
    with trio.fail_after(20):
        async with PostgresStore(conninfo, host="one", lease=30.0).open() as journal:
            contents = await journal.load()
            assert contents.high_water == {Key("a"): 1}
            facts = await journal.host(journal.incarnation)
            assert facts is not None
            # What it held may live as long as its own lease allowed.
            assert (facts.lease, journal.lease) == (60.0, 30.0)


async def test_one_whose_process_lives_elsewhere_is_waited_for(conninfo: str) -> None:
    store = PostgresStore(conninfo, host="one", lease=0.6, margin=0.3)
    async with store.open() as journal:
        await journal.commit([change("a", 1)])
    with sql(conninfo) as connection:
        connection.execute("UPDATE trio_reactor.host SET boot_id = 'another machine'")
    began = time.monotonic()
    async with store.open():
        assert time.monotonic() - began >= 0.9


async def test_incarnations_that_hold_nothing_are_forgotten(conninfo: str) -> None:
    store = PostgresStore(conninfo, host="one", lease=5.0)
    for generation in (1, 2, 3):
        async with store.open() as journal:
            await journal.commit([change("a", generation), change("a", generation, STOPPED)])
    assert count(conninfo, "host") == count(conninfo, "writer") == 1


async def test_a_server_that_does_not_answer_is_given_up_in_time() -> None:
    with open_proxy(port=1) as proxy:
        store = PostgresStore(
            f"host=127.0.0.1 port={proxy.port} user=postgres", host="one", lease=5.0, patience=0.5
        )
        with trio.fail_after(10), pytest.raises(StoreFailed) as failed:
            async with store.open():
                raise AssertionError
        assert failed.value.outcome == "not-submitted"


async def test_an_opening_that_is_cancelled_leaves_no_connection(conninfo: str) -> None:
    with open_proxy() as proxy:
        proxy.stall()
        store = PostgresStore(f"{conninfo} port={proxy.port}", host="one", lease=5.0)
        with trio.move_on_after(0.2) as scope:
            async with store.open():
                raise AssertionError
        assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"host": ""}, "host"),
        ({"host": "a\nb"}, "host"),
        ({"lease": 0.0}, "lease"),
        ({"lease": float("nan")}, "lease"),
        ({"margin": -1.0}, "margin"),
        ({"patience": 0.0}, "patience"),
        ({"schema": ""}, "schema"),
        ({"schema": "x" * 64}, "schema"),
    ],
)
def test_a_wrong_option_is_named(wrong: dict[str, object], named: str) -> None:
    options: dict[str, object] = {"host": "one", "lease": 5.0} | wrong
    with pytest.raises(ValueError, match=named):
        PostgresStore("host=127.0.0.1", **options)  # type: ignore[arg-type]


def test_an_address_that_cannot_be_read_is_refused_and_a_password_is_never_shown() -> None:
    with pytest.raises(ValueError, match="conninfo"):
        PostgresStore("host=127.0.0.1 nonsense", host="one", lease=5.0)
    store = PostgresStore("host=127.0.0.1 password=geheim", host="one", lease=5.0)
    assert "geheim" not in repr(store)
    assert "127.0.0.1" in repr(store)
