"""Every failure is told once: to whoever received it, or by close, and a defect always by close."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Self

import pytest
import trio
from owner_story import Adapter, Thing, caught, opened, outcome
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_reactor.errors import Closed, Failed, Lost, ReactorError, Refused, Retired, TimedOut
from trio_reactor.owner import Attempt, Owner, OwnerOptions, open_owner

EXPECTED = [
    Refused("no"),
    Lost("gone"),
    OSError("reset"),
    trio.BrokenResourceError(),
    trio.ClosedResourceError(),
    trio.BusyResourceError(),
    trio.TooSlowError(),
    ExceptionGroup("all of them", [OSError(), ExceptionGroup("", [trio.TooSlowError()])]),
]
DEFECTS = [
    TypeError("a bug"),
    Adapter("undeclared"),
    ExceptionGroup("one of them", [OSError(), TypeError()]),
]


@pytest.mark.parametrize("failure", EXPECTED, ids=repr)
async def test_an_expected_failure_that_was_raised_to_a_caller_is_theirs(
    failure: Exception,
) -> None:
    async with open_owner() as owner:
        assert await outcome(owner.acquire(opened(Thing(refuses=failure)))) is failure
        thing = await owner.acquire(opened(Thing(complains=failure)))
        assert await outcome(owner.retire(thing)) is failure
    assert owner.report is not None
    assert owner.report.failures == ()


@pytest.mark.parametrize("failure", [*EXPECTED, *DEFECTS], ids=repr)
async def test_what_nobody_received_is_told_by_close(failure: Exception) -> None:
    for thing in (Thing(refuses=failure), Thing(complains=failure)):
        with caught() as leaving:
            async with open_owner() as owner:
                owner.start(opened(thing))
                await wait_all_tasks_blocked()
        assert set(leaving.leaves) == set(_leaves(failure))
        assert owner.report is not None
        assert len(owner.report.failures) == 1


@pytest.mark.parametrize("failure", DEFECTS, ids=repr)
async def test_a_defect_is_told_by_close_whoever_received_it(failure: Exception) -> None:
    with caught() as leaving:
        async with open_owner() as owner:
            assert await outcome(owner.acquire(opened(Thing(refuses=failure)))) is failure
    assert leaving.leaves == _leaves(failure)


async def test_what_an_adapter_declares_is_expected_beside_it() -> None:
    declared = Adapter("declared")
    async with open_owner() as owner:
        with pytest.raises(Adapter):
            await owner.acquire(opened(Thing(refuses=declared)), expected=(Adapter,))
        group = ExceptionGroup("", [Adapter(), OSError()])
        told = await outcome(owner.acquire(opened(Thing(refuses=group)), expected=(Adapter,)))
        assert told is group
        with caught() as holding:
            async with owner.hold(opened(Thing(complains=Adapter())), expected=(Adapter,)):
                pass
        assert isinstance(holding.error, Adapter)
    assert owner.report is not None
    assert owner.report.failures == ()


async def test_whoever_waits_for_the_end_has_received_it_in_the_step_in_which_it_came() -> None:
    """Close may conclude in the very batch in which the waiters run, before or after them."""

    async def retire(attempt: Attempt[Thing]) -> None:
        await attempt._owner.retire(attempt)

    waits: tuple[Callable[[Attempt[Thing]], Awaitable[object]], ...]
    waits = (Attempt.wait_ended, retire, Attempt.wait_opened)
    for wait in waits:
        for _ in range(10):
            complaint = OSError()
            told: list[object] = []
            async with trio.open_nursery() as tasks, open_owner() as owner:
                thing = Thing(refuses=complaint if wait is Attempt.wait_opened else None)
                thing._complains = complaint
                attempt = owner.start(opened(thing))

                async def receive() -> None:
                    told.append(await outcome(wait(attempt)))  # noqa: B023

                if wait is Attempt.wait_opened:
                    tasks.start_soon(receive)
                else:
                    await attempt.wait_opened()
                    tasks.start_soon(receive)
                if wait is not retire:
                    await trio.lowlevel.checkpoint()
            assert owner.report is not None
            assert len(told) == 1
            heard = told[0]
            if isinstance(heard, Closed):
                continue  # given up before it could fail
            theirs = [heard, getattr(heard, "failure", None), getattr(heard, "__cause__", None)]
            assert complaint in theirs


async def test_a_block_that_waits_for_its_thing_has_received_its_failure_too(
    autojump_clock: MockClock,
) -> None:
    for _ in range(20):  # Trio shuffles the batch in which close may conclude before it
        complaint = OSError()
        told: list[object] = []
        async with trio.open_nursery() as tasks, open_owner() as owner:

            async def hold() -> None:
                thing = Thing(leaving=1, complains=complaint)  # noqa: B023 - run in this turn
                told.append(await outcome(_enter(owner, opened(thing))))  # noqa: B023

            tasks.start_soon(hold)
            await wait_all_tasks_blocked()
        (retired,) = told
        assert isinstance(retired, Retired)
        assert retired.__cause__ is complaint
        assert owner.report is not None
        assert owner.report.failures == ()


async def test_an_acquirer_that_was_woken_has_received_what_became_of_it_before_it_runs() -> None:
    class Quick:
        """It opens, is lost and leaves in one and the same step."""

        def __init__(self, go: trio.Event) -> None:
            self._go = go

        async def __aenter__(self) -> Self:
            await self._go.wait()
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        async def wait_lost(self) -> None:
            raise ConnectionResetError

    lost = 0
    for _ in range(60):
        go = trio.Event()
        told: list[object] = []
        async with trio.open_nursery() as tasks, open_owner() as owner:

            async def acquire() -> None:
                told.append(await outcome(owner.acquire(lambda: Quick(go))))  # noqa: B023

            tasks.start_soon(acquire)
            await wait_all_tasks_blocked()
            go.set()
            await trio.lowlevel.checkpoint()
        lost += isinstance(told[0], Lost)
        assert isinstance(told[0], Lost | Closed)
        assert owner.report is not None
        assert owner.report.failures == ()
    assert lost


async def test_who_is_cancelled_before_it_came_has_not_received_it(
    autojump_clock: MockClock,
) -> None:
    complaint = OSError()
    with caught() as leaving:
        async with open_owner() as owner:
            attempt = await owner.acquire(opened(Thing(leaving=2, complains=complaint)))
            with trio.move_on_after(1):
                await owner.retire(attempt)
            with trio.move_on_after(2):
                await trio.sleep_forever()
    assert leaving.leaves == [complaint]


async def test_an_acquirer_that_is_cancelled_leaves_its_failure_to_close() -> None:
    complaint = OSError()

    class Complains(Thing):
        async def __aenter__(self) -> Thing:
            try:
                await trio.sleep_forever()
            finally:
                raise complaint

    with caught() as leaving:
        async with open_owner() as owner, trio.open_nursery() as tasks:
            tasks.start_soon(owner.acquire, Complains)
            await wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert leaving.leaves == [complaint]


async def test_who_asks_later_gets_a_fresh_one_and_has_received_it() -> None:
    complaint = OSError()
    async with open_owner() as owner:
        attempt = owner.start(opened(Thing(refuses=complaint)))
        await wait_all_tasks_blocked()
        assert owner.statistics().failures_retained == 1
        with pytest.raises(Failed) as failed:
            _ = attempt.value
        assert failed.value.__cause__ is complaint
        assert owner.statistics().failures_retained == 0


async def test_who_asks_after_close_told_it_gets_no_original() -> None:
    for complaint in (OSError(), Adapter()):
        with caught() as leaving:
            async with open_owner() as owner:
                attempt = await owner.acquire(opened(Thing(complains=complaint)))
        assert leaving.leaves == [complaint]
        with pytest.raises(Failed) as failed:
            await owner.retire(attempt)
        assert failed.value.__cause__ is complaint


async def test_a_thing_that_was_only_told_that_its_owner_stops_did_not_fail() -> None:
    class Dependent(Thing):
        async def __aexit__(self, *error: object) -> bool | None:
            await super().__aexit__(*error)  # type: ignore[arg-type]
            await owner.acquire(Thing)
            raise AssertionError("acquired")

    async with open_owner() as owner:
        await owner.acquire(Dependent)
    assert owner.report is not None
    assert owner.report.failures == ()


async def test_the_traceback_of_an_original_does_not_grow_with_those_who_ask() -> None:
    crash, complaint = Adapter(), OSError()
    try:
        raise crash
    except Adapter:
        pass

    def depth(error: BaseException) -> int:
        return len(traceback.extract_tb(error.__traceback__))

    with caught() as leaving:
        async with open_owner() as owner:
            attempt = await owner.acquire(opened(Thing(complains=complaint)))
            await outcome(owner.retire(attempt))
            owner.fail(crash)
            before = depth(crash), depth(complaint)
            for _ in range(100):
                for ask in (owner.check, lambda: owner.start(Thing), lambda: attempt.value):
                    with pytest.raises(ReactorError):
                        ask()
                with trio.CancelScope(shield=True), pytest.raises(Failed):
                    await owner.retire(attempt)
            assert (depth(crash), depth(complaint)) == before
            assert crash.__context__ is None
    assert leaving.error is crash


async def test_failures_that_are_kept_have_a_bound_and_more_are_counted() -> None:
    with caught() as leaving:
        async with open_owner(options=OwnerOptions(retained_failures=3)) as owner:
            for number in range(10):
                owner.start(opened(Thing(refuses=OSError(number))))
                await wait_all_tasks_blocked()
            assert owner.statistics().failures_retained == 3
            assert owner.statistics().failures_omitted == 7
    assert [str(leaf) for leaf in leaving.leaves] == ["0", "1", "2"]
    assert owner.report is not None
    assert len(owner.report.failures) == 3
    assert owner.report.failures_omitted == 7


async def test_one_that_was_only_counted_is_not_counted_once_somebody_received_it() -> None:
    with caught() as leaving:
        async with open_owner(options=OwnerOptions(retained_failures=1)) as owner:
            attempts: list[Attempt[Thing]] = []
            for _ in range(3):
                attempts.append(owner.start(opened(Thing(refuses=OSError()))))
                await wait_all_tasks_blocked()
            assert owner.statistics().failures_omitted == 2
            for attempt in attempts[1:]:
                await attempt.wait_ended()
                await attempt.wait_ended()
            assert owner.statistics().failures_omitted == 0
            # Those received by who acquires never take a place.
            await outcome(owner.acquire(opened(Thing(refuses=OSError()))))
            assert owner.statistics().failures_omitted == 0
            assert owner.statistics().failures_retained == 1
    assert len(leaving.leaves) == 1


async def test_a_defect_takes_the_place_of_an_expected_failure() -> None:
    defect = Adapter()
    with caught() as leaving:
        async with open_owner(options=OwnerOptions(retained_failures=2)) as owner:
            for refusal in (OSError("first"), OSError("second"), defect, OSError("third")):
                owner.start(opened(Thing(refuses=refusal)))
                await wait_all_tasks_blocked()
    assert [str(leaf) for leaf in leaving.leaves] == ["first", ""]
    assert leaving.leaves[1] is defect
    assert owner.report is not None
    assert owner.report.failures_omitted == 2


async def test_a_recovery_that_completes_late_brings_nothing_back(
    autojump_clock: MockClock,
) -> None:
    thing = Thing(opening=5, hardy=True)
    crash = Adapter()
    told: list[object] = []
    with caught() as leaving:
        async with open_owner() as owner:

            async def recover() -> None:
                with trio.CancelScope(shield=True):
                    told.append(await outcome(owner.acquire(opened(thing))))

            async with trio.open_nursery() as tasks:
                tasks.start_soon(recover)
                await wait_all_tasks_blocked()
                owner.fail(crash)
    assert thing.exits == 1
    (closed,) = told
    assert isinstance(closed, Closed)
    assert closed.__cause__ is crash
    assert owner.failure is crash
    assert leaving.error is crash


async def test_after_close_only_commands_raise() -> None:
    crash = Adapter()
    with caught():
        async with open_owner() as owner:
            attempt = await owner.acquire(Thing)
            owner.fail(crash)
    for command in (owner.check, lambda: owner.start(Thing), lambda: owner.start_soon(_nothing)):
        with pytest.raises(Closed):
            command()
    for awaited in (owner.acquire, lambda factory: _enter(owner, factory)):
        with pytest.raises(Closed):
            await awaited(Thing)
    assert owner.failure is crash
    assert owner.report is not None
    assert owner.report.terminal is not None
    assert owner.report.terminal.type == "Adapter"
    assert (attempt.phase, attempt.reason) == ("ended", "closed")
    with pytest.raises(Closed):
        _ = attempt.value
    assert owner.statistics().closing == "its block was left"
    await owner.retire(attempt)
    assert not owner.fail(Adapter())
    assert await owner.close() is owner.report


def test_everything_is_readable_outside_of_trio_too() -> None:
    async def main() -> tuple[Owner, Attempt[Thing]]:
        async with open_owner() as owner:
            attempt = await owner.acquire(Thing)
        return owner, attempt

    owner, attempt = trio.run(main)
    assert owner.statistics().acquired == 1
    assert owner.report is not None
    assert owner.stopping.is_set
    assert owner.closing.reason == "its block was left"
    assert owner.failure is None
    assert attempt.reason == "closed"
    assert "its block was left" in repr(owner)
    assert "ended (closed)" in repr(attempt)
    with pytest.raises(Closed):
        owner.start(Thing)


async def test_its_errors_speak_trios_language_and_say_what_became_of_it() -> None:
    async with open_owner() as owner:
        attempt = await owner.acquire(Thing)
        await owner.retire(attempt)
        with pytest.raises(trio.ClosedResourceError) as retired:
            _ = attempt.value
    with pytest.raises(trio.ClosedResourceError) as closed:
        owner.start(Thing)
    for error, kind in ((retired.value, Retired), (closed.value, Closed)):
        assert isinstance(error, kind)
        assert (error.outcome, error.retryable) == ("not-submitted", False)
    assert issubclass(TimedOut, trio.TooSlowError)
    assert issubclass(Failed, trio.BrokenResourceError)
    assert issubclass(Lost, trio.BrokenResourceError)


async def _nothing() -> None:
    pass


async def _enter(owner: Owner, factory: Callable[[], Thing]) -> None:
    async with owner.hold(factory):
        await trio.sleep_forever()


def _leaves(failure: BaseException) -> list[BaseException]:
    if not isinstance(failure, BaseExceptionGroup):
        return [failure]
    return [leaf for each in failure.exceptions for leaf in _leaves(each)]
