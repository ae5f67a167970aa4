"""A seeded schedule: which runnable task goes first, and which is kept waiting.

Trio runs its tasks in batches: everything that is runnable when a batch begins takes one step in
it, in an arbitrary order.  A seed decides two things here:

- *the order within a batch*, by Trio's own deterministic shuffle;
- *who is in the batch at all*: some runnable tasks are held back for a few batches.  A shuffle
  permutes one batch only, so two tasks that are woken together never drift apart by more than a
  step; with some held back they do, and races show that a shuffle cannot reach.

The steps of one task keep their order whatever is drawn.  What is held back stays in Trio's run
queue, so the loop is never idle while anything is: a virtual clock cannot jump over a runnable
task, and `trio.testing.wait_all_tasks_blocked` does not return before it ran.  No batch is left
empty while something is held back.

Ties between equal deadlines, which Trio breaks by memory address, are drawn from the seed too.

All of it reaches into names that Trio keeps private.  `check_trio` tells whether they are still
there and still mean the same; every seeded run asks it first.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import random
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sized
from contextlib import contextmanager
from heapq import heappush
from operator import attrgetter
from typing import Final, Protocol, TypeAlias, cast, final

import msgspec
import trio
import trio.testing
from trio.lowlevel import Task

__all__ = [
    "Schedule",
    "Sequencing",
    "TrioMoved",
    "check_trio",
    "seeded",
    "spawn_order",
    "unshield",
]


class TrioMoved(RuntimeError):
    """A private part of Trio that a seeded schedule needs is gone or means something else now."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"trio {trio.__version__}: {what}; seeded schedules need it, so this version of "
            "trio_reactor.testing and this version of trio do not go together"
        )


class Schedule(msgspec.Struct, frozen=True):
    """How a seed disturbs the order of things.

    Raises:
        ValueError: If a field is out of its range.
    """

    hold: float = 0.1
    """The chance, from 0 to 1, that a task which became runnable is held back; 0 only shuffles."""
    longest: int = 4
    """How many batches it is held back at most; at least 1."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.hold <= 1.0:
            raise ValueError(f"hold is a chance from 0 to 1, not {self.hold}")
        if self.longest < 1:
            raise ValueError(f"longest is at least 1 batch, not {self.longest}")


# ------------------------------------------------------------------------- what Trio keeps private


class _Deadlines(Protocol):
    """`trio._core._run.Deadlines`."""

    _heap: list[tuple[float, object, object]]
    _active: int

    def next_deadline(self) -> float: ...


class _Runner(Protocol):
    """`trio._core._run.Runner`."""

    runq: deque[Task]
    deadlines: _Deadlines
    waiting_for_idle: Sized


class _CancelStatus(Protocol):
    """`trio._core._run.CancelStatus`."""

    _scope: trio.CancelScope
    _parent: _CancelStatus | None


class _ShieldedTask(Protocol):
    """`trio.lowlevel.Task`."""

    _cancel_status: _CancelStatus


class _RunContext(Protocol):
    runner: _Runner


class _RunModule(Protocol):
    """`trio._core._run`."""

    _ALLOW_DETERMINISTIC_SCHEDULING: bool
    _r: random.Random
    GLOBAL_RUN_CONTEXT: _RunContext
    Deadlines: type[_Deadlines]


def _trio() -> _RunModule:
    try:
        return cast("_RunModule", importlib.import_module("trio._core._run"))
    except ModuleNotFoundError:
        raise TrioMoved("there is no trio._core._run") from None


spawn_order: Final = cast("Callable[[Task], int]", attrgetter("_counter"))
"""The key that sorts tasks in the order in which they were spawned."""


def unshield(task: Task) -> None:
    """Take away every shield around a task, so that a cancellation from outside reaches it."""
    status: _CancelStatus | None = cast("_ShieldedTask", task)._cancel_status
    while status is not None:
        status._scope.shield = False
        status = status._parent


def _seeded_deadlines(chance: random.Random) -> _Deadlines:
    """Trio's deadlines, with ties broken by chance rather than by address."""
    count = itertools.count()

    def add(self: _Deadlines, deadline: float, cancel_scope: object) -> None:
        heappush(self._heap, (deadline, (chance.random(), next(count)), cancel_scope))
        self._active += 1

    made: object = type("SeededDeadlines", (_trio().Deadlines,), {"add": add})()
    return cast("_Deadlines", made)


