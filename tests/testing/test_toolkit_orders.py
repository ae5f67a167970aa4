"""Every order of a few things, also of those that happen in one step."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import trio
import trio.lowlevel
from trio.testing import Sequencer

from trio_reactor.testing import Order, orders


@pytest.mark.parametrize("count", range(6))
def test_there_is_every_order_with_every_way_of_batching_once(count: int) -> None:
    names = "abcde"[:count]
    found = orders(*names)
    assert len(found) == len(set(found)) == math.factorial(count) * 2 ** max(0, count - 1)
    assert all(
        sorted("".join("".join(block) for block in each.blocks)) == [*names] for each in found
    )


def test_orders_read_well_and_can_be_kept_as_text() -> None:
    assert [str(each) for each in orders("cancel", "die")] == [
        "cancel>die",
        "cancel+die",
        "die>cancel",
        "die+cancel",
    ]
    for each in orders("cancel", "die", "close"):
        assert Order.parse(str(each)) == each
    assert Order.parse("a+b>c") == Order((("a", "b"), ("c",)))


@pytest.mark.parametrize("names", [("a", "a"), ("",), ("a>b",), ("a+b",)])
def test_names_that_could_not_be_told_apart_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="distinct names"):
        orders(*names)


def test_more_orders_than_can_be_tried_are_refused() -> None:
    with pytest.raises(ValueError, match="6 are the most"):
        orders(*"abcdefg")


@pytest.mark.parametrize("order", orders("a", "b", "c"), ids=str)
async def test_the_actions_of_a_block_are_one_step_and_everything_settles_between_blocks(
    order: Order, nursery: trio.Nursery
) -> None:
    seen: list[str] = []
    steps = 0

    async def watch() -> None:
        nonlocal steps
        while True:
            await trio.lowlevel.checkpoint()
            steps += 1
            if steps % 5 == 0:
                await gate.wait()

    gate = trio.Event()

    def action(name: str) -> Callable[[], None]:
        def act() -> None:
            nonlocal gate
            seen.append(f"{name}@{steps}")
            gate.set()
            gate = trio.Event()

        return act

    nursery.start_soon(watch)
    await trio.testing.wait_all_tasks_blocked()
    assert steps == 5
    await order.play({name: action(name) for name in "abc"}, nursery)
    expected = [
        f"{name}@{5 * (number + 1)}" for number, block in enumerate(order.blocks) for name in block
    ]
    assert seen == expected
    assert steps == 5 * (len(order.blocks) + 1)
    nursery.cancel_scope.cancel()


async def test_what_has_to_be_awaited_runs_in_a_task_and_may_outlast_the_order(
    nursery: trio.Nursery, autojump_clock: object
) -> None:
    seen: list[str] = []
    sequencer = Sequencer()

    async def quick() -> None:
        async with sequencer(0):
            seen.append(trio.lowlevel.current_task().name)

    async def slow() -> None:
        async with sequencer(1):
            await trio.sleep(10.0)
            seen.append("slow")

    await Order.parse("slow+quick>sync").play(
        {"slow": slow, "quick": quick, "sync": lambda: seen.append("sync")}, nursery
    )
    assert seen == ["quick", "sync"]
    await trio.sleep(11.0)
    assert seen == ["quick", "sync", "slow"]


async def test_nothing_is_done_if_an_action_is_missing(nursery: trio.Nursery) -> None:
    seen: list[str] = []
    with pytest.raises(KeyError, match="c"):
        await Order.parse("a>b>c").play(
            {"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, nursery
        )
    assert seen == []
