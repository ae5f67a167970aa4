"""What owning costs, against the same written by hand with a nursery."""

from __future__ import annotations

import gc
import logging
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

import trio

from trio_reactor.owner import OwnerOptions, open_owner

from .harness import Benchmark
from .owner_world import play

TURNS = 1_500
HELD = 2_000
IDLE = 10_000
SEEDS = 2_000


class Thing:
    """An ordinary asynchronous context manager: one checkpoint to open, one to leave."""

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await trio.lowlevel.checkpoint()


def timed(turn: Callable[[], Awaitable[None]], turns: int) -> Callable[[], Awaitable[float]]:
    """Microseconds a turn."""

    async def run() -> float:
        began = time.perf_counter()
        for _ in range(turns):
            await turn()
        return (time.perf_counter() - began) / turns * 1e6

    return run


async def _owned() -> float:
    async with open_owner() as owner:

        async def turn() -> None:
            await owner.retire(await owner.acquire(Thing))

        return await timed(turn, TURNS)()


async def _by_hand() -> float:
    """The usual way: a task that enters, says so, sleeps until cancelled and says that it left."""

    async def keep(left: trio.Event, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        async with Thing():
            with trio.CancelScope() as scope:
                task_status.started(scope)
                await trio.sleep_forever()
        left.set()

    async with trio.open_nursery() as nursery:

        async def turn() -> None:
            left = trio.Event()
            scope: trio.CancelScope = await nursery.start(keep, left)
            scope.cancel()
            await left.wait()

        return await timed(turn, TURNS)()


class _Steps(trio.abc.Instrument):
    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def _idle() -> float:
    """Task steps while many things are held and nothing happens, for a second of the real clock."""
    steps = _Steps()
    async with open_owner() as owner:
        for _ in range(IDLE):
            owner.start(Thing)
        while owner.statistics().held < IDLE:
            await trio.lowlevel.checkpoint()
        trio.lowlevel.add_instrument(steps)
        await trio.sleep(1)
        trio.lowlevel.remove_instrument(steps)
        return max(0, steps.count - 1)  # this task's own waking is one


async def _bytes_per_held() -> float:
    async with open_owner(options=OwnerOptions(max_attempts=HELD + 1)) as owner:
        await owner.acquire(Thing)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(HELD):
                await owner.acquire(Thing)
            gc.collect()
            return (tracemalloc.get_traced_memory()[0] - before) / HELD
        finally:
            tracemalloc.stop()


def _seeds() -> float:
    """Seconds for so many seeds of a randomized world, each checked for all that must hold."""
    logging.getLogger("trio_reactor.owner").setLevel(logging.ERROR)  # things are late by design
    began = time.perf_counter()
    play(range(SEEDS))
    return time.perf_counter() - began


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark(
        "owner_acquire_retire_vs_nursery_start",
        "us",
        lambda: trio.run(_owned),
        lambda: trio.run(_by_hand),
        at_most=1.25,
        rounds=11,
    ),
    Benchmark("owner_idle_wakeups_10000", "steps/s", lambda: trio.run(_idle), at_most=0, rounds=1),
    Benchmark(
        "owner_bytes_per_held", "bytes", lambda: trio.run(_bytes_per_held), at_most=6_000, rounds=3
    ),
    Benchmark("owner_seeds_2000_s", "s", _seeds, at_most=30, rounds=1),
)
