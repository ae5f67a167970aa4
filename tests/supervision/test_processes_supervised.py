"""Real processes under a whole supervisor."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

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
