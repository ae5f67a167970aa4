"""Code as bad as it comes: what it does is its own, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import time

import pytest
import trio
from process_stage import WORLD, code, left_of, lives, order, shell, soon

from trio_reactor.supervision.errors import CodeFailed, ExecutionFailed
from trio_reactor.supervision.execution.processes import LocalProcesses
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import Command, PythonCode

BAD = """
import os, signal, sys, time
if "hang" in __name__:
    time.sleep(1000)
if "spin" in __name__:
    while True:
        pass
if "leave" in __name__:
    sys.exit(0)
if "vanish" in __name__:
    os._exit(0)
if "kill" in __name__:
    os.kill(os.getpid(), signal.SIGKILL)
if "syntax" in __name__:
    compile("def", "x", "exec")
if "long" in __name__:
    raise ValueError("x" * 1_000_000)
"""


def bad(tmp_path, name: str) -> PythonCode:
    (tmp_path / f"bad_{name}.py").write_text(BAD)
    return PythonCode(f"bad_{name}:f", path=(str(tmp_path),))


@pytest.mark.parametrize("name", ["hang", "spin"])
async def test_an_import_that_hangs_is_ended_at_the_deadline(tmp_path, name: str) -> None:
    made = order(bad(tmp_path, name))
    async with LocalProcesses().launch(made) as unit:
        deadline = soon(0.5)
        unit.renew(deadline)
        with pytest.raises(ExecutionFailed):
            await unit.start()
        assert WORLD.boottime() - deadline < 0.5
        assert left_of(made) == []


@pytest.mark.parametrize("name", ["vanish", "kill"])
async def test_a_process_that_ends_while_it_imports_is_no_failure_of_code(tmp_path, name) -> None:
    async with LocalProcesses().launch(order(bad(tmp_path, name))) as unit:
        unit.renew(soon())
        with pytest.raises(ExecutionFailed, match="ended with"):
            await unit.start()


@pytest.mark.parametrize(("name", "said"), [("leave", "SystemExit"), ("syntax", "SyntaxError")])
async def test_an_import_that_fails_is_told_as_the_codes_failure(tmp_path, name, said) -> None:
    async with LocalProcesses().launch(order(bad(tmp_path, name))) as unit:
        unit.renew(soon())
        with pytest.raises(CodeFailed) as caught:
            await unit.start()
        assert said in caught.value.detail


async def test_what_failing_code_says_is_bounded(tmp_path) -> None:
    async with LocalProcesses().launch(order(bad(tmp_path, "long"))) as unit:
        unit.renew(soon())
        with pytest.raises(CodeFailed) as caught:
            await unit.start()
        assert 1000 < len(caught.value.detail) <= 20_000


async def test_code_that_ignores_the_signal_is_killed() -> None:
    made = order(code("ignore"))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.receive_some()
        unit.interrupt()
        with trio.move_on_after(0.1) as waited:
            await unit.wait_exited()
        assert waited.cancelled_caught
        unit.kill()
        assert await unit.wait_exited() == ExitStatus(signal=signal.SIGKILL)


@pytest.mark.parametrize("then", ["stay", "leave"])
async def test_a_daemon_with_a_session_of_its_own_ends_with_the_rest(then: str) -> None:
    async with LocalProcesses().launch(order(code("daemonize", then))) as unit:
        unit.renew(soon())
        await unit.start()
        daemon = int(await unit.channel.receive_some())
        if then == "stay":
            assert lives(daemon)
            unit.kill()
        await unit.wait_exited()
        assert not lives(daemon)


async def test_what_it_forked_ends_with_it() -> None:
    made = order(code("fork_many"))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        assert await unit.channel.receive_some() == b"forked"
        assert len(left_of(made)) == 22
        unit.kill()
        await unit.wait_exited()
        assert left_of(made) == []


async def test_killing_its_guard_ends_it_and_its_daemon() -> None:
    made = order(code("kill_guard"))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        daemon = int(await unit.channel.receive_some())
        assert lives(daemon)
        await unit.channel.send_all(b"!")
        assert await unit.wait_exited() == ExitStatus()
        assert not lives(daemon)
        assert left_of(made) == []


async def test_stopping_its_guard_does_not_save_it() -> None:
    made = order(code("stop_guard"))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.send_all(b"!")
        assert await unit.channel.receive_some() == b"stopped"
        unit.kill()
        await unit.wait_exited()
        assert left_of(made) == []


async def test_a_guard_that_is_killed_before_the_start_has_ended() -> None:
    made = order(code("echo"))
    async with LocalProcesses().launch(made) as unit:
        assert unit.child.process is not None
        os.kill(unit.child.process.pid, signal.SIGKILL)
        assert await unit.wait_exited() == ExitStatus(signal=signal.SIGKILL)


@pytest.mark.parametrize("name", ["close_everything", "close_channel"])
async def test_closing_its_pipes_changes_nothing_about_its_end(name: str) -> None:
    made = order(code(name))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        assert await unit.channel.receive_some() == b""
        assert unit.exit is None
        unit.kill()
        assert await unit.wait_exited() == ExitStatus(signal=signal.SIGKILL)


async def test_hundreds_of_megabytes_of_output_are_read_and_not_kept() -> None:
    size = 300_000_000
    async with LocalProcesses(max_output=1000).launch(order(code("chatter", str(size)))) as unit:
        unit.renew(soon())
        await unit.start()
        assert (await unit.wait_exited()).is_success
        assert len(unit.output.tail()) == 1000
        assert unit.output.tail().endswith(b"abcde\nthe end")
        told = unit.output.statistics()
        assert told.written == size + 7
        assert told.dropped == told.written - 1000


async def test_a_program_that_exits_at_once_was_loaded() -> None:
    for _ in range(20):
        async with LocalProcesses().launch(order(Command(("true",)))) as unit:
            unit.renew(soon())
            await unit.start()
            assert (await unit.wait_exited()).is_success


async def test_a_fork_bomb_ends_at_the_deadline() -> None:
    made = order(shell("i=0; while [ $i -lt 40 ]; do setsid sleep 1000 & i=$((i+1)); done; wait"))
    async with LocalProcesses().launch(made) as unit:
        deadline = soon(0.4)
        unit.renew(deadline)
        await unit.start()
        await unit.wait_exited()
        assert left_of(made) == []


async def test_it_is_in_a_group_and_session_apart_from_ours() -> None:
    async with LocalProcesses().launch(order(code("sleep"))) as unit:
        unit.renew(soon())
        await unit.start()
        pid, guard = map(int, (await unit.channel.receive_some()).split())
        assert unit.child.process is not None
        assert guard == unit.child.process.pid
        assert os.getsid(pid) == guard != os.getsid(0)
        assert os.getpgid(pid) == pid


async def test_its_stack_is_told_while_it_holds_the_interpreters_lock() -> None:
    made = order(code("spin"))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.receive_some()
        told = await unit.stack()
        assert "in spin" in told
        assert "process_code.py" in told
        assert "child/code.py" not in told, "what called it is the library's"
        assert "child/guard.py" not in told
        assert made.launch.nonce not in told, "whoever reads it could find the process"


async def test_the_stack_of_a_program_is_what_the_kernel_knows() -> None:
    async with LocalProcesses().launch(order(shell("exec sleep 1000"))) as unit:
        unit.renew(soon())
        await unit.start()
        assert "sleep 1000" in await unit.stack()


async def test_signs_of_life_are_seen() -> None:
    async with LocalProcesses().launch(order(code("beat"))) as unit:
        unit.renew(soon())
        await unit.start()
        first = unit.heard_at
        await trio.sleep(0.3)
        assert unit.heard_at > first + 0.2


async def test_bytes_that_nobody_receives_yet_are_a_sign_of_life() -> None:
    async with LocalProcesses().launch(order(code("echo"))) as unit:
        unit.renew(soon())
        await unit.start()
        first = unit.heard_at
        await unit.channel.send_all(b"hello")
        with trio.fail_after(10):
            while unit.heard_at == first:  # noqa: ASYNC110 - looking is what is tested
                await trio.sleep(0.01)
        assert await unit.channel.receive_some() == b"HELLO"


async def test_it_inherits_nothing_but_what_it_is_given(tmp_path) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    work = PythonCode(
        "process_code:environment",
        path=code("x").path,
        environment=(("ADDED", "yes"),),
        directory=str(tmp_path),
    )
    try:
        async with LocalProcesses().launch(order(work)) as unit:
            unit.renew(soon())
            await unit.start()
            said = (await unit.channel.receive_some()).decode().split("|")
    finally:
        os.close(reader)
        os.close(writer)
    assert said[:-1] == [str(tmp_path), code("x").path[0], "yes", "False", "False", "True"]
    assert len(said[-1].split(",")) <= 8  # three of its own, channel, page, report, stack, listing


async def test_signs_of_life_do_not_crowd_out_how_it_ended() -> None:
    async with LocalProcesses().launch(order(code("beat_and_leave"))) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.receive_some()
        time.sleep(1.5)  # noqa: ASYNC251 - the supervisor is busy, and reads nothing meanwhile
        assert await unit.wait_exited() == ExitStatus(code=5)


async def test_code_that_became_another_program_is_not_killed_by_a_question() -> None:
    async with LocalProcesses().launch(order(code("become"))) as unit:
        unit.renew(soon())
        await unit.start()
        with trio.fail_after(10):
            while not unit.output.tail():  # noqa: ASYNC110 - looking is what a user can do
                await trio.sleep(0.01)
        assert "sleep 1000" in await unit.stack()
        assert unit.exit is None
