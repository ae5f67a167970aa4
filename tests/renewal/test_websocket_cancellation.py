"""Cancelled at whatever moment, a source leaves nothing behind, on neither side."""

from __future__ import annotations

import os

import pytest
import trio
from websocket_story import Watcher, opened, scene, serving, uncommitted, until

from trio_reactor.renewal.source import ClipEnded


class CancelAfter(trio.abc.Instrument):
    """Cancels a scope after so many steps of all tasks."""

    def __init__(self, steps: int, scope: trio.CancelScope) -> None:
        self._left = steps
        self._scope = scope

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


async def life_of_a_source(url: str, *, again: bool) -> None:
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        media = await source.open_media(watcher)
        if again:
            await source.reconnect()
            await source.attach(watcher)
            media = await source.open_media(watcher)
        await source.enqueue(scene(0, 2), commit=uncommitted)
        await source.set_autoplay(True)
        await watcher.until_event(ClipEnded)
        await media.aclose()
        await source.close()


@pytest.mark.parametrize("again", [False, True], ids=["one socket", "two sockets"])
async def test_cancelled_after_any_step_it_leaves_nothing_behind(
    nursery: trio.Nursery, again: bool
) -> None:
    server, url = await serving(nursery, grace=1000.0, max_sessions=1)
    await life_of_a_source(url, again=again)
    await until(lambda: server.statistics().connections == 0)
    files = len(os.listdir("/proc/self/fd"))
    steps, cancelled = 0, True
    while cancelled:
        steps += 1 if steps < 40 else 11
        with trio.CancelScope() as scope:
            instrument = CancelAfter(steps, scope)
            trio.lowlevel.add_instrument(instrument)
            try:
                await life_of_a_source(url, again=again)
            finally:
                trio.lowlevel.remove_instrument(instrument)
        cancelled = scope.cancelled_caught
        await until(lambda: not server.statistics().sessions)
        await until(lambda: server.statistics().connections == 0)
        assert len(os.listdir("/proc/self/fd")) == files
    assert steps > 100
