"""What a source tells while it gives its state comes after that state."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, scene, until

from trio_reactor.renewal.events import ClipChanged, ClipLost, Recovered, Recovering
from trio_reactor.renewal.simulation import SimulatedSource
from trio_reactor.renewal.source import ClipEnded, EventSink, SourceState


async def test_an_end_that_is_told_before_the_state_is_returned_is_not_undone_by_it(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = SimulatedSource.attach

    async def attach(source: SimulatedSource, sink: EventSink, /) -> SourceState:
        state = await given(source, sink)
        for clip in state.clips:
            sink.event(ClipEnded(clip.id))
        return state

    monkeypatch.setattr(SimulatedSource, "attach", attach)
    stage = Stage(lifetime=None, build_delay=100.0)
    async with stage.open() as renewal:
        clip = (await renewal.enqueue(scene(5))).clip
        stage.provider.newest.lose_connection()
        await until(lambda: bool(stage.said(Recovered)))
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.clips == ()
        assert ClipEnded(clip) in [said.change for said in stage.said(ClipChanged)]
        stage.provider.newest.die()
        await trio.sleep(1)
        assert not stage.said(ClipLost)


async def test_too_much_that_is_told_before_the_state_is_returned_is_refused(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = SimulatedSource.attach

    async def attach(source: SimulatedSource, sink: EventSink, /) -> SourceState:
        state = await given(source, sink)
        if state.clips:
            for number in range(1000):
                sink.event(ClipEnded(f"clip {number}"))
        return state

    monkeypatch.setattr(SimulatedSource, "attach", attach)
    stage = Stage(lifetime=None, build_delay=100.0)
    async with stage.open() as renewal:
        await renewal.enqueue(scene(5))
        stage.provider.newest.lose_connection()
        await trio.sleep(5)
        assert "contract-broken" in [said.why for said in stage.said(Recovering)]
        assert renewal.state.status == "ready"
