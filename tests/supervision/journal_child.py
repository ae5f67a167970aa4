"""A process that writes a journal until it is killed.  Run as a program.

    python journal_child.py PATH WRITERS STEP

It says each transition that it was told is durable, one a line.  STEP is at which statement of a
transaction it kills itself, counted from 0, in the tenth transaction; -1: it is killed by others.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import trio

from trio_reactor.supervision.journal import Writer
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.store.conformance.lives import life
from trio_reactor.supervision.store.sqlite import SqliteStore

FATAL = 10
"""In which transaction it kills itself."""


class Dying:
    """A database that kills this process at a statement."""

    def __init__(self, database: Any, step: int) -> None:
        self._database = database
        self._step = step
        self._transactions = 0
        self._statements = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def execute(self, statement: str, *bindings: Any) -> Any:
        if statement.startswith("BEGIN"):
            self._transactions += 1
        if self._transactions == FATAL:
            if self._statements == self._step:
                os.kill(os.getpid(), signal.SIGKILL)
            self._statements += 1
        elif self._transactions > FATAL and self._step >= 0:
            os.kill(os.getpid(), signal.SIGKILL)  # right after the commit
        return self._database.execute(statement, *bindings)


def failed(failure: BaseException) -> None:
    raise failure


async def main(path: str, writers: int, step: int) -> None:
    async with SqliteStore(path).open() as journal, trio.open_nursery() as nursery:
        if step >= 0:
            journal._rows._database = Dying(journal._rows._database, step)
        high_water = (await journal.load()).high_water
        writer = Writer(journal, on_failed=failed)
        nursery.start_soon(writer.run)

        async def live(name: str) -> None:
            key = Key(name)
            generation = high_water.get(key, 0)
            while True:
                generation += 1
                records = life(key, generation, "")
                for number, record in enumerate(records):
                    line = f"{name} {generation} {number}\n".encode()
                    await writer.submit(
                        record,
                        committed=lambda line=line: os.write(1, line),  # type: ignore[misc]
                        refused=failed,
                    ).wait()

        for number in range(writers):
            nursery.start_soon(live, f"key-{number}")


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
