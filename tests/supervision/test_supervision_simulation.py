"""The simulated machine keeps the rules of a real one, and what is planned goes wrong."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from trio_reactor.errors import ReactorError, leaves
from trio_reactor.supervision.errors import (
    AdoptionFailed,
    CodeFailed,
    ExecutionFailed,
    LimitRefused,
    TerminationUnconfirmed,
)
from trio_reactor.supervision.execution.protocol import Adopting, LaunchOrder
from trio_reactor.supervision.model.child import Launch, Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.work import UNLIMITED, Command, Enforced, Limits
from trio_reactor.supervision.simulation import (
    MachineOptions,
    Program,
    SimulatedExecution,
    SimulatedMachine,
    simulated_machine,
)
from trio_reactor.testing import (
    Always,
    Crashed,
    Ended,
    Fails,
    Fault,
    Faults,
    Never,
    Plan,
    Simulation,
    Slow,
    Swapped,
    Twice,
    run,
    simulate,
)
from trio_reactor.world import SeededWorld

LIMITED = Limits(memory=1 << 20, open_files=10)


def planned(**places: Fault) -> Faults:
    """The first try at each place goes wrong."""
    return Faults(Plan({place: {1: fault} for place, fault in places.items()}))


@asynccontextmanager
async def machine_with(
    program: Program | None = None,
    options: MachineOptions | None = None,
    *,
    programs: Mapping[str, Program] | None = None,
    **places: Fault,
) -> AsyncGenerator[SimulatedMachine]:
    known = {"work": program or Program(), **(programs or {})}
    try:
        async with simulated_machine(
            SeededWorld(1), options, programs=known, faults=planned(**places)
        ) as machine:
            yield machine
    except ExceptionGroup as group:
        (failure,) = leaves(group)
        raise failure from None


def ordered(machine: SimulatedMachine, generation: int = 1, **how: Any) -> LaunchOrder:
    launch = Launch(f"nonce-{generation}", machine.world.boottime() + 5, machine.boot_id)
    given = {"work": Command(("work",)), "limits": UNLIMITED, **how}
    return LaunchOrder(Key("kernel"), generation, launch, **given)


@asynccontextmanager
async def running(machine: SimulatedMachine, **how: Any) -> AsyncGenerator[Any]:
    async with SimulatedExecution(machine).launch(ordered(machine, **how)) as unit:
        unit.renew(machine.world.boottime() + 30)
        await unit.start()
        yield unit


async def left_behind(machine: SimulatedMachine, **how: Any) -> Orphan:
    execution, order = SimulatedExecution(machine), ordered(machine, **how)
    async with execution.launch(order) as unit:
        unit.renew(machine.world.boottime() + 30)
        await unit.start()
        execution.die()
    return Orphan(order.launch, unit.child)


# ------------------------------------------------------------------------------- the witness


async def test_the_witness_sees_two_of_one_key(autojump_clock: MockClock) -> None:
    async with machine_with() as machine:
        async with running(machine), running(machine, generation=2):
            assert [run.generation for run in machine.witness.running()] == [1, 2]
        with pytest.raises(AssertionError, match=r"generation 2 of kernel began to run .* while"):
            machine.verify()


async def test_the_witness_sees_an_older_one_after_a_newer(autojump_clock: MockClock) -> None:
    async with machine_with() as machine:
        async with running(machine, generation=2):
            pass
        async with running(machine, generation=1):
            pass
        with pytest.raises(AssertionError, match="began to run after a later one"):
            machine.verify()


async def test_the_witness_sees_who_runs_beyond_the_deadline(autojump_clock: MockClock) -> None:
    async with machine_with() as machine:
        async with running(machine) as unit:
            unit.simulated.deadline = machine.world.boottime() + 1  # and its guard was not told
            await trio.sleep(2)
        with pytest.raises(AssertionError, match=r"ran until .*, and had been told to end by"):
            machine.verify()


async def test_the_witness_sees_who_is_left(autojump_clock: MockClock) -> None:
    async with machine_with() as machine:
        async with running(machine):
            with pytest.raises(AssertionError, match="1001 of kernel: lives> is left"):
                machine.verify()
            machine.verify(empty=False)
        machine.verify()


async def test_an_interval_is_from_the_loading_to_the_end(autojump_clock: MockClock) -> None:
    async with machine_with(Program(load_delay=1.0, runs_for=2.0)) as machine:
        async with running(machine) as unit:
            await unit.wait_exited()
        (run,) = machine.witness.runs
        assert run.until is not None
        assert run.until - run.since == pytest.approx(3.0)


PLACES: dict[str, tuple[Fault, ...]] = {
    "launch": (Slow(2.0), Never(), Fails("lost", after=1.0)),
    "launched": (Slow(2.0), Never(), Fails("timed-out", after=1.0)),
    "start": (Slow(2.0), Never(), Fails("lost")),
    "started": (Slow(2.0), Never(), Fails("lost")),
    "load": (Slow(2.0), Never(), Fails("refused"), Fails("lost", after=1.0), Fails("defect")),
    "renew": (Slow(2.0), Never(), Twice(), Swapped(2.0)),
    "interrupt": (Slow(2.0), Never(), Twice()),
    "kill": (Slow(2.0), Never(), Twice()),
    "life": (Fails("lost", after=10.0), Fails("defect", after=10.0)),
    "hang": (Fails("lost", after=10.0),),
    "exit": (Slow(2.0), Never(), Fails("lost")),
    "leave": (Slow(2.0), Never(), Fails("lost"), Fails("defect")),
    "twin": (Twice(),),
}


async def some_life(sim: Simulation) -> None:
    """Children of many keys, with whatever goes wrong; what chance brings decides on the rest."""
    sim.check(Ended("runs", until="ended", by="child"))
    async with simulated_machine(sim.world, faults=sim.faults, record=sim.record) as machine:
        sim.check(Always("the witness sees nothing wrong", lambda: not machine.witness.violations))
        execution = SimulatedExecution(machine)

        async def one(number: int) -> None:
            launch = Launch(f"nonce-{number}", sim.world.boottime() + 5)
            order = LaunchOrder(Key(str(number)), 1, launch, Command(("x",)), UNLIMITED)
            with trio.move_on_after(sim.random.uniform(0, 20)):
                try:
                    async with execution.launch(order) as unit:
                        unit.renew(sim.world.boottime() + sim.random.uniform(1, 15))
                        await unit.start()
                        unit.renew(sim.world.boottime() + sim.random.uniform(1, 15))
                        await trio.sleep(sim.random.uniform(0, 10))
                        unit.interrupt()
                        await unit.wait_exited()
                except (ReactorError, RuntimeError, Crashed) as failure:
                    sim.record("failed", failure=failure)

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(one, number)
            if sim.random.random() < 0.3:
                await trio.sleep(sim.random.uniform(0, 5))
                execution.die()
        await trio.sleep(60)  # so that every deadline there was is over
        machine.verify()


def drawn(chance: random.Random) -> Plan:
    return Plan.draw(chance, PLACES, rate=0.1)


def test_whatever_goes_wrong_no_child_outlives_its_deadline() -> None:
    summary = simulate(some_life, range(60), faults=drawn)
    assert summary.counts["runs"] > 100
    assert summary.counts["failed"] > 50


def test_the_same_seed_brings_the_same() -> None:
    first, second = (run(some_life, seed=7, faults=drawn) for _ in range(2))
    assert first.fingerprint == second.fingerprint


# ------------------------------------------------------------------------------- a launch


@pytest.mark.parametrize("place", ["launch", "launched"])
async def test_a_launch_that_fails_leaves_nothing(place: str, autojump_clock: MockClock) -> None:
    async with machine_with(None, None, **{place: Fails("lost", after=1.0)}) as machine:
        with pytest.raises(ExecutionFailed):
            async with running(machine):
                raise AssertionError
        machine.verify()
        assert machine.witness.runs == ()


async def test_a_launch_that_hangs_is_left_when_it_is_cancelled(autojump_clock: MockClock) -> None:
    for place in ("launch", "launched"):
        async with machine_with(None, None, **{place: Never()}) as machine:
            with trio.move_on_after(3) as scope:
                async with running(machine):
                    raise AssertionError
            assert scope.cancelled_caught
            assert trio.current_time() % 3 < 0.1
            machine.verify()


async def test_a_defect_in_a_launch_comes_out_as_it_is(autojump_clock: MockClock) -> None:
    async with machine_with(launch=Fails("defect")) as machine:
        with pytest.raises(RuntimeError, match="a defect as planned"):
            async with running(machine):
                raise AssertionError


async def test_a_stubborn_launch_returns_though_it_was_cancelled(
    autojump_clock: MockClock,
) -> None:
    async with machine_with(options=MachineOptions(stubborn=True, launch_delay=2)) as machine:
        entered = False
        with trio.move_on_after(1):
            async with SimulatedExecution(machine).launch(ordered(machine)):
                entered = True
                await trio.lowlevel.checkpoint()
        assert entered
        assert trio.current_time() == pytest.approx(2.01)
        machine.verify()


async def test_a_launch_that_makes_two_ends_both(autojump_clock: MockClock) -> None:
    async with machine_with(twin=Twice()) as machine:
        async with SimulatedExecution(machine).launch(ordered(machine)) as unit:
            assert len(machine.children) == 2
            first = unit.child
            unit.renew(machine.world.boottime() + 30)
            await unit.start()
            assert unit.child != first
        machine.verify()
        assert len(machine.witness.runs) == 1


async def test_the_unregistered_one_of_two_ends_by_the_launch(autojump_clock: MockClock) -> None:
    async with machine_with(twin=Twice()) as machine, running(machine):
        await trio.sleep(6)
        assert len(machine.children) == 1


async def test_limits_are_enforced_or_refused(autojump_clock: MockClock) -> None:
    async with machine_with() as machine, running(machine, limits=LIMITED) as unit:
        assert unit.enforced == Enforced(memory="cgroup", open_files="cgroup")
    options = MachineOptions(unenforceable=frozenset({"memory"}))
    async with machine_with(options=options) as machine:
        with pytest.raises(LimitRefused) as told:
            async with running(machine, limits=LIMITED):
                raise AssertionError
        assert told.value.limit == "memory"
        machine.verify()


# -------------------------------------------------------------------------------- a start


async def test_a_child_can_end_by_itself_at_any_moment(autojump_clock: MockClock) -> None:
    for after in (0.0, 0.02, 1.0):
        async with machine_with(life=Fails("lost", after=after)) as machine:
            async with SimulatedExecution(machine).launch(ordered(machine)) as unit:
                unit.renew(machine.world.boottime() + 30)
                try:
                    await unit.start()
                except ExecutionFailed:
                    assert after < 0.1
                assert await unit.wait_exited() == ExitStatus(code=1)
            machine.verify()


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (Fails("refused"), CodeFailed),
        (Fails("lost"), ExecutionFailed),
        (Fails("defect"), ExecutionFailed),
    ],
)
async def test_loading_fails_as_planned(
    fault: Fault, raised: type[Exception], autojump_clock: MockClock
) -> None:
    async with machine_with(load=fault) as machine:
        with pytest.raises(raised):
            async with running(machine):
                raise AssertionError
        machine.verify()


async def test_loading_that_hangs_ends_at_the_deadline(autojump_clock: MockClock) -> None:
    async with machine_with(load=Never()) as machine:
        with pytest.raises(ExecutionFailed, match="signal 9"):
            async with running(machine):
                raise AssertionError
        assert trio.current_time() == pytest.approx(30.05)
        machine.verify()


async def test_the_answer_to_a_start_can_be_lost_or_late(autojump_clock: MockClock) -> None:
    async with machine_with(started=Fails("lost")) as machine:
        with pytest.raises(ExecutionFailed) as told:
            async with running(machine):
                raise AssertionError
        assert told.value.outcome == "unknown"
    async with machine_with(started=Slow(4)) as machine:
        before = trio.current_time()
        async with running(machine):
            assert trio.current_time() - before == pytest.approx(4.1)


async def test_a_start_is_asked_for_once_and_after_a_deadline_was_told(
    autojump_clock: MockClock,
) -> None:
    async with (
        machine_with() as machine,
        SimulatedExecution(machine).launch(ordered(machine)) as unit,
    ):
        with pytest.raises(RuntimeError, match="told its deadline"):
            await unit.start()
        unit.renew(machine.world.boottime() + 30)
        await unit.start()
        with pytest.raises(RuntimeError, match="started once"):
            await unit.start()


# ------------------------------------------------------------------------- deadline and end


async def test_a_deadline_that_comes_late_does_not_undo_a_newer(autojump_clock: MockClock) -> None:
    faults = Faults(Plan({"renew": {2: Swapped(5.0)}}))
    async with simulated_machine(SeededWorld(1), faults=faults) as machine:
        async with running(machine) as unit:
            unit.renew(machine.world.boottime() + 1)
            unit.renew(machine.world.boottime() + 10)
            before = trio.current_time()
            await unit.wait_exited()
            assert trio.current_time() - before == pytest.approx(10)
        machine.verify()


async def test_a_renewal_that_never_arrives_ends_the_child(autojump_clock: MockClock) -> None:
    faults = Faults(Plan({"renew": {2: Never()}}))
    async with simulated_machine(SeededWorld(1), faults=faults) as machine:
        async with running(machine) as unit:
            unit.renew(machine.world.boottime() + 1_000)
            assert await unit.wait_exited() == ExitStatus(signal=9)
        assert trio.current_time() < 31
        machine.verify()


async def test_a_silent_child_hears_nothing_until_it_is_killed(autojump_clock: MockClock) -> None:
    silent = Program(beats=1.0, silent_after=3.5, echoes=True, runs_for=9.0)
    async with machine_with(silent) as machine, running(machine) as unit:
        start = trio.current_time()
        await trio.sleep(8)
        assert unit.heard_at - start == pytest.approx(3)
        unit.interrupt()
        await unit.channel.send_all(b"x")
        with trio.move_on_after(5) as scope:
            await unit.channel.receive_some()
        assert scope.cancelled_caught
        assert unit.exit is None
        unit.kill()
        assert await unit.wait_exited() == ExitStatus(signal=9)


async def test_a_child_can_be_planned_to_fall_silent(autojump_clock: MockClock) -> None:
    async with (
        machine_with(Program(beats=1.0), hang=Fails(after=2.5)) as machine,
        running(machine) as unit,
    ):
        start = trio.current_time()
        await trio.sleep(8)
        assert unit.heard_at - start == pytest.approx(2)


async def test_an_end_that_cannot_be_seen_is_unconfirmed(autojump_clock: MockClock) -> None:
    async with machine_with(exit=Fails("lost")) as machine:
        with pytest.raises(TerminationUnconfirmed) as told:
            async with running(machine) as unit:
                unit.kill()
                with pytest.raises(TerminationUnconfirmed):
                    await unit.wait_exited()
                assert unit.exit is None
        (cause,) = told.value.causes
        assert "lost as planned" in str(cause)


async def test_a_kill_that_does_not_arrive_is_unconfirmed(autojump_clock: MockClock) -> None:
    async with machine_with(kill=Never()) as machine:
        before = trio.current_time()
        with pytest.raises(TerminationUnconfirmed):
            async with running(machine) as unit:
                pass
        assert trio.current_time() - before == pytest.approx(5.1)
        with pytest.raises(TerminationUnconfirmed):
            await unit.wait_exited()
        assert machine.children
        await trio.sleep(31)
        machine.verify()  # it ended at its deadline all the same


async def test_leaving_can_be_slow_hang_or_fail(autojump_clock: MockClock) -> None:
    async with machine_with(leave=Fails("lost")) as machine:
        with pytest.raises(ExecutionFailed, match="not let go"):
            async with running(machine):
                pass
        machine.verify()
    async with machine_with(leave=Never()) as machine:
        with trio.move_on_after(2) as scope:
            async with running(machine):
                pass
        assert scope.cancelled_caught
        machine.verify()


async def test_a_stack_is_told_while_it_runs(autojump_clock: MockClock) -> None:
    async with machine_with(stack=Fails("timed-out")) as machine, running(machine) as unit:
        with pytest.raises(ExecutionFailed):
            await unit.stack()
        assert "work, generation 1 of kernel" in await unit.stack()
        unit.kill()
        await unit.wait_exited()
        with pytest.raises(ExecutionFailed):
            await unit.stack()


# ---------------------------------------------------------------------------------- a death


async def test_the_dead_change_nothing(autojump_clock: MockClock) -> None:
    async with machine_with() as machine:
        execution = SimulatedExecution(machine)
        assert isinstance(execution, Adopting)
        told: list[str] = []

        async def watch(unit: Any) -> None:
            with pytest.raises(Crashed):
                await unit.wait_exited()
            told.append("crashed")

        order = ordered(machine, orphaned="adopt")
        async with trio.open_nursery() as nursery, execution.launch(order) as unit:
            unit.renew(machine.world.boottime() + 30)
            await unit.start()
            nursery.start_soon(watch, unit)
            await trio.lowlevel.checkpoint()
            execution.die()
            unit.kill()
            unit.interrupt()
            unit.renew(0.0)
            for dead in (unit.stack, unit.wait_lost, unit.wait_exited):
                with pytest.raises(Crashed):
                    await dead()
            await trio.sleep(1)
        assert told == ["crashed"]
        with pytest.raises(Crashed):
            await execution.recover(Orphan(order.launch, None))
        with pytest.raises(Crashed):
            async with execution.launch(order):
                raise AssertionError
        assert len(machine.children) == 1
        await trio.sleep(30)
        machine.verify()


async def test_a_child_that_was_being_made_when_its_supervisor_died_finds_out(
    autojump_clock: MockClock,
) -> None:
    for moment in (0.0, 0.04, 0.05, 0.06):
        async with machine_with() as machine:
            execution = SimulatedExecution(machine)

            async def launch(execution: Any = execution, machine: Any = machine) -> None:
                with pytest.raises(Crashed):
                    async with execution.launch(ordered(machine)) as unit:
                        await unit.wait_exited()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(launch)
                await trio.sleep(moment)
                execution.die()
            await trio.sleep(1)
            machine.verify()


async def test_a_reboot_leaves_nobody(autojump_clock: MockClock) -> None:
    async with machine_with() as machine:
        orphan = await left_behind(machine, orphaned="adopt")
        machine.reboot()
        machine.verify()
        assert machine.boot_id != orphan.launch.boot_id
        assert await SimulatedExecution(machine).recover(orphan) == ExitStatus()


async def test_recovery_fails_or_hangs_as_planned(autojump_clock: MockClock) -> None:
    async with machine_with(recover=Fails("lost")) as machine:
        orphan = await left_behind(machine, orphaned="adopt")
        execution = SimulatedExecution(machine)
        with pytest.raises(TerminationUnconfirmed):
            await execution.recover(orphan)
        assert await execution.recover(orphan) == ExitStatus(signal=9)
        machine.verify()
    async with machine_with(recover=Never()) as machine:
        orphan = await left_behind(machine, orphaned="adopt")
        with trio.move_on_after(5) as scope:
            await SimulatedExecution(machine).recover(orphan)
        assert scope.cancelled_caught


async def test_recovery_of_what_cannot_be_killed_is_unconfirmed(autojump_clock: MockClock) -> None:
    async with machine_with(kill=Never()) as machine:
        orphan = await left_behind(machine, orphaned="adopt")
        with pytest.raises(TerminationUnconfirmed):
            await SimulatedExecution(machine).recover(orphan)
        assert machine.children


async def test_recovery_finds_both_that_carry_one_launch(autojump_clock: MockClock) -> None:
    async with machine_with(twin=Twice()) as machine:
        orphan = await left_behind(machine, orphaned="adopt")
        assert len(machine.children) == 2
        assert await SimulatedExecution(machine).recover(orphan) == ExitStatus(signal=9)
        machine.verify()


@pytest.mark.parametrize("fault", [Fails("lost"), Never()])
async def test_what_is_not_adopted_is_not_left_running(
    fault: Fault, autojump_clock: MockClock
) -> None:
    async with machine_with(adopt=fault) as machine:
        orphan = await left_behind(machine, orphaned="adopt")
        adopted = SimulatedExecution(machine).adopt(orphan, ordered(machine))
        failed = False
        with trio.move_on_after(3):
            try:
                async with adopted:
                    raise AssertionError
            except AdoptionFailed:
                failed = True
        assert failed == isinstance(fault, Fails)
        machine.verify()


async def test_only_what_runs_and_is_left_can_be_adopted(autojump_clock: MockClock) -> None:
    async with machine_with() as machine:
        execution = SimulatedExecution(machine)
        orphan = await left_behind(machine, orphaned="adopt")
        for known, order in (
            (msgspec.structs.replace(orphan, child=None), ordered(machine)),
            (orphan, ordered(machine, generation=2)),
        ):
            with pytest.raises(AdoptionFailed):
                async with execution.adopt(known, order):
                    raise AssertionError
            machine.verify()
            orphan = await left_behind(machine, orphaned="adopt")


def test_options_and_programs_are_checked() -> None:
    with pytest.raises(ValueError, match="kill_delay"):
        MachineOptions(kill_delay=-1)
    with pytest.raises(ValueError, match="runs_for"):
        Program(runs_for=float("inf"))
    with pytest.raises(ValueError, match="beats"):
        Program(beats=0)


async def test_a_child_that_is_found_while_it_is_made_can_be_ended(
    autojump_clock: MockClock,
) -> None:
    def found(what: str, /, **about: object) -> None:
        if what == "made":
            for child in machine.children.values():
                child.kill()

    async with simulated_machine(SeededWorld(1), record=found) as machine:
        child = await machine.spawn(ordered(machine))
        await child.ended.wait()
        assert child.exit == ExitStatus(signal=9)
        machine.verify()


async def test_a_child_that_is_asked_twice_says_its_last_words_and_ends(
    autojump_clock: MockClock,
) -> None:
    programs = {"work": Program(last_words=b"bye")}
    async with simulated_machine(SeededWorld(1), programs=programs) as machine:
        child = await machine.spawn(ordered(machine))
        child.begin()
        await child.loaded.wait()
        child.interrupt()
        child.interrupt()
        await child.ended.wait()
        assert child.exit == ExitStatus(signal=15)


async def test_a_stubborn_launch_that_fails_can_be_cancelled_while_it_leaves(
    autojump_clock: MockClock,
) -> None:
    options = MachineOptions(stubborn=True)
    async with machine_with(options=options, launched=Fails(), leave=Never()) as machine:
        with trio.move_on_after(1) as patience:
            async with SimulatedExecution(machine).launch(ordered(machine)):
                raise AssertionError
        assert patience.cancelled_caught
        assert trio.current_time() == 1.0


async def test_a_deadline_that_is_told_when_it_is_over_ends_the_child_and_is_kept(
    autojump_clock: MockClock,
) -> None:
    async with machine_with(renew=Slow(2.0)) as machine:
        async with SimulatedExecution(machine).launch(ordered(machine)) as unit:
            unit.renew(machine.world.boottime() + 1)
            await unit.start()
            assert await unit.wait_exited() == ExitStatus(signal=9)
        assert trio.current_time() == pytest.approx(2.05)
        machine.verify()
