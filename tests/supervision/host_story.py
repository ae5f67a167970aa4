"""A host: a supervisor with a shared journal, in a process of its own, that wants every key.

It is told what it is in a JSON object, its only argument, and goes on until it is killed.  Whatever
it is told to be opened it writes down in `acknowledged`.  A supervisor of its that was fenced, or
cannot reach its journal any more, is followed by another, and why it ended is written down in
`endings`.  Anything else that is raised is a defect: its traceback goes to `defect`, and the host
ends.
"""

from __future__ import annotations

import json
import os
import random
import sys
import traceback
from pathlib import Path
from typing import Any

import trio

from trio_reactor.errors import Failed, leaves
from trio_reactor.supervision import (
    HostFenced,
    KeyHeld,
    LeaseExpired,
    LocalProcesses,
    PythonCode,
    SessionStopped,
    StaleSession,
    StoreBusy,
    StoreFailed,
    Supervisor,
    SupervisorOptions,
    open_supervisor,
)
from trio_reactor.supervision.store.postgres import PostgresStore

WEATHER = (
    StoreFailed,
    StoreBusy,
    HostFenced,
    KeyHeld,
    StaleSession,
    SessionStopped,
    LeaseExpired,
)
"""What may happen to a host among others whose journal comes and goes."""

CODE = '''
import fcntl, os, time

def main(session):
    """Be the witness: hold the key's lock, and write to what knows fencing tokens."""
    here, key, mine = session.argument, session.identity, session.generation
    lock = os.open(f"{here}/{key}.lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with open(f"{here}/overlap", "a") as overlap:
            print(key, mine, os.getpid(), file=overlap)
    log = os.open(f"{here}/{key}.ran", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(log, f"{mine}\\n".encode())
    resource = os.open(f"{here}/{key}.resource", os.O_CREAT | os.O_RDWR)
    while True:
        newest = int(os.pread(resource, 20, 0) or b"0")
        if newest > mine:
            with open(f"{here}/stale", "a") as stale:
                print(key, mine, newest, file=stale)
            return
        os.pwrite(resource, b"%020d" % mine, 0)
        time.sleep(0.01)
'''


def is_weather(failure: BaseException) -> bool:
    """Whether it is nothing but weather, or says that the supervisor is poisoned by some."""
    return all(
        isinstance(leaf, WEATHER)
        or (isinstance(leaf, Failed) and leaf.__cause__ is not None and is_weather(leaf.__cause__))
        for leaf in leaves(failure)
    )


class Host:
    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.here = told["here"]
        self.chance = random.Random(f"{told['seed']} {told['host']} {os.getpid()}")

    def write(self, name: str, line: str) -> None:
        """Add a line to a file that all hosts write to."""
        file = os.open(Path(self.here, name), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)

    async def run(self) -> None:
        """Go on for ever; raises what is no weather."""
        options = SupervisorOptions(
            lease=self.told["session_lease"],
            grace=0.05,
            confirmation_timeout=2.0,
            start_timeout=5.0,
            margin=self.told["margin"],
            orphaned=self.told["orphaned"],
        )
        while True:
            store = PostgresStore(
                self.told["conninfo"], host=self.told["host"], lease=self.told["lease"]
            )
            try:
                async with open_supervisor(store, LocalProcesses(), options=options) as supervisor:
                    await self.want_all(supervisor)
            except Exception as failure:
                if not is_weather(failure):
                    raise
                # The next one sees to what this one left.
                names = " ".join(type(leaf).__name__ for leaf in leaves(failure))
                self.write("endings", f"{os.getpid()} {names}")
            await trio.sleep(0.05)

    async def want_all(self, supervisor: Supervisor) -> None:
        async with trio.open_nursery() as nursery:
            for key in self.told["keys"]:
                nursery.start_soon(self.want, supervisor, key)
            try:
                await supervisor.wait_failed()
            finally:
                nursery.cancel_scope.cancel()

    async def want(self, supervisor: Supervisor, key: str) -> None:
        while True:
            try:
                await self.have(supervisor, key)
            except Exception as failure:
                if not is_weather(failure):
                    raise
            await trio.sleep(self.chance.uniform(0.01, 0.2))

    async def have(self, supervisor: Supervisor, key: str) -> None:
        high = await supervisor.high_water(key)
        record = await supervisor.open(key, expected_generation=high)
        self.write("acknowledged", f"{key} {record.handle.generation} {os.getpid()}")
        work = PythonCode("host_code:main", path=(self.here,), argument=self.here)
        await supervisor.load(record.handle, work)
        while self.told["keeps"]:
            supervisor.renew(record.handle)
            await trio.sleep(0.1)
        for _ in range(self.chance.randrange(4)):
            await trio.sleep(self.chance.uniform(0.0, 0.2))
            supervisor.renew(record.handle)
        if self.chance.random() < 0.8:
            await supervisor.dispose(record.handle)


def main() -> None:
    host = Host(json.loads(sys.argv[1]))
    try:
        trio.run(host.run)
    except BaseException:
        host.write("defect", traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
