"""The life of a local process: launched, started, ended in every way."""

from __future__ import annotations

import signal

import pytest
import trio
from process_stage import WORLD, code, left_of, open_fds, order, shell, soon

from trio_reactor.supervision.errors import CodeFailed, ExecutionFailed
from trio_reactor.supervision.execution.processes import LocalProcesses
from trio_reactor.supervision.execution.protocol import Execution
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import Command, PythonCode


async def test_a_callable_is_loaded_and_answers_until_the_channel_ends() -> None:
    async with LocalProcesses().launch(order(code("echo"))) as unit:
        unit.renew(soon())
        loaded = await unit.start()
        assert loaded.name == "process_code:echo"
        assert loaded.version == "4.2"
        assert loaded.digest.startswith("sha256:")
        assert loaded.origin is not None
        assert loaded.origin.endswith("process_code.py")
        await unit.channel.send_all(b"hello")
        assert await unit.channel.receive_some() == b"HELLO"
        await unit.channel.send_eof()
        assert await unit.wait_exited() == ExitStatus(code=0)
        assert await unit.channel.receive_some() == b""


async def test_an_async_callable_is_run_by_trio() -> None:
    async with LocalProcesses().launch(order(code("echo_async"))) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.send_all(b"hello")
        assert await unit.channel.receive_some() == b"HELLO"
        await unit.channel.send_eof()
        assert (await unit.wait_exited()).is_success


async def test_an_async_callable_may_return_at_once() -> None:
    async with LocalProcesses().launch(order(code("return_async"))) as unit:
        unit.renew(soon())
        await unit.start()
        assert await unit.wait_exited() == ExitStatus(code=0), unit.output.tail().decode()


async def test_a_program_is_run_with_its_arguments() -> None:
    async with LocalProcesses().launch(order(Command(("echo", "a b", "c")))) as unit:
        unit.renew(soon())
        loaded = await unit.start()
        assert loaded.name.endswith("/echo")
        assert (await unit.wait_exited()).is_success
        assert unit.output.tail() == b"a b c\n"


async def test_a_program_finds_its_token_and_its_channel_in_the_environment() -> None:
    script = 'echo "$TRIO_REACTOR_KEY $TRIO_REACTOR_INSTANCE $TRIO_REACTOR_GENERATION"'
    talk = 'read x <&"$TRIO_REACTOR_CHANNEL"; echo got $x >&"$TRIO_REACTOR_CHANNEL"'
    async with LocalProcesses().launch(order(Command(("bash", "-c", f"{script};{talk}")))) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.send_all(b"it\n")
        assert await unit.channel.receive_some() == b"got it\n"
        await unit.wait_exited()
        assert unit.output.tail() == b"plugin a 7\n"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("leave", ExitStatus(code=3)),
        ("leave_at_once", ExitStatus(code=4)),
        ("die", ExitStatus(signal=signal.SIGSEGV)),
        ("fail", ExitStatus(code=1)),
    ],
)
async def test_its_own_end_is_told_as_it_was(name: str, status: ExitStatus) -> None:
    async with LocalProcesses().launch(order(code(name))) as unit:
        unit.renew(soon())
        await unit.start()
        assert await unit.wait_exited() == status
        assert unit.exit == status


async def test_what_it_raises_is_in_its_output_without_the_librarys_frames() -> None:
    async with LocalProcesses().launch(order(code("fail"))) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.wait_exited()
        said = unit.output.tail().decode()
        assert said.endswith("ValueError: it was bad\n")
        assert "process_code.py" in said
        assert "guard.py" not in said
        assert "child/code.py" not in said


async def test_killing_it_ends_it() -> None:
    made = order(code("sleep"))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        unit.kill()
        assert await unit.wait_exited() == ExitStatus(signal=signal.SIGKILL)
        assert left_of(made) == []


async def test_asking_it_ends_a_program_with_the_signal() -> None:
    async with LocalProcesses().launch(order(shell("exec sleep 1000"))) as unit:
        unit.renew(soon())
        await unit.start()
        unit.interrupt()
        assert await unit.wait_exited() == ExitStatus(signal=signal.SIGTERM)


async def test_asking_it_cancels_an_async_callable() -> None:
    async with LocalProcesses().launch(order(code("sleep_async"))) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.receive_some()
        unit.interrupt()
        assert await unit.wait_exited() == ExitStatus(code=128 + signal.SIGTERM)
        assert b"was asked to end" in unit.output.tail()


async def test_leaving_ends_it_and_leaves_no_descriptor_behind() -> None:
    processes = LocalProcesses()
    async with processes.launch(order(code("sleep"))):
        pass
    before = open_fds()
    made = order(code("sleep"))
    async with processes.launch(made) as unit:
        unit.renew(soon())
        await unit.start()
    assert unit.exit == ExitStatus(signal=signal.SIGKILL)
    assert left_of(made) == []
    assert open_fds() == before


@pytest.mark.parametrize("name", ["spin", "sleep", "block_async", "ignore", "fork_many"])
async def test_it_ends_at_its_deadline_whatever_it_does(name: str) -> None:
    made = order(code(name))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.channel.receive_some()
        deadline = soon(0.3)
        unit.renew(deadline)
        assert await unit.wait_exited() == ExitStatus(signal=signal.SIGKILL)
        assert 0 <= WORLD.boottime() - deadline < 0.5
        assert left_of(made) == []


async def test_renewing_moves_the_deadline_and_the_code_can_read_it() -> None:
    async with LocalProcesses().launch(order(code("tell_deadline"))) as unit:
        unit.renew(soon(0.3))
        await unit.start()
        for later in (20.0, 40.0):
            deadline = soon(later)
            unit.renew(deadline)
            await unit.channel.send_all(b"?")
            told = float(await unit.channel.receive_some())
            assert told == pytest.approx(deadline, abs=1e-6)


async def test_what_it_sent_last_is_received_after_it_was_left() -> None:
    async with LocalProcesses().launch(order(code("last_words"))) as unit:
        unit.renew(soon())
        await unit.start()
        await unit.wait_exited()
    received = b""
    while piece := await unit.channel.receive_some():
        received += piece
    assert received == b"x" * 100_000 + b"last words"


async def test_a_child_that_is_not_started_ends_itself_at_its_launch_deadline() -> None:
    made = order(code("sleep"), by=0.3)
    async with LocalProcesses().launch(made) as unit:
        assert await unit.wait_exited() == ExitStatus(signal=signal.SIGKILL)
        with pytest.raises(ExecutionFailed):
            await unit.start()


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (PythonCode("no_such_module_at_all:f"), "ModuleNotFoundError"),
        (code("no_such_thing"), "AttributeError"),
        (code("__version__"), "not callable"),
        (Command(("no-such-program",)), "No such file"),
        (Command(("/etc/passwd",)), "Permission denied"),
        (PythonCode("os:getpid", directory="/no/such/place"), "/no/such/place"),
    ],
)
async def test_code_that_cannot_be_loaded_says_why(work: PythonCode | Command, said: str) -> None:
    async with LocalProcesses().launch(order(work)) as unit:
        unit.renew(soon())
        with pytest.raises(CodeFailed) as caught:
            await unit.start()
        assert said in (caught.value.detail or "")
        await unit.wait_exited()


async def test_it_is_an_execution() -> None:
    execution: Execution = LocalProcesses()
    assert execution is not None
    await trio.lowlevel.checkpoint()
