"""Callers that are cancelled at any of their steps."""

from __future__ import annotations

import pytest
import trio
from supervisor_story import stage

from trio_reactor.supervision.model.records import Loaded, Open, Stopped
from trio_reactor.testing.cancellation import cancel_at
from trio_reactor.testing.faults import Fault, Slow

SLOW: Fault = Slow(0.5)


@pytest.mark.parametrize("step", range(12))
@pytest.mark.parametrize("late", [False, True], ids=["prompt", "late"])
async def test_an_open_cancelled_at_any_step_is_found_by_its_request_or_never_was(
    step, late, autojump_clock
):
    faults = {"commit": dict.fromkeys(range(1, 20), SLOW)} if late else None
    async with stage() as s, s.supervisor(store_faults=faults) as sup:
        first = (await sup.open("plugin")).handle
        await sup.load(first, "worker:main")
        with cancel_at(step):
            await sup.open("plugin", request="r", expected_generation=1)
        record = await sup.open("plugin", request="r", expected_generation=1)
        assert record.handle.generation == 2
        assert isinstance(record.phase, Open)
        assert isinstance(sup.status(first).phase, Stopped)
        assert await sup.high_water("plugin") == 2
        assert await sup.open("plugin", request="r", expected_generation=1) == record
        assert not s.machine.children
        await trio.sleep(15)  # it is leased, whoever left
        phase = sup.status(record.handle).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "expired"


@pytest.mark.parametrize("step", range(12))
async def test_a_load_and_a_dispose_cancelled_at_any_step_go_on(step, autojump_clock):
    async with stage() as s, s.supervisor() as sup:
        handle = (await sup.open("plugin")).handle
        with cancel_at(step):
            await sup.load(handle, "worker:main")
        await sup.load(handle, "worker:main")
        assert isinstance(sup.status(handle).phase, Loaded)
        with cancel_at(step):
            await sup.dispose(handle)
        await sup.dispose(handle)
        phase = sup.status(handle).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "disposed"
        assert not s.machine.children
