"""What every shared journal does, in memory and in PostgreSQL."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import pytest
from postgres_stage import STOPPED, change, fresh_database, handle, sql

from trio_reactor.supervision.errors import HostFenced, StaleSession
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.records import Open, Stopped
from trio_reactor.supervision.store.memory_shared import MemoryDatabase, MemorySharedStore
from trio_reactor.supervision.store.postgres import PostgresStore
from trio_reactor.supervision.store.protocol import Change, SharedJournal
from trio_reactor.world import SeededWorld

Opener = Callable[[str], AbstractAsyncContextManager[SharedJournal]]
"""Opens a host's journal by the host's name."""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with fresh_database() as conninfo:
        yield conninfo


def in_memory() -> Opener:
    database, world = MemoryDatabase(), SeededWorld(1)
    return lambda name: MemorySharedStore(database, host=name, lease=5.0, world=world).open()


def in_postgres(conninfo: str) -> Opener:
    with sql(conninfo) as connection:
        connection.execute("DROP SCHEMA IF EXISTS trio_reactor CASCADE")
    return lambda name: PostgresStore(conninfo, host=name, lease=5.0).open()


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.server("postgres"))])
def opener(request: pytest.FixtureRequest) -> Opener:
    if request.param == "memory":
        return in_memory()
    return in_postgres(request.getfixturevalue("database"))


@asynccontextmanager
async def two_hosts(opener: Opener) -> AsyncIterator[tuple[SharedJournal, SharedJournal]]:
    async with opener("one") as one, opener("two") as two:
        yield one, two


async def made(journal: SharedJournal, *changes: Change) -> list[bool]:
    """Which of the changes were made."""
    verdicts = await journal.commit(changes)
    assert all(verdict is None or isinstance(verdict, StaleSession) for verdict in verdicts)
    return [verdict is None for verdict in verdicts]


async def fenced(journal: SharedJournal, incarnation: str) -> bool:
    facts = await journal.host(incarnation)
    assert facts is not None
    return await journal.fence(facts)


async def test_a_generation_is_taken_only_if_it_is_the_next(opener: Opener) -> None:
    async with opener("one") as one:
        assert await made(one, change("a", 2), change("a", 0), change("a", 1)) == [
            False,
            False,
            True,
        ]
        assert await made(one, change("a", 1), change("a", 3), change("a", 2)) == [
            False,
            False,
            True,
        ]
        facts = await one.look(Key("a"))
        assert (facts.generation, facts.host) == (2, one.incarnation)
        assert facts.record is not None
        assert facts.record.handle == handle("a", 2)


async def test_a_later_record_takes_the_place_of_the_one_before(opener: Opener) -> None:
    async with opener("one") as one:
        assert await made(one, change("a", 1), change("b", 1), change("a", 1, STOPPED)) == [
            True,
            True,
            True,
        ]
        records = (await one.load()).records
        assert [(record.handle.key.identity, record.phase) for record in records] == [
            ("b", Open()),
            ("a", STOPPED),
        ]


async def test_a_later_record_without_a_first_is_refused(opener: Opener) -> None:
    async with opener("one") as one:
        assert await made(one, change("a", 1, STOPPED), change("a", 1)) == [False, True]


async def test_another_host_takes_a_key_whose_session_has_stopped(opener: Opener) -> None:
    async with two_hosts(opener) as (one, two):
        await made(one, change("a", 1))
        assert await made(two, change("a", 2)) == [False]
        await made(one, change("a", 1, STOPPED))
        assert await made(two, change("a", 2)) == [True]
        assert await made(one, change("a", 3)) == [False]
        assert (await one.look(Key("a"))).host == two.incarnation


async def test_no_host_writes_the_record_of_one_that_is_not_fenced(opener: Opener) -> None:
    async with two_hosts(opener) as (one, two):
        await made(one, change("a", 1))
        assert await made(two, change("a", 1, STOPPED)) == [False]
        facts = await two.look(Key("a"))
        assert facts.record is not None
        assert facts.record.phase == Open()


async def test_what_a_fenced_host_held_is_taken_by_one_and_its_writes_are_refused_whole(
    opener: Opener,
) -> None:
    async with two_hosts(opener) as (one, two):
        await made(one, change("a", 1), change("b", 1))
        assert await fenced(two, one.incarnation)
        assert await made(two, change("a", 1, STOPPED), change("a", 2), change("b", 2)) == [
            True,
            True,
            True,
        ]
        with pytest.raises(HostFenced):
            await one.commit([change("c", 1)])
        assert (await two.look(Key("c"))).generation == 0
        assert await one.beat() is False


async def test_a_host_that_was_heard_of_is_not_fenced(opener: Opener) -> None:
    async with two_hosts(opener) as (one, two):
        assert await one.beat()
        facts = await two.host(one.incarnation)
        assert facts is not None
        assert (facts.name, facts.beats, facts.lease, facts.fenced) == ("one", 1, 5.0, False)
        assert await one.beat()
        assert await two.fence(facts) is False
        assert await one.beat()
        assert await fenced(two, one.incarnation)
        assert await two.fence(facts) is True  # it is, whatever was seen


async def test_a_host_can_be_fenced_twice_and_by_itself(opener: Opener) -> None:
    async with opener("one") as one:
        assert await fenced(one, one.incarnation)
        assert await fenced(one, one.incarnation)
        with pytest.raises(HostFenced):
            await one.commit([change("a", 1)])


async def test_what_is_forgotten_is_gone_and_its_generation_stays(opener: Opener) -> None:
    async with opener("one") as one:
        await made(one, change("a", 1), change("b", 1), change("a", 1, STOPPED))
        gone = (handle("a", 1), handle("b", 1), handle("nothing", 1))
        assert await made(one, change("b", 3, forgets=gone)) == [False]
        assert (await one.look(Key("a"))).record is not None
        assert await made(one, change("c", 1, forgets=gone)) == [True]
        facts = await one.look(Key("a"))
        assert (facts.generation, facts.record) == (1, None)
        assert (await one.look(Key("b"))).record is not None  # it has not stopped
        contents = await one.load()
        assert contents.high_water == {Key("a"): 1, Key("b"): 1, Key("c"): 1}
        assert await made(one, change("a", 2)) == [True]


async def test_the_next_incarnation_has_what_the_one_before_had(opener: Opener) -> None:
    async with opener("two") as two:
        async with opener("one") as one:
            first = one.incarnation
            await made(one, change("a", 1), change("b", 1), change("b", 1, STOPPED))
            await made(two, change("c", 1))
        async with opener("one") as one:
            assert one.incarnation != first
            contents = await one.load()
            assert [record.handle.key.identity for record in contents.records] == ["a", "b"]
            assert contents.high_water == {Key("a"): 1, Key("b"): 1}
            assert (await two.look(Key("a"))).host == one.incarnation
            assert await made(two, change("a", 2)) == [False]
            assert await made(one, change("a", 1, STOPPED), change("a", 2)) == [True, True]


async def test_an_old_generation_of_a_key_that_was_taken_is_still_recovered_by_its_host(
    opener: Opener,
) -> None:
    async with opener("two") as two:
        async with opener("one") as one:
            await made(one, change("a", 1))
            assert await fenced(two, one.incarnation)
            assert await made(two, change("a", 2)) == [True]
        async with opener("one") as one:
            contents = await one.load()
            assert [record.handle for record in contents.records] == [handle("a", 1)]
            assert contents.high_water == {Key("a"): 2}
            assert await made(one, change("a", 1, STOPPED), change("a", 3)) == [True, False]
            assert (await one.look(Key("a"))).host == two.incarnation


async def test_a_host_that_left_with_nothing_running_is_waited_for_by_nobody(
    opener: Opener,
) -> None:
    async with opener("two") as two:
        async with opener("one") as one:
            left = one.incarnation
            await made(one, change("a", 1), change("a", 1, STOPPED))
        facts = await two.host(left)
        assert facts is not None
        assert facts.fenced


async def test_a_host_that_left_with_something_running_is_not_fenced_by_that(
    opener: Opener,
) -> None:
    async with opener("two") as two:
        async with opener("one") as one:
            left = one.incarnation
            await made(one, change("a", 1))
        facts = await two.host(left)
        assert facts is not None
        assert not facts.fenced
        assert await made(two, change("a", 2)) == [False]


@pytest.mark.server("postgres")
@pytest.mark.parametrize("seed", range(6))
async def test_memory_and_postgresql_decide_alike(database: str, seed: int) -> None:
    """Random changes of three hosts, some of which are fenced, done to both."""
    chance = random.Random(seed)
    worlds = (in_memory(), in_postgres(database))
    names = ("one", "two", "three")
    async with _all(worlds, names) as hosts:
        for _ in range(60):
            name = chance.choice(names)
            if chance.random() < 0.04:
                answers = [
                    await fenced(pair[name], pair[chance_of(name)].incarnation) for pair in hosts
                ]
            else:
                batch = [draw(chance) for _ in range(chance.randint(1, 4))]
                answers = [await said(pair[name], batch) for pair in hosts]
            assert answers[0] == answers[1]
        for key in "ab":
            found = [await pair["one"].look(Key(key)) for pair in hosts]
            assert found[0].generation == found[1].generation
            assert found[0].record == found[1].record
            assert found[0].host.split(":")[0] == found[1].host.split(":")[0]
        for name in names:
            held = [await pair[name].load() for pair in hosts]
            assert held[0] == held[1]


def chance_of(name: str) -> str:
    """Who is fenced by whom."""
    return {"one": "two", "two": "three", "three": "three"}[name]


def draw(chance: random.Random) -> Change:
    key, generation = chance.choice("ab"), chance.randint(1, 6)
    phase = chance.choice((Open(), Open(), STOPPED))
    gone = (handle(chance.choice("ab"), chance.randint(1, 6)),)
    return change(key, generation, phase, forgets=gone if isinstance(phase, Stopped) else ())


async def said(journal: SharedJournal, batch: list[Change]) -> object:
    try:
        return await made(journal, *batch)
    except HostFenced:
        return "fenced"


@asynccontextmanager
async def _all(
    openers: tuple[Opener, ...], names: tuple[str, ...]
) -> AsyncIterator[list[dict[str, SharedJournal]]]:
    async with AsyncExitStack() as stack:
        yield [
            {name: await stack.enter_async_context(opener(name)) for name in names}
            for opener in openers
        ]
