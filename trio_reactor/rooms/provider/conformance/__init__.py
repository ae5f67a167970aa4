"""A suite that a provider of your own has to pass, under any test runner or none.

Say how your authority is reached, and what can be done to it, by subclassing `Rig`.  Then run the
cases that apply, each at a rig of its own, whose authority is new, with pytest:

    class MyRig(Rig):
        name = "my provider"
        capabilities = frozenset({"streaming", "history"})
        ...

    @pytest.mark.parametrize("case", cases(MyRig), ids=str)
    async def test_my_provider_conforms(case: Case) -> None:
        async with my_rig() as rig:
            await case.run(rig)

or by hand:

    trio.run(run_all, MyRig, my_rig)

`SUITE.report` gives the outcome of every case instead, also of those that do not apply.

A case is a rule with a sentence for a name.  What breaks it raises `Nonconforming`, an
`AssertionError` that names the provider, what it did, and the rule.  Where the rig itself fails,
that is a `RigFailed`, with what it raised as its cause.
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
