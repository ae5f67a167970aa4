"""Many runs of one scenario: under many seeds, and cancelled at each of its checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, final

import msgspec

from .faults import Plan
from .running import DrawPlan, Scenario, run
from .schedule import Schedule

__all__ = ["Summary", "for_every_checkpoint", "simulate"]

_PLAIN: Final = Schedule()
_NO_FAULTS: Final = Plan()


@final
class Summary(msgspec.Struct):
    """What many runs did, together.

    A simulation in which nothing goes wrong proves nothing, so `counts` is worth an assertion.
    """

    runs: int = 0
    steps: int = 0
    """How many steps tasks took."""
    elapsed: float = 0.0
    """Virtual seconds."""
    counts: Counter[str] = msgspec.field(default_factory=Counter[str])
    """How often each thing was recorded."""


def simulate(
    scenario: Scenario[object],
    seeds: Iterable[int] = range(2000),
    *,
    schedule: Schedule = _PLAIN,
    faults: Plan | DrawPlan = _NO_FAULTS,
    max_facts: int = 10_000,
    max_steps: int = 1_000_000,
) -> Summary:
    """Run a scenario under many seeds, one after the other; stops at the first that fails.

    Args:
        scenario: What to run; see `run`.
        seeds: Which ones.  Those that failed once are worth keeping:
            `simulate(scenario, [17, 230, *range(2000)])`.
        schedule: How the seeds disturb the order of things.
        faults: What goes wrong in every run, or how to draw that for each.
        max_facts: How many facts the trace of a run keeps.
        max_steps: How many steps a run may take.

    Raises:
        SimulationFailed: As `run` does, with the seed, what led to it and how to run it again.
        ValueError: If there is no seed.
    """
    summary = Summary()
    for seed in seeds:
        done = run(
            scenario,
            seed=seed,
            schedule=schedule,
            faults=faults,
            max_facts=max_facts,
            max_steps=max_steps,
        )
        summary.runs += 1
        summary.steps += done.steps
        summary.elapsed += done.elapsed
        summary.counts.update(done.trace.counts)
    if not summary.runs:
        raise ValueError("no seeds, nothing simulated")
    return summary


def for_every_checkpoint(
    scenario: Scenario[object],
    *,
    seed: int = 0,
    schedule: Schedule = _PLAIN,
    faults: Plan | DrawPlan = _NO_FAULTS,
    max_checkpoints: int = 10_000,
) -> int:
    """Run a scenario again and again, cancelled one checkpoint later each time.

    The scenario marks what is to be cancelled with `with simulation.cancelling():`.  The first run
    cancels it before it begins, the next at its first checkpoint, and so on, until a run completes
    without having been cancelled.  Checkpoints are the ends of task steps: see
    `trio_reactor.testing.cancellation`.

    Args:
        scenario: What to run; see `run`.
        seed: What all of the runs are drawn from, so that they are the same up to where they are
            cancelled.
        schedule: How the seed disturbs the order of things.
        faults: What goes wrong in every run.
        max_checkpoints: How many there may be.

    Returns:
        How many checkpoints there were.

    Raises:
        SimulationFailed: As `run` does; `again` says where it was cancelled.
        ValueError: If the scenario marks nothing, or there are more checkpoints than there may be.
    """
    for step in range(max_checkpoints + 1):
        done = run(scenario, seed=seed, schedule=schedule, faults=faults, cancel_at=step)
        if not done.hit:
            if step == 0:
                raise ValueError("the scenario never entered `simulation.cancelling()`")
            return step - 1
    raise ValueError(f"there are more than {max_checkpoints} checkpoints")
