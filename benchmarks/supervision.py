"""Supervisors: what a session costs while it rests, and what its transitions cost."""

from __future__ import annotations

import functools
import gc
import logging
import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import trio
import trio.testing

from trio_reactor.supervision import (
    CodeIdentity,
    Enforced,
    Handle,
    Key,
    Limits,
    Loaded,
    LocalProcesses,
    MemoryStore,
    Open,
    PythonCode,
    SessionRecord,
    SqliteStore,
    Store,
    Supervisor,
    SupervisorOptions,
    open_supervisor,
)
from trio_reactor.supervision.model.child import Child, Launch
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.store.protocol import Change
from trio_reactor.world import SeededWorld, World

from .harness import Benchmark
from .supervision_still import StillExecution
from .supervision_world import play

SESSIONS = 1_000
MEASURED = 500
WRITERS = 64
ROUNDS = 6
RENEWALS = 50_000
SPAWNS = 20
SEEDS = 2_000

_LONG = SupervisorOptions(lease=7_200.0, max_lease=86_400.0)
"""No lease ends in the hour that is measured."""


class _Steps(trio.abc.Instrument):
    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


@asynccontextmanager
async def _supervisor(
    world: World | None = None, store: Store | None = None
) -> AsyncGenerator[Supervisor]:
    async with open_supervisor(
        store or MemoryStore(), StillExecution(), options=_LONG, world=world
    ) as supervisor:
        yield supervisor


async def _session(supervisor: Supervisor, number: int, *, loaded: bool) -> Handle:
    record = await supervisor.open(f"session {number}", lease=7_200.0 + number)
    if loaded:
        await supervisor.load(record.handle, "still:main")
    return record.handle


async def _wakeups() -> float:
    """Task steps in an hour of virtual time, of loaded sessions that each wait for a deadline."""
    steps = _Steps()
    async with _supervisor(SeededWorld(1)) as supervisor:
        for number in range(SESSIONS):
            await _session(supervisor, number, loaded=True)
        await trio.sleep(1)
        trio.lowlevel.add_instrument(steps)
        await trio.sleep(3_600)
        trio.lowlevel.remove_instrument(steps)
    return max(0, steps.count - 1)  # this task's own waking is one


async def _bytes(*, loaded: bool) -> float:
    """What one session holds at rest."""
    async with _supervisor(SeededWorld(1)) as supervisor:
        for number in range(16):
            await _session(supervisor, -1 - number, loaded=loaded)
        await trio.sleep(1)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for number in range(MEASURED):
                await _session(supervisor, number, loaded=loaded)
            await trio.sleep(1)
            gc.collect()
            return (tracemalloc.get_traced_memory()[0] - before) / MEASURED
        finally:
            tracemalloc.stop()


async def _lives(supervisor: Supervisor, name: str, count: int) -> None:
    """Open and dispose a key's sessions, one after the other: three transitions each."""
    for generation in range(count):
        record = await supervisor.open(name, expected_generation=generation or None)
        await supervisor.dispose(record.handle)


async def _journaled(run: Callable[[Supervisor], Awaitable[int]]) -> float:
    """Transitions a second through a supervisor into a file."""
    with tempfile.TemporaryDirectory() as directory:
        store = SqliteStore(Path(directory) / "journal.db")
        async with _supervisor(store=store) as supervisor:
            began = time.perf_counter()
            transitions = await run(supervisor)
            return transitions / (time.perf_counter() - began)


async def _together(supervisor: Supervisor) -> int:
    async with trio.open_nursery() as nursery:
        for number in range(WRITERS):
            nursery.start_soon(_lives, supervisor, f"key {number}", ROUNDS)
    return WRITERS * ROUNDS * 3


async def _one_by_one(supervisor: Supervisor) -> int:
    for number in range(WRITERS):
        await _lives(supervisor, f"key {number}", ROUNDS)
    return WRITERS * ROUNDS * 3


async def _one_session(supervisor: Supervisor) -> int:
    await _lives(supervisor, "key", 100)
    return 300


async def _renewals() -> float:
    """Renewals a second of one loaded session."""
    async with _supervisor() as supervisor:
        handle = await _session(supervisor, 0, loaded=True)
        began = time.perf_counter()
        for _ in range(RENEWALS):
            supervisor.renew(handle)
        return RENEWALS / (time.perf_counter() - began)


