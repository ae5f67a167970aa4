"""Close goes in one order, once, within one budget, and the block waits for what is overdue."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf

import pytest
import trio
from owner_story import Adapter, Thing, caught, opened, outcome, stubborn
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from trio_reactor.errors import Closed, TimedOut
from trio_reactor.owner import CloseReport, Owner, OwnerOptions, open_owner

BUDGET = OwnerOptions(cleanup_timeout=5, retire_timeout=5)


# The order


async def test_close_goes_in_order(autojump_clock: MockClock) -> None:
    notes: list[str] = []

    async def drain() -> None:
        await trio.sleep(1)
        notes.append("drained")

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            notes.append("worker cancelled")

    class GivenUp(Thing):
        def note(self, what: str) -> None:
            super().note(f"{what}{' (closing)' if owner.closing.is_set else ''}")

    async with open_owner() as owner:
        owner.start_soon(work)
        owner.start_soon(drain, drain=True)
        await owner.acquire(opened(Thing(name="a", notes=notes, leaving=2)))
        await owner.acquire(opened(Thing(name="b", notes=notes, leaving=1)))
        owner.start(opened(GivenUp(name="c", notes=notes, opening=inf)))
        await wait_all_tasks_blocked()
        notes.clear()
        owner.on_closed(lambda report: notes.append("closed"))
    assert notes[:2] == ["c given up (closing)", "drained"]
    assert sorted(notes[2:4]) == ["a leaving", "b leaving"]  # side by side
    assert notes[4:] == ["b left", "a left", "worker cancelled", "closed"]


async def test_opening_attempts_are_joined_before_draining_ends(autojump_clock: MockClock) -> None:
    notes: list[str] = []

    @asynccontextmanager
    async def slow_to_give_up() -> AsyncIterator[None]:
        try:
            await trio.sleep_forever()
            yield
        finally:
            await stubborn(2)
            notes.append("joined")

    class Held(Thing):
        def note(self, what: str) -> None:
            notes.append(what)

    async with open_owner() as owner:
        await owner.acquire(Held)
        owner.start(slow_to_give_up)
        await wait_all_tasks_blocked()
        notes.clear()
    assert notes == ["joined", "leaving", "left"]


async def test_a_held_thing_can_still_use_a_worker_while_it_leaves(
    autojump_clock: MockClock,
) -> None:
    send, receive = trio.open_memory_channel[str](0)
    notes: list[str] = []

    async def courier() -> None:
        notes.append(await receive.receive())
        await trio.sleep_forever()

    @asynccontextmanager
    async def polite() -> AsyncIterator[None]:
        yield
        await send.send("goodbye")

    async with open_owner() as owner:
        owner.start_soon(courier)
        await owner.acquire(polite)
    assert notes == ["goodbye"]


async def test_nested_owners_close_from_the_inside_out() -> None:
    notes: list[str] = []
    async with open_owner("outer") as outer:
        await outer.acquire(opened(Thing(name="base", notes=notes)))
        inner_attempt = await outer.acquire(lambda: open_owner("inner"))
        inner = inner_attempt.value
        await inner.acquire(opened(Thing(name="built on it", notes=notes)))
        await outer.retire(inner_attempt)
        assert inner.report is not None
        assert notes[-2:] == ["built on it leaving", "built on it left"]
        with pytest.raises(Closed):
            inner.start(Thing)
        assert outer.statistics().held == 1


async def test_a_crash_in_an_owner_that_is_held_is_its_loss() -> None:
    crash = Adapter()
    lost: list[str | None] = []
    with caught() as leaving:
        async with open_owner("outer") as outer:
            attempt = await outer.acquire(
                lambda: open_owner("inner"), on_lost=lambda each: lost.append(each.reason)
            )
            attempt.value.fail(crash)
            await attempt.wait_ended()
            assert lost == ["lost"]
            assert attempt.failure is crash
    assert leaving.leaves == [crash]  # a defect


# Once, by whomever


async def test_close_by_many_runs_once_and_all_get_the_same_report(
    autojump_clock: MockClock,
) -> None:
    reports: list[object] = []
    async with open_owner() as owner:
        thing = Thing(leaving=2)
        await owner.acquire(opened(thing))

        async def close() -> None:
            reports.append(await owner.close())

        async with trio.open_nursery() as tasks:
            for _ in range(5):
                tasks.start_soon(close)
        with assert_checkpoints():
            reports.append(await owner.close())
    reports.append(await owner.close())
    assert thing.exits == 1
    assert len({id(report) for report in reports}) == 1
    report = reports[0]
    assert isinstance(report, CloseReport)
    assert report is owner.report
    assert (report.name, report.reason, report.duration) == ("owner", "close was called", 2)
    assert (report.acquired, report.lost, report.expired) == (1, 0, 0)
    assert (report.timed_out, report.failures, report.terminal) == ((), (), None)


async def test_a_closer_that_is_cancelled_leaves_and_close_goes_on(
    autojump_clock: MockClock,
) -> None:
    async with open_owner() as owner:
        thing = Thing(leaving=4)
        await owner.acquire(opened(thing))
        began = trio.current_time()
        with trio.move_on_after(1) as scope:
            await owner.close()
        assert scope.cancelled_caught
        assert thing.notes[-1] == "thing leaving"
        await owner.close()
        assert trio.current_time() == began + 4


async def test_close_begins_before_its_first_checkpoint(autojump_clock: MockClock) -> None:
    async with open_owner() as owner:
        await owner.acquire(opened(Thing(leaving=1)))
        with trio.CancelScope() as scope:
            scope.cancel()
            await owner.close()
        assert scope.cancelled_caught
        assert owner.closing.is_set
        assert owner.report is None


async def test_all_closers_get_the_same_failures_and_each_a_group_of_its_own() -> None:
    defect = Adapter()
    told: list[object] = []
    with caught() as leaving:
        async with open_owner() as owner:
            await owner.acquire(opened(Thing(complains=defect)))

            async def close() -> None:
                told.append(await outcome(owner.close()))

            async with trio.open_nursery() as tasks:
                for _ in range(3):
                    tasks.start_soon(close)
    told.extend((await outcome(owner.close()), leaving.error))
    for each in told:
        assert isinstance(each, ExceptionGroup)
        assert each.exceptions == (defect,)
    assert len({id(each) for each in told}) == 5
    assert owner.report is not None
    assert [failure.type for failure in owner.report.failures] == ["Adapter"]


async def test_a_body_that_raises_what_close_raised_raises_it_once() -> None:
    defect = Adapter()
    with caught() as leaving:
        async with open_owner() as owner:
            await owner.acquire(opened(Thing(complains=defect)))
            await owner.close()
    assert leaving.leaves == [defect]


# From inside


async def test_close_from_inside_is_refused_at_once() -> None:
    """By ancestry of nurseries: from workers, things, and whatever they start, however deep."""
    told: list[object] = []

    async def close(owner: Owner) -> None:
        told.append(await outcome(owner.close()))

    async def nested(owner: Owner) -> None:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(close, owner)

    async def in_an_owner_of_its_own(owner: Owner) -> None:
        async with open_owner("another") as another:
            another.start_soon(close, owner)
            await wait_all_tasks_blocked()

    async def started(owner: Owner) -> None:
        async def start(task_status: trio.TaskStatus[None]) -> None:
            await close(owner)
            task_status.started()

        await bodys.start(start)

    class Reentrant(Thing):
        async def __aenter__(self) -> Thing:
            await close(owner)
            return await super().__aenter__()

        async def wait_lost(self) -> None:
            await close(owner)
            await trio.sleep_forever()

        async def __aexit__(self, *error: object) -> bool | None:
            await close(owner)
            return await super().__aexit__(*error)  # type: ignore[arg-type]

    async with open_owner() as owner, trio.open_nursery() as bodys:
        for inside in (close, nested, in_an_owner_of_its_own, started):
            owner.start_soon(inside, owner)
        await wait_all_tasks_blocked()
        attempt = await owner.acquire(Reentrant)
        await wait_all_tasks_blocked()
        await owner.retire(attempt)
        assert [type(each) for each in told] == [RuntimeError] * 7
        assert not owner.stopping.is_set


async def test_a_task_in_a_nursery_of_the_bodys_may_close_whoever_put_it_there() -> None:
    for _ in range(5):
        reports: list[CloseReport] = []
        async with open_owner() as owner, trio.open_nursery() as bodys:

            async def close() -> None:
                reports.append(await owner.close())  # noqa: B023 - run in this turn of the loop

            async def delegate() -> None:
                bodys.start_soon(close)

            bodys.start_soon(close)
            owner.start_soon(delegate)
        assert len(reports) == 2


async def test_a_thing_whose_leaving_closes_its_owner_fails_and_hangs_nobody() -> None:
    @asynccontextmanager
    async def circular() -> AsyncIterator[None]:
        yield
        await owner.close()

    with caught() as leaving:
        async with open_owner() as owner:
            await owner.acquire(circular)
    (leaf,) = leaving.leaves
    assert isinstance(leaf, RuntimeError)


# The budget


async def test_what_hangs_while_it_leaves_is_cut_at_the_end_of_the_budget(
    autojump_clock: MockClock,
) -> None:
    with caught() as leaving:
        async with open_owner(options=BUDGET) as owner:
            await owner.acquire(opened(Thing(leaving=inf)), name="slow")
            await owner.acquire(opened(Thing(leaving=4)), name="quick")
            began = trio.current_time()
    assert trio.current_time() == began + 5
    (leaf,) = leaving.leaves
    assert isinstance(leaf, TimedOut)
    assert owner.report is not None
    assert owner.report.timed_out == ("slow",)
    assert owner.report.duration == 5


async def test_one_budget_runs_from_closing_on_for_all_of_it(autojump_clock: MockClock) -> None:
    """What drains eats into the time that things have to leave."""

    async def drain() -> None:
        await trio.sleep(4)

    with caught():
        async with open_owner(options=BUDGET) as owner:
            owner.start_soon(drain, drain=True)
            await owner.acquire(opened(Thing(leaving=2)), name="late")
            began = trio.current_time()
    assert trio.current_time() == began + 5
    assert owner.report is not None
    assert owner.report.timed_out == ("late",)


async def test_what_retires_at_close_has_the_budget_of_close_and_not_that_of_one_retirement(
    autojump_clock: MockClock,
) -> None:
    options = OwnerOptions(cleanup_timeout=10, retire_timeout=1)
    async with open_owner(options=options) as owner:
        await owner.acquire(opened(Thing(leaving=8)))
        began = trio.current_time()
    assert trio.current_time() == began + 8


async def test_one_retirement_has_a_budget_of_its_own_which_close_cuts_short(
    autojump_clock: MockClock,
) -> None:
    options = OwnerOptions(cleanup_timeout=3, retire_timeout=100)
    with caught() as leaving:
        async with open_owner(options=options) as owner:
            first = await owner.acquire(opened(Thing(leaving=90)))
            await owner.retire(first)
            second = await owner.acquire(opened(Thing(leaving=90)), name="second")
            second.request_retire()
            await trio.sleep(1)
            began = trio.current_time()
    assert trio.current_time() == began + 3
    assert owner.report is not None
    assert owner.report.timed_out == ("second",)
    assert [type(leaf) for leaf in leaving.leaves] == [TimedOut]


@pytest.mark.parametrize(("draining", "leaving", "took"), [(2, 4, 6), (2, 9, 7), (9, 4, 7)])
async def test_what_drains_can_have_a_budget_of_its_own_before_that_of_the_rest(
    draining: float, leaving: float, took: float, autojump_clock: MockClock
) -> None:
    options = OwnerOptions(cleanup_timeout=5, retire_timeout=5, drain_timeout=3)
    with caught() as raised:
        async with open_owner(options=options) as owner:
            owner.start_soon(trio.sleep, draining, drain=True)
            await owner.acquire(opened(Thing(leaving=leaving)), name="slow")
            await wait_all_tasks_blocked()
            began = trio.current_time()
    assert trio.current_time() == began + took
    assert owner.report is not None
    assert (owner.report.timed_out == ()) == (draining <= 3 and leaving <= 5)
    assert bool(raised.leaves) == (draining > 3 or leaving > 5)


@pytest.mark.parametrize("late", ["thing", "opening", "worker", "draining worker"])
async def test_the_block_waits_for_what_holds_out_beyond_its_budget_and_names_it(
    late: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    overdue: list[tuple[str, ...]] = []

    async def holds_out() -> None:
        await stubborn(8)

    async def observe(owner: Owner) -> None:
        await owner.closing.wait()
        await trio.sleep(4.9)
        overdue.append(owner.statistics().overdue)
        await trio.sleep(0.2)
        overdue.append(owner.statistics().overdue)

    caplog.set_level(logging.WARNING, "trio_reactor.owner")
    with caught() as leaving:
        async with trio.open_nursery() as tasks, open_owner(options=BUDGET) as owner:
            match late:
                case "thing":
                    await owner.acquire(opened(Thing(leaving=inf, holds_out=3)), name="it")
                case "opening":
                    owner.start(opened(Thing(opening=8, hardy=True)), name="it")
                case _:
                    owner.start_soon(holds_out, name="it", drain=late == "draining worker")
            await wait_all_tasks_blocked()
            tasks.start_soon(observe, owner)
            await wait_all_tasks_blocked()
            began = trio.current_time()
    assert trio.current_time() == began + 8
    assert overdue == [(), ("it",)]
    assert "owner waits for what is overdue: it" in caplog.text
    assert [type(leaf) for leaf in leaving.leaves] == [TimedOut]
    assert owner.report is not None
    assert owner.report.timed_out == ("it",)
    assert owner.statistics().overdue == ()


async def test_a_worker_is_not_blamed_for_the_time_that_a_thing_took(
    autojump_clock: MockClock,
) -> None:
    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            await stubborn(0.5)

    with caught() as leaving:
        async with open_owner(options=BUDGET) as owner:
            owner.start_soon(work)
            await owner.acquire(opened(Thing(leaving=inf)), name="slow")
    assert owner.report is not None
    assert owner.report.timed_out == ("slow",)
    assert len(leaving.leaves) == 1


async def test_many_that_are_late_are_named_up_to_a_bound(autojump_clock: MockClock) -> None:
    with caught():
        async with open_owner(options=BUDGET) as owner:
            for _ in range(40):
                await owner.acquire(opened(Thing(leaving=inf)))
    assert owner.report is not None
    assert len(owner.report.timed_out) == 33
    assert owner.report.timed_out[-1] == "and 8 more"


async def test_what_is_late_at_the_same_instant_is_told_whoever_runs_first(
    autojump_clock: MockClock,
) -> None:
    """Its own deadline and that of close are one and the same, and it leaves in that batch."""
    for _ in range(20):
        with caught():
            async with open_owner(options=BUDGET) as owner:
                await owner.acquire(opened(Thing(leaving=inf)), name="slow")
        assert owner.report is not None
        assert owner.report.timed_out == ("slow",)


@pytest.mark.parametrize("ending", ["returns", "raises", "is cancelled"])
async def test_nothing_outlives_the_block_however_it_is_left(
    ending: str, autojump_clock: MockClock
) -> None:
    things = [Thing(leaving=1), Thing(opening=inf), Thing(opening=1, hardy=True)]
    ended: list[str] = []

    async def work(
        how: Callable[[], Awaitable[object]],
    ) -> None:
        try:
            await how()
        finally:
            ended.append("worker")

    with trio.CancelScope() as scope, caught():
        async with open_owner() as owner:
            for thing in things:
                owner.start(opened(thing))
            owner.start_soon(work, trio.sleep_forever)
            owner.start_soon(work, trio.lowlevel.checkpoint, drain=True)
            await wait_all_tasks_blocked()
            if ending == "raises":
                raise Adapter
            if ending == "is cancelled":
                scope.cancel()
                await trio.sleep_forever()
    assert ended == ["worker", "worker"]
    assert not any(thing.is_open for thing in things)
    assert [thing.exits for thing in things] == [1, 0, 1]
    statistics = owner.statistics()
    assert (statistics.opening, statistics.held, statistics.leaving) == (0, 0, 0)
    assert statistics.workers == 0
