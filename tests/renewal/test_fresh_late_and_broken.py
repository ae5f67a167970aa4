"""A budget runs out, and what is cancelled for that breaks on its way out, in a nursery of its own.

Trio then raises the cancellation and the failure as one group, of which the budget takes its own.
What is left is weather that came too late, and is treated as that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from chain_stage import Stage, Token, tokens, until
from line_stage import Line, options

from trio_reactor.renewal import Cleanup, Predecessor, open_renewal
from trio_reactor.renewal.allocation.allocations import Allocations, terminated
from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.events import InputLost, OnAir, Recovering, SourceClosed


async def hang_and_break(*_: Any, **__: Any) -> None:
    """Never answers; what it works with is broken when it is cancelled."""

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("the socket is gone")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await trio.sleep_forever()


async def test_a_reconnect_that_is_late_and_breaks_is_followed_by_a_replacement(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None, renewal={"reconnect_timeout": 4.0})
    async with stage.open() as renewal:
        source = stage.provider.newest
        monkeypatch.setattr(source, "reconnect", hang_and_break)
        source.lose_connection()
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert [each.mode for each in stage.said(Recovering)] == ["reconnect", "replace"]
        assert renewal.statistics() is not None


async def test_a_check_that_is_late_and_breaks_is_a_loss_of_what_was_checked(
    autojump_clock: object,
) -> None:
    checked = 0

    async def check(_: object) -> None:
        nonlocal checked
        checked += 1
        if checked == 2:
            await hang_and_break()

    stage = Stage(lifetime=60.0, renewal={"check_timeout": 2.0, "lead": 20.0})
    async with stage.open(tokens(*(Token(f"t{n}") for n in range(9))), check=check):
        await trio.sleep(65)
        assert len(stage.said(OnAir)) == 2
        assert checked == 3


async def test_a_setting_that_is_late_and_breaks_is_a_loss_of_its_source(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0, renewal={"reconnect_timeout": 4.0})
    async with stage.open():
        await trio.sleep(55)
        following = stage.provider.newest
        monkeypatch.setattr(following, "set_autoplay", hang_and_break)
        await until(lambda: len(stage.said(OnAir)) == 3)
        (lost,) = [each for each in stage.said(Recovering) if each.source.id == following.id]
        assert lost.why == "outcome-unknown"


class Ear(Line):
    """Takes input, or never answers to it and breaks."""

    async def send_input(self, data: bytes, /) -> None:
        await hang_and_break()


async def test_input_that_is_late_and_breaks_is_lost_and_its_source_replaced(
    autojump_clock: object,
) -> None:
    lines: list[Line] = []

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Line]:
        await trio.lowlevel.checkpoint()
        lines.append(Ear(len(lines) + 1, None, 0.0))
        yield lines[-1]

    stage = Stage()
    async with open_renewal(
        opener, options=options(reply_timeout=3.0), events=stage.channel
    ) as renewal:
        await renewal.send_input(b"one")
        await until(lambda: len(lines) == 2)
        assert [each.why for each in stage.said(InputLost)] == ["source-lost"]


async def test_input_that_breaks_when_its_source_is_taken_away_harms_nobody(
    autojump_clock: object,
) -> None:
    lines: list[Line] = []

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Line]:
        await trio.lowlevel.checkpoint()
        lines.append(Ear(len(lines) + 1, None, 0.0))
        yield lines[-1]

    stage = Stage()
    async with open_renewal(opener, options=options(), events=stage.channel) as renewal:
        await renewal.send_input(b"one")
        await trio.sleep(1)
        lines[0].lose()
        await until(lambda: len(lines) == 2)
        await renewal.send_input(b"two")
        assert [each.why for each in stage.said(InputLost)] == ["source-lost"]


class Stuck(Token):
    """Does not close in time, and breaks when that is over."""

    async def close(self) -> Cleanup:
        await hang_and_break()
        raise AssertionError


async def test_a_close_that_is_late_and_breaks_does_not_come_out_through_the_opener(
    autojump_clock: object,
) -> None:
    left: list[str] = []

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Token]:
        await trio.lowlevel.checkpoint()
        try:
            yield Stuck("t1", None)
        except BaseException as raised:
            left.append(repr(raised))
            raise
        left.append("in the ordinary way")

    stage = Stage()
    async with stage.open(opener):
        await trio.sleep(1)
    assert left == ["in the ordinary way"]
    (closed,) = stage.said(SourceClosed)
    assert closed.cleanup.termination == "unconfirmed"
    assert [each.type.rpartition(".")[2] for each in closed.cleanup.failures] == [
        "OSError",
        "TimedOut",
    ]


async def test_media_that_ends_late_and_breaks_does_not_come_out_either(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        slot = renewal._chain.on_air  # type: ignore[attr-defined]
        assert slot is not None
        monkeypatch.setattr(slot.media, "aclose", hang_and_break)
    (closed,) = stage.said(SourceClosed)
    assert closed.cleanup.termination == "confirmed"
    assert {each.type.rpartition(".")[2] for each in closed.cleanup.failures} == {
        "OSError",
        "TimedOut",
    }


async def test_terminating_that_is_late_and_breaks_is_told_as_weather(
    autojump_clock: object,
) -> None:
    class Journal:
        path = "nowhere"

    given: Any = Journal()
    stuck: Any = hang_and_break
    allocations = Allocations(journal=given, terminate=stuck, terminate_timeout=2.0)
    cleanup, failure = await terminated(allocations, AllocationRecord("k", "renewal", 0.0))
    assert cleanup is None
    assert isinstance(failure, Exception)
