"""What is said over a whole life: little, and no secret."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from process_stage import HERE, code

from trio_reactor.channel import EventChannel
from trio_reactor.errors import ReactorError
from trio_reactor.supervision import (
    Loaded,
    Loading,
    LocalProcesses,
    SqliteStore,
    Stopping,
    Supervisor,
    SupervisorOptions,
    open_service,
    open_supervisor,
)
from trio_reactor.supervision.model.child import Child, Launch

KILLED = """
import os, signal, sys, trio
from pathlib import Path
from trio_reactor.supervision import *
async def main(path, here):
    options = SupervisorOptions(orphaned="adopt")
    async with open_supervisor(SqliteStore(Path(path)), LocalProcesses(), options=options) as s:
        for name in ("echo", "sleep"):
            record = await s.open(name, request=f"of {name}", lease=60.0)
            await s.load(record.handle, PythonCode(f"process_code:{name}", path=(here,)))
        os.kill(os.getpid(), signal.SIGKILL)
trio.run(main, *sys.argv[1:])
"""


def secrets_of(phase: object) -> set[str]:
    """What is not to be shown of a phase."""
    match phase:
        case (
            Loading(launch=Launch(nonce=nonce), child=child)
            | Loaded(launch=Launch(nonce=nonce), child=child)
        ):
            found = {nonce}
            if isinstance(child, Child):
                found |= {child.secret, child.address}
            return found - {""}
        case Stopping(before=before):
            return secrets_of(before)
        case _:
            return set()


@pytest.mark.parametrize("orphaned", ["kill", "adopt"])
async def test_over_a_whole_life_no_secret_is_told_and_little_is_logged(
    tmp_path: Path, orphaned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_reactor")
    path = tmp_path / "journal"
    await trio.run_process(
        [sys.executable, "-c", KILLED, str(path), HERE], check=False, capture_stderr=True
    )
    secrets: set[str] = set()
    said: list[str] = []
    channel = EventChannel()

    async def note(supervisor: Supervisor, *handles: Any) -> None:
        """Learn what is secret, and note what is shown."""
        for handle in handles:
            status = supervisor.status(handle)
            secrets.add(handle.token)
            secrets.update(secrets_of(status.phase))
            said.extend([repr(handle), str(handle), repr(status), str(status.record)])
        said.extend([repr(supervisor), repr(supervisor.statistics()), repr(supervisor.options)])

    async def fails(supervisor: Supervisor, operation: Any) -> None:
        with pytest.raises((ReactorError, TypeError)) as told:
            await operation()
        said.extend([str(told.value), repr(told.value), repr(vars(told.value))])

    with channel.subscribe() as events:
        options = SupervisorOptions(grace=0.2, orphaned=orphaned, hang_timeout=None)
        async with open_supervisor(
            SqliteStore(path), LocalProcesses(), options=options, events=channel
        ) as supervisor:
            for name in ("echo", "sleep"):
                left = await supervisor.open(name, request=f"of {name}", expected_generation=1)
                await note(supervisor, left.handle)
                if orphaned == "adopt":
                    said.append(await supervisor.stack(left.handle))
            mine = (await supervisor.open("mine")).handle
            await supervisor.load(mine, code("echo"))
            await note(supervisor, mine)
            said.append(await supervisor.stack(mine))
            silent = (await supervisor.open("silent")).handle
            await supervisor.load(silent, code("spin"), hang_timeout=0.4)
            await note(supervisor, silent)
            await supervisor.wait_stopped(silent)
            brief = (await supervisor.open("brief", lease=0.3)).handle
            await supervisor.load(brief, code("sleep"))
            await note(supervisor, brief)
            await supervisor.wait_stopped(brief)
            bad = (await supervisor.open("bad")).handle
            await note(supervisor, bad)
            for operation in (
                lambda: supervisor.load(bad, "no_such_module:main"),
                lambda: supervisor.load(brief, "no_such_module:main"),
                lambda: supervisor.load(mine, "something:else"),
                lambda: supervisor.open("mine"),
                lambda: supervisor.dispose(msgspec.structs.replace(mine, generation=9)),
                lambda: supervisor.dispose(mine.token),  # type: ignore[arg-type]
            ):
                await fails(supervisor, operation)
            async with open_service(supervisor, "kept", code("echo")) as service:
                kept = await service.wait_running()
                await note(supervisor, kept.handle)
                said.append(repr(service))
            await supervisor.dispose(mine)
            await note(supervisor, mine, silent, brief, bad)
        said.extend([repr(supervisor), repr(supervisor.statistics())])
        while True:
            try:
                envelope = events.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                break
            said.append(repr(envelope))
            said.append(msgspec.json.encode(envelope.event, enc_hook=repr).decode())
    assert len(secrets) >= 10, "it is known what is secret"
    logged = [record.getMessage() for record in caplog.records]
    logged += [str(record.exc_info) + str(record.args) for record in caplog.records]
    assert any("SessionStopped" in text for text in said)
    for text in (*said, *logged):
        for secret in secrets:
            assert secret not in text
    loud = [each for each in caplog.records if each.levelno > logging.INFO]
    assert loud == []
    assert [each for each in caplog.records if each.levelno == logging.INFO] == []
