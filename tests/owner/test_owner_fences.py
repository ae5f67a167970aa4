"""Two fences say how far it has come: `stopping`, in the step of the cause, and `closing`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from owner_story import Adapter, Thing, caught, opened, outcome
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_reactor.errors import Closed
from trio_reactor.owner import Owner, open_owner


def assert_stopping(owner: Owner) -> None:
    """Refused, with no checkpoint between."""
    assert owner.stopping.is_set
    with pytest.raises(Closed):
        owner.start(Thing)
    assert not owner.closing.is_set
    owner.check()


async def test_start_right_after_the_surrounding_scope_was_cancelled_is_refused() -> None:
    with trio.CancelScope() as scope:
        async with open_owner() as owner:
            assert not owner.stopping.is_set
            scope.cancel()
            assert_stopping(owner)
            assert owner.stopping.reason == "the surrounding scope was cancelled"


async def test_any_surrounding_scope_will_do_but_none_inside_and_none_beyond_a_shield() -> None:
    with trio.CancelScope() as beyond, trio.CancelScope(shield=True):
        with trio.CancelScope() as outer, trio.CancelScope():
            async with open_owner() as owner:
                with trio.CancelScope() as inner:
                    inner.cancel()
                    await trio.lowlevel.checkpoint()
                beyond.cancel()
                assert not owner.stopping.is_set
                outer.cancel()
                assert_stopping(owner)


async def test_it_is_refused_too_where_the_body_is_shielded() -> None:
    with trio.CancelScope() as scope:
        async with open_owner() as owner:
            with trio.CancelScope(shield=True), trio.CancelScope(shield=True):
                scope.cancel()
                assert_stopping(owner)
                await trio.lowlevel.checkpoint()
                with pytest.raises(Closed):
                    await owner.acquire(Thing)


async def test_who_is_cancelled_with_it_gets_that_from_acquiring_and_no_refusal() -> None:
    """Otherwise a scope that was cancelled at the wrong moment would let a `Closed` out."""
    crash = Adapter()
    for stop in ("outside", "failure"):
        with caught() as leaving, trio.CancelScope() as scope:
            async with open_owner() as owner:
                if stop == "outside":
                    scope.cancel()
                else:
                    owner.fail(crash)
                async with owner.hold(Thing):
                    pytest.fail("acquired")
        assert leaving.error is (None if stop == "outside" else crash)
        assert scope.cancelled_caught == (stop == "outside")


async def test_a_shield_that_is_lowered_over_a_cancelled_scope_is_a_cancellation() -> None:
    with trio.CancelScope() as scope, trio.CancelScope(shield=True) as shield:
        async with open_owner() as owner:
            scope.cancel()
            assert not owner.stopping.is_set
            shield.shield = False
            assert_stopping(owner)


async def test_the_deadline_of_the_surroundings_stops_it_in_the_batch_in_which_it_passes(
    autojump_clock: MockClock,
) -> None:
    """Whoever runs first at that instant, an acquisition is refused or its factory not called."""
    called = 0

    def factory() -> Thing:
        nonlocal called
        called += 1
        return Thing()

    for _ in range(20):
        with trio.move_on_after(1):
            async with open_owner() as owner:
                told: list[object] = []

                async def at_that_instant() -> None:
                    await trio.sleep_until(until)  # noqa: B023 - run in this turn of the loop
                    told.append(await outcome(owner.acquire(factory)))  # noqa: B023

                until = trio.current_effective_deadline()
                with trio.CancelScope(shield=True):
                    async with trio.open_nursery() as tasks:
                        for _ in range(5):
                            tasks.start_soon(at_that_instant)
                assert [type(each) for each in told] == [Closed] * 5
    assert called == 0


async def test_a_deadline_that_is_brought_forward_counts(autojump_clock: MockClock) -> None:
    with trio.move_on_after(100) as scope:
        async with open_owner() as owner:
            scope.deadline = trio.current_time() + 1
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            assert_stopping(owner)


async def test_surroundings_that_were_cancelled_before_it_was_entered() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_owner() as owner:
            # Entering is no place where a cancellation is delivered; the next checkpoint is.
            assert_stopping(owner)
            with trio.CancelScope(shield=True), pytest.raises(Closed):
                await owner.acquire(Thing)
            reached = True
            await trio.lowlevel.checkpoint()
            pytest.fail("not cancelled")
    assert reached
    assert scope.cancelled_caught


async def test_stopping_rises_when_the_body_is_left_and_closing_with_it() -> None:
    seen: list[tuple[bool, bool]] = []

    class Watching(Thing):
        def note(self, what: str) -> None:
            if what == "leaving":
                seen.append((owner.stopping.is_set, owner.closing.is_set))

    async with open_owner() as owner:
        await owner.acquire(Watching)
        assert not owner.stopping.is_set
    assert seen == [(True, True)]
    assert owner.stopping.reason == owner.closing.reason == "its block was left"


async def test_stopping_and_closing_rise_when_close_begins() -> None:
    async with open_owner() as owner:

        async def close() -> None:
            await owner.close()

        async with trio.open_nursery() as tasks:
            tasks.start_soon(close)
            await owner.closing.wait()
            assert owner.stopping.is_set
            for command in (owner.check, lambda: owner.start(Thing)):
                with pytest.raises(Closed):
                    command()


async def test_an_application_can_issue_its_last_commands_between_the_two() -> None:
    notes: list[str] = []

    async def say_goodbye() -> None:
        notes.append("goodbye")

    with trio.CancelScope() as scope:
        async with open_owner() as owner:
            thing = Thing()
            attempt = await owner.acquire(opened(thing))
            scope.cancel()
            try:
                await trio.sleep_forever()
            finally:
                owner.check()
                assert attempt.value is thing
                owner.start_soon(say_goodbye)
                with trio.CancelScope(shield=True):
                    await wait_all_tasks_blocked()
                    assert notes == ["goodbye"]
                    await owner.retire(attempt)
    assert thing.exits == 1


async def test_what_is_opening_is_given_up_when_stopping_rises() -> None:
    thing = Thing(opening=trio.Event())
    with trio.CancelScope() as scope:
        async with open_owner() as owner:
            attempt = owner.start(opened(thing))
            await wait_all_tasks_blocked()
            scope.cancel()
            with trio.CancelScope(shield=True):
                end = await attempt.wait_ended()
            assert (end.reason, end.failure) == ("closed", None)
            assert not owner.closing.is_set
    assert thing.notes == ["thing opening", "thing given up"]


async def test_what_opens_in_the_batch_in_which_stopping_rises_is_not_held() -> None:
    for _ in range(20):  # Trio shuffles the batch
        go = trio.Event()
        thing = Thing(opening=go, hardy=True)
        with trio.CancelScope() as scope:
            async with open_owner() as owner:
                attempt = owner.start(opened(thing))
                await wait_all_tasks_blocked()
                go.set()
                scope.cancel()
                with trio.CancelScope(shield=True):
                    await wait_all_tasks_blocked()
                assert (attempt.phase, attempt.reason, attempt.opened_at) == (
                    "ended",
                    "closed",
                    None,
                )
                assert thing.exits == 1


async def test_what_is_opening_is_given_up_when_it_fails_before_it_closes() -> None:
    thing = Thing(opening=trio.Event())
    with pytest.raises(Adapter):
        async with open_owner() as owner:
            attempt = owner.start(opened(thing))
            await wait_all_tasks_blocked()
            owner.fail(Adapter())
            with trio.CancelScope(shield=True):
                await attempt.wait_ended()
            assert not owner.closing.is_set
            assert attempt.reason == "closed"


async def test_waiters_of_the_fence_are_woken_whatever_raised_it() -> None:
    def by_cancelling(owner: Owner, scope: trio.CancelScope) -> None:
        scope.cancel()

    def by_failing(owner: Owner, scope: trio.CancelScope) -> None:
        owner.fail(Adapter())

    def by_both(owner: Owner, scope: trio.CancelScope) -> None:
        scope.cancel()
        owner.fail(Adapter())

    causes: tuple[Callable[[Owner, trio.CancelScope], None], ...]
    causes = (by_cancelling, by_failing, by_both)
    for cause in causes:
        with caught(), trio.CancelScope() as scope:
            async with open_owner() as owner:
                reasons: list[str] = []

                async def wait() -> None:
                    with trio.CancelScope(shield=True):
                        reasons.append(await owner.stopping.wait())  # noqa: B023

                async with trio.open_nursery() as tasks:
                    tasks.start_soon(wait)
                    await wait_all_tasks_blocked()
                    cause(owner, scope)
                    with trio.CancelScope(shield=True):
                        await wait_all_tasks_blocked()
                    assert len(reasons) == 1


async def test_no_cancellation_leaks_and_no_crash_is_swallowed_when_both_come_in_one_step() -> None:
    crash = Adapter()

    async def work(go: trio.Event) -> None:
        await go.wait()
        raise crash

    for cancels_first in (True, False):
        for _ in range(10):  # Trio shuffles the batch
            go = trio.Event()
            with caught() as leaving, trio.CancelScope() as scope:
                async with open_owner() as owner:
                    owner.start_soon(work, go)
                    await wait_all_tasks_blocked()
                    for act in (scope.cancel, go.set)[:: 1 if cancels_first else -1]:
                        act()
                    await trio.sleep_forever()
            # If the body was left before the crash, that belongs to close, and comes in a group.
            assert leaving.leaves == [crash]
            assert leaving.error is crash or owner.failure is None


async def test_the_surroundings_cancelled_while_it_closes_change_nothing(
    autojump_clock: MockClock,
) -> None:
    thing = Thing(leaving=5)
    with trio.move_on_after(2) as scope:
        async with open_owner() as owner:
            await owner.acquire(opened(thing))
            began = trio.current_time()
    assert trio.current_time() == began + 5
    assert thing.notes[-1] == "thing left"
    assert not scope.cancelled_caught  # nothing was left to be cancelled
    assert owner.report is not None


async def test_a_body_that_is_started_with_nursery_start_feels_its_new_surroundings(
    nursery: trio.Nursery,
) -> None:
    """Its task changes its surroundings when it says that it has started."""
    owners: list[Owner] = []

    async def body(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with open_owner() as owner:
            owners.append(owner)
            task_status.started()
            await trio.sleep_forever()

    with trio.CancelScope() as starter:
        await nursery.start(body)
        starter.cancel()
    (owner,) = owners
    assert not owner.stopping.is_set
    nursery.cancel_scope.cancel()
    assert owner.stopping.is_set


async def test_a_block_is_entered_once() -> None:
    block = open_owner()
    async with block:
        with pytest.raises(RuntimeError, match="entered once"):
            await block.__aenter__()
    with pytest.raises(RuntimeError, match="entered once"):
        await block.__aenter__()
