"""Supervisors that are gone: their children end at once, at their deadline, or are adopted."""

from __future__ import annotations

import os
import signal
import subprocess

import msgspec
import pytest
import trio
from process_orphans import Gone, until_none_is_left
from process_stage import WORLD, code, left_of, lives, order, soon

from trio_reactor.supervision.errors import AdoptionFailed, TerminationUnconfirmed
from trio_reactor.supervision.execution.processes import LocalProcesses, adoption
from trio_reactor.supervision.execution.protocol import Adopting
from trio_reactor.supervision.model.child import Child, Launch, Orphan


async def test_under_kill_it_ends_as_soon_as_its_supervisor_is_killed() -> None:
    gone = Gone("sleep", "kill", 60)
    assert left_of(gone.order)
    gone.kill()
    await until_none_is_left(gone.order, 2)


async def test_under_adopt_it_lives_to_its_deadline_and_no_longer() -> None:
    gone = Gone("sleep", "adopt", 1.5)
    gone.kill()
    assert WORLD.boottime() < gone.deadline - 0.2
    assert left_of(gone.order)
    await trio.sleep(gone.deadline - WORLD.boottime() - 0.1)
    assert left_of(gone.order)
    await until_none_is_left(gone.order, 1)


@pytest.mark.parametrize("orphaned", ["kill", "adopt"])
async def test_a_stopped_supervisor_does_not_keep_it_beyond_its_deadline(orphaned: str) -> None:
    gone = Gone("spin", orphaned, 1.0)
    try:
        os.kill(gone.process.pid, signal.SIGSTOP)
        await trio.sleep(max(0.0, gone.deadline - WORLD.boottime()))
        await until_none_is_left(gone.order, 0.5)
    finally:
        gone.close()


async def test_recovery_ends_what_lives_and_finds_nothing_the_next_time() -> None:
    gone = Gone("fork_many", "adopt", 60)
    gone.kill()
    assert left_of(gone.order)
    assert await LocalProcesses().recover(gone.orphan) is not None
    assert left_of(gone.order) == []
    assert await LocalProcesses().recover(gone.orphan) is None


async def test_recovery_finds_a_child_that_was_never_registered() -> None:
    gone = Gone("sleep", "adopt", 60)
    gone.kill()
    assert await LocalProcesses().recover(Orphan(gone.order.launch, None)) is not None
    assert left_of(gone.order) == []


async def test_recovery_looks_past_a_guard_that_died() -> None:
    gone = Gone("fork_many", "adopt", 60)
    gone.kill()
    assert gone.child.process is not None
    os.kill(gone.child.process.pid, signal.SIGKILL)
    assert left_of(gone.order)
    await LocalProcesses().recover(gone.orphan)
    assert left_of(gone.order) == []


async def test_a_process_id_that_was_given_again_is_left_alone() -> None:
    other = subprocess.Popen(["sleep", "1000"])  # noqa: ASYNC220 - not a child of ours
    try:
        made = order(code("sleep"))
        async with LocalProcesses().launch(made) as unit:
            identity = unit.child.process
        assert identity is not None
        # Both may have started in one tick of the clock: then it would be the very same identity.
        earlier = identity.start_time - 100_000
        forged = msgspec.structs.replace(identity, pid=other.pid, start_time=earlier)
        assert await LocalProcesses().recover(Orphan(made.launch, Child(forged))) is None
        assert lives(other.pid)
    finally:
        other.kill()
        other.wait()


async def test_nothing_outlives_its_machine() -> None:
    launch = Launch("a" * 32, soon(), boot_id="another start")
    assert await LocalProcesses().recover(Orphan(launch, None)) is None


async def test_another_namespaces_process_cannot_be_confirmed() -> None:
    made = order(code("sleep"))
    async with LocalProcesses().launch(made) as unit:
        identity = unit.child.process
    assert identity is not None
    elsewhere = msgspec.structs.replace(identity, pid_namespace=1)
    with pytest.raises(TerminationUnconfirmed):
        await LocalProcesses().recover(Orphan(made.launch, Child(elsewhere)))


async def test_an_adopted_child_goes_on_where_it_was() -> None:
    gone = Gone("echo", "adopt", 5)
    gone.kill()
    processes = LocalProcesses()
    assert isinstance(processes, Adopting)
    async with processes.adopt(gone.orphan, gone.order) as unit:
        unit.renew(soon(60))
        await unit.channel.send_all(b"still there?")
        assert await unit.channel.receive_some() == b"STILL THERE?"
        assert "echo" in await unit.stack()
        await unit.channel.send_eof()
        assert (await unit.wait_exited()).is_success


async def test_leaving_an_adopted_child_ends_it() -> None:
    gone = Gone("sleep", "adopt", 60)
    gone.kill()
    async with LocalProcesses().adopt(gone.orphan, gone.order):
        pass
    assert left_of(gone.order) == []


async def test_what_it_wrote_while_it_was_alone_is_told_to_its_adopter() -> None:
    gone = Gone("write_on", "adopt", 60)
    gone.kill()
    await trio.sleep(0.5)
    async with LocalProcesses().adopt(gone.orphan, gone.order) as unit:
        assert unit.output.statistics().written > 100_000
        assert unit.output.tail()


async def test_a_child_whose_supervisor_lives_is_not_adopted() -> None:
    gone = Gone("sleep", "adopt", 60)
    try:
        with pytest.raises(AdoptionFailed, match="supervisor that lives"):
            async with LocalProcesses().adopt(gone.orphan, gone.order):
                pass
        assert left_of(gone.order) == []
    finally:
        gone.close()


async def test_an_adopter_that_does_not_know_the_secret_is_refused() -> None:
    gone = Gone("sleep", "adopt", 60)
    gone.kill()
    forged = Orphan(gone.order.launch, msgspec.structs.replace(gone.child, secret="wrong"))
    with pytest.raises(AdoptionFailed, match="does not take us"):
        async with LocalProcesses().adopt(forged, gone.order):
            pass
    assert left_of(gone.order) == []


async def test_of_two_adopters_one_wins() -> None:
    gone = Gone("echo", "adopt", 60)
    gone.kill()
    first = await adoption.prove(gone.orphan)
    with pytest.raises(AdoptionFailed, match="supervisor that lives"):
        await adoption.prove(gone.orphan)
    first.ends.close()
    os.close(first.pidfd)
    os.close(first.page)
    async with LocalProcesses().adopt(gone.orphan, gone.order) as unit:
        await unit.channel.send_all(b"again")
        assert await unit.channel.receive_some() == b"AGAIN"


async def test_what_is_gone_cannot_be_adopted() -> None:
    gone = Gone("sleep", "kill", 60)
    gone.kill()
    await until_none_is_left(gone.order, 2)
    with pytest.raises(AdoptionFailed):
        async with LocalProcesses().adopt(gone.orphan, gone.order):
            pass
