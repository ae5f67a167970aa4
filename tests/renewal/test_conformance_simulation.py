"""The simulated source keeps every rule that a source has to keep."""

from __future__ import annotations

import pytest
from conformance_rigs import ExclusiveRig, SimulationRig, simulation

from examples.lookup_source.rig import LookupRig
from trio_reactor.renewal.conformance import CASES, Case, cases
from trio_reactor.testing import Simulation, simulate


@pytest.mark.parametrize("case", cases(SimulationRig), ids=str)
async def test_the_simulated_source_conforms(autojump_clock: object, case: Case) -> None:
    async with simulation() as rig:
        await case.run(rig)


@pytest.mark.parametrize("case", cases(ExclusiveRig), ids=str)
async def test_the_exclusive_simulated_source_conforms(autojump_clock: object, case: Case) -> None:
    async with simulation(ExclusiveRig) as rig:
        await case.run(rig)


def test_between_them_they_meet_every_case() -> None:
    # One that plays tells of its end through its events; the lookup source announces it.
    assert {*cases(SimulationRig), *cases(ExclusiveRig), *cases(LookupRig)} == set(CASES)


@pytest.mark.parametrize("case", cases(SimulationRig), ids=str)
def test_it_conforms_in_whichever_order_its_tasks_run(case: Case) -> None:
    async def scenario(_: Simulation) -> None:
        await case.run(SimulationRig())

    assert simulate(scenario, range(5)).runs == 5
