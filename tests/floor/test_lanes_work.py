"""Lanes, the other face: work that runs in an owner's tasks."""

from __future__ import annotations

import pytest
import trio
from lane_story import AT_REST, Story
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Closed
from trio_reactor.lanes import Lanes, LanesStatistics


@pytest.fixture
def story(nursery: trio.Nursery) -> Story:
    return Story(Lanes(start_soon=nursery.start_soon), nursery)


async def test_one_task_does_a_busy_lanes_work_and_is_gone_when_the_lane_is_empty(
    story: Story,
) -> None:
    tasks_at_rest = len(story.nursery.child_tasks)
    await story.queue("a")
    await story.queue("b")
    await story.queue("c")
    await story.queue("elsewhere", "another room")
    assert len(story.nursery.child_tasks) == tasks_at_rest + 2
    await story.leave("a")
    await story.leave("b")
    assert len(story.nursery.child_tasks) == tasks_at_rest + 2
    await story.leave("c")
    assert len(story.nursery.child_tasks) == tasks_at_rest + 1
    await story.leave("elsewhere")
    assert len(story.nursery.child_tasks) == tasks_at_rest


async def test_the_task_is_gone_when_only_the_callers_own_turns_are_left(story: Story) -> None:
    tasks_at_rest = len(story.nursery.child_tasks)
    await story.queue("a")
    await story.enter("b")
    await story.leave("a")
    assert story.told[-1] == "b in"
    assert len(story.nursery.child_tasks) == tasks_at_rest + 1  # b's own
    await story.queue("c")  # and another one comes when there is work again
    await story.leave("b")
    await story.leave("c")
    assert story.told[-1] == "c out"
    assert story.lanes.statistics() == AT_REST


async def test_work_that_never_waits_starves_nobody(nursery: trio.Nursery) -> None:
    lanes: Lanes[str] = Lanes(start_soon=nursery.start_soon)
    ran = 0

    async def work() -> None:
        nonlocal ran
        ran += 1

    for _ in range(100):
        lanes.start_soon("room", work)
    for _ in range(10):
        await trio.lowlevel.checkpoint()
    assert 0 < ran <= 11
    await wait_all_tasks_blocked()
    assert ran == 100


async def test_a_crash_of_work_is_its_tasks_failure_and_leaves_the_lane_usable() -> None:
    ran: list[str] = []

    async def crash() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("defect")

    async def work() -> None:
        ran.append("after the crash")

    # Somebody's tasks that can fail, and fail alone.
    with pytest.raises(ExceptionGroup) as raised:
        async with trio.open_nursery() as own:
            lanes: Lanes[str] = Lanes(start_soon=own.start_soon)
            lanes.start_soon("room", crash)
            lanes.start_soon("room", work)
            with trio.CancelScope(shield=True):
                async with lanes("room"):
                    ran.append("the other face")
    assert raised.group_contains(ValueError, match="defect", depth=1)
    assert ran == ["the other face"]
    assert lanes.statistics() == AT_REST


async def test_the_end_of_the_owner_takes_its_work_along_and_leaves_the_lane_usable(
    story: Story,
) -> None:
    async with trio.open_nursery() as owner:
        story.lanes = Lanes(start_soon=owner.start_soon)
        await story.queue("begun")
        await story.enter("b")
        await story.queue("never begun")
        await story.queue("elsewhere in line behind b", "room")
        owner.cancel_scope.cancel()
    await wait_all_tasks_blocked()
    assert story.told == ["begun in", "b in"]
    assert story.lanes.statistics() == LanesStatistics(0, 1, 0, 0, 0)
    await story.leave("b")
    assert story.lanes.statistics() == AT_REST


async def test_the_owner_ending_as_the_turn_of_its_work_comes_wedges_nobody(story: Story) -> None:
    async with trio.open_nursery() as owner:
        story.lanes = Lanes(start_soon=owner.start_soon)
        turn = story.lanes("room")
        await turn.__aenter__()
        await story.queue("work")
        await story.enter("c")
        owner.cancel_scope.cancel()
        await turn.__aexit__(None, None, None)
    await wait_all_tasks_blocked()
    assert story.told == ["c in"]
    await story.leave("c")
    assert story.lanes.statistics() == AT_REST


async def test_an_owner_that_refuses_leaves_everything_as_it_was(story: Story) -> None:
    def refuse(*_: object) -> None:
        raise Closed("owner: closing")

    lanes: Lanes[str] = Lanes(start_soon=refuse)
    story.lanes = lanes
    with pytest.raises(Closed, match="owner: closing"):
        lanes.start_soon("room", trio.lowlevel.checkpoint)
    assert lanes.statistics() == AT_REST
    await story.enter("a")
    for _ in range(2):  # the second time it is asked, and refuses, too
        with pytest.raises(Closed, match="owner: closing"):
            lanes.start_soon("room", trio.lowlevel.checkpoint)
    await story.enter("b")
    assert lanes.statistics() == LanesStatistics(0, 1, 1, 0, 0)
    await story.leave("a")
    await story.leave("b")
    assert lanes.statistics() == AT_REST


async def test_lanes_without_an_owner_have_one_face() -> None:
    lanes: Lanes[str] = Lanes()
    with pytest.raises(RuntimeError, match="no start_soon"):
        lanes.start_soon("room", trio.lowlevel.checkpoint)
    async with lanes("room"):
        pass
