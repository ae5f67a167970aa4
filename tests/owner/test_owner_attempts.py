"""An attempt is one acquisition, alive in a task of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

import pytest
import trio
from owner_story import Adapter, Thing, caught, opened, outcome
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from trio_reactor.errors import Busy, Closed, Expired, Failed, Lost, Retired, TimedOut
from trio_reactor.owner import Attempt, EndReason, OwnerOptions, open_owner


async def test_one_task_of_the_owners_enters_keeps_and_leaves_it() -> None:
    thing = Thing()
    async with open_owner() as owner:
        attempt = await owner.acquire(opened(thing))
        assert attempt.value is thing
        await owner.retire(attempt)
    assert thing.entered_by is not None
    assert thing.entered_by is thing.left_by
    assert thing.entered_by is not trio.lowlevel.current_task()
    assert thing.notes == ["thing opening", "thing open", "thing leaving", "thing left"]


async def test_an_attempt_goes_from_opening_through_held_and_leaving_to_ended(
    autojump_clock: MockClock,
) -> None:
    async with open_owner() as owner:
        attempt = owner.start(opened(Thing(opening=2, leaving=3)), name="the thing")
        assert (attempt.name, attempt.phase, attempt.reason) == ("the thing", "opening", None)
        assert attempt.opened_at is None
        with pytest.raises(Busy) as busy:
            _ = attempt.value
        assert busy.value.retryable
        began = trio.current_time()
        thing = await attempt.wait_opened()
        assert (attempt.phase, attempt.reason) == ("held", None)
        assert attempt.opened_at == trio.current_time() == began + 2
        assert attempt.value is thing
        attempt.request_retire()
        assert (attempt.phase, attempt.reason) == ("leaving", "retired")
        with pytest.raises(Retired):
            _ = attempt.value
        end = await attempt.wait_ended()
        assert trio.current_time() == began + 5
        assert (attempt.phase, end.reason, end.failure) == ("ended", "retired", None)
        with pytest.raises(Retired):
            _ = attempt.value


async def test_acquiring_raises_the_acquisitions_own_failure_itself() -> None:
    refusal = ConnectionRefusedError("no")
    async with open_owner() as owner:
        with pytest.raises(ConnectionRefusedError) as raised:
            await owner.acquire(opened(Thing(refuses=refusal)))
    assert raised.value is refusal
    assert owner.report is not None
    assert owner.report.failures == ()


async def test_a_factory_that_raises_is_a_failed_acquisition() -> None:
    def factory() -> Thing:
        raise OSError("nowhere")

    async with open_owner() as owner:
        with pytest.raises(OSError, match="nowhere"):
            await owner.acquire(factory)


async def test_joiners_of_a_failed_opening_each_get_a_fresh_failed_and_the_acquirer_the_original(
    nursery: trio.Nursery,
) -> None:
    refusal = ConnectionRefusedError("no")
    told: list[object] = []

    async def join(attempt: Attempt[Thing]) -> None:
        told.append(await outcome(attempt.wait_opened()))

    async with open_owner() as owner:
        go = trio.Event()
        begun: list[Attempt[Thing]] = []

        def factory() -> Thing:
            return Thing(opening=go, refuses=refusal)

        async def acquire() -> None:
            with caught() as acquiring:
                await owner.acquire(factory)
            assert acquiring.error is refusal

        async with trio.open_nursery() as tasks:
            tasks.start_soon(acquire)
            await wait_all_tasks_blocked()
            begun.extend(owner._ledger.attempts)
            tasks.start_soon(join, begun[0])
            tasks.start_soon(join, begun[0])
            await wait_all_tasks_blocked()
            go.set()
        first, second = told
        assert first is not second
        for each in told:
            assert isinstance(each, Failed)
            assert each.__cause__ is refusal


async def test_the_acquirers_cancellation_ends_the_attempt_and_joins_its_clean_up(
    autojump_clock: MockClock,
) -> None:
    notes: list[str] = []

    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        try:
            await trio.sleep_forever()
            yield
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            notes.append("cleaned up")

    async with open_owner() as owner:
        began = trio.current_time()
        with trio.move_on_after(1) as scope:
            await owner.acquire(slow)
        assert scope.cancelled_caught
        assert notes == ["cleaned up"]
        assert trio.current_time() == began + 6
        assert owner.statistics().opening == 0


async def test_an_acquirer_cancelled_in_the_step_in_which_it_opens_leaves_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    for opens_first in (True, False):
        go = trio.Event()
        thing = Thing(opening=go, leaving=1)
        scope = trio.CancelScope()
        got: list[Attempt[Thing]] = []

        async with open_owner() as owner, trio.open_nursery() as tasks:

            async def acquire() -> None:
                with scope:  # noqa: B023 - run in this turn of the loop
                    got.append(await owner.acquire(opened(thing)))  # noqa: B023
                    await trio.lowlevel.checkpoint()

            tasks.start_soon(acquire)
            await wait_all_tasks_blocked()
            if opens_first:
                go.set()
                await trio.lowlevel.checkpoint()  # its task opens in this batch, or in the next
                scope.cancel()
            else:
                scope.cancel()
                go.set()
            with trio.move_on_after(2):
                await trio.sleep_forever()
            assert scope.cancelled_caught
            # Either it got the attempt, and is cancelled later, or nothing is left.
            assert len(got) == owner.statistics().held
            assert owner.statistics().leaving == owner.statistics().opening == 0


async def test_who_only_joined_leaves_alone_when_cancelled() -> None:
    go = trio.Event()
    async with open_owner() as owner:
        attempt = owner.start(opened(Thing(opening=go)))
        with trio.CancelScope() as scope:
            scope.cancel()
            await attempt.wait_opened()
        assert scope.cancelled_caught
        assert attempt.phase == "opening"
        go.set()
        await attempt.wait_opened()
        with trio.CancelScope() as scope:
            scope.cancel()
            await attempt.wait_ended()
        assert scope.cancelled_caught
        assert attempt.held


async def test_cancelling_who_waits_for_a_retirement_only_leaves(autojump_clock: MockClock) -> None:
    async with open_owner() as owner:
        attempt = await owner.acquire(opened(Thing(leaving=5)))
        with trio.move_on_after(1) as scope:
            await owner.retire(attempt)
        assert scope.cancelled_caught
        assert attempt.phase == "leaving"
        assert (await attempt.wait_ended()).reason == "retired"


async def test_retiring_while_it_opens_gives_the_opening_up_and_its_acquirer_gets_retired() -> None:
    thing = Thing(opening=trio.Event())
    async with open_owner() as owner, trio.open_nursery() as tasks:

        async def acquire() -> None:
            with pytest.raises(Retired):
                await owner.acquire(opened(thing))

        tasks.start_soon(acquire)
        await wait_all_tasks_blocked()
        (attempt,) = owner._ledger.attempts
        await owner.retire(attempt)
        assert attempt.reason == "retired"
        assert thing.notes == ["thing opening", "thing given up"]


async def test_cancel_gives_up_an_opening_and_does_nothing_to_what_is_open() -> None:
    async with open_owner() as owner:
        attempt = owner.start(opened(Thing(opening=trio.Event())))
        await wait_all_tasks_blocked()
        attempt.cancel()
        assert (await attempt.wait_ended()).reason == "retired"
        with pytest.raises(Retired):
            await attempt.wait_opened()

        held = await owner.acquire(opened(Thing()))
        held.cancel()
        await wait_all_tasks_blocked()
        assert held.held


async def test_what_opened_although_given_up_leaves_in_the_ordinary_way_and_can_await(
    autojump_clock: MockClock,
) -> None:
    reasons: tuple[EndReason, ...] = ("retired", "closed", "cancelled")
    for reason in reasons:
        thing = Thing(opening=1, hardy=True, leaving=3)
        async with open_owner() as owner:
            attempt = owner.start(opened(thing))
            await wait_all_tasks_blocked()
            began = trio.current_time()
            attempt._ask(reason)
            end = await attempt.wait_ended()
            assert (end.reason, end.failure) == (reason, None)
            assert trio.current_time() == began + 4
            assert thing.notes == ["thing opening", "thing open", "thing leaving", "thing left"]
            assert attempt.opened_at is None


async def test_what_opened_as_its_owner_stopped_leaves_and_its_caller_gets_closed(
    autojump_clock: MockClock,
) -> None:
    thing = Thing(opening=1, hardy=True, leaving=3)
    with trio.CancelScope() as scope:
        async with open_owner() as owner:
            told: list[object] = []

            async def acquire() -> None:
                told.append(await outcome(owner.acquire(opened(thing))))

            async def join() -> None:
                told.append(await outcome(next(iter(owner._ledger.attempts)).wait_opened()))

            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(acquire)
                    await wait_all_tasks_blocked()
                    tasks.start_soon(join)
                    await wait_all_tasks_blocked()
                    scope.cancel()
            assert [type(each) for each in told] == [Closed, Closed]
            assert thing.notes[-2:] == ["thing leaving", "thing left"]
            assert not owner.closing.is_set


async def test_the_factory_is_not_called_once_stopping_rose_although_the_attempt_was_admitted() -> (
    None
):
    """Whichever comes first in the batch that follows: the sentinel, close, or the new task."""
    called = 0

    def factory() -> Thing:
        nonlocal called
        called += 1
        return Thing()

    for _ in range(20):  # Trio shuffles each batch
        with trio.CancelScope() as scope:
            async with open_owner() as owner:
                attempt = owner.start(factory)
                scope.cancel()
                with trio.CancelScope(shield=True):
                    await attempt.wait_ended()
        assert (attempt.phase, attempt.reason, attempt.failure) == ("ended", "closed", None)

        async with open_owner() as owner:
            attempt = owner.start(factory)
        assert (attempt.phase, attempt.reason, attempt.failure) == ("ended", "closed", None)

        async with open_owner() as owner:
            attempt = owner.start(factory)
            attempt.cancel()
            await attempt.wait_ended()
    assert called == 0


async def test_a_value_is_handed_over_only_if_it_is_still_held_when_the_caller_runs() -> None:
    """It opens, and in the very same batch it is retired, or dies, before its acquirer runs."""

    class Brief(Thing):
        async def wait_lost(self) -> None:
            raise ConnectionResetError

    for _ in range(20):
        async with open_owner() as owner:
            with pytest.raises(Lost) as lost:
                await owner.acquire(opened(Brief()))
            assert isinstance(lost.value.__cause__, ConnectionResetError)

            go = trio.Event()
            told: list[object] = []

            async def acquire() -> None:
                told.append(await outcome(owner.acquire(opened(Thing(opening=go)))))  # noqa: B023

            async with trio.open_nursery() as tasks:
                tasks.start_soon(acquire)
                await wait_all_tasks_blocked()
                (attempt,) = owner._ledger.attempts
                go.set()
                while not attempt.held:
                    await trio.lowlevel.checkpoint()
                attempt.request_retire()
            # The acquirer may have run in the batch in which the thing was found held.
            assert isinstance(told[0], Retired) or told[0] is attempt
        assert owner.report is not None
        assert owner.report.failures == ()


async def test_a_second_retirement_waits_for_the_first_and_only_one_gets_the_original(
    autojump_clock: MockClock,
) -> None:
    complaint = OSError("still in use")
    told: list[object] = []
    async with open_owner() as owner:
        attempt = await owner.acquire(opened(Thing(leaving=2, complains=complaint)))

        async def retire() -> None:
            told.append(await outcome(owner.retire(attempt)))

        async with trio.open_nursery() as tasks:
            for _ in range(3):
                tasks.start_soon(retire)
        told.append(await outcome(owner.retire(attempt)))
        assert told[0] is complaint
        for each in told[1:]:
            assert isinstance(each, Failed)
            assert each.__cause__ is complaint
        assert len({id(each) for each in told}) == 4


async def test_retiring_what_dies_in_the_same_step_tells_why_it_died() -> None:
    failure = ConnectionResetError()
    for _ in range(10):
        async with open_owner() as owner:
            thing = Thing()
            attempt = await owner.acquire(opened(thing))
            thing.die(failure)
            with caught() as retiring:
                await owner.retire(attempt)
            assert failure in retiring.leaves
            assert attempt.reason in ("retired", "lost")


async def test_an_acquirer_gets_the_original_even_if_somebody_retires_it_at_once() -> None:
    refusal = ConnectionRefusedError()
    for _ in range(10):
        told: dict[str, object] = {}
        go = trio.Event()
        async with open_owner() as owner, trio.open_nursery() as tasks:

            async def acquire() -> None:
                thing = Thing(opening=go, refuses=refusal)  # noqa: B023 - run in this turn
                told["acquirer"] = await outcome(owner.acquire(opened(thing)))  # noqa: B023

            async def retire(attempt: Attempt[Thing]) -> None:
                while attempt.phase == "opening":
                    await trio.lowlevel.checkpoint()
                told["retirer"] = await outcome(owner.retire(attempt))  # noqa: B023

            tasks.start_soon(acquire)
            await wait_all_tasks_blocked()
            tasks.start_soon(retire, next(iter(owner._ledger.attempts)))
            await trio.lowlevel.checkpoint()
            go.set()
        assert told["acquirer"] is refusal
        assert isinstance(told["retirer"], Failed)


async def test_a_stray_cancellation_out_of_a_thing_is_a_defect_and_ends_nothing_else() -> None:
    stolen: list[BaseException] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            stolen.append(cancelled)
            raise
    with caught() as leaving:
        async with open_owner() as owner:
            other = await owner.acquire(opened(Thing()))
            with pytest.raises(RuntimeError, match="not its own"):
                await owner.acquire(opened(Thing(refuses=stolen[0])))
            await wait_all_tasks_blocked()
            assert other.held
            assert not owner.stopping.is_set
    assert [type(leaf) for leaf in leaving.leaves] == [RuntimeError]


async def test_what_waits_is_a_checkpoint_even_if_there_is_nothing_to_wait_for() -> None:
    async with open_owner() as owner:
        with assert_checkpoints():
            attempt = await owner.acquire(opened(Thing()))
        with assert_checkpoints():
            await attempt.wait_opened()
        with assert_checkpoints():
            await owner.retire(attempt)
        with assert_checkpoints():
            await owner.retire(attempt)
        with assert_checkpoints():
            await attempt.wait_ended()
        with assert_checkpoints():
            async with owner.hold(Thing):
                pass
        failed = owner.start(opened(Thing(refuses=OSError())))
        await failed.wait_ended()
        with assert_checkpoints(), pytest.raises(Failed):
            await failed.wait_opened()


async def test_an_attempt_that_ignores_its_budget_is_told_as_timed_out_to_who_retired_it(
    autojump_clock: MockClock,
) -> None:
    async with open_owner(options=OwnerOptions(retire_timeout=2)) as owner:
        attempt = await owner.acquire(opened(Thing(leaving=inf)), name="slow")
        began = trio.current_time()
        with pytest.raises(TimedOut, match="slow did not leave within its budget"):
            await owner.retire(attempt)
        assert trio.current_time() == began + 2
    assert owner.report is not None
    assert owner.report.failures == ()
    assert owner.report.timed_out == ()


async def test_what_goes_wrong_twice_in_one_attempt_is_one_group_of_both(
    autojump_clock: MockClock,
) -> None:
    class Watched(Thing):
        async def wait_lost(self) -> None:
            raise reset

    reset, complaint = ConnectionResetError(), Adapter()
    with caught() as leaving:
        async with open_owner() as owner:
            attempt = owner.start(opened(Watched(complains=complaint)), name="it")
            end = await attempt.wait_ended()
            assert isinstance(end.failure, BaseExceptionGroup)
            assert [*end.failure.exceptions] == [reset, complaint]
            with pytest.raises(Lost) as lost:
                _ = attempt.value
            assert lost.value.__cause__ is end.failure
    assert leaving.leaves == [reset, complaint]


async def test_a_lifetime_that_is_not_a_number_is_refused_before_anything_is_opened() -> None:
    async with open_owner() as owner:
        with pytest.raises(ValueError, match="lifetime"):
            owner.start(Thing, lifetime=float("nan"))
        attempt = await owner.acquire(Thing)
        with pytest.raises(ValueError, match="lifetime"):
            attempt.set_lifetime(float("nan"))
        assert owner.statistics().acquired == 1


async def test_a_lifetime_that_is_over_before_it_began_expires_at_once() -> None:
    for lifetime in (0.0, -1.0, -inf):
        async with open_owner() as owner:
            attempt = owner.start(Thing, lifetime=lifetime)
            assert (await attempt.wait_ended()).reason == "expired"
            with pytest.raises(Expired):
                _ = attempt.value
