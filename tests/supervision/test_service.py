"""A service keeps a key running, session after session."""

from __future__ import annotations

import pytest
import trio
from supervisor_story import stage

from trio_reactor import Closed, EventChannel
from trio_reactor.supervision import (
    Exited,
    ExitStatus,
    Loaded,
    RestartPolicy,
    RestartsExhausted,
    StaleSession,
    Stopped,
    StoreFailed,
    SupervisorPoisoned,
    open_service,
)
from trio_reactor.supervision.events import (
    ServiceEnded,
    ServiceGaveUp,
    ServiceRestarting,
    ServiceStarted,
)
from trio_reactor.supervision.simulation import Program
from trio_reactor.testing.faults import Fails

PROGRAMS = {
    "crashing:main": Program(runs_for=1.0, exit=ExitStatus(code=3)),
    "mute:main": Program(beats=0.5, silent_after=2.0),
}
CALM = RestartPolicy(pause=1.0, jitter=0.0, factor=2.0, max_restarts=3, window=100.0)


def told(subscription) -> list[object]:
    kinds = (ServiceStarted, ServiceRestarting, ServiceGaveUp, ServiceEnded)
    found = []
    while True:
        try:
            event = subscription.receive_nowait().event
        except (trio.WouldBlock, trio.EndOfChannel):
            return found
        if isinstance(event, kinds):
            found.append(event)


