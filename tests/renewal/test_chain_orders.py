"""Every order of what can meet at one moment, also in one step."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import pytest
import trio
from chain_stage import Stage, scene, until

from trio_reactor.errors import ReactorError, leaves
from trio_reactor.renewal import Renewal
from trio_reactor.renewal.events import (
    HandedOver,
    OnAir,
    Prepared,
    RenewalClosed,
    RenewalFailed,
    Replaced,
    SourceClosed,
    SourceOpened,
    SourceOpening,
)
from trio_reactor.testing import Order, orders


def judge(stage: Stage) -> None:
    """What holds of every story when it is over."""
    provider = stage.provider
    assert provider.live == {}
    assert provider.opened == provider.left
    assert provider.most_live <= 2
    assert stage.story[-1] in ("RenewalClosed", "RenewalFailed")
    assert len(stage.said(RenewalClosed, RenewalFailed)) == 1
    opened = [said.source.incarnation for said in stage.said(SourceOpened)]
    closed = [said.source.incarnation for said in stage.said(SourceClosed)]
    assert len(set(closed)) == len(closed)
    if stage.story[-1] == "RenewalClosed":
        assert set(opened) <= set(closed)
        report = stage.said(RenewalClosed)[0].report
        assert report.total == len(stage.said(SourceOpening))
        assert report.complete
    on_air = 0
    for envelope in stage.envelopes:
        match envelope.event:
            case OnAir():
                on_air += 1
            case HandedOver(gap=0.0) | Replaced():
                on_air -= 1
        assert on_air in (0, 1)


async def play(order: Order, **simulation: Any) -> None:
    """Let a source on air and a prepared one meet all of it, in this order."""
    stage = Stage(**({"lifetime": 12.0} | simulation))
    cancelled = trio.CancelScope()
    reached = trio.Event()

    async def ask(command: Any) -> None:
        with contextlib.suppress(ReactorError):  # refused is as good as taken here
            await command()

    async with trio.open_nursery() as nursery:

        async def body() -> None:
            with cancelled:
                async with stage.open() as renewal:
                    handles.append(renewal)
                    await until(lambda: bool(stage.said(Prepared)))
                    await renewal.enqueue(scene(200))
                    reached.set()
                    await trio.sleep_forever()

        handles: list[Renewal] = []
        nursery.start_soon(body)
        await reached.wait()
        await trio.sleep(0.1)
        (renewal,) = handles
        old = stage.provider.live["simulated-1"]
        slot = renewal._chain.on_air
        assert slot is not None
        actions = {
            "die": old.die,
            "lose": old.lose_connection,
            "expire": functools.partial(slot.attempt.set_lifetime, 0.0),  # type: ignore[union-attr]
            "stop": functools.partial(ask, renewal.stop_renewal),
            "close": functools.partial(ask, renewal.close),
            "cancel": cancelled.cancel,
        }
        await order.play(actions, nursery)
        await trio.sleep(2)
        if "close" not in str(order) and "cancel" not in str(order):
            assert renewal.state.status in ("ready", "finished", "vacant")
        cancelled.cancel()
    judge(stage)


@pytest.mark.parametrize("first", range(4))
async def test_a_loss_an_end_a_stop_and_a_close_in_every_order(
    autojump_clock: object, first: int
) -> None:
    told = list(orders("die", "expire", "stop", "close"))
    for order in told[first::4]:
        await play(order)


@pytest.mark.parametrize("first", range(4))
async def test_a_lost_connection_a_loss_a_stop_and_a_cancellation_in_every_order(
    autojump_clock: object, first: int
) -> None:
    told = list(orders("lose", "die", "stop", "cancel"))
    for order in told[first::4]:
        await play(order)


@pytest.mark.parametrize("reconnectable", [True, False])
async def test_a_close_a_cancellation_and_a_lost_connection_in_every_order(
    autojump_clock: object, reconnectable: bool
) -> None:
    for order in orders("lose", "close", "cancel"):
        await play(order, reconnectable=reconnectable)


async def meet(order: Order, early: float) -> None:
    """Let a preparation complete at an instant, and the rest happen right before or at it."""
    stage = Stage(lifetime=12.0)
    async with trio.open_nursery() as nursery, stage.open() as renewal:
        await until(lambda: len(stage.said(SourceOpening)) == 2)
        began = [each.clock for each in stage.envelopes if isinstance(each.event, SourceOpening)][1]
        await trio.sleep_until(began + 0.22 - early)

        async def stop() -> None:
            with contextlib.suppress(ReactorError):
                await renewal.stop_renewal()

        actions = {
            "die": stage.provider.live["simulated-1"].die,
            "stop": stop,
            "close": renewal.close,
        }
        await order.play(actions, nursery)
        await trio.sleep(1)
    judge(stage)


@pytest.mark.parametrize("early", [0.0, 0.011, 0.021])
async def test_a_replacement_that_becomes_ready_while_its_predecessor_goes_in_every_order(
    autojump_clock: object, early: float
) -> None:
    for order in orders("die", "stop", "close"):
        await meet(order, early)


async def crash(order: Order) -> None:
    stage = Stage(lifetime=None)
    cancelled = trio.CancelScope()
    defect = ValueError("a bug")

    async def disturb(renewal: Renewal, nursery: trio.Nursery) -> None:
        async def close() -> None:
            with contextlib.suppress(ReactorError, ExceptionGroup):
                await renewal.close()

        source = stage.provider.newest
        actions = {
            "crash": lambda: source.crash(defect),
            "close": close,
            "cancel": cancelled.cancel,
        }
        await order.play(actions, nursery)
        cancelled.cancel()

    with pytest.raises((ValueError, ExceptionGroup)) as caught:
        async with trio.open_nursery() as nursery:
            with cancelled:
                async with stage.open() as renewal:
                    nursery.start_soon(disturb, renewal, nursery)
                    await trio.sleep_forever()
    assert [leaf for leaf in leaves(caught.value) if leaf is defect] == [defect], order
    assert stage.provider.live == {}


async def test_a_crash_beside_a_close_and_a_cancellation_is_never_lost(
    autojump_clock: object,
) -> None:
    for order in orders("crash", "close", "cancel"):
        await crash(order)
