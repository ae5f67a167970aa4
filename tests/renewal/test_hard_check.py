"""The check of a source whose connection is made again."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, until
from lying_stage import Lasting, giving

from trio_reactor.renewal.events import OnAir, Recovered
from trio_reactor.renewal.source import Clip, ClipEnded, ClipUpdated, Source, SourceState


@pytest.mark.parametrize("over", [False, True])
async def test_the_check_of_a_connection_that_was_lost_says_nothing_of_the_next(
    over: bool, autojump_clock: object
) -> None:
    stage = Stage(renewal={"lead": 20.0})
    first, second = Lasting("first", 60.0), Lasting("second", None)
    second.told = SourceState((Clip("clip", "ready"),))
    began: list[tuple[str, int]] = []
    ended: list[str] = []

    async def check(source: Source) -> None:
        assert isinstance(source, Lasting)
        began.append((source.id, len(source.events)))
        await trio.sleep(1.0)
        ended.append(source.id)

    async with stage.open(giving(first, second), check=check) as renewal:
        await until(lambda: ("second", 1) in began)
        first.events[0].event(ClipUpdated(Clip("late", "queued")))  # there is no boundary now
        if over:
            await until(lambda: "second" in ended)
        second.events[0].lost(None)
        await until(lambda: bool(stage.said(Recovered)))
        first.events[0].event(ClipEnded("late", None))
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert renewal.state.status == "ready"
    assert began[1:] == [("second", 1), ("second", 2)]
