from __future__ import annotations

import pytest
import trio
from supervisor_story import stage

from trio_reactor import Closed, EventChannel, Subscription
from trio_reactor.errors import leaves
from trio_reactor.supervision import (
    CodeFailed,
    Exited,
    ExitStatus,
    Handle,
    Key,
    Killed,
    LeaseExpired,
    Loaded,
    NotStarted,
    Open,
    SessionConflict,
    SessionStopped,
    StaleSession,
    Stopped,
    StoreFailed,
    SupervisionEvent,
    Supervisor,
    SupervisorPoisoned,
    TerminationUnconfirmed,
)
from trio_reactor.supervision.simulation import FaultyStore, Program
from trio_reactor.testing import Fails, Never, Slow


async def test_a_session_is_opened_loaded_renewed_and_disposed(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin")
        assert record.handle.key == Key("plugin")
        assert record.handle.generation == 1
        assert isinstance(record.phase, Open)
        code = await supervisor.load(record.handle, "worker:main")
        assert code.name == "worker:main"
        status = supervisor.status(record.handle)
        assert isinstance(status.phase, Loaded)
        await trio.sleep(9)
        assert supervisor.renew(record.handle) == 10.0
        await trio.sleep(9)
        assert supervisor.status(record.handle).remaining == pytest.approx(1.0)
        end = await supervisor.dispose(record.handle)
        assert end == Exited(ExitStatus(signal=15))
        assert await supervisor.dispose(record.handle) == end
        stopped = supervisor.status(record.handle).phase
        assert isinstance(stopped, Stopped)
        assert stopped.stop.reason == "disposed"
        with pytest.raises(SessionStopped, match="disposed"):
            supervisor.renew(record.handle)


async def test_a_lease_that_is_not_renewed_runs_out(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin", lease=3.0)
        await supervisor.load(record.handle, "worker:main")
        await trio.sleep(4)
        with pytest.raises(LeaseExpired):
            supervisor.renew(record.handle)
        with pytest.raises(LeaseExpired):
            await supervisor.load(record.handle, "worker:main")
        assert isinstance(await supervisor.dispose(record.handle), Exited)


async def test_the_same_request_finds_the_same_session(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin", request="r1")
        assert await supervisor.open("plugin", request="r1") == record
        await supervisor.dispose(record.handle)
        again = await supervisor.open("plugin", request="r1")
        assert isinstance(again.phase, Stopped)


async def test_a_newer_session_supersedes_the_one_before(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        first = await supervisor.open("plugin")
        await supervisor.load(first.handle, "worker:main")
        with pytest.raises(StaleSession):
            await supervisor.open("plugin")
        second = await supervisor.open("plugin", expected_generation=1)
        assert second.handle.generation == 2
        assert await supervisor.high_water("plugin") == 2
        phase = supervisor.status(first.handle).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "superseded"


async def test_an_execution_that_ends_by_itself_stops_its_session(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin")
        await supervisor.load(record.handle, "short:main")
        await trio.sleep(2)
        phase = supervisor.status(record.handle).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "exited"
        assert phase.termination == Exited(ExitStatus(code=0))


async def test_code_that_ignores_the_asking_is_killed_after_the_grace(autojump_clock):
    async with stage() as s, s.supervisor(grace=2.0) as supervisor:
        record = await supervisor.open("plugin")
        await supervisor.load(record.handle, "stubborn:main")
        began = trio.current_time()
        assert await supervisor.dispose(record.handle) == Killed(ExitStatus(signal=9))
        assert 2.0 <= trio.current_time() - began < 2.5


async def test_broken_code_stops_its_session_and_says_what_it_said(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin")
        with pytest.raises(CodeFailed) as raised:
            await supervisor.load(record.handle, "broken:main")
        assert "no such thing" in (raised.value.detail or "")
        await supervisor.dispose(record.handle)
        phase = supervisor.status(record.handle).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "load-failed"


async def test_one_load_for_all_who_ask_and_a_conflict_for_who_asks_for_another(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin")
        codes = []

        async def load() -> None:
            codes.append(await supervisor.load(record.handle, "worker:main"))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(load)
        assert len(set(codes)) == 1
        with pytest.raises(SessionConflict):
            await supervisor.load(record.handle, "short:main")


async def test_a_cancelled_caller_does_not_stop_the_load(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin")
        with trio.move_on_after(1):
            await supervisor.load(record.handle, "slow:main")
        code = await supervisor.load(record.handle, "slow:main")
        assert code.name == "slow:main"


async def test_a_load_cut_short_by_a_stop_tells_its_reason(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin", lease=2.0)
        with pytest.raises(LeaseExpired):
            await supervisor.load(record.handle, "slow:main")
        record = await supervisor.open("other")
        async with trio.open_nursery() as nursery:

            async def load() -> None:
                with pytest.raises(SessionStopped, match="disposed"):
                    await supervisor.load(record.handle, "slow:main")

            nursery.start_soon(load)
            await trio.sleep(1)
            await supervisor.dispose(record.handle)


async def test_a_session_without_an_execution_ends_as_not_started(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin")
        assert await supervisor.dispose(record.handle) == NotStarted()


async def test_a_forged_handle_is_stale(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("plugin")
        for forged in (
            Handle(record.handle.key, 1, "0" * 32),
            Handle(record.handle.key, 2, record.handle.token),
            Handle(Key("other"), 1, record.handle.token),
        ):
            with pytest.raises(StaleSession):
                supervisor.renew(forged)


async def test_closing_stops_every_session(autojump_clock):
    async with stage() as s:
        async with s.supervisor() as supervisor:
            handles = []
            for name in ("a", "b", "c"):
                record = await supervisor.open(name)
                await supervisor.load(record.handle, "worker:main")
                handles.append(record.handle)
        for handle in handles:
            phase = supervisor.status(handle).phase
            assert isinstance(phase, Stopped)
            assert phase.stop.reason == "shutdown"
        with pytest.raises(Closed):
            await supervisor.open("d")


async def test_the_next_supervisor_knows_what_was(autojump_clock):
    async with stage() as s:
        async with s.supervisor() as supervisor:
            record = await supervisor.open("plugin", request="r")
            await supervisor.load(record.handle, "worker:main")
        async with s.supervisor() as supervisor:
            assert await supervisor.high_water("plugin") == 1
            again = await supervisor.open("plugin", request="r")
            assert isinstance(again.phase, Stopped)
            assert again.phase.stop.reason == "shutdown"
            assert not again.phase.recovered


async def test_what_a_crashed_supervisor_left_is_ended_by_the_next(autojump_clock):
    async with stage() as s:
        async with s.doomed() as supervisor:
            record = await supervisor.open("plugin")
            await supervisor.load(record.handle, "worker:main")
        async with s.supervisor() as supervisor:
            phase = supervisor.status(record.handle).phase
            assert isinstance(phase, Stopped)
            assert phase.recovered
            assert phase.stop.reason == "recovered"
            with pytest.raises(SessionStopped):
                supervisor.renew(record.handle)


async def test_a_live_execution_is_adopted_with_its_lease(autojump_clock):
    async with stage() as s:
        async with s.doomed(orphaned="adopt") as supervisor:
            record = await supervisor.open("plugin")
            await supervisor.load(record.handle, "worker:main")
            await trio.sleep(3)
        async with s.supervisor(orphaned="adopt") as supervisor:
            status = supervisor.status(record.handle)
            assert isinstance(status.phase, Loaded)
            assert status.remaining is not None
            assert 5.0 < status.remaining < 7.5
            supervisor.renew(record.handle)
            await trio.sleep(9)
            assert isinstance(supervisor.status(record.handle).phase, Loaded)
            await trio.sleep(2)
            with pytest.raises(LeaseExpired):
                supervisor.renew(record.handle)


async def test_drain_lets_sessions_end_and_stops_the_rest(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        short = await supervisor.open("short")
        await supervisor.load(short.handle, "short:main")
        long = await supervisor.open("long")
        await supervisor.load(long.handle, "worker:main")
        assert await supervisor.drain(5.0) == (long.handle,)
        with pytest.raises(Closed):
            await supervisor.open("more")


async def test_an_open_that_close_overtakes_is_said_before_it_is_said_to_stop(autojump_clock):
    channel = EventChannel()
    said: list[str] = []

    async def hear(subscription: Subscription[SupervisionEvent]) -> None:
        said.extend([type(envelope.event).__name__ async for envelope in subscription])

    async with stage() as s, trio.open_nursery() as nursery:
        nursery.start_soon(hear, channel.subscribe(SupervisionEvent))
        async with s.supervisor(events=channel) as supervisor:
            s.faulty.hold()
            with trio.move_on_after(1):
                await supervisor.open("plugin")
            nursery.start_soon(_release, s.faulty)
        channel.end()
    assert said == ["SessionOpened", "SessionStopping", "SessionStopped", "SupervisorClosed"]


async def _release(store: FaultyStore) -> None:
    await trio.sleep(1)
    store.release()


@pytest.mark.parametrize("number", [5, 6])
async def test_close_raises_that_the_last_ends_could_not_be_journaled(number, autojump_clock):
    async with stage() as s:
        with pytest.raises(ExceptionGroup) as raised:
            async with s.supervisor(store_faults={"commit": {number: Fails("lost")}}) as supervisor:
                record = await supervisor.open("plugin")
                await supervisor.load(record.handle, "worker:main")
        assert [type(leaf) for leaf in leaves(raised.value)] == [StoreFailed]


async def test_a_launch_that_failed_and_may_have_left_a_child_is_unconfirmed(autojump_clock):
    faults = {"launched": {1: Fails("lost")}, "kill": {1: Never()}}
    async with stage() as s:
        with pytest.raises(ExceptionGroup) as raised:
            async with s.supervisor(faults=faults) as supervisor:
                record = await supervisor.open("plugin")
                with pytest.raises(TerminationUnconfirmed):
                    await supervisor.load(record.handle, "worker:main")
                with pytest.raises(TerminationUnconfirmed):
                    await supervisor.dispose(record.handle)
                with pytest.raises(SupervisorPoisoned):
                    await supervisor.open("plugin", expected_generation=1)
        assert {type(leaf) for leaf in leaves(raised.value)} == {TerminationUnconfirmed}
        await trio.sleep(60)  # the child ends by its launch's deadline


async def test_code_that_is_heard_of_while_it_is_looked_at_goes_on(autojump_clock):
    programs = {"worker:main": Program(beats=3.0)}
    faults = {"stack": {1: Slow(1.5)}}
    async with (
        stage(programs=programs) as s,
        s.supervisor(faults=faults, hang_timeout=2.0) as supervisor,
    ):
        record = await supervisor.open("plugin")
        await supervisor.load(record.handle, "worker:main")
        await trio.sleep(4)  # silent at 2, heard at 3, looked at until 3.5
        assert isinstance(supervisor.status(record.handle).phase, Loaded)


async def test_nothing_is_served_if_what_was_left_could_not_be_journaled(autojump_clock):
    async with stage() as s:
        async with s.doomed() as supervisor:
            await supervisor.open("plugin")
        with pytest.raises(ExceptionGroup) as raised:
            async with s.supervisor(store_faults={"commit": {1: Fails("lost")}}):
                raise AssertionError
        assert StoreFailed in {type(leaf) for leaf in leaves(raised.value)}


async def test_drain_stops_what_an_open_in_flight_still_brings(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor, trio.open_nursery() as nursery:
        s.faulty.hold()
        with trio.move_on_after(1):
            await supervisor.open("plugin", request="r")
        nursery.start_soon(_release, s.faulty)
        (left,) = await supervisor.drain(3.0)
        phase = supervisor.status(left).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "shutdown"


async def test_a_launch_that_is_cut_short_ends_as_never_started(autojump_clock):
    async with (
        stage() as s,
        s.supervisor(faults={"launched": {1: Never()}}) as supervisor,
        trio.open_nursery() as nursery,
    ):
        record = await supervisor.open("plugin")
        nursery.start_soon(_stopped, supervisor, record.handle)
        await trio.sleep(1)
        assert isinstance(await supervisor.dispose(record.handle), NotStarted)


async def _stopped(supervisor: Supervisor, handle: Handle) -> None:
    with pytest.raises(SessionStopped):
        await supervisor.load(handle, "worker:main")
