"""Several hosts over one shared journal, whatever happens to them, and a witness outside.

An execution runs on its machine until the deadline that it was told last, on that machine's clock,
whatever becomes of its host.  The witness sees all of them in true time.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from math import inf
from typing import TypeVar

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.supervision.errors import (
    HostFenced,
    KeyHeld,
    StaleSession,
    StoreBusy,
    StoreFailed,
)
from trio_reactor.supervision.hosts.tenure import Tenure
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.model.ends import NotStarted, Stop, StopReason
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Open, SessionRecord, Stopped
from trio_reactor.supervision.model.work import UNLIMITED
from trio_reactor.supervision.store.memory_shared import (
    MemoryDatabase,
    MemorySharedJournal,
    MemorySharedStore,
)
from trio_reactor.supervision.store.protocol import Change, Contents, HostFacts, KeyFacts
from trio_reactor.testing import Simulation
from trio_reactor.world import SeededWorld

T = TypeVar("T")

LEASE = 4.0
MARGIN = 0.5
DRIFT = 0.005
END = 30.0
KEYS = (Key("kernel"), Key("plugin", "1"))


class Machine:
    """A machine with a clock of its own, and the executions on it."""

    def __init__(self, world: SeededWorld, name: str, rate: float, offset: float) -> None:
        self._world = world
        self.name = name
        self._rate = rate
        self._offset = offset
        self.executions: list[Execution] = []
        self.running = trio.Event()
        self.running.set()
        self.reachable = True

    @property
    def random(self) -> random.Random:
        return self._world.random

    def clock(self) -> float:
        return self._world.clock()

    def wall(self) -> float:
        return self._world.wall()

    def boottime(self) -> float:
        return self._offset + self._rate * trio.current_time()

    def token(self) -> str:
        return self._world.token()

    def identifier(self, kind: str) -> str:
        return self._world.identifier(kind)

    def pause(self) -> None:
        self.running = trio.Event()

    async def resumed(self) -> None:
        if not self.running.is_set():
            await self.running.wait()


class Execution:
    """What runs until its deadline; nobody can tell it anything once it has ended."""

    def __init__(self, machine: Machine, handle: Handle, lease: float) -> None:
        self.machine = machine
        self.handle = handle
        self.expires = machine.boottime() + lease
        self.deadline = -inf
        self.ended = False

    @property
    def runs(self) -> bool:
        return not self.ended and self.machine.boottime() < self.deadline

    def tell(self, horizon: float) -> None:
        if self.runs or self.deadline == -inf:
            self.deadline = min(self.expires, horizon)


class Witness:
    """Sees every execution of every machine."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._executions: list[Execution] = []
        self.overlaps = 0
        self.started = 0

    def start(self, execution: Execution) -> None:
        if not execution.runs:
            return
        handle = execution.handle
        for other in self._executions:
            if other.handle.key == handle.key and other.runs:
                self.overlaps += 1
                self._sim.record("overlap", one=str(other.handle), other=str(handle))
        self._executions.append(execution)
        self.started += 1
        self._sim.record("started", key=str(handle), on=execution.machine.name)


class Faults:
    """What may happen to a call of a journal."""

    def __init__(self, sim: Simulation, nursery: trio.Nursery) -> None:
        self._random = sim.random
        self._nursery = nursery

    async def call(self, machine: Machine, call: Callable[[], Awaitable[T]], *, again: bool) -> T:
        chance = self._random.random()
        await machine.resumed()
        await self._travel()
        if not machine.reachable or chance < 0.03:
            await trio.sleep(self._random.uniform(0.0, 3.0))
            await machine.resumed()
            raise StoreFailed("cut off", store="memory")
        if again and chance < 0.10:  # a copy arrives when it likes
            self._nursery.start_soon(self._late, call)
        if again and chance < 0.07:  # and it alone
            await machine.resumed()
            raise StoreFailed("no answer", store="memory", outcome="unknown")
        value = await call()
        if 0.10 < chance < 0.15:
            raise StoreFailed("the answer was lost", store="memory", outcome="unknown")
        await self._travel()
        await machine.resumed()
        return value

    async def _travel(self) -> None:
        chance = self._random.random()
        if chance < 0.3:
            await trio.sleep(self._random.uniform(0.0, 4.0 if chance < 0.05 else 0.05))

    async def _late(self, call: Callable[[], Awaitable[object]]) -> None:
        await trio.sleep(self._random.uniform(0.0, 20.0))
        await call()


