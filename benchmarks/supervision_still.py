"""An execution whose children do nothing, to weigh what a supervisor itself keeps of each."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import final

import trio

from trio_reactor.supervision import (
    CodeIdentity,
    Enforced,
    ExitStatus,
    Output,
    OutputStatistics,
)
from trio_reactor.supervision.execution.protocol import LaunchOrder, Unit
from trio_reactor.supervision.model.child import Child, Orphan

__all__ = ["StillExecution"]

_CHILD = Child()
_ENFORCED = Enforced()


@final
class _NoOutput:
    def tail(self) -> bytes:
        return b""

    def statistics(self) -> OutputStatistics:
        return OutputStatistics(0, 0)


_OUTPUT = _NoOutput()


@final
class _StillUnit:
    __slots__ = ("_ended", "deadline", "exit", "heard_at")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.exit: ExitStatus | None = None
        self.heard_at = trio.current_time()
        self._ended = trio.Event()

    @property
    def child(self) -> Child:
        return _CHILD

    @property
    def enforced(self) -> Enforced:
        return _ENFORCED

    @property
    def channel(self) -> trio.abc.HalfCloseableStream:
        raise NotImplementedError  # nobody speaks to a child that does nothing

    @property
    def output(self) -> Output:
        return _OUTPUT

    async def start(self) -> CodeIdentity:
        await trio.lowlevel.checkpoint()
        return CodeIdentity("still:main", f"sha256:{'0' * 64}")

    def renew(self, deadline: float, /) -> None:
        self.deadline = deadline

    def interrupt(self) -> None:
        self.exit = ExitStatus(signal=15)
        self._ended.set()

    kill = interrupt

    async def wait_exited(self) -> ExitStatus:
        await self._ended.wait()
        assert self.exit is not None
        return self.exit

    async def wait_lost(self) -> None:
        await self._ended.wait()

    async def stack(self) -> str:
        await trio.lowlevel.checkpoint()
        return ""


@final
class StillExecution:
    """Makes children that do nothing, until they are asked to end."""

    boot_id = ""

    @asynccontextmanager
    async def launch(self, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        """Make one."""
        await trio.lowlevel.checkpoint()
        unit = _StillUnit(order.launch.by)
        try:
            yield unit
        finally:
            unit.interrupt()

    async def recover(self, _: Orphan, /) -> ExitStatus | None:
        """There is none: they go with this process."""
        await trio.lowlevel.checkpoint()
        return None
