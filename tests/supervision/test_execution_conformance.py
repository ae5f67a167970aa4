"""The simulated execution conforms."""

from __future__ import annotations

import pytest
from execution_mutants import MUTANTS
from execution_rigs import SimulationRig, simulation_rig
from trio.testing import MockClock

from trio_reactor.supervision.execution.conformance import CASES, Case, Nonconforming, cases


def test_every_case_applies_to_the_simulation() -> None:
    assert cases(SimulationRig) == CASES


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_simulated_execution_conforms(case: Case, autojump_clock: MockClock) -> None:
    async with simulation_rig() as rig:
        await case.run(rig)
        rig.machine.verify()


def test_every_rule_has_an_execution_that_breaks_it() -> None:
    assert MUTANTS.keys() == {case.sentence for case in CASES}


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(case, kind, id=f"{kind.__name__}: {case}")
        for case in CASES
        for kind in MUTANTS.get(case.sentence, ())
    ],
)
async def test_an_execution_that_breaks_a_rule_is_told(
    case: Case, kind: type[SimulationRig], autojump_clock: MockClock
) -> None:
    async with simulation_rig(kind) as rig:
        with pytest.raises(Nonconforming) as told:
            await case.run(rig)
    assert told.value.required == case.sentence
    assert told.value.subject == kind.name