async def test_a_key_is_kept_running_beyond_its_lease_and_ended_with_the_block(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        async with open_service(supervisor, "plugin", "worker:main") as service:
            record = await service.wait_running()
            assert isinstance(record.phase, Loaded)
            await trio.sleep(500)
            assert service.running
            assert service.record == record
        assert isinstance(supervisor.status(record.handle).phase, Stopped)
        assert supervisor.status(record.handle).phase.stop.reason == "disposed"
        assert (await service.wait_ended()).why == "left"
        assert supervisor.statistics().sessions == 0


async def test_what_fails_is_restarted_after_growing_pauses_and_then_given_up(autojump_clock):
    async with stage(programs=PROGRAMS) as s:
        channel = EventChannel(world=s.world)
        async with s.supervisor(events=channel) as supervisor:
            with channel.observe(lambda: None) as (_, subscription):
                async with open_service(
                    supervisor, "plugin", "crashing:main", policy=CALM
                ) as service:
                    with pytest.raises(RestartsExhausted) as raised:
                        await service.wait_ended()
                    assert (raised.value.restarts, raised.value.why) == (3, "exited")
                    with pytest.raises(RestartsExhausted):
                        await service.wait_running()
                    other = await supervisor.open("other")  # the others go on
                    await supervisor.dispose(other.handle)
                events = told(subscription)
    assert type(events[0]) is ServiceStarted
    again = [event for event in events if isinstance(event, ServiceRestarting)]
    assert [(event.generation, event.pause) for event in again] == [(1, 1.0), (2, 2.0), (3, 4.0)]
    assert isinstance(events[-2], ServiceGaveUp)
    assert events[-1] == ServiceEnded(service.key, "gave-up", 3)


async def test_a_service_that_was_given_up_says_so_when_its_block_is_left(autojump_clock):
    async with stage(programs=PROGRAMS) as s, s.supervisor() as supervisor:
        with pytest.RaisesGroup(RestartsExhausted, allow_unwrapped=True, flatten_subgroups=True):
            async with open_service(supervisor, "plugin", "crashing:main", policy=CALM):
                await trio.sleep(60)


async def test_code_that_ended_well_is_done_unless_it_is_always_restarted(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        async with open_service(supervisor, "once", "short:main") as service:
            end = await service.wait_ended()
            assert end.why == "exited"
            assert end.restarts == 0
            assert end.last is not None
            assert end.last.termination == Exited(ExitStatus(code=0))
            with pytest.raises(Closed):
                await service.wait_running()
        async with open_service(
            supervisor, "ever", "short:main", restart="always", policy=CALM
        ) as service:
            await trio.sleep(6)
            assert service.restarts == 2


@pytest.mark.parametrize(
    ("work", "hang", "why"),
    [("broken:main", None, "load-failed"), ("mute:main", 2.0, "unresponsive")],
)
async def test_whatever_ends_by_itself_is_restarted(autojump_clock, work, hang, why):
    async with (
        stage(programs=PROGRAMS) as s,
        s.supervisor() as supervisor,
        open_service(supervisor, "plugin", work, policy=CALM, hang_timeout=hang) as service,
    ):
        with pytest.raises(RestartsExhausted) as raised:
            await service.wait_ended()
        assert raised.value.why == why


@pytest.mark.parametrize("how", ["disposed", "superseded"])
async def test_what_somebody_ends_is_not_restarted(autojump_clock, how):
    async with stage() as s, s.supervisor() as supervisor:
        async with open_service(supervisor, "plugin", "worker:main", restart="always") as service:
            record = await service.wait_running()
            if how == "disposed":
                await supervisor.dispose(record.handle)
            else:
                await supervisor.open("plugin", expected_generation=1)
            assert (await service.wait_ended()).why == how


async def test_a_key_that_somebody_opens_during_a_pause_is_his(autojump_clock):
    async with stage(programs=PROGRAMS) as s, s.supervisor() as supervisor:
        policy = RestartPolicy(pause=20.0)
        async with open_service(supervisor, "plugin", "crashing:main", policy=policy) as service:
            await trio.sleep(3)
            assert not service.running
            his = await supervisor.open("plugin", expected_generation=1, lease=1000.0)
            assert (await service.wait_ended()).why == "superseded"
        assert supervisor.status(his.handle).remaining


async def test_a_service_takes_over_a_key_with_its_high_water(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        before = await supervisor.open("plugin")
        async with open_service(supervisor, "plugin", "worker:main") as service:
            record = await service.wait_running()
            assert record.handle.generation == 2
            assert supervisor.status(before.handle).phase.stop.reason == "superseded"


@pytest.mark.parametrize("write", range(1, 6))
async def test_a_service_of_a_poisoned_supervisor_ends_with_that(autojump_clock, write):
    async with stage(programs=PROGRAMS) as s:
        received = False
        with pytest.RaisesGroup(StoreFailed, allow_unwrapped=True, flatten_subgroups=True):
            async with s.supervisor(store_faults={"commit": {write: Fails()}}) as supervisor:
                async with open_service(
                    supervisor, "plugin", "crashing:main", policy=CALM
                ) as service:
                    with pytest.raises(SupervisorPoisoned):
                        await service.wait_ended()
                    received = True
        assert received


async def test_a_service_that_is_cancelled_at_any_moment_leaves_nothing_behind(autojump_clock):
    for tick in range(60):
        async with stage(programs=PROGRAMS) as s, s.supervisor() as supervisor:
            with trio.move_on_after(tick * 0.05 + 0.001):
                async with open_service(
                    supervisor, "plugin", "crashing:main", restart="always", policy=CALM
                ) as service:
                    await trio.sleep_forever()
            assert supervisor.statistics().sessions == 0
            assert (await service.wait_ended()).why == "left"


async def test_its_channel_is_the_newest_sessions(autojump_clock):
    programs = {"echo:main": Program(echoes=True)}
    async with stage(programs=programs) as s, s.supervisor() as supervisor:
        async with open_service(supervisor, "plugin", "echo:main") as service:
            with pytest.raises(StaleSession):
                service.channel  # noqa: B018 - it is asked for
            await service.wait_running()
            await service.channel.send_all(b"hello")
            assert await service.channel.receive_some() == b"hello"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"lease": float("nan")}, "lease"),
        ({"lease": 3601.0}, "lease"),
        ({"hang_timeout": 0.0}, "hang_timeout"),
        ({"restart": "sometimes"}, "restart"),
        ({"work": "no specifier"}, "package.module:callable"),
        ({"key": ""}, "identity"),
    ],
)
async def test_what_cannot_be_is_named_before_anything_is_opened(autojump_clock, arguments, named):
    async with stage() as s, s.supervisor() as supervisor:
        with pytest.raises(ValueError, match=named):
            async with open_service(
                supervisor, **{"key": "plugin", "work": "worker:main", **arguments}
            ):
                pytest.fail("it was opened")
        assert await supervisor.high_water("plugin") is None


async def test_whoever_waits_for_a_stop_is_told_though_the_record_is_forgotten(autojump_clock):
    async with stage() as s, s.supervisor(max_stopped=1) as supervisor:
        first = await supervisor.open("one", lease=1.0)
        second = await supervisor.open("two", lease=2.0)
        ends = []
        async with trio.open_nursery() as nursery:
            for record in (first, second):

                async def wait(handle=record.handle):
                    ends.append(await supervisor.wait_stopped(handle))

                nursery.start_soon(wait)
                nursery.start_soon(wait)
        assert [end.stop.reason for end in ends] == ["expired"] * 4
        found = []
        for record in (first, second):
            try:
                found.append((await supervisor.wait_stopped(record.handle)).stop.reason)
            except StaleSession:
                found.append("forgotten")
        assert sorted(found) == ["expired", "forgotten"]
