"""Guards: how late after its deadline the code is really gone, on a machine that is busy.

Every core is kept busy by a process of its own.  The code holds its interpreter's lock, and has
left a daemon with a session of its own that does the same; its supervisor is stuck, and looks at
nothing.  What is measured ends when the kernel says of both that they are no more.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

from trio_reactor.supervision import Key, LocalProcesses, PythonCode
from trio_reactor.supervision.execution.protocol import LaunchOrder, Unit
from trio_reactor.supervision.model.child import Launch
from trio_reactor.supervision.model.work import UNLIMITED
from trio_reactor.world import SystemWorld

from .harness import Benchmark

DEADLINES = 20
AHEAD = 0.2
"""Seconds from a renewal to the deadline."""
PATIENCE = 10.0
"""Seconds after which it is no matter of lateness any more."""
ENOUGH = 500.0
"""Milliseconds: half of the least margin that a take-over waits."""

WORKER = """
import os

def main(session):
    daemon = os.fork()
    if daemon == 0:
        os.setsid()
    else:
        session.send(b"%d %d" % (os.getpid(), daemon))
    while True:
        pass
"""


@contextmanager
def _busy() -> Generator[None]:
    """Every core has something else to do."""
    spinners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
        for spinner in spinners:
            spinner.wait()


@contextmanager
def _worker() -> Generator[PythonCode]:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "bench_late.py").write_text(WORKER)
        yield PythonCode("bench_late:main", path=(directory,))


async def _lateness(processes: LocalProcesses, work: PythonCode, world: SystemWorld) -> float:
    """Milliseconds from a deadline to the end of all that it is the deadline of."""
    launch = Launch(world.token(), world.boottime() + PATIENCE)
    async with processes.launch(LaunchOrder(Key("late"), 1, launch, work, UNLIMITED)) as unit:
        unit.renew(world.boottime() + PATIENCE)
        await unit.start()
        pids = [int(word) for word in (await unit.channel.receive_some()).split()]
        return _watch(unit, pids, world)


def _watch(unit: Unit, pids: Sequence[int], world: SystemWorld) -> float:
    """Wait as whoever is stuck does: nothing else happens in this process meanwhile."""
    poll = select.poll()
    fds = [os.pidfd_open(pid) for pid in pids]
    try:
        for fd in fds:
            poll.register(fd, select.POLLIN)
        deadline = world.boottime() + AHEAD
        unit.renew(deadline)
        left = len(fds)
        until = time.monotonic() + AHEAD + PATIENCE
        while left:
            ready = poll.poll(max(until - time.monotonic(), 0.0) * 1000)
            if not ready:
                raise RuntimeError(f"it still runs {PATIENCE} seconds after its deadline")
            for fd, _ in ready:
                poll.unregister(fd)
                left -= 1
        late = world.boottime() - deadline
    finally:
        for fd in fds:
            os.close(fd)
    if late < 0:
        raise RuntimeError(f"it ended {-late} seconds before its deadline")
    return late * 1000


async def _worst() -> float:
    """The latest of several."""
    world = SystemWorld()
    processes = LocalProcesses()
    with _worker() as work, _busy():
        return max([await _lateness(processes, work, world) for _ in range(DEADLINES)])


def _measure() -> float:
    return trio.run(_worst)


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark("guard_deadline_lateness_ms", "ms", _measure, at_most=ENOUGH, rounds=5),
)
