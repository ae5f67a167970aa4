"""The example of a connection that is always fresh: its parts, and run as a program."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked
from typer.testing import CliRunner

from examples.renewing import (
    SENDING,
    Client,
    Connection,
    Lines,
    Numbers,
    app,
    keep_asking,
    serve_one,
)
from trio_reactor.errors import Lost

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.renewing", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


LONG = "x" * 2_000_000
"""More than a socket takes before the other side reads."""


def socket_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    ours, theirs = trio.socket.socketpair()
    return trio.SocketStream(ours), trio.SocketStream(theirs)


async def test_nobody_works_on_a_dead_connection_and_nobody_waits_for_a_new_one(
    nursery: trio.Nursery, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        async with stream:
            await serve_one(stream)

    async def connect(*_: object) -> trio.abc.HalfCloseableStream:
        await trio.lowlevel.checkpoint()
        ours, theirs = memory_stream_pair()
        nursery.start_soon(serve, theirs)
        return ours

    monkeypatch.setattr("examples.renewing.trio.open_tcp_stream", connect)
    numbers = await keep_asking(Client(0), 20.0, 50)
    assert (numbers.errors, numbers.max_wait_ms) == (0, 0.0)
    assert numbers.requests > 7000
    assert numbers.renewals > 10


@pytest.mark.parametrize("cancelled", [True, False])
async def test_who_is_cancelled_while_it_asks_leaves_no_half_line_to_the_others(
    nursery: trio.Nursery, cancelled: bool
) -> None:
    ours, theirs = socket_pair()
    connection = Connection("one", ours, 60.0)
    nursery.start_soon(connection.read, Lines(ours))
    answers: list[str] = []

    async def ask(question: str, scope: trio.CancelScope) -> None:
        with scope:
            answers.append(await connection.ask(question))

    impatient = trio.CancelScope()
    with trio.fail_after(20):
        async with ours, theirs:
            async with trio.open_nursery() as asking:
                asking.start_soon(ask, LONG, impatient)
                await wait_all_tasks_blocked()
                if cancelled:
                    impatient.cancel()
                asking.start_soon(ask, "second", trio.CancelScope())
                heard = b""
                while heard.count(b"\n") < 2:
                    heard += await theirs.receive_some()
                await theirs.send_all(b"0 FIRST\n1 SECOND\n")
            assert heard == b"0 %b\n1 second\n" % LONG.encode()
    assert sorted(answers) == (["SECOND"] if cancelled else ["FIRST", "SECOND"])


async def test_a_server_that_does_not_read_any_more_loses_its_connection(
    nursery: trio.Nursery, autojump_clock: object
) -> None:
    ours, _ = lockstep_stream_pair()
    connection = Connection("one", ours, 60.0)
    nursery.start_soon(connection.read, Lines(ours))
    with trio.move_on_after(SENDING / 2) as impatient, pytest.raises(Lost, match="read any more"):
        await connection.ask("anybody there?")
    assert impatient.cancel_called
    assert trio.current_time() == pytest.approx(SENDING)
    await connection.wait_lost()
    assert (await connection.close()).termination == "unconfirmed"


async def test_goodbye_is_said_after_who_asks_just_now(nursery: trio.Nursery) -> None:
    ours, theirs = socket_pair()
    connection = Connection("one", ours, 60.0)
    nursery.start_soon(connection.read, Lines(ours))
    lost: list[Lost] = []

    async def ask() -> None:
        with pytest.raises(Lost, match="before the answer came") as failed:
            await connection.ask(LONG)
        lost.append(failed.value)

    async def serve() -> None:
        async with theirs:
            heard = bytearray()
            while part := await theirs.receive_some(1_000_000):
                heard += part
            assert heard == b"0 %b\n" % LONG.encode()

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        await wait_all_tasks_blocked()
        asking.start_soon(serve)
        assert (await connection.close()).termination == "confirmed"
    assert [failure.outcome for failure in lost] == ["unknown"]


def test_as_a_program_it_tells_what_came_of_it() -> None:
    done = run("--seconds", "5", "--tasks", "10", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    numbers = json.loads(done.stdout.splitlines()[-1])
    assert set(numbers) == {"requests", "errors", "renewals", "max_wait_ms"}
    assert numbers["errors"] == 0
    # However slow the machine is: what is exact is told above, on a clock that waits for it.
    assert numbers["requests"] > 100
    assert numbers["renewals"] >= 2
    assert 0 < numbers["max_wait_ms"] < 5000


def test_a_person_gets_a_table() -> None:
    done = CliRunner().invoke(app, ["--seconds", "0.5", "--tasks", "3"])
    assert done.exit_code == 0, done.output
    assert "longest wait" in done.output
    assert "body waited for it" in done.output


@pytest.mark.parametrize(("longest", "who"), [(299.0, "nobody"), (301.0, "somebody")])
def test_it_says_who_waited(longest: float, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ran(*_: object) -> Numbers:
        await trio.lowlevel.checkpoint()
        return Numbers(1, 0, 0, longest)

    monkeypatch.setattr("examples.renewing.run", ran)
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 0, done.output
    assert f"and {who} waited" in done.output


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """What is started in this block can be interrupted, also where these tests cannot.

    A program inherits that a signal is ignored, as a shell has it in the background, but not that
    one is handled.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_one() -> None:
    with interruptible():
        child = subprocess.Popen(
            [sys.executable, "-m", "examples.renewing", "--seconds", "60"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    with child as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "50 tasks ask for 60 s …\n"
        running.send_signal(signal.SIGINT)
        out, error = running.communicate(timeout=30)
    assert (running.returncode, out, error) == (130, "", "interrupted\n")


def test_an_interrupt_ends_it_in_one_line() -> None:
    interrupt_one()


def test_an_interrupt_ends_it_also_where_these_tests_run_with_it_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interrupt_one()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--seconds", "0"),
        ("--seconds", "nan"),
        ("--seconds", "inf"),
        ("--seconds", "soon"),
        ("--tasks", "0"),
        ("--tasks", "1001"),
    ],
)
def test_a_bad_argument_is_named(option: str, value: str) -> None:
    done = CliRunner().invoke(app, [option, value])
    assert done.exit_code == 2
    assert option in done.output
