"""What a scenario is given to play in: a world, chance, faults, and a place to say what happens."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from typing import cast, final

import msgspec
import trio

from trio_reactor.world import SeededWorld

from .cancellation import Countdown, Tasks
from .faults import Fault, Faults, Jump, Plan
from .invariants import Checks, Invariant
from .trace import Plain, Trace, plain

__all__ = ["Simulation"]


@final
class Simulation:
    """What a scenario is given.  `run` makes it.

    Attributes:
        seed: What the run is drawn from.
        world: The world of the application that is simulated.
        random: The scenario's own chance.  The schedule, the faults and the world have theirs, so
            what a scenario draws shifts none of these, nor they it.
        faults: The planned faults, for the fakes to ask.
        trace: What was recorded so far.
    """

    def __init__(
        self, seed: int, plan: Plan, *, trace: Trace, checks: Checks, countdown: Countdown
    ) -> None:
        self.seed = seed
        self.world = SeededWorld(seed)
        self.random = random.Random(f"scenario:{seed}")  # noqa: S311 - a simulation replays
        self.faults = Faults(plan, struck=self._struck)
        self.trace = trace
        self._checks = checks
        self._countdown = countdown

    def record(self, what: str | msgspec.Struct, /, **about: object) -> None:
        """Record that something happened, now; invariants hear of it at once.

        One that is violated stops the run from outside; nothing is raised here.

        Args:
            what: What happened, as a short name; or an event, which is named by its type and gives
                its fields.
            about: The particulars; what is not plain data is turned into it.

        Raises:
            TypeError: If there is something that cannot be.
        """
        if isinstance(what, msgspec.Struct):
            fields = cast("dict[str, Plain]", plain(msgspec.structs.asdict(what)))
            name = type(what).__name__
        else:
            fields, name = {}, what
        for particular, value in about.items():
            fields[particular] = plain(value)
        fact = self.trace.add(trio.current_time(), _task_name(), name, fields)
        self._checks.see(fact)

    def check(self, *invariants: Invariant) -> None:
        """Check these from now on: at every fact, between any two batches, and at the end."""
        self._checks.add(*invariants)

    def cancelling(self, tasks: Tasks = "own") -> AbstractContextManager[trio.CancelScope]:
        """A block that `for_every_checkpoint` cancels at each of its checkpoints in turn.

        An ordinary cancel scope in any other run.  Several blocks of one run count on together.

        Args:
            tasks: Whose checkpoints: those of the task that enters the block, or also those of
                every task in a nursery that is opened inside of it.
        """
        return self._countdown.block(tasks)

    def start_jumps(self) -> None:
        """Let the planned jumps of the wall clock come; `run` does."""
        for jump in self.faults.plan.jumps:
            trio.lowlevel.spawn_system_task(self._jump, jump, name="jump")

    async def _jump(self, jump: Jump) -> None:
        await trio.sleep_until(jump.at)
        self.world.jump(jump.by)
        self.record("jump", by=jump.by)

    def _struck(self, place: str, number: int, fault: Fault) -> None:
        self.record("fault", place=place, number=number, fault=repr(fault))


def _task_name() -> str:
    try:
        name = trio.lowlevel.current_task().name
    except RuntimeError:  # between the steps of tasks, as abort functions can be
        return ""
    return name.rpartition(".")[2]
