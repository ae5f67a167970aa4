"""The suite itself: which cases apply, what is told, and who is to blame."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from execution_mutants import MUTANTS
from execution_rigs import SimulationRig, simulation_rig
from trio.testing import MockClock

from trio_reactor.supervision.execution.conformance import (
    CASES,
    Nonconforming,
    Rig,
    RigFailed,
    cases,
    run_all,
)
from trio_reactor.supervision.model.work import Work


class Bare(SimulationRig):
    """A rig that has nothing but what it must have."""

    name = "a bare execution"
    capabilities = frozenset()
    exits = Rig.exits
    unloadable = Rig.unloadable
    dies_loading = Rig.dies_loading
    never_loads = Rig.never_loads
    ignores_interrupt = Rig.ignores_interrupt
    spins = Rig.spins
    spawns = Rig.spawns
    echoes = Rig.echoes
    says = Rig.says
    prints = Rig.prints
    leave_behind = Rig.leave_behind


class Failing(SimulationRig):
    name = "a failing rig"

    def exits(self, code: int, /) -> Work:
        raise OSError("no disk")


class LyingWitness(SimulationRig):
    name = "an execution with a lying witness"

    def alive(self) -> int:
        raise ConnectionError("no witness")


def test_a_case_needs_what_its_rig_has() -> None:
    needs = frozenset[str]().union(*(case.needs for case in CASES))
    assert not any(Bare.offers(need) for need in needs)
    assert all(SimulationRig.offers(need) for need in needs)
    some = cases(Bare)
    assert 5 < len(some) < len(CASES)
    assert not any(case.needs for case in some)


def test_each_sentence_is_said_once_and_each_case_is_about_one() -> None:
    sentences = [case.sentence for case in CASES]
    assert len(set(sentences)) == len(sentences)
    assert [str(case) for case in CASES] == sentences


def test_a_capability_that_there_is_not_is_told() -> None:
    class Odd(SimulationRig):
        capabilities = frozenset({"adopting", "flying"})  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"Odd\.capabilities names 'flying'; there are 'adopting'"):
        cases(Odd)


async def test_all_cases_are_run_and_told(autojump_clock: MockClock) -> None:
    told: list[str] = []
    held = await run_all(SimulationRig, simulation_rig, told.append)
    assert held == tuple(case.sentence for case in CASES)
    assert told == [f"holds: {sentence}" for sentence in held]


async def test_all_that_is_broken_is_told_together(autojump_clock: MockClock) -> None:
    (kind,) = [
        kind
        for kind in MUTANTS["one that has ended by now is no failure"]
        if kind.__name__ == "OutlivesItsSupervisor"
    ]
    told: list[str] = []
    with pytest.raises(ExceptionGroup, match="does not conform") as group:
        await run_all(kind, partial(simulation_rig, kind), told.append)
    assert all(isinstance(each, Nonconforming) for each in group.value.exceptions)
    assert len(group.value.exceptions) == 3
    assert len(told) == len(CASES)


async def test_an_execution_that_is_not_what_its_rig_says_is_not_tested_further(
    autojump_clock: MockClock,
) -> None:
    (kind,) = MUTANTS[CASES[0].sentence]
    told: list[str] = []
    with pytest.raises(ExceptionGroup):
        await run_all(kind, partial(simulation_rig, kind), told.append)
    assert told == [f"does not hold: {CASES[0].sentence}"]


@pytest.mark.parametrize(("kind", "method"), [(Failing, "exits"), (LyingWitness, "alive")])
async def test_a_rig_that_fails_says_nothing_about_the_execution(
    kind: type[SimulationRig], method: str, autojump_clock: MockClock
) -> None:
    told: list[str] = []
    with pytest.raises(RigFailed, match=f"failed in `{method}`") as failed:
        await run_all(kind, partial(simulation_rig, kind), told.append)
    assert isinstance(failed.value.__cause__, OSError)
    assert told[-1].startswith("not tested")


async def test_what_fails_around_a_case_is_the_rigs(autojump_clock: MockClock) -> None:
    @asynccontextmanager
    async def broken() -> AsyncGenerator[Rig]:
        async with simulation_rig() as rig:
            yield rig
        raise OSError("no way out")

    with pytest.raises(RigFailed, match="around the case") as failed:
        await run_all(SimulationRig, broken)
    assert isinstance(failed.value.__cause__, OSError)


async def test_a_case_that_does_not_end_is_told(autojump_clock: MockClock) -> None:
    class Slowest(SimulationRig):
        name = "a slow one"
        quiet = 500.0  # longer than the budget of a case, which is twenty times its patience

    (waits,) = [case for case in CASES if case.sentence.startswith("a child exists once")]
    async with simulation_rig(Slowest) as rig:
        with pytest.raises(Nonconforming, match="did not come to an end within 200 s"):
            await waits.run(rig)
        rig.machine.verify()
