"""Lanes: serial execution by key.

One key's work runs one thing at a time and in the order in which it came; different keys run side
by side.  There are two faces, and one lane serves both in one order: `async with lanes(key)` in the
caller's own task, and `lanes.start_soon(key, fn)` in a task of an owner's.

How it works.  A lane exists from the moment somebody asks for it until nobody is in it or waits
for it; then it is forgotten, so a key at rest costs nothing.  Leaving hands the lane to the next in
line in the same step, so nobody can slip in between.  Work of the second face is done by a
*runner*, one task a lane, which lives while its lane has such work: it does one piece each time
that piece's turn comes, and is gone when there is none.  The runner is started when the work is
queued and not when its turn comes, because only then is there somebody to tell if the owner
refuses.

Generations.  `advance()` begins a new one, and with it new lanes: none of them ever waits for
somebody who is stuck in an old one.  *What had begun goes on*, beside the new generation, and must
pass a fence before it changes anything (`token()` gives one).  *What had not begun never begins
by itself*: tasks in line are refused with `Closed`, work in line is given back to whoever advances,
who alone knows whether it still has to be done.  So an old generation holds nothing but the
tasks that are really in it, and ends with them.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, TypeVar, TypeVarTuple, final

import trio
from trio.lowlevel import Task

from .errors import Closed, Overflow
from .fence import Generations, Token

__all__ = ["Lanes", "LanesStatistics", "Unbegun"]

K = TypeVar("K", bound=Hashable)
Ts = TypeVarTuple("Ts")

_log = logging.getLogger("trio_reactor.lanes")


@dataclass(frozen=True, slots=True)
class LanesStatistics:
    """What is held, queued and waited for."""

    generation: int
    """The number of the current generation, from 0."""
    held: int
    """Lanes of the current generation that somebody is in (a lane nobody is in does not exist)."""
    waiting: int
    """Tasks in line to enter."""
    queued: int
    """Pieces of work in line that have not begun."""
    left_behind: int
    """Lanes of older generations that somebody is still in."""


@dataclass(frozen=True, slots=True)
class Unbegun(Generic[K]):
    """Work that was in line when its generation ended, as it was given to `Lanes.start_soon`."""

    key: K
    fn: Callable[..., Awaitable[object]]
    args: tuple[object, ...]


@final
class Lanes(Generic[K]):
    """Serial execution by key, in the caller's task or in an owner's.

    Args:
        start_soon: How to start a task for `start_soon`: an owner's or a nursery's, or
            `functools.partial(owner.start_soon, drain=True)` for work that close waits for.  What
            it starts must run at least to its first checkpoint, as Trio's does.
        max_lanes: How many lanes of one generation may exist at once.
        max_waiting: How many may be in line at once, over all lanes: tasks and work together.

    Raises:
        ValueError: If a bound is less than one.
    """

    def __init__(
        self,
        *,
        start_soon: Callable[..., None] | None = None,
        max_lanes: int = 4096,
        max_waiting: int = 4096,
    ) -> None:
        for name, bound in (("max_lanes", max_lanes), ("max_waiting", max_waiting)):
            if bound < 1:
                raise ValueError(f"{name} must be at least 1, not {bound}")
        self._start_soon = start_soon
        self._max_lanes = max_lanes
        self._max_waiting = max_waiting
        self._generations = Generations("lanes")
        self._lanes: dict[K, _Lane[K]] = {}
        self._waiting = 0
        self._queued = 0
        self._left_behind = 0

    def __repr__(self) -> str:
        return f"<Lanes {self.statistics()}>"

    def __call__(self, key: K, *, token: Token | None = None) -> AbstractAsyncContextManager[None]:
        """One turn in the key's lane, in the caller's task: `async with lanes(key): ...`.

        Entering waits until everybody who came before has left.  It is always a checkpoint.  If it
        is cancelled, the place in line is given up and the lane goes on without it.  Leaving is not
        a checkpoint.

        A task that is in a lane cannot enter the same lane again.  (Its child tasks can only be
        waited for, not recognized: do not wait in a lane for a child that enters it.)

        Args:
            key: Whose lane.
            token: From `token()`: enter only if its generation is still the current one.

        Raises:
            Closed: On entering, if the token is dead, or the generation ended before the turn came;
                nothing was begun.  Without a token, entering again takes a turn in the new
                generation: then it is `retryable`.
            Overflow: On entering, if `max_lanes` or `max_waiting` is reached.
            RuntimeError: On entering, if the task is in this lane already.
        """
        return _Turn(self, key, token)

    @trio.lowlevel.enable_ki_protection
    def start_soon(
        self,
        key: K,
        fn: Callable[[*Ts], Awaitable[object]],
        *args: *Ts,
        token: Token | None = None,
    ) -> None:
        """Queue `fn(*args)` in the key's lane, to run in a task of the owner's; never waits.

        If `fn` raises, or its task is cancelled, that goes the way of every failure of a task that
        was started with the injected `start_soon`: an owner fails.  The lane is free again, but the
        work that was queued behind it is dropped with it, because it may rely on what failed.

        Args:
            key: Whose lane.
            fn: An async function.
            *args: Its arguments.
            token: From `token()`: queue only if its generation is still the current one.

        Raises:
            Closed: If the token is dead, or the owner is closing.  Nothing was queued, nor is it
                if the injected `start_soon` raises anything else.
            Overflow: If `max_lanes` or `max_waiting` is reached.  Nothing was queued.
            RuntimeError: If these lanes were given no `start_soon`.
        """
        if self._start_soon is None:
            raise RuntimeError("these lanes were given no start_soon to run work with")
        if token is not None:
            token.check()
        lane = self._lanes.get(key)
        fresh = lane is None
        if lane is None:
            self._check_lanes()
            lane = _Lane(key, self._generations.number)
        self._check_waiting()
        if lane.runner is None:
            runner = _Runner()
            self._start_soon(self._run, lane, runner)  # raises before anything was changed
            lane.runner = runner
            if fresh:
                lane.holder = runner
                self._lanes[key] = lane
        lane.line[_Work(fn, args)] = None
        lane.queued += 1
        self._queued += 1

    def token(self) -> Token:
        """A token of the current generation: dead, for ever, from the next `advance` on."""
        return self._generations.token()

    @trio.lowlevel.enable_ki_protection
    def advance(self) -> tuple[Unbegun[K], ...]:
        """Begin a new generation, whose lanes wait for nobody of the old one.

        Whoever is in a lane stays in it and goes on beside the new generation.  Tasks in line are
        refused with `Closed`.  Work in line does not run; it is returned, lane by lane in
        its order, for the caller to queue again what must be done in any case.
        """
        self._generations.advance()
        lanes, self._lanes = self._lanes, {}
        unbegun: list[Unbegun[K]] = []
        for lane in lanes.values():
            for entry in lane.line:
                if isinstance(entry, _Work):
                    unbegun.append(Unbegun(lane.key, entry.fn, entry.args))
                else:
                    trio.lowlevel.reschedule(entry)
            lane.line.clear()
            lane.queued = 0
            if lane.runner is not None:
                lane.runner.wake()
        _log.debug(
            "generation %d: %d lanes left behind, %d tasks refused, %d pieces of work given back",
            self._generations.number,
            len(lanes),
            self._waiting,
            len(unbegun),
        )
        self._left_behind += len(lanes)
        self._waiting = self._queued = 0
        return tuple(unbegun)

    def statistics(self) -> LanesStatistics:
        """What is held, queued and waited for now."""
        return LanesStatistics(
            generation=self._generations.number,
            held=len(self._lanes),
            waiting=self._waiting,
            queued=self._queued,
            left_behind=self._left_behind,
        )

    def _check_lanes(self) -> None:
        if len(self._lanes) >= self._max_lanes:
            raise Overflow(
                f"max_lanes: {self._max_lanes} lanes exist already", missed=1, retryable=True
            )

    def _check_waiting(self) -> None:
        if self._waiting + self._queued >= self._max_waiting:
            raise Overflow(
                f"max_waiting: {self._max_waiting} are in line already", missed=1, retryable=True
            )

    async def _enter(self, key: K, token: Token | None) -> _Lane[K]:
        """Take the lane, or a place in its line; returns once the caller's turn has come."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if token is not None:
            token.check()
        task = trio.lowlevel.current_task()
        lane = self._lanes.get(key)
        if lane is None:
            self._check_lanes()
            lane = self._lanes[key] = _Lane(key, self._generations.number)
            lane.holder = task
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            if lane.is_held_by(task):
                raise RuntimeError("this task is in this lane already")
            self._check_waiting()
            await self._stand_in_line(lane, task)
        if lane.generation != self._generations.number:
            # Refused in line, or overtaken between being handed the lane and running.
            if lane.holder is task:
                self._pass_on(lane)
            raise Closed(
                f"lanes: generation {lane.generation} ended before the turn came",
                retryable=token is None,
            )
        return lane

    async def _stand_in_line(self, lane: _Lane[K], task: Task) -> None:
        def abort(_: object) -> trio.lowlevel.Abort:
            del lane.line[task]
            self._waiting -= 1
            return trio.lowlevel.Abort.SUCCEEDED

        lane.line[task] = None
        self._waiting += 1
        await trio.lowlevel.wait_task_rescheduled(abort)

    def _pass_on(self, lane: _Lane[K]) -> None:
        """Hand the lane to the next in line, or forget it if there is none."""
        if not lane.line:
            lane.holder = None
            if lane.generation == self._generations.number:
                del self._lanes[lane.key]
            else:
                self._left_behind -= 1
            return
        entry = next(iter(lane.line))
        if isinstance(entry, _Work):
            # It stays in line, and has not begun, until the runner runs and takes it.
            assert lane.runner is not None  # noqa: S101 - there is one while there is work
            lane.holder = lane.runner
            lane.runner.wake()
        else:
            del lane.line[entry]
            self._waiting -= 1
            lane.holder = entry
            trio.lowlevel.reschedule(entry)

    @trio.lowlevel.enable_ki_protection
    async def _run(self, lane: _Lane[K], runner: _Runner) -> None:
        """What a runner does: the lane's work, one piece each time the lane is its."""
        runner.task = trio.lowlevel.current_task()
        try:
            while lane.queued:
                if lane.holder is not runner:
                    await runner.park()
                    continue
                work, _ = lane.line.popitem(last=False)
                assert isinstance(work, _Work)  # noqa: S101 - a runner is handed nothing else
                lane.queued -= 1
                self._queued -= 1
                await _call(work)
                self._pass_on(lane)
                if lane.holder is runner:
                    await trio.lowlevel.checkpoint()  # work that never waits starves nobody
        finally:
            lane.runner = None
            for entry in [entry for entry in lane.line if isinstance(entry, _Work)]:
                del lane.line[entry]
            if lane.queued:
                _log.debug("%d pieces of work dropped with the one that failed", lane.queued)
            self._queued -= lane.queued
            lane.queued = 0
            if lane.holder is runner:
                self._pass_on(lane)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """Work in line: it is whatever it was given as, and equal to nothing else."""

    fn: Callable[..., Awaitable[object]]
    args: tuple[object, ...]


