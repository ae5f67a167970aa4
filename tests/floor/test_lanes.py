"""Lanes: one key's work is serial and in order, and no generation waits for an older one."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest
import trio
from lane_story import AT_REST, Story
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_reactor.errors import Closed, Overflow
from trio_reactor.lanes import Lanes, LanesStatistics, Unbegun


@pytest.fixture
def story(nursery: trio.Nursery) -> Story:
    return Story(Lanes(start_soon=nursery.start_soon), nursery)


async def test_one_keys_turns_follow_one_another_in_the_order_of_asking_across_both_faces(
    story: Story,
) -> None:
    await story.enter("a")
    await story.queue("b")
    await story.enter("c")
    await story.queue("d")
    await story.queue("e")
    assert story.told == ["a in"]
    assert story.lanes.statistics() == LanesStatistics(0, 1, 1, 3, 0)
    for name in "abcde":
        await story.leave(name)
    assert story.told == [f"{name} {what}" for name in "abcde" for what in ("in", "out")]
    assert story.lanes.statistics() == AT_REST


async def test_different_keys_run_side_by_side(story: Story) -> None:
    await story.enter("a", "one")
    await story.queue("b", "two")
    await story.enter("c", "three")
    assert story.told == ["a in", "b in", "c in"]
    for name in "abc":
        await story.leave(name)


async def test_a_turn_is_handed_over_in_the_step_in_which_it_is_left(story: Story) -> None:
    await story.enter("a")
    await story.enter("b")
    story._leave["a"].set()
    # Whoever asks now, before b ran, still comes after b.
    await story.enter("c")
    assert story.told == ["a in", "a out", "b in"]
    await story.leave("b")
    await story.leave("c")
    assert story.told[-2:] == ["c in", "c out"]


async def test_entering_is_a_checkpoint_and_leaving_is_none() -> None:
    lanes: Lanes[str] = Lanes()
    turn = lanes("room")
    with assert_checkpoints():
        await turn.__aenter__()
    with trio.CancelScope() as scope:
        scope.cancel()
        await turn.__aexit__(None, None, None)
    assert not scope.cancelled_caught
    with trio.CancelScope() as scope:
        scope.cancel()
        async with lanes("room"):
            pytest.fail("entered although cancelled")
    assert scope.cancelled_caught
    assert lanes.statistics() == AT_REST


class Key:
    """A key that a weak reference can watch."""


async def test_a_lane_is_forgotten_once_nobody_needs_it(nursery: trio.Nursery) -> None:
    lanes: Lanes[Key] = Lanes(start_soon=nursery.start_soon)
    key = Key()
    gone = weakref.ref(key)
    async with lanes(key):
        assert lanes.statistics().held == 1
    assert lanes.statistics() == AT_REST
    tasks_before = len(nursery.child_tasks)
    lanes.start_soon(key, trio.lowlevel.checkpoint)
    assert len(nursery.child_tasks) == tasks_before + 1
    await wait_all_tasks_blocked()
    assert lanes.statistics() == AT_REST
    assert len(nursery.child_tasks) == tasks_before
    del key
    gc.collect()
    assert gone() is None


async def test_entering_and_leaving_are_protected_from_ctrl_c_and_the_body_is_not(
    nursery: trio.Nursery,
) -> None:
    protected: list[bool] = []

    class Observed:
        def __hash__(self) -> int:
            protected.append(trio.lowlevel.currently_ki_protected())
            return 1

    async def work() -> None:
        assert not trio.lowlevel.currently_ki_protected()

    lanes: Lanes[Observed] = Lanes(start_soon=nursery.start_soon)
    async with lanes(Observed()):
        assert not trio.lowlevel.currently_ki_protected()
    lanes.start_soon(Observed(), work)
    await wait_all_tasks_blocked()
    assert len(protected) >= 5
    assert all(protected)


async def test_the_body_of_a_turn_that_raises_frees_the_lane_and_is_heard(story: Story) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with story.lanes("room"):
            await story.enter("b")
            raise ValueError("mine")
    await wait_all_tasks_blocked()
    assert story.told == ["b in"]
    await story.leave("b")
    assert story.lanes.statistics() == AT_REST


# Cancellation


async def test_a_cancelled_waiter_leaves_its_place_and_the_lane_goes_on_without_it(
    story: Story,
) -> None:
    await story.enter("a")
    await story.enter("b")
    await story.enter("c")
    story.cancel("b")
    await wait_all_tasks_blocked()
    assert story.lanes.statistics().waiting == 1
    await story.leave("a")
    await story.leave("c")
    assert story.told == ["a in", "b cancelled", "a out", "c in", "c out"]
    assert story.lanes.statistics() == AT_REST


async def test_a_waiter_cancelled_just_before_its_turn_comes_is_passed_over(story: Story) -> None:
    turn = story.lanes("room")
    await turn.__aenter__()
    await story.enter("b")
    await story.enter("c")
    story.cancel("b")
    await turn.__aexit__(None, None, None)
    await wait_all_tasks_blocked()
    assert sorted(story.told) == ["b cancelled", "c in"]
    await story.leave("c")
    assert story.lanes.statistics() == AT_REST


async def test_a_waiter_cancelled_just_after_its_turn_came_passes_it_on(story: Story) -> None:
    turn = story.lanes("room")
    await turn.__aenter__()
    await story.enter("b")
    await story.enter("c")
    await turn.__aexit__(None, None, None)
    story.cancel("b")
    await wait_all_tasks_blocked()
    # The turn was its already: it was inside, until its first checkpoint.
    assert story.told == ["b in", "b cancelled", "c in"]
    await story.leave("c")
    assert story.lanes.statistics() == AT_REST


# Re-entering


async def test_a_task_that_enters_the_lane_it_is_in_is_told_rather_than_deadlocked() -> None:
    lanes: Lanes[str] = Lanes()
    async with lanes("room"):
        with pytest.raises(RuntimeError, match="in this lane already"):
            async with lanes("room"):
                pytest.fail("entered twice")
        async with lanes("another"):
            assert lanes.statistics().held == 2
    assert lanes.statistics() == AT_REST


async def test_work_that_enters_the_lane_it_runs_in_is_told_too(nursery: trio.Nursery) -> None:
    lanes: Lanes[str] = Lanes(start_soon=nursery.start_soon)
    told: list[str] = []

    async def work() -> None:
        with pytest.raises(RuntimeError, match="in this lane already"):
            async with lanes("room"):
                pytest.fail("entered twice")
        told.append("refused")
        lanes.start_soon("room", follow_up)  # this is how it goes on in its own lane

    async def follow_up() -> None:
        told.append("followed up")

    lanes.start_soon("room", work)
    await wait_all_tasks_blocked()
    assert told == ["refused", "followed up"]


async def test_one_turn_is_entered_once() -> None:
    lanes: Lanes[str] = Lanes()
    turn = lanes("room")
    async with turn:
        pass
    with pytest.raises(RuntimeError, match="entered once"):
        async with turn:
            pytest.fail("entered twice")
    with pytest.raises(RuntimeError, match="left once"):
        await turn.__aexit__(None, None, None)


# Generations


async def test_a_new_generation_does_not_wait_for_a_stuck_old_one(story: Story) -> None:
    await story.enter("stuck")
    await story.queue("stuck too", "another room")
    story.lanes.advance()
    await story.enter("a")
    await story.queue("b", "another room")
    assert story.told == ["stuck in", "stuck too in", "a in", "b in"]
    assert story.lanes.statistics() == LanesStatistics(1, 2, 0, 0, 2)
    await story.leave("a")
    await story.leave("b")
    assert story.lanes.statistics() == LanesStatistics(1, 0, 0, 0, 2)
    await story.leave("stuck")
    await story.leave("stuck too")
    assert story.lanes.statistics() == LanesStatistics(1, 0, 0, 0, 0)


async def test_the_old_generations_leaving_does_not_free_the_new_ones_lane(story: Story) -> None:
    await story.enter("old")
    story.lanes.advance()
    await story.enter("new")
    await story.enter("newer")
    await story.leave("old")
    assert story.told == ["old in", "new in", "old out"]
    await story.leave("new")
    await story.leave("newer")


async def test_tasks_in_line_are_refused_when_their_generation_ends(story: Story) -> None:
    await story.enter("stuck")
    await story.enter("b")
    await story.enter("c")
    assert story.lanes.advance() == ()
    assert story.lanes.statistics() == LanesStatistics(1, 0, 0, 0, 1)
    await wait_all_tasks_blocked()
    assert sorted(story.told) == ["b refused", "c refused", "stuck in"]
    await story.leave("stuck")


async def test_work_in_line_is_given_back_when_its_generation_ends(story: Story) -> None:
    ran: list[int] = []

    async def work(number: int) -> None:
        ran.append(number)

    await story.queue("begun")
    await story.enter("in line")
    story.lanes.start_soon("room", work, 1)
    story.lanes.start_soon("room", work, 2)
    story.lanes.start_soon("another", work, 3)  # its runner has not run yet: it has not begun
    assert story.lanes.advance() == (
        Unbegun("room", work, (1,)),
        Unbegun("room", work, (2,)),
        Unbegun("another", work, (3,)),
    )
    await wait_all_tasks_blocked()
    assert ran == []
    assert story.told == ["begun in", "in line refused"]
    assert story.lanes.statistics() == LanesStatistics(1, 0, 0, 0, 1)
    await story.leave("begun")
    assert ran == []
    assert not story.nursery.child_tasks  # the runners have gone


async def test_what_must_be_done_in_any_case_can_be_queued_again(story: Story) -> None:
    ran: list[int] = []

    async def work(number: int) -> None:
        ran.append(number)

    await story.enter("stuck")
    story.lanes.start_soon("room", work, 1)
    story.lanes.start_soon("room", work, 2)
    for unbegun in story.lanes.advance():
        story.lanes.start_soon(unbegun.key, unbegun.fn, *unbegun.args)
    await wait_all_tasks_blocked()
    assert ran == [1, 2]
    await story.leave("stuck")


async def test_whoever_was_handed_the_turn_and_did_not_run_yet_is_refused_too(
    story: Story,
) -> None:
    turn = story.lanes("room")
    await turn.__aenter__()
    await story.enter("b")
    await turn.__aexit__(None, None, None)
    story.lanes.advance()
    await wait_all_tasks_blocked()
    assert story.told == ["b refused"]
    assert story.lanes.statistics() == LanesStatistics(1, 0, 0, 0, 0)


async def test_whoever_is_entering_a_free_lane_when_its_generation_ends_is_refused_too(
    story: Story,
) -> None:
    class AdvanceOnceHeld(trio.abc.Instrument):
        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            if story.lanes.statistics().held:
                story.lanes.advance()

    instrument = AdvanceOnceHeld()
    trio.lowlevel.add_instrument(instrument)
    await story.enter("a")
    trio.lowlevel.remove_instrument(instrument)
    assert story.told == ["a refused"]
    assert story.lanes.statistics() == LanesStatistics(1, 0, 0, 0, 0)


async def test_a_dead_token_admits_nobody(nursery: trio.Nursery) -> None:
    lanes: Lanes[str] = Lanes(start_soon=nursery.start_soon)
    token = lanes.token()
    async with lanes("room", token=token):
        lanes.start_soon("another", trio.lowlevel.checkpoint, token=token)
    await wait_all_tasks_blocked()
    lanes.advance()
    with pytest.raises(Closed, match="generation 0 is over") as refused:
        async with lanes("room", token=token):
            pytest.fail("entered with a dead token")
    assert not refused.value.retryable
    with pytest.raises(Closed, match="generation 0 is over"):
        lanes.start_soon("room", trio.lowlevel.checkpoint, token=token)
    assert lanes.statistics() == LanesStatistics(1, 0, 0, 0, 0)
    async with lanes("room", token=lanes.token()):
        pass


async def test_after_a_refusal_in_line_entering_again_takes_a_turn_in_the_new_generation(
    nursery: trio.Nursery,
) -> None:
    lanes: Lanes[str] = Lanes()
    told: list[object] = []

    async def enter() -> None:
        try:
            async with lanes("room"):
                pytest.fail("entered an old lane")
        except Closed as closed:
            told.append((closed.outcome, closed.retryable))
        async with lanes("room"):
            told.append("in")

    async with lanes("room"):
        nursery.start_soon(enter)
        await wait_all_tasks_blocked()
        lanes.advance()
        await wait_all_tasks_blocked()
        assert told == [("not-submitted", True), "in"]


async def test_a_refusal_in_line_is_not_retryable_with_the_token_that_died(
    nursery: trio.Nursery,
) -> None:
    lanes: Lanes[str] = Lanes()
    refused: list[Closed] = []

    async def enter() -> None:
        try:
            async with lanes("room", token=lanes.token()):
                pytest.fail("entered with a dead token")
        except Closed as closed:
            refused.append(closed)

    async with lanes("room"):
        nursery.start_soon(enter)
        await wait_all_tasks_blocked()
        lanes.advance()
        await wait_all_tasks_blocked()
    assert [closed.retryable for closed in refused] == [False]


# Bounds


async def test_a_lane_beyond_the_bound_is_refused_and_named(story: Story) -> None:
    story.lanes = Lanes(start_soon=story.nursery.start_soon, max_lanes=2)
    await story.enter("a", "one")
    await story.enter("b", "two")
    for refuse in (_enter(story.lanes, "three"), _queue(story.lanes, "three")):
        with pytest.raises(Overflow, match="max_lanes: 2") as refused:
            await refuse
        assert (refused.value.missed, refused.value.outcome) == (1, "not-submitted")
        assert refused.value.retryable
    await story.enter("c", "two")  # a lane that exists can still be waited for
    assert story.lanes.statistics() == LanesStatistics(0, 2, 1, 0, 0)
    await story.leave("a")
    await story.enter("d", "three")
    assert story.told[-1] == "d in"
    for name in "bcd":
        await story.leave(name)


async def test_lanes_left_behind_take_no_room_from_the_new_generation(story: Story) -> None:
    story.lanes = Lanes(max_lanes=1)
    await story.enter("stuck")
    story.lanes.advance()
    await story.enter("a")
    assert story.told == ["stuck in", "a in"]
    await story.leave("a")
    await story.leave("stuck")


async def test_a_place_in_line_beyond_the_bound_is_refused_and_named(story: Story) -> None:
    story.lanes = Lanes(start_soon=story.nursery.start_soon, max_waiting=2)
    await story.enter("a")
    await story.enter("b")
    await story.queue("c")
    before = story.lanes.statistics()
    for refuse in (
        _enter(story.lanes, "room"),
        _queue(story.lanes, "room"),
        _queue(story.lanes, "another"),
    ):
        with pytest.raises(Overflow, match="max_waiting: 2") as refused:
            await refuse
        assert refused.value.missed == 1
    assert story.lanes.statistics() == before
    story.cancel("b")
    await wait_all_tasks_blocked()
    await story.queue("d")  # the place it gave up can be taken
    for name in "acd":
        await story.leave(name)
    assert story.told == ["a in", "b cancelled", "a out", "c in", "c out", "d in", "d out"]


@pytest.mark.parametrize("bound", ["max_lanes", "max_waiting"])
def test_a_bound_that_admits_nobody_is_refused_by_name(bound: str) -> None:
    with pytest.raises(ValueError, match=f"{bound} must be at least 1, not 0"):
        Lanes(**{bound: 0})


async def test_statistics_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Lanes().statistics().held = 1  # type: ignore[misc]


async def _enter(lanes: Lanes[str], key: str) -> None:
    async with lanes(key):
        pytest.fail("entered beyond the bound")


async def _queue(lanes: Lanes[str], key: str) -> None:
    lanes.start_soon(key, trio.lowlevel.checkpoint)
