"""Every order of a few things, also of those that happen at once.

Three things that race can happen one after the other, with time in between for everything to
settle, or two or three of them in one and the same step, with no checkpoint in between.  What holds
for one of these orders need not hold for the next, and for a few things all of them can be tried:

    @pytest.mark.parametrize("order", orders("cancel", "die", "close"), ids=str)
    async def test_nothing_is_lost_in_whatever_order(order: Order, nursery: trio.Nursery) -> None:
        ...
        await order.play({"cancel": scope.cancel, "die": source.die, "close": owner.close}, nursery)

For n things there are n! * 2 ** (n - 1) orders: 1, 4, 24, 192.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, cast

import msgspec
import trio
import trio.testing

__all__ = ["MAX_ACTIONS", "Order", "orders"]

MAX_ACTIONS: Final = 6
"""How many actions `orders` takes: these have 23,040 orders."""


class Order(msgspec.Struct, frozen=True):
    """One order of named actions: blocks that follow each other, each of them one step.

    Its text reads `cancel+die>close`: cancel, then die in the same step, then, once everything has
    settled, close.
    """

    blocks: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return ">".join("+".join(block) for block in self.blocks)

    @classmethod
    def parse(cls, text: str) -> Order:
        """The order whose text this is, for one that is to be kept."""
        return cls(tuple(tuple(block.split("+")) for block in text.split(">")))

    async def play(
        self, actions: Mapping[str, Callable[[], object]], nursery: trio.Nursery
    ) -> None:
        """Carry out the actions in this order.

        The actions of a block are called one after the other without a checkpoint; then everything
        settles, until every task is blocked, before the next block and before this returns.  What
        an action returns is ignored, unless it is awaitable: then it is awaited in a task in
        `nursery`, so that all those of one block are runnable at once.  If cancelled, the blocks
        that are left are not played.

        Args:
            actions: What to call, by name.
            nursery: Where what has to be awaited runs.  Its tasks may outlast the last block.

        Raises:
            KeyError: If an action is missing; nothing was done then.
        """
        steps = [[actions[name] for name in block] for block in self.blocks]
        for block, step in zip(self.blocks, steps, strict=True):
            for name, action in zip(block, step, strict=True):
                result = action()
                if inspect.isawaitable(result):
                    nursery.start_soon(_await, cast("Awaitable[object]", result), name=name)
            await trio.testing.wait_all_tasks_blocked()


async def _await(awaitable: Awaitable[object]) -> None:
    await awaitable


def orders(*names: str) -> tuple[Order, ...]:
    """Every order of the actions, and within each every way to put neighbours in one step.

    Raises:
        ValueError: If a name is given twice, is empty or holds one of the signs `>` and `+`; or if
            there are more than `MAX_ACTIONS`.
    """
    if len(set(names)) != len(names) or any(not name or set(">+") & set(name) for name in names):
        raise ValueError(f"actions need distinct names without > and +, not {names}")
    if len(names) > MAX_ACTIONS:
        raise ValueError(f"{len(names)} actions have too many orders; {MAX_ACTIONS} are the most")
    return tuple(_orders(names))


def _orders(names: tuple[str, ...]) -> Iterator[Order]:
    for order in itertools.permutations(names):
        for together in itertools.product((False, True), repeat=max(0, len(order) - 1)):
            blocks: list[tuple[str, ...]] = [order[:1]] if order else []
            for name, joined in zip(order[1:], together, strict=True):
                if joined:
                    blocks[-1] += (name,)
                else:
                    blocks.append((name,))
            yield Order(tuple(blocks))
