"""Every order of what may stop a session, at each moment of its load."""

from __future__ import annotations

import contextlib
import itertools

import pytest
import trio
from supervisor_story import stage

from trio_reactor import Closed, ReactorError
from trio_reactor.supervision import LeaseExpired, SessionStopped, Stopped

MOMENTS = (0.0, 0.001, 0.05, 0.1, 0.5, 2.5)
STOPS = ("dispose", "supersede", "leave")


@pytest.mark.parametrize("order", list(itertools.permutations(STOPS)))
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("gap", [0.0, 0.01])
async def test_whatever_stops_a_load_first_is_why_and_every_waiter_is_told(
    autojump_clock, order, moment, gap
):
    told: list[BaseException] = []
    async with stage() as s, s.supervisor() as supervisor:
        handle = (await supervisor.open("plugin")).handle

        async def load() -> None:
            try:
                await supervisor.load(handle, "slow:main")
            except ReactorError as failure:
                told.append(failure)

        leaver = trio.CancelScope()

        async def load_and_leave() -> None:
            with leaver:
                await load()

        async def supersede() -> None:
            second = await supervisor.open("plugin", expected_generation=1)
            assert isinstance(supervisor.status(handle).phase, Stopped)
            supervisor.renew(second.handle)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            nursery.start_soon(load_and_leave)
            await trio.sleep(moment)
            for what in order:
                match what:
                    case "dispose":
                        nursery.start_soon(supervisor.dispose, handle)
                    case "supersede":
                        nursery.start_soon(supersede)
                    case _:
                        leaver.cancel()
                await trio.sleep(gap)
        phase = supervisor.status(handle).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason in ("disposed", "superseded")
        if gap:
            first = next(what for what in order if what != "leave")
            assert phase.stop.reason == {"dispose": "disposed", "supersede": "superseded"}[first]
        assert told
        for failure in told:
            assert isinstance(failure, SessionStopped)
            assert failure.reason == phase.stop.reason


@pytest.mark.parametrize("moment", MOMENTS)
async def test_close_at_any_moment_of_a_load_tells_its_waiters(autojump_clock, moment):
    told: list[BaseException] = []
    async with stage() as s, trio.open_nursery() as nursery:
        async with s.supervisor() as supervisor:
            handle = (await supervisor.open("plugin")).handle

            async def load() -> None:
                try:
                    await supervisor.load(handle, "slow:main")
                except ReactorError as failure:
                    told.append(failure)

            nursery.start_soon(load)
            await trio.sleep(moment)
        phase = supervisor.status(handle).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "shutdown"
    assert len(told) == 1
    assert isinstance(told[0], (SessionStopped, Closed))


@pytest.mark.parametrize("held_from", [0.0, 0.05, 0.5, 6.0])
async def test_a_lease_runs_out_while_the_store_is_held_and_the_execution_ends(
    autojump_clock, held_from
):
    async with stage() as s, s.supervisor() as supervisor:
        handle = (await supervisor.open("plugin", lease=8.0)).handle
        async with trio.open_nursery() as nursery:

            async def load() -> None:
                with contextlib.suppress(LeaseExpired):
                    await supervisor.load(handle, "slow:main")

            nursery.start_soon(load)
            await trio.sleep(held_from)
            s.faulty.hold()
            await trio.sleep(12 - held_from)
            status = supervisor.status(handle)
            assert not status.journaled
            assert not isinstance(status.phase, Stopped)
            assert not s.machine.children
            with pytest.raises(LeaseExpired):
                supervisor.renew(handle)
            s.faulty.release()
        await supervisor.dispose(handle)
        phase = supervisor.status(handle).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "expired"
        assert supervisor.status(handle).journaled
