"""The journal fails, or hangs, at each write of a life."""

from __future__ import annotations

import pytest
import trio
from supervisor_story import stage

from trio_reactor.supervision import (
    Exited,
    LeaseExpired,
    Open,
    SessionRecord,
    SessionStopped,
    StoreFailed,
    Supervisor,
    SupervisorPoisoned,
)
from trio_reactor.supervision.model.records import Stopped, Stopping
from trio_reactor.testing.faults import Fails, Fault, Never

WRITES = ("open", "launching", "registered", "loaded", "stopping", "stopped")


async def healthy(supervisor: Supervisor) -> SessionRecord:
    record = await supervisor.open("healthy")
    await supervisor.load(record.handle, "worker:main")
    return record


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("write", range(len(WRITES)), ids=WRITES)
async def test_a_write_that_fails_poisons_and_every_execution_ends_at_its_lease(
    autojump_clock, write, done
):
    fault: Fault = Fails("lost", done=done)
    # Four writes are those of the session that is healthy by then.
    with pytest.RaisesGroup(StoreFailed, allow_unwrapped=True, flatten_subgroups=True):
        async with (
            stage() as s,
            s.supervisor(store_faults={"commit": {5 + write: fault}}) as supervisor,
        ):
            well = await healthy(supervisor)
            with pytest.raises((StoreFailed, SupervisorPoisoned, SessionStopped)):
                record = await supervisor.open("failing")
                await supervisor.load(record.handle, "worker:main")
                await supervisor.dispose(record.handle)
                supervisor.renew(well.handle)
            with pytest.raises(SupervisorPoisoned):
                await supervisor.wait_failed()
            for asked in (
                lambda: supervisor.open("more"),
                lambda: supervisor.load(well.handle, "worker:main"),
            ):
                with pytest.raises(SupervisorPoisoned):
                    await asked()
            with pytest.raises(SupervisorPoisoned):
                supervisor.renew(well.handle)
            # What still works.
            assert await supervisor.high_water("healthy") == 1
            assert supervisor.status(well.handle).remaining is not None
            await trio.sleep(11)  # longer than the lease
            status = supervisor.status(well.handle)
            assert isinstance(status.phase, Stopping)
            assert not status.journaled
            assert all(run.until is not None for run in s.machine.witness.runs)
            assert isinstance(await supervisor.dispose(well.handle), Exited)


@pytest.mark.parametrize("write", range(1, 5))
async def test_a_journal_that_hangs_keeps_no_execution_alive_beyond_its_lease(
    autojump_clock, write
):
    """A commit has to end by itself, but until it does nothing waits for it that must not."""
    async with stage() as s, s.supervisor(store_faults={"commit": {write: Never()}}) as supervisor:
        try:
            with trio.move_on_after(30):
                record = await supervisor.open("hanging", request="r", lease=5.0)
                if write > 1:
                    with pytest.raises(LeaseExpired):
                        await supervisor.load(record.handle, "worker:main")
                    assert trio.current_time() < 6
                    await trio.sleep(4)  # the grace, and what a kill takes
            assert all(run.until is not None for run in s.machine.witness.runs)
            if write > 1:
                status = supervisor.status(record.handle)
                assert isinstance(status.phase, Stopping)
                assert not status.journaled
        finally:
            s.faulty.release()
        await trio.sleep(10)
        found = await supervisor.open("hanging", request="r")
        assert isinstance(found.phase, Stopped)
        assert found.phase.stop.reason == "expired"


async def test_a_record_that_is_refused_is_its_own_sessions_fault_alone(autojump_clock):
    async with stage() as s, s.supervisor(store_faults={"record": {2: Fails()}}) as supervisor:
        well = await supervisor.open("healthy")
        with pytest.raises(Exception):  # noqa: B017, PT011 - what the store refused it for
            await supervisor.open("refused")
        again = await supervisor.open("refused")
        assert isinstance(again.phase, Open)
        await supervisor.load(again.handle, "worker:main")
        supervisor.renew(well.handle)
