"""What the type checkers know of simulated and conforming executions; checked, never run."""

from __future__ import annotations

from typing import assert_type

from trio_reactor.supervision.execution.conformance import Case, Environment, Rig, cases, run_all
from trio_reactor.supervision.execution.protocol import Adopting, Execution, LaunchOrder
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.work import Command, Work
from trio_reactor.supervision.simulation import (
    FaultyStore,
    Program,
    SimulatedExecution,
    SimulatedMachine,
    simulated_machine,
)
from trio_reactor.supervision.store.protocol import Store
from trio_reactor.testing import Simulation
from trio_reactor.world import SystemWorld, World


class Mine(Rig):
    name = "mine"
    capabilities = frozenset({"adopting"})
    lease = 1.0

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    @property
    def world(self) -> World:
        return SystemWorld()

    @property
    def execution(self) -> Execution:
        return self._execution

    def alive(self) -> int:
        return 0

    def ran(self) -> int:
        return 0

    def forever(self) -> Work:
        return Command(("sleep", "1000"))

    async def leave_behind(
        self, order: LaunchOrder, /, *, deadline: float | None, registered: bool = True
    ) -> Orphan:
        return Orphan(order.launch, None)


async def suite(rig: Mine, environment: Environment) -> None:
    assert_type(cases(Mine), tuple[Case, ...])
    for case in cases(Mine):
        assert_type(case.sentence, str)
        await case.run(rig)
    assert_type(await run_all(Mine, environment), tuple[str, ...])


async def simulated(sim: Simulation, store: Store) -> None:
    async with simulated_machine(
        sim.world, programs={"x": Program()}, faults=sim.faults, record=sim.record
    ) as machine:
        assert_type(machine, SimulatedMachine)
        made = SimulatedExecution(machine)
        execution: Execution = made
        adopting: Adopting = made
        faulty: Store = FaultyStore(store, sim.faults, crashed=made.die)
        print(execution, adopting, faulty)
