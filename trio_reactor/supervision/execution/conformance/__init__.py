"""A suite that an execution of your own has to pass, under any test runner or none.

Say how its children are watched from outside, and what they can be given to run, by subclassing
`Rig`.  Then run the cases that apply, each at a rig of its own, with pytest:

    class MyRig(Rig):
        name = "my execution"
        capabilities = frozenset({"adopting"})
        ...

    @pytest.mark.parametrize("case", cases(MyRig), ids=str)
    async def test_my_execution_conforms(case: Case) -> None:
        async with my_rig() as rig:
            await case.run(rig)

or by hand:

    trio.run(run_all, MyRig, my_rig)

`SUITE.report` gives the outcome of every case instead, also of those that do not apply.

A case is a rule with a sentence for a name.  What breaks it raises `Nonconforming`, an
`AssertionError` that names the execution, what it did, and the rule.  Where the rig itself fails,
that is a `RigFailed`, with what it raised as its cause.

The clock may be a virtual one, where time costs nothing, or the real one: a rig says how long what
has to happen is awaited (`patience`), how long what must not happen is (`quiet`), and how long a
child lives that is to reach its deadline (`lease`).
"""

from __future__ import annotations

from trio_reactor.testing.conformance import Nonconforming, RigFailed

from .rig import Capability, Rig
from .suite import CASES, SUITE, Case, Environment, cases, run_all

__all__ = [
    "CASES",
    "SUITE",
    "Capability",
    "Case",
    "Environment",
    "Nonconforming",
    "Rig",
    "RigFailed",
    "cases",
    "run_all",
]
