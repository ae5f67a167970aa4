"""What the block of a supervisor raises, to the last leaf."""

from __future__ import annotations

import pytest
import trio
from supervisor_story import stage

from trio_reactor import TimedOut
from trio_reactor.errors import leaves
from trio_reactor.supervision import (
    ExecutionFailed,
    Exited,
    Handle,
    Stopped,
    Stopping,
    Supervisor,
    SupervisorPoisoned,
    TerminationUnconfirmed,
)
from trio_reactor.testing import Fails, Never
from trio_reactor.testing.faults import Fault

LEAVES: Fault = Fails("lost")
"""An execution that has ended, and of which something could not be let go."""


async def loaded(supervisor: Supervisor, *keys: str) -> list[Handle]:
    handles = []
    for key in keys:
        handles.append((await supervisor.open(key)).handle)
        await supervisor.load(handles[-1], "worker:main")
    return handles


def kinds(error: BaseException) -> list[type[BaseException]]:
    return sorted((type(leaf) for leaf in leaves(error)), key=lambda kind: kind.__name__)


async def test_close_raises_nothing_where_nothing_failed(autojump_clock):
    async with stage() as s:
        async with s.supervisor() as supervisor:
            await loaded(supervisor, "a", "b")
        assert not s.machine.children


@pytest.mark.parametrize("failing", [1, 2, 3])
async def test_close_raises_each_failed_clean_up_once_in_one_group(autojump_clock, failing):
    async with stage() as s:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with s.supervisor(
                faults={"leave": dict.fromkeys(range(1, failing + 1), LEAVES)}
            ) as supervisor:
                handles = await loaded(supervisor, "a", "b", "c")
        assert kinds(raised.value) == [ExecutionFailed] * failing
        assert len(raised.value.exceptions) == failing  # one group, and no groups in it
        assert len({id(leaf) for leaf in leaves(raised.value)}) == failing
        phases = [supervisor.status(handle).phase for handle in handles]
        assert all(isinstance(phase, Stopped) for phase in phases)
        causes = [phase.termination.causes for phase in phases if isinstance(phase, Stopped)]
        assert sum(map(len, causes)) == failing  # the records tell it too
        assert all(supervisor.status(handle).journaled for handle in handles)


async def test_a_clean_up_that_failed_before_close_was_told_then_and_is_not_raised(autojump_clock):
    async with stage() as s:
        async with s.supervisor(faults={"leave": {1: LEAVES}}) as supervisor:
            first, _ = await loaded(supervisor, "a", "b")
            termination = await supervisor.dispose(first)
            assert isinstance(termination, Exited)
            assert [cause.type for cause in termination.causes] == ["ExecutionFailed"]
        assert not s.machine.children


async def test_a_defect_of_a_clean_up_is_raised_once(autojump_clock):
    async with stage() as s:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with s.supervisor(faults={"leave": {1: Fails("defect")}}) as supervisor:
                (handle,) = await loaded(supervisor, "a")
        assert kinds(raised.value) == [RuntimeError]
        phase = supervisor.status(handle).phase
        assert isinstance(phase, Stopped)
        assert [cause.type for cause in phase.termination.causes] == ["RuntimeError"]