# ------------------------------------------------------------------------------------ the schedule

Between: TypeAlias = Callable[[int, int], None]
"""Called between batches with how many tasks are runnable and how many steps were taken."""


@final
class _RunQueue(deque[Task]):
    """Trio's run queue, giving out only the tasks that are not held back.

    The loop takes a batch by iterating over the queue and then clearing it: iterating decides who
    goes, clearing removes these and keeps the others.
    """

    def __init__(self, chance: random.Random, schedule: Schedule, between: Between) -> None:
        super().__init__()
        self.batches = 0
        self.steps = 0
        self._chance = chance.random
        self._hold = schedule.hold
        self._longest = schedule.longest
        self._between = between
        self._release: dict[Task, int] = {}
        self._kept: list[Task] = []

    def __iter__(self) -> Iterator[Task]:
        self._between(len(self), self.steps)
        if self._kept:
            self._kept = []
        if len(self) < 2:
            # A single one goes even if it was held back beside others, which are through by now.
            if self._release:
                self._release.clear()
            return super().__iter__()
        if not self._hold:
            return super().__iter__()
        # The order in which tasks became runnable may depend on their addresses, as Trio keeps them
        # in sets here and there; the order in which they were spawned never does.
        return iter(self._choose(sorted(super().__iter__(), key=spawn_order)))

    def _choose(self, tasks: list[Task]) -> list[Task]:
        chance, release, now = self._chance, self._release, self.batches
        going: list[Task] = []
        for task in tasks:
            until = release.get(task)
            if until is None and chance() < self._hold:
                until = release[task] = now + 1 + int(chance() * self._longest)
            if until is not None and until > now:
                self._kept.append(task)
            else:
                release.pop(task, None)
                going.append(task)
        if not going:
            first = min(self._kept, key=release.__getitem__)
            self._kept.remove(first)
            del release[first]
            going.append(first)
        return going

    def clear(self) -> None:
        going = len(self) - len(self._kept)
        super().clear()
        if self._kept:
            self.extend(self._kept)
        if going:
            self.batches += 1
            self.steps += going


@final
class _Installer(trio.abc.Instrument):
    """Puts a run queue and deadlines into a run before its first task exists."""

    def __init__(self, queue: deque[Task], deadlines: _Deadlines) -> None:
        self._queue = queue
        self._deadlines = deadlines

    def before_run(self) -> None:
        runner = _trio().GLOBAL_RUN_CONTEXT.runner
        runner.runq = self._queue
        runner.deadlines = self._deadlines


@final
class Sequencing:
    """A seeded schedule at work in one run.

    Attributes:
        instrument: What `trio.run` is given to follow the schedule.
    """

    def __init__(self, seed: int, schedule: Schedule, between: Between) -> None:
        self._chance = random.Random(f"schedule:{seed}")  # noqa: S311 - a simulation replays
        self._queue = _RunQueue(self._chance, schedule, between)
        self._deadlines = _seeded_deadlines(self._chance)
        self.instrument: trio.abc.Instrument = _Installer(self._queue, self._deadlines)

    @property
    def batches(self) -> int:
        """How many batches there were."""
        return self._queue.batches

    @property
    def steps(self) -> int:
        """How many steps their tasks took, Trio's own few included."""
        return self._queue.steps

    def check(self) -> None:
        """Raise `TrioMoved` unless the run in progress follows this schedule."""
        runner = _trio().GLOBAL_RUN_CONTEXT.runner
        if runner.runq is not self._queue or runner.deadlines is not self._deadlines:
            raise TrioMoved("a run no longer takes the run queue and the deadlines it is given")

    def draw(self) -> int:
        """A number that differs once anything else was drawn, from the schedule or the shuffle."""
        return self._chance.getrandbits(64) ^ _trio()._r.getrandbits(64)

    def exhausted(self) -> bool:
        """Whether nothing can run any more: nobody is runnable, and no deadline is ahead.

        Waiting for input, for a thread or for a signal does not count: a simulation has none.
        """
        return (
            not self._queue
            and math.isinf(self._deadlines.next_deadline())
            and not _trio().GLOBAL_RUN_CONTEXT.runner.waiting_for_idle
        )


