"""Several supervisors, each on a machine of its own, share one journal."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio

from trio_reactor import SeededWorld
from trio_reactor.supervision import (
    HostFenced,
    KeyHeld,
    Loaded,
    SessionStopped,
    StaleSession,
    Stopped,
    Supervisor,
    SupervisorOptions,
    SupervisorPoisoned,
    open_supervisor,
)
from trio_reactor.supervision.events import KeyTaken
from trio_reactor.supervision.simulation import (
    FaultyStore,
    Program,
    SimulatedExecution,
    SimulatedMachine,
    simulated_machine,
)
from trio_reactor.supervision.store.memory_shared import MemoryDatabase, MemorySharedStore
from trio_reactor.testing import Faults, Plan
from trio_reactor.testing.faults import Fault, Never

LEASE = 6.0


class Host:
    """One machine, with the supervisor that runs on it."""

    def __init__(self, name: str, world: SeededWorld, database: MemoryDatabase) -> None:
        self.name = name
        self.world = world
        self.database = database
        self.machine: SimulatedMachine
        self.store: FaultyStore
        self.execution: SimulatedExecution

    @asynccontextmanager
    async def supervisor(
        self, faults: Mapping[str, Mapping[int, Fault]] | None = None, **options: object
    ) -> AsyncGenerator[Supervisor]:
        shared = MemorySharedStore(self.database, host=self.name, lease=LEASE, world=self.world)
        self.store = FaultyStore(shared, Faults(Plan(faults or {})))
        self.execution = SimulatedExecution(self.machine)
        defaults: dict[str, object] = {"lease": 100.0, "grace": 1.0, "confirmation_timeout": 2.0}
        async with open_supervisor(
            self.store,
            self.execution,
            world=self.world,
            options=SupervisorOptions.model_validate({**defaults, **options}),
            name=self.name,
        ) as supervisor:
            yield supervisor


@asynccontextmanager
async def hosts(*names: str) -> AsyncGenerator[tuple[Host, ...]]:
    world = SeededWorld(3)
    database = MemoryDatabase()
    programs = {"worker:main": Program()}
    made = tuple(Host(name, world, database) for name in names)
    async with trio.open_nursery() as nursery:

        async def machine(host: Host, task_status: trio.TaskStatus[None]) -> None:
            async with simulated_machine(world, programs=programs) as host.machine:
                task_status.started()
                await trio.sleep_forever()

        for host in made:
            await nursery.start(machine, host)
        yield made
        runs = [run for host in made for run in host.machine.witness.runs]
        runs.sort(key=lambda run: (run.key, run.since))
        for earlier, later in itertools.pairwise(runs):
            if earlier.key == later.key:
                assert earlier.until is not None
                assert earlier.until <= later.since, "two executions of one key overlap"
        nursery.cancel_scope.cancel()


async def test_a_key_that_a_living_host_holds_is_held(autojump_clock):
    async with hosts("a", "b") as (a, b), a.supervisor() as first, b.supervisor() as second:
        record = await first.open("plugin")
        await first.load(record.handle, "worker:main")
        assert await second.high_water("plugin") == 1
        with pytest.raises(StaleSession):
            await second.open("plugin")
        with pytest.raises(KeyHeld):
            await second.open("plugin", expected_generation=1)
        await trio.sleep(5 * LEASE)  # beats keep its child alive, far beyond its first horizon
        assert isinstance(first.status(record.handle).phase, Loaded)
        await first.dispose(record.handle)
        second_record = await second.open("plugin", expected_generation=1)
        assert second_record.handle.generation == 2


async def test_a_dead_hosts_key_is_taken_once_its_child_has_ended(autojump_clock):
    async with hosts("a", "b") as (a, b), b.supervisor() as second:
        with pytest.raises(BaseExceptionGroup), trio.CancelScope() as life:
            async with a.supervisor(orphaned="adopt") as first:
                record = await first.open("plugin")
                await first.load(record.handle, "worker:main")
                a.store.die()
                a.execution.die()
                life.cancel()
        events = second.events.subscribe(KeyTaken)
        again = await second.open("plugin", expected_generation=1)
        assert again.handle.generation == 2
        assert (await events.receive()).event.generation == 1
        await second.load(again.handle, "worker:main")


async def test_a_host_that_hears_nothing_ends_what_it_holds_and_goes_on_when_it_does(
    autojump_clock,
):
    unheard = {number: Never() for number in range(4, 12)}
    async with hosts("a") as (a,), a.supervisor({"beat": unheard}) as supervisor:
        record = await supervisor.open("plugin")
        await supervisor.load(record.handle, "worker:main")
        await trio.sleep(2 * LEASE)
        with pytest.raises(SessionStopped, match=r"fenced|exited"):
            supervisor.renew(record.handle)
        await trio.sleep(2 * LEASE)
        again = await supervisor.open("plugin", expected_generation=1)
        await supervisor.load(again.handle, "worker:main")


async def test_a_host_that_is_cut_off_is_fenced_by_the_one_that_takes_its_key(autojump_clock):
    cut_off = {number: Never() for number in range(4, 12)}
    async with hosts("a", "b") as (a, b), b.supervisor() as second:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with a.supervisor({"beat": cut_off}) as first:
                record = await first.open("plugin")
                await first.load(record.handle, "worker:main")
                a.store.hold()
                await trio.sleep(LEASE)
                again = await second.open("plugin", expected_generation=1)
                assert again.handle.generation == 2
                with pytest.raises(SessionStopped, match=r"fenced|exited"):
                    first.renew(record.handle)
                a.store.release()
                with pytest.raises(SupervisorPoisoned):
                    await first.wait_failed()
                with pytest.raises(SupervisorPoisoned):
                    await first.open("other")
        assert raised.group_contains(HostFenced)


async def test_a_host_that_starts_again_recovers_its_own(autojump_clock):
    async with hosts("a") as (a,):
        with pytest.raises(BaseExceptionGroup), trio.CancelScope() as life:
            async with a.supervisor(orphaned="adopt") as first:
                record = await first.open("plugin", request="r")
                await first.load(record.handle, "worker:main")
                a.store.die()
                a.execution.die()
                life.cancel()
        async with a.supervisor() as second:
            found = await second.open("plugin", request="r")
            assert isinstance(found.phase, Stopped)
            assert found.phase.recovered
            again = await second.open("plugin", expected_generation=1)
            assert again.handle.generation == 2
