"""A randomized world of supervisors: those who use them, a machine, a store, and what must hold.

What happens in it follows from a seed: what the programs do, what is asked of the supervisors and
when somebody changes his mind, what befalls machine and store, when a supervisor dies and another
follows.  What must hold is checked as the run goes on and at its end, by what the machine's witness
saw and what the store holds, not by what the supervisors say of themselves.

The story is drawn from a table of acts, `ACTS`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

import trio

from trio_reactor.supervision import NotStarted, SessionRecord, Stopped, Stopping, SupervisorOptions
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.machine import state_of
from trio_reactor.supervision.model.records import child_of
from trio_reactor.supervision.simulation import (
    MachineOptions,
    Program,
    SimulatedMachine,
    simulated_machine,
)
from trio_reactor.supervision.supervisor.session import Session
from trio_reactor.testing import (
    Crashes,
    Ended,
    Fact,
    Fails,
    Fault,
    Faults,
    Invariant,
    Jump,
    Never,
    Once,
    Plan,
    Simulation,
    Slow,
    Summary,
    Swapped,
    Twice,
    simulate,
)

from .supervision_ledger import Ledger, Named, named, rank
from .supervision_life import Life

__all__ = ["World", "draw_faults", "play", "supervision_world"]

MENU: Final[dict[str, tuple[Fault, ...]]] = {
    "launch": (Slow(1.5), Fails("refused"), Never()),
    "launched": (Slow(0.5), Fails("lost"), Never()),
    "start": (Slow(0.5), Fails("lost"), Never()),
    "started": (Slow(0.5), Fails("lost"), Never()),
    "renew": (Slow(0.5), Twice(), Swapped(0.5), Never()),
    "interrupt": (Slow(0.5), Twice(), Never()),
    "kill": (Slow(0.5), Twice(), Never()),
    "load": (Slow(1.0), Fails("refused"), Fails("lost")),  # of the code, and of the journal
    "life": (Fails("lost", after=3.0), Fails("defect", after=0.3)),
    "hang": (Fails("lost", after=2.0),),
    "exit": (Slow(0.5), Fails("lost")),
    "stack": (Slow(0.5), Fails("lost"), Never()),
    "leave": (Slow(0.5), Fails("lost"), Never()),
    "recover": (Slow(0.5), Fails("lost"), Never()),
    "adopt": (Slow(0.5), Fails("lost"), Never()),
}
STORE: Final[dict[str, tuple[Fault, ...]]] = {
    "open": (Slow(0.5), Fails("refused")),
    "commit": (
        Slow(0.5),
        Slow(2.0),
        Never(),
        Fails("refused"),
        Fails("lost", after=0.2),
        Fails("lost", done=True),
        Fails("defect"),
        Crashes(),
        Crashes(done=True),
    ),
    "record": (Fails("refused"),),
}
HAIR: Final = 1e-6
LEASE: Final = 2.5

PROGRAMS: Final = {
    "worker:main": Program(beats=0.5),
    "short:main": Program(runs_for=0.7, last_words=b"bye"),
    "failing:main": Program(runs_for=0.2, exit=ExitStatus(code=3)),
    "stubborn:main": Program(obeys_after=None, beats=0.5),
    "broken:main": Program(broken="ImportError: no such thing"),
    "dying:main": Program(dies_loading=ExitStatus(signal=11)),
    "slow:main": Program(load_delay=0.9, beats=0.5),
    "hanging:main": Program(load_delay=30.0),
    "silent:main": Program(beats=0.5, silent_after=0.8),
    "late:main": Program(obeys_after=0.4, obeys_with=ExitStatus(code=0), beats=0.5),
}


def draw_faults(chance: random.Random) -> Plan:
    """What goes wrong in one run."""
    machine = chance.choice((0.0, 0.03, 0.1, 0.2))
    plan = Plan.draw(chance, MENU, rate=machine, tries=10, jump=Jump(8.0, 7_200.0))
    store = Plan.draw(chance, STORE, rate=chance.choice((0.0, 0.01, 0.03, 0.08)), tries=24)
    return Plan({**plan.faults, **store.faults}, plan.jumps)


async def supervision_world(simulation: Simulation) -> None:
    """The scenario: several supervisors, one after the other, on one machine and one store."""
    await World(simulation).run()


def play(seeds: Iterable[int]) -> Summary:
    """Play it under each of these seeds.

    Raises:
        SimulationFailed: Something that must hold does not.
    """
    return simulate(supervision_world, seeds, faults=draw_faults)


class _Visible(Invariant):
    """Nothing is visible before it is journaled, but that a session stops; nothing goes back."""

    def __init__(self, world: World) -> None:
        super().__init__("what is visible is journaled")
        self._world = world
        self._ended: dict[str, float] = {}
        """When it was first seen that the execution of a session had ended."""

    def look(self) -> str | None:
        world = self._world
        life = world.life
        if life is None or life.dead:
            return None
        seen, now = world.seen, world.boottime()
        registry = life.supervisor._engine.registry
        for token, session in registry._by_token.items():
            if seen.get(token) is not session.record:
                wrong = world.changed(token, session)
                if wrong is not None:
                    return f"{session!r}: {wrong}"
            if session.deadline + HAIR < now and session.is_live:
                return f"{session!r} is live after its lease has run out"
            # That it has ended is told in the same instant, if perhaps a few steps later.
            ended = session.unit is not None and session.exit is not None and session.is_live
            if ended and now > self._ended.setdefault(token, now):
                return f"{session!r} is live after its execution has ended"
        if registry.running > life.options.max_sessions:
            return f"there are {registry.running} sessions"
        return None


class _Told(Invariant):
    """No word is broken that somebody was given."""

    def __init__(self, world: World) -> None:
        super().__init__("what was told is true")
        self._world = world

    def look(self) -> str | None:
        return self._world.broken or self._world.ledger.judge()

    def end(self) -> str | None:
        return self._world.broken


class _Runs(Invariant):
    """No child runs beyond its lease, or before the journal knows it."""

    def __init__(self, world: World) -> None:
        super().__init__("a child is journaled, and ends with its lease")
        self._world = world
        self._told: set[object] = set()

    def see(self, fact: Fact, /) -> str | None:
        world, about = self._world, fact.about
        match fact.what:
            case "made" | "runs" | "told" | "ended":
                pass
            case _:
                return None
        name = (str(about["key"]), int(str(about["generation"])))
        lease = world.leases.get(name, 0.0)
        record = world.ledger.records.get(name)
        match fact.what:
            case "made":
                if record is None or state_of(record.phase) not in ("launching", "stopping"):
                    return f"{name} was made before its launch was journaled"
            case "runs":
                child = None if record is None else child_of(record.phase)
                if child is None or child.process is None or child.process.pid != about["child"]:
                    return f"{name} runs before it was registered"
            case "told":
                if name not in world.ledger.registered:
                    return f"{name} was told a deadline before it was registered"
                if world.boottime() <= lease:  # a message that comes too late bounds nothing
                    self._told.add(about["child"])
                if float(str(about["deadline"])) > lease + HAIR:
                    return f"{name} was told {about['deadline']}, and its lease ends {lease}"
            case _:
                if about["child"] in self._told and world.boottime() > lease + HAIR:
                    return f"{name} ran beyond its lease, {lease}"
        return None


class World:
    """Supervisors and all around them."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.chance = chance = simulation.random
        self.options: dict[str, object] = {
            "lease": LEASE,
            "max_lease": 6.0,
            "grace": chance.choice((0.0, 0.3, 1.0)),
            "confirmation_timeout": chance.choice((0.5, 1.5)),
            "start_timeout": 2.0,
            "load_timeout": chance.choice((0.5, 2.0)),
            "hang_timeout": chance.choice((None, 1.2)),
            "recovery_timeout": 6.0,
            "max_sessions": chance.choice((2, 3, 100)),
            "max_starting": chance.choice((1, 2, 64)),
            "max_stopped": chance.choice((1, 2, 5, 1_000)),
            "max_transitions": chance.choice((2, 1_000, 1_000, 1_000, 1_000, 1_000)),
        }
        self.orphaned = chance.choice(("kill", "adopt"))
        self.works = chance.sample(list(PROGRAMS), 4)
        self.refused: set[Named] = set()
        """Sessions of which a record was refused by itself."""
        self.ledger = Ledger(
            self.wrong, self._taken, self.refused, max_stopped=int(str(self.options["max_stopped"]))
        )
        self.machine: SimulatedMachine
        self.life: Life | None = None
        """The supervisor that serves, if one does."""
        self.acknowledged: list[SessionRecord] = []
        self.leases: dict[Named, float] = {}
        """Until when each session is leased, on the machine's clock."""
        self.adopted: set[Named] = set()
        self.unsure: set[Named] = set()
        """Sessions whose open became durable, and its answer was lost."""
        self.left: set[Named] = set()
        """Sessions that were stopping when their supervisor ended."""
        self.seen: dict[str, SessionRecord] = {}
        self.broken: str | None = None
        self._requests = 0

    # ------------------------------------------------------------------------------- the scenario

    async def run(self) -> None:
        """Play it, and judge it."""
        simulation, chance = self.simulation, self.chance
        simulation.check(
            _Told(self),
            _Visible(self),
            _Runs(self),
            Once("runs", by="child"),
            Ended("runs", until="ended", by="child"),
        )
        behaviour = MachineOptions(
            exit_delay=chance.choice((0.0, 0.02)),
            orphan_delay=chance.choice((0.01, 0.5)),
            kill_delay=chance.choice((0.0, 0.01)),
            confirmation=1.0,
            # A launch that nothing can cancel comes to an end by itself.
            stubborn=chance.random() < 0.3
            and Never() not in simulation.faults.plan.faults.get("launched", {}).values(),
        )
        async with simulated_machine(
            simulation.world,
            behaviour,
            programs=PROGRAMS,
            faults=simulation.faults,
            record=simulation.record,
        ) as self.machine:
            left = chance.randint(1, 3)
            while left > 0:
                left -= 1
                if await self._live(simulation.faults):
                    left = max(left, chance.choice((0, 1)))  # one comes and sees what is left
                simulation.faults.restart()
                await trio.sleep(chance.choice((0.0, 0.05, 0.3, 3.0)))
            await trio.sleep(10.0)
            await self._live(Faults(), last=True)
            self.machine.verify()

    async def _live(self, faults: Faults, *, last: bool = False) -> bool:
        """Have one supervisor live; returns whether it died."""
        orphaned = self.chance.choice(("kill", *[self.orphaned] * 4))
        settings = {**self.options, "orphaned": orphaned}
        options = SupervisorOptions.model_validate(settings)
        records = self.ledger.records
        self.left = {n for n, record in records.items() if isinstance(record.phase, Stopping)}
        self.adopted.clear()
        self.unsure.clear()
        self.seen.clear()
        life = Life(self, faults, options, last=last)
        try:
            await life.run()
        finally:
            self.life = None
        return life.dead

    def serves(self, life: Life) -> None:
        """A supervisor serves from now on."""
        self.life = life

    # --------------------------------------------------------------------------------- what holds

    def wrong(self, what: str) -> None:
        """Something does not hold: the run is stopped."""
        if self.broken is None:
            self.broken = what

    def boottime(self) -> float:
        """Now, on the machine's clock."""
        return self.simulation.world.boottime()

    def _taken(self, record: SessionRecord) -> None:
        name, phase = named(record.handle), record.phase
        self.simulation.record("durable", key=name[0], generation=name[1], state=state_of(phase))
        match state_of(phase):
            case "open":
                self.leases[name] = self.boottime() + record.lease
                for child in self.machine.children.values():
                    if child.order.key == record.handle.key:
                        self.wrong(f"{record.handle} was opened while {child!r}")
            case "stopped":
                for child in self.machine.children.values():
                    if (str(child.order.key), child.order.generation) == name:
                        self.wrong(f"{record.handle} was journaled as stopped while {child!r}")
                assert isinstance(phase, Stopped)
                ran = any((str(r.key), r.generation) == name for r in self.machine.witness.runs)
                never = isinstance(phase.termination, NotStarted)
                known = name in self.ledger.registered or name in self.refused
                if never if ran else not (never or known):
                    self.wrong(f"{record.handle} ended with {phase.termination}, and ran: {ran}")
            case _:
                pass

    def changed(self, token: str, session: Session) -> str | None:
        """See whether what is visible of a session may be; returns what is wrong."""
        record, before = session.record, self.seen.get(token)
        self.seen[token] = record
        durable = self.ledger.records.get(named(record.handle))
        if before is not None:
            if rank(before.phase) >= rank(record.phase):
                return f"it was {state_of(before.phase)}, and is {state_of(record.phase)}"
            if isinstance(before.phase, Stopping):
                assert isinstance(record.phase, Stopped)
                if before.phase.stop.reason != record.phase.stop.reason:
                    return f"it stops for another reason than {before.phase.stop.reason}"
        if isinstance(record.phase, Stopping):
            return None
        if durable is None:
            return "it is not in the journal"
        if rank(durable.phase) < rank(record.phase):
            return f"it is only {state_of(durable.phase)} in the journal"
        if rank(durable.phase) == rank(record.phase) and durable != record:
            return "it is something else in the journal"
        return None

    # -------------------------------------------------------------------------------- what is drawn

    def request(self) -> str:
        """A request that nobody made before."""
        self._requests += 1
        return f"request {self._requests}"

    def high(self, key: str) -> int:
        """The highest generation of a key, as the journal has it."""
        return next((high for each, high in self.ledger.high.items() if str(each) == key), 0)
