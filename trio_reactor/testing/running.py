"""One run of a scenario: on a virtual clock, under a seed.

A run ends when its scenario does.  It is stopped, by cancelling the scenario, as soon as an
invariant is violated, when nothing can run any more, or when it has taken too many steps.  A
scenario that does not end when it is cancelled is cancelled through its shields, and woken by force
if it still waits.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import PurePath
from typing import Final, Generic, TypeAlias, TypeVar, cast, final

import msgspec
import outcome
import trio
import trio.testing
from trio.lowlevel import Task

from trio_reactor.errors import leaves

from .cancellation import Countdown
from .failure import Endless, InvariantViolated, Rerun, SimulationFailed, Stuck
from .faults import Plan
from .invariants import Checks
from .schedule import Schedule, check_trio, seeded, spawn_order, unshield
from .simulation import Simulation
from .trace import Fact, Trace, describe

__all__ = ["DrawPlan", "Run", "Scenario", "run"]

T = TypeVar("T")

Scenario: TypeAlias = Callable[[Simulation], Awaitable[T]]
"""What a run plays."""

DrawPlan: TypeAlias = Callable[[random.Random], Plan]
"""Draws a plan from chance that the seed gives."""

SHOWN_FACTS: Final = 40
"""How many of the newest facts a failure shows."""
SHOWN_TASKS: Final = 20
"""How many of the tasks that are stuck a failure shows."""
STOPPING_STEPS: Final = 10_000
"""How many steps a scenario may take after it was cancelled, before its shields are taken away."""
STOPPING_TRIES: Final = 5
"""How often that, and more, is tried before it is left in pieces."""

_PLAIN: Final = Schedule()
_NO_FAULTS: Final = Plan()


@final
class Run(msgspec.Struct, Generic[T], frozen=True):
    """What became of a run."""

    seed: int
    value: T
    """What the scenario returned."""
    trace: Trace
    """What was recorded."""
    plan: Plan
    """What was to go wrong."""
    elapsed: float
    """Virtual seconds it took."""
    batches: int
    steps: int
    """How many steps tasks took."""
    hit: bool
    """Whether a block of `Simulation.cancelling` was cancelled."""
    fingerprint: str
    """Equal for equal runs: made of every fact, the steps, and where the schedule's chance got."""


def run(
    scenario: Scenario[T],
    *,
    seed: int,
    schedule: Schedule = _PLAIN,
    faults: Plan | DrawPlan = _NO_FAULTS,
    cancel_at: int | None = None,
    max_facts: int = 10_000,
    max_steps: int = 1_000_000,
) -> Run[T]:
    """Run a scenario once, on a virtual clock that starts at 0, under a seed.

    Args:
        scenario: An async function that is given a `Simulation`.
        seed: What everything is drawn from.
        schedule: How the seed disturbs the order of things.
        faults: What goes wrong, or how to draw that.
        cancel_at: After how many steps inside of `Simulation.cancelling` to cancel that block.
        max_facts: How many facts the trace keeps.
        max_steps: How many steps the run may take.

    Raises:
        SimulationFailed: If the scenario raised anything, which is the cause then; or, as
            `InvariantViolated`, `Stuck` or `Endless`, if the run had to be stopped.
        TrioMoved: If this version of Trio does not let a seed decide.
        RuntimeError: If called inside of Trio, or beside another run in the same process.
    """
    plan = faults if isinstance(faults, Plan) else faults(_chance(f"faults:{seed}"))
    options = [f"seed={seed}"]
    if schedule != _PLAIN:
        options.append(f"schedule={schedule}")
    if faults != _NO_FAULTS:
        options.append(f"faults={plan if isinstance(faults, Plan) else _name(faults)}")
    if cancel_at is not None:
        options.append(f"cancel_at={cancel_at}")
    rerun = Rerun(seed, plan, f"run({_name(scenario)}, {', '.join(options)})")
    return _Running(scenario, rerun, schedule, Countdown(cancel_at), max_facts, max_steps).run()


