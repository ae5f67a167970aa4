"""A shared journal in memory: several hosts of one process, for simulations.

It decides as the one in PostgreSQL does, and nothing of it outlives the process.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import final

import trio

from trio_reactor.errors import Closed, ReactorError
from trio_reactor.supervision.errors import HostFenced, StaleSession, StoreBusy
from trio_reactor.supervision.hosts.sleeping import sleep_until
from trio_reactor.supervision.hosts.takeover import Fence, Seen, Watch, decide, default_margin
from trio_reactor.supervision.model.codec import decode
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Open, SessionRecord, Stopped
from trio_reactor.world import World

from .protocol import Change, Contents, HostFacts, KeyFacts

__all__ = ["MemoryDatabase", "MemorySharedJournal", "MemorySharedStore"]


@dataclass(slots=True)
class _Host:
    name: str
    lease: float
    beats: int = 0
    fenced: bool = False
    left: bool = False
    """Whether its supervisor is certainly gone."""


@dataclass(slots=True)
class _KeyRow:
    generation: int
    incarnation: str
    stopped: bool


@dataclass(slots=True)
class _RecordRow:
    incarnation: str
    stopped: bool
    revision: int
    body: bytes


@final
class MemoryDatabase:
    """What the hosts share.  One step of it is one transaction.

    Attributes:
        timeline: Which history it has; a simulated failover gives it another.
    """

    def __init__(self) -> None:
        self.timeline = "1"
        self._hosts: dict[str, _Host] = {}
        self._keys: dict[Key, _KeyRow] = {}
        self._records: dict[tuple[Key, int], _RecordRow] = {}
        self._revisions = itertools.count(1)

    def enter(
        self, incarnation: str, name: str, lease: float, rival: HostFacts | None
    ) -> HostFacts | None:
        """Become the only incarnation of a host, over that rival; returns who is in the way."""
        if incarnation in self._hosts:
            return None
        inherited = lease
        for other, host in self._hosts.items():
            if host.name != name:
                continue
            if not host.fenced and not host.left and (rival is None or self.host(other) != rival):
                return self.host(other)
            host.fenced = True
            if any(row.incarnation == other and not row.stopped for row in self._keys.values()):
                inherited = max(inherited, host.lease)
        self._hosts[incarnation] = _Host(name, inherited)
        rows: list[_KeyRow | _RecordRow] = [*self._keys.values(), *self._records.values()]
        for row in rows:
            if self._hosts[row.incarnation].name == name:
                row.incarnation = incarnation
        return None

    def leave(self, incarnation: str) -> None:
        """Sign off: fenced, if it holds nothing."""
        host = self._hosts[incarnation]
        host.left = True
        host.fenced = host.fenced or not any(
            row.incarnation == incarnation and not row.stopped for row in self._records.values()
        )

    def contents(self, incarnation: str) -> Contents:
        """What an incarnation has."""
        mine = sorted(
            (row.revision, key, generation, row.body)
            for (key, generation), row in self._records.items()
            if row.incarnation == incarnation
        )
        keys = {key for _, key, _, _ in mine}
        return Contents(
            records=tuple(self._decoded(key, number, body) for _, key, number, body in mine),
            high_water={
                key: row.generation
                for key, row in self._keys.items()
                if row.incarnation == incarnation or key in keys
            },
        )

    def commit(
        self, incarnation: str, changes: Sequence[Change]
    ) -> list[ReactorError | None] | None:
        """Make the changes; `None`: the incarnation is fenced."""
        if self._is_fenced(incarnation):
            return None
        return [self._apply(incarnation, change) for change in changes]

    def beat(self, incarnation: str) -> bool:
        """Count a beat, unless it is fenced."""
        if self._is_fenced(incarnation):
            return False
        self._hosts[incarnation].beats += 1
        return True

    def look(self, key: Key) -> KeyFacts:
        """What is there of a key."""
        row = self._keys.get(key)
        if row is None:
            return KeyFacts(0, "", None)
        record = self._records.get((key, row.generation))
        return KeyFacts(
            row.generation,
            row.incarnation,
            None if record is None else self._decoded(key, row.generation, record.body),
        )

    def host(self, incarnation: str) -> HostFacts | None:
        """What is there of an incarnation."""
        host = self._hosts.get(incarnation)
        if host is None:
            return None
        return HostFacts(incarnation, host.name, host.beats, host.lease, host.fenced, self.timeline)

    def fence(self, seen: HostFacts) -> bool:
        """Fence an incarnation that is as it was seen."""
        host = self._hosts[seen.incarnation]
        if host.beats == seen.beats and self.timeline == seen.timeline:
            host.fenced = True
        return host.fenced

    def _is_fenced(self, incarnation: str) -> bool:
        return self._hosts[incarnation].fenced

    def _apply(self, me: str, change: Change) -> ReactorError | None:
        handle = change.record.handle
        place = (handle.key, handle.generation)
        held, old = self._keys.get(handle.key), self._records.get(place)
        stops = isinstance(change.record.phase, Stopped)
        if isinstance(change.record.phase, Open):
            if handle.generation != (1 if held is None else held.generation + 1):
                return StaleSession(f"{handle}: it is not the next", outcome="replied")
            if held is not None and not held.stopped and not self._may_have(me, held.incarnation):
                return StaleSession(f"{handle}: another host has it", outcome="replied")
            self._keys[handle.key] = _KeyRow(handle.generation, me, stops)
        else:
            if held is None or old is None:
                return StaleSession(f"{handle}: there is none", outcome="replied")
            if not self._may_have(me, old.incarnation):
                return StaleSession(f"{handle}: another host has it", outcome="replied")
            if held.generation == handle.generation:
                held.incarnation, held.stopped = me, stops
        self._records[place] = _RecordRow(me, stops, next(self._revisions), change.encoded)
        for forgotten in change.forgets:
            row = self._records.get((forgotten.key, forgotten.generation))
            if row is not None and row.stopped and row.incarnation == me:
                del self._records[forgotten.key, forgotten.generation]
        return None

    def _may_have(self, me: str, holder: str) -> bool:
        return holder == me or self._is_fenced(holder)

    def _decoded(self, key: Key, generation: int, body: bytes) -> SessionRecord:
        name = f"the record of {key} generation {generation}"
        return decode(body, name=name, handle=Handle(key, generation, ""))


@final
class MemorySharedJournal:
    """One host's part of a `MemoryDatabase`; implements `SharedJournal`."""

    def __init__(self, database: MemoryDatabase, incarnation: str, lease: float) -> None:
        self._database = database
        self._incarnation = incarnation
        self._lease = lease
        self._left = False

    @property
    def incarnation(self) -> str:
        """This start of this host's supervisor; never used again."""
        return self._incarnation

    @property
    def lease(self) -> float:
        """Seconds from a beat that this host may hold anything."""
        return self._lease

    def leave(self) -> None:
        """It is of no use from now on."""
        self._left = True

    def _check(self) -> None:
        if self._left:
            raise Closed(f"the journal of {self._incarnation} was left")

    async def load(self) -> Contents:
        """What earlier incarnations of this host held."""
        await trio.lowlevel.checkpoint()
        self._check()
        return self._database.contents(self._incarnation)

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        """Make the changes; see `Journal.commit`."""
        await trio.lowlevel.checkpoint()
        self._check()
        verdicts = self._database.commit(self._incarnation, changes)
        if verdicts is None:
            raise HostFenced(f"{self._incarnation} is fenced", outcome="replied")
        return verdicts

    async def beat(self) -> bool:
        """Say that this host lives; returns `False` if it is fenced."""
        await trio.lowlevel.checkpoint()
        self._check()
        return self._database.beat(self._incarnation)

    async def look(self, key: Key, /) -> KeyFacts:
        """What is there of a key, whoever holds it."""
        await trio.lowlevel.checkpoint()
        self._check()
        return self._database.look(key)

    async def host(self, incarnation: str, /) -> HostFacts | None:
        """What is there of an incarnation."""
        await trio.lowlevel.checkpoint()
        self._check()
        return self._database.host(incarnation)

    async def fence(self, seen: HostFacts, /) -> bool:
        """Fence an incarnation that was not heard of since it was seen like that."""
        await trio.lowlevel.checkpoint()
        self._check()
        return self._database.fence(seen)


