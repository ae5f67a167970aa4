"""Supervisors, one after the other, each of which is killed some time after it began.

It reads what each is to launch from its standard input, and forks each from a process that has
imported all it needs, so that the time counts from the first step of the launch.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import msgspec
import trio

from trio_reactor.supervision.execution.processes import LocalProcesses
from trio_reactor.supervision.execution.protocol import LaunchOrder


class Dying(msgspec.Struct):
    order: LaunchOrder
    deadline: float
    after: float
    """Seconds from its beginning to its end."""


async def supervise(task: Dying) -> None:
    async with LocalProcesses().launch(task.order) as unit:
        unit.renew(task.deadline)
        await unit.start()
        await trio.sleep_forever()


def main() -> None:
    for task in msgspec.json.decode(sys.stdin.buffer.read(), type=list[Dying]):
        pid = os.fork()
        if pid == 0:
            trio.run(supervise, task)
            os._exit(1)
        time.sleep(task.after)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


if __name__ == "__main__":
    main()
