"""Code that turns against its guard: it ends at its deadline all the same."""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trio
from process_stage import HERE, WORLD, code, left_of, lives, order, shell, soon

from trio_reactor.supervision.errors import ExecutionFailed, TerminationUnconfirmed
from trio_reactor.supervision.execution.processes import LocalProcesses, recovery
from trio_reactor.supervision.execution.processes.carriers import carriers_of
from trio_reactor.supervision.execution.processes.unit import ProcessUnit
from trio_reactor.supervision.execution.processes.words import CodeMade, Ended, Gone
from trio_reactor.supervision.model.child import Launch, Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import Limits, PythonCode

GROUPS = Path("/sys/fs/cgroup/unified")


def hostile(name: str) -> PythonCode:
    return PythonCode(f"hostile_code:{name}", path=(HERE,))


async def test_its_deadlines_cannot_be_edited_or_cut_off() -> None:
    async with LocalProcesses().launch(order(hostile("edit_page"))) as unit:
        unit.renew(soon(30))
        await unit.start()
        told = (await unit.channel.receive_some()).decode()
        assert told == " ".join(["PermissionError"] * 4 + ["True"])
        assert unit.deadline < soon(31)


async def test_what_it_writes_to_a_page_that_an_adopter_shares_moves_no_deadline() -> None:
    made = order(hostile("edit_page"), orphaned="adopt")
    async with LocalProcesses().launch(made) as unit:
        deadline = soon(1.0)
        unit.renew(deadline)
        await unit.start()
        told = (await unit.channel.receive_some()).decode()
        assert told == "done done PermissionError PermissionError False"
        assert unit.deadline == deadline
        await unit.wait_exited()
        assert WORLD.boottime() - deadline < 1
        assert left_of(made) == []


