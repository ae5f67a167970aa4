"""What the type checkers know of supervision; checked by `make check`, never run."""

from __future__ import annotations

from typing import Never, assert_type

from trio.abc import HalfCloseableStream

from trio_reactor.supervision import (
    CodeIdentity,
    Execution,
    Handle,
    MemoryStore,
    Service,
    ServiceEnd,
    SessionRecord,
    SessionStatus,
    Stopped,
    Supervisor,
    SupervisorStatistics,
    Termination,
    open_service,
    open_supervisor,
)


async def life(execution: Execution) -> None:
    async with open_supervisor(MemoryStore(), execution) as supervisor:
        assert_type(supervisor, Supervisor)
        record = await supervisor.open("plugin")
        assert_type(record, SessionRecord)
        assert_type(await supervisor.load(record.handle, "worker:main"), CodeIdentity)
        assert_type(supervisor.renew(record.handle), float)
        assert_type(supervisor.channel(record.handle), HalfCloseableStream)
        assert_type(supervisor.status(record.handle), SessionStatus)
        assert_type(await supervisor.wait_stopped(record.handle), Stopped)
        assert_type(await supervisor.dispose(record.handle), Termination)
        assert_type(await supervisor.high_water("plugin"), int | None)
        assert_type(await supervisor.drain(1.0), tuple[Handle, ...])
        assert_type(supervisor.statistics(), SupervisorStatistics)


async def kept(supervisor: Supervisor) -> None:
    async with open_service(supervisor, "plugin", "worker:main", restart="always") as service:
        assert_type(service, Service)
        assert_type(await service.wait_running(), SessionRecord)
        assert_type(await service.wait_ended(), ServiceEnd)
        assert_type(service.record, SessionRecord | None)


async def poisoned(supervisor: Supervisor) -> None:
    assert_type(await supervisor.wait_failed(), Never)
