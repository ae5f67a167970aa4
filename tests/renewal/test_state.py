"""Where a renewal stands, through the life of its sources."""

from __future__ import annotations

from typing import get_args

import trio
from chain_stage import Stage, scene, until

from trio_reactor.renewal import Renewal, SourcePhase
from trio_reactor.renewal.events import HandedOver, Prepared, Recovered, Recovering
from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.state import _phase


def phases_of(renewal: Renewal) -> tuple[SourcePhase | None, SourcePhase | None]:
    """Of the source on air, and of the next."""
    state = renewal.state
    return (
        None if state.on_air is None else state.on_air.phase,
        None if state.next is None else state.next.phase,
    )


async def test_the_phases_of_two_sources_in_a_handover(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, open_delay=2.0, close_delay=2.0, renewal={"max_frames": 5000})
    async with stage.open() as renewal:
        assert phases_of(renewal) == ("on-air", None)
        await renewal.enqueue(scene(1250))
        await until(lambda: renewal.state.next is not None)
        assert phases_of(renewal) == ("on-air", "opening")
        await until(lambda: bool(stage.said(Prepared)))
        assert phases_of(renewal) == ("on-air", "prepared")
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(HandedOver)))
        assert (phases_of(renewal), renewal.state.leaving) == (("on-air", None), 1)


async def test_a_source_that_is_made_good_keeps_its_place(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, reconnect_delay=1.0)
    async with stage.open() as renewal:
        stage.provider.newest.lose_connection()
        await until(lambda: bool(stage.said(Recovering)), within=0.9)
        assert (phases_of(renewal), renewal.state.status) == (("reconnecting", None), "recovering")
        await until(lambda: bool(stage.said(Recovered)))
        assert phases_of(renewal) == ("on-air", None)


def test_every_phase_of_a_live_source_is_told_and_nothing_else_is() -> None:
    told = {phase: _phase(phase) for phase in phases.PHASES}
    assert {phase for phase, said in told.items() if said is not None} == {
        phase for phase in phases.PHASES if phases.is_live(phase)
    }
    assert set(told.values()) - {None} == set(get_args(SourcePhase))
    assert told[phases.Recovering(True, "replace")] == "replacing"


async def test_at_the_close_the_source_has_no_place_any_more(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, close_delay=2.0)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        nursery.start_soon(renewal.close)
        await trio.sleep(1)
        assert (phases_of(renewal), renewal.state.leaving) == ((None, None), 1)
        await trio.sleep(2)
        assert (phases_of(renewal), renewal.state.leaving) == ((None, None), 0)
        assert renewal.state.status == "closed"
