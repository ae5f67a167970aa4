"""Limits of local processes, and what cannot be held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from process_stage import HERE, code, left_of, open_fds, order, soon

from trio_reactor.supervision.errors import ExecutionFailed, LimitRefused
from trio_reactor.supervision.execution.processes import LocalProcesses
from trio_reactor.supervision.execution.processes import limits as limits_
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import Command, Enforced, Limits, PythonCode

GROUPS = Path("/sys/fs/cgroup/unified")


async def test_memory_is_limited() -> None:
    made = order(code("eat_memory"), limits=Limits(memory=300 << 20))
    async with LocalProcesses().launch(made) as unit:
        assert unit.enforced == Enforced(memory="rlimit")
        unit.renew(soon())
        await unit.start()
        assert int(await unit.channel.receive_some()) < 300 // 16


async def test_open_files_are_limited() -> None:
    made = order(code("open_many"), limits=Limits(open_files=40))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        assert 10 < int(await unit.channel.receive_some()) <= 40


async def test_cpu_time_is_limited() -> None:
    made = order(code("burn"), limits=Limits(cpu_time=0.5))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        assert await unit.wait_exited() == ExitStatus(signal=signal.SIGXCPU)


async def test_a_limit_of_processes_is_not_taken_on_trust() -> None:
    made = order(code("sleep"), limits=Limits(processes=5))
    if not limits_.is_privileged():
        pytest.skip("the kernel holds it for this user")
    with pytest.raises(LimitRefused) as caught:
        async with LocalProcesses().launch(made):
            pass
    assert caught.value.limit == "processes"
    async with LocalProcesses(unenforceable="record").launch(made) as unit:
        assert unit.enforced == Enforced(processes="none")


async def test_a_control_group_holds_all_of_it_and_is_removed() -> None:
    if not os.access(GROUPS, os.W_OK):
        pytest.skip("no control group can be written here")
    group = GROUPS / f"test-{os.getpid()}"
    group.mkdir()
    try:
        made = order(code("daemonize", "stay"))
        async with LocalProcesses(cgroup=group).launch(made) as unit:
            unit.renew(soon())
            await unit.start()
            daemon = (await unit.channel.receive_some()).decode()
            inside = (group / made.launch.nonce / "cgroup.procs").read_text().split()
            assert daemon in inside
            unit.kill()
            await unit.wait_exited()
        assert not (group / made.launch.nonce).exists()
        assert left_of(made) == []
    finally:
        group.rmdir()


@pytest.mark.parametrize("stage", ["enter", "start", "body"])
async def test_cancelled_anywhere_it_leaves_nothing(stage: str) -> None:
    processes = LocalProcesses()
    async with processes.launch(order(code("sleep"))):
        pass
    before = open_fds()
    made = order(PythonCode("time:sleep") if stage == "start" else code("sleep"))
    with trio.CancelScope() as scope:
        if stage == "enter":
            scope.cancel()
        async with processes.launch(made) as unit:
            assert stage != "enter"
            unit.renew(soon())
            if stage == "start":
                scope.cancel()
            await unit.start()
            assert stage != "start"
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert left_of(made) == []
    assert open_fds() == before


async def test_what_cannot_be_launched_leaves_nothing() -> None:
    # More than the kernel takes as one variable.
    work = PythonCode("time:sleep", environment=(("A", "b" * (1 << 22)),))
    processes = LocalProcesses()
    async with processes.launch(order(code("sleep"))):
        pass
    before = open_fds()
    made = order(work)
    with pytest.raises(ExecutionFailed):
        async with processes.launch(made):
            pass
    assert left_of(made) == []
    assert open_fds() == before


async def test_a_launch_whose_time_has_passed_is_not_begun() -> None:
    made = order(Command(("true",)), by=-1)
    with pytest.raises(ExecutionFailed, match="has passed"):
        async with LocalProcesses().launch(made):
            pass


async def test_two_units_do_not_wait_for_one_another() -> None:
    processes = LocalProcesses()
    async with (
        processes.launch(order(code("echo"))) as first,
        processes.launch(order(code("spin"))) as second,
    ):
        for unit in (first, second):
            unit.renew(soon())
            await unit.start()
        await first.channel.send_all(b"a")
        assert await first.channel.receive_some() == b"A"
        second.kill()
        await second.wait_exited()
        assert first.exit is None


def test_a_terminals_interrupt_reaches_only_the_supervisor() -> None:
    # A session of its own stands for the terminal's; its foreground group gets the signal.
    supervisor = subprocess.Popen(
        [sys.executable, str(Path(HERE) / "process_supervisor.py"), "sleep_async", "kill", "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert supervisor.stdout is not None
    supervisor.stdout.readline()
    os.killpg(supervisor.pid, signal.SIGINT)
    _, said = supervisor.communicate(timeout=20)
    assert b"KeyboardInterrupt" in said
    assert supervisor.returncode != 0