class Journal:
    """A journal that is far away."""

    def __init__(self, journal: MemorySharedJournal, machine: Machine, faults: Faults) -> None:
        self.journal = journal
        self.machine = machine
        self.faults = faults

    @property
    def incarnation(self) -> str:
        return self.journal.incarnation

    @property
    def lease(self) -> float:
        return self.journal.lease

    async def load(self) -> Contents:
        return await self._call(self.journal.load)

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        return await self._call(lambda: self.journal.commit(changes), again=False)

    async def beat(self) -> bool:
        return await self._call(self.journal.beat)

    async def look(self, key: Key, /) -> KeyFacts:
        return await self._call(lambda: self.journal.look(key))

    async def host(self, incarnation: str, /) -> HostFacts | None:
        return await self._call(lambda: self.journal.host(incarnation))

    async def fence(self, seen: HostFacts, /) -> bool:
        # The moment that matters most: what is fenced here may be back by now.
        await trio.sleep(self.machine.random.choice((0.0, 0.0, 2.0, 6.0)))
        return await self._call(lambda: self.journal.fence(seen))

    async def _call(self, call: Callable[[], Awaitable[T]], *, again: bool = True) -> T:
        return await self.faults.call(self.machine, call, again=again)


class Hasty(Journal):
    """One that takes any lease for a moment: whoever believes it takes over too early."""

    async def host(self, incarnation: str, /) -> HostFacts | None:
        facts = await super().host(incarnation)
        if facts is None:
            return None
        return HostFacts(facts.incarnation, facts.name, facts.beats, 0.01, facts.fenced)

    async def fence(self, seen: HostFacts, /) -> bool:
        return await super().fence(
            HostFacts(seen.incarnation, seen.name, seen.beats, seen.lease, False, "1")
        )


