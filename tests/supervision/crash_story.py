"""A supervisor's life that is killed with SIGKILL at a given step; run in a process of its own.

`python crash_story.py` is a mould: it reads orders from its standard input, a line of JSON each,
forks a process that plays the story and dies at the step that the order says, waits for it, and
answers with a line: how it ended.  What the story was told, it writes down, line by line, in
`acknowledged` in its directory, and its steps in `steps`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.supervision import (
    CodeFailed,
    LocalProcesses,
    PythonCode,
    SqliteStore,
    Supervisor,
    SupervisorOptions,
    open_supervisor,
)
from trio_reactor.supervision.execution.protocol import LaunchOrder, Unit
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.machine import state_of
from trio_reactor.supervision.store.protocol import Change, Contents, Journal

LEASE = 2.0
CODE = '''
import fcntl, os, signal, sys

def _claim(session):
    """Be the witness: whoever runs a key holds its lock, and two at once are written down."""
    lock = os.open(f"{session.argument}/{session.identity}.lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with open(f"{session.argument}/overlap", "a") as overlap:
            print(session.identity, session.generation, file=overlap)
    with open(f"{session.argument}/ran", "a") as ran:
        print(session.identity, session.generation, file=ran)

def obedient(session):
    _claim(session)
    session.receive()

def stubborn(session):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _claim(session)
    while True:
        signal.pause()
'''


class Steps:
    """Counts what is done, and dies where it is told to."""

    def __init__(self, directory: Path, fatal: int) -> None:
        self._file = os.open(directory / "steps", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self._count = 0
        self._fatal = fatal

    def take(self, what: str) -> None:
        self._count += 1
        os.write(self._file, f"{what}\n".encode())
        if self._count == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalStore:
    """A store whose process dies before or after one of its writes."""

    def __init__(self, store: SqliteStore, steps: Steps) -> None:
        self._store = store
        self._steps = steps

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Journal]:
        self._steps.take("the journal is to be opened")
        async with self._store.open() as journal:
            self._steps.take("the journal is open")
            yield _MortalJournal(journal, self._steps)


class _MortalJournal:
    def __init__(self, journal: Journal, steps: Steps) -> None:
        self._journal = journal
        self._steps = steps

    async def load(self) -> Contents:
        return await self._journal.load()

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        what = ", ".join(f"{c.record.handle} {state_of(c.record.phase)}" for c in changes)
        self._steps.take(f"to be written: {what}")
        outcomes = await self._journal.commit(changes)
        self._steps.take(f"written: {what}")
        return outcomes


class MortalProcesses:
    """Local processes whose supervisor dies at a step of launching or stopping one."""

    def __init__(self, processes: LocalProcesses, steps: Steps) -> None:
        self._processes = processes
        self._steps = steps

    @property
    def boot_id(self) -> str:
        return self._processes.boot_id

    @asynccontextmanager
    async def launch(self, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        self._steps.take(f"{order.key} is to be launched")
        async with self._processes.launch(order) as unit:
            self._steps.take(f"{order.key} was launched")
            try:
                yield MortalUnit(unit, order, self._steps)  # type: ignore[misc]
            finally:
                self._steps.take(f"{order.key} is to be let go")
        self._steps.take(f"{order.key} was let go")

    @asynccontextmanager
    async def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        self._steps.take(f"{order.key} is to be adopted")
        async with self._processes.adopt(orphan, order) as unit:
            self._steps.take(f"{order.key} was adopted")
            yield MortalUnit(unit, order, self._steps)  # type: ignore[misc]

    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        self._steps.take("what was left is to be ended")
        status = await self._processes.recover(orphan)
        self._steps.take("what was left has ended")
        return status


class MortalUnit:
    """A unit whose supervisor dies at a step of its."""

    def __init__(self, unit: Unit, order: LaunchOrder, steps: Steps) -> None:
        self._unit = unit
        self._key = order.key
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._unit, name)

    async def start(self) -> Any:
        self._steps.take(f"{self._key} is to be started")
        code = await self._unit.start()
        self._steps.take(f"{self._key} was started")
        return code

    def interrupt(self) -> None:
        self._steps.take(f"{self._key} is to be asked to end")
        self._unit.interrupt()
        self._steps.take(f"{self._key} was asked to end")

    def kill(self) -> None:
        self._steps.take(f"{self._key} is to be killed")
        self._unit.kill()
        self._steps.take(f"{self._key} was killed")


class Story:
    """What a supervisor is asked to do; and what it said."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._told = os.open(directory / "acknowledged", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def tell(self, **fact: Any) -> None:
        os.write(self._told, json.dumps(fact).encode() + b"\n")

    def work(self, name: str) -> PythonCode:
        directory = str(self._directory)
        return PythonCode(f"crash_code:{name}", path=(directory,), argument=directory)

    async def open(
        self, supervisor: Supervisor, key: str, request: str, generation: int | None = None
    ) -> Any:
        record = await supervisor.open(key, request=request, expected_generation=generation)
        self.tell(opened=key, request=request, generation=record.handle.generation)
        return record.handle

    async def load(self, supervisor: Supervisor, handle: Any, name: str) -> None:
        await supervisor.load(handle, self.work(name))
        self.tell(loaded=handle.key.identity, generation=handle.generation)

    async def play(self, supervisor: Supervisor) -> None:
        first = await self.open(supervisor, "a", "a1")
        await self.load(supervisor, first, "obedient")
        other = await self.open(supervisor, "b", "b1")
        await self.load(supervisor, other, "stubborn")
        supervisor.renew(first)
        second = await self.open(supervisor, "a", "a2", 1)
        await self.load(supervisor, second, "obedient")
        await supervisor.dispose(other)
        self.tell(disposed="b", generation=1)
        broken = await self.open(supervisor, "c", "c1")
        try:
            await supervisor.load(broken, self.work("missing"))
        except CodeFailed:
            self.tell(broken="c", generation=1)


async def life(order: dict[str, Any]) -> None:
    """One life of a supervisor, with the story or only with the recovery."""
    directory = Path(order["directory"])
    steps = Steps(directory, order["fatal"])
    options = SupervisorOptions(
        lease=LEASE, grace=0.2, confirmation_timeout=5.0, orphaned=order["orphaned"]
    )
    story = Story(directory)
    store = MortalStore(SqliteStore(directory / "journal.db"), steps)
    execution = MortalProcesses(LocalProcesses(), steps)
    async with open_supervisor(store, execution, options=options) as supervisor:
        if order["play"]:
            await story.play(supervisor)
        steps.take("the block is left")


def mould() -> None:
    """Fork and wait, once for each order."""
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.environ["CRASH_STORY"] = order["tag"]
                trio.run(life, order)
                status = 0
            except BaseException:  # noqa: BLE001 - written down, and the process ends
                with open(Path(order["directory"]) / "failure", "a") as failure:
                    traceback.print_exc(file=failure)
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    mould()
