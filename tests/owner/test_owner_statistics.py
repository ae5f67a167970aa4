"""Its statistics tell what is held and waited for, and nothing is kept beyond what they tell."""

from __future__ import annotations

import gc
import weakref
from math import inf

import pytest
import trio
from owner_story import Adapter, Thing, caught, collected, opened, outcome
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_reactor.errors import Lost, Overflow, Refused
from trio_reactor.owner import Owner, OwnerOptions, OwnerStatistics, open_owner


async def test_statistics_tell_what_is_opening_held_leaving_and_at_work(
    autojump_clock: MockClock,
) -> None:
    async with open_owner() as owner:
        assert owner.statistics() == OwnerStatistics(
            opening=0,
            held=0,
            leaving=0,
            workers=0,
            waiting=0,
            acquired=0,
            lost=0,
            expired=0,
            failures_retained=0,
            failures_omitted=0,
            stopping=None,
            closing=None,
            overdue=(),
        )
        thing = Thing()
        await owner.acquire(opened(thing))
        await owner.acquire(Thing)
        attempt = await owner.acquire(opened(Thing(leaving=5)))
        attempt.request_retire()
        opening = owner.start(opened(Thing(opening=trio.Event())))
        late = owner.start(opened(Thing(opening=3, hardy=True, leaving=1)))
        await wait_all_tasks_blocked()
        late.cancel()
        owner.start_soon(trio.sleep_forever)
        statistics = owner.statistics()
        assert (statistics.opening, statistics.held, statistics.leaving) == (2, 2, 1)
        assert (statistics.workers, statistics.acquired) == (1, 3)
        thing.vanish()
        await owner.retire(opening)
        await trio.sleep(3.5)
        statistics = owner.statistics()
        assert (statistics.opening, statistics.held, statistics.leaving) == (0, 1, 2)
        assert (statistics.lost, statistics.acquired) == (1, 4)
        await trio.sleep(3)
        expiring = owner.start(Thing, lifetime=1)
        await expiring.wait_ended()
        statistics = owner.statistics()
        assert (statistics.held, statistics.leaving, statistics.expired) == (1, 0, 1)
        await owner.close()
        statistics = owner.statistics()
        assert (statistics.held, statistics.workers) == (0, 0)
        assert statistics.stopping == statistics.closing == "close was called"


