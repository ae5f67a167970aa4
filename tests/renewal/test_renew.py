"""A successor on demand: opened after it was asked for, and on air at the next boundary."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, scene, until
from line_stage import Exchange, Line, options
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_reactor.channel import EventChannel
from trio_reactor.errors import Closed, Failed
from trio_reactor.renewal import NotRenewing, Renewal, SourcesExhausted, open_renewal
from trio_reactor.renewal.events import (
    ClipLost,
    HandedOver,
    OnAir,
    Prepared,
    RenewalWanted,
    Replaced,
    SourceClosed,
    SourceOpening,
)


async def ask(renewal: Renewal[Line], got: list[int], reason: str = "asked") -> None:
    got.append((await renewal.renew(reason)).incarnation)


async def test_a_successor_that_is_asked_for_is_opened_and_goes_on_air(
    autojump_clock: object,
) -> None:
    exchange = Exchange(lifetime=None)
    async with open_renewal(exchange, options=options()) as renewal:
        with renewal.observe(RenewalWanted, OnAir) as (_, events):
            await trio.sleep(5)
            with assert_checkpoints():
                source = await renewal.renew("a new credential")
            assert trio.current_time() == pytest.approx(5.5)
            assert (source.incarnation, source.id) == (2, "line-2")
            async with renewal.borrow() as line:
                assert line.id == source.id
            said = (await events.receive()).event
            assert isinstance(said, RenewalWanted)
            assert (said.reason, said.age) == ("a new credential", 5.0)
            assert said.source is not None
            assert said.source.id == "line-1"
            assert isinstance((await events.receive()).event, OnAir)
    assert len(exchange.lines) == 2


async def test_requests_for_which_nothing_has_begun_to_open_are_one(
    autojump_clock: object,
) -> None:
    exchange = Exchange(lifetime=None)
    got: list[int] = []
    async with open_renewal(exchange, options=options()) as renewal:
        await wait_all_tasks_blocked()
        with renewal.observe(RenewalWanted) as (_, events):
            async with trio.open_nursery() as nursery:
                for number in range(5):
                    nursery.start_soon(ask, renewal, got, f"asked {number}")
            assert got == [2] * 5
            assert len(exchange.lines) == 2
            await events.receive()
            with pytest.raises(trio.WouldBlock):
                events.receive_nowait()


async def test_who_asks_while_a_successor_opens_waits_for_that_and_for_one_more(
    autojump_clock: object,
) -> None:
    exchange = Exchange(lifetime=None, open_delay=2.0)
    got: list[int] = []
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        for _ in range(10):  # however many ask, again and again
            nursery.start_soon(ask, renewal, got)
            await trio.sleep(0.5)
        await until(lambda: len(got) == 10)
        assert got == [2] + [3] * 4 + [4] * 4 + [5]
        assert trio.current_time() < 9


async def test_nothing_that_is_prepared_is_thrown_away(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        got: list[int] = []
        await until(lambda: bool(stage.said(Prepared)))

        async def want() -> None:
            got.append((await renewal.renew("settings")).incarnation)

        nursery.start_soon(want)
        await wait_all_tasks_blocked()
        await renewal.enqueue(scene(1))
        await until(lambda: len(stage.said(Prepared)) == 2)
        assert not got
        await renewal.enqueue(scene(1))
        await until(lambda: bool(got))
        assert got == [3]
        assert [said.new.incarnation for said in stage.said(HandedOver)] == [2, 3]
        assert not stage.said(Replaced)


async def test_a_successor_waits_for_the_boundary(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, renewal={"max_frames": 1000})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await renewal.enqueue(scene(100))  # four seconds
        await trio.sleep(1)
        nursery.start_soon(renewal.renew, "settings")
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        await trio.sleep(1.5)
        assert not stage.said(HandedOver)
        await until(lambda: bool(stage.said(HandedOver)))
        assert not stage.said(ClipLost)
        assert stage.said(HandedOver)[0].tail.frames_received == 100


async def test_what_follows_a_loss_fulfils_it_if_it_was_opened_after(
    autojump_clock: object,
) -> None:
    exchange = Exchange(lifetime=None, open_delay=2.0)
    got: list[int] = []
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        await trio.sleep(10)
        exchange.newest.lose()
        nursery.start_soon(ask, renewal, got)  # nothing has begun to open
        await trio.sleep(10)
        assert got == [2]
        exchange.newest.lose()
        await trio.sleep(1)
        nursery.start_soon(ask, renewal, got)  # the third opens
        await trio.sleep(10)
        assert got == [2, 4]
        assert len(exchange.lines) == 4


async def test_an_open_that_fails_is_tried_again_for_it(autojump_clock: object) -> None:
    exchange = Exchange(lifetime=None, failures=3)
    got: list[int] = []
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:
        await trio.sleep(10)
        nursery.start_soon(ask, renewal, got)
        await trio.sleep(0.7)
        nursery.start_soon(ask, renewal, got)  # after the first has failed
        await until(lambda: len(got) == 2)
        assert got == [5, 5]
        assert len(exchange.lines) == 2


async def test_it_goes_on_without_who_asked(autojump_clock: object) -> None:
    exchange = Exchange(lifetime=None)
    async with open_renewal(exchange, options=options()) as renewal:
        with trio.move_on_after(0.1) as scope:
            await renewal.renew("asked")
        assert scope.cancelled_caught
        assert len(exchange.lines) == 1
        await trio.sleep(1)
        async with renewal.borrow() as line:
            assert line.number == 2
        await trio.sleep(100)
        assert len(exchange.lines) == 2


async def test_cancelled_already_nothing_is_asked_for(autojump_clock: object) -> None:
    exchange = Exchange(lifetime=None)
    async with open_renewal(exchange, options=options()) as renewal:
        with trio.CancelScope() as scope:
            scope.cancel()
            await renewal.renew("asked")
        assert scope.cancelled_caught
        await trio.sleep(100)
        assert len(exchange.lines) == 1


async def test_after_renewal_was_stopped_none_is_asked_for(autojump_clock: object) -> None:
    exchange = Exchange()
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:

        async def refused() -> None:
            with pytest.raises(NotRenewing):
                await renewal.renew("asked")
            assert trio.current_time() == 0

        nursery.start_soon(refused)
        await wait_all_tasks_blocked()
        await renewal.stop_renewal()
        await refused()


async def test_what_is_prepared_when_renewal_stops_still_fulfils_it(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        got: list[int] = []

        async def want() -> None:
            got.append((await renewal.renew("settings")).incarnation)

        nursery.start_soon(want)
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.stop_renewal()
        assert not got
        await renewal.enqueue(scene(1))
        await until(lambda: bool(got))
        assert got == [2]


async def test_who_waits_when_it_closes_is_told_so(autojump_clock: object) -> None:
    exchange = Exchange(open_delay=5.0)
    async with open_renewal(exchange, options=options()) as renewal, trio.open_nursery() as nursery:

        async def refused() -> None:
            with pytest.raises(Closed):
                await renewal.renew("asked")

        nursery.start_soon(refused)
        await trio.sleep(1)
        await renewal.close()
        await refused()


async def test_who_waits_when_it_fails_is_told_so(autojump_clock: object) -> None:
    exchange = Exchange(failures=100)
    with pytest.raises(SourcesExhausted):
        async with open_renewal(exchange, options=options(max_failures=2)) as renewal:
            with trio.CancelScope(shield=True), pytest.raises(Failed):
                await renewal.renew("asked")


async def test_an_exclusive_source_gives_way_to_it(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, exclusive=True)
    async with stage.open() as renewal:
        source = await renewal.renew("settings")
        assert source.incarnation == 2
        assert stage.provider.most_live == 1


async def test_inside_of_a_block_the_first_successor_can_be_waited_for_and_no_other(
    autojump_clock: object,
) -> None:
    exchange = Exchange(lifetime=None, open_delay=2.0)
    async with open_renewal(exchange, options=options()) as renewal:
        async with renewal.borrow() as old:
            await renewal.renew("settings")
            async with renewal.borrow() as new:
                assert (old.number, new.number) == (1, 2)
                with pytest.raises(RuntimeError, match="the block that it is called in"):
                    await renewal.renew("settings")
        await renewal.renew("settings")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(renewal.renew, "settings")
            await trio.sleep(1)
            async with renewal.borrow():
                with pytest.raises(RuntimeError, match="the block that it is called in"):
                    await renewal.renew("while one opens")
        assert len(exchange.lines) == 4


async def test_inside_of_a_block_on_an_exclusive_source_no_successor_can_be_waited_for(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, exclusive=True)
    async with stage.open() as renewal:
        async with renewal.borrow():
            with pytest.raises(RuntimeError, match="the block that it is called in"):
                await renewal.renew("settings")
        assert stage.provider.opened == 1


async def test_a_lent_source_leaves_no_room_for_a_second_successor_until_it_is_given_back(
    autojump_clock: object,
) -> None:
    exchange = Exchange(lifetime=None)
    got: list[int] = []
    channel = EventChannel()
    with channel.subscribe() as events:
        async with (
            open_renewal(exchange, options=options(), events=channel) as renewal,
            trio.open_nursery() as nursery,
        ):
            async with renewal.borrow():
                await ask(renewal, got)
                nursery.start_soon(ask, renewal, got)
                await trio.sleep(50)
                assert got == [2]
            await trio.sleep(1)
            assert got == [2, 3]
        channel.end()
        said = [each.event async for each in events]
    assert exchange.most_alive == 2
    story = [type(each) for each in said if isinstance(each, SourceOpening | SourceClosed)]
    assert story[:4] == [SourceOpening, SourceOpening, SourceClosed, SourceOpening]
