"""A process that holds a renewal and dies, or comes after one that did.  Run as a program.

    python allocation_child.py DIRECTORY STEP RECOVERY

The provider is a directory: a file for each session that is allocated, and a log that is never
shortened.  It survives every process, and so it is the witness.  STEP is where this process kills
itself, with a signal that nothing can catch; `none` lets it end in the ordinary way.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

import trio

from trio_reactor.channel import EventChannel
from trio_reactor.renewal import OpenFailed, RenewalOptions, open_renewal
from trio_reactor.renewal.allocation import (
    AllocationRecord,
    Allocations,
    SqliteJournal,
    open_journal,
)
from trio_reactor.renewal.events import AllocationSettled
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import Json, Predecessor, Source

__all__ = ["STEPS"]

STEPS = (
    "before-intent",
    "intent-written",
    "allocated",
    "identity-written",
    "on-air",
    "closing",
    "closed",
    "deleted",
)


class Dying:
    """Kills this process at one of its steps."""

    def __init__(self, step: str) -> None:
        self._step = step

    def reached(self, step: str) -> None:
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


class Provider:
    """Allocates sessions as files of a directory."""

    def __init__(self, directory: Path, dying: Dying) -> None:
        self._directory = directory
        self._dying = dying

    def log(self, what: str, session: str) -> None:
        with (self._directory / "log").open("a") as log:
            log.write(f"{what} {session}\n")

    def allocate(self, key: str) -> str:
        """The same key gives the same session, as an idempotency key does."""
        session = f"session-{key}"
        file = self._directory / "sessions" / session
        if not file.exists():
            file.write_text(json.dumps({"key": key}))
            self.log("allocated", session)
        return session

    def exists(self, session: str) -> bool:
        return (self._directory / "sessions" / session).exists()

    def end(self, session: str) -> Cleanup:
        (self._directory / "sessions" / session).unlink()
        self.log("ended", session)
        return Cleanup.of(
            session, allocation="owned", termination="confirmed", connection="never-opened"
        )

    @asynccontextmanager
    async def open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        await trio.lowlevel.checkpoint()
        assert predecessor.key is not None
        if predecessor.adopt is None:
            session = self.allocate(predecessor.key)
        else:
            session = predecessor.adopt.source or ""
            assert predecessor.adopt.allocation == {"file": session}
            if not self.exists(session):
                raise OpenFailed("it is gone")
            self.log("adopted", session)
        self._dying.reached("allocated")
        yield FileSource(self, session, self._dying)

    async def terminate(self, record: AllocationRecord) -> Cleanup:
        await trio.lowlevel.checkpoint()
        session = record.source or f"session-{record.key}"
        if self.exists(session):
            return self.end(session)
        return Cleanup.of(
            record.source, allocation="none", termination="not-needed", connection="never-opened"
        )


class FileSource:
    """A session that is held."""

    lifetime = 3600.0

    def __init__(self, provider: Provider, session: str, dying: Dying) -> None:
        self._provider = provider
        self._dying = dying
        self.id = session

    @property
    def allocation(self) -> Json:
        return {"file": self.id}

    async def close(self) -> Cleanup:
        await trio.lowlevel.checkpoint()
        self._dying.reached("closing")
        cleanup = self._provider.end(self.id)
        self._dying.reached("closed")
        return cleanup


class Watched:
    """A journal whose writes are the steps at which the process dies."""

    def __init__(self, journal: SqliteJournal, dying: Dying) -> None:
        self._journal = journal
        self._dying = dying

    @property
    def path(self) -> str:
        return self._journal.path

    def claimed(self, by: str) -> AbstractContextManager[None]:
        return self._journal.claimed(by)

    async def load(self) -> tuple[AllocationRecord, ...]:
        return await self._journal.load()

    async def put(self, record: AllocationRecord, /) -> None:
        if record.source is None:
            self._dying.reached("before-intent")
        await self._journal.put(record)
        self._dying.reached("intent-written" if record.source is None else "identity-written")

    async def forget(self, key: str, /) -> None:
        await self._journal.forget(key)
        self._dying.reached("deleted")


async def main(directory: Path, step: str, recovery: str) -> None:
    """Hold one session, for as long as this process lives."""
    dying = Dying(step)
    provider = Provider(directory, dying)
    channel = EventChannel()
    with channel.subscribe(AllocationSettled) as settled:
        async with open_journal(directory / "journal") as journal:
            allocations = Allocations(
                journal=Watched(journal, dying),
                terminate=provider.terminate,
                adopt=recovery == "adopt",
            )
            async with open_renewal(
                provider.open,
                allocations=allocations,
                events=channel,
                options=RenewalOptions(lead=1.0),
            ):
                dying.reached("on-air")
            assert await journal.load() == ()
        channel.end()
        async for envelope in settled:
            print(envelope.event.how)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3])