def _left_behind(number: int) -> SessionRecord:
    """The record of a loaded session that nobody stopped."""
    work = PythonCode(f"package.module_{number}:main")
    return SessionRecord(
        handle=Handle(Key(f"session {number}"), 1, f"{number:032x}"),
        request=f"request {number}",
        lease=30.0,
        limits=Limits(memory=1 << 30),
        opened_at=1_700_000_000.0 + number,
        phase=Loaded(
            work,
            Launch(nonce=f"{number:032x}", by=1.0),
            Child(address=f"child {number}"),
            Enforced(memory="cgroup"),
            CodeIdentity(work.specifier, f"sha256:{number:064x}"),
        ),
    )


async def _recovery() -> float:
    """Seconds from opening a journal with a thousand sessions that nobody stopped to serving."""
    with tempfile.TemporaryDirectory() as directory:
        store = SqliteStore(Path(directory) / "journal.db")
        loaded = [_left_behind(number) for number in range(SESSIONS)]
        opened = [msgspec.structs.replace(record, phase=Open()) for record in loaded]
        async with store.open() as journal:
            for records in (opened, loaded):
                await journal.commit([Change(record, encode(record)) for record in records])
        began = time.perf_counter()
        async with _supervisor(store=store):
            return time.perf_counter() - began


def _seeds() -> float:
    """Seconds for so many seeds of a randomized world, each checked for all that must hold."""
    for name in ("trio_reactor.owner", "trio_reactor.supervision"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # things go wrong by design
    began = time.perf_counter()
    play(range(SEEDS))
    return time.perf_counter() - began


WORKER = """
import json

def main(session):
    session.receive()  # until it is asked to end
"""


@contextmanager
def _worker() -> Generator[str]:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "bench_worker.py").write_text(WORKER)
        yield directory


async def _guarded() -> float:
    """Seconds to open, load and dispose of one real session, guard and all."""
    with _worker() as directory:
        work = PythonCode("bench_worker:main", path=(directory,))
        store = SqliteStore(Path(directory, "journal.db"))
        async with open_supervisor(store, LocalProcesses(), options=_LONG) as supervisor:
            began = time.perf_counter()
            for number in range(SPAWNS):
                record = await supervisor.open(f"worker {number}")
                await supervisor.load(record.handle, work)
                await supervisor.dispose(record.handle)
            return (time.perf_counter() - began) / SPAWNS


async def _bare() -> float:
    """Seconds that `trio.run_process` takes to have the interpreter import the same module."""
    with _worker() as directory:
        command = [sys.executable, "-c", "import bench_worker"]
        environment = os.environ | {"PYTHONPATH": directory}
        began = time.perf_counter()
        for _ in range(SPAWNS):
            await trio.run_process(command, env=environment)
        return (time.perf_counter() - began) / SPAWNS


def _virtual(measure: Callable[[], Awaitable[float]]) -> float:
    return trio.run(measure, clock=trio.testing.MockClock(autojump_threshold=0))


def _real(measure: Callable[[], Awaitable[float]]) -> float:
    return trio.run(measure)


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark(
        "sessions_idle_wakeups_1000",
        "task steps",
        functools.partial(_virtual, _wakeups),
        at_most=0,
        rounds=1,
    ),
    Benchmark(
        "session_bytes_open",
        "bytes",
        functools.partial(_virtual, functools.partial(_bytes, loaded=False)),
        at_most=6_000,
        rounds=1,
    ),
    Benchmark(
        "session_bytes_loaded",
        "bytes",
        functools.partial(_virtual, functools.partial(_bytes, loaded=True)),
        at_most=16_000,
        rounds=1,
    ),
    Benchmark(
        "renew_vs_transition",
        "operations/s",
        functools.partial(_real, _renewals),
        functools.partial(_real, functools.partial(_journaled, _one_session)),
        at_least=10,
        rounds=3,
    ),
    Benchmark(
        "supervisor_group_commit_vs_serial",
        "transitions/s",
        functools.partial(_real, functools.partial(_journaled, _together)),
        functools.partial(_real, functools.partial(_journaled, _one_by_one)),
        at_least=4,
        rounds=3,
    ),
    Benchmark(
        "spawn_load_dispose_vs_run_process",
        "s",
        functools.partial(_real, _guarded),
        functools.partial(_real, _bare),
        at_most=1.4,
        rounds=5,
    ),
    Benchmark("recover_1000_records_s", "s", functools.partial(_real, _recovery), rounds=3),
    Benchmark("supervision_seeds_2000_s", "s", _seeds, at_most=120, rounds=1),
)
