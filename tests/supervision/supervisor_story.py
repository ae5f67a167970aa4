"""A supervisor on a simulated machine, for the tests that tell of one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio

from trio_reactor import EventChannel, SeededWorld
from trio_reactor.supervision import MemoryStore, Supervisor, SupervisorOptions, open_supervisor
from trio_reactor.supervision.simulation import (
    FaultyStore,
    MachineOptions,
    Program,
    SimulatedExecution,
    SimulatedMachine,
    simulated_machine,
)
from trio_reactor.testing import Faults, Plan
from trio_reactor.testing.faults import Fault

PROGRAMS = {
    "worker:main": Program(),
    "short:main": Program(runs_for=1.0),
    "stubborn:main": Program(obeys_after=None),
    "broken:main": Program(broken="ImportError: no such thing"),
    "slow:main": Program(load_delay=5.0),
}


class Stage:
    """A machine, a store that outlives supervisors, and what goes wrong with them."""

    def __init__(self, world: SeededWorld, machine: SimulatedMachine, store: MemoryStore) -> None:
        self.world = world
        self.machine = machine
        self.store = store

    @asynccontextmanager
    async def supervisor(
        self,
        *,
        store_faults: Mapping[str, Mapping[int, Fault]] | None = None,
        faults: Mapping[str, Mapping[int, Fault]] | None = None,
        events: EventChannel | None = None,
        **options: object,
    ) -> AsyncGenerator[Supervisor]:
        self.faulty = FaultyStore(self.store, Faults(Plan(store_faults or {})))
        self.execution = SimulatedExecution(
            self.machine, faults=None if faults is None else Faults(Plan(faults))
        )
        defaults: dict[str, object] = {"lease": 10.0, "grace": 1.0, "confirmation_timeout": 2.0}
        async with open_supervisor(
            self.faulty,
            self.execution,
            world=self.world,
            options=SupervisorOptions.model_validate({**defaults, **options}),
            events=events,
        ) as supervisor:
            yield supervisor

    @asynccontextmanager
    async def doomed(self, **options: object) -> AsyncGenerator[Supervisor]:
        """One that dies, as if by SIGKILL, at the end of its block."""
        with pytest.raises(Exception), trio.CancelScope() as life:  # noqa: B017, PT011 - it is dead
            async with self.supervisor(**options) as supervisor:  # type: ignore[arg-type]
                yield supervisor
                self.faulty.die()
                self.execution.die()
                life.cancel()


@asynccontextmanager
async def stage(
    *, options: MachineOptions | None = None, programs: Mapping[str, Program] | None = None
) -> AsyncGenerator[Stage]:
    world = SeededWorld(7)
    async with simulated_machine(
        world, options, programs={**PROGRAMS, **(programs or {})}
    ) as machine:
        yield Stage(world, machine, MemoryStore())
        machine.verify()
