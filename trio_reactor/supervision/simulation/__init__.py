"""A simulated machine for supervisors, for tests: in process, on the world's clock, no threads.

    async with simulated_machine(world, programs={"worker:main": Program(runs_for=3.0)}) as machine:
        execution = SimulatedExecution(machine)
        async with open_supervisor(store, execution, world=world) as supervisor:
            ...
        machine.verify()

A child does what a real one does: it exists before it runs any code, waits to be started, loads,
runs, gives signs of life, and ends by itself, when it is asked, when it is killed, at its deadline,
or when its supervisor is gone.  What its code does is a `Program`, found by the specifier or the
program that the child is told to run.

The machine outlives a supervisor.  To have one crash, call `SimulatedExecution.die` and cancel what
plays it; a `FaultyStore` can do so at its nth write.  Children find out by themselves, and the next
supervisor, with an execution of its own on the same machine, finds what is left.

The machine is also the outside witness: `machine.witness.runs` are the intervals in which children
ran code, and `machine.verify()` sees that no two of one key overlap, that none ran beyond the
deadline it was told, and that none is left.  In a seeded run they are an invariant:

    sim.check(Always("one at a time", lambda: not machine.witness.violations))

What is to go wrong is planned with `trio_reactor.testing.Faults`.  These are its places, each
counted over all children of the machine, or of the execution if it was given faults of its own:

| place | what passes there |
|---|---|
| `launch` | a launch, before there is a child |
| `launched` | a launch, when there is one |
| `twin` | a launch; `Twice` makes a second child for it, which is told of after the start |
| `start` | a start, before the child hears of it |
| `started` | the answer to a start |
| `renew`, `interrupt`, `kill` | what a child is told: late, twice, out of order or never |
| `load` | loading, in the child: refused is the code's failure, any other is its end |
| `life` | a child, from when it exists; failing is its end, after so many seconds |
| `hang` | a child, from when it is loaded; failing is its falling silent |
| `exit` | the news of its end; failing is that it can no longer be observed |
| `stack` | the asking for a stack |
| `leave` | the letting go of what was held for a child that has ended |
| `recover`, `adopt` | what is asked for a child that was left |

`load`, `life` and `hang` are the machine's.  The places of a `FaultyStore` are in its docstring.
"""

from __future__ import annotations

from .child import SimulatedChild, SimulatedOutput
from .execution import SimulatedExecution
from .machine import SimulatedMachine, simulated_machine
from .options import MachineOptions, Program
from .store import FaultyStore
from .unit import SimulatedUnit
from .witness import Recorder, Run, Witness

__all__ = [
    "FaultyStore",
    "MachineOptions",
    "Program",
    "Recorder",
    "Run",
    "SimulatedChild",
    "SimulatedExecution",
    "SimulatedMachine",
    "SimulatedOutput",
    "SimulatedUnit",
    "Witness",
    "simulated_machine",
]
