"""Real processes under a whole supervisor."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from process_stage import code

from trio_reactor.supervision import (
    Killed,
    LocalProcesses,
    MemoryStore,
    PythonCode,
    SessionStopped,
    Stopped,
    SupervisorOptions,
    open_supervisor,
)
from trio_reactor.supervision.supervisor.alarms import Alarm, Alarms, Due

SPINNING = """
def main(session):
    session.receive()
    while True:
        pass
"""


async def test_silent_code_is_stopped_as_unresponsive_and_it_is_told_where_it_was(
    tmp_path: Path,
) -> None:
    (tmp_path / "spinning.py").write_text(SPINNING)
    options = SupervisorOptions(grace=0.1, hang_timeout=0.8)
    async with open_supervisor(MemoryStore(), LocalProcesses(), options=options) as supervisor:
        handle = (await supervisor.open("spinning")).handle
        await supervisor.load(handle, PythonCode("spinning:main", path=(str(tmp_path),)))
        await supervisor.channel(handle).send_all(b"go")
        with trio.fail_after(30):
            stopped = await supervisor.wait_stopped(handle)
        assert stopped.stop.reason == "unresponsive"
        assert "spinning.py" in (stopped.stop.stack or "")
        assert not isinstance(stopped.termination, Killed), "SIGTERM's default action ends it"
        with pytest.raises(SessionStopped, match="unresponsive"):
            supervisor.renew(handle)
        assert isinstance(supervisor.status(handle).phase, Stopped)


async def test_what_its_guard_ended_at_its_deadline_has_expired_whoever_notices_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    after = Alarms.after

    def late(self: Alarms, seconds: float, due: Due) -> Alarm:
        return after(self, seconds + 5, due)

    monkeypatch.setattr(Alarms, "after", late)
    async with open_supervisor(MemoryStore(), LocalProcesses()) as supervisor:
        handle = (await supervisor.open("sleeping", lease=1.0)).handle
        await supervisor.load(handle, code("sleep"))
        with trio.fail_after(4):
            stopped = await supervisor.wait_stopped(handle)
        assert stopped.stop.reason == "expired"