class Host:
    """As much of a supervisor as the protocol asks of one."""

    def __init__(
        self, sim: Simulation, machine: Machine, journal: Journal, witness: Witness, margin: float
    ) -> None:
        self.sim = sim
        self.machine = machine
        self.journal = journal
        self.witness = witness
        self.executions: dict[Key, Execution] = {}
        self.tenure = Tenure(
            journal, machine, margin=margin, on_horizon=self._moved, on_fenced=self._end_all
        )

    def _moved(self, horizon: float) -> None:
        for execution in self.executions.values():
            execution.tell(horizon)

    def _end_all(self) -> None:
        self.sim.record("end-all", host=self.journal.incarnation)
        for execution in self.executions.values():
            execution.ended = True

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for key in KEYS:
                nursery.start_soon(self._keep_opening, key)
            await self.tenure.run()
            self.sim.record("fenced", host=self.journal.incarnation)
            nursery.cancel_scope.cancel()

    async def recover(self) -> None:
        contents = await self._insisting(self.journal.load)
        for record in contents.records:
            if not isinstance(record.phase, Stopped):
                for execution in self.machine.executions:
                    if execution.handle == record.handle:
                        execution.ended = True
                stopped = _stopped(record, "recovered")
                change = Change(stopped, encode(stopped))
                await self._insisting(lambda change=change: self.journal.commit((change,)))

    async def _keep_opening(self, key: Key) -> None:
        while True:
            await trio.sleep(self.sim.random.uniform(0.0, 8.0))
            try:
                with trio.move_on_after(self.sim.random.choice((2.0, 10.0, 40.0))):
                    await self._open(key)
            except (StoreFailed, StaleSession, KeyHeld) as refusal:
                self.sim.record(type(refusal).__name__)
            except HostFenced:
                self._end_all()
                return

    async def _open(self, key: Key) -> None:
        known = (await self.journal.look(key)).generation
        facts = await self.tenure.claim(key, expected_generation=known or None)
        if facts.generation != known:
            return
        mine = self.executions.pop(key, None)
        if mine is not None:
            mine.ended = True
        if facts.host == self.journal.incarnation:
            if facts.record is not None and not isinstance(facts.record.phase, Stopped):
                await self._commit(_stopped(facts.record, "superseded"))
        elif facts.host:
            self.sim.record("taken", key=str(key))
            if facts.record is not None and self.sim.random.random() < 0.5:
                await self._commit(_stopped(facts.record, "taken-over"))
        handle = Handle(key, facts.generation + 1, self.machine.token())
        record = SessionRecord(handle, "r", 20.0, UNLIMITED, 0.0, Open())
        with trio.CancelScope(shield=True):
            await self._commit(record)
            execution = Execution(self.machine, handle, self.sim.random.uniform(1.0, 30.0))
            self.executions[key] = execution
        await self.machine.resumed()
        execution.tell(self.tenure.horizon)
        self.machine.executions.append(execution)
        self.witness.start(execution)
        await trio.sleep(self.sim.random.uniform(0.0, 10.0))
        if self.sim.random.random() < 0.5:
            execution.ended = True
            await self._commit(_stopped(record, "disposed"))

    async def _commit(self, record: SessionRecord) -> None:
        """Commit; an answer that was lost is read back."""
        try:
            verdicts = await self.journal.commit((Change(record, encode(record)),))
        except StoreFailed as failure:
            if failure.outcome != "unknown":
                raise
            facts = await self._insisting(lambda: self.journal.look(record.handle.key))
            if facts.record is None or not facts.record.handle.matches(record.handle):
                raise
            return
        if verdicts[0] is not None:
            raise verdicts[0]

    async def _insisting(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except StoreFailed:
                await trio.sleep(0.5)


def _stopped(record: SessionRecord, reason: StopReason) -> SessionRecord:
    return SessionRecord(
        record.handle,
        record.request,
        record.lease,
        record.limits,
        record.opened_at,
        Stopped(Stop(reason), NotStarted()),
    )


class Play:
    """The whole of it, under one seed."""

    def __init__(self, *, margin: float = MARGIN, journal: type[Journal] = Journal) -> None:
        self._margin = margin
        self._journal = journal

    async def __call__(self, sim: Simulation) -> Witness:
        witness = Witness(sim)
        database = MemoryDatabase()
        async with trio.open_nursery() as nursery:
            faults = Faults(sim, nursery)
            for number in range(3):
                machine = Machine(
                    sim.world,
                    f"host-{number}",
                    rate=1 + sim.random.uniform(-DRIFT, DRIFT),
                    offset=sim.random.uniform(0, 1e6),
                )
                nursery.start_soon(self._live, sim, machine, database, faults, witness)
                nursery.start_soon(self._suffer, sim, machine)
            await trio.sleep(END / 2)
            if sim.random.random() < 0.3:
                database.timeline = "2"
            await trio.sleep(END / 2)
            nursery.cancel_scope.cancel()
        return witness

    async def _live(
        self,
        sim: Simulation,
        machine: Machine,
        database: MemoryDatabase,
        faults: Faults,
        witness: Witness,
    ) -> None:
        """Incarnation after incarnation of one host."""
        store = MemorySharedStore(database, host=machine.name, lease=LEASE, world=machine)
        while True:
            with suppress(StoreBusy):
                async with store.open() as journal:
                    # What was sent arrives, whether or not whoever sent it is still there.
                    sent = MemorySharedJournal(database, journal.incarnation, LEASE)
                    far = self._journal(sent, machine, faults)
                    host = Host(sim, machine, far, witness, self._margin)
                    with trio.move_on_after(sim.random.uniform(5.0, 40.0)), suppress(HostFenced):
                        await host.recover()
                        await host.run()
                    if sim.random.random() < 0.5:  # else its executions outlive it
                        for execution in host.executions.values():
                            execution.ended = True
            await trio.sleep(sim.random.uniform(0.1, 20.0))

    async def _suffer(self, sim: Simulation, machine: Machine) -> None:
        """Paused as a whole, or cut off, for a while, now and then."""
        while True:
            await trio.sleep(sim.random.uniform(1.0, 25.0))
            how = sim.random.choice(("pause", "cut"))
            sim.record(how, host=machine.name)
            if how == "pause":
                machine.pause()
            else:
                machine.reachable = False
            try:
                await trio.sleep(sim.random.uniform(0.5, 15.0))
            finally:
                machine.running.set()
                machine.reachable = True