class _Runner:
    """The task that does one lane's work."""

    __slots__ = ("_parked", "task")

    def __init__(self) -> None:
        self.task: Task | None = None
        self._parked = False

    async def park(self) -> None:
        """Sleep until `wake`."""
        assert self.task is not None  # noqa: S101 - it parks itself

        def abort(_: object) -> trio.lowlevel.Abort:
            self._parked = False
            return trio.lowlevel.Abort.SUCCEEDED

        self._parked = True
        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake(self) -> None:
        """Wake it if it sleeps; one that does not will look by itself."""
        if self._parked and self.task is not None:
            self._parked = False
            trio.lowlevel.reschedule(self.task)


class _Lane(Generic[K]):
    """Who is in a lane, and who is in line for it."""

    __slots__ = ("generation", "holder", "key", "line", "queued", "runner")

    def __init__(self, key: K, generation: int) -> None:
        self.key = key
        self.generation = generation
        self.holder: Task | _Runner | None = None
        self.line: OrderedDict[Task | _Work, None] = OrderedDict()
        self.queued = 0
        self.runner: _Runner | None = None

    def is_held_by(self, task: Task) -> bool:
        return self.holder is task or (
            isinstance(self.holder, _Runner) and self.holder.task is task
        )


class _Turn(Generic[K]):
    """One turn in one lane."""

    __slots__ = ("_entered", "_key", "_lane", "_lanes", "_token")

    def __init__(self, lanes: Lanes[K], key: K, token: Token | None) -> None:
        self._lanes = lanes
        self._key = key
        self._token = token
        self._entered = False
        self._lane: _Lane[K] | None = None

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> None:
        if self._entered:
            raise RuntimeError("a turn is entered once: ask the lanes for another")
        self._entered = True
        self._lane = await self._lanes._enter(self._key, self._token)

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        lane = self._lane
        if lane is None or lane.holder is not trio.lowlevel.current_task():
            raise RuntimeError("a turn is left once, by the task that entered it")
        self._lanes._pass_on(lane)


@trio.lowlevel.disable_ki_protection
async def _call(work: _Work) -> None:
    """Run the work unprotected, so that Ctrl-C can interrupt what is not ours."""
    await work.fn(*work.args)
