"""What a seed decides, what it never touches, and the day Trio's private names move."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
import trio
import trio._core._run as trio_run
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

from trio_reactor.testing import (
    Schedule,
    Simulation,
    SimulationFailed,
    TrioMoved,
    check_trio,
    run,
    schedule,
    simulate,
)

SHUFFLE = Schedule(hold=0.0)
HOLD = Schedule(hold=0.4, longest=4)
HOLD_ALL = Schedule(hold=1.0, longest=6)


def walks(hold: Schedule, seed: int) -> list[tuple[int, int, float]]:
    """Eight tasks, six steps each, all woken by one event: (task, step, clock) as it happened."""
    seen: list[tuple[int, int, float]] = []

    async def world(sim: Simulation) -> None:
        gate = trio.Event()

        async def walk(number: int) -> None:
            await gate.wait()
            for step in range(6):
                seen.append((number, step, trio.current_time()))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(walk, number)
            await trio.sleep(1.0)
            gate.set()
            for _ in range(20):
                await trio.sleep(0.001)  # there is always a next deadline to jump to

    run(world, seed=seed, schedule=hold)
    return seen


# ------------------------------------------------------------------------------ what a seed decides


def test_the_same_seed_gives_the_same_interleaving_and_another_seed_another() -> None:
    for hold in (SHUFFLE, HOLD):
        interleavings = [tuple(walks(hold, seed)) for seed in range(10)]
        assert interleavings == [tuple(walks(hold, seed)) for seed in range(10)]
        assert len(set(interleavings)) == 10


@pytest.mark.parametrize("hold", [SHUFFLE, HOLD, HOLD_ALL])
def test_the_steps_of_one_task_keep_their_order(hold: Schedule) -> None:
    for seed in range(20):
        seen = walks(hold, seed)
        for number in range(8):
            assert [step for task, step, _ in seen if task == number] == list(range(6))


def test_a_shuffle_keeps_tasks_that_are_woken_together_within_a_step_and_holding_does_not() -> None:
    def drift(hold: Schedule, seed: int) -> int:
        at = [0] * 8
        furthest = 0
        for number, step, _ in walks(hold, seed):
            at[number] = step
            furthest = max(furthest, max(at) - min(at))
        return furthest

    assert {drift(SHUFFLE, seed) for seed in range(20)} == {1}
    assert max(drift(HOLD, seed) for seed in range(20)) >= 3


@pytest.mark.parametrize("hold", [HOLD, HOLD_ALL])
def test_time_never_passes_while_a_task_is_held_back(hold: Schedule) -> None:
    for seed in range(20):
        assert {clock for _, _, clock in walks(hold, seed)} == {1.0}


def test_a_task_that_a_deadline_woke_can_be_held_back_too() -> None:
    async def world(sim: Simulation) -> list[int]:
        order: list[int] = []

        async def sleeper(number: int) -> None:
            await trio.sleep(1.0)
            for _ in range(3):
                await trio.lowlevel.checkpoint()
                order.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(sleeper, number)
        assert sim.trace.total == 0
        return order

    held = [run(world, seed=seed, schedule=HOLD).value for seed in range(20)]
    assert any(order[:3] == [order[0]] * 3 for order in held)


def test_nothing_has_settled_while_a_task_is_held_back() -> None:
    async def world(sim: Simulation) -> None:
        done: list[int] = []

        async def walk(number: int) -> None:
            for _ in range(4):
                await trio.lowlevel.checkpoint()
            done.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(walk, number)
            await wait_all_tasks_blocked()
            assert len(done) == 6
            assert trio.current_time() == 0.0

    simulate(world, range(30), schedule=HOLD_ALL)


async def a_race_of_several_steps(sim: Simulation) -> None:
    """The answer takes one step, asking in vain three: a bug that no order of one batch shows."""
    gate = trio.Event()
    answers: list[str] = []

    async def answer() -> None:
        await gate.wait()
        await trio.lowlevel.checkpoint()
        answers.append("yes")

    async def ask() -> None:
        await gate.wait()
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        assert answers, "asked too early"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        gate.set()


def test_holding_back_finds_a_race_that_a_shuffle_cannot() -> None:
    simulate(a_race_of_several_steps, range(300), schedule=SHUFFLE)
    with pytest.raises(SimulationFailed, match="asked too early") as caught:
        simulate(a_race_of_several_steps, range(300))
    with pytest.raises(SimulationFailed, match="asked too early"):
        run(a_race_of_several_steps, seed=caught.value.seed)


def test_a_schedule_names_the_option_that_is_wrong() -> None:
    with pytest.raises(ValueError, match="hold is a chance"):
        Schedule(hold=1.5)
    with pytest.raises(ValueError, match="longest is at least 1"):
        Schedule(longest=0)


# ---------------------------------------------------------------------------------- equal deadlines


def expiries(seed: int) -> tuple[list[int], list[int]]:
    """Ten tasks under equal deadlines: the order of their abort functions, and of themselves."""

    async def world(sim: Simulation) -> tuple[list[int], list[int]]:
        aborted: list[int] = []
        resumed: list[int] = []

        async def park(number: int) -> None:
            def abort(_: object) -> trio.lowlevel.Abort:
                aborted.append(number)  # the side effect that an abort function should not have
                return trio.lowlevel.Abort.SUCCEEDED

            with trio.move_on_at(5.0):
                await trio.lowlevel.wait_task_rescheduled(abort)
            resumed.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(park, number)
        return aborted, resumed

    return run(world, seed=seed, schedule=SHUFFLE).value


def test_a_tie_of_deadlines_is_drawn_from_the_seed_so_even_abort_functions_replay() -> None:
    assert [expiries(seed) for seed in range(10)] == [expiries(seed) for seed in range(10)]
    assert len({tuple(expiries(seed)[0]) for seed in range(10)}) == 10


def test_without_side_effects_no_order_of_a_tie_can_be_told_from_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Fixed:
        """Deadlines whose ties are broken in a way that has nothing to do with the seed."""

        def __init__(self, sign: int) -> None:
            self.count = 0
            self.sign = sign

        def random(self) -> float:
            self.count += 1
            return self.sign * self.count

    ties: dict[int, tuple[list[int], list[int]]] = {}
    real: Callable[[random.Random], object] = schedule._seeded_deadlines
    for sign in (1, -1):
        monkeypatch.setattr(schedule, "_seeded_deadlines", lambda _, s=sign: real(Fixed(s)))  # type: ignore[arg-type]
        ties[sign] = expiries(seed=7)
    assert ties[1][0] == ties[-1][0][::-1]  # the abort functions ran the other way round
    assert ties[1][1] == ties[-1][1]  # and the tasks went on in the same order


# ------------------------------------------------------------------------------- saved and restored


@pytest.mark.parametrize("allowed", [False, True])
def test_what_a_run_changes_in_trio_it_puts_back(
    allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING", allowed)
    chance, state = trio_run._r, trio_run._r.getstate()

    async def world(sim: Simulation) -> None:
        assert trio_run._ALLOW_DETERMINISTIC_SCHEDULING is True
        assert trio_run._r is not chance
        await trio.sleep(1.0)
        raise OSError("weather")

    with pytest.raises(SimulationFailed):
        run(world, seed=1)
    assert trio_run._ALLOW_DETERMINISTIC_SCHEDULING is allowed
    assert trio_run._r is chance
    assert trio_run._r.getstate() == state


def test_only_one_seeded_run_at_a_time_in_a_process() -> None:
    refused: list[BaseException] = []

    async def world(sim: Simulation) -> None:
        def other() -> None:
            try:
                run(a_race_of_several_steps, seed=0)
            except RuntimeError as failure:
                refused.append(failure)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        await trio.lowlevel.checkpoint()

    run(world, seed=1)
    assert "one seeded run at a time" in str(refused[0])
    run(world, seed=1)  # and the next one is admitted


# --------------------------------------------------------------------------------------- the canary


def test_this_trio_lets_a_seed_decide() -> None:
    schedule._try_trio.cache_clear()
    check_trio()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING"),
        (trio_run, "_r"),
        (trio_run, "Deadlines"),
        (trio_run.CancelStatus, "_parent"),
    ],
)
def test_a_name_that_trio_moved_is_named(
    owner: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.delattr(owner, name)
        with pytest.raises(TrioMoved, match=rf"trio {trio.__version__}.* has no .*{name}"):
            run(a_race_of_several_steps, seed=0)
    run(a_race_of_several_steps, seed=0)


def test_a_module_that_trio_moved_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(schedule.importlib, "import_module", missing)
    with pytest.raises(TrioMoved, match="there is no"):
        check_trio()


def test_a_shuffle_that_no_longer_shuffles_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random.Random, "shuffle", lambda self, batch: None)
    schedule._try_trio.cache_clear()
    with pytest.raises(TrioMoved, match="no longer decides the order"):
        check_trio()


def test_a_chance_that_is_no_longer_asked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    other = random.Random()
    shuffle = random.Random.shuffle
    monkeypatch.setattr(random.Random, "shuffle", lambda self, batch: shuffle(other, batch))
    schedule._try_trio.cache_clear()
    with pytest.raises(TrioMoved, match="no longer decides the order"):
        check_trio()


def test_a_run_queue_that_is_no_longer_asked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule._RunQueue, "_choose", lambda self, tasks: tasks)
    schedule._try_trio.cache_clear()
    with pytest.raises(TrioMoved, match="no longer keeps it out"):
        check_trio()


def test_a_run_that_does_not_take_the_run_queue_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule._Installer, "before_run", lambda self: None)
    schedule._try_trio.cache_clear()
    with pytest.raises(TrioMoved, match="no longer takes the run queue"):
        run(a_race_of_several_steps, seed=0)


@pytest.fixture(autouse=True)
def _ask_again() -> object:
    yield
    schedule._try_trio.cache_clear()
