"""What an application asks for beyond a bound is refused to it, and held against no source."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, scene
from submission_stage import Desk
from trio.testing import wait_all_tasks_blocked

from trio_reactor.renewal.errors import QueueFull
from trio_reactor.renewal.events import Recovering


async def test_a_clip_more_than_a_source_may_have_is_refused_and_the_source_stays(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, renewal={"max_clips": 3})
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        first, *_ = [await renewal.enqueue(scene(5)) for _ in range(3)]
        with pytest.raises(QueueFull, match="max_clips=3") as refused:
            await renewal.enqueue(scene(5))
        assert (refused.value.outcome, refused.value.retryable) == ("not-submitted", True)
        assert stage.provider.dispatched == 3
        await renewal.remove(first.clip)
        await renewal.enqueue(scene(5))
        await trio.sleep(5)
        assert stage.said(Recovering) == []


async def test_requests_on_their_way_count_as_clips(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, renewal={"max_clips": 2})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        desk = Desk(stage.provider.newest)
        for _ in range(2):
            nursery.start_soon(renewal.enqueue, scene(5))
        await wait_all_tasks_blocked()
        with pytest.raises(QueueFull):
            await renewal.enqueue(scene(5))
        assert desk.sent == 2
        desk.answered.set()
