"""Fences in every order around what they fence, in PostgreSQL, made sure of with its locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
from postgres_stage import STOPPED, change, fresh_database, sql, waiting_for_a_lock

from trio_reactor.supervision.errors import HostFenced, KeyHeld, StaleSession
from trio_reactor.supervision.hosts.tenure import Tenure
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.store.postgres import PostgresJournal, PostgresStore
from trio_reactor.supervision.store.postgres.link import MAX_THREADS
from trio_reactor.supervision.store.protocol import HostFacts
from trio_reactor.world import SystemWorld

pytestmark = pytest.mark.server("postgres")

KEY = Key("a")
LOCK_KEY = "SELECT 1 FROM trio_reactor.key FOR UPDATE"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with fresh_database() as conninfo:
        yield conninfo


@pytest.fixture
def conninfo(database: str) -> str:
    with sql(database) as connection:
        connection.execute("DROP SCHEMA IF EXISTS trio_reactor CASCADE")
    return database


@asynccontextmanager
async def two_hosts(
    conninfo: str, lease: float = 10.0
) -> AsyncIterator[tuple[PostgresJournal, PostgresJournal]]:
    async with (
        PostgresStore(conninfo, host="one", lease=lease).open() as one,
        PostgresStore(conninfo, host="two", lease=lease).open() as two,
    ):
        await one.commit([change("a", 1)])
        yield one, two


async def seen(journal: PostgresJournal, other: PostgresJournal) -> HostFacts:
    facts = await journal.host(other.incarnation)
    assert facts is not None
    return facts


async def until_waiting(conninfo: str, count: int) -> None:
    """Sleep until so many back ends wait for a lock."""
    with sql(conninfo) as connection, trio.fail_after(10):
        while waiting_for_a_lock(connection) < count:  # noqa: ASYNC110 - the server tells nobody
            await trio.sleep(0.01)


async def test_a_commit_after_the_fence_is_refused(conninfo: str) -> None:
    async with two_hosts(conninfo) as (one, two):
        assert await two.fence(await seen(two, one))
        with pytest.raises(HostFenced):
            await one.commit([change("a", 2)])
        assert (await two.look(KEY)).generation == 1


async def test_a_fence_waits_for_the_commit_that_is_under_way(conninfo: str) -> None:
    async with two_hosts(conninfo) as (one, two):
        facts = await seen(two, one)
        order: list[str] = []

        async def commit() -> None:
            assert await one.commit([change("a", 2)]) == [None]
            order.append("commit")

        async def fence() -> None:
            assert await two.fence(facts)
            order.append("fence")
            assert (await two.look(KEY)).generation == 2

        with sql(conninfo) as other:
            async with trio.open_nursery() as nursery:
                with other.transaction():
                    other.execute(LOCK_KEY)
                    nursery.start_soon(commit)
                    await until_waiting(conninfo, 1)
                    nursery.start_soon(fence)
                    await until_waiting(conninfo, 2)
                    assert order == []
        assert sorted(order) == ["commit", "fence"]  # both answers were on their way at once
        with pytest.raises(HostFenced):
            await one.commit([change("a", 3)])


async def test_a_commit_that_meets_a_fence_under_way_waits_for_it_and_is_refused(
    conninfo: str,
) -> None:
    async with two_hosts(conninfo) as (one, two):
        refused: list[bool] = []

        async def commit() -> None:
            try:
                await one.commit([change("a", 2)])
            except HostFenced:
                refused.append(True)

        with sql(conninfo) as fencer:
            async with trio.open_nursery() as nursery:
                with fencer.transaction():
                    facts = await seen(two, one)
                    row = fencer.execute(
                        "SELECT trio_reactor.fence_host(%s, %s, %s)",
                        (facts.incarnation, facts.beats, facts.timeline),
                    ).fetchone()
                    assert row == (True,)
                    nursery.start_soon(commit)
                    await until_waiting(conninfo, 1)
                    assert refused == []
        assert refused == [True]
        assert (await two.look(KEY)).generation == 1


async def test_a_commit_that_meets_a_fence_that_is_undone_is_made(conninfo: str) -> None:
    async with two_hosts(conninfo) as (one, two):
        facts = await seen(two, one)
        with sql(conninfo) as fencer:
            async with trio.open_nursery() as nursery:
                with fencer.transaction(force_rollback=True):
                    fencer.execute(
                        "SELECT trio_reactor.fence_host(%s, %s, %s)",
                        (facts.incarnation, facts.beats, facts.timeline),
                    )
                    nursery.start_soon(one.commit, [change("a", 2)])
                    await until_waiting(conninfo, 1)
        assert (await two.look(KEY)).generation == 2


async def test_a_fence_that_meets_a_beat_under_way_waits_for_it_and_fails(conninfo: str) -> None:
    async with two_hosts(conninfo) as (one, two):
        facts = await seen(two, one)
        fenced: list[bool] = []

        async def fence() -> None:
            fenced.append(await two.fence(facts))

        with sql(conninfo) as beating:
            async with trio.open_nursery() as nursery:
                with beating.transaction():
                    beating.execute(
                        "UPDATE trio_reactor.host SET beats = beats + 1 WHERE incarnation = %s",
                        (one.incarnation,),
                    )
                    nursery.start_soon(fence)
                    await until_waiting(conninfo, 1)
                    assert fenced == []
        assert fenced == [False]
        assert await one.commit([change("a", 2)]) == [None]


async def test_a_beat_that_meets_a_fence_under_way_is_told_that_all_must_end(
    conninfo: str,
) -> None:
    async with two_hosts(conninfo) as (one, two):
        facts = await seen(two, one)
        alive: list[bool] = []

        async def beat() -> None:
            alive.append(await one.beat())

        with sql(conninfo) as fencer:
            async with trio.open_nursery() as nursery:
                with fencer.transaction():
                    fencer.execute(
                        "SELECT trio_reactor.fence_host(%s, %s, %s)",
                        (facts.incarnation, facts.beats, facts.timeline),
                    )
                    nursery.start_soon(beat)
                    await until_waiting(conninfo, 1)
        assert alive == [False]


async def test_beats_and_commits_do_not_wait_for_each_other(conninfo: str) -> None:
    async with two_hosts(conninfo) as (one, _):
        with sql(conninfo) as other:
            async with trio.open_nursery() as nursery:
                with other.transaction():
                    other.execute(LOCK_KEY)
                    nursery.start_soon(one.commit, [change("a", 2)])
                    await until_waiting(conninfo, 1)
                    with trio.fail_after(2):
                        assert await one.beat()
        with sql(conninfo) as beating, beating.transaction():
            beating.execute("UPDATE trio_reactor.host SET beats = beats + 1")
            with trio.fail_after(2):
                assert await one.commit([change("a", 3)]) == [None]


async def test_no_wait_outlasts_a_failover(conninfo: str) -> None:
    async with two_hosts(conninfo) as (one, two):
        facts = await seen(two, one)
        assert facts.timeline == "00000001"
        earlier = HostFacts(
            facts.incarnation, facts.name, facts.beats, facts.lease, False, "00000000"
        )
        assert await two.fence(earlier) is False
        assert await two.fence(facts) is True


async def test_of_two_hosts_that_take_a_dead_ones_key_at_once_one_has_it(conninfo: str) -> None:
    async with (
        two_hosts(conninfo) as (one, two),
        PostgresStore(conninfo, host="three", lease=10.0).open() as three,
    ):
        assert await two.fence(await seen(two, one))
        verdicts: dict[str, object] = {}

        async def take(journal: PostgresJournal) -> None:
            (verdict,) = await journal.commit([change("a", 2)])
            verdicts[journal.incarnation] = verdict

        with sql(conninfo) as other:
            async with trio.open_nursery() as nursery:
                with other.transaction():
                    other.execute(LOCK_KEY)
                    nursery.start_soon(take, two)
                    nursery.start_soon(take, three)
                    await until_waiting(conninfo, 2)
        losers = [verdict for verdict in verdicts.values() if verdict is not None]
        assert len(losers) == 1
        assert isinstance(losers[0], StaleSession)
        assert verdicts[(await two.look(KEY)).host] is None


async def test_of_two_hosts_that_open_a_new_key_at_once_one_has_it(conninfo: str) -> None:
    async with two_hosts(conninfo) as (one, two):
        for number in range(10):
            verdicts: list[object] = []

            async def take(
                journal: PostgresJournal, name: str, verdicts: list[object] = verdicts
            ) -> None:
                verdicts.extend(await journal.commit([change(name, 1)]))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(take, one, f"new {number}")
                nursery.start_soon(take, two, f"new {number}")
            assert sorted(type(verdict).__name__ for verdict in verdicts) == [
                "NoneType",
                "StaleSession",
            ]


async def test_a_host_that_comes_back_and_one_that_takes_over_do_not_both_have_a_key(
    conninfo: str,
) -> None:
    async with PostgresStore(conninfo, host="two", lease=10.0).open() as two:
        async with PostgresStore(conninfo, host="one", lease=10.0).open() as one:
            await one.commit([change("a", 1)])
            dead = one.incarnation
        verdicts: list[object] = []

        async def take() -> None:
            facts = await two.host(dead)
            assert facts is not None
            assert await two.fence(facts)
            verdicts.extend(await two.commit([change("a", 1, STOPPED), change("a", 2)]))

        async def come_back() -> None:
            async with PostgresStore(conninfo, host="one", lease=10.0).open() as one:
                verdicts.extend(await one.commit([change("a", 1, STOPPED), change("a", 2)]))

        with sql(conninfo) as other:
            async with trio.open_nursery() as nursery:
                with other.transaction():
                    other.execute(LOCK_KEY)
                    nursery.start_soon(take)
                    await until_waiting(conninfo, 1)
                    nursery.start_soon(come_back)
                    await until_waiting(conninfo, 2)
        assert sorted(type(verdict).__name__ for verdict in verdicts) == [
            "NoneType",
            "NoneType",
            "StaleSession",
            "StaleSession",
        ]


async def test_an_old_record_that_its_host_comes_back_for_is_not_taken_from_it(
    conninfo: str,
) -> None:
    async with two_hosts(conninfo) as (one, two):
        assert await two.fence(await seen(two, one))
        assert await two.commit([change("a", 2)]) == [None]
        verdicts: list[object] = []

        async def stop_the_old_one() -> None:
            verdicts.extend(await two.commit([change("a", 1, STOPPED)]))

        with sql(conninfo) as coming:
            async with trio.open_nursery() as nursery:
                with coming.transaction():
                    row = coming.execute(
                        "SELECT trio_reactor.enter_host("
                        "'one again', 'one', 10.0, '', 0, 0, 0, NULL, NULL, NULL)"
                    ).fetchone()
                    assert row == ("",)
                    nursery.start_soon(stop_the_old_one)
                    await until_waiting(conninfo, 1)
            assert [type(verdict) for verdict in verdicts] == [StaleSession]
            rows = coming.execute(
                "SELECT incarnation FROM trio_reactor.record WHERE generation = 1"
            ).fetchall()
            assert rows == [("one again",)]


async def test_fences_that_are_left_while_they_wait_hold_up_nothing(conninfo: str) -> None:
    async with two_hosts(conninfo) as (one, two):
        facts = await seen(two, one)
        with sql(conninfo) as other, other.transaction():
            other.execute("SELECT 1 FROM trio_reactor.host FOR UPDATE")
            for _ in range(2 * MAX_THREADS):
                with trio.move_on_after(0.05) as scope:
                    await two.fence(facts)
                assert scope.cancelled_caught
            with trio.fail_after(2):
                assert (await two.look(KEY)).generation == 1


async def test_a_dead_hosts_key_is_taken_over_no_sooner_than_its_lease_and_the_margin(
    conninfo: str,
) -> None:
    world = SystemWorld()
    async with two_hosts(conninfo, lease=0.9) as (one, two):
        horizons: list[float] = []
        ended: list[float] = []
        tenure = Tenure(
            one, world, on_horizon=horizons.append, on_fenced=lambda: ended.append(world.boottime())
        )
        taker = Tenure(two, world, margin=0.4, on_horizon=lambda _: None, on_fenced=lambda: None)
        with trio.move_on_after(1.5):  # and then it is dead
            await tenure.run()
        began = time.monotonic()
        facts = await taker.claim(KEY, expected_generation=1)
        assert facts.host == one.incarnation
        assert time.monotonic() - began >= 0.9 + 0.4
        assert world.boottime() >= horizons[-1] + 0.4
        assert await two.commit([change("a", 1, STOPPED), change("a", 2)]) == [None, None]
        with trio.fail_after(5):
            await tenure.run()  # it comes back, an age later
        assert tenure.fenced
        assert len(ended) >= 1


async def test_a_living_hosts_key_is_not_taken_over(conninfo: str) -> None:
    async with two_hosts(conninfo, lease=0.9) as (one, two), trio.open_nursery() as nursery:
        tenure = Tenure(one, SystemWorld(), on_horizon=lambda _: None, on_fenced=lambda: None)
        nursery.start_soon(tenure.run)
        await tenure.wait_holding()
        taker = Tenure(two, SystemWorld(), on_horizon=lambda _: None, on_fenced=lambda: None)
        with trio.fail_after(5), pytest.raises(KeyHeld, match="one"):
            await taker.claim(KEY, expected_generation=1)
        assert not tenure.fenced
        nursery.cancel_scope.cancel()


CHILD = """
import sys, trio
from postgres_stage import change
from trio_reactor.supervision.hosts.tenure import Tenure
from trio_reactor.supervision.store.postgres import PostgresStore
from trio_reactor.world import SystemWorld