async def test_statistics_tell_how_many_wait_for_an_attempt_or_for_close(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as tasks, open_owner() as owner:
        attempt = owner.start(opened(Thing(opening=1, leaving=1)))
        for wait in (attempt.wait_opened, attempt.wait_ended):
            tasks.start_soon(wait)
        tasks.start_soon(owner.acquire, opened(Thing(opening=1)))
        await wait_all_tasks_blocked()
        assert owner.statistics().waiting == 3
        await trio.sleep(1.5)
        assert owner.statistics().waiting == 1
        tasks.start_soon(owner.close)
        tasks.start_soon(owner.close)
        await wait_all_tasks_blocked()
        assert owner.statistics().waiting == 3
    assert owner.statistics().waiting == 0


async def test_a_single_retirement_that_is_overdue_is_named_before_close_too(
    autojump_clock: MockClock,
) -> None:
    async with open_owner(options=OwnerOptions(retire_timeout=2)) as owner:
        attempt = await owner.acquire(opened(Thing(holds_out=5)), name="slow")
        attempt.request_retire()
        await trio.sleep(1)
        assert owner.statistics().overdue == ()
        await trio.sleep(2)
        assert owner.statistics().overdue == ("slow",)
        assert owner.statistics().leaving == 1
        await attempt.wait_ended()
        assert owner.statistics().overdue == ()


async def test_attempts_have_a_bound_that_counts_what_is_leaving(
    autojump_clock: MockClock,
) -> None:
    async with open_owner(options=OwnerOptions(max_attempts=2)) as owner:
        first = await owner.acquire(opened(Thing(leaving=3)))
        await owner.acquire(Thing)
        first.request_retire()
        with pytest.raises(Overflow, match="max_attempts=2"):
            owner.start(Thing)
        with pytest.raises(Overflow):
            await owner.acquire(Thing)
        await first.wait_ended()
        await owner.acquire(Thing)


@pytest.mark.parametrize(
    "options",
    [
        {"cleanup_timeout": 0},
        {"retire_timeout": -1},
        {"drain_timeout": 0},
        {"cleanup_timeout": inf},
        {"max_attempts": 0},
        {"max_workers": 0},
        {"retained_failures": 0},
        {"unknown": 1},
        {"cleanup_timeout": "5"},
        {"retire_timeout": True},
        {"max_workers": 1.0},
    ],
    ids=str,
)
def test_a_wrong_option_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        OwnerOptions.model_validate(options)


async def test_what_was_retired_is_gone_when_nobody_refers_to_it() -> None:
    """Without the garbage collector: nothing of it is in a cycle."""
    async with open_owner() as owner:
        await owner.retire(await owner.acquire(Thing))
        with collected():
            thing = Thing()
            gone = weakref.ref(thing)
            attempt = await owner.acquire(opened(thing))
            gone_too = weakref.ref(attempt)
            del thing
            await owner.retire(attempt)
            del attempt
            await trio.lowlevel.checkpoint()
            assert gone() is None
            assert gone_too() is None

            async with owner.hold(Thing) as held:
                gone = weakref.ref(held)
                del held
            await trio.lowlevel.checkpoint()
            assert gone() is None


async def test_what_failed_and_was_handled_is_gone_when_nobody_refers_to_it() -> None:
    """An attempt keeps its failure, whose traceback must not keep the attempt."""

    class Refusing(Thing):
        async def __aenter__(self) -> Thing:
            raise Refused("no")

    async def fail(owner: Owner) -> list[weakref.ref[object]]:
        thing = Refusing()
        try:
            await owner.acquire(opened(thing))
        except Refused as refusal:
            return [weakref.ref(thing), weakref.ref(refusal)]
        raise AssertionError

    async with open_owner() as owner:
        await fail(owner)
        with collected():
            gone = await fail(owner)
            await trio.lowlevel.checkpoint()
            assert [each() for each in gone] == [None, None]

            attempt = owner.start(Refusing)
            await attempt.wait_ended()
            gone = [weakref.ref(attempt)]
            del attempt
            await trio.lowlevel.checkpoint()
            assert [each() for each in gone] == [None]


async def test_a_thing_does_not_remember_who_used_it() -> None:
    async with open_owner() as owner:
        attempt = await owner.acquire(Thing)
        using = attempt.using()
        gone = weakref.ref(using._scope)
        with collected():
            with using:
                await trio.lowlevel.checkpoint()
            del using
            assert gone() is None


async def test_failures_that_were_received_keep_nothing_alive() -> None:
    async with open_owner() as owner:
        for _ in range(3):
            thing = Thing(refuses=OSError())
            gone = weakref.ref(thing)
            told = await outcome(owner.acquire(opened(thing)))
            lost = Thing()
            gone_too = weakref.ref(lost)
            with pytest.raises(Lost):
                async with owner.hold(opened(lost)):
                    lost.die(OSError())
                    await trio.sleep_forever()
            del thing, lost, told
            await trio.lowlevel.checkpoint()
            gc.collect()
            assert gone() is None
            assert gone_too() is None


async def test_a_closed_owner_keeps_none_of_its_things() -> None:
    with caught():
        async with open_owner() as owner:
            thing = Thing()
            gone = weakref.ref(thing)
            attempt = await owner.acquire(opened(thing))
            del thing
            owner.fail(Adapter())
    gc.collect()
    assert gone() is None
    assert attempt.phase == "ended"
    assert owner.report is not None
