"""A process that writes a journal is killed; all that it said is durable is there afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.store.conformance.lives import life
from trio_reactor.supervision.store.sqlite import SqliteStore

CHILD = Path(__file__).with_name("journal_child.py")

STATEMENTS_OF_ONE = 6
"""How many statements a transaction of one later record has, `BEGIN` and `COMMIT` included, and
one more for the moment after it."""


def started(path: Path, *, writers: int, step: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", CHILD, path, str(writers), str(step)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def told(child: subprocess.Popen[str], lines: int | None = None) -> list[str]:
    """What it says: so many lines, or all to its end."""
    assert child.stdout is not None
    if lines is None:
        return child.stdout.readlines()
    return [child.stdout.readline() for _ in range(lines)]


async def check(path: Path, said: list[str], *, writers: int) -> None:
    """Each session's record is the last one that was acknowledged, or the one that was next."""
    acknowledged: dict[tuple[str, int], int] = {}
    for line in said:
        name, generation, number = line.split()
        acknowledged[name, int(generation)] = int(number)
    async with SqliteStore(path).open() as journal:
        contents = await journal.load()
    found = {
        (record.handle.key.identity, record.handle.generation): record
        for record in contents.records
    }
    for (name, generation), number in acknowledged.items():
        lives = life(Key(name), generation, "")
        assert found.pop((name, generation)) in lives[number : number + 2]
        assert contents.high_water[Key(name)] >= generation
    # What else is there was on its way: the first record of what was next then.
    assert len(found) <= writers
    for (name, generation), record in found.items():
        assert record == life(Key(name), generation, "")[0]
        assert contents.high_water[Key(name)] >= generation


@pytest.mark.parametrize("step", range(STATEMENTS_OF_ONE))
async def test_killed_at_a_statement_it_kept_all_that_it_acknowledged(
    tmp_path: Path, step: int
) -> None:
    path = tmp_path / "journal"
    child = started(path, writers=1, step=step)
    with child:
        said = told(child)
    assert child.returncode == -signal.SIGKILL
    assert 9 <= len(said) <= 10
    await check(path, said, writers=1)


@pytest.mark.parametrize("lines", [1, 7, 400, 1_003])
async def test_killed_whenever_it_kept_all_that_it_acknowledged(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "journal"
    said: list[str] = []
    for _ in range(3):  # the next one goes on where it ended
        child = started(path, writers=16, step=-1)
        with child:
            said += told(child, lines)
            child.kill()
            said += told(child)
        assert child.returncode == -signal.SIGKILL
        await check(path, said, writers=16 * 3)
