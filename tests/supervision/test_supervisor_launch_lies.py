"""Launches and exits that are not what they should be, at each of their moments."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from lying_story import Launch, lied_to
from supervisor_story import stage

from trio_reactor import Failed, Lost, TimedOut
from trio_reactor.errors import leaves
from trio_reactor.supervision import (
    ExecutionFailed,
    Exited,
    ExitStatus,
    Killed,
    LeaseExpired,
    Loaded,
    NotStarted,
    SessionStopped,
    Stopped,
    Stopping,
    Supervisor,
    SupervisorPoisoned,
    TerminationUnconfirmed,
)
from trio_reactor.supervision.execution.protocol import LaunchOrder


async def lives_on(supervisor: Supervisor) -> None:
    """Another key's session can be opened, loaded, renewed and disposed of."""
    honest = (await supervisor.open("honest")).handle
    await supervisor.load(honest, "worker:main")
    supervisor.renew(honest)
    assert isinstance(await supervisor.dispose(honest), Exited)


def refusing(failure: Exception, *, at_once: bool) -> Any:
    def launch(honest: Launch, order: LaunchOrder) -> Any:
        if at_once:
            raise failure

        @asynccontextmanager
        async def entered() -> AsyncGenerator[Any]:
            await trio.sleep(0.1)
            raise failure
            yield

        return entered()

    return launch


