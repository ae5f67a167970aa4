"""A worker is a task of the owner's, shielded, whose crash is the owner's terminal failure."""

from __future__ import annotations

import pytest
import trio
from owner_story import Adapter, Thing, caught, opened, outcome
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_reactor.errors import Closed, Failed, Overflow, Retired, TimedOut
from trio_reactor.owner import Owner, OwnerOptions, open_owner


async def test_a_worker_that_returns_is_done() -> None:
    ran: list[int] = []

    async def work(number: int) -> str:
        ran.append(number)
        return "ignored"

    async with open_owner() as owner:
        owner.start_soon(work, 1)
        owner.start_soon(work, 2, name="second", drain=True)
        assert owner.statistics().workers == 2
        await wait_all_tasks_blocked()
        assert owner.statistics().workers == 0
        assert not owner.stopping.is_set
    assert sorted(ran) == [1, 2]


async def test_a_crash_is_claimed_and_cancels_the_body_and_the_block_raises_the_original() -> None:
    crash = Adapter("worker")
    cleaned_up = False

    async def work() -> None:
        raise crash

    with caught() as leaving:
        async with open_owner() as owner:
            owner.start_soon(work)
            try:
                await trio.sleep_forever()
            finally:
                cleaned_up = True
                assert owner.failure is crash
                assert owner.stopping.is_set
                assert not owner.closing.is_set  # its last commands could be issued here
    assert cleaned_up
    assert leaving.error is crash


async def test_state_and_queues_carry_the_crash_before_any_waiter_runs() -> None:
    """Callbacks run in the claiming step; the fence and the failure are up by then."""
    seen: list[object] = []

    async def work() -> None:
        await trio.lowlevel.checkpoint()
        raise Adapter

    async def wait(owner: Owner) -> None:
        await owner.stopping.wait()
        seen.append("a waiter")

    with pytest.raises(Adapter):
        async with open_owner() as owner:

            def claimed(failure: BaseException) -> None:
                assert owner.failure is failure
                assert owner.stopping.is_set
                with pytest.raises(Failed):
                    owner.check()
                seen.append("a queue")

            owner.on_failed(claimed)
            owner.on_failed(claimed)
            owner.start_soon(wait, owner)
            await wait_all_tasks_blocked()
            owner.start_soon(work)
            await trio.sleep_forever()
    assert seen == ["a queue", "a queue", "a waiter"]


async def test_the_first_crash_wins_and_a_later_one_is_for_close() -> None:
    crashes = [Adapter("first"), Adapter("second"), Adapter("third")]

    async def work(crash: Exception) -> None:
        raise crash

    with caught() as leaving:
        async with open_owner() as owner:
            for crash in crashes:
                owner.start_soon(work, crash)
            await trio.sleep_forever()
    assert isinstance(leaving.error, ExceptionGroup)
    assert owner.failure is leaving.error.exceptions[0]
    assert sorted(leaving.leaves, key=id) == sorted(crashes, key=id)


async def test_one_crash_raised_by_two_workers_is_told_once() -> None:
    crash = Adapter()

    async def work() -> None:
        raise crash

    async def gather() -> None:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(work)
            tasks.start_soon(work)

    with caught() as leaving:
        async with open_owner() as owner:
            owner.start_soon(work)
            owner.start_soon(work)
            owner.start_soon(gather)
            await trio.sleep_forever()
    assert leaving.leaves == [crash]


async def test_a_crash_may_be_a_failure_that_is_expected_elsewhere() -> None:
    crash = ConnectionResetError()

    async def work() -> None:
        raise crash

    with caught() as leaving:
        async with open_owner() as owner:
            owner.start_soon(work)
            await trio.sleep_forever()
    assert leaving.error is crash


async def test_a_worker_is_shielded_from_the_surroundings_until_close(
    autojump_clock: MockClock,
) -> None:
    notes: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            notes.append("worker")

    with trio.CancelScope() as scope:
        async with open_owner() as owner:
            owner.start_soon(work)
            await wait_all_tasks_blocked()
            scope.cancel()
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(5)
                notes.append("body")
    assert notes == ["body", "worker"]
    assert scope.cancelled_caught


