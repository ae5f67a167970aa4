'''Conformance suites: rules, each a sentence and a test, that any implementation can be put to.

A suite is for whoever implements a protocol.  They supply a *rig*, which says how their
implementation is reached and what can be made to happen to it; the suite has the *cases*.  Whoever
has a protocol writes a suite for it in three steps.

1. What is to be supplied, as a subclass of `Rig`.  What every rig must have is an
   `abc.abstractmethod`; what only some can offer is `optional`.
2. What the cases work with, as a subclass of `Trial`.  `rig` is the rig, `require` says what was
   done where something does not hold, `soon` bounds what has to happen.
3. The cases, in one `Part` or more, and the `Suite` of them.

    from abc import abstractmethod
    from typing import ClassVar, Literal, TypeAlias, get_args

    from trio_reactor.testing import conformance
    from trio_reactor.testing.conformance import Part, Suite, optional

    Capability: TypeAlias = Literal["bounded"]

    class Rig(conformance.Rig):
        """The queue under test, empty when a case begins."""

        capabilities: ClassVar[frozenset[Capability]] = frozenset()

        @abstractmethod
        def queue(self) -> Queue: ...

        @optional
        async def crash(self) -> None:
            """Lose what is not yet durable."""
            raise NotImplementedError

    class Trial(conformance.Trial[Rig]):
        async def get(self) -> bytes:
            with self.soon("did not give what was put"):
                return await self.rig.queue().get()

    ORDER = Part(Trial)

    @ORDER.case("what is put first comes first")
    async def _fifo(trial: Trial) -> None:
        await trial.rig.queue().put(b"1")
        await trial.rig.queue().put(b"2")
        found = await trial.get()
        trial.require(found == b"1", f"gave {found!r} first")

    @ORDER.case("what was acknowledged is there after a crash", "crash")
    async def _durable(trial: Trial) -> None:
        await trial.rig.queue().put(b"1")
        await trial.rig.crash()
        await trial.get()

    SUITE = Suite(Rig, ORDER, capabilities=get_args(Capability))

A case *needs* what is named behind its sentence: capabilities, which a rig claims, and optional
methods, which it overrides.  Where something is missing the case does not apply.

# Whose failure it is

What breaks a rule raises `Nonconforming`, an `AssertionError` that names the implementation, what
it did, and the rule.  Whatever else a case raises comes from the implementation, and is one too.
But what a method of the rig raises is a `RigFailed`, with that as its cause, and says nothing about
the implementation: `Trial.rig` tells them apart, without any doing of the cases.

Every case comes to an end: after `Case.patiences` times the patience of its rig it is cancelled,
and that is a `Nonconforming`.

# Running it

With pytest each case is a test of its own,

    @pytest.mark.parametrize("case", SUITE.cases_for(MyRig), ids=str)
    async def test_mine_conforms(case: Case) -> None:
        async with my_rig() as rig:
            await case.run(rig)

and without, `trio.run(SUITE.run_all, MyRig, my_rig, print)` raises what is broken together, and
`SUITE.report` gives a `Report`, with an outcome for every case there is.
'''

from __future__ import annotations

from .case import Case, Part
from .outcome import Failed, NotApplicable, Outcome, Passed, Report, Untested
from .rig import Rig, optional
from .suite import Environment, Suite
from .trial import Nonconforming, RigFailed, Trial

__all__ = [
    "Case",
    "Environment",
    "Failed",
    "Nonconforming",
    "NotApplicable",
    "Outcome",
    "Part",
    "Passed",
    "Report",
    "Rig",
    "RigFailed",
    "Suite",
    "Trial",
    "Untested",
    "optional",
]