@pytest.mark.parametrize("at_once", [True, False], ids=["called", "entered"])
@pytest.mark.parametrize(
    "failure", [ExecutionFailed("no child"), Lost("the line"), OSError(12, "no memory")]
)
async def test_a_launch_that_fails_is_its_own_sessions_failure(autojump_clock, failure, at_once):
    async with stage() as s, lied_to(s, launch=refusing(failure, at_once=at_once)) as supervisor:
        liar = (await supervisor.open("liar")).handle
        told: list[BaseException] = []

        async def load() -> None:
            with pytest.raises(Exception) as raised:  # noqa: PT011 - looked at below
                await supervisor.load(liar, "worker:main")
            told.append(raised.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            nursery.start_soon(load)
        assert failure in told
        assert len({id(each) for each in told}) == 2
        stopped = await supervisor.wait_stopped(liar)
        assert stopped.stop.reason == "load-failed"
        assert stopped.stop.failure is not None
        assert stopped.stop.failure.type == type(failure).__name__
        assert stopped.termination == NotStarted()
        assert supervisor.status(liar).journaled
        await lives_on(supervisor)


@pytest.mark.parametrize("at_once", [True, False], ids=["called", "entered"])
async def test_a_defect_of_a_launch_poisons_and_close_raises_it_once(autojump_clock, at_once):
    defect = RuntimeError("a defect of the adapter")
    async with stage() as s:
        with pytest.raises(BaseException) as raised:  # noqa: PT011 - looked at below
            async with lied_to(s, launch=refusing(defect, at_once=at_once)) as supervisor:
                liar = (await supervisor.open("liar")).handle
                with pytest.raises(RuntimeError):
                    await supervisor.load(liar, "worker:main")
                with pytest.raises(SupervisorPoisoned):
                    await supervisor.open("other")
                assert await supervisor.dispose(liar) == NotStarted()
        assert list(leaves(raised.value)) == [defect]


def slow(seconds: float, *, shielded: bool) -> Any:
    """A launch that takes long, and takes no cancellation if it shields itself."""

    def launch(honest: Launch, order: LaunchOrder) -> Any:
        @asynccontextmanager
        async def entered() -> AsyncGenerator[Any]:
            with trio.CancelScope(shield=shielded) as making:
                await trio.sleep(seconds)
                async with honest(order) as unit:
                    making.shield = False
                    yield unit

        return entered()

    return launch


async def test_a_launch_that_hangs_is_given_up_after_the_start_timeout(autojump_clock):
    async with (
        stage() as s,
        lied_to(s, launch=slow(1e6, shielded=False), start_timeout=3.0) as supervisor,
    ):
        liar = (await supervisor.open("liar")).handle
        began = trio.current_time()
        with pytest.raises(TimedOut):
            await supervisor.load(liar, "worker:main")
        assert trio.current_time() - began == pytest.approx(3.0)
        stopped = await supervisor.wait_stopped(liar)
        assert stopped.stop.reason == "load-failed"
        assert isinstance(stopped.termination, NotStarted)
        assert supervisor.statistics().starting == 0
        await lives_on(supervisor)


STOPS = {
    "disposed": SessionStopped,
    "superseded": SessionStopped,
    "expired": LeaseExpired,
    "shutdown": SessionStopped,
    "load-failed": TimedOut,
}


@pytest.mark.parametrize("shielded", [True, False], ids=["shields", "heeds"])
@pytest.mark.parametrize("reason", STOPS)
async def test_a_launch_that_returns_after_the_stop_is_joined_and_its_child_ended_unused(
    autojump_clock, reason, shielded
):
    """The child comes 1.5 s after the stop, within what a confirmation may take."""
    told: list[BaseException] = []
    launch = slow(4.0, shielded=shielded)
    async with stage() as s, trio.open_nursery() as nursery:
        start = 2.5 if reason == "load-failed" else 30.0
        async with lied_to(s, launch=launch, start_timeout=start) as supervisor:
            lease = 2.5 if reason == "expired" else None
            liar = (await supervisor.open("liar", lease=lease)).handle

            async def load() -> None:
                with pytest.raises(STOPS[reason]) as raised:
                    await supervisor.load(liar, "worker:main")
                told.append(raised.value)

            nursery.start_soon(load)
            await trio.sleep(2.5)
            match reason:
                case "disposed":
                    assert isinstance(await supervisor.dispose(liar), NotStarted)
                case "superseded":
                    after = await supervisor.open("liar", expected_generation=1)
                    assert after.handle.generation == 2
                case "shutdown":
                    pass
                case _:
                    await supervisor.wait_stopped(liar)
        phase = supervisor.status(liar).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == reason
        assert isinstance(phase.termination, NotStarted)
        assert not phase.termination.causes
        assert not s.machine.witness.runs
        assert not s.machine.children
    assert len(told) == 1


async def test_a_launch_that_shields_itself_for_too_long_is_unconfirmed_and_still_ended(
    autojump_clock,
):
    async with stage() as s:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with lied_to(s, launch=slow(8.0, shielded=True)) as supervisor:
                liar = (await supervisor.open("liar")).handle
                with trio.move_on_after(1):
                    await supervisor.load(liar, "worker:main")
                began = trio.current_time()
                with pytest.raises(TerminationUnconfirmed) as unconfirmed:
                    await supervisor.dispose(liar)
                assert trio.current_time() - began == pytest.approx(2.0)
                assert [type(cause) for cause in unconfirmed.value.causes] == [TimedOut]
                status = supervisor.status(liar)
                assert isinstance(status.phase, Stopping)
                assert status.journaled
                with pytest.raises(SupervisorPoisoned):
                    await supervisor.open("liar", expected_generation=1)
        assert [type(leaf) for leaf in leaves(raised.value)] == [TerminationUnconfirmed]
        assert not s.machine.children
        assert not s.machine.witness.runs
        # What was not confirmed is confirmed by the next supervisor.
        async with s.supervisor() as supervisor:
            phase = supervisor.status(liar).phase
            assert isinstance(phase, Stopped)
            assert phase.recovered
            assert phase.stop.reason == "disposed"


def raising(failure: Exception) -> Any:
    async def wait() -> None:
        await trio.lowlevel.checkpoint()
        raise failure

    return lambda _: wait


async def hangs() -> None:
    await trio.sleep_forever()


BLIND = {
    "raises": {"wait_exited": raising(RuntimeError("a defect")), "exit": lambda _: None},
    "returns": {"wait_exited": lambda _: trio.lowlevel.checkpoint, "exit": lambda _: None},
    "unobserved": {"exit": lambda _: None},
    "unconfirmed": {
        "wait_exited": raising(TerminationUnconfirmed("it cannot be seen")),
        "exit": lambda _: None,
    },
    "hangs": {"wait_exited": lambda _: hangs, "exit": lambda _: None},
}


@pytest.mark.parametrize("lies", BLIND.values(), ids=BLIND)
async def test_only_an_observed_exit_confirms_whatever_else_is_told(autojump_clock, lies):
    lies = {"wait_lost": lambda _: hangs, **lies}
    async with stage() as s:
        with pytest.raises(BaseExceptionGroup) as raised:
            async with lied_to(s, lies=lies) as supervisor:
                liar = (await supervisor.open("liar")).handle
                await supervisor.load(liar, "worker:main")
                honest = (await supervisor.open("honest")).handle
                await supervisor.load(honest, "worker:main")
                with trio.fail_after(10), pytest.raises(TerminationUnconfirmed):
                    await supervisor.dispose(liar)
                status = supervisor.status(liar)
                assert isinstance(status.phase, Stopping)
                assert isinstance(supervisor.status(honest).phase, Loaded)
                with pytest.raises(SupervisorPoisoned):
                    supervisor.renew(honest)
        assert {type(leaf) for leaf in leaves(raised.value)} == {TerminationUnconfirmed}
        assert len(list(leaves(raised.value))) == 1
        ended = supervisor.status(honest).phase
        assert isinstance(ended, Stopped)
        assert not s.machine.children


async def test_a_wait_that_returns_too_early_takes_nothing_of_the_grace_away(autojump_clock):
    lies = {"wait_lost": lambda _: hangs, "wait_exited": lambda _: trio.lowlevel.checkpoint}
    async with stage() as s, lied_to(s, lies=lies) as supervisor:
        liar = (await supervisor.open("liar")).handle
        await supervisor.load(liar, "worker:main")  # it obeys after 0.1 s
        assert await supervisor.dispose(liar) == Exited(ExitStatus(signal=15))
        stubborn = (await supervisor.open("liar", expected_generation=1)).handle
        await supervisor.load(stubborn, "stubborn:main")
        began = trio.current_time()
        assert await supervisor.dispose(stubborn) == Killed(ExitStatus(signal=9))
        assert trio.current_time() - began >= 1.0
        await lives_on(supervisor)


async def test_a_wait_that_breaks_is_told_and_leaving_observes_the_end(autojump_clock):
    lies = {"wait_lost": lambda _: hangs, "wait_exited": raising(RuntimeError("a defect"))}
    async with stage() as s, lied_to(s, lies=lies) as supervisor:
        liar = (await supervisor.open("liar")).handle
        await supervisor.load(liar, "stubborn:main")
        termination = await supervisor.dispose(liar)
        assert isinstance(termination, Killed)
        assert termination.exit == ExitStatus(signal=9)
        assert {cause.type for cause in termination.causes} == {"RuntimeError"}
        await lives_on(supervisor)


async def test_a_loss_that_cannot_be_waited_for_stops_its_session_alone(autojump_clock):
    lies = {"wait_lost": raising(Lost("the pidfd"))}
    async with stage() as s, lied_to(s, lies=lies) as supervisor:
        liar = (await supervisor.open("liar")).handle
        with pytest.raises((SessionStopped, ExecutionFailed, Failed)):
            await supervisor.load(liar, "slow:main")
        stopped = await supervisor.wait_stopped(liar)
        assert not s.machine.children
        assert not isinstance(stopped.termination, Killed)
        await lives_on(supervisor)


@pytest.mark.parametrize("name", ["child", "enforced"])
async def test_a_child_that_cannot_be_described_never_runs_the_code(autojump_clock, name):
    def breaks(_: Any) -> Any:
        raise RuntimeError("a defect")

    async with stage() as s:
        with pytest.raises(BaseException) as raised:  # noqa: PT011 - looked at below
            async with lied_to(s, lies={name: breaks}) as supervisor:
                liar = (await supervisor.open("liar")).handle
                with pytest.raises(RuntimeError):
                    await supervisor.load(liar, "worker:main")
                stopped = await supervisor.wait_stopped(liar)
                assert stopped.stop.reason == "load-failed"
        assert [type(leaf) for leaf in leaves(raised.value)] == [RuntimeError]
        assert not s.machine.witness.runs
        assert not s.machine.children


async def test_a_sign_of_life_that_can_never_be_read_ends_its_session_alone(autojump_clock):
    def breaks(_: Any) -> Any:
        raise RuntimeError("a defect")

    async with stage() as s, lied_to(s, lies={"heard_at": breaks}) as supervisor:
        liar = (await supervisor.open("liar")).handle
        await supervisor.load(liar, "worker:main", hang_timeout=1.0)
        await trio.sleep(5)
        phase = supervisor.status(liar).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason == "unresponsive"
        await lives_on(supervisor)