def _chance(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a simulation replays


def _name(function: object) -> str:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return repr(function) if name is None else f"{module}.{name}"


class _GivenUp(BaseException):
    """Raised in tasks that do not end when they are cancelled, in a run that has failed."""


@final
class _Running(Generic[T]):
    """One run while it runs."""

    def __init__(
        self,
        scenario: Scenario[T],
        rerun: Rerun,
        schedule: Schedule,
        countdown: Countdown,
        max_facts: int,
        max_steps: int,
    ) -> None:
        self._scenario = scenario
        self._rerun = rerun
        self._schedule = schedule
        self._countdown = countdown
        self._trace = Trace(max_facts=max_facts)
        self._checks = Checks(self._violated)
        self._scope = trio.CancelScope()
        self._task: Task | None = None
        """The scenario's, while it plays."""
        self._patience = max_steps
        """Until how many steps there is any."""
        self._failure: SimulationFailed | None = None
        self._tries = 0
        self._elapsed = 0.0

    def run(self) -> Run[T]:
        check_trio()
        with seeded(self._rerun.seed, self._schedule, self._between) as self._sequencing:
            try:
                value = trio.run(
                    self.scenario,
                    clock=trio.testing.MockClock(autojump_threshold=0.0),
                    instruments=[self._sequencing.instrument],
                )
            except BaseException as failure:
                if not all(isinstance(leaf, Exception | _GivenUp) for leaf in leaves(failure)):
                    failure.add_note(f"in {self._rerun.call}")
                    raise
                if self._failure is None:
                    raise SimulationFailed(describe(failure), *self._shown()) from failure
                self._failure.add_note(f"while it was being stopped: {describe(failure)}")
                value = None
            drawn = self._sequencing.draw()
        if self._failure is not None:
            raise self._failure
        sequencing, trace = self._sequencing, self._trace
        all_of_it = f"{trace.fingerprint()} {sequencing.batches} {sequencing.steps} {drawn}"
        return Run(
            self._rerun.seed,
            cast("T", value),
            trace,
            self._rerun.plan,
            self._elapsed,
            sequencing.batches,
            sequencing.steps,
            self._countdown.hit,
            hashlib.blake2b(all_of_it.encode(), digest_size=16).hexdigest(),
        )

    async def scenario(self) -> T | None:
        """The scenario's task, which has its name from here."""
        simulation = Simulation(
            self._rerun.seed,
            self._rerun.plan,
            trace=self._trace,
            checks=self._checks,
            countdown=self._countdown,
        )
        simulation.start_jumps()
        self._task = trio.lowlevel.current_task()
        value = None
        try:
            with self._scope:
                value = await self._scenario(simulation)
                self._checks.end()
        finally:
            self._task = None
            self._elapsed = trio.current_time()
        return value

    def _between(self, runnable: int, steps: int) -> None:
        """Called by the loop before each batch, between the steps of all tasks."""
        if self._task is None:
            return
        self._checks.look()
        late = steps >= self._patience
        if runnable and not late:
            return
        stuck = self._sequencing.exhausted()
        if not stuck and not late:
            return
        if self._failure is not None:
            self._insist(self._task)
        elif stuck:
            waiting = "\n".join(_waiting(self._task))
            self._stop(Stuck(f"nothing can run any more:\n{waiting}", *self._shown()))
        else:
            self._stop(Endless(f"it does not end within {steps} steps", *self._shown()))

    def _violated(self, invariant: str, wrong: str, cause: Exception | None) -> None:
        if self._failure is None:
            failure = InvariantViolated(invariant, wrong, *self._shown())
            failure.__cause__ = cause
            self._stop(failure)

    def _shown(self) -> tuple[Rerun, tuple[Fact, ...], int]:
        return self._rerun, self._trace.tail(SHOWN_FACTS), self._trace.total

    def _stop(self, failure: SimulationFailed) -> None:
        self._failure = failure
        self._patience = self._sequencing.steps + STOPPING_STEPS
        self._scope.cancel()

    def _insist(self, scenario: Task) -> None:
        """End what has not ended though it was cancelled: a run that failed never hangs."""
        self._patience = self._sequencing.steps + STOPPING_STEPS
        self._tries += 1
        if self._tries > STOPPING_TRIES:
            # Nothing is left but to leave its tasks in pieces; Python complains of each of them.
            raise RuntimeError("the scenario cannot be stopped, not even by force")
        for task in _family(scenario):
            unshield(task)
        if self._sequencing.exhausted():
            # They wait in a way that a cancellation does not end.  Only those without children are
            # woken: Trio's nurseries would not survive a parent that goes on before them.
            for task in list(_family(scenario)):
                if not any(nursery.child_tasks for nursery in task.child_nurseries):
                    trio.lowlevel.reschedule(task, outcome.Error(_GivenUp()))


def _family(task: Task) -> Iterator[Task]:
    """A task and all those below it, in the order in which they were spawned where they differ."""
    yield task
    for nursery in task.child_nurseries:
        for child in sorted(nursery.child_tasks, key=spawn_order):
            yield from _family(child)


def _waiting(task: Task) -> Iterator[str]:
    """Who waits where, a line for each."""
    family = list(_family(task))
    for member in family[:SHOWN_TASKS]:
        yield f"    {member.name.rpartition('.')[2]:<16}  {_place(member)}"
    if len(family) > SHOWN_TASKS:
        yield f"    and {len(family) - SHOWN_TASKS} more"


def _place(task: Task) -> str:
    """Where a task waits: its innermost frame that is not Trio's."""
    place = "not begun"
    for frame, line in task.iter_await_frames():
        if not str(frame.f_globals.get("__name__")).startswith(("trio.", "contextlib")):
            code = frame.f_code
            place = f"in {code.co_qualname}, {PurePath(code.co_filename).name}:{line}"
    return place
