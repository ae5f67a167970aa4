"""A host: a supervisor with a shared journal, in a process of its own, that wants every key.

It is told what it is in a JSON object, its only argument, and goes on until it is killed.  Whatever
it is told to be opened it writes down in `acknowledged`.  A supervisor of its that was fenced, or
cannot reach its journal any more, is followed by another.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.supervision import (
    LocalProcesses,
    PythonCode,
    Supervisor,
    SupervisorOptions,
    open_supervisor,
)
from trio_reactor.supervision.store.postgres import PostgresStore

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


class Host:
    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.here = told["here"]
        self.chance = random.Random(f"{told['seed']} {told['host']} {os.getpid()}")
        self.log = os.open(Path(self.here, "acknowledged"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    async def run(self) -> None:
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
            except* (ReactorError, OSError):
                pass  # the next one sees to what this one left
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
            with contextlib.suppress(ReactorError, OSError):  # held, too late, expired, fenced
                await self.have(supervisor, key)
            await trio.sleep(self.chance.uniform(0.01, 0.2))

    async def have(self, supervisor: Supervisor, key: str) -> None:
        high = await supervisor.high_water(key)
        record = await supervisor.open(key, expected_generation=high)
        os.write(self.log, f"{key} {record.handle.generation} {self.told['host']}\n".encode())
        work = PythonCode("host_code:main", path=(self.here,), argument=self.here)
        await supervisor.load(record.handle, work)
        for _ in range(self.chance.randrange(4)):
            await trio.sleep(self.chance.uniform(0.0, 0.2))
            supervisor.renew(record.handle)
        if self.chance.random() < 0.8:
            await supervisor.dispose(record.handle)


if __name__ == "__main__":
    trio.run(Host(json.loads(sys.argv[1])).run)
