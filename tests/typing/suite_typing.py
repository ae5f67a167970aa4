"""What the type checkers know of a conformance suite of one's own; checked, never run."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Final, Literal, TypeAlias, assert_type, get_args

from trio_reactor.testing import conformance
from trio_reactor.testing.conformance import Outcome, Part, Report, Suite, optional

Capability: TypeAlias = Literal["bounded"]


class Rig(conformance.Rig):
    capabilities: ClassVar[frozenset[Capability]] = frozenset()

    @abstractmethod
    def queue(self) -> list[bytes]: ...

    @optional
    async def crash(self) -> None:
        raise NotImplementedError


class Trial(conformance.Trial[Rig]):
    def first(self) -> bytes:
        return self.rig.queue()[0]


PART: Final = Part(Trial, "bounded")


@PART.case("it begins empty", "crash", decisive=True, patiences=2.0)
async def _empty(trial: Trial) -> None:
    assert_type(trial, Trial)
    assert_type(trial.rig, Rig)
    assert_type(await trial.comes_true(trial.rig.queue), bool)
    await trial.rig.crash()
    trial.require(not trial.rig.queue(), "began with something")


SUITE: Final = Suite(Rig, PART, capabilities=get_args(Capability))
assert_type(SUITE, Suite[Rig, Trial])


class Mine(Rig):
    name = "mine"
    capabilities = frozenset({"bounded"})

    def queue(self) -> list[bytes]:
        return []


async def run(environment: conformance.Environment[Rig]) -> None:
    (case,) = SUITE.cases_for(Mine)
    assert_type(case, conformance.Case[Rig, Trial])
    assert_type(await SUITE.outcome(case, Mine, environment), Outcome)
    assert_type(await SUITE.report(Mine, environment, print), Report)
    await case.run(Mine())
