"""Executions that do not keep their promises harm their own session, and no other."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from supervisor_story import Stage, stage

from trio_reactor.supervision import (
    Exited,
    ExitStatus,
    Loaded,
    SessionStopped,
    Stopped,
    Supervisor,
    SupervisorOptions,
    open_supervisor,
)
from trio_reactor.supervision.simulation import SimulatedExecution


class Lie:
    """A unit of which one attribute is not as it should be."""

    def __init__(self, unit: Any, lies: dict[str, Any]) -> None:
        self._unit = unit
        self._lies = lies

    def __getattr__(self, name: str) -> Any:
        if name in self._lies:
            return self._lies[name](self._unit)
        return getattr(self._unit, name)


class Liar(SimulatedExecution):
    """Lies about the children of one key only."""

    lies: dict[str, Any]

    def launch(self, order, /):  # type: ignore[no-untyped-def, override]
        inner = super().launch(order)
        if order.key.identity != "liar":
            return inner

        @asynccontextmanager
        async def lying() -> AsyncGenerator[Any]:
            async with inner as unit:
                yield Lie(unit, self.lies)

        return lying()


@asynccontextmanager
async def lied_to(s: Stage, **lies: Any) -> AsyncGenerator[Supervisor]:
    execution = Liar(s.machine)
    execution.lies = lies
    options = SupervisorOptions(lease=10.0, grace=1.0, confirmation_timeout=2.0)
    async with open_supervisor(s.store, execution, world=s.world, options=options) as supervisor:
        yield supervisor


def raises(_: Any) -> Any:
    raise RuntimeError("a defect of the adapter")


def garbage_once_ended(unit: Any) -> Any:
    return None if unit.exit is None else object()


async def test_an_exit_that_cannot_be_recorded_is_recorded_as_unknown(autojump_clock):
    async with stage() as s, lied_to(s, exit=garbage_once_ended) as supervisor:
        liar = (await supervisor.open("liar")).handle
        honest = (await supervisor.open("honest")).handle
        await supervisor.load(liar, "worker:main")
        await supervisor.load(honest, "worker:main")
        await supervisor.dispose(liar)
        phase = supervisor.status(liar).phase
        assert isinstance(phase, Stopped)
        assert phase.termination == Exited(ExitStatus())
        supervisor.renew(honest)  # nothing is poisoned
        assert isinstance(supervisor.status(honest).phase, Loaded)


async def test_an_unrecordable_exit_that_came_by_itself_is_recorded_as_unknown(autojump_clock):
    async with stage() as s, lied_to(s, exit=garbage_once_ended) as supervisor:
        liar = (await supervisor.open("liar")).handle
        honest = (await supervisor.open("honest")).handle
        await supervisor.load(liar, "short:main")
        await trio.sleep(2)
        phase = supervisor.status(liar).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "exited"
        assert phase.stop.exit == ExitStatus()
        supervisor.renew(honest)


async def test_code_whose_sign_of_life_cannot_be_read_does_not_end_the_others(autojump_clock):
    looked = []

    def heard_at(unit: Any) -> float:
        looked.append(trio.current_time())
        if len(looked) > 1:
            raise RuntimeError("a defect of the adapter")
        return -1e9

    async with stage() as s, lied_to(s, heard_at=heard_at) as supervisor:
        liar = (await supervisor.open("liar")).handle
        honest = (await supervisor.open("honest")).handle
        await supervisor.load(honest, "worker:main")
        await supervisor.load(liar, "worker:main", hang_timeout=1.0)
        await trio.sleep(4)
        phase = supervisor.status(liar).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "unresponsive"
        assert isinstance(supervisor.status(honest).phase, Loaded)
        supervisor.renew(honest)


@pytest.mark.parametrize("name", ["interrupt", "kill"])
async def test_a_signal_that_raises_does_not_keep_a_stop_from_being_confirmed(autojump_clock, name):
    async with stage() as s, lied_to(s, **{name: lambda _: lambda: raises(None)}) as supervisor:
        liar = (await supervisor.open("liar")).handle
        await supervisor.load(liar, "worker:main")
        assert await supervisor.dispose(liar)
        honest = (await supervisor.open("honest")).handle
        supervisor.renew(honest)


async def test_a_child_that_cannot_be_told_its_deadline_is_its_own_sessions_fault(autojump_clock):
    told = []

    def renew(unit: Any) -> Any:
        def once(deadline: float) -> None:
            told.append(deadline)
            if len(told) > 1:
                raise RuntimeError("a defect of the adapter")
            unit.renew(deadline)

        return once

    async with stage() as s, lied_to(s, renew=renew) as supervisor:
        liar = (await supervisor.open("liar")).handle
        honest = (await supervisor.open("honest")).handle
        await supervisor.load(liar, "worker:main")
        await supervisor.load(honest, "worker:main")
        with pytest.raises(SessionStopped, match="unreachable"):
            supervisor.renew(liar)
        stopped = await supervisor.wait_stopped(liar)
        assert stopped.stop.failure is not None
        assert isinstance(stopped.termination, Exited)
        supervisor.renew(honest)
        assert isinstance(supervisor.status(honest).phase, Loaded)
