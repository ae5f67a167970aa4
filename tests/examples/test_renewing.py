"""The example of a connection that is always fresh, run as a program."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from examples.renewing import GREETING, app

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


def test_nobody_works_on_a_dead_connection_and_nobody_waits_for_a_new_one() -> None:
    done = run("--seconds", "5", "--tasks", "30", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    numbers = json.loads(done.stdout.splitlines()[-1])
    assert set(numbers) == {"requests", "errors", "renewals", "max_wait_ms"}
    assert numbers["errors"] == 0
    assert numbers["requests"] > 300
    assert numbers["renewals"] >= 3
    assert 0 < numbers["max_wait_ms"] < GREETING * 1000


def test_a_person_gets_a_table() -> None:
    done = CliRunner().invoke(app, ["--seconds", "0.5", "--tasks", "3"])
    assert done.exit_code == 0, done.output
    assert "longest wait" in done.output
    assert "nobody waited" in done.output


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
