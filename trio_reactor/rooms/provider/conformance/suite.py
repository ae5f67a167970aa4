"""The suite: all cases, those that apply, and all of them at once."""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

from trio_reactor.testing import conformance

from .cancelling import CANCELLING
from .conversing import CONVERSING
from .listening import LISTENING
from .reading import READING
from .rig import Capability, Rig
from .storing import STORING
from .trial import Trial
from .writing import WRITING

__all__ = ["CASES", "SUITE", "Case", "Environment", "cases", "run_all"]

Case: TypeAlias = conformance.Case[Rig, Trial]
"""One rule, and how it is tested."""

Environment: TypeAlias = conformance.Environment[Rig]
"""Makes a fresh rig, with whatever has to run beside it."""

SUITE: Final = conformance.Suite(
    Rig,
    READING,
    WRITING,
    LISTENING,
    STORING,
    CONVERSING,
    CANCELLING,
    capabilities=get_args(Capability),
)
"""What any provider can be put to."""

CASES: Final = SUITE.cases
"""Every case there is."""

cases: Final = SUITE.cases_for
"""`Suite.cases_for`: the cases that apply to a kind of rig, by what it claims and overrides."""

run_all: Final = SUITE.run_all
"""`Suite.run_all`: runs each case that applies in an environment of its own, and raises all that is
broken together."""
