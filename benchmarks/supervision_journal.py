"""What the journal costs: a group of transitions, and a single one, beside commits made by hand.

The baselines write the same rows, as varied, into a file with the same settings, so at the same
durability: every commit is synced.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

import apsw
import msgspec
import trio

from trio_reactor.supervision.journal import Writer
from trio_reactor.supervision.model.child import Launch
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.model.ends import Stop
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Loading, Open, Phase, SessionRecord, Stopping
from trio_reactor.supervision.model.work import Limits, PythonCode
from trio_reactor.supervision.store.sqlite import SqliteStore

from .harness import Benchmark

__all__ = ["BENCHMARKS"]

WRITERS = 64
"""How many tasks have a transition each at one time."""
TURNS = 8
"""How often each of them has one."""
SINGLES = 200


class _Database(Protocol):
    """As much of `apsw.Connection` as is needed here."""

    def execute(
        self, statements: str, bindings: Sequence[int | str | bytes] = (), /
    ) -> Iterator[tuple[object, ...]]: ...

    def close(self) -> None: ...


def _sessions(count: int) -> list[list[SessionRecord]]:
    """Sessions, each with the transitions of its life; no two records are the same."""
    chance = random.Random(7)
    sessions: list[list[SessionRecord]] = []
    for number in range(count):
        handle = Handle(
            Key(f"tenant-{chance.randrange(10**6)}", f"worker-{number}"),
            1,
            f"{chance.getrandbits(128):032x}",
        )
        opened = SessionRecord(
            handle,
            f"request-{chance.getrandbits(64):x}",
            30.0 + chance.random(),
            Limits(memory=chance.randrange(2**20, 2**31)),
            1_700_000_000.0 + chance.random(),
            Open(),
        )
        argument = "".join(chance.choices("abcdefghij ", k=chance.randrange(20, 400)))
        launch = Launch(f"{chance.getrandbits(128):032x}", chance.random() * 1e6)
        loading = Loading(PythonCode("plugins.example:serve", argument=argument), launch)
        phases: list[Phase] = [loading, Stopping(Stop("disposed"), loading)]
        sessions.append([opened, *(msgspec.structs.replace(opened, phase=each) for each in phases)])
    return sessions


@contextmanager
def _place() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="trio-reactor-") as directory:
        yield Path(directory) / "journal"


def _refused(failure: BaseException) -> None:
    raise failure


def _nothing() -> None:
    """What is called when a transition is durable."""


async def _journaled(sessions: list[list[SessionRecord]], *, at_once: bool) -> float:
    """Seconds for the transitions of all sessions, at once or one after the other."""

    async def live(writer: Writer, records: list[SessionRecord]) -> None:
        for record in records:
            await writer.submit(record, committed=_nothing, refused=_refused).wait()

    with _place() as path:
        async with SqliteStore(path).open() as journal, trio.open_nursery() as nursery:
            writer = Writer(journal, on_failed=_refused)
            nursery.start_soon(writer.run)
            begun = time.perf_counter()
            if at_once:
                async with trio.open_nursery() as writers:
                    for records in sessions:
                        writers.start_soon(live, writer, records)
            else:
                for records in sessions:
                    await live(writer, records)
            seconds = time.perf_counter() - begun
            writer.close()
    return seconds


def _by_hand(sessions: list[list[SessionRecord]]) -> float:
    """Seconds for a commit through apsw for each transition of all sessions, one by one."""
    with _place() as path:
        database = cast("_Database", apsw.Connection(str(path)))
        for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            list(database.execute(f"PRAGMA {setting}"))
        database.execute(
            "CREATE TABLE record (identity TEXT, instance TEXT, generation INTEGER, encoded BLOB,"
            " UNIQUE (identity, instance, generation))"
        )
        begun = time.perf_counter()
        for records in sessions:
            for record in records:
                key = record.handle.key
                database.execute(
                    "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)",
                    (key.identity, key.instance, record.handle.generation, encode(record)),
                )
        seconds = time.perf_counter() - begun
        database.close()
    return seconds


def _group() -> float:
    """Transitions a second, of writers that all have one at a time."""
    sessions = _sessions(WRITERS)
    return WRITERS * 3 / trio.run(lambda: _journaled(sessions, at_once=True))


def _serial() -> float:
    """Transitions a second, each with a commit of its own."""
    sessions = _sessions(WRITERS)
    return WRITERS * 3 / _by_hand(sessions)


def _single() -> float:
    """Microseconds from the submission of a transition until who waits for it goes on."""
    sessions = _sessions(SINGLES // 3)
    return trio.run(lambda: _journaled(sessions, at_once=False)) / (len(sessions) * 3) * 1e6


def _raw() -> float:
    """Microseconds for a commit by hand."""
    sessions = _sessions(SINGLES // 3)
    return _by_hand(sessions) / (len(sessions) * 3) * 1e6


BENCHMARKS = (
    Benchmark(
        "journal_group_commit_vs_serial",
        "transitions/s",
        _group,
        baseline=_serial,
        at_least=8.0,
        rounds=15,
    ),
    Benchmark("journal_single_vs_raw", "us", _single, baseline=_raw, at_most=2.0, rounds=15),
)