@final
class MemorySharedStore:
    """One host's way to a `MemoryDatabase`; implements `Store`.

    Args:
        database: What the hosts share.
        host: What this host is called.
        lease: Seconds from a beat that it may hold anything.
        world: Where its clock and the names of its incarnations come from.
    """

    def __init__(self, database: MemoryDatabase, *, host: str, lease: float, world: World) -> None:
        self._database = database
        self._host = host
        self._lease = lease
        self._world = world

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MemorySharedJournal]:
        """Own this host's part for a block, as a new incarnation.

        Entering raises:
            StoreBusy: A supervisor of that name lives.
        """
        incarnation = f"{self._host}:{self._world.token()}"
        await self._enter(incarnation)
        journal = MemorySharedJournal(self._database, incarnation, self._lease)
        try:
            yield journal
        finally:
            journal.leave()
            self._database.leave(incarnation)

    async def _enter(self, incarnation: str) -> None:
        seen: Seen | None = None
        rival: HostFacts | None = None
        await trio.lowlevel.checkpoint()
        while found := self._database.enter(incarnation, self._host, self._lease, rival):
            if seen is None or seen.facts.incarnation == found.incarnation:
                now, margin = self._world.boottime(), default_margin(found.lease)
                match decide(found, seen, now=now, margin=margin):
                    case Watch(seen=seen, until=until):
                        await sleep_until(self._world, until)
                        continue
                    case Fence(seen=seen):
                        rival = seen.facts
                        continue
                    case _:
                        pass
            raise StoreBusy(f"another supervisor of the host {self._host!r} lives", store="memory")
