"""The simulated execution conforms."""

from __future__ import annotations

import pytest
from execution_rigs import SimulationRig, simulation_rig
from trio.testing import MockClock

from trio_reactor.supervision.execution.conformance import CASES, Case, cases


def test_every_case_applies_to_the_simulation() -> None:
    assert cases(SimulationRig) == CASES


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_simulated_execution_conforms(case: Case, autojump_clock: MockClock) -> None:
    async with simulation_rig() as rig:
        await case.run(rig)
        rig.machine.verify()
