"""A run: what a scenario is given, and how a run that fails is stopped and shown."""

from __future__ import annotations

import itertools
import threading

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_reactor.testing import (
    Always,
    Ended,
    Endless,
    Fails,
    InvariantViolated,
    Jump,
    Once,
    Plan,
    Schedule,
    Simulation,
    SimulationFailed,
    Stuck,
    run,
    simulate,
)
from trio_reactor.testing.running import SHOWN_FACTS, STOPPING_STEPS
from trio_reactor.world import SeededWorld


def test_a_run_gives_what_its_scenario_returned_and_takes_no_real_time() -> None:
    async def world(sim: Simulation) -> str:
        assert isinstance(sim.world, SeededWorld)
        assert sim.world.seed == sim.seed == 5
        assert trio.current_time() == 0.0
        await trio.sleep(86400.0)
        sim.record("slept")
        return sim.world.token()

    done = run(world, seed=5)
    assert done.value == SeededWorld(5).token()
    assert done.elapsed == 86400.0
    assert done.trace.counts == {"slept": 1}
    assert done.steps >= 2
    assert not done.hit


def test_the_wall_clock_jumps_as_planned() -> None:
    async def world(sim: Simulation) -> list[float]:
        walls = []
        for _ in range(3):
            walls.append(sim.world.wall() - sim.world.clock())
            await trio.sleep(10.0)
        return [wall - walls[0] for wall in walls]

    done = run(world, seed=0, faults=Plan(jumps=(Jump(5.0, 3600.0), Jump(15.0, -60.0))))
    assert done.value == [0.0, 3600.0, 3540.0]
    assert [fact.about for fact in done.trace.of("jump")] == [{"by": 3600.0}, {"by": -60.0}]


def test_a_fault_that_strikes_is_recorded() -> None:
    async def world(sim: Simulation) -> None:
        await sim.faults.meet("open")
        with pytest.raises(trio.TooSlowError):
            await sim.faults.meet("open")

    done = run(world, seed=0, faults=Plan({"open": {2: Fails("timed-out", after=3.0)}}))
    (fact,) = done.trace
    assert (fact.clock, fact.what) == (0.0, "fault")
    assert fact.about["place"] == "open"
    assert fact.about["number"] == 2
    assert done.elapsed == 3.0


# ----------------------------------------------------------------------------------------- failures


async def fails(sim: Simulation) -> None:
    for number in range(100):
        await trio.sleep(1.0)
        sim.record("tick", number=number)
    raise ValueError("the scenario's own")


def test_a_failure_shows_the_events_that_led_to_it_the_seed_and_how_to_run_it_again() -> None:
    plan = Plan({"open": {7: Fails()}})
    with pytest.raises(SimulationFailed) as caught:
        run(fails, seed=17, schedule=Schedule(hold=0.5), faults=plan, cancel_at=400)
    failure = caught.value
    assert isinstance(failure.__cause__, ValueError)
    assert failure.seed == 17
    assert failure.plan == plan
    assert [fact.about["number"] for fact in failure.facts] == list(range(60, 100))
    assert len(failure.facts) == SHOWN_FACTS
    lines = str(failure).splitlines()
    assert lines[0] == "seed 17: ValueError: the scenario's own"
    assert lines[1] == f"planned faults: {plan}"
    assert lines[2] == "the last 40 of 100 facts:"
    assert lines[-2].split() == ["100", "100.000", "scenario", "tick", "number=99"]
    assert lines[-1] == (
        f"to run it again: run({__name__}.fails, seed=17, schedule={Schedule(hold=0.5)}, "
        f"faults={plan}, cancel_at=400)"
    )


def test_the_call_that_is_shown_runs_the_same_again() -> None:
    with pytest.raises(SimulationFailed) as caught:
        run(fails, seed=3, faults=Plan({"open": {1: Fails("lost", after=2.0)}}))
    call = caught.value.again.removeprefix("run(").replace(f"{__name__}.fails", "fails")
    names = {"fails": fails, "run": run, "Plan": Plan, "Fails": Fails, "Schedule": Schedule}
    with pytest.raises(SimulationFailed) as again:
        eval("run(" + call, names)
    assert str(again.value) == str(caught.value)