@pytest.mark.parametrize("unconfirmed", [1, 2])
async def test_close_raises_each_end_that_was_not_observed_and_stops_the_others(
    autojump_clock, unconfirmed
):
    faults = {"exit": dict.fromkeys(range(1, unconfirmed + 1), LEAVES)}
    async with stage() as s:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with s.supervisor(faults=faults) as supervisor:
                handles = await loaded(supervisor, "a", "b", "c")
        assert kinds(raised.value) == [TerminationUnconfirmed] * unconfirmed
        phases = [type(supervisor.status(handle).phase) for handle in handles]
        assert sorted(phase.__name__ for phase in phases) == sorted(
            ["Stopping"] * unconfirmed + ["Stopped"] * (3 - unconfirmed)
        )
        for handle in handles:
            phase = supervisor.status(handle).phase
            assert isinstance(phase, Stopped | Stopping)
            assert phase.stop.reason == "shutdown"


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_the_bodys_own_error_is_raised_with_what_failed_in_closing(autojump_clock, failing):
    mine = ValueError("the body's own")
    async with stage() as s:
        with pytest.raises(BaseException) as raised:  # noqa: PT011 - looked at below
            async with s.supervisor(
                faults={"leave": dict.fromkeys(range(1, failing + 1), LEAVES)}
            ) as supervisor:
                await loaded(supervisor, "a", "b")
                raise mine
        if not failing:
            assert raised.value is mine
        else:
            assert isinstance(raised.value, BaseExceptionGroup)
            assert raised.value.exceptions[0] is mine
            assert kinds(raised.value) == [*([ExecutionFailed] * failing), ValueError]
        assert not s.machine.children


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_a_cancelled_body_loses_nothing_of_what_failed_in_closing(autojump_clock, failing):
    async def whole(scope: trio.CancelScope) -> None:
        with scope:
            async with (
                s.supervisor(
                    faults={"leave": dict.fromkeys(range(1, failing + 1), LEAVES)}
                ) as supervisor,
            ):
                handles.extend(await loaded(supervisor, "a", "b"))
                supervisors.append(supervisor)
                scope.cancel()
                await trio.sleep_forever()

    handles: list[Handle] = []
    supervisors: list[Supervisor] = []
    async with stage() as s:
        scope = trio.CancelScope()
        if failing:
            with pytest.raises(BaseExceptionGroup) as raised:
                await whole(scope)
            assert kinds(raised.value) == [ExecutionFailed] * failing
        else:
            await whole(scope)
        assert scope.cancelled_caught
        assert not s.machine.children
        for handle in handles:
            phase = supervisors[0].status(handle).phase
            assert isinstance(phase, Stopped)
            assert phase.stop.reason == "shutdown"


async def test_what_only_says_that_it_is_poisoned_is_not_raised_beside_what_poisoned_it(
    autojump_clock,
):
    async with stage() as s:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with s.supervisor(faults={"exit": {1: LEAVES}}) as supervisor:
                (handle,) = await loaded(supervisor, "a")
                with pytest.raises(TerminationUnconfirmed) as told:
                    await supervisor.dispose(handle)
                with pytest.raises(SupervisorPoisoned):
                    await supervisor.open("b")
                await supervisor.open("c")  # its refusal leaves the body
        (leaf,) = leaves(raised.value)
        assert isinstance(leaf, TerminationUnconfirmed)
        assert leaf is told.value.__cause__


async def test_what_poisons_and_a_failed_clean_up_are_both_raised(autojump_clock):
    faults: dict[str, dict[int, Fault]] = {"exit": {1: LEAVES}, "leave": {1: LEAVES}}
    async with stage() as s:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with s.supervisor(faults=faults) as supervisor:
                await loaded(supervisor, "a", "b")
        assert kinds(raised.value) == [ExecutionFailed, TerminationUnconfirmed]


@pytest.mark.parametrize("closing", [False, True], ids=["before", "closing"])
async def test_a_clean_up_that_hangs_is_a_cause_and_no_execution_that_may_run(
    autojump_clock, closing
):
    """Its exit was observed.  Close raises what it has not told anybody yet."""
    async with stage() as s:
        raised: BaseException | None = None
        try:
            async with s.supervisor(faults={"leave": {1: Never()}}) as supervisor:
                handle, other = await loaded(supervisor, "a", "b")
                if not closing:
                    await supervisor.dispose(handle)
                    supervisor.renew(other)
        except BaseExceptionGroup as group:
            raised = group
        told = [] if raised is None else kinds(raised)
        assert told == ([TimedOut] if closing else [])
        hanging = [
            phase.termination.causes
            for phase in (supervisor.status(each).phase for each in (handle, other))
            if isinstance(phase, Stopped) and phase.termination.causes
        ]
        assert [[cause.type for cause in causes] for causes in hanging] == [["TimedOut"]]
        assert not s.machine.children


async def test_a_cancellation_that_comes_while_it_closes_cuts_no_end_short(autojump_clock):
    async with stage() as s:
        with trio.CancelScope() as scope:
            async with s.supervisor() as supervisor:
                handle = (await supervisor.open("a")).handle
                await supervisor.load(handle, "stubborn:main")
                scope.deadline = trio.current_time() + 0.5
        assert trio.current_time() >= 1.0  # the grace
        phase = supervisor.status(handle).phase
        assert isinstance(phase, Stopped)
        assert type(phase.termination).__name__ == "Killed"
