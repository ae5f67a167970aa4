"""Connections are cut, stalled and slow while a journal in PostgreSQL is used."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
from postgres_stage import (
    STOPPED,
    change,
    fresh_database,
    sql,
    terminate_all,
    waiting_for_a_lock,
)
from tcp_proxy import Proxy, open_proxy

from trio_reactor.supervision.errors import HostFenced, StoreFailed, StoreUnusable
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.store.postgres import PostgresStore

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


def through(proxy: Proxy, conninfo: str, **options: float) -> PostgresStore:
    options = {"lease": 5.0, "patience": 20.0} | options
    return PostgresStore(f"{conninfo} port={proxy.port}", host="one", **options)  # type: ignore[arg-type]


@contextmanager
def terminating(conninfo: str, every: float) -> Iterator[list[int]]:
    """Back ends of the journal are terminated all the time; gives how many."""
    over, ended = threading.Event(), [0]

    def terminate() -> None:
        with sql(conninfo) as connection:
            while not over.wait(every):
                ended[0] += terminate_all(connection, "journal")

    thread = threading.Thread(target=terminate)
    thread.start()
    try:
        yield ended
    finally:
        over.set()
        thread.join()


async def until_one_waits_for_a_lock(conninfo: str) -> None:
    with sql(conninfo) as connection, trio.fail_after(10):
        while not waiting_for_a_lock(connection):  # noqa: ASYNC110 - the server tells nobody
            await trio.sleep(0.01)


def times_written(conninfo: str) -> int:
    """How many records were ever written."""
    with sql(conninfo) as connection:
        row = connection.execute(
            "SELECT last_value, is_called FROM trio_reactor.revision"
        ).fetchone()
        assert row is not None
        return int(row[0]) if row[1] else 0


async def test_terminated_back_ends_neither_lose_nor_double_a_commit(conninfo: str) -> None:
    async with PostgresStore(conninfo, host="one", lease=5.0, patience=30.0).open() as journal:
        with terminating(conninfo, every=0.03) as ended:
            for generation in range(1, 151):
                # Doubled, the second would be refused; lost, the next would.
                verdicts = await journal.commit(
                    [change("a", generation), change(f"b{generation}", 1)]
                )
                assert verdicts == [None, None]
        assert ended[0] > 20
        contents = await journal.load()
        assert contents.high_water[Key("a")] == 150
        assert len(contents.high_water) == 151


async def test_cut_connections_neither_lose_nor_double_a_commit(conninfo: str) -> None:
    """Each commit is cut off at another moment of it, or of its being sent again."""
    with open_proxy() as proxy:
        async with through(proxy, conninfo).open() as journal:

            async def cut_after(seconds: float) -> None:
                await trio.sleep(seconds)
                proxy.cut()

            for generation in range(1, 61):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(cut_after, generation * 0.0002)
                    assert await journal.commit([change("a", generation)]) == [None]
            assert (await journal.look(Key("a"))).generation == 60
        with sql(conninfo) as connection:
            rows = connection.execute("SELECT replays > 0 FROM trio_reactor.writer").fetchall()
            assert rows == [(True,)]  # some were made, and only their answer was lost


async def test_a_commit_whose_answer_was_lost_is_read_back_and_made_once(conninfo: str) -> None:
    with open_proxy() as proxy:
        async with through(proxy, conninfo).open() as journal:
            await journal.commit([change("a", 1)])
            before = times_written(conninfo)
            proxy.cut_at_reply(lambda piece: b"commit_batch" in piece or b"made" in piece)
            verdicts = await journal.commit([change("a", 2), change("a", 9), change("b", 1)])
            assert [verdict is None for verdict in verdicts] == [True, False, True]
            assert times_written(conninfo) == before + 2
        with sql(conninfo) as connection:
            rows = connection.execute("SELECT replays FROM trio_reactor.writer").fetchall()
            assert rows == [(1,)]


async def test_a_commit_that_still_runs_when_it_is_sent_again_is_waited_for(conninfo: str) -> None:
    with open_proxy() as proxy, sql(conninfo) as other:
        async with through(proxy, conninfo).open() as journal:
            await journal.commit([change("a", 1)])
            verdicts: list[object] = []

            async def commit() -> None:
                verdicts.extend(await journal.commit([change("a", 2)]))

            with other.transaction():
                other.execute("SELECT 1 FROM trio_reactor.key FOR UPDATE")
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(commit)
                    await until_one_waits_for_a_lock(conninfo)
                    proxy.cut()  # the server goes on with it, and does not know
                    with sql(conninfo) as connection, trio.fail_after(10):
                        while waiting_for_a_lock(connection) < 2:  # noqa: ASYNC110
                            await trio.sleep(0.01)
                    nursery.cancel_scope.shield = True
                    other.execute("COMMIT")
            assert verdicts == [None]
            assert (await journal.look(Key("a"))).generation == 2


async def test_a_commit_that_comes_late_after_the_next_changes_nothing(conninfo: str) -> None:
    async with PostgresStore(conninfo, host="one", lease=5.0).open() as journal:
        assert await journal.commit([change("a", 1)]) == [None]
        assert await journal.commit([change("a", 1, STOPPED)]) == [None]
        with sql(conninfo) as connection:
            row = connection.execute(
                "SELECT trio_reactor.commit_batch(%s, 1, ARRAY['a'], ARRAY[''],"
                " ARRAY[2]::bigint[], ARRAY[true], ARRAY[false], ARRAY['x']::bytea[],"
                " ARRAY[]::int[], ARRAY[]::text[], ARRAY[]::text[], ARRAY[]::bigint[])",
                (journal.incarnation,),
            ).fetchone()
            assert row == ([],)
        assert (await journal.look(Key("a"))).generation == 1


async def test_a_commit_that_cannot_be_read_back_in_time_has_an_unknown_outcome(
    conninfo: str,
) -> None:
    with open_proxy() as proxy:
        async with through(proxy, conninfo, patience=0.5).open() as journal:
            await journal.commit([change("a", 1)])
            proxy.stall()
            began = time.monotonic()
            with pytest.raises(StoreFailed) as failed:
                await journal.commit([change("a", 2)])
            assert time.monotonic() - began < 5
            assert failed.value.outcome == "unknown"
            proxy.cut()
            proxy.resume()
            # It may have been made or not; what comes later knows.
            generation = (await journal.look(Key("a"))).generation
            assert await journal.commit([change("a", generation + 1)]) == [None]


async def test_a_commit_that_is_refused_by_the_server_for_good_is_no_weather(
    conninfo: str,
) -> None:
    async with PostgresStore(conninfo, host="one", lease=5.0).open() as journal:
        with sql(conninfo) as connection:
            connection.execute("DROP FUNCTION trio_reactor.apply_change CASCADE")
        with trio.fail_after(3), pytest.raises(StoreUnusable, match="UndefinedFunction"):
            await journal.commit([change("a", 1)])


async def test_one_record_that_the_server_refuses_is_its_own_sessions_alone(conninfo: str) -> None:
    async with PostgresStore(conninfo, host="one", lease=5.0).open() as journal:
        with sql(conninfo) as connection:
            connection.execute(
                "ALTER TABLE trio_reactor.record ADD CHECK (identity <> 'forbidden')"
            )
        verdicts = await journal.commit([change("a", 1), change("forbidden", 1), change("b", 1)])
        assert [type(verdict).__name__ for verdict in verdicts] == [
            "NoneType",
            "RecordRefused",
            "NoneType",
        ]
        assert (await journal.look(Key("forbidden"))).generation == 0


async def test_a_commit_that_a_deadlock_undoes_is_made_after_all(
    conninfo: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "trio_reactor.supervision.postgres")
    lock = "SELECT 1 FROM trio_reactor.key WHERE identity = %s FOR UPDATE"
    async with PostgresStore(conninfo, host="one", lease=5.0, patience=20.0).open() as journal:
        await journal.commit([change("a", 1), change("b", 1)])
        with sql(conninfo) as other:
            other.execute("SET deadlock_timeout = '30s'")  # the journal is the one to notice
            async with trio.open_nursery() as nursery:
                with other.transaction():
                    other.execute(lock, ("b",))
                    nursery.start_soon(journal.commit, [change("a", 2), change("b", 2)])
                    await until_one_waits_for_a_lock(conninfo)
                    await trio.to_thread.run_sync(other.execute, lock, ("a",))
        assert "undone: DeadlockDetected" in caplog.text
        assert (await journal.look(Key("a"))).generation == 2
        assert (await journal.look(Key("b"))).generation == 2


async def test_a_slow_commit_delays_no_beat(conninfo: str) -> None:
    async with PostgresStore(conninfo, host="one", lease=3.0, patience=20.0).open() as journal:
        await journal.commit([change("a", 1)])
        with sql(conninfo) as other:
            async with trio.open_nursery() as nursery:
                with other.transaction():
                    other.execute("SELECT 1 FROM trio_reactor.key FOR UPDATE")
                    nursery.start_soon(journal.commit, [change("a", 2)])
                    await until_one_waits_for_a_lock(conninfo)
                    with trio.fail_after(2):
                        for _ in range(5):
                            assert await journal.beat()
                        assert (await journal.look(Key("a"))).generation == 1


async def test_a_beat_that_hangs_can_be_left_and_the_next_is_sent_on_another_connection(
    conninfo: str,
) -> None:
    with open_proxy() as proxy:
        async with through(proxy, conninfo).open() as journal:
            assert await journal.beat()
            proxy.stall()
            with trio.move_on_after(0.1) as scope:
                await journal.beat()
            assert scope.cancelled_caught
            proxy.cut()
            proxy.resume()
            with trio.fail_after(5):
                assert await journal.beat()


async def test_a_beat_is_sent_once_and_a_lost_answer_is_told(conninfo: str) -> None:
    async with PostgresStore(conninfo, host="one", lease=5.0).open() as journal:
        assert await journal.beat()
        with sql(conninfo) as connection:
            terminate_all(connection, "beats")
        with pytest.raises(StoreFailed):
            await journal.beat()
        assert await journal.beat()
        facts = await journal.host(journal.incarnation)
        assert facts is not None
        assert facts.beats == 2


async def test_looks_go_on_over_terminated_back_ends(conninfo: str) -> None:
    async with PostgresStore(conninfo, host="one", lease=5.0).open() as journal:
        await journal.commit([change("a", 1)])
        for _ in range(5):
            assert (await journal.look(Key("a"))).generation == 1
            with sql(conninfo) as connection:
                terminate_all(connection)


async def test_a_look_that_is_cancelled_leaves_the_next_its_own_answer(conninfo: str) -> None:
    with open_proxy() as proxy:
        async with through(proxy, conninfo).open() as journal:
            await journal.commit([change("a", 1), change("b", 1), change("b", 2)])
            for step in range(30):
                proxy.delay = 0.002
                with trio.move_on_after(step * 0.001):
                    await journal.look(Key("a"))
                assert (await journal.look(Key("b"))).generation == 2


async def test_a_fenced_hosts_lost_answer_is_no_commit(conninfo: str) -> None:
    with open_proxy() as proxy:
        async with through(proxy, conninfo).open() as journal:
            await journal.commit([change("a", 1)])
            with sql(conninfo) as connection:
                connection.execute("UPDATE trio_reactor.host SET fenced = true")
            proxy.cut()
            with pytest.raises(HostFenced):
                await journal.commit([change("a", 2)])
            assert (await journal.look(Key("a"))).generation == 1


async def test_leaving_over_a_dead_connection_does_not_take_for_ever(conninfo: str) -> None:
    with open_proxy() as proxy:
        with trio.fail_after(10):
            async with through(proxy, conninfo, patience=0.5).open() as journal:
                await journal.commit([change("a", 1)])
                proxy.accepts = False
                proxy.cut()
