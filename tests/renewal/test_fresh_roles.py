"""What counts for a source depends on its role, and what is given up counts for nothing."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, until

from trio_reactor.renewal.events import Recovered
from trio_reactor.renewal.source import MediaLosses
from trio_reactor.testing import Never


async def test_what_a_source_lost_before_it_fed_the_output_is_not_counted(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await trio.sleep(50.5)
        following = renewal._chain.next  # type: ignore[attr-defined]
        assert following is not None
        lost = MediaLosses(7, 11)
        monkeypatch.setattr(following.media, "losses", lambda: lost)
        await until(lambda: renewal._chain.on_air is following)  # type: ignore[attr-defined]
        pressure = renewal.pressure()
        assert (pressure.frames_lost, pressure.samples_lost) == (0, 0)
        lost = MediaLosses(9, 12)
        pressure = renewal.pressure()
        assert (pressure.frames_lost, pressure.samples_lost) == (2, 1)


async def test_a_preparation_that_is_given_up_while_it_is_set_up_is_no_failure(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"attach": {2: Never()}}, renewal={"max_failures": 1})
    async with stage.open() as renewal:
        await trio.sleep(52)
        following = renewal._chain.next  # type: ignore[attr-defined]
        assert following is not None
        assert following.lifespan is not None
        await renewal.stop_renewal()
        await trio.sleep(1)
        assert renewal.state.status == "ready"


async def test_each_recovery_is_timed_from_its_own_loss(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open():
        for times in (1, 2):
            await trio.sleep(20)
            stage.provider.newest.lose_connection()
            await until(lambda times=times: len(stage.said(Recovered)) == times)  # type: ignore[misc]
        assert all(each.took < 10 for each in stage.said(Recovered))
