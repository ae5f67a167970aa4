"""One borrower, and everything that can meet it, in every order."""

from __future__ import annotations

import contextlib
import functools

import pytest
import trio
from line_stage import Exchange, Line, options
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Closed, Expired, Lost, ReactorError, Retired
from trio_reactor.renewal import Renewal, open_renewal
from trio_reactor.testing import Order, Simulation, for_every_checkpoint, orders

ENDS = {"expire": Expired, "lose": Lost}
"""What comes out of the block when its source goes."""


class Borrower:
    """One block, and how it ended."""

    def __init__(self) -> None:
        self.leave = trio.Event()
        self.line: Line | None = None
        self.open_to_the_end: bool | None = None
        self.end: type[BaseException] | None = None

    async def run(self, renewal: Renewal[Line]) -> None:
        try:
            async with renewal.borrow() as self.line:
                await self.leave.wait()
                self.open_to_the_end = self.line.closed_at is None
        except ReactorError as failure:
            self.end = type(failure)


async def ask(renewal: Renewal[Line]) -> None:
    with contextlib.suppress(Closed):
        await renewal.renew("a handover")


def first_of(order: Order, *names: str) -> set[str]:
    """Those of these that come in the first block in which any does."""
    for block in order.blocks:
        found = set(block) & set(names)
        if found:
            return found
    return set()


async def play(order: Order) -> None:
    exchange = Exchange(lifetime=None, open_delay=0.0)
    borrower = Borrower()
    async with trio.open_nursery() as nursery:
        async with open_renewal(exchange, options=options(first_pause=0.01)) as renewal:
            nursery.start_soon(borrower.run, renewal)
            await wait_all_tasks_blocked()
            first = exchange.newest
            slot = renewal._chain.on_air
            assert slot is not None
            assert slot.attempt is not None
            actions = {
                "hand-over": functools.partial(ask, renewal),
                "leave": borrower.leave.set,
                "expire": functools.partial(slot.attempt.set_lifetime, 0.0),
                "lose": first.lose,
                "close": renewal.close,
            }
            await order.play(actions, nursery)
            with contextlib.suppress(Closed):  # whatever happened, there is one to borrow
                async with renewal.borrow() as line:
                    assert line.closed_at is None
                    assert "close" not in str(order)
            await wait_all_tasks_blocked()
            assert renewal.statistics().borrowing.lent == 0
            assert renewal.statistics().borrowing.waiting == 0
            assert renewal.state.leaving == 0
        assert exchange.alive == 0
        assert exchange.most_alive <= 2
        assert renewal.report is not None
        assert renewal.report.complete
    # What ended it is what came first; what came in the same step may be any of those.
    first_end = first_of(order, "leave", "expire", "lose")
    allowed = {ENDS.get(name) for name in first_end}
    assert borrower.end in allowed, order
    if first_end == {"leave"}:
        assert borrower.open_to_the_end


@pytest.mark.parametrize("first", range(8))
async def test_a_block_ends_by_what_comes_first_and_nothing_is_left_of_it(
    first: int, autojump_clock: object
) -> None:
    for order in orders("hand-over", "leave", "expire", "lose", "close")[first::8]:
        await play(order)


async def borrowing(simulation: Simulation) -> None:
    """Borrowers across a handover, a loss and a wait; cancelled somewhere, whoever is running."""
    exchange = Exchange(lifetime=12.0, open_delay=0.2)
    broken: list[str] = []

    async def use(renewal: Renewal[Line], seconds: float) -> None:
        for _ in range(3):
            try:
                async with renewal.borrow() as line:
                    if line.closed_at is not None:
                        broken.append(line.id)
                    await trio.sleep(seconds)
                    if line.closed_at is not None:
                        broken.append(line.id)
            except (Lost, Expired, Retired):
                pass

    async with open_renewal(exchange, options=options(), world=simulation.world) as renewal:
        with simulation.cancelling("all"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(use, renewal, 1.5)
                nursery.start_soon(use, renewal, 3.0)
                await trio.sleep(4)
                exchange.newest.lose()
                await wait_all_tasks_blocked()
                async with renewal.borrow():
                    pass
        with simulation.cancelling():
            await renewal.renew("settings")
        await trio.sleep(1)
        assert not broken
        assert renewal.statistics().borrowing.lent == 0
        assert renewal.statistics().borrowing.waiting == 0
        assert renewal.state.leaving == 0
        assert renewal.state.status == "ready"
        async with renewal.borrow() as line:
            assert line.closed_at is None
    assert exchange.alive == 0


def test_borrowers_cancelled_at_every_checkpoint_leave_nothing_behind() -> None:
    assert for_every_checkpoint(borrowing) > 10


async def holding_out(simulation: Simulation) -> None:
    """A close that waits for a borrower, and whoever waits for it is cancelled somewhere."""
    exchange = Exchange(lifetime=None)
    async with trio.open_nursery() as nursery:
        async with open_renewal(exchange, options=options(), world=simulation.world) as renewal:

            async def use() -> None:
                async with renewal.borrow() as line:
                    await trio.sleep(3)
                    assert line.closed_at is None

            nursery.start_soon(use)
            await wait_all_tasks_blocked()
            with simulation.cancelling():
                await renewal.close()
            assert (await renewal.close()).complete
        assert exchange.newest.closed_at is not None
        assert exchange.newest.closed_at >= 3


def test_a_close_that_waits_for_a_borrower_goes_on_without_who_asked_for_it() -> None:
    assert for_every_checkpoint(holding_out) >= 1
