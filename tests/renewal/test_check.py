"""The application's check of a source before it goes on air."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from chain_stage import Stage, scene, until
from line_stage import Exchange, Line, options
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Lost, Overflow
from trio_reactor.owner import Owner
from trio_reactor.renewal import OpenFailed, Renewal, Source, SourcesExhausted, open_renewal
from trio_reactor.renewal.events import (
    HandedOver,
    OnAir,
    Prepared,
    Recovered,
    Recovering,
    Replaced,
    SourceClosed,
)
from trio_reactor.renewal.source import Clip, ClipFailed, ClipUpdated


class Check:
    """A check that takes its time, and fails for some lines."""

    def __init__(self, seconds: float = 0.0, *, bad: Callable[[int], bool] | None = None) -> None:
        self.seconds = seconds
        self.bad = bad
        self.failure: Exception = Lost("not well")
        self.began: list[tuple[int, float]] = []
        self.cancelled: list[int] = []

    async def __call__(self, line: Line) -> None:
        assert line.open
        self.began.append((line.number, trio.current_time()))
        try:
            await trio.sleep(self.seconds)
        except trio.Cancelled:
            assert line.closed_at is None
            self.cancelled.append(line.number)
            raise
        if self.bad is not None and self.bad(line.number):
            raise self.failure


async def test_each_source_is_checked_once_right_before_it_goes_on_air(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    check = Check(0.25)
    async with open_renewal(exchange, options=options(), check=check) as renewal:
        assert trio.current_time() == 0.25  # the first too
        await trio.sleep(190)
        assert renewal.state.status == "ready"
    assert [number for number, _ in check.began] == [1, 2, 3, 4]
    assert [line.number for line in exchange.lines] == [1, 2, 3, 4]


async def test_the_check_is_made_when_the_turn_of_the_source_has_come(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, renewal={"max_frames": 1000})
    checked: list[float] = []

    async def check(source: Source) -> None:
        checked.append(trio.current_time())
        await trio.sleep(0.5)

    async with stage.open(check=check) as renewal:
        await trio.sleep(48)
        await renewal.enqueue(scene(100))
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        assert len(checked) == 1
        await until(lambda: bool(stage.said(HandedOver)))
        assert len(checked) == 2
        (handed,) = stage.said(HandedOver)
        assert handed.evidence.captured_at >= checked[1] + 0.5
        assert handed.evidence.kind == "count-complete"


async def test_a_source_that_fails_its_check_is_lost_and_another_follows(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    check = Check(0.1, bad=lambda number: number == 2)
    async with open_renewal(exchange, options=options(), check=check) as renewal:
        with renewal.observe(Recovering, SourceClosed, OnAir) as (_, events):
            await trio.sleep(55)
            lost = (await events.receive()).event
            assert isinstance(lost, Recovering)
            assert (lost.why, lost.on_air, lost.source.id) == ("check-failed", False, "line-2")
            assert lost.failure is not None
            assert lost.failure.message == "not well"
            closed = (await events.receive()).event
            assert isinstance(closed, SourceClosed)
            on_air = (await events.receive()).event
            assert isinstance(on_air, OnAir)
            assert on_air.source.id == "line-3"
            assert on_air.gap == 0.0
    assert exchange.most_alive == 2


async def test_checks_that_fail_count_as_failures_in_a_row(autojump_clock: object) -> None:
    exchange = Exchange()
    check = Check(bad=lambda number: number > 1)
    with pytest.raises(SourcesExhausted) as caught:
        async with open_renewal(exchange, options=options(max_failures=3), check=check):
            await trio.sleep_forever()
    assert len(exchange.lines) == 4
    assert caught.value.__cause__ is check.failure


async def test_a_check_that_is_not_over_in_time_has_failed(autojump_clock: object) -> None:
    exchange = Exchange()

    async def check(line: Line) -> None:
        if line.number == 2:
            await trio.sleep_forever()

    async with open_renewal(exchange, options=options(check_timeout=2.0), check=check) as renewal:
        with renewal.observe(Recovering) as (_, events):
            await trio.sleep(58)
            lost = (await events.receive()).event
            assert lost.why == "check-failed"
            assert lost.failure is not None
            assert lost.failure.type == "TimedOut"
        async with renewal.borrow() as line:
            assert line.number == 3


async def test_a_first_source_that_fails_its_check_was_not_opened(autojump_clock: object) -> None:
    exchange = Exchange()
    check = Check(0.1, bad=lambda _: True)
    with pytest.raises(OpenFailed) as caught:
        async with open_renewal(exchange, options=options(), check=check):
            pytest.fail("it opened")
    assert caught.value.__cause__ is check.failure
    assert caught.value.cleanup is not None
    assert caught.value.cleanup.complete
    assert exchange.alive == 0


async def test_what_takes_a_vacant_place_is_checked_too(autojump_clock: object) -> None:
    exchange = Exchange()
    check = Check(0.5)
    async with open_renewal(exchange, options=options(), check=check) as renewal:
        await trio.sleep(10)
        exchange.newest.lose()
        began = trio.current_time()
        await wait_all_tasks_blocked()
        async with renewal.borrow() as line:
            assert line.number == 2
            assert trio.current_time() == pytest.approx(began + 1.0)
    assert [number for number, _ in check.began] == [1, 2]


async def test_a_life_that_ends_while_its_successor_is_checked_ends_in_time(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    check = Check(4.0)
    async with open_renewal(exchange, options=options(lead=2.0), check=check) as renewal:
        with renewal.observe(Replaced, OnAir, HandedOver) as (_, events):
            await trio.sleep(70)
            replaced = (await events.receive()).event
            assert isinstance(replaced, Replaced)
            assert replaced.why == "expired"
            on_air = (await events.receive()).event
            assert isinstance(on_air, OnAir)
            assert 2 < on_air.gap < 3
    assert exchange.lines[0].closed_at == pytest.approx(60.0)


async def test_a_source_that_leaves_while_it_is_checked_is_not_looked_at_any_more(
    autojump_clock: object,
) -> None:
    exchange = Exchange()
    check = Check(3.0)
    async with open_renewal(exchange, options=options(), check=check) as renewal:
        await until(lambda: len(check.began) == 2)
        exchange.newest.lose()
        await trio.sleep(0.1)
        assert check.cancelled == [2]
        await until(lambda: len(check.began) == 3)
        await renewal.close()
        assert check.cancelled == [2, 3]
    assert exchange.alive == 0


@pytest.mark.parametrize("number", [1, 2])
async def test_a_defect_of_the_check_is_terminal(number: int, autojump_clock: object) -> None:
    exchange = Exchange()
    check = Check(0.1, bad=lambda checked: checked == number)
    check.failure = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug") as caught:
        async with open_renewal(exchange, options=options(), check=check):
            await trio.sleep_forever()
    assert caught.value is check.failure
    assert len(exchange.lines) == number
    assert exchange.alive == 0


async def test_a_check_may_use_what_it_raises_to_say_that_it_took_too_long(
    autojump_clock: object,
) -> None:
    exchange = Exchange()

    async def check(line: Line) -> None:
        with trio.fail_after(1):
            if line.number == 2:
                await trio.sleep_forever()

    async with open_renewal(exchange, options=options(), check=check) as renewal:
        await trio.sleep(56)
        async with renewal.borrow() as line:
            assert line.number == 3


def looking() -> tuple[Stage, list[tuple[str, float]], Callable[[Source], Awaitable[None]]]:
    """A stage whose sources can reconnect, the looks at them, and a check of half a second."""
    stage = Stage(lifetime=60.0, renewal={"max_frames": 1000})
    looks: list[tuple[str, float]] = []

    async def check(source: Source) -> None:
        looks.append((source.id, trio.current_time()))
        await trio.sleep(0.5)

    return stage, looks, check


async def due(stage: Stage, renewal: Renewal, looks: list[tuple[str, float]]) -> None:
    """Let the turn of the next source come."""
    await trio.sleep(48)
    await renewal.enqueue(scene(100))
    await until(lambda: bool(stage.said(Prepared)))
    await renewal.enqueue(scene(1))
    await until(lambda: len(looks) == 2)


async def test_what_was_checked_and_made_its_connection_again_since_is_checked_again(
    autojump_clock: object,
) -> None:
    stage, looks, check = looking()
    async with stage.open(check=check) as renewal:
        await due(stage, renewal, looks)
        # The source on air has a clip again, so the boundary is gone when the check has passed.
        stage.provider.live["simulated-1"].tell(ClipUpdated(Clip("late", "queued")))
        await trio.sleep(1)
        stage.provider.live["simulated-2"].lose_connection()
        await until(lambda: bool(stage.said(Recovered)))
        assert not stage.said(HandedOver)
        stage.provider.live["simulated-1"].tell(ClipFailed("late", "gone"))
        await until(lambda: bool(stage.said(HandedOver)))
        assert [source for source, _ in looks] == ["simulated-1", "simulated-2", "simulated-2"]
        assert stage.said(HandedOver)[0].evidence.captured_at >= looks[2][1] + 0.5


async def test_a_check_under_way_ends_with_the_connection_and_its_result_does_not_count(
    autojump_clock: object,
) -> None:
    stage, looks, check = looking()
    async with stage.open(check=check) as renewal:
        await due(stage, renewal, looks)
        stage.provider.live["simulated-2"].lose_connection()
        await until(lambda: bool(stage.said(HandedOver)))
        assert [said.mode for said in stage.said(Recovering)] == ["reconnect"]
        (found,) = [each for each in stage.envelopes if isinstance(each.event, Recovered)]
        assert [source for source, _ in looks] == ["simulated-1", "simulated-2", "simulated-2"]
        assert looks[2][1] >= found.clock
        assert stage.said(HandedOver)[0].evidence.captured_at >= looks[2][1] + 0.5


@pytest.mark.parametrize("work", ["_check", "_recover"])
async def test_what_could_not_be_begun_does_not_delay_the_end_of_its_source(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    stage, _, check = looking()
    begin, failed = Owner.start_soon, list[float]()

    def full(self: Owner, fn: Callable[..., Awaitable[object]], *args: Any, **more: Any) -> None:
        if fn.__name__ == work:
            failed.append(trio.current_time())
            raise Overflow("no room for one more")
        begin(self, fn, *args, **more)

    with pytest.raises(Overflow):
        async with stage.open(check=check if work == "_check" else None):
            monkeypatch.setattr(Owner, "start_soon", full)
            if work == "_recover":
                await trio.sleep(50.5)
                stage.provider.newest.lose_connection()
            await trio.sleep_forever()
    assert not stage.provider.live
    assert trio.current_time() - failed[0] < 1
