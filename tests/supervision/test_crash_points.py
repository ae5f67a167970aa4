"""A supervisor is killed at every step there is, and started again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from crash_story import CODE, LEASE

from trio_reactor.supervision import (
    Loaded,
    LocalProcesses,
    PythonCode,
    SqliteStore,
    Stopped,
    SupervisorOptions,
    open_supervisor,
)

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.long

SHARES = 2
"""In how many tests the steps are told, so that they can run side by side."""

LANES = 3
"""How many steps of a test go on at a time: each of them mostly waits for processes."""

GRACE = 1.5
"""Seconds in which a guard that has lost its supervisor, or its lease, must have ended everything,
on a machine that has other things to do."""


class Mould:
    """The process that plays stories, one after the other."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders = process.stdin
        self._answers = process.stdout

    async def play(
        self, directory: Path, *, fatal: int, orphaned: str, tag: str, play: bool
    ) -> int:
        order = {
            "directory": str(directory),
            "fatal": fatal,
            "orphaned": orphaned,
            "tag": tag,
            "play": play,
        }
        await self._orders.send_all(json.dumps(order).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            piece = await self._answers.receive_some()
            assert piece, "the mould is broken"
            answer += piece
        status: int = json.loads(answer)
        return status


@asynccontextmanager
async def open_mould() -> AsyncGenerator[Mould]:
    script = str(Path(__file__).parent / "crash_story.py")
    process = await trio.lowlevel.open_process(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    mould = Mould(process)
    try:
        yield mould
        assert process.stdin is not None
        await process.stdin.aclose()
        with trio.fail_after(30):
            assert await process.wait() == 0
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def side_by_side(
    numbers: Sequence[int], see: Callable[[Mould, int], Awaitable[bool]]
) -> bool:
    """See to each number, some at a time and in order, until one of them says that it is enough."""
    left = iter(numbers)
    enough = False

    async def one_after_another() -> None:
        nonlocal enough
        async with open_mould() as mould:
            for number in left:
                if enough:
                    return
                enough |= await see(mould, number)

    async with trio.open_nursery() as nursery:
        for _ in range(LANES):
            nursery.start_soon(one_after_another)
    return enough


def stage(tmp_path: Path, name: str) -> Path:
    directory = tmp_path / name
    directory.mkdir()
    (directory / "crash_code.py").write_text(CODE)
    return directory


def alive(tag: str) -> list[int]:
    """The processes that a story started, by what the operating system says."""
    mark = f"CRASH_STORY={tag}".encode()
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            environment = Path("/proc", entry, "environ").read_bytes()
            state = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark in environment.split(b"\0") and state not in "ZX":
            found.append(int(entry))
    return found


async def wait_ended(pids: list[int], timeout: float) -> None:
    """Wait until the operating system says that all of these are gone."""
    with trio.move_on_after(timeout):
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                await trio.lowlevel.wait_readable(fd)
            finally:
                os.close(fd)
        return
    pytest.fail(f"of {pids} some still run")


def facts(directory: Path) -> list[dict[str, Any]]:
    path = directory / "acknowledged"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def _see_to_it(directory: Path, orphaned: str, tag: str) -> None:
    """Start again, and compare what there is with what was acknowledged."""
    left = alive(tag)
    options = SupervisorOptions.model_validate(
        {"lease": LEASE, "grace": 0.2, "confirmation_timeout": 5.0, "orphaned": orphaned}
    )
    store = SqliteStore(directory / "journal.db")
    async with open_supervisor(store, LocalProcesses(), options=options) as supervisor:
        adopted = False
        generations: dict[str, int] = {}
        for fact in facts(directory):
            if "opened" in fact:
                key, generation = fact["opened"], fact["generation"]
                known = await supervisor.open(key, request=fact["request"])
                assert known.handle.generation == generation, fact
                generations[key] = max(generation, generations.get(key, 0))
                if isinstance(known.phase, Loaded):
                    adopted = True
                else:
                    assert isinstance(known.phase, Stopped), fact
            elif "disposed" in fact:
                known = await supervisor.open(fact["disposed"], request="b1")
                assert isinstance(known.phase, Stopped)
                assert known.phase.stop.reason == "disposed"
                assert not known.phase.recovered
        assert adopted <= (orphaned == "adopt")
        if not adopted:
            # What the last one left has ended before anything is served.
            assert not [pid for pid in alive(tag) if pid in left]
        for key in ("a", "b", "c"):
            high = await supervisor.high_water(key)
            assert (high or 0) >= generations.get(key, 0)
            again = await supervisor.open(key, expected_generation=high)
            assert again.handle.generation == (high or 0) + 1
            work = PythonCode(
                "crash_code:obedient", path=(str(directory),), argument=str(directory)
            )
            await supervisor.load(again.handle, work)


async def _steps(tmp_path: Path, orphaned: str) -> list[str]:
    directory = stage(tmp_path, "rehearsal")
    tag = uuid.uuid4().hex
    async with open_mould() as mould:
        status = await mould.play(directory, fatal=0, orphaned=orphaned, tag=tag, play=True)
    assert status == 0, (directory / "failure").read_text()
    assert not alive(tag)
    steps = (directory / "steps").read_text().splitlines()
    assert len(steps) > 50
    return steps


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("orphaned", ["kill", "adopt"])
async def test_killed_at_any_step_nothing_is_orphaned_nothing_runs_twice_nothing_is_lost(
    tmp_path: Path, orphaned: str, share: int
) -> None:
    steps = await _steps(tmp_path, orphaned)

    async def see(mould: Mould, fatal: int) -> bool:
        directory = stage(tmp_path, f"step-{fatal}")
        tag = uuid.uuid4().hex
        status = await mould.play(directory, fatal=fatal, orphaned=orphaned, tag=tag, play=True)
        where = f"killed at step {fatal}: {steps[fatal - 1]}"
        assert status in (-9, 0), where  # the last steps' order may differ from the rehearsal's
        try:
            if fatal % 3 == 0:
                # Nobody comes: what is left ends by itself.
                await wait_ended(alive(tag), GRACE + (LEASE if orphaned == "adopt" else 0.0))
            await _see_to_it(directory, orphaned, tag)
            await wait_ended(alive(tag), GRACE)
            assert not (directory / "overlap").exists()
        except BaseException as failure:
            failure.add_note(where)
            raise
        return False

    await side_by_side(range(1 + share, len(steps) + 1, SHARES), see)


async def test_killed_at_any_step_of_a_recovery_the_next_one_sees_to_it(tmp_path: Path) -> None:
    steps = await _steps(tmp_path, "adopt")
    loaded = next(n for n, step in enumerate(steps, 1) if step == "written: b generation 1 loaded")

    async def see(mould: Mould, fatal: int) -> bool:
        directory = stage(tmp_path, f"step-{fatal}")
        tag = uuid.uuid4().hex
        first = await mould.play(directory, fatal=loaded, orphaned="adopt", tag=tag, play=True)
        assert first == -9
        status = await mould.play(directory, fatal=fatal, orphaned="kill", tag=tag, play=False)
        await _see_to_it(directory, "kill", tag)
        assert not (directory / "overlap").exists()
        assert not alive(tag)
        return status == 0

    assert await side_by_side(range(1, 40), see), "the recovery never came to its end"
