"""A suite that a source of your own has to pass, under any test runner or none.

Say how the other side of your source is reached, and what can be made to happen to it, by
subclassing `Rig`.  Then run the cases that apply, each at a rig of its own, with pytest:

    class MyRig(Rig):
        name = "my source"
        capabilities = frozenset({"playable", "mortal"})
        ...

    @pytest.mark.parametrize("case", cases(MyRig), ids=str)
    async def test_my_source_conforms(case: Case) -> None:
        async with my_rig() as rig:
            await case.run(rig)

or by hand:

    trio.run(run_all, MyRig, my_rig)

`SUITE.report` gives the outcome of every case instead, also of those that do not apply.

A case is a rule with a sentence for a name.  What breaks it raises `Nonconforming`, an
`AssertionError` that names the source, what it did, and the rule.  Where the rig itself fails, or
a server that runs beside it, that is a `RigFailed`, with what it raised as its cause.

The clock may be a virtual one, where time costs nothing, or the real one: a rig says how long what
has to happen is awaited (`patience`), and how long what must not happen is (`quiet`).
"""

from __future__ import annotations

from trio_reactor.testing.conformance import Nonconforming, RigFailed

from .rig import Capability, Length, Rig
from .suite import CASES, SUITE, Case, Environment, cases, run_all

__all__ = [
    "CASES",
    "SUITE",
    "Capability",
    "Case",
    "Environment",
    "Length",
    "Nonconforming",
    "Rig",
    "RigFailed",
    "cases",
    "run_all",
]
