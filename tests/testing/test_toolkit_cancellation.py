"""Cancellation at the nth checkpoint, by hand and at each there is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from trio_reactor.testing import (
    Simulation,
    SimulationFailed,
    cancel_at,
    for_every_checkpoint,
    run,
)
from trio_reactor.testing.cancellation import Countdown


@pytest.mark.parametrize("step", range(6))
async def test_a_block_is_cancelled_at_its_nth_checkpoint(step: int) -> None:
    passed = 0
    with cancel_at(step) as scope:
        for _ in range(4):
            await trio.lowlevel.checkpoint()
            passed += 1
    assert scope.cancelled_caught is (step <= 4)
    assert passed == min(max(step - 1, 0), 4)


async def test_at_nought_it_is_cancelled_before_it_begins() -> None:
    with cancel_at(0) as scope:
        assert scope.cancel_called
        await trio.lowlevel.checkpoint()
        raise AssertionError("not reached")


async def test_a_shielded_checkpoint_counts_and_the_next_one_raises() -> None:
    reached: list[str] = []
    with cancel_at(1) as scope:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
            reached.append("shielded")
        await trio.lowlevel.checkpoint()
        reached.append("open")
    assert scope.cancelled_caught
    assert reached == ["shielded"]


async def test_a_wait_is_cancelled_where_it_waits(autojump_clock: object) -> None:
    with cancel_at(2) as scope:
        await trio.sleep(1.0)
        await trio.sleep(1.0)
    assert scope.cancelled_caught
    assert trio.current_time() == 1.0


async def test_steps_of_other_tasks_and_before_and_after_the_block_do_not_count(
    nursery: trio.Nursery,
) -> None:
    async def busy() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    nursery.start_soon(busy)
    for _ in range(5):
        await trio.lowlevel.checkpoint()
    passed = 0
    with cancel_at(3, tasks="all") as scope:
        async with trio.open_nursery():
            pass  # one checkpoint
        await trio.lowlevel.checkpoint()
        passed += 1
        await trio.lowlevel.checkpoint()
        passed += 1
    assert scope.cancelled_caught
    assert passed == 1
    for _ in range(5):
        await trio.lowlevel.checkpoint()
    nursery.cancel_scope.cancel()


async def test_the_steps_of_every_task_below_count_if_asked_for() -> None:
    taken: list[str] = []

    async def child(depth: int) -> None:
        await trio.lowlevel.checkpoint()
        taken.append(f"child {depth}")
        if depth:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child, depth - 1)

    async def parent() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child, 2)

    counted = 0
    while True:
        taken.clear()
        with cancel_at(counted, tasks="all") as scope:
            await parent()
        if not scope.cancel_called:
            break
        counted += 1
    # Two steps of each of the three children and one more of the two that wait for another; one of
    # the parent, whose second leaves the block.
    assert counted - 1 == 3 * 2 + 2 + 1
    own = 0
    while True:
        with cancel_at(own) as scope:
            await parent()
        if not scope.cancel_called:
            break
        own += 1
    assert own - 1 == 1


async def test_several_blocks_use_up_one_countdown() -> None:
    countdown = Countdown(4)
    passed: list[int] = []
    for number in range(3):
        with countdown.block() as scope:
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            passed.append(number)
        assert scope.cancelled_caught is (number == 1)
    assert passed == [0, 2]
    assert countdown.hit


def test_a_number_of_steps_is_not_negative() -> None:
    with pytest.raises(ValueError, match="not negative"):
        cancel_at(-1)


# --------------------------------------------------------------------------------- every checkpoint


class Account:
    """Moves what it holds from left to right, in two steps."""

    def __init__(self) -> None:
        self.left, self.right = 1, 0

    async def move_carelessly(self) -> None:
        await trio.sleep(1.0)
        self.left -= 1
        await trio.sleep(1.0)
        self.right += 1
        await trio.sleep(1.0)

    async def move_carefully(self) -> None:
        await trio.sleep(1.0)
        self.left -= 1
        try:
            await trio.sleep(1.0)
        except trio.Cancelled:
            self.left += 1
            raise
        self.right += 1
        await trio.sleep(1.0)


def moving(
    move: Callable[[Account], Awaitable[None]], cancelled: list[bool]
) -> Callable[[Simulation], Awaitable[None]]:
    async def scenario(sim: Simulation) -> None:
        account = Account()
        with sim.cancelling() as scope:
            await move(account)
        cancelled.append(scope.cancelled_caught)
        assert account.left + account.right == 1

    return scenario


def test_a_scenario_is_cancelled_at_every_checkpoint_there_is() -> None:
    cancelled: list[bool] = []
    assert for_every_checkpoint(moving(Account.move_carefully, cancelled)) == 3
    assert cancelled == [True] * 4 + [False]


def test_a_checkpoint_at_which_cancellation_loses_something_is_found() -> None:
    careless = moving(Account.move_carelessly, [])
    run(careless, seed=0)
    with pytest.raises(SimulationFailed) as caught:
        for_every_checkpoint(careless)
    assert caught.value.again.endswith("seed=0, cancel_at=2)")
    with pytest.raises(SimulationFailed):
        run(careless, seed=0, cancel_at=2)


def test_a_scenario_that_marks_nothing_is_refused() -> None:
    async def scenario(sim: Simulation) -> None:
        await trio.sleep(1.0)

    with pytest.raises(ValueError, match="never entered"):
        for_every_checkpoint(scenario)


def test_a_scenario_with_too_many_checkpoints_is_refused() -> None:
    async def scenario(sim: Simulation) -> None:
        with sim.cancelling():
            while True:
                await trio.lowlevel.checkpoint()

    with pytest.raises(ValueError, match="more than 20 checkpoints"):
        for_every_checkpoint(scenario, max_checkpoints=20)
