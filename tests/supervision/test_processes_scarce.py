"""Where descriptors run out: what cannot be seen is never taken for what is not there."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager

import pytest
import trio
from process_stage import code, left_of, open_fds, order, soon

from trio_reactor.supervision.errors import ExecutionFailed, TerminationUnconfirmed
from trio_reactor.supervision.execution.processes import (
    LocalProcesses,
    carriers,
    recovery,
    traces,
)
from trio_reactor.supervision.execution.processes.identity import identity_of, is_same, verified
from trio_reactor.supervision.model.child import Launch, Orphan


@contextmanager
def spare_descriptors(number: int) -> Generator[None]:
    """No more than so many can be had."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    try:
        while True:  # every gap among those that are open
            fd = os.open("/dev/null", os.O_RDONLY)
            taken.append(fd)
            if fd > max(map(int, os.listdir("/proc/self/fd"))) - 2:
                break
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + number, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for fd in taken:
            os.close(fd)


def refused(*_: object) -> list[bytes]:
    raise OSError(errno.EMFILE, "Too many open files")


async def test_a_launch_that_runs_out_of_descriptors_anywhere_leaves_nothing() -> None:
    async with LocalProcesses().launch(order(code("sleep"))):
        pass
    before = open_fds()
    outcomes: list[bool] = []
    for number in range(40):
        processes = LocalProcesses()
        made = order(code("sleep"), orphaned="adopt")
        with spare_descriptors(number):
            try:
                async with processes.launch(made):
                    outcomes.append(True)
            except ExecutionFailed:
                outcomes.append(False)
        assert left_of(made) == []
        async with processes.launch(order(code("sleep"))) as unit:  # it is not worse for that
            unit.renew(soon())
            await unit.start()
        del processes, unit
        await trio.lowlevel.checkpoint()
        if outcomes[-3:] == [True] * 3:
            break
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert open_fds() == before


async def test_processes_that_cannot_be_looked_at_are_not_taken_to_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = order(code("sleep"))
    async with LocalProcesses().launch(made) as unit:
        assert unit.child.process is not None
        with monkeypatch.context() as scarce:
            scarce.setattr(carriers, "stat_fields", refused)
            with pytest.raises(OSError, match="Too many open files"):
                carriers.carriers_of(made.launch.nonce)
            with pytest.raises(TerminationUnconfirmed, match="cannot be looked for"):
                await LocalProcesses().recover(Orphan(made.launch, None))
        with spare_descriptors(0):
            with pytest.raises(OSError, match="Too many open files"):
                is_same(unit.child.process)
            with pytest.raises(OSError, match="Too many open files"), verified(unit.child.process):
                pass
        assert unit.exit is None


async def test_what_no_process_id_can_be_is_no_process() -> None:
    own = identity_of(os.getpid())
    for pid in (0, -1, 2**31 - 1, 2**70):
        changed = type(own)(pid, own.start_time, own.boot_id, own.pid_namespace)
        with verified(changed) as fd:
            assert fd is None
    assert (
        await recovery.recover(
            Orphan(Launch("0" * 32, soon(), own.boot_id), None), cgroup=None, timeout=5
        )
        is None
    )


async def test_an_end_that_cannot_be_looked_for_is_told_and_lets_go_of_what_was_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = LocalProcesses()
    async with processes.launch(order(code("sleep"))):
        pass
    before = open_fds()
    made = order(code("sleep"))

    async def end_carriers(*_: object, **__: object) -> int:
        refused()
        return 0

    with pytest.raises(TerminationUnconfirmed, match="cannot be looked for"):
        async with processes.launch(made) as unit:
            unit.renew(soon())
            await unit.start()
            await unit.channel.receive_some()
            monkeypatch.setattr(traces, "end_carriers", end_carriers)
            assert unit.child.process is not None
            os.kill(unit.child.process.pid, 9)
            with pytest.raises(TerminationUnconfirmed, match="Too many open files"):
                await unit.wait_exited()
    await trio.testing.wait_all_tasks_blocked()
    assert open_fds() == before
    with pytest.raises(ProcessLookupError):  # its guard was collected
        identity_of(unit.child.process.pid)
