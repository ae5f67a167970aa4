'''Testing what holds things that do not last: seeded runs, planned faults, checked invariants.

A *scenario* is an async function.  `run` plays it on a virtual clock under a seed that decides who
runs when, what goes wrong and what chance brings, and the same seed does the same, byte for byte,
in any process.  `simulate` plays it under thousands of seeds.  What must hold is said as invariants
that are checked all along; a failure shows the events that led to it, and how to see it again.

    import random

    import trio

    from trio_reactor.errors import Lost
    from trio_reactor.testing import (
        AtMost, Ended, Fails, NothingAfter, Plan, Simulation, Slow, simulate
    )

    class Pool:
        """Lends out connections, at most a few at a time."""

        def __init__(self, sim: Simulation, size: int) -> None:
            self._sim = sim
            self._free = trio.Semaphore(size)

        async def use(self, seconds: float) -> None:
            async with self._free:
                name = self._sim.world.identifier("connection")
                self._sim.record("opened", id=name)
                try:
                    await self._sim.faults.meet("open")
                    await trio.sleep(seconds)
                finally:
                    self._sim.record("left", id=name)

    async def world(sim: Simulation) -> None:
        sim.check(
            AtMost(3, "opened", until="left", by="id"),
            Ended("opened", until="left", by="id", within="closed"),
            NothingAfter("closed", "opened"),
        )
        pool = Pool(sim, size=3)

        async def customer() -> None:
            await trio.sleep(sim.random.uniform(0, 10))
            with trio.move_on_after(sim.random.uniform(0, 10)):
                try:
                    await pool.use(seconds=sim.random.uniform(0, 5))
                except Lost as loss:
                    sim.record("lost", failure=loss)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(customer)
        sim.record("closed")

    def faults(chance: random.Random) -> Plan:
        return Plan.draw(chance, {"open": (Slow(5.0), Fails("lost", after=2.0))})

    summary = simulate(world, range(50), faults=faults)
    assert summary.counts["lost"] > 0

- `trio_reactor.testing.schedule`: what the seed decides, and how.
- `trio_reactor.testing.faults`: what can go wrong: opens, losses, replies, stores, clocks.
- `trio_reactor.testing.cancellation`: `cancel_at`; with `for_every_checkpoint`, a cancellation at
  each checkpoint there is.
- `trio_reactor.testing.orders`: every order of a few things, also of those that happen at once.
- `trio_reactor.testing.invariants`: what must hold.

# What a run may do

The clock jumps to the next deadline when everybody waits, so time costs nothing.  There is no
input, no thread and no signal in a run: a clock would jump over the time that they take, and a run
in which everybody waits for them, or for each other, fails as `Stuck`, with who waits where.  Test
real sockets, processes and stores on the real clock instead.

# What breaks determinism

The same seed gives the same run as long as everything in it comes from the `World` and from Trio.
It does not with

- *wall time and chance from elsewhere*: `time`, `datetime.now`, `random`, `uuid`, `secrets`;
- *iteration over sets*, of strings (hashes differ between processes) and of objects (addresses do);
  the same goes for `id`, for `hash` and for a default `repr` in what is recorded or decided upon,
  and `str` of `trio.Cancelled` holds one;
- *threads*, sockets, processes, signals: nothing orders what they do;
- *side effects in abort functions*: the tasks of one cancelled scope are kept in sets, so their
  abort functions run in an order that depends on addresses.  Setting a flag is harmless; counting,
  recording or waking somebody in turn is not, unless it comes to the same in any order;
- *finalizers*: what `__del__`, a weak reference or an abandoned async generator does happens
  whenever the garbage collector runs;
- *state that outlives a run*: counters in modules, caches, context variables.

*Equal deadlines* are harmless.  Trio breaks such ties by address, a seeded run by its seed; and
where Trio's own order is at work, it only decides in which order scopes are cancelled and so in
which order tasks become runnable, which the shuffle does not depend on.  Only abort functions with
side effects can tell, see above.

# Private parts of Trio

The order within a batch is Trio's deterministic shuffle, which is private, as are the run queue and
the deadlines.  What a run changes it puts back, also where hypothesis has set it.  `check_trio`
raises `TrioMoved` the day one of these names is gone or means something else.
'''

from .campaign import Summary, for_every_checkpoint, simulate
from .cancellation import cancel_at
from .failure import Endless, InvariantViolated, SimulationFailed, Stuck
from .faults import (
    Crashed,
    Crashes,
    Fails,
    Fault,
    Faults,
    Jump,
    Never,
    Plan,
    Slow,
    Swapped,
    Twice,
    Wire,
)
from .invariants import Always, AtMost, Ended, Invariant, NothingAfter, Once, Only
from .orders import Order, orders
from .running import Run, run
from .schedule import Schedule, TrioMoved, check_trio
from .simulation import Simulation
from .trace import Fact, Trace

__all__ = [
    "Always",
    "AtMost",
    "Crashed",
    "Crashes",
    "Ended",
    "Endless",
    "Fact",
    "Fails",
    "Fault",
    "Faults",
    "Invariant",
    "InvariantViolated",
    "Jump",
    "Never",
    "NothingAfter",
    "Once",
    "Only",
    "Order",
    "Plan",
    "Run",
    "Schedule",
    "Simulation",
    "SimulationFailed",
    "Slow",
    "Stuck",
    "Summary",
    "Swapped",
    "Trace",
    "TrioMoved",
    "Twice",
    "Wire",
    "cancel_at",
    "check_trio",
    "for_every_checkpoint",
    "orders",
    "run",
    "simulate",
]
