"""Sources that announce their end as soon as they are on air, and hand over in good time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from chain_stage import Stage, scene, until
from lying_stage import Actor, giving

from trio_reactor.renewal.errors import SourcesExhausted
from trio_reactor.renewal.events import ClipChanged, HandedOver, OnAir
from trio_reactor.renewal.source import (
    Clip,
    ClipEnded,
    ClipUpdated,
    GoingAway,
    Predecessor,
    Source,
    SourceState,
)


class Hasty(Actor):
    """Announces its end when it is told to play, and has played what it has by then."""

    def __init__(self, number: int, exclusive: bool) -> None:
        super().__init__(f"hasty {number}", 3600.0)
        self.exclusive = exclusive
        self.told = SourceState((Clip("clip", "ready"),))

    async def set_autoplay(self, enabled: bool, /) -> None:
        await super().set_autoplay(enabled)
        self.events[0].event(GoingAway(5.0))
        self.events[0].event(ClipEnded("clip"))


@pytest.mark.parametrize("exclusive", [False, True])
async def test_sources_that_announce_their_end_at_once_and_hand_over_are_found_out(
    autojump_clock: object, exclusive: bool
) -> None:
    opened = 0

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Source]:
        nonlocal opened
        opened += 1
        await trio.sleep(0.2)
        yield Hasty(opened, exclusive)

    stage = Stage(renewal={"max_failures": 4, "stable_after": 30.0})
    with pytest.raises(SourcesExhausted):
        async with stage.open(opener):
            await trio.sleep(300)
    # The fourth of them that goes is the last; one that is not exclusive has its successor by then.
    assert opened == (4 if exclusive else 5)


async def test_a_source_that_was_renewed_on_demand_is_no_failure_however_short_it_lived(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, renewal={"max_failures": 2, "stable_after": 1000.0})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        for number in range(2, 7):
            nursery.start_soon(renewal.renew, "new settings")
            await trio.sleep(2)
            await renewal.enqueue(scene(2))
            await until(lambda number=number: len(stage.said(OnAir)) == number)  # type: ignore[misc]
        assert len(stage.said(HandedOver)) == 5


async def test_what_is_told_of_its_clips_by_a_source_that_was_handed_over_and_is_still_lent_is_over(
    autojump_clock: object,
) -> None:
    old, new = Actor("old", 60.0), Actor("new", None)
    new.told = SourceState((Clip("shown", "ready"),))
    stage = Stage()
    async with stage.open(giving(old, new)) as renewal, renewal.borrow():
        await until(lambda: bool(stage.said(HandedOver)))
        old.events[0].event(ClipUpdated(Clip("late", "queued")))
        await trio.sleep(1)
    assert not stage.said(ClipChanged)
