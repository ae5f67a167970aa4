"""What comes late: a lease that ran out while the machine slept, an open that outlasts a drain."""

from __future__ import annotations

import trio
from supervisor_story import stage

from trio_reactor.supervision import Handle, SessionRecord, Stopped, Stopping
from trio_reactor.supervision.supervisor.health import Health


async def test_a_lease_that_ran_out_while_the_machine_slept_is_seen_by_whoever_looks(
    autojump_clock, monkeypatch
):
    async with stage() as s, s.supervisor() as supervisor:
        looked = await supervisor.open("looked")
        asked = await supervisor.open("asked", request="r")
        disposed = await supervisor.open("disposed")
        superseded = await supervisor.open("superseded")
        boottime = s.world.boottime
        monkeypatch.setattr(s.world, "boottime", lambda: boottime() + 3600.0)
        phase = supervisor.status(looked.handle).phase
        assert isinstance(phase, Stopping)
        assert phase.stop.reason == "expired"
        found = await supervisor.open("asked", request="r")
        assert found.handle == asked.handle
        assert isinstance(found.phase, Stopping | Stopped)
        await supervisor.dispose(disposed.handle)
        await supervisor.open("superseded", expected_generation=1)
        for record in (disposed, superseded):
            over = supervisor.status(record.handle).phase
            assert isinstance(over, Stopped)
            assert over.stop.reason == "expired"


async def test_an_open_that_outlasts_a_drain_is_stopped_and_named_with_the_rest(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        late: list[SessionRecord] = []
        drained: list[tuple[Handle, ...]] = []

        async def open_late() -> None:
            late.append(await supervisor.open("late"))

        async def drain() -> None:
            drained.append(await supervisor.drain(1.0))

        async with trio.open_nursery() as nursery:
            s.faulty.hold()
            nursery.start_soon(open_late)
            await trio.sleep(0.1)
            nursery.start_soon(drain)
            await trio.sleep(5)  # far beyond the timeout
            assert not drained
            s.faulty.release()
        assert drained == [(late[0].handle,)]
        assert isinstance(supervisor.status(late[0].handle).phase, Stopped)


async def test_a_drain_waits_for_what_is_stopping_already(autojump_clock):
    async with stage() as s, s.supervisor(grace=3.0) as supervisor:
        record = await supervisor.open("stubborn")
        await supervisor.load(record.handle, "stubborn:main")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.dispose, record.handle)
            await trio.sleep(0.1)
            assert await supervisor.drain(0.5) == ()
            assert isinstance(supervisor.status(record.handle).phase, Stopped)


def test_failures_that_are_too_many_to_keep_are_counted() -> None:
    first: list[BaseException] = []

    async def main() -> None:
        health = Health("it", first.append)
        for number in range(300):
            health.poison(OSError(number, "gone"))
        *kept, more = health.failures
        assert len(first) == 1
        assert getattr(more, "missed", None) == 300 - len(kept)

    trio.run(main)
