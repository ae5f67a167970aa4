"""Whole chains: what an idle one costs, what a viewer sees of a thousand handovers, many seeds."""

from __future__ import annotations

import functools
import gc
import logging
import time
import tracemalloc
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import trio
import trio.testing

from trio_reactor.channel import EventChannel
from trio_reactor.renewal import (
    Cleanup,
    ClipRequest,
    Predecessor,
    Renewal,
    RenewalOptions,
    open_renewal,
)
from trio_reactor.renewal.simulation import SimulatedProvider, SimulationOptions, read_stamp
from trio_reactor.world import SeededWorld

from .harness import Benchmark
from .renewal_world import play

CHAINS = 1_000
MEASURED = 200
HANDOVERS = 1_000
BORROWS = 20_000
FRAME_RATE = 25.0
SCENE = 25

SEEDS = 2_000

_LONG = 2 * 3_600.0
"""Seconds that the shortest life of an idle source takes; no deadline of one is in the hour that is
measured."""
_SHORT = SimulationOptions(lifetime=12.0, build_delay=0.3, frame_rate=FRAME_RATE, sound=False)
_SEAMLESS = RenewalOptions(lead=10.0, jitter=0.0)


class _Steps(trio.abc.Instrument):
    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


def _idle(number: int) -> SimulationOptions:
    """Of the source of one chain: it ends some time, and each at another."""
    return SimulationOptions(lifetime=_LONG + number, sound=False)


async def _wakeups() -> float:
    """Task steps of idle chains, with a source on air each, in an hour of virtual time.

    Every one of them waits for a deadline of its own, which is further away than that.
    """
    world = SeededWorld(1)
    steps = _Steps()
    async with AsyncExitStack() as stack:
        for number in range(CHAINS):
            await stack.enter_async_context(
                open_renewal(
                    SimulatedProvider(world, _idle(number)), world=world, name=f"renewal {number}"
                )
            )
        await trio.sleep(1)
        trio.lowlevel.add_instrument(steps)
        await trio.sleep(3_600)
        trio.lowlevel.remove_instrument(steps)
    return max(0, steps.count - 1)  # this task's own waking is one


async def _bytes() -> float:
    """What one idle chain holds before its first handover, its simulated source included."""
    world = SeededWorld(1)
    channel = EventChannel(world=world)
    provider = SimulatedProvider(world)
    async with AsyncExitStack() as stack:

        async def one(number: int) -> None:
            provider.options = _idle(number + 1)
            await stack.enter_async_context(
                open_renewal(
                    provider,
                    events=channel,
                    world=world,
                    name=f"renewal {number}",
                )
            )

        await one(-1)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for number in range(MEASURED):
                await one(number)
            await trio.sleep(1)
            gc.collect()
            return (tracemalloc.get_traced_memory()[0] - before) / MEASURED
        finally:
            tracemalloc.stop()


class _Viewer:
    """What a viewer of a thousand handovers sees."""

    def __init__(self) -> None:
        self.frames = 0
        self.asked = 0
        self.sources = 0
        self.longest = 0.0

    async def watch(self, renewal: Renewal) -> None:
        last: float | None = None
        source = 0
        while self.sources <= HANDOVERS:
            frame = await renewal.video.receive()
            now = trio.current_time()
            if last is not None:
                self.longest = max(self.longest, now - last)
            last = now
            self.frames += 1
            stamp = read_stamp(frame)
            if stamp.source != source:
                source = stamp.source
                self.sources += 1

    async def ask(self, renewal: Renewal) -> None:
        """Keep a second or two of film ahead."""
        while True:
            if self.asked - self.frames < 3 * SCENE:
                await renewal.enqueue(ClipRequest({"frames": SCENE}))
                self.asked += SCENE
            else:
                await trio.sleep(0.2)


async def _thousand_handovers() -> tuple[int, float]:
    """How many pictures of what was asked for never came, and the longest gap in pictures."""
    world = SeededWorld(1)
    viewer = _Viewer()
    async with open_renewal(
        SimulatedProvider(world, _SHORT), options=_SEAMLESS, world=world
    ) as renewal:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(viewer.ask, renewal)
            await viewer.watch(renewal)
            nursery.cancel_scope.cancel()
        with trio.move_on_after(30):  # what was asked for last
            while viewer.frames < viewer.asked:
                await renewal.video.receive()
                viewer.frames += 1
        lost = renewal.pressure().frames_lost + viewer.asked - viewer.frames
    return lost, viewer.longest * FRAME_RATE - 1


@functools.cache  # on a virtual clock one run says all, and two benchmarks ask
def _run_virtual() -> tuple[int, float]:
    return trio.run(_thousand_handovers, clock=trio.testing.MockClock(autojump_threshold=0.0))


class _Token:
    """The least that a source can be."""

    id = "token"
    lifetime = None

    async def close(self) -> Cleanup:
        return Cleanup.of(self.id, allocation="owned", termination="confirmed", connection="closed")


@asynccontextmanager
async def _open_token(_: Predecessor) -> AsyncGenerator[_Token]:
    yield _Token()


async def _borrowing() -> float:
    """Microseconds to borrow the source on air and give it back."""
    async with open_renewal(_open_token) as renewal:
        began = time.perf_counter()
        for _ in range(BORROWS):
            async with renewal.borrow():
                pass
        return (time.perf_counter() - began) / BORROWS * 1e6


async def _locking() -> float:
    lock = trio.Lock()
    began = time.perf_counter()
    for _ in range(BORROWS):
        async with lock:
            pass
    return (time.perf_counter() - began) / BORROWS * 1e6


def _idle_wakeups() -> float:
    return trio.run(_wakeups, clock=trio.testing.MockClock(autojump_threshold=0.0))


def _per_chain() -> float:
    return trio.run(_bytes, clock=trio.testing.MockClock(autojump_threshold=0.0))


@functools.cache  # it takes long, and needs no warm-up
def _seeds() -> float:
    """Seconds for so many seeds of a randomized world, each checked for all that must hold."""
    logging.getLogger("trio_reactor.owner").setLevel(logging.ERROR)  # things are late by design
    began = time.perf_counter()
    play(range(SEEDS))
    return time.perf_counter() - began


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark("renewal_idle_wakeups_1000", "steps/h", _idle_wakeups, at_most=0, rounds=1),
    Benchmark("renewal_bytes_per_chain", "bytes", _per_chain, at_most=46_000, rounds=3),
    Benchmark(
        "renewal_borrow_vs_lock",
        "us/op",
        functools.partial(trio.run, _borrowing),
        functools.partial(trio.run, _locking),
        at_most=1.6,
    ),
    Benchmark(
        "renewal_frames_lost_1000_handovers",
        "frames",
        lambda: _run_virtual()[0],
        at_most=0,
        rounds=1,
    ),
    Benchmark(
        "renewal_max_gap_frames_1000_handovers",
        "frames",
        lambda: _run_virtual()[1],
        at_most=1,
        rounds=1,
    ),
    Benchmark("renewal_seeds_2000_s", "s", _seeds, at_most=120, rounds=1),
)