async def test_a_worker_ended_by_close_is_no_failure_but_what_its_clean_up_raises_is() -> None:
    crash = Adapter()

    async def stop() -> None:
        await trio.sleep_forever()

    async def stumble() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise crash

    async with open_owner() as owner:
        owner.start_soon(stop)
        await wait_all_tasks_blocked()
    with caught() as leaving:
        async with open_owner() as owner:
            owner.start_soon(stumble)
            await wait_all_tasks_blocked()
    assert owner.failure is None
    assert leaving.leaves == [crash]


async def test_workers_are_refused_once_close_began_and_not_before() -> None:
    async def work() -> None:
        pass

    with trio.CancelScope() as scope:
        async with open_owner() as owner:
            scope.cancel()
            assert owner.stopping.is_set
            owner.start_soon(work)  # the body's own clean-up may need one
            assert owner.statistics().workers == 1
    with pytest.raises(Closed):
        owner.start_soon(work)


async def test_who_starts_work_in_the_step_of_the_crash_gets_failed_from_it() -> None:
    crash = Adapter()

    async def work() -> None:
        pass

    with caught() as leaving:
        async with open_owner() as owner:
            assert owner.fail(crash)
            assert not owner.fail(Adapter())
            with trio.CancelScope(shield=True):
                told = [await outcome(owner.acquire(Thing))]
            for command in (
                owner.check,
                lambda: owner.start_soon(work),
                lambda: owner.start(Thing),
            ):
                with pytest.raises(Failed) as failed:
                    command()
                told.append(failed.value)
            assert len({id(each) for each in told}) == 4
            for each in told:
                assert isinstance(each, Failed)
                assert each.__cause__ is crash
    assert leaving.leaves[0] is crash
    assert len(leaving.leaves) == 2


async def test_a_worker_started_in_the_step_of_the_crash_is_cancelled_with_the_others() -> None:
    notes: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            notes.append("ended")

    with pytest.raises(Adapter):
        async with open_owner() as owner:
            owner.start_soon(work)
            owner.fail(Adapter())
            await trio.sleep_forever()
    assert notes == ["ended"]


async def test_a_worker_may_hold_something_to_its_end() -> None:
    """At close its block is cut, and the `Retired` that comes out of it is no crash."""
    thing = Thing()

    async def serve(owner: Owner) -> None:
        while True:
            async with owner.hold(opened(thing)):
                await trio.sleep_forever()

    async with open_owner() as owner:
        owner.start_soon(serve, owner)
        await wait_all_tasks_blocked()
        assert thing.is_open
    assert owner.report is not None
    assert owner.report.failures == ()


async def test_a_worker_that_is_told_that_its_owner_stops_did_not_crash() -> None:
    async def restless(owner: Owner) -> None:
        while True:
            await owner.retire(await owner.acquire(Thing))

    with trio.CancelScope() as scope:
        async with open_owner() as owner:
            owner.start_soon(restless, owner)
            await wait_all_tasks_blocked_for_a_while()
            scope.cancel()
            with trio.CancelScope(shield=True):
                await wait_all_tasks_blocked()
            assert owner.statistics().workers == 0
            assert owner.failure is None
    with caught() as leaving:
        async with open_owner() as owner:
            owner.start_soon(restless, owner)
            owner.start_soon(restless, owner)
            await wait_all_tasks_blocked_for_a_while()
            owner.fail(crash := Adapter())
            await trio.sleep_forever()
    assert leaving.error is crash


async def wait_all_tasks_blocked_for_a_while() -> None:
    for _ in range(20):
        await trio.lowlevel.checkpoint()


async def test_somebody_elses_closed_or_retired_is_a_crash() -> None:
    for kind in (Closed, Retired):
        crash = kind("another's")

        async def work(crash: Exception = crash) -> None:
            raise crash

        with caught() as leaving:
            async with open_owner() as owner:
                owner.start_soon(work)
                await trio.sleep_forever()
        assert leaving.error is crash


