"""Every order of three things that can happen at once, also in one and the same step."""

from __future__ import annotations

from itertools import combinations

import pytest
from owner_play import ACTIONS, Play

from trio_reactor.testing import Order, Schedule, orders, run


def perform(order: Order, *seeds: int, schedule: Schedule | None = None) -> None:
    for defects in (False, True):
        for seed in seeds:
            run(Play(order, defects=defects), seed=seed, schedule=schedule or Schedule())


@pytest.mark.parametrize("names", list(combinations(ACTIONS, 3)), ids=" ".join)
def test_in_every_order_of_three_all_that_must_hold_holds(names: tuple[str, ...]) -> None:
    for seed, order in enumerate(orders(*names)):
        perform(order, seed)


@pytest.mark.parametrize("names", list(combinations(ACTIONS, 2)), ids=" ".join)
def test_in_every_order_of_two_all_that_must_hold_holds(names: tuple[str, ...]) -> None:
    for order in orders(*names):
        perform(order, *range(2))


@pytest.mark.parametrize("order", list(orders("crash", "retire", "cancel-outside")), ids=str)
def test_crash_defect_at_retirement_and_outer_cancellation_are_all_told(order: Order) -> None:
    """The three that were seen to swallow one another; `Play` counts every leaf."""
    perform(order, *range(10), schedule=Schedule(hold=0.4))


@pytest.mark.parametrize(
    ("order", "seed"),
    [
        ("retire>cancel-caller+die+close", 472156),
        ("cancel-joiner>crash+retire+die", 965094),
        ("retire>open+crash+cancel-outside+die", 919397),
    ],
)
def test_orders_that_failed_once_do_not_fail_again(order: str, seed: int) -> None:
    perform(Order.parse(order), seed, schedule=Schedule(hold=0.4))
