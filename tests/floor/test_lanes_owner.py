"""Lanes on a real owner: its failure is theirs, its close ends them, and draining finishes them."""

from __future__ import annotations

import functools

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Closed, Failed
from trio_reactor.lanes import Lanes
from trio_reactor.owner import open_owner


async def test_a_crash_in_a_lane_is_the_owners_terminal_failure() -> None:
    defect = ValueError("defect")

    async def crash() -> None:
        await trio.lowlevel.checkpoint()
        raise defect

    told: list[str] = []
    with pytest.raises(ValueError, match="defect") as raised:
        async with open_owner("test") as owner:
            lanes: Lanes[str] = Lanes(start_soon=owner.start_soon)
            lanes.start_soon("room", crash)
            with trio.CancelScope(shield=True):
                async with lanes("room"):
                    # The lane was handed over in the step in which the failure was claimed.
                    assert owner.failure is defect
                    told.append("the other face")
            with pytest.raises((Closed, Failed)):
                lanes.start_soon("room", crash)
            await trio.sleep_forever()
    assert raised.value is defect
    assert told == ["the other face"]
    assert lanes.statistics().held == lanes.statistics().queued == 0


async def test_close_ends_the_work_in_the_lanes_and_callers_can_still_take_turns() -> None:
    told: list[str] = []

    async def work() -> None:
        told.append("begun")
        await trio.sleep_forever()

    async with open_owner("test") as owner:
        lanes: Lanes[str] = Lanes(start_soon=owner.start_soon)
        lanes.start_soon("room", work)
        lanes.start_soon("room", work)
        await wait_all_tasks_blocked()
    assert told == ["begun"]
    with pytest.raises(Closed):
        lanes.start_soon("room", work)
    async with lanes("room"):
        told.append("in")
    assert told == ["begun", "in"]
    assert lanes.statistics().held == lanes.statistics().queued == 0


async def test_work_in_lanes_that_drain_is_finished_before_close_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told: list[str] = []

    async def work(name: str) -> None:
        await trio.sleep(1)
        told.append(name)

    async with open_owner("test") as owner:
        lanes: Lanes[str] = Lanes(start_soon=functools.partial(owner.start_soon, drain=True))
        for name in "abc":
            lanes.start_soon("room", work, name)
        await trio.lowlevel.checkpoint()
    assert told == ["a", "b", "c"]
