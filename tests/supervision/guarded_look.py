"""Runs code that tries to look into its guard, as a user without rights, and tells what came of it.

It is a process of its own, since a test may be run by root, from whom nothing can be kept.
"""

from __future__ import annotations

import trio
from process_stage import HERE, left_of, order, soon

from trio_reactor.supervision.execution.processes import LocalProcesses
from trio_reactor.supervision.model.work import PythonCode


async def main() -> None:
    made = order(PythonCode("hostile_code:look_into_guard", path=(HERE,)))
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon())
        await unit.start()
        told = (await unit.channel.receive_some()).decode()
        # What its guard leaves is found all the same.
        assert unit.child.process is not None
        unit.interrupt()
        await unit.wait_exited()
    print(told, "ended", len(left_of(made)))


if __name__ == "__main__":
    trio.run(main)