async def test_what_went_wrong_with_a_thing_is_not_lost_with_the_worker_that_held_it() -> None:
    complaint = OSError("complaint")

    async def serve(owner: Owner) -> None:
        async with owner.hold(opened(Thing(complains=complaint))):
            await trio.sleep_forever()

    with caught() as leaving:
        async with open_owner() as owner:
            owner.start_soon(serve, owner)
            await wait_all_tasks_blocked()
    (leaf,) = leaving.leaves
    assert isinstance(leaf, Retired)
    assert leaf.__cause__ is complaint


async def test_a_stray_cancellation_out_of_a_worker_is_a_crash_and_no_silence() -> None:
    stolen: list[BaseException] = []

    async def steal() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as cancelled:
                stolen.append(cancelled)
                raise

    async def work() -> None:
        raise stolen[0]

    await steal()
    with pytest.raises(RuntimeError, match="not its own"):
        async with open_owner() as owner:
            owner.start_soon(work)
            await trio.sleep_forever()


async def test_a_draining_worker_finishes_before_anything_held_retires(
    autojump_clock: MockClock,
) -> None:
    notes: list[str] = []
    thing = Thing(notes=notes)

    async def drain() -> None:
        await trio.sleep(5)
        assert thing.is_open
        notes.append("drained")

    async def serve() -> None:
        try:
            await trio.sleep_forever()
        finally:
            notes.append("served")

    async with open_owner() as owner:
        await owner.acquire(opened(thing))
        owner.start_soon(drain, drain=True)
        owner.start_soon(serve)
        await wait_all_tasks_blocked()
        notes.clear()
    assert notes == ["drained", "thing leaving", "thing left", "served"]


async def test_draining_past_the_budget_is_cut_and_told(autojump_clock: MockClock) -> None:
    async def drain() -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    with caught() as leaving:
        async with open_owner(options=OwnerOptions(cleanup_timeout=3)) as owner:
            owner.start_soon(drain, name="slow", drain=True)
    assert trio.current_time() == began + 3
    (leaf,) = leaving.leaves
    assert isinstance(leaf, TimedOut)
    assert leaf.message == "slow did not finish within the budget of close"
    assert owner.report is not None
    assert owner.report.timed_out == ("slow",)


async def test_workers_have_a_bound() -> None:
    async with open_owner(options=OwnerOptions(max_workers=2)) as owner:
        owner.start_soon(trio.sleep_forever)
        owner.start_soon(trio.sleep_forever)
        with pytest.raises(Overflow, match="max_workers=2"):
            owner.start_soon(trio.sleep_forever)
        assert owner.statistics().workers == 2


async def test_a_callback_that_raises_is_a_defect_and_hinders_nothing() -> None:
    crash, defect = Adapter("crash"), Adapter("defect")
    seen: list[BaseException] = []

    def stumble(_: object) -> None:
        raise defect

    with caught() as leaving:
        async with open_owner() as owner:
            owner.on_failed(stumble)
            owner.on_failed(seen.append)
            owner.fail(crash)
            await trio.sleep_forever()
    assert seen == [crash]
    assert leaving.leaves == [crash, defect]


async def test_a_cancellation_is_no_failure_and_an_owner_cannot_fail_with_one() -> None:
    crash = Adapter()
    with caught() as leaving:
        async with open_owner() as owner:
            claimed: list[bool] = []
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    await trio.lowlevel.checkpoint()
                except trio.Cancelled as cancelled:
                    claimed.append(owner.fail(cancelled))
                    claimed.append(owner.fail(BaseExceptionGroup("mixed", [cancelled, crash])))
                    raise
            assert claimed == [False, True]
            await trio.sleep_forever()
    assert leaving.leaves == [crash]


async def test_a_callback_that_comes_late_is_called_at_once() -> None:
    crash = Adapter()
    seen: list[object] = []
    with caught():
        async with open_owner() as owner:
            owner.fail(crash)
            owner.on_failed(seen.append)
            assert seen == [crash]
    owner.on_closed(seen.append)
    assert seen == [crash, owner.report]