async def main():
    async with PostgresStore(sys.argv[1], host="one", lease=1.0).open() as journal:
        await journal.commit([change("a", 1)])
        tenure = Tenure(
            journal, SystemWorld(), on_horizon=lambda h: print("until", h, flush=True),
            on_fenced=lambda: print("end all", flush=True),
        )
        await tenure.run()
        print("fenced", tenure.fenced, flush=True)

trio.run(main)
"""


async def test_a_host_that_is_stopped_as_a_whole_is_taken_over_and_ends_all_when_it_goes_on(
    conninfo: str,
) -> None:
    paths = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    command = [sys.executable, "-c", CHILD, conninfo]
    async with PostgresStore(conninfo, host="two", lease=1.0).open() as two:
        with trio.fail_after(60):
            child = await trio.lowlevel.open_process(
                command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
            )
            assert child.stdout is not None
            try:
                said = b""
                while said.count(b"\n") < 3:
                    said += await child.stdout.receive_some()
                child.send_signal(signal.SIGSTOP)
                world = SystemWorld()
                taker = Tenure(
                    two, world, margin=0.2, on_horizon=lambda _: None, on_fenced=lambda: None
                )
                await taker.claim(KEY, expected_generation=1)
                *_, last, _ = said.split(b"\n")
                horizon = float(last.removeprefix(b"until "))
                assert world.boottime() >= horizon + 0.2
                assert await two.commit([change("a", 1, STOPPED), change("a", 2)]) == [None, None]
                child.send_signal(signal.SIGCONT)
                while not said.endswith(b"fenced True\n"):
                    piece = await child.stdout.receive_some()
                    assert piece, said
                    said += piece
                assert b"end all" in said
                assert await child.wait() == 0
            finally:
                with trio.CancelScope(shield=True):
                    child.kill()
                    await child.wait()
                    await child.stdout.aclose()
