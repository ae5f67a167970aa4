"""How many executions are starting at one time."""

from __future__ import annotations

import pytest
import trio
from supervisor_story import stage

from trio_reactor.supervision import SessionStopped
from trio_reactor.supervision.simulation import MachineOptions


async def test_a_load_that_is_given_up_keeps_its_turn_until_its_child_is_gone(autojump_clock):
    slow = MachineOptions(launch_delay=1.0, stubborn=True)
    async with stage(options=slow) as s, s.supervisor(max_starting=1) as supervisor:
        first = (await supervisor.open("first")).handle
        second = (await supervisor.open("second")).handle

        async def load_in_vain() -> None:
            with pytest.raises(SessionStopped):
                await supervisor.load(first, "worker:main")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load_in_vain)
            await trio.sleep(0.5)  # it is being launched
            nursery.start_soon(supervisor.dispose, first)
            nursery.start_soon(supervisor.load, second, "worker:main")
            await trio.sleep(0.4)
            statistics = supervisor.statistics()
            assert (statistics.starting, statistics.waiting) == (1, 1)
        assert supervisor.statistics().starting == 0
