"""A whole life of a session, cancelled once at each of its steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

import pytest
import trio
from supervisor_story import Stage, stage

from trio_reactor import Closed
from trio_reactor.supervision import Exited, Loaded, Open, Stopped, Supervisor
from trio_reactor.supervision.model.records import Loading, Stopping
from trio_reactor.testing.cancellation import Countdown, Tasks
from trio_reactor.testing.faults import Fault, Slow

SLOW: Fault = Slow(0.3)
STORE_FAULTS = {"prompt": None, "slow": {"commit": dict.fromkeys(range(1, 40), SLOW)}}

Run = Callable[[Countdown], Awaitable[None]]


async def life(supervisor: Supervisor) -> None:
    """All of it, and one session that takes another's place."""
    first = await supervisor.open("key", request="1")
    await supervisor.load(first.handle, "worker:main")
    supervisor.renew(first.handle)
    await supervisor.stack(first.handle)
    await supervisor.channel(first.handle).send_all(b"hello")
    generation = first.handle.generation
    second = await supervisor.open("key", request="2", expected_generation=generation)
    await supervisor.load(second.handle, "worker:main")
    supervisor.renew(second.handle)
    await supervisor.dispose(second.handle)
    await supervisor.wait_stopped(second.handle)
    await supervisor.high_water("key")


async def at_each_step(run: Run) -> int:
    """Run it until it is cancelled no more; returns at how many steps it was."""
    for step in count():
        countdown = Countdown(step)
        await run(countdown)
        if not countdown.hit:
            return step
    raise AssertionError


async def goes_on(supervisor: Supervisor, s: Stage) -> None:
    """The key's next session has a whole life of its own, and nothing is left of the last."""
    high = await supervisor.high_water("key")
    record = await supervisor.open("key", request="next", expected_generation=high)
    assert record.handle.generation == (high or 0) + 1
    await supervisor.load(record.handle, "worker:main")
    (child,) = s.machine.children.values()
    assert child.order.generation == record.handle.generation
    assert isinstance(await supervisor.dispose(record.handle), Exited)
    assert not s.machine.children
    statistics = supervisor.statistics()
    assert (statistics.sessions, statistics.starting, statistics.waiting) == (0, 0, 0)
    assert statistics.transitions == 0


async def is_true(supervisor: Supervisor, s: Stage) -> None:
    """Once what was begun has gone on, each record says what is there."""
    await trio.sleep(2.5)  # less than the lease, more than all that a life takes at its slowest
    running = {run.generation for run in s.machine.witness.running()}
    high = await supervisor.high_water("key") or 0
    for request in ("1", "2"):
        if int(request) > high:
            continue
        expected = int(request) - 1 or None
        record = await supervisor.open("key", request=request, expected_generation=expected)
        assert record.handle.generation == int(request)
        status = supervisor.status(record.handle)
        assert status.journaled
        match status.phase:
            case Open() | Stopped():
                assert int(request) not in running
            case Loaded():
                assert int(request) in running
                supervisor.renew(record.handle)
            case Loading() | Stopping():
                raise AssertionError(status)
    assert len(running) <= 1


@pytest.mark.parametrize("store", STORE_FAULTS)
async def test_a_caller_that_is_cancelled_at_any_step_of_a_life_leaves_the_truth_behind(
    autojump_clock, store
):
    async def run(countdown: Countdown) -> None:
        async with stage() as s:
            async with s.supervisor(store_faults=STORE_FAULTS[store]) as supervisor:
                with countdown.block():
                    await life(supervisor)
                await is_true(supervisor, s)
                await goes_on(supervisor, s)
            assert not s.machine.children

    assert await at_each_step(run) > 10


@pytest.mark.parametrize("tasks", ["own", "all"])
@pytest.mark.parametrize("store", STORE_FAULTS)
async def test_a_supervisor_that_is_cancelled_at_any_step_of_a_life_stops_it_and_another_goes_on(
    autojump_clock, tasks: Tasks, store
):
    async def run(countdown: Countdown) -> None:
        async with stage() as s:
            with countdown.block(tasks):
                async with s.supervisor(store_faults=STORE_FAULTS[store]) as supervisor:
                    await life(supervisor)
            assert not s.machine.children
            async with s.supervisor() as supervisor:
                statistics = supervisor.statistics()
                assert statistics.sessions == 0
                high = await supervisor.high_water("key") or 0
                assert statistics.stopped == high
                for generation in range(1, high + 1):
                    record = await supervisor.open(
                        "key",
                        request=str(generation),
                        expected_generation=generation - 1 or None,
                    )
                    assert isinstance(record.phase, Stopped)
                    assert not record.phase.recovered  # it was stopped, and not left behind
                    assert not record.phase.termination.causes
                await goes_on(supervisor, s)

    assert await at_each_step(run) > 20


async def test_a_supervisor_that_is_cancelled_at_any_step_of_its_recovery_loses_nothing(
    autojump_clock,
):
    async def run(countdown: Countdown) -> None:
        async with stage() as s:
            async with s.doomed(orphaned="adopt") as supervisor:
                left = await supervisor.open("key", request="1")
                await supervisor.load(left.handle, "worker:main")
                other = await supervisor.open("other")
                await supervisor.load(other.handle, "worker:main")
                await supervisor.open("third")
            with countdown.block("all"):
                async with s.supervisor(orphaned="adopt"):
                    pass
            async with s.supervisor() as supervisor:
                for handle in (left.handle, other.handle):
                    phase = supervisor.status(handle).phase
                    assert isinstance(phase, Stopped)
                    assert phase.stop.reason == ("recovered" if phase.recovered else "shutdown")
                assert not s.machine.children
                await goes_on(supervisor, s)

    assert await at_each_step(run) > 20


async def test_a_body_that_is_cancelled_is_not_told_that_its_supervisor_closes(autojump_clock):
    """So that what cancelled it catches what it cancelled."""
    async with stage() as s:
        with trio.CancelScope() as scope:
            async with s.supervisor() as supervisor:
                record = await supervisor.open("key")
                scope.cancel()
                for ask in (
                    lambda: supervisor.open("other"),
                    lambda: supervisor.load(record.handle, "worker:main"),
                ):
                    with pytest.raises(trio.Cancelled):
                        await ask()
                with trio.CancelScope(shield=True), pytest.raises(Closed):
                    await supervisor.open("other")  # one who is not cancelled is told
                await supervisor.open("other")
        assert scope.cancelled_caught
