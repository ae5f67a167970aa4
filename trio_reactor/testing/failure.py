"""How a simulated run fails: with what went wrong, what led to it, and how to see it again."""

from __future__ import annotations

from typing import final

import msgspec

from .faults import Plan
from .trace import Fact

__all__ = ["Endless", "InvariantViolated", "Rerun", "SimulationFailed", "Stuck"]


class Rerun(msgspec.Struct, frozen=True):
    """How to run one run again."""

    seed: int
    plan: Plan
    """What was to go wrong."""
    call: str
    """The call to `run` that does the same."""


class SimulationFailed(AssertionError):
    """A simulated run did not go as it must; the cause is what was raised, if anything was.

    It is no `ReactorError`: this is never weather.

    Args:
        reason: What went wrong.
        rerun: Of which run.
        facts: The newest facts there were when it went wrong, oldest first.
        total: How many facts there had been.
    """

    def __init__(
        self, reason: str, rerun: Rerun, facts: tuple[Fact, ...] = (), total: int = 0
    ) -> None:
        self.reason = reason
        self.seed = rerun.seed
        self.plan = rerun.plan
        self.again = rerun.call
        self.facts = facts
        lines = [f"seed {rerun.seed}: {reason}"]
        if rerun.plan != Plan():
            lines.append(f"planned faults: {rerun.plan}")
        lines.append(f"the last {len(facts)} of {total} facts:" if facts else "no facts")
        lines.extend(map(str, facts))
        lines.append(f"to run it again: {rerun.call}")
        super().__init__("\n".join(lines))


@final
class InvariantViolated(SimulationFailed):
    """Something that must hold does not.

    Args:
        invariant: The name of it.
        wrong: What is wrong.
        rerun: In which run.
        facts: The newest facts there were, oldest first.
        total: How many facts there had been.
    """

    def __init__(
        self, invariant: str, wrong: str, rerun: Rerun, facts: tuple[Fact, ...] = (), total: int = 0
    ) -> None:
        self.invariant = invariant
        self.wrong = wrong
        super().__init__(f"violated: {invariant}: {wrong}", rerun, facts, total)


@final
class Stuck(SimulationFailed):
    """Everybody waits for something that will never come.

    A simulation has no input, no threads and no signals, so who waits for these waits for ever.
    """


@final
class Endless(SimulationFailed):
    """A run took more steps than it may."""
