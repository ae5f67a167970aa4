"""The tasks that carry dispatches."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Closed
from trio_reactor.owner import open_owner
from trio_reactor.renewal.engine.courier import MAX_IDLE, Couriers


class Parcel:
    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = None
        self.may_end = trio.Event()
        self.ended = False

    async def run(self) -> None:
        self.task = trio.lowlevel.current_task()
        try:
            await self.may_end.wait()
        finally:
            self.ended = True


def parcel() -> Parcel:
    """One that is delivered at once."""
    light = Parcel()
    light.may_end.set()
    return light


async def test_a_courier_that_is_done_carries_the_next_and_few_are_kept(
    autojump_clock: object,
) -> None:
    async with open_owner() as owner:
        couriers = Couriers(owner)
        parcels = [Parcel() for _ in range(5)]
        for each in parcels:
            couriers.carry(each)
        await wait_all_tasks_blocked()
        tasks = {each.task for each in parcels}
        assert len(tasks) == owner.statistics().workers == 5
        for each in parcels:
            each.may_end.set()
        await wait_all_tasks_blocked()
        assert owner.statistics().workers == MAX_IDLE
        for _ in range(10):
            another = parcel()
            couriers.carry(another)
            await wait_all_tasks_blocked()
            assert another.task in tasks
        assert owner.statistics().workers == MAX_IDLE


@pytest.mark.parametrize("first", ["cancel", "give"])
async def test_what_a_courier_is_given_as_it_is_cancelled_is_ended_all_the_same(
    autojump_clock: object, first: str
) -> None:
    async with open_owner() as owner:
        couriers = Couriers(owner)
        couriers.carry(parcel())
        await wait_all_tasks_blocked()
        (worker,) = owner._ledger.workers
        late = Parcel()
        if first == "give":
            couriers.carry(late)
        worker.scope.cancel()
        if first == "cancel":
            couriers.carry(late)
        await wait_all_tasks_blocked()
        assert late.ended
        assert owner.statistics().workers == 0
        last = parcel()
        couriers.carry(last)
        await wait_all_tasks_blocked()
        assert last.ended


async def test_nothing_is_carried_once_close_began(autojump_clock: object) -> None:
    async with open_owner() as owner:
        couriers = Couriers(owner)
        couriers.carry(parcel())
        await wait_all_tasks_blocked()
    with pytest.raises(Closed):
        couriers.carry(parcel())
