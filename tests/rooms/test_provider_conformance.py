"""The provider in memory keeps every rule of the suite, and each rule finds who breaks it."""

from __future__ import annotations

import pytest
from provider_mutants import MUTANTS, Good, MutantRig, ReplayingMutantRig, rig_of
from provider_rigs import MemoryRig, ReplayingRig

from trio_reactor.rooms.provider.conformance import CASES, Case, Nonconforming, cases


@pytest.mark.parametrize("case", cases(MemoryRig), ids=str)
async def test_the_provider_in_memory_conforms(autojump_clock: object, case: Case) -> None:
    await case.run(MemoryRig())


@pytest.mark.parametrize("case", cases(ReplayingRig), ids=str)
async def test_the_provider_in_memory_conforms_when_it_is_read_by_replay(
    autojump_clock: object, case: Case
) -> None:
    await case.run(ReplayingRig())


def test_the_provider_in_memory_is_put_to_every_case() -> None:
    assert list(cases(MemoryRig)) == list(CASES)


@pytest.mark.parametrize("rig", [MutantRig, ReplayingMutantRig])
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_what_is_wrapped_and_not_mutated_conforms(
    autojump_clock: object, case: Case, rig: type[MutantRig]
) -> None:
    await case.run(rig())


@pytest.mark.parametrize(
    ("case", "mutant"),
    [
        pytest.param(case, mutant, id=f"{mutant.__name__}: {case}")
        for case, mutant in zip(CASES, MUTANTS, strict=True)
    ],
)
async def test_a_mutant_is_found_by_the_case_for_the_rule_it_breaks(
    autojump_clock: object, case: Case, mutant: type[Good | MutantRig]
) -> None:
    with pytest.raises(Nonconforming) as caught:
        await case.run(rig_of(mutant))
    assert caught.value.required == case.sentence
    assert str(caught.value).startswith("the mutant ")