def test_what_is_no_error_passes_as_it_is_with_a_note() -> None:
    async def world(sim: Simulation) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run(world, seed=9)
    assert "seed=9" in caught.value.__notes__[0]


def test_a_simulation_stops_at_the_first_seed_that_fails_and_counts_what_happened() -> None:
    async def world(sim: Simulation) -> None:
        sim.record("ran")
        await trio.sleep(2.0)
        assert sim.seed != 7

    summary = simulate(world, range(7))
    assert (summary.runs, summary.elapsed, summary.counts) == (7, 14.0, {"ran": 7})
    assert summary.steps >= 14
    with pytest.raises(SimulationFailed) as caught:
        simulate(world, range(100))
    assert caught.value.seed == 7
    with pytest.raises(ValueError, match="no seeds"):
        simulate(world, [])


# --------------------------------------------------------------------------------------- invariants


def test_an_invariant_that_a_fact_violates_stops_the_run_there() -> None:
    async def world(sim: Simulation) -> None:
        sim.check(Once("dispatched", by="clip"))
        for clip in (1, 2, 1):
            sim.record("dispatched", clip=clip)
            await trio.sleep(1.0)
        sim.record("never")

    with pytest.raises(InvariantViolated) as caught:
        run(world, seed=0)
    assert caught.value.invariant == "'dispatched' at most once for each clip"
    assert caught.value.wrong == "it happened again: 1"
    assert [fact.about["clip"] for fact in caught.value.facts] == [1, 2, 1]
    assert str(caught.value).startswith("seed 0: violated: 'dispatched' at most once")


def test_an_invariant_of_the_state_is_looked_at_between_batches_without_any_fact() -> None:
    async def world(sim: Simulation) -> None:
        queue: list[int] = []
        sim.check(Always("the queue is bounded", lambda: len(queue) <= 2))
        while True:
            await trio.sleep(1.0)
            queue.extend([1, 2, 3])  # too many only inside of a step is no violation
            del queue[:2]

    with pytest.raises(InvariantViolated, match="the queue is bounded: it does not hold"):
        run(world, seed=0)


def test_an_invariant_is_asked_at_the_end() -> None:
    async def world(sim: Simulation) -> None:
        sim.check(Ended("opened", until="left", by="id"))
        sim.record("opened", id=1)
        sim.record("opened", id=2)
        sim.record("left", id=1)

    with pytest.raises(InvariantViolated, match="not of 2"):
        run(world, seed=0)


def test_what_happens_after_a_violation_neither_hides_it_nor_is_hidden() -> None:
    async def world(sim: Simulation) -> None:
        sim.check(Once("a"))
        sim.record("a")
        sim.record("a")
        try:
            await trio.sleep_forever()
        finally:
            for _ in range(1000):
                sim.record("clean-up")
            sim.record("a")
            raise OSError("while leaving")

    with pytest.raises(InvariantViolated) as caught:
        run(world, seed=0)
    assert [fact.what for fact in caught.value.facts] == ["a", "a"]
    assert caught.value.__notes__ == ["while it was being stopped: OSError: while leaving"]


def test_an_invariant_that_raises_is_violated_by_that() -> None:
    async def world(sim: Simulation) -> None:
        def look() -> bool:
            raise KeyError("broken")

        sim.check(Always("it works", look))
        await trio.sleep(1.0)

    with pytest.raises(InvariantViolated, match="it works: KeyError: 'broken'") as caught:
        run(world, seed=0)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_scenario_that_swallows_its_cancellation_still_fails() -> None:
    async def world(sim: Simulation) -> str:
        sim.check(Once("a"))
        sim.record("a")
        sim.record("a")
        return "all is well"

    with pytest.raises(InvariantViolated):
        run(world, seed=0)


# -------------------------------------------------------------------------------- stuck and endless


