"""Borrowing and checking where something ends in the same step."""

from __future__ import annotations

import pytest
import trio
from line_stage import Exchange, Line, options
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Closed, Lost, Retired
from trio_reactor.renewal import Renewal, open_renewal


async def test_the_first_who_borrows_may_do_so_in_the_clean_up_of_a_cancelled_body(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    used: list[int] = []
    with trio.CancelScope() as scope:
        async with open_renewal(exchange, options=options()) as renewal:
            scope.cancel()
            with trio.CancelScope(shield=True):
                async with renewal.borrow() as line:
                    used.append(line.number)
                exchange.newest.lose()
                await wait_all_tasks_blocked()
                with pytest.raises(Closed):
                    async with renewal.borrow():
                        raise AssertionError
    assert used == [1]


async def test_who_uses_the_whole_budget_of_close_leaves_the_source_its_own(
    autojump_clock: object,
) -> None:
    exchange = Exchange(lifetime=None, close_delay=4.0)

    async def stay(renewal: Renewal[Line]) -> None:
        with pytest.raises(Retired):
            async with renewal.borrow():
                await trio.sleep_forever()

    async with (
        trio.open_nursery() as nursery,
        open_renewal(exchange, options=options(cleanup_timeout=5.0)) as renewal,
    ):
        nursery.start_soon(stay, renewal)
        await wait_all_tasks_blocked()
        report = await renewal.close()
    assert report.complete
    assert trio.current_time() == pytest.approx(9.0)


async def test_a_close_in_the_step_in_which_a_check_begins_does_not_wait_for_its_budget(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    began: list[float] = []

    async def check(line: Line) -> None:
        began.append(trio.current_time())
        if line.number == 2:
            scope.cancel()
        await trio.sleep(100 if line.number == 2 else 0)

    with trio.CancelScope() as scope:
        async with open_renewal(exchange, options=options(check_timeout=5.0), check=check):
            await trio.sleep_forever()
    assert len(began) == 2
    assert trio.current_time() == pytest.approx(began[1])
    assert [line.closed_at for line in exchange.lines] == [pytest.approx(began[1])] * 2


async def test_close_in_the_clean_up_of_a_block_whose_source_was_lost_is_refused_too(
    autojump_clock: object,
) -> None:
    exchange = Exchange(lifetime=None)
    async with open_renewal(exchange, options=options()) as renewal:
        with pytest.raises(Lost):
            async with renewal.borrow():
                exchange.newest.lose()
                try:
                    await trio.sleep_forever()
                finally:
                    with trio.CancelScope(shield=True), pytest.raises(RuntimeError):
                        await renewal.close()
        assert renewal.report is None
        assert (await renewal.close()).total == 1


@pytest.mark.parametrize("failures", [0, 1])  # a source opens, or none does in a pause
async def test_who_waits_when_the_body_is_cancelled_does_not_wait_for_its_clean_up(
    failures: int, autojump_clock: object
) -> None:
    exchange = Exchange(lifetime=None, open_delay=2.0, failures=failures)
    pauses = options(first_pause=100.0, max_pause=100.0)
    told: list[tuple[str, float]] = []
    cancelled_at = 0.0

    async def wait(renewal: Renewal[Line]) -> None:
        with pytest.raises(Closed):
            async with renewal.borrow():
                raise AssertionError
        told.append(("borrow", trio.current_time()))

    async def ask(renewal: Renewal[Line]) -> None:
        with pytest.raises(Closed):
            await renewal.renew("why not")
        told.append(("renew", trio.current_time()))

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with open_renewal(exchange, options=pauses) as renewal:
                exchange.newest.lose()
                await trio.sleep(2.5 if failures else 0.5)
                nursery.start_soon(wait, renewal)
                nursery.start_soon(ask, renewal)
                await trio.sleep(0.5)
                cancelled_at = trio.current_time()
                scope.cancel()
                with trio.CancelScope(shield=True):
                    await trio.sleep(20)
    assert sorted(told) == [("borrow", cancelled_at), ("renew", cancelled_at)]
