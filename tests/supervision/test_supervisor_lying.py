"""Executions that do not keep to what they promise: the fault is their own session's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext

import pytest
import trio
from supervisor_story import stage

from trio_reactor import ReactorError
from trio_reactor.supervision import (
    Killed,
    SupervisorOptions,
    SupervisorPoisoned,
    TerminationUnconfirmed,
    open_supervisor,
)
from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.model.child import Child
from trio_reactor.supervision.model.records import Loaded, Stopped
from trio_reactor.supervision.model.work import CodeIdentity
from trio_reactor.supervision.simulation import SimulatedExecution

HUGE = "x" * 10_000_000


class LyingUnit:
    """A unit of which some attributes are others."""

    def __init__(self, unit: object, lies: dict[str, object]) -> None:
        self._unit, self._lies = unit, lies

    def __getattr__(self, name: str) -> object:
        return self._lies[name] if name in self._lies else getattr(self._unit, name)


class LyingExecution:
    """An execution whose first unit lies."""

    def __init__(self, execution: SimulatedExecution, lies: dict[str, object]) -> None:
        self._execution, self._lies = execution, lies

    def __getattr__(self, name: str) -> object:
        return getattr(self._execution, name)

    @asynccontextmanager
    async def launch(self, order: LaunchOrder) -> AsyncGenerator[object]:
        lies, self._lies = self._lies, {}
        async with self._execution.launch(order) as unit:
            yield LyingUnit(unit, lies)


def answers(value: object) -> Callable[[], object]:
    async def start() -> object:
        await trio.lowlevel.checkpoint()
        return value

    return start


@pytest.mark.parametrize(
    "lies",
    [
        {"start": answers(object())},
        {"start": answers(None)},
        {"start": answers(CodeIdentity(HUGE, ""))},
        {"start": answers(CodeIdentity("\ud800", ""))},
        {"start": trio.sleep_forever},
        {"child": Child(None, HUGE, "")},
        {"child": Child(None, "\ud800", "")},
    ],
    ids=["garbage", "nothing", "huge", "surrogate", "hangs", "huge-child", "surrogate-child"],
)
async def test_what_a_child_says_that_cannot_be_recorded_ends_its_session_alone(
    lies, autojump_clock
):
    async with stage() as s:
        execution = LyingExecution(SimulatedExecution(s.machine), lies)
        options = SupervisorOptions(lease=100.0, grace=1.0, confirmation_timeout=2.0)
        async with open_supervisor(
            s.store,
            execution,  # type: ignore[arg-type]
            world=s.world,
            options=options,
        ) as sup:
            liar = (await sup.open("liar")).handle
            with pytest.raises(ReactorError):
                await sup.load(liar, "worker:main")
            await sup.dispose(liar)
            phase = sup.status(liar).phase
            assert isinstance(phase, Stopped)
            assert phase.stop.reason == "load-failed"
            assert not s.machine.children
            honest = (await sup.open("honest")).handle
            await sup.load(honest, "worker:main")
            assert isinstance(sup.status(honest).phase, Loaded)
            sup.renew(honest)


def broken() -> None:
    raise TypeError("a signal that does not go")


@pytest.mark.parametrize("lies", [{"interrupt": broken}, {"interrupt": broken, "kill": broken}])
async def test_a_signal_that_raises_is_told_and_only_an_observed_exit_counts(lies, autojump_clock):
    async with stage() as s:
        execution = LyingExecution(SimulatedExecution(s.machine), lies)
        options = SupervisorOptions(lease=100.0, grace=1.0, confirmation_timeout=2.0)
        unconfirmed = "kill" in lies
        wanted = pytest.raises(BaseExceptionGroup) if unconfirmed else nullcontext()
        with wanted as raised:
            async with open_supervisor(
                s.store,
                execution,  # type: ignore[arg-type]
                world=s.world,
                options=options,
            ) as sup:
                liar = (await sup.open("liar")).handle
                await sup.load(liar, "worker:main")
                if unconfirmed:
                    with pytest.raises(TerminationUnconfirmed):
                        await sup.dispose(liar)
                    assert not isinstance(sup.status(liar).phase, Stopped)
                    with pytest.raises(SupervisorPoisoned):
                        await sup.open("other")
                    await trio.sleep(20)
                    assert not s.machine.children  # its scope was left, which ends it
                else:
                    end = await sup.dispose(liar)
                    assert isinstance(end, Killed)
                    assert [cause.type for cause in end.causes] == ["TypeError"]
                    await sup.open("other")
        if unconfirmed:
            assert raised is not None
            assert raised.group_contains(TerminationUnconfirmed)
