"""The simulated execution as it is put to the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from trio_reactor.supervision.execution.conformance import Rig
from trio_reactor.supervision.execution.protocol import Execution, LaunchOrder
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import Command, Work
from trio_reactor.supervision.simulation import (
    MachineOptions,
    Program,
    SimulatedExecution,
    SimulatedMachine,
    simulated_machine,
)
from trio_reactor.testing import Faults
from trio_reactor.world import SeededWorld, World

__all__ = ["SimulationRig", "simulation_rig"]


class SimulationRig(Rig):
    """A simulated machine, on a virtual clock."""

    name = "the simulated execution"
    capabilities = frozenset({"adopting", "stacks"})
    most_kept = 4_096

    def __init__(self, machine: SimulatedMachine) -> None:
        self.machine = machine
        self.boot_id = machine.boot_id
        self.made = self.make()

    def make(self) -> Execution:
        return SimulatedExecution(self.machine)

    @property
    def world(self) -> World:
        return self.machine.world

    @property
    def execution(self) -> Execution:
        return self.made

    def alive(self) -> int:
        return len(self.machine.children)

    def ran(self) -> int:
        return len(self.machine.witness.runs)

    def program(self, name: str, program: Program) -> Work:
        self.machine.programs[name] = program
        return Command((name,))

    def forever(self) -> Work:
        return self.program("forever", Program())

    def exits(self, code: int, /) -> Work:
        return self.program(f"exits-{code}", Program(runs_for=0.1, exit=ExitStatus(code=code)))

    def unloadable(self) -> Work:
        return self.program("unloadable", Program(broken="no module of that name"))

    def dies_loading(self) -> Work:
        return self.program("dies-loading", Program(dies_loading=ExitStatus(code=7)))

    def never_loads(self) -> Work:
        return self.program("never-loads", Program(load_delay=1e6))

    def ignores_interrupt(self) -> Work:
        return self.program("ignores-interrupt", Program(obeys_after=None))

    def spins(self) -> Work:
        return self.program("spins", Program(silent_after=0.0))

    def spawns(self) -> Work:
        return self.program("spawns", Program())

    def echoes(self) -> Work:
        return self.program("echoes", Program(echoes=True))

    def says(self, data: bytes, /) -> Work:
        return self.program("says", Program(runs_for=0.0, last_words=data))

    def prints(self, data: bytes, /) -> Work:
        return self.program("prints", Program(runs_for=0.0, prints=data))

    async def leave_behind(
        self, order: LaunchOrder, /, *, deadline: float | None, registered: bool = True
    ) -> Orphan:
        other = SimulatedExecution(self.machine)
        async with other.launch(order) as unit:
            child = unit.child
            if deadline is not None:
                unit.renew(deadline)
                await unit.start()
            other.die()
        return Orphan(order.launch, child if registered else None)


@asynccontextmanager
async def simulation_rig(
    kind: type[SimulationRig] = SimulationRig,
    *,
    faults: Faults | None = None,
    options: MachineOptions | None = None,
) -> AsyncGenerator[SimulationRig]:
    async with simulated_machine(SeededWorld(1), options, faults=faults) as machine:
        yield kind(machine)
