"""The first source: whoever enters has one on air."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, until

from trio_reactor.renewal import OpenFailed, RenewalState
from trio_reactor.renewal.chain.hearing import Hearing
from trio_reactor.renewal.events import OpenFailure
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import GoingAway
from trio_reactor.testing import Fails, Slow


async def enter(stage: Stage) -> RenewalState:
    """The state in which the block is entered."""
    async with stage.open() as renewal:
        return renewal.state


async def test_a_first_source_that_goes_away_while_it_is_set_up_has_not_opened(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    stage = Stage(lifetime=60.0, faults={"media": {1: Slow(5.0)}})

    async def go_away() -> None:
        await trio.sleep(1)
        stage.provider.newest.tell(GoingAway(1.0))

    nursery.start_soon(go_away)
    with pytest.raises(OpenFailed) as caught:
        await enter(stage)
    assert trio.current_time() == pytest.approx(2.0, abs=0.1)
    assert caught.value.cleanup is not None
    assert caught.value.cleanup.complete
    assert len(stage.said(OpenFailure)) == stage.provider.opened == 1


def lose_when_opened(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the connection be lost in the step in which the source is open."""
    opened = Hearing.opened

    def lose(hearing: Hearing, slot: Slot) -> None:
        opened(hearing, slot)
        stage.provider.newest.lose_connection()

    monkeypatch.setattr(Hearing, "opened", lose)


async def test_a_first_source_that_is_lost_at_once_has_recovered_when_the_block_is_entered(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    lose_when_opened(stage, monkeypatch)
    assert (await enter(stage)).status == "ready"
    assert stage.provider.opened == 1
    assert "Recovered" in stage.story


async def test_a_first_source_that_does_not_recover_has_not_opened(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(
        lifetime=None, faults={"reconnect": {1: Fails("lost")}}, renewal={"max_failures": 1}
    )
    lose_when_opened(stage, monkeypatch)
    with pytest.raises(OpenFailed) as caught:
        await enter(stage)
    assert caught.value.cleanup is not None
    assert caught.value.cleanup.complete
    assert caught.value.__cause__ is not None
    assert stage.provider.opened == 1


async def test_a_source_is_named_by_the_same_record_at_all_times(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        told = renewal.state.on_air
        assert told is not None
        assert told.source.id == stage.provider.newest.id
        stage.provider.newest.lose_connection()
        await until(lambda: "Recovered" in stage.story)
        again = renewal.state.on_air
        assert again is not None
        assert again.source is told.source