def test_a_run_in_which_everybody_waits_is_stuck_and_shows_who_waits_where() -> None:
    async def world(sim: Simulation) -> None:
        left, right = trio.Lock(), trio.Lock()

        async def philosopher(first: trio.Lock, second: trio.Lock) -> None:
            async with first:
                await trio.sleep(1.0)
                async with second:
                    sim.record("ate")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(philosopher, left, right)
            nursery.start_soon(philosopher, right, left)

    with pytest.raises(Stuck) as caught:
        run(world, seed=0)
    lines = str(caught.value).splitlines()
    assert lines[0] == "seed 0: nothing can run any more:"
    assert lines[1].split()[0] == "scenario"
    for line in lines[2:4]:
        assert line.split()[:2] == ["philosopher", "in"]
        assert "test_toolkit_simulation.py:" in line


def test_only_so_many_of_the_tasks_that_are_stuck_are_shown() -> None:
    async def world(sim: Simulation) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(trio.sleep_forever)

    with pytest.raises(Stuck, match="and 81 more"):
        run(world, seed=0)


def test_waiting_for_a_thread_is_being_stuck() -> None:
    over = threading.Event()

    async def world(sim: Simulation) -> None:
        await trio.to_thread.run_sync(over.wait, 30, abandon_on_cancel=True)

    try:
        with pytest.raises(Stuck):
            run(world, seed=0)
    finally:
        over.set()


def test_what_is_stuck_behind_shields_is_stopped_too() -> None:
    left: list[str] = []

    async def world(sim: Simulation) -> None:
        async def worker() -> None:
            with trio.CancelScope(shield=True):
                try:
                    await trio.sleep_forever()
                finally:
                    left.append("worker")

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker)
        finally:
            left.append("scenario")
            with trio.CancelScope(shield=True):
                await trio.Event().wait()

    with pytest.raises(Stuck):
        run(world, seed=0)
    assert left == ["worker", "scenario"]


def test_what_no_cancellation_can_wake_is_stopped_by_force() -> None:
    ended: list[str] = []

    async def world(sim: Simulation) -> None:
        async def sentinel(number: int) -> None:
            try:
                await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
            finally:
                ended.append(f"sentinel {number}")

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sentinel, 1)
                nursery.start_soon(sentinel, 2)
        finally:
            ended.append("scenario")

    with pytest.raises(Stuck) as caught:
        run(world, seed=0)
    assert sorted(ended[:2]) == ["sentinel 1", "sentinel 2"]
    assert ended[2:] == ["scenario"]
    assert "while it was being stopped" in caught.value.__notes__[0]


def test_a_run_that_goes_on_for_ever_is_endless() -> None:
    async def world(sim: Simulation) -> None:
        for second in itertools.count():
            await trio.sleep_until(second)

    with pytest.raises(Endless, match="does not end within"):
        run(world, seed=0, max_steps=1000)


def test_one_that_goes_on_for_ever_behind_a_shield_is_stopped_too() -> None:
    steps = 0

    async def world(sim: Simulation) -> None:
        nonlocal steps
        with trio.CancelScope(shield=True):
            while True:
                steps += 1
                await trio.lowlevel.checkpoint()

    with pytest.raises(Endless):
        run(world, seed=0, max_steps=100)
    assert STOPPING_STEPS <= steps <= STOPPING_STEPS + 200


def test_waiting_until_everything_has_settled_is_not_being_stuck() -> None:
    async def world(sim: Simulation) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            for _ in range(10):
                await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    simulate(world, range(20))


def test_a_deadline_that_wakes_nobody_does_not_make_who_waits_for_the_others_stuck() -> None:
    async def world(sim: Simulation) -> None:
        async def unmoved(event: trio.Event) -> None:
            with trio.CancelScope() as scope:
                scope.deadline = trio.current_time()
                with trio.CancelScope(shield=True):
                    await event.wait()

        event = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(unmoved, event)
            await wait_all_tasks_blocked()
            event.set()

    simulate(world, range(20))


def test_a_run_cannot_be_started_inside_of_another() -> None:
    async def world(sim: Simulation) -> None:
        run(fails, seed=0)

    with pytest.raises(SimulationFailed) as caught:
        run(world, seed=0)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_summary_is_plain_data() -> None:
    async def world(sim: Simulation) -> None:
        sim.record("ran")

    assert msgspec.to_builtins(simulate(world, [1]))["counts"] == {"ran": 1}
