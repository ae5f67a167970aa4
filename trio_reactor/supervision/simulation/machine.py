"""A machine that is only simulated: its children outlive the supervisors that launch them."""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import final

import trio

from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.model.child import Orphan, ProcessIdentity
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import Work
from trio_reactor.testing.faults import Faults
from trio_reactor.world import World

from .child import SimulatedChild
from .options import MachineOptions, Program
from .witness import Recorder, Witness

__all__ = ["SimulatedMachine", "simulated_machine"]


@final
class SimulatedMachine:
    """A machine, its children and the witness of what they do; made by `simulated_machine`.

    Args:
        world: Whose clocks count.
        options: How it behaves; may be set anew for the children to come.
        programs: What a child's code does, by the specifier or the program that it is told to run;
            whatever is not named loads and runs until it is told to end.
        faults: What goes wrong.
        record: Hears what happens.
        nursery: Where the children live.
    """

    def __init__(
        self,
        world: World,
        options: MachineOptions | None,
        *,
        programs: Mapping[str, Program] | None,
        faults: Faults | None,
        record: Recorder | None,
        nursery: trio.Nursery,
    ) -> None:
        self.world = world
        self.options = options or MachineOptions()
        self.programs = dict(programs or {})
        self.faults = faults or Faults()
        self.witness = Witness(world)
        self.nursery = nursery
        self.boot_id = "boot-1"
        """Which start of the machine this is."""
        self.children: dict[int, SimulatedChild] = {}
        """Those that have not ended, by their process ids."""
        self._record = record
        self._pids = 1_000
        self._boots = 1

    def __repr__(self) -> str:
        return f"<SimulatedMachine: {len(self.children)} children>"

    def program(self, work: Work) -> Program:
        """What a child does that is told to run this."""
        return self.programs.get(str(work), Program())

    def note(self, what: str, child: SimulatedChild, /, **about: object) -> None:
        """Record what happened to a child."""
        if child.exit is not None:
            self.children.pop(child.process.pid, None)
        if self._record is not None:
            order = child.order
            self._record(
                what,
                child=child.process.pid,
                key=str(order.key),
                generation=order.generation,
                **about,
            )

    async def spawn(self, order: LaunchOrder) -> SimulatedChild:
        """Make a child; what is begun is finished, also when it is cancelled."""
        self._pids += 1
        world = self.world
        process = ProcessIdentity(self._pids, int(world.boottime() * 100), self.boot_id, 1)
        child = SimulatedChild(self, order, process, world.token())
        self.children[process.pid] = child
        self.note("made", child)
        with trio.CancelScope(shield=True):  # a child is there with its guard, or not at all
            await self.nursery.start(child.live)
        return child

    def find(self, orphan: Orphan) -> tuple[SimulatedChild, ...]:
        """The children that live and carry this launch, or are this process."""
        process = None if orphan.child is None else orphan.child.process
        return tuple(
            child
            for child in self.children.values()
            if child.process == process
            or hmac.compare_digest(child.order.launch.nonce, orphan.launch.nonce)
        )

    def reboot(self) -> None:
        """Be started anew: no child is left, and nobody can know how they ended."""
        self._boots += 1
        self.boot_id = f"boot-{self._boots}"
        for child in list(self.children.values()):
            child.end(ExitStatus())

    def verify(self, *, empty: bool = True) -> None:
        """See that no two children of one key ran at a time, and none after it was to have ended.

        Args:
            empty: Whether no child may be left.

        Raises:
            AssertionError: With everything that is wrong.
        """
        wrong = list(self.witness.violations)
        if empty:
            wrong += [f"{child!r} is left" for child in self.children.values()]
        if wrong:
            raise AssertionError("; ".join(wrong))


@asynccontextmanager
async def simulated_machine(
    world: World,
    options: MachineOptions | None = None,
    *,
    programs: Mapping[str, Program] | None = None,
    faults: Faults | None = None,
    record: Recorder | None = None,
) -> AsyncGenerator[SimulatedMachine]:
    """A machine for a block; what is left on it at the end of the block is gone with it.

    Args:
        world: Whose clocks count.
        options: How it behaves.
        programs: What a child's code does, by the specifier or the program that it is told to run.
        faults: What goes wrong; nothing by default.
        record: Hears what happens, such as `Simulation.record`.
    """
    async with trio.open_nursery() as nursery:
        yield SimulatedMachine(
            world, options, programs=programs, faults=faults, record=record, nursery=nursery
        )
        nursery.cancel_scope.cancel()
