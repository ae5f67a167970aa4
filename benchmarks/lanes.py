"""What a turn in a lane costs beside a lock that lives for ever."""

from __future__ import annotations

import time

import trio

from trio_reactor.lanes import Lanes

from .harness import Benchmark

__all__ = ["BENCHMARKS"]

OPERATIONS = 20_000


def _lane() -> float:
    """Microseconds for one uncontended turn: the lane is made, entered, left and forgotten."""

    async def main() -> float:
        lanes: Lanes[str] = Lanes()
        begun = time.perf_counter()
        for _ in range(OPERATIONS):
            async with lanes("key"):
                pass
        return (time.perf_counter() - begun) / OPERATIONS * 1e6

    return trio.run(main)


def _lock() -> float:
    """Microseconds for one uncontended turn with a lock that is there already."""

    async def main() -> float:
        lock = trio.Lock()
        begun = time.perf_counter()
        for _ in range(OPERATIONS):
            async with lock:
                pass
        return (time.perf_counter() - begun) / OPERATIONS * 1e6

    return trio.run(main)


BENCHMARKS = (Benchmark("lanes_enter_vs_lock", "us/op", _lane, baseline=_lock, at_most=1.5),)
