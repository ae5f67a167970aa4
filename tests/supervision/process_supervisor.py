"""A supervisor with one child, in a process of its own that a test kills."""

from __future__ import annotations

import sys

import msgspec
import trio
from process_stage import code, order, soon

from trio_reactor.supervision.execution.processes import LocalProcesses


async def main(name: str, orphaned: str, lease: float) -> None:
    made = order(code(name, "stay"), orphaned="adopt" if orphaned == "adopt" else "kill")
    async with LocalProcesses().launch(made) as unit:
        unit.renew(soon(30))
        await unit.start()
        if name not in {"echo", "write_on", "count_on"}:
            await unit.channel.receive_some()
        deadline = soon(lease)
        unit.renew(deadline)
        sys.stdout.buffer.write(msgspec.json.encode((made, unit.child, deadline)) + b"\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], float(sys.argv[3]))
