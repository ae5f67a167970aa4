"""A guard, or its supervisor, that is killed at any step: nothing is left, and that is known."""

from __future__ import annotations

import marshal
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import trio
from process_dying import Dying
from process_orphans import Gone, answer, come, until_none_is_left
from process_stage import HERE, WORLD, code, left_of, open_fds, order, soon

from trio_reactor.supervision.errors import ExecutionFailed
from trio_reactor.supervision.execution.processes import LocalProcesses
from trio_reactor.supervision.execution.protocol import LaunchOrder, OrphanPolicy, Unit
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.work import Limits

STEPS = [number * 0.004 for number in range(16)]
"""Seconds from the beginning; a launch takes about the last of them."""


def die(orphaned: OrphanPolicy, lease: float) -> list[LaunchOrder]:
    """Have a supervisor of each of several children die, each at another step."""
    limits = Limits(open_files=64)  # so that the code waits until they are set
    tasks = [
        Dying(order(code("fork_many"), orphaned=orphaned, limits=limits), soon(30), after)
        for after in STEPS
    ]
    if lease < 30:
        tasks = [msgspec.structs.replace(task, deadline=soon(lease)) for task in tasks]
    subprocess.run(
        [sys.executable, str(Path(HERE) / "process_dying.py")],
        input=msgspec.json.encode(tasks),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        timeout=60,
    )
    return [task.order for task in tasks]


async def test_whenever_its_supervisor_is_killed_it_ends_at_once() -> None:
    for made in die("kill", 30):
        await until_none_is_left(made, 2)


async def test_whenever_its_supervisor_is_killed_one_to_be_adopted_ends_at_its_deadline() -> None:
    latest = WORLD.boottime() + 4
    for made in die("adopt", 4):
        await until_none_is_left(made, max(0.0, latest - WORLD.boottime()) + 2)


async def test_whenever_its_supervisor_is_killed_recovery_ends_it() -> None:
    for made in die("adopt", 30):
        await LocalProcesses().recover(Orphan(made.launch, None))
        assert left_of(made) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_whenever_its_guard_is_killed_the_start_is_answered(number: int) -> None:
    processes = LocalProcesses()
    async with processes.launch(order(code("echo"))):
        pass
    before = open_fds()
    for after in STEPS:
        made = order(code("fork_many"), limits=Limits(open_files=64))
        async with processes.launch(made) as unit, trio.open_nursery() as nursery:
            unit.renew(soon())
            nursery.start_soon(started_or_not, unit)
            await trio.sleep(after)
            assert unit.child.process is not None
            os.kill(unit.child.process.pid, number)
            with trio.fail_after(5):
                await unit.wait_exited()
            assert left_of(made) == []
    assert open_fds() == before


async def started_or_not(unit: Unit) -> None:
    with trio.fail_after(5), suppress(ExecutionFailed):
        await unit.start()


async def test_whenever_its_adopter_is_killed_the_next_one_has_it() -> None:
    """An adopter is killed by closing what it has at a step; the guard cannot tell the two."""
    gone = Gone("echo", "adopt", 60)
    gone.kill()
    for step in ("came", "answered", "handed", "taken"):
        caller, challenge = come(gone)
        if step != "came":
            answer(gone, caller, challenge)
        if step in ("handed", "taken"):
            caller.recv(8)
        if step == "taken":
            caller.send(marshal.dumps(("taken",)))
        caller.close()
    async with LocalProcesses().adopt(gone.orphan, gone.order) as unit:
        await unit.channel.send_all(b"me")
        assert await unit.channel.receive_some() == b"ME"
