"""A supervisor that launches a child and dies then, without a word to anybody.

It reads what to launch from its standard input, writes which child it is to the file that it is
given, and kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec
import trio

from trio_reactor.supervision.execution.processes import LocalProcesses
from trio_reactor.supervision.execution.protocol import LaunchOrder


class Task(msgspec.Struct):
    order: LaunchOrder
    deadline: float | None


def die(words: bytes, told: Path) -> None:
    told.write_bytes(words)
    os.kill(os.getpid(), signal.SIGKILL)


async def orphan(task: Task, told: Path) -> None:
    async with LocalProcesses(unenforceable="record").launch(task.order) as unit:
        if task.deadline is not None:
            unit.renew(task.deadline)
            await unit.start()
        die(msgspec.json.encode(unit.child), told)


if __name__ == "__main__":
    trio.run(orphan, msgspec.json.decode(sys.stdin.buffer.read(), type=Task), Path(sys.argv[1]))