_ONE_AT_A_TIME: Final = threading.Lock()


def _nothing(runnable: int, steps: int) -> None:
    del runnable, steps


@contextmanager
def seeded(seed: int, schedule: Schedule, between: Between = _nothing) -> Generator[Sequencing]:
    """Make the runs inside of the block follow a seed, and put everything back afterwards.

    Args:
        seed: What the schedule is drawn from.
        schedule: How much it disturbs.
        between: Called between any two batches, when no task is inside of a step.

    Raises:
        RuntimeError: If another seeded run is in progress in this process, as the names that are
            changed are shared by all threads.
    """
    run = _trio()
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise RuntimeError("only one seeded run at a time in a process")
    before = run._ALLOW_DETERMINISTIC_SCHEDULING, run._r
    try:
        run._ALLOW_DETERMINISTIC_SCHEDULING = True
        # Another object rather than another state: hypothesis looks after the state of the old one.
        run._r = random.Random(f"shuffle:{seed}")  # noqa: S311
        yield Sequencing(seed, schedule, between)
    finally:
        run._ALLOW_DETERMINISTIC_SCHEDULING, run._r = before
        _ONE_AT_A_TIME.release()


# -------------------------------------------------------------------------------------- the canary

_NAMES: Final = (
    "_ALLOW_DETERMINISTIC_SCHEDULING",
    "_r",
    "GLOBAL_RUN_CONTEXT",
    "Deadlines",
    "Runner.runq",
    "Runner.deadlines",
    "Runner.waiting_for_idle",
    "Task._counter",
    "Task._cancel_status",
    "CancelStatus._scope",
    "CancelStatus._parent",
)


def check_trio() -> None:
    """Make sure that this Trio still lets a seed decide; asked once in a process.

    Raises:
        TrioMoved: If a private name is gone, or if trying it shows that a seed decides nothing.
    """
    module: object = _trio()
    for name in _NAMES:
        try:
            attrgetter(name)(module)
        except AttributeError:
            raise TrioMoved(f"trio._core._run has no {name}") from None
    _try_trio()


@functools.cache
def _try_trio() -> None:
    """Run a few tasks under a few seeds and look at who went when."""
    shuffled = [_rounds(seed, Schedule(hold=0.0)) for seed in range(8)]
    held = [_rounds(seed, Schedule(hold=0.5)) for seed in range(8)]
    if len(set(shuffled)) == 1 or shuffled[0] != _rounds(0, Schedule(hold=0.0)):
        raise TrioMoved("a seed no longer decides the order within a batch")
    if any(not _in_rounds(order) for order in shuffled):
        raise TrioMoved("tasks that are runnable together no longer go in one batch")
    if all(_in_rounds(order) for order in held) or held[0] != _rounds(0, Schedule(hold=0.5)):
        raise TrioMoved("holding a task back no longer keeps it out of a batch")


def _rounds(seed: int, schedule: Schedule) -> tuple[tuple[int, int], ...]:
    """Let some tasks take some steps; returns (step, task) in the order in which it happened."""
    order: list[tuple[int, int]] = []

    async def walk(number: int) -> None:
        for step in range(4):
            order.append((step, number))
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        sequencing.check()
        await trio.sleep(1.0)
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(walk, number)

    with seeded(seed, schedule) as sequencing:
        trio.run(
            main,
            clock=trio.testing.MockClock(autojump_threshold=0.0),
            instruments=[sequencing.instrument],
        )
    return tuple(order)


def _in_rounds(order: tuple[tuple[int, int], ...]) -> bool:
    steps = [step for step, _ in order]
    return steps == sorted(steps)
