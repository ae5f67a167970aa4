"""One host's tenure, on a virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from postgres_stage import STOPPED, change

from trio_reactor.supervision.errors import (
    HostFenced,
    KeyHeld,
    StoreBusy,
    StoreFailed,
    StoreUnusable,
)
from trio_reactor.supervision.hosts.tenure import Tenure
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.store.memory_shared import (
    MemoryDatabase,
    MemorySharedJournal,
    MemorySharedStore,
)
from trio_reactor.supervision.store.protocol import HostFacts
from trio_reactor.world import SeededWorld

LEASE = 9.0
MARGIN = 1.0
KEY = Key("kernel")


class Flaky:
    """A journal whose beats do what the test says; everything else is as it is."""

    def __init__(self, journal: MemorySharedJournal) -> None:
        self.journal = journal
        self.incarnation = journal.incarnation
        self.lease = journal.lease
        self.load, self.commit = journal.load, journal.commit
        self.look, self.host, self.fence = journal.look, journal.host, journal.fence
        self.beats: list[float] = []
        self.beating: Callable[[], Awaitable[bool]] = journal.beat

    async def beat(self) -> bool:
        self.beats.append(trio.current_time())
        return await self.beating()


class Stage:
    """A database, and a host with a tenure in it."""

    def __init__(self, journal: MemorySharedJournal, database: MemoryDatabase) -> None:
        self.world = SeededWorld(1)
        self.start = self.world.boottime()
        self.database = database
        self.journal = Flaky(journal)
        self.said: list[tuple[float, str | float]] = []
        self.tenure = Tenure(
            self.journal,
            self.world,
            margin=MARGIN,
            on_horizon=lambda horizon: self.say(horizon - self.start),
            on_fenced=lambda: self.say("end all"),
        )

    def say(self, what: str | float) -> None:
        self.said.append((trio.current_time(), what))


@asynccontextmanager
async def staged(database: MemoryDatabase, name: str = "here") -> AsyncIterator[Stage]:
    store = MemorySharedStore(database, host=name, lease=LEASE, world=SeededWorld(hash(name)))
    async with store.open() as journal:
        yield Stage(journal, database)


async def failing() -> bool:
    await trio.lowlevel.checkpoint()
    raise StoreFailed("cut", store="memory", outcome="unknown")


async def hanging() -> bool:
    await trio.sleep_forever()
    raise AssertionError


async def test_every_answer_moves_the_horizon_from_the_time_before_the_beat(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with staged(MemoryDatabase()) as stage:

        async def slow() -> bool:
            await trio.sleep(0.5)
            return await stage.journal.journal.beat()

        stage.journal.beating = slow
        with trio.move_on_after(8):
            await stage.tenure.run()
        assert stage.said == [(0.5, 9.0), (3.5, 12.0), (6.5, 15.0)]


async def test_beats_that_fail_are_sent_again_before_the_next_is_due(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with staged(MemoryDatabase()) as stage:
        stage.journal.beating = failing
        with trio.move_on_after(2):
            await stage.tenure.run()
        assert stage.tenure.horizon == float("-inf")
        assert len(stage.journal.beats) >= 5
        assert stage.said == []


async def test_a_beat_that_hangs_is_given_up_and_sent_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with staged(MemoryDatabase()) as stage:
        stage.journal.beating = hanging
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.tenure.run)
            await trio.sleep(3.1)
            stage.journal.beating = stage.journal.journal.beat
            assert await stage.tenure.wait_holding() > stage.world.boottime()
            assert trio.current_time() < 4.0
            nursery.cancel_scope.cancel()


async def test_everything_ends_at_the_horizon_even_while_a_beat_hangs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with staged(MemoryDatabase()) as stage, trio.open_nursery() as nursery:
        nursery.start_soon(stage.tenure.run)
        await stage.tenure.wait_holding()
        stage.journal.beating = hanging
        await trio.sleep(20)
        assert stage.said == [(0.0, 9.0), (9.0, "end all")]
        assert not stage.tenure.fenced
        stage.journal.beating = stage.journal.journal.beat
        await stage.tenure.wait_holding()
        assert [what for _, what in stage.said[:2]] == [9.0, "end all"]
        assert stage.tenure.horizon > stage.world.boottime()
        nursery.cancel_scope.cancel()


async def test_everything_ends_at_the_horizon_also_between_two_beats_that_fail(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with staged(MemoryDatabase()) as stage, trio.open_nursery() as nursery:
        nursery.start_soon(stage.tenure.run)
        await stage.tenure.wait_holding()
        stage.journal.beating = failing
        await trio.sleep(20)
        assert stage.said == [(0.0, 9.0), (9.0, "end all")]
        nursery.cancel_scope.cancel()


async def test_an_answer_that_comes_after_its_own_horizon_gives_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with staged(MemoryDatabase()) as stage, trio.open_nursery() as nursery:
        nursery.start_soon(stage.tenure.run)
        await stage.tenure.wait_holding()

        async def late() -> bool:
            with trio.CancelScope(shield=True):  # as a host that is stopped as a whole
                alive = await stage.journal.journal.beat()
                await trio.sleep(30)
            stage.journal.beating = failing
            return alive

        stage.journal.beating = late
        await trio.sleep(40)
        assert stage.said == [(0.0, 9.0), (33.0, "end all"), (33.0, 12.0)]
        nursery.cancel_scope.cancel()


async def test_a_fenced_host_ends_everything_and_beats_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    async with staged(database) as stage, trio.open_nursery() as nursery:
        nursery.start_soon(stage.tenure.run)
        await stage.tenure.wait_holding()
        seen = database.host(stage.journal.incarnation)
        assert seen is not None
        assert database.fence(seen)
        await trio.sleep(50)
        assert stage.said == [(0.0, 9.0), (3.0, "end all")]
        assert stage.tenure.fenced
        with pytest.raises(HostFenced):
            await stage.tenure.wait_holding()
        with pytest.raises(HostFenced):
            await stage.tenure.claim(KEY, expected_generation=None)


async def test_a_journal_that_is_of_no_use_is_no_weather(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def unusable() -> bool:
        await trio.lowlevel.checkpoint()
        raise StoreUnusable("newer", store="memory")

    async with staged(MemoryDatabase()) as stage:
        stage.journal.beating = unusable
        with pytest.raises(StoreUnusable):
            await stage.tenure.run()


async def test_a_key_that_nobody_has_is_claimed_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with staged(MemoryDatabase()) as stage:
        facts = await stage.tenure.claim(KEY, expected_generation=None)
        assert (facts.generation, facts.host, facts.record) == (0, "", None)
        await stage.journal.commit([change("kernel", 1)])
        facts = await stage.tenure.claim(KEY, expected_generation=1)
        assert facts.host == stage.journal.incarnation
        assert trio.current_time() == 0


async def test_a_key_whose_session_has_stopped_or_been_forgotten_is_claimed_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("kernel", 1), change("kernel", 1, STOPPED)])
        facts = await here.tenure.claim(KEY, expected_generation=1)
        assert facts.record is not None
        forgotten = facts.record.handle
        await there.journal.commit([change("other", 1, forgets=(forgotten,))])
        assert (await here.tenure.claim(KEY, expected_generation=1)).record is None
        assert trio.current_time() == 0


async def test_nothing_is_waited_for_if_another_generation_was_expected(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("kernel", 1)])
        facts = await here.tenure.claim(KEY, expected_generation=None)
        assert facts.generation == 1
        assert trio.current_time() == 0


async def test_a_living_host_keeps_its_key_and_a_beat_says_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("kernel", 1)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(there.tenure.run)
            await trio.sleep(1)
            with pytest.raises(KeyHeld, match="there") as held:
                await here.tenure.claim(KEY, expected_generation=1)
            assert held.value.host == there.journal.incarnation
            assert held.value.retryable
            assert trio.current_time() == 4  # a beat's period later
            nursery.cancel_scope.cancel()


async def test_a_dead_hosts_key_is_claimed_after_its_lease_and_the_margin(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("kernel", 1)])
        await there.journal.beat()
        await trio.sleep(5)
        facts = await here.tenure.claim(KEY, expected_generation=1)
        assert trio.current_time() == 5 + LEASE + MARGIN
        assert facts.host == there.journal.incarnation
        dead = database.host(facts.host)
        assert dead is not None
        assert dead.fenced
        assert await there.journal.beat() is False


async def test_claims_of_one_dead_hosts_keys_share_one_wait_whoever_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    done: list[tuple[str, float]] = []
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("a", 1), change("b", 1), change("c", 1)])

        async def claim(key: str, after: float) -> None:
            await trio.sleep(after)
            await here.tenure.claim(Key(key), expected_generation=1)
            done.append((key, trio.current_time()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(claim, "b", 2)
            nursery.start_soon(claim, "c", 20)
            with trio.move_on_after(4):
                await claim("a", 0)
        assert sorted(done) == [("b", LEASE + MARGIN), ("c", 20.0)]


async def test_every_claim_under_way_learns_of_the_same_beat(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    ended: list[tuple[str, float]] = []
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("a", 1), change("b", 1)])

        async def claim(key: str, after: float) -> None:
            await trio.sleep(after)
            with pytest.raises(KeyHeld):
                await here.tenure.claim(Key(key), expected_generation=1)
            ended.append((key, trio.current_time()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(claim, "a", 0)
            nursery.start_soon(claim, "b", 2)
            await trio.sleep(4)
            await there.journal.beat()
        assert sorted(ended) == [("a", 6.0), ("b", 5.0)]


async def test_a_failover_starts_the_wait_again(autojump_clock: trio.testing.MockClock) -> None:
    database = MemoryDatabase()
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("kernel", 1)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: here.tenure.claim(KEY, expected_generation=1))
            await trio.sleep(9.5)
            database.timeline = "2"
        assert trio.current_time() == 10 + LEASE + MARGIN


async def test_a_beat_just_before_the_fence_keeps_the_host_alive(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("kernel", 1)])

        async def beaten_to_it(seen: HostFacts) -> bool:
            await there.journal.beat()
            await trio.sleep(0.1)
            return await here.journal.journal.fence(seen)

        here.journal.fence = beaten_to_it
        with pytest.raises(KeyHeld):
            await here.tenure.claim(KEY, expected_generation=1)
        assert trio.current_time() == LEASE + MARGIN + 0.1


async def test_a_claim_returns_what_the_dead_host_wrote_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("kernel", 1, request="first")])

        async def written_at_last(seen: HostFacts) -> bool:
            await there.journal.commit([change("kernel", 1, STOPPED)])
            return await here.journal.journal.fence(seen)

        here.journal.fence = written_at_last
        facts = await here.tenure.claim(KEY, expected_generation=1)
        assert facts.record is not None
        assert facts.record.phase == STOPPED


async def test_a_claim_that_finds_the_host_fenced_looks_at_the_key_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    async with staged(database, "there") as there, staged(database) as here:
        await there.journal.commit([change("kernel", 1)])

        async def fenced_meanwhile(incarnation: str) -> HostFacts | None:
            seen = database.host(incarnation)
            assert seen is not None
            if not seen.fenced:
                await there.journal.commit([change("kernel", 1, STOPPED)])
                assert database.fence(seen)
            return await here.journal.journal.host(incarnation)

        here.journal.host = fenced_meanwhile
        facts = await here.tenure.claim(KEY, expected_generation=1)
        assert facts.record is not None
        assert facts.record.phase == STOPPED


async def test_a_claim_can_be_cancelled_anywhere_and_leaves_nothing_half_done(
    autojump_clock: trio.testing.MockClock,
) -> None:
    for steps in range(1, 40):
        database = MemoryDatabase()
        async with staged(database, f"there-{steps}") as there, staged(database) as here:
            await there.journal.commit([change("kernel", 1)])
            with trio.CancelScope() as scope:
                left = steps

                def counting(  # every step of the journal is a place to be cancelled at
                    step: Callable[..., Awaitable[object]], scope: trio.CancelScope = scope
                ) -> Callable[..., Awaitable[object]]:
                    async def counted(*args: object) -> object:
                        nonlocal left
                        left -= 1
                        if left == 0:
                            scope.cancel()
                        return await step(*args)

                    return counted

                here.journal.look = counting(here.journal.look)  # type: ignore[method-assign]
                here.journal.host = counting(here.journal.host)  # type: ignore[method-assign]
                here.journal.fence = counting(here.journal.fence)  # type: ignore[method-assign]
                await here.tenure.claim(KEY, expected_generation=1)
            facts = database.look(KEY)
            assert (facts.generation, facts.host) == (1, there.journal.incarnation)
            await here.tenure.claim(KEY, expected_generation=1)
            if not scope.cancelled_caught:
                return
    raise AssertionError


async def test_a_supervisor_of_a_name_that_lives_is_busy(
    autojump_clock: trio.testing.MockClock,
) -> None:
    database = MemoryDatabase()
    async with staged(database) as stage, trio.open_nursery() as nursery:
        nursery.start_soon(stage.tenure.run)
        await trio.sleep(1)
        with pytest.raises(StoreBusy):
            async with MemorySharedStore(
                database, host="here", lease=LEASE, world=SeededWorld(5)
            ).open():
                raise AssertionError
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("margin", [-1.0, float("nan"), float("inf")])
def test_a_margin_that_is_none_is_refused(margin: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        Tenure(
            MemorySharedJournal(MemoryDatabase(), "x", 1.0),
            SeededWorld(1),
            margin=margin,
            on_horizon=lambda _: None,
            on_fenced=lambda: None,
        )