def test_a_user_without_rights_cannot_look_into_its_guard() -> None:
    # Root may trace everything, so it gives that up where it runs this.
    unprivileged = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    if os.geteuid() != 0:
        unprivileged = []
    elif shutil.which("setpriv") is None:
        pytest.skip("root cannot give up its rights here")
    said = subprocess.run(
        [*unprivileged, sys.executable, str(Path(HERE) / "guarded_look.py")],
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert said.returncode == 0, said.stderr.decode()
    assert said.stdout.decode().split() == ["PermissionError"] * 4 + ["done", "ended", "0"]


async def test_it_never_had_the_secret_that_its_adopter_has_to_know() -> None:
    made = order(code("sleep"), orphaned="adopt")
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        pid, guard = map(int, (await unit.channel.receive_some()).split())
        secret = unit.child.secret.encode()
        assert secret
        assert secret in memory_of(guard)
        assert secret not in memory_of(pid)


def memory_of(pid: int) -> bytes:
    found: list[bytes] = []
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            addresses, mode, *_ = line.split()
            if mode.startswith("rw"):
                begin, end = (int(part, 16) for part in addresses.split("-"))
                memory.seek(begin)
                found.append(memory.read(end - begin))
    return b"".join(found)


async def test_an_endless_answer_does_not_keep_its_guard_from_the_deadline() -> None:
    made = order(hostile("trickle"))
    async with LocalProcesses().launch(made) as unit, trio.open_nursery() as nursery:
        unit.renew(soon())
        await unit.start()
        await unit.channel.receive_some()
        deadline = soon(0.5)
        unit.renew(deadline)
        nursery.start_soon(unit.stack)
        await unit.wait_exited()
        assert WORLD.boottime() - deadline < 0.4, "less than a stack may take"
        assert left_of(made) == []


async def test_an_endless_answer_is_cut_off() -> None:
    async with LocalProcesses().launch(order(hostile("trickle"))) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.receive_some()
        told = await unit.stack()
        assert told.startswith("...")
        assert "as the kernel sees it" in told


async def test_signals_that_mean_nothing_to_its_guard_do_not_end_it() -> None:
    async with LocalProcesses().launch(order(hostile("pester_guard"))) as unit:
        unit.renew(soon())
        await unit.start()
        assert await unit.channel.receive_some() == b"pestered"
        assert "in pester_guard" in await unit.stack(), "its guard answers"
        assert unit.exit is None


async def test_a_guard_that_was_stopped_does_its_work_as_soon_as_its_code_is_asked_to_end() -> None:
    made = order(code("stop_guard"))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.send_all(b"!")
        assert await unit.channel.receive_some() == b"stopped"
        unit.renew(soon(-1))
        unit.interrupt()
        with trio.fail_after(2):
            await unit.wait_exited()
        assert left_of(made) == []


async def test_a_guard_that_fails_ends_what_it_guards_first() -> None:
    made = order(code("daemonize", "stay"))
    async with LocalProcesses().launch(made) as unit:
        assert isinstance(unit, ProcessUnit)
        unit.renew(soon())
        await unit.start()
        daemon = int(await unit.channel.receive_some())
        assert lives(daemon)
        unit._passing.link.send(marshal.dumps(("start", 1))[:3])  # which no guard can read
        await unit.wait_exited()
        assert not lives(daemon), "nobody else could have found that one"
        assert left_of(made) == []


async def test_a_flood_of_signs_of_life_is_read_as_fast_as_it_comes() -> None:
    async with LocalProcesses().launch(order(hostile("say_tiny"))) as unit:
        unit.renew(soon())
        await unit.start()
        with trio.fail_after(10):
            assert await unit.channel.receive_some() == b"said"
            await unit.channel.send_all(b"on")
            assert await unit.channel.receive_some() == b"ON"
        assert unit.exit is None


async def test_processes_that_never_stand_still_end_at_the_deadline() -> None:
    made = order(hostile("hop"))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        assert await unit.channel.receive_some() == b"hopping"
        deadline = soon(0.2)
        unit.renew(deadline)
        assert await unit.wait_exited() == ExitStatus(signal=9)
        assert WORLD.boottime() - deadline < 2
        assert left_of(made) == []


@pytest.mark.parametrize("grouped", [False, True], ids=["without", "with a control group"])
async def test_a_daemon_that_left_no_trace_is_found_by_its_control_group(*, grouped: bool) -> None:
    if grouped and not os.access(GROUPS, os.W_OK):
        pytest.skip("no control group can be written here")
    group = GROUPS / f"test-forget-{os.getpid()}"
    if grouped:
        group.mkdir()
    try:
        processes = LocalProcesses(cgroup=group if grouped else None)
        async with processes.launch(order(hostile("forget_everything"))) as unit:
            unit.renew(soon())
            await unit.start()
            daemon = int(await unit.channel.receive_some())
            await unit.channel.send_all(b"!")
            await unit.wait_exited()
            if grouped:
                with trio.fail_after(2):
                    while lives(daemon):  # noqa: ASYNC110 - nobody else can tell
                        await trio.sleep(0.01)
            else:
                assert lives(daemon), "the guide says so: what no guard can promise"
                os.kill(daemon, 9)
    finally:
        if grouped:
            group.rmdir()


# What is told in its guard's name.


def limits_of(pid: int) -> str:
    return Path(f"/proc/{pid}/limits").read_text()


async def test_a_process_that_is_not_the_childs_own_gets_no_limits() -> None:
    innocent = subprocess.Popen(["sleep", "1000"])  # noqa: ASYNC220 - not a child of ours
    try:
        before = limits_of(innocent.pid)
        made = order(code("sleep"), limits=Limits(open_files=40))
        async with LocalProcesses().launch(made) as unit:
            assert isinstance(unit, ProcessUnit)
            unit._on_word(CodeMade(innocent.pid))
            assert limits_of(innocent.pid) == before
            unit.renew(soon())
            with pytest.raises(ExecutionFailed, match="not the child's own"):
                await unit.start()
    finally:
        innocent.kill()
        innocent.wait()


async def test_limits_are_set_once() -> None:
    innocent = subprocess.Popen(["sleep", "1000"])  # noqa: ASYNC220 - not a child of ours
    try:
        made = order(code("sleep"), limits=Limits(open_files=40))
        async with LocalProcesses().launch(made) as unit:
            assert isinstance(unit, ProcessUnit)
            unit.renew(soon())
            await unit.start()
            before = limits_of(innocent.pid)
            unit._on_word(CodeMade(innocent.pid))
            assert limits_of(innocent.pid) == before
            assert unit.exit is None
    finally:
        innocent.kill()
        innocent.wait()


async def test_a_guard_that_was_killed_is_not_believed_that_nothing_is_left() -> None:
    made = order(shell("setsid sleep 1000 & echo up; wait"))
    async with LocalProcesses().launch(made) as unit:
        assert isinstance(unit, ProcessUnit)
        unit.renew(soon())
        await unit.start()
        with trio.fail_after(10):
            while not unit.output.tail():  # noqa: ASYNC110 - looking is what a user can do
                await trio.sleep(0.01)
        unit._on_word(Ended(0))
        unit._on_word(Gone())
        assert unit.child.process is not None
        os.kill(unit.child.process.pid, 9)
        await unit.wait_exited()
        assert left_of(made) == []


# What a journal may say.


@pytest.mark.parametrize("nonce", ["", "a", "../" * 8, "é" * 20, "a" * 1_000])
async def test_nothing_is_ended_for_carrying_what_cannot_be_a_nonce(
    nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end_carriers(nonce: str) -> int:
        raise AssertionError(f"everything that carries {nonce!r} would have been ended")

    # Were it not refused, this test would end whatever there is on this machine.
    monkeypatch.setattr(recovery, "end_carriers", end_carriers)
    with pytest.raises(ValueError, match="nonce"):
        carriers_of(nonce)
    processes = LocalProcesses()
    with pytest.raises(TerminationUnconfirmed, match="nonce"):
        await processes.recover(Orphan(Launch(nonce, soon()), None))
    made = msgspec.structs.replace(order(code("sleep")), launch=Launch(nonce, soon()))
    with pytest.raises(ExecutionFailed, match="nonce"):
        async with processes.launch(made):
            pass
