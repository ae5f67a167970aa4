"""Every bound of a supervisor: at it, one beyond it, and after one was freed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
from supervisor_story import stage

from trio_reactor import Overflow, TimedOut
from trio_reactor.events import MAX_DETAIL
from trio_reactor.supervision import (
    AdmissionFull,
    CodeFailed,
    ExecutionFailed,
    Handle,
    Key,
    Loaded,
    NotStarted,
    Open,
    PythonCode,
    RecordRefused,
    SessionStopped,
    StaleSession,
    Stopped,
    Supervisor,
)
from trio_reactor.supervision.model import codec
from trio_reactor.supervision.model.child import Launch
from trio_reactor.supervision.model.keys import MAX_NAME
from trio_reactor.supervision.model.records import Loading, SessionRecord
from trio_reactor.supervision.simulation import MachineOptions, Program

# ------------------------------------------------------------------------------------ max_sessions


async def test_one_session_too_many_is_refused_until_one_is_over(autojump_clock):
    async with stage() as s, s.supervisor(max_sessions=2) as supervisor:
        first = (await supervisor.open("a")).handle
        second = (await supervisor.open("b")).handle
        for _ in range(2):
            with pytest.raises(AdmissionFull, match="max_sessions") as raised:
                await supervisor.open("c", request="r")
            assert raised.value.retryable
            assert raised.value.outcome == "not-submitted"
        assert await supervisor.high_water("c") is None
        for handle in (first, second):
            supervisor.renew(handle)
        # The same key's next one takes the place of the one before.
        second = (await supervisor.open("b", expected_generation=1)).handle
        await supervisor.dispose(first)
        third = await supervisor.open("c", request="r")
        assert third.handle.generation == 1
        assert supervisor.statistics().sessions == 2
        supervisor.renew(second)


async def test_the_same_request_is_found_at_the_bound(autojump_clock):
    async with stage() as s, s.supervisor(max_sessions=1) as supervisor:
        record = await supervisor.open("a", request="r")
        assert await supervisor.open("a", request="r") == record


async def test_a_session_counts_until_its_end_was_observed(autojump_clock):
    async with stage() as s, s.supervisor(max_sessions=1) as supervisor:
        handle = (await supervisor.open("a")).handle
        await supervisor.load(handle, "stubborn:main")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.dispose, handle)
            await trio.sleep(0.5)
            with pytest.raises(AdmissionFull):
                await supervisor.open("b")
        await supervisor.open("b")


async def test_of_opens_that_come_together_as_many_are_taken_as_there_are_places(autojump_clock):
    """Those that are with the journal count, those that nobody waits for any more too."""
    async with stage() as s, s.supervisor(max_sessions=2) as supervisor:
        opened: list[SessionRecord] = []
        refused: list[str] = []

        async def open_one(key: str) -> None:
            try:
                opened.append(await supervisor.open(key))
            except AdmissionFull:
                refused.append(key)

        s.faulty.hold()
        with trio.move_on_after(1):
            await supervisor.open("left", request="r")
        async with trio.open_nursery() as nursery:
            for key in ("a", "b", "c"):
                nursery.start_soon(open_one, key)
            await trio.sleep(1)
            assert len(refused) == 2
            s.faulty.release()
        assert len(opened) == 1
        assert supervisor.statistics().sessions == 2
        assert isinstance((await supervisor.open("left", request="r")).phase, Open)


# ------------------------------------------------------------------------------------ max_starting


async def test_loads_beyond_max_starting_wait_and_go_on_when_one_is_done(autojump_clock):
    async with stage() as s, s.supervisor(max_starting=2) as supervisor:
        handles = [(await supervisor.open(key)).handle for key in ("a", "b", "c")]

        async def cut_short() -> None:
            with pytest.raises(SessionStopped, match="disposed"):
                await supervisor.load(handles[0], "slow:main")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut_short)
            nursery.start_soon(supervisor.load, handles[1], "slow:main")
            await trio.sleep(1)
            nursery.start_soon(supervisor.load, handles[2], "worker:main")
            await trio.sleep(1)
            statistics = supervisor.statistics()
            assert (statistics.starting, statistics.waiting) == (2, 1)
            assert isinstance(supervisor.status(handles[2]).phase, Open)
            await supervisor.dispose(handles[0])  # frees its turn
            await supervisor.load(handles[2], "worker:main")
            assert trio.current_time() < 4
        assert (await supervisor.load(handles[1], "slow:main")).name == "slow:main"


async def test_a_load_that_gets_no_turn_in_time_fails_and_takes_nobodys_turn(autojump_clock):
    async with stage() as s, s.supervisor(max_starting=1, start_timeout=3.0) as supervisor:
        first, second, third = [(await supervisor.open(key)).handle for key in ("a", "b", "c")]

        async def in_vain() -> None:
            began = trio.current_time()
            with pytest.raises(TimedOut):
                await supervisor.load(second, "worker:main")
            assert trio.current_time() - began == pytest.approx(3.0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.load, first, "slow:main")  # it takes 5 s
            await trio.sleep(0.1)
            nursery.start_soon(in_vain)
            await trio.sleep(2.5)
            nursery.start_soon(supervisor.load, third, "worker:main")
        stopped = await supervisor.wait_stopped(second)
        assert stopped.stop.reason == "load-failed"
        assert stopped.termination == NotStarted()
        for handle in (first, third):
            assert isinstance(supervisor.status(handle).phase, Loaded)
        statistics = supervisor.statistics()
        assert (statistics.starting, statistics.waiting) == (0, 0)


# ------------------------------------------------------------------------------------- max_stopped


async def test_the_oldest_stopped_one_is_forgotten_for_good_and_its_generation_never(
    autojump_clock,
):
    async with stage() as s:
        async with s.supervisor(max_stopped=2) as supervisor:
            handles = []
            for key in ("a", "b", "c"):
                handle = (await supervisor.open(key, request=f"of {key}")).handle
                handles.append(handle)
                await supervisor.dispose(handle)
                assert supervisor.statistics().stopped == min(len(handles), 2)
            await _only_the_first_is_forgotten(supervisor, handles)
        async with s.supervisor(max_stopped=2) as supervisor:
            await _only_the_first_is_forgotten(supervisor, handles)
            again = await supervisor.open("a", request="of a", expected_generation=1)
            assert again.handle.generation == 2


async def _only_the_first_is_forgotten(supervisor: Supervisor, handles: list[Handle]) -> None:
    for ask in (supervisor.renew, supervisor.status):
        with pytest.raises(StaleSession):
            ask(handles[0])
    with pytest.raises(StaleSession):
        await supervisor.dispose(handles[0])
    with pytest.raises(StaleSession):  # never a second session
        await supervisor.open("a", request="of a")
    assert await supervisor.high_water("a") == 1
    for key, handle in zip(("b", "c"), handles[1:], strict=True):
        assert isinstance(supervisor.status(handle).phase, Stopped)
        assert (await supervisor.open(key, request=f"of {key}")).handle == handle


async def test_who_waits_for_the_end_of_one_that_is_forgotten_at_once_is_told(autojump_clock):
    async with stage() as s, s.supervisor(max_stopped=1) as supervisor:
        handles = [(await supervisor.open(key)).handle for key in ("a", "b", "c")]
        told: list[Any] = []

        async def wait(handle: Handle) -> None:
            told.append(await supervisor.wait_stopped(handle))

        async with trio.open_nursery() as nursery:
            for handle in handles:
                nursery.start_soon(wait, handle)
            await trio.sleep(1)
            async with trio.open_nursery() as stopping:
                for handle in handles:
                    stopping.start_soon(supervisor.dispose, handle)
        assert [stopped.stop.reason for stopped in told] == ["disposed"] * 3
        assert supervisor.statistics().stopped == 1


# --------------------------------------------------------------------------------- max_transitions


async def test_an_open_beyond_max_transitions_is_refused_until_there_is_room(autojump_clock):
    async with stage() as s, s.supervisor(max_transitions=1) as supervisor:
        s.faulty.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.open, "a")
            await trio.sleep(1)
            with pytest.raises(Overflow, match="max_transitions") as raised:
                await supervisor.open("b")
            assert raised.value.retryable
            assert supervisor.statistics().sessions == 0
            s.faulty.release()
        assert (await supervisor.open("b")).handle.generation == 1


async def test_a_load_beyond_max_transitions_is_refused_and_changes_nothing(autojump_clock):
    async with stage() as s, s.supervisor(max_transitions=1) as supervisor:
        handle = (await supervisor.open("a")).handle
        s.faulty.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.open, "b")
            await trio.sleep(1)
            with pytest.raises(Overflow, match="max_transitions") as raised:
                await supervisor.load(handle, "worker:main")
            assert raised.value.retryable
            supervisor.renew(handle)
            assert isinstance(supervisor.status(handle).phase, Open)
            s.faulty.release()
        # Trying again is not in vain, whatever is loaded then.
        assert (await supervisor.load(handle, "short:main")).name == "short:main"


@pytest.mark.parametrize("step", ["registered", "loaded"])
async def test_a_load_for_which_there_is_no_room_any_more_stops_its_session_alone(
    autojump_clock, step
):
    delays = MachineOptions(launch_delay=1.0)
    programs = {"worker:main": Program(load_delay=1.0)}
    async with (
        stage(options=delays, programs=programs) as s,
        s.supervisor(max_transitions=1) as supervisor,
    ):
        handle = (await supervisor.open("a")).handle
        told: list[BaseException] = []

        async def load() -> None:
            try:
                await supervisor.load(handle, "worker:main")
            except Exception as failure:  # noqa: BLE001 - looked at below
                told.append(failure)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            nursery.start_soon(load)
            await trio.sleep(0.5 if step == "registered" else 1.5)
            s.faulty.hold()
            nursery.start_soon(supervisor.open, "b")
            await trio.sleep(2)
            s.faulty.release()
        for failure in told:
            assert type(failure).__name__ in ("ExecutionFailed", "SessionStopped")
            assert not getattr(failure, "retryable", False)
        assert len(told) == 2
        stopped = await supervisor.wait_stopped(handle)
        assert stopped.stop.reason == "load-failed"
        assert stopped.stop.failure is not None
        assert stopped.stop.failure.type == ExecutionFailed.__name__
        assert not s.machine.children
        again = await supervisor.open("a", expected_generation=1)
        await supervisor.load(again.handle, "worker:main")


async def test_stops_and_ends_are_taken_beyond_max_transitions(autojump_clock):
    async with stage() as s, s.supervisor(max_transitions=1) as supervisor:
        handles = [(await supervisor.open(key)).handle for key in "abcd"]
        for handle in handles:
            await supervisor.load(handle, "worker:main")
        s.faulty.hold()
        async with trio.open_nursery() as nursery:
            for handle in handles:
                nursery.start_soon(supervisor.dispose, handle)
            await trio.sleep(5)
            assert not s.machine.children
            assert supervisor.statistics().sessions == 4
            s.faulty.release()
        assert all(supervisor.status(handle).journaled for handle in handles)
        assert supervisor.statistics().sessions == 0


# ------------------------------------------------------------------------------------------- sizes


def code_of(record: SessionRecord, beyond: int) -> PythonCode:
    """Code whose record, once it is launching, is so many bytes beyond what is allowed."""

    def code(size: int) -> PythonCode:
        return PythonCode("worker:main", argument="x" * size)

    def size_of(size: int) -> int:
        launch = Launch(nonce="0" * 32, by=0.0, boot_id="boot-1")
        loading = msgspec.structs.replace(record, phase=Loading(code(size), launch))
        return len(codec.encode(loading))

    allowed = codec.MAX_RECORD_BYTES - codec.ROOM_FOR_THE_STOP
    return code(1000 + allowed - size_of(1000) + beyond)


async def test_code_that_does_not_fit_into_a_record_is_refused_and_changes_nothing(autojump_clock):
    async with stage() as s, s.supervisor() as supervisor:
        record = await supervisor.open("a")
        with pytest.raises(RecordRefused) as raised:
            await supervisor.load(record.handle, code_of(record, 1))
        assert not raised.value.retryable
        supervisor.renew(record.handle)
        assert isinstance(supervisor.status(record.handle).phase, Open)
        assert (await supervisor.load(record.handle, "worker:main")).name == "worker:main"


@pytest.mark.parametrize("beyond", [0, -40, -200, -600, -1200])
async def test_code_that_just_fits_loads_or_stops_its_own_session_and_always_ends_journaled(
    autojump_clock, beyond
):
    """What is registered and loaded has to fit beside it; where it does not, that is told."""
    async with stage() as s:
        async with s.supervisor() as supervisor:
            record = await supervisor.open("a")
            honest = (await supervisor.open("honest")).handle
            loaded = True
            try:
                await supervisor.load(record.handle, code_of(record, beyond))
            except RecordRefused:
                loaded = False
            assert loaded == (beyond <= -600)
            await supervisor.dispose(record.handle)
            status = supervisor.status(record.handle)
            assert isinstance(status.phase, Stopped)
            assert status.journaled
            assert status.phase.stop.reason == ("disposed" if loaded else "load-failed")
            supervisor.renew(honest)
            assert not s.machine.children
        async with s.supervisor() as supervisor:
            assert isinstance(supervisor.status(record.handle).phase, Stopped)


@pytest.mark.parametrize("name", ["identity", "instance", "request"])
async def test_a_name_may_be_so_long_and_one_more_is_named(autojump_clock, name):
    async with stage() as s, s.supervisor() as supervisor:

        async def open_with(length: int) -> SessionRecord:
            word = "n" * length
            match name:
                case "identity":
                    return await supervisor.open(word)
                case "instance":
                    return await supervisor.open(Key("a", word))
                case _:
                    return await supervisor.open("a", request=word)

        with pytest.raises(ValueError, match=name):
            await open_with(MAX_NAME + 1)
        assert supervisor.statistics().sessions == 0
        record = await open_with(MAX_NAME)
        await supervisor.load(record.handle, "worker:main")


@pytest.mark.parametrize("most", [1, 100, MAX_DETAIL, 100_000])
async def test_what_failing_code_says_is_recorded_up_to_the_bound(autojump_clock, most):
    programs = {"wordy:main": Program(broken="w" * 5_000)}
    async with stage(programs=programs) as s, s.supervisor(max_detail=most) as supervisor:
        handle = (await supervisor.open("a")).handle
        with pytest.raises(CodeFailed) as raised:
            await supervisor.load(handle, "wordy:main")
        assert raised.value.detail == "w" * 5_000  # who waits is told all of it
        stopped = await supervisor.wait_stopped(handle)
        assert stopped.stop.failure is not None
        assert stopped.stop.failure.detail == "w" * min(most, MAX_DETAIL)


@pytest.mark.parametrize("most", [1, 30, 8_192])
async def test_a_stack_is_recorded_up_to_the_bound(autojump_clock, most):
    async with stage() as s, s.supervisor(max_detail=most, hang_timeout=1.0) as supervisor:
        handle = (await supervisor.open("a")).handle
        await supervisor.load(handle, "worker:main")
        stopped = await supervisor.wait_stopped(handle)
        assert stopped.stop.reason == "unresponsive"
        assert stopped.stop.stack is not None
        whole = "simulated: worker:main, generation 1 of a"
        assert stopped.stop.stack == whole[:most]
