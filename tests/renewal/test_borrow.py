"""Borrowing: the source on air, and what becomes of the block when it goes."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, scene, until
from line_stage import Exchange, Line, options
from trio.testing import (
    MockClock,
    assert_no_checkpoints,
    wait_all_tasks_blocked,
)

from trio_reactor.errors import Closed, Expired, Failed, Lost, Retired
from trio_reactor.renewal import Renewal, SessionRetired, SourcesExhausted, open_renewal
from trio_reactor.renewal.events import Prepared


async def use(renewal: Renewal[Line], seconds: float, used: list[Line] | None = None) -> None:
    async with renewal.borrow() as line:
        if used is not None:
            used.append(line)
        await trio.sleep(seconds)


async def test_what_is_borrowed_is_the_source_on_air(autojump_clock: object) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal:
        async with renewal.borrow() as line:
            assert line is exchange.newest
            assert renewal.statistics().borrowing.lent == 1
        assert renewal.statistics().borrowing.lent == 0


async def test_entering_can_be_cancelled_and_yields_only_where_it_waits(
    autojump_clock: object,
) -> None:
    async with open_renewal(Exchange(), options=options()) as renewal:
        borrow = renewal.borrow()
        with trio.CancelScope() as scope:
            scope.cancel()
            await borrow.__aenter__()
        assert scope.cancelled_caught
        assert renewal.statistics().borrowing.lent == 0

        yielded = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(yielding, yielded)
            async with renewal.borrow():
                assert not yielded.is_set()

            borrow = renewal.borrow()
            await borrow.__aenter__()
            with assert_no_checkpoints():
                await borrow.__aexit__(None, None, None)


async def yielding(ran: trio.Event) -> None:
    await trio.lowlevel.checkpoint()
    ran.set()


async def test_a_block_is_entered_once(autojump_clock: object) -> None:
    async with open_renewal(Exchange(), options=options()) as renewal:
        borrow = renewal.borrow()
        async with borrow:
            pass
        with pytest.raises(RuntimeError, match="single"):
            await borrow.__aenter__()
        assert renewal.statistics().borrowing.lent == 0


async def test_what_the_block_raises_comes_out_as_it_is(autojump_clock: object) -> None:
    error = KeyError("mine")
    async with open_renewal(Exchange(), options=options()) as renewal:
        with pytest.raises(KeyError) as caught:
            async with renewal.borrow():
                raise error
        assert caught.value is error
        assert renewal.statistics().borrowing.lent == 0


async def test_a_switch_is_immediate_and_the_old_source_stays_for_who_uses_it(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        await trio.sleep(48)
        nursery.start_soon(use, renewal, 7)  # until 55
        await trio.sleep(3)
        async with renewal.borrow() as line:
            assert line.number == 2  # since 50.5
            assert exchange.lines[0].open
            assert renewal.state.leaving == 1
        await trio.sleep(3.9)
        assert exchange.lines[0].open
        await trio.sleep(0.2)
        assert exchange.lines[0].closed_at == pytest.approx(55.0)
        assert renewal.state.leaving == 0
    assert exchange.most_alive == 2


async def test_the_old_source_leaves_with_the_last_who_uses_it(autojump_clock: object) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        await trio.sleep(48)
        for seconds in (4, 6, 5):
            nursery.start_soon(use, renewal, seconds)
        await trio.sleep(10)
        assert exchange.lines[0].closed_at == pytest.approx(54.0)


async def test_who_stays_to_the_end_of_the_old_source_is_told_that_its_life_is_over(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal:
        await trio.sleep(40)
        with pytest.raises(Expired):
            await use(renewal, 1000)
        assert trio.current_time() == pytest.approx(60.0)
        await use(renewal, 1)
        assert [line.number for line in exchange.lines if line.open] == [2]


async def test_a_source_that_is_lent_leaves_no_room_for_another_to_be_prepared(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        await trio.sleep(48)
        nursery.start_soon(use, renewal, 11.5)  # until 59.5, and it could stay until 60
        await trio.sleep(3)
        exchange.newest.lose()
        await trio.sleep(1)
        exchange.newest.lose()  # the third
        await trio.sleep(2)
        assert exchange.most_alive == 2
        await trio.sleep(20)
        assert exchange.most_alive == 2


async def test_a_loss_cancels_the_block_at_once_and_its_cause_is_told(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    gone = OSError("cable")
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:

        async def lose() -> None:
            await trio.sleep(3)
            exchange.newest.lose(gone)

        nursery.start_soon(lose)
        with pytest.raises(Lost) as caught:
            await use(renewal, 1000)
        assert trio.current_time() == pytest.approx(3.0)
        assert caught.value.__cause__ is gone
        began = trio.current_time()
        async with renewal.borrow() as line:
            assert line.number == 2
        assert trio.current_time() == pytest.approx(began + 0.5 + 1.0)  # a pause, then it opens


async def test_a_source_that_was_handed_over_and_is_lost_is_taken_back_too(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:

        async def lose() -> None:
            await trio.sleep(52)
            exchange.lines[0].lose()

        nursery.start_soon(lose)
        with pytest.raises(Lost):
            await use(renewal, 1000)
        assert trio.current_time() == pytest.approx(52.0)
        await trio.sleep(1)
        assert renewal.state.leaving == 0
        assert renewal.state.status == "ready"


@pytest.mark.parametrize("loss", ["media", "events", "condemned"])
async def test_what_is_not_whole_any_more_is_taken_back_and_lent_again_when_it_is(
    loss: str, autojump_clock: object
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        source = stage.provider.newest
        slot = renewal._chain.on_air
        assert slot is not None

        async def lose() -> None:
            await trio.sleep(1)
            match loss:
                case "media":
                    source.end_media()
                case "events":
                    source.lose_connection()
                case _:
                    renewal._chain.hearing.lost(slot, "outcome-unknown", Lost("who knows"))

        began = trio.current_time()
        nursery.start_soon(lose)
        with pytest.raises(Lost):
            async with renewal.borrow():
                await trio.sleep_forever()
        assert trio.current_time() == pytest.approx(began + 1.0)
        async with renewal.borrow() as again:
            assert again.id == ("simulated-2" if loss == "condemned" else "simulated-1")
            assert renewal.state.status == "ready"


async def handed_over(stage: Stage, renewal: Renewal, borrowed: trio.Event) -> None:
    """Lend the first source and let it be handed over."""
    await until(lambda: bool(stage.said(Prepared)))
    borrowed.set()
    await wait_all_tasks_blocked()
    await renewal.enqueue(scene(1))
    await until(lambda: "HandedOver" in stage.story)


@pytest.mark.parametrize("loss", ["media", "events"])
async def test_a_lent_source_that_was_handed_over_is_still_heard_when_it_is_lost(
    loss: str, autojump_clock: object
) -> None:
    stage = Stage(lifetime=60.0)
    borrowed = trio.Event()
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        source = stage.provider.newest

        async def lose() -> None:
            await handed_over(stage, renewal, borrowed)
            assert renewal.state.leaving == 1
            if loss == "media":
                source.end_media()
            else:
                source.lose_connection()

        nursery.start_soon(lose)
        await borrowed.wait()
        with pytest.raises(Lost):
            async with renewal.borrow() as used:
                assert used is source
                await trio.sleep_forever()
        assert 50 < trio.current_time() < 55
        assert "Recovering" not in stage.story


async def test_a_lent_source_that_was_handed_over_and_is_to_end_sooner_does(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    borrowed = trio.Event()
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        source = stage.provider.newest

        async def warn() -> None:
            await handed_over(stage, renewal, borrowed)
            said = len(stage.story)
            source.go_away(2.0)
            await trio.sleep(1)
            assert len(stage.story) == said  # it is nobody's concern any more but the borrower's

        nursery.start_soon(warn)
        await borrowed.wait()
        with pytest.raises(Expired):
            async with renewal.borrow():
                await trio.sleep_forever()
        assert trio.current_time() < 55


async def test_an_exclusive_source_is_used_to_the_end_and_only_then_is_its_successor_opened(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, exclusive=True)
    async with stage.open() as renewal:
        async with renewal.borrow():
            await trio.sleep(53)
            assert renewal.state.status == "vacant"
            assert stage.provider.opened == 1
        async with renewal.borrow() as source:
            assert source.id == "simulated-2"
    assert stage.provider.most_live == 1


async def test_who_comes_while_the_place_is_vacant_waits_for_the_next_source(
    autojump_clock: object,
) -> None:
    exchange = Exchange(open_delay=3.0)
    used: list[Line] = []
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        await trio.sleep(10)
        exchange.newest.lose()
        await trio.sleep(1)
        for _ in range(5):
            nursery.start_soon(use, renewal, 1, used)
        await wait_all_tasks_blocked()
        assert renewal.statistics().borrowing.waiting == 5
        assert renewal.statistics().borrowing.lent == 0
        await trio.sleep(2.1)
        assert [line.number for line in used] == [2] * 5
        assert renewal.statistics().borrowing.waiting == 0
        assert renewal.statistics().borrowing.lent == 5


async def test_who_waits_is_woken_by_nothing_but_what_it_waits_for(autojump_clock: object) -> None:
    exchange = Exchange(open_delay=1.0, failures=5)
    steps = 0

    class Steps(trio.abc.Instrument):
        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal steps
            steps += task.name == "waiter"

    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        await trio.sleep(10)
        exchange.newest.lose()
        await wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(Steps())
        nursery.start_soon(use, renewal, 0, name="waiter")
        await until(lambda: len(exchange.lines) == 2)
        await wait_all_tasks_blocked()
        assert steps <= 4  # its checkpoint, its wait, and two of its block


async def test_cancelled_while_it_waits_nothing_is_left_behind(autojump_clock: object) -> None:
    exchange = Exchange(open_delay=3.0)
    async with open_renewal(exchange, options=options()) as renewal:
        exchange.newest.lose()
        await wait_all_tasks_blocked()
        with trio.move_on_after(1) as scope:
            await use(renewal, 1)
        assert scope.cancelled_caught
        assert renewal.statistics().borrowing.waiting == 0
        await trio.sleep(10)
        assert renewal.statistics().borrowing.lent == 0


async def test_after_the_last_source_nobody_waits_any_more(autojump_clock: object) -> None:
    exchange = Exchange(lifetime=20.0)
    async with open_renewal(exchange, options=options()) as renewal:
        await renewal.stop_renewal()
        await trio.sleep(21)
        with pytest.raises(SessionRetired):
            await use(renewal, 1)


async def test_who_waits_for_a_source_that_never_comes_is_told_so(autojump_clock: object) -> None:
    exchange = Exchange(lifetime=20.0, open_delay=3.0)
    told: list[type[BaseException]] = []

    async def wait(renewal: Renewal[Line]) -> None:
        try:
            await use(renewal, 1)
        except (SessionRetired, Closed, Failed) as failure:
            told.append(type(failure))

    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        exchange.newest.lose()
        await wait_all_tasks_blocked()
        nursery.start_soon(wait, renewal)
        await wait_all_tasks_blocked()
        await renewal.stop_renewal()
        await wait_all_tasks_blocked()
        assert told == [SessionRetired]


async def test_who_waits_when_it_closes_is_told_at_once(autojump_clock: object) -> None:
    exchange = Exchange(open_delay=3.0)
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        exchange.newest.lose()
        await wait_all_tasks_blocked()

        async def wait() -> None:
            with pytest.raises(Closed):
                await use(renewal, 1)
            assert trio.current_time() == 1.0

        nursery.start_soon(wait)
        await trio.sleep(1)
        await renewal.close()
        with pytest.raises(Closed):
            await use(renewal, 1)


async def test_who_waits_when_it_fails_is_told_at_once(autojump_clock: object) -> None:
    exchange = Exchange(failures=100)
    told: list[BaseException] = []

    async def wait(renewal: Renewal[Line]) -> None:
        # The body of what has failed is cancelled; its clean-up can still ask.
        with trio.CancelScope(shield=True):
            for _ in range(2):
                with pytest.raises(Failed) as caught:
                    await use(renewal, 1)
                told.append(caught.value)

    with pytest.raises(SourcesExhausted):
        async with open_renewal(exchange, options=options(max_failures=2)) as renewal:
            exchange.newest.lose()
            await wait_all_tasks_blocked()
            await wait(renewal)
    assert [type(failure) for failure in told] == [Failed, Failed]


async def test_who_never_borrowed_for_hours_gets_a_live_source(autojump_clock: object) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal:
        await trio.sleep(10 * 3600)
        began = trio.current_time()
        async with renewal.borrow() as line:
            assert line.open
            assert line.number > 600
        assert trio.current_time() == began


async def test_with_lead_long_enough_borrowing_never_waits(autojump_clock: object) -> None:
    exchange = Exchange(open_delay=5.0)
    used: set[int] = set()
    async with open_renewal(exchange, options=options(jitter=0.5)) as renewal:
        while trio.current_time() < 3000:
            began = trio.current_time()
            async with renewal.borrow() as line:
                assert line.open
                assert trio.current_time() == began
                await trio.sleep(0.1)
                assert line.open
                used.add(line.number)
    assert used == set(range(1, len(exchange.lines) + 1))
    assert len(used) > 50


async def test_at_the_very_end_of_a_life_nobody_is_given_what_is_over(
    autojump_clock: MockClock,
) -> None:
    exchange = Exchange()
    used: list[Line] = []

    async def come(renewal: Renewal[Line]) -> None:
        if trio.current_time() < 60:
            autojump_clock.jump(60 - trio.current_time())
        await use(renewal, 1, used)

    async with (
        open_renewal(exchange, options=options(lead=0.0)) as renewal,
        trio.open_nursery() as nursery,
    ):
        await trio.sleep(59)
        for _ in range(20):  # they run in one step with the chain, some of them before it
            nursery.start_soon(come, renewal)
    assert [line.number for line in used] == [2] * 20


async def test_a_block_can_be_inside_of_another(autojump_clock: object) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal:
        await trio.sleep(48)
        async with renewal.borrow() as outer:
            await trio.sleep(4)
            async with renewal.borrow() as inner:
                assert (outer.number, inner.number) == (1, 2)
                assert outer.open
                assert renewal.statistics().borrowing.lent == 2
            assert outer.open
        await wait_all_tasks_blocked()
        assert not outer.open


async def test_the_loss_of_the_outer_source_comes_out_of_the_outer_block(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal:
        await trio.sleep(48)
        with pytest.raises(Expired):
            async with renewal.borrow():
                await trio.sleep(4)
                await use(renewal, 1000)
        assert trio.current_time() == pytest.approx(60.0)
        assert renewal.statistics().borrowing.lent == 0


# ------------------------------------------------------------------------------------------ close


async def test_close_inside_of_a_block_is_refused_at_once_and_breaks_nothing(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal:
        async with renewal.borrow() as line, trio.open_nursery() as inside:

            async def close() -> None:
                with pytest.raises(RuntimeError, match="inside a block"):
                    await renewal.close()

            await close()
            inside.start_soon(close)
            async with trio.open_nursery() as deeper:
                deeper.start_soon(close)
            assert line.open
        async with renewal.borrow() as line:
            assert line.open
        assert (await renewal.close()).complete


async def test_close_beside_a_block_of_the_same_task_is_no_close_inside_of_it(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    async with (
        open_renewal(exchange, options=options()) as renewal,
        trio.open_nursery() as beside,
        renewal.borrow(),
    ):
        beside.start_soon(renewal.close)
        await trio.sleep(2)
    assert exchange.newest.closed_at == pytest.approx(2.0)


async def test_at_close_those_who_use_a_source_have_time_to_end(autojump_clock: object) -> None:
    exchange = Exchange()
    ended: list[float] = []

    async def work(renewal: Renewal[Line], seconds: float) -> None:
        async with renewal.borrow() as line:
            await trio.sleep(seconds)
            assert line.open
            ended.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        async with open_renewal(exchange, options=options()) as renewal:
            for seconds in (3, 9.5):
                nursery.start_soon(work, renewal, seconds)
            await wait_all_tasks_blocked()
        assert ended == [3, 9.5]
        assert trio.current_time() == pytest.approx(9.5)
        assert renewal.report is not None
        assert renewal.report.complete


async def test_at_the_end_of_the_budget_of_close_they_are_told_that_it_was_retired(
    autojump_clock: object,
) -> None:
    exchange = Exchange(close_delay=9.0)

    async def work(renewal: Renewal[Line]) -> None:
        with pytest.raises(Retired):
            await use(renewal, 1000)
        assert trio.current_time() == pytest.approx(10.0)

    async with trio.open_nursery() as nursery:
        async with open_renewal(exchange, options=options()) as renewal:
            nursery.start_soon(work, renewal)
            await wait_all_tasks_blocked()
        # What they took is not taken from the time that the source has to close.
        assert trio.current_time() == pytest.approx(19.0)
        assert renewal.report is not None
        assert renewal.report.complete


async def test_who_is_told_so_because_the_renewal_failed_is_told_why(
    autojump_clock: object,
) -> None:
    defect = ValueError("a bug")

    async def check(line: Line) -> None:
        if line.number == 2:
            raise defect

    async def work(renewal: Renewal[Line]) -> None:
        with pytest.raises(Retired) as caught:
            await use(renewal, 1000)
        assert caught.value.__cause__ is defect
        assert trio.current_time() == pytest.approx(60.0)

    async with trio.open_nursery() as nursery:
        with pytest.raises(ValueError, match="a bug"):
            async with open_renewal(
                Exchange(lifetime=None), options=options(), check=check
            ) as renewal:
                nursery.start_soon(work, renewal)
                await trio.sleep(49.5)
                await renewal.renew("settings")


async def test_a_handed_over_source_that_is_lent_is_waited_for_at_close_too(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    async with trio.open_nursery() as nursery:
        async with open_renewal(exchange, options=options()) as renewal:
            await trio.sleep(49)
            nursery.start_soon(use, renewal, 4)
            await trio.sleep(2)
        assert [line.closed_at for line in exchange.lines] == [pytest.approx(53.0)] * 2


async def test_a_source_that_ends_while_close_waits_for_who_uses_it_is_taken_back(
    autojump_clock: object,
) -> None:
    exchange = Exchange()

    async def work(renewal: Renewal[Line]) -> None:
        with pytest.raises(Lost):
            await use(renewal, 1000)

    async with trio.open_nursery() as nursery:
        async with open_renewal(exchange, options=options()) as renewal:
            nursery.start_soon(work, renewal)
            await trio.sleep(1)
            exchange.newest.lose()
        assert trio.current_time() == pytest.approx(1.0)


async def test_the_clean_up_of_a_cancelled_body_can_still_borrow_but_does_not_wait(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    with trio.CancelScope() as scope:
        async with open_renewal(exchange, options=options()) as renewal:
            scope.cancel()
            with trio.CancelScope(shield=True):
                await use(renewal, 1)
                exchange.newest.lose()
                await wait_all_tasks_blocked()
                with pytest.raises(Closed):
                    await use(renewal, 1)
    assert scope.cancelled_caught or renewal.report is not None


async def test_a_block_that_expires_says_why_no_successor_was_there(
    autojump_clock: object,
) -> None:
    exchange = Exchange(failures=3)
    async with open_renewal(exchange, options=options(first_pause=6.0)) as renewal:
        with pytest.raises(Expired) as caught:
            await use(renewal, 61)
        assert isinstance(caught.value.__cause__, Lost)
        assert str(caught.value.__cause__) == "no line"


async def test_a_block_that_expires_after_a_handover_has_nothing_else_to_say(
    autojump_clock: object,
) -> None:
    exchange = Exchange(failures=1)
    async with open_renewal(exchange, options=options()) as renewal:
        await trio.sleep(40)
        with pytest.raises(Expired) as caught:
            await use(renewal, 30)
        assert renewal.state.status == "ready"
        assert caught.value.__cause__ is None
