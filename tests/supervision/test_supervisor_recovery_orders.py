"""Several records are left behind, and what is found of them comes in every order."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from supervisor_story import Stage, stage

from trio_reactor import EventChannel
from trio_reactor.errors import leaves
from trio_reactor.supervision import (
    AdoptionFailed,
    Handle,
    Killed,
    LeaseExpired,
    Loaded,
    NotStarted,
    SessionStopped,
    Stopped,
    SupervisionEvent,
    Supervisor,
    SupervisorOptions,
    TerminationUnconfirmed,
    open_supervisor,
)
from trio_reactor.supervision.events import SessionAdopted, SessionRecovered
from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.simulation import SimulatedExecution
from trio_reactor.testing.faults import Never

KEYS = ("a", "b", "c")
ORDERS = list(itertools.permutations(range(3)))


class Answer:
    """How the recovery or adoption of one key answers."""

    def __init__(self, after: float, failure: Exception | None = None) -> None:
        self.after = after
        self.failure = failure

    async def come(self) -> None:
        await trio.sleep(self.after)
        if self.failure is not None:
            raise self.failure


HANGS = Answer(float("inf"))


class Left:
    """What a supervisor left behind that died."""

    def __init__(self) -> None:
        self.handles: dict[str, Handle] = {}
        self.keys: dict[str, str] = {}
        """Whose launch carries which nonce."""


class Answering:
    """An execution of which each key's recovery and adoption answer as they are told to."""

    def __init__(
        self,
        execution: SimulatedExecution,
        left: Left,
        recovers: Mapping[str, Answer],
        adopts: Mapping[str, Answer],
    ) -> None:
        self._execution = execution
        self._left = left
        self._recovers, self._adopts = recovers, adopts
        self.asked: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._execution, name)

    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        key = self._left.keys[orphan.launch.nonce]
        self.asked.append(("recover", key))
        await self._recovers.get(key, Answer(0.0)).come()
        return await self._execution.recover(orphan)

    @asynccontextmanager
    async def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AsyncGenerator[Any]:
        key = self._left.keys[orphan.launch.nonce]
        self.asked.append(("adopt", key))
        await self._adopts.get(key, Answer(0.0)).come()
        async with self._execution.adopt(orphan, order) as unit:
            yield unit


async def left_behind(s: Stage, policy: str, **options: object) -> Left:
    """Three loaded sessions of a supervisor that died."""
    left = Left()
    async with s.doomed(orphaned=policy, **options) as supervisor:
        for key in KEYS:
            handle = left.handles[key] = (await supervisor.open(key, request="r")).handle
            await supervisor.load(handle, "worker:main")
            phase = supervisor.status(handle).phase
            assert isinstance(phase, Loaded)
            left.keys[phase.launch.nonce] = key
    return left


@asynccontextmanager
async def after(
    s: Stage,
    left: Left,
    *,
    recovers: Mapping[str, Answer] | None = None,
    adopts: Mapping[str, Answer] | None = None,
    events: EventChannel | None = None,
    **options: object,
) -> AsyncGenerator[tuple[Supervisor, Answering]]:
    """The next supervisor; what it finds answers as told."""
    execution: Any = Answering(SimulatedExecution(s.machine), left, recovers or {}, adopts or {})
    defaults: dict[str, object] = {"lease": 10.0, "grace": 1.0, "confirmation_timeout": 2.0}
    chosen = SupervisorOptions.model_validate({**defaults, **options})
    async with open_supervisor(
        s.store, execution, world=s.world, options=chosen, events=events
    ) as supervisor:
        yield supervisor, execution


def delays(order: Sequence[int]) -> dict[str, Answer]:
    """Answers that come in this order."""
    return {KEYS[which]: Answer(0.2 * (place + 1)) for place, which in enumerate(order)}


def phase_of(supervisor: Supervisor, handle: Handle) -> Stopped:
    status = supervisor.status(handle)
    assert isinstance(status.phase, Stopped)
    assert status.journaled
    return status.phase


async def heard(channel: EventChannel, into: list[str]) -> None:
    into.extend(
        [
            envelope.event.key.identity
            async for envelope in channel.subscribe(SupervisionEvent)
            if isinstance(envelope.event, SessionRecovered | SessionAdopted)
        ]
    )


# ------------------------------------------------------------------------------------------- kill


@pytest.mark.parametrize("order", ORDERS)
async def test_recoveries_run_side_by_side_and_are_told_in_the_order_of_their_ends(
    autojump_clock, order
):
    channel = EventChannel()
    said: list[str] = []
    async with stage() as s, trio.open_nursery() as nursery:
        left = await left_behind(s, "kill")
        nursery.start_soon(heard, channel, said)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        async with after(s, left, recovers=delays(order), events=channel) as (supervisor, _):
            assert trio.current_time() - began == pytest.approx(0.6, abs=0.1)  # the last, not all
            for handle in left.handles.values():
                phase = phase_of(supervisor, handle)
                assert (phase.stop.reason, phase.recovered) == ("recovered", True)
                assert isinstance(phase.termination, Killed)
                with pytest.raises(SessionStopped, match="recovered"):
                    supervisor.renew(handle)
                again = await supervisor.open(handle.key, expected_generation=1)
                await supervisor.load(again.handle, "worker:main")
        channel.end()
    assert said == [KEYS[which] for which in order]


FATES = ("ends", "fails", "hangs")


@pytest.mark.parametrize("fates", list(itertools.permutations(FATES)))
@pytest.mark.parametrize("first", ["ends", "fails"])
async def test_one_that_fails_and_one_that_hangs_fail_the_start_and_keep_no_other_from_its_end(
    autojump_clock, fates, first
):
    answers = {
        "ends": Answer(0.1 if first == "ends" else 0.5),
        "fails": Answer(0.3, TerminationUnconfirmed("it cannot be seen")),
        "hangs": HANGS,
    }
    recovers = {key: answers[fate] for key, fate in zip(KEYS, fates, strict=True)}
    async with stage() as s:
        left = await left_behind(s, "kill")
        served = False
        began = trio.current_time()
        with pytest.raises(BaseExceptionGroup, match="could not be recovered") as raised:
            async with after(s, left, recovers=recovers):
                served = True
        assert not served
        assert trio.current_time() - began == pytest.approx(3.0, abs=0.2)  # grace, confirmation
        told = list(leaves(raised.value))
        assert [type(leaf) for leaf in told] == [TerminationUnconfirmed] * 2
        hanging = KEYS[fates.index("hangs")]
        assert any(str(left.handles[hanging]) in str(leaf) for leaf in told)
        # What had ended is recorded, and is not looked for again; the others are.
        async with after(s, left) as (supervisor, execution):
            ended = KEYS[fates.index("ends")]
            assert sorted(execution.asked) == sorted(
                ("recover", key) for key in KEYS if key != ended
            )
            for handle in left.handles.values():
                phase = phase_of(supervisor, handle)
                assert (phase.stop.reason, phase.recovered) == ("recovered", True)


@pytest.mark.parametrize("defective", KEYS)
async def test_a_defect_in_one_recovery_is_raised_as_it_is_and_the_others_end(
    autojump_clock, defective
):
    defect = RuntimeError("a defect of the adapter")
    async with stage() as s:
        left = await left_behind(s, "kill")
        with pytest.raises(BaseExceptionGroup) as raised:
            async with after(s, left, recovers={defective: Answer(0.1, defect)}):
                raise AssertionError
        assert list(leaves(raised.value)) == [defect]
        async with after(s, left) as (_, execution):
            assert execution.asked == [("recover", defective)]


async def test_all_of_them_together_have_the_recovery_timeout_and_who_is_late_is_named(
    autojump_clock,
):
    async with stage() as s:
        left = await left_behind(s, "kill")
        began = trio.current_time()
        with pytest.raises(BaseExceptionGroup) as raised:
            async with after(s, left, recovers={"b": HANGS, "c": HANGS}, recovery_timeout=0.5):
                raise AssertionError
        assert trio.current_time() - began == pytest.approx(0.5, abs=0.1)
        (leaf,) = leaves(raised.value)
        assert isinstance(leaf, TerminationUnconfirmed)
        assert "2 sessions" in leaf.message
        assert str(left.handles["a"]) not in leaf.message
        assert str(left.handles["b"]) in leaf.message
        assert str(left.handles["c"]) in leaf.message
        async with after(s, left) as (supervisor, _):
            for handle in left.handles.values():
                assert phase_of(supervisor, handle).recovered


async def test_a_start_that_is_cancelled_while_it_recovers_loses_nothing(autojump_clock):
    async with stage() as s:
        left = await left_behind(s, "kill")
        with trio.move_on_after(0.3) as scope:
            async with after(s, left, recovers={"a": Answer(0.1), "b": Answer(0.2), "c": HANGS}):
                raise AssertionError
        assert scope.cancelled_caught
        async with after(s, left) as (supervisor, execution):
            assert execution.asked == [("recover", "c")]
            for handle in left.handles.values():
                assert phase_of(supervisor, handle).recovered


@pytest.mark.parametrize("moment", ["open", "launching", "registered", "loaded", "stopping"])
async def test_whatever_moment_of_a_life_is_left_behind_is_ended_beside_the_others(
    autojump_clock, moment
):
    """The supervisor dies while one write hangs, so that the journal is at the one before."""
    last = {"open": 1, "launching": 2, "registered": 3, "loaded": 4, "stopping": 5}[moment]
    async with stage() as s:
        handle: Handle | None = None
        async with s.doomed(store_faults={"commit": {2 + last + 1: Never()}}) as supervisor:
            for other in ("before", "after"):
                await supervisor.open(other)
            handle = (await supervisor.open("left")).handle
            with trio.move_on_after(2):
                await supervisor.load(handle, "worker:main")
            if moment in ("loaded", "stopping"):
                with trio.move_on_after(2):
                    await supervisor.dispose(handle)
            s.faulty.die()
            s.execution.die()
            s.faulty.release()
        assert handle is not None
        async with s.supervisor() as supervisor:
            phase = phase_of(supervisor, handle)
            assert phase.recovered
            assert phase.stop.reason == ("disposed" if moment == "stopping" else "recovered")
            registered = moment in ("registered", "loaded", "stopping")
            assert isinstance(phase.termination, Killed if registered else NotStarted)
            assert not s.machine.children
            for key in ("before", "after"):
                again = await supervisor.open(key, expected_generation=1)
                await supervisor.load(again.handle, "worker:main")


# ------------------------------------------------------------------------------------------ adopt


@pytest.mark.parametrize("order", ORDERS)
async def test_adoptions_run_side_by_side_and_each_goes_on_with_its_lease(autojump_clock, order):
    channel = EventChannel()
    said: list[str] = []
    async with stage() as s, trio.open_nursery() as nursery:
        left = await left_behind(s, "adopt")
        children = set(s.machine.children)
        nursery.start_soon(heard, channel, said)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        async with after(s, left, adopts=delays(order), events=channel, orphaned="adopt") as (
            supervisor,
            execution,
        ):
            assert trio.current_time() - began == pytest.approx(0.6, abs=0.1)
            assert set(s.machine.children) == children
            assert {what for what, _ in execution.asked} == {"adopt"}
            for handle in left.handles.values():
                status = supervisor.status(handle)
                assert isinstance(status.phase, Loaded)
                assert status.remaining is not None
                assert status.remaining < 10.0
                assert supervisor.renew(handle) == 10.0
        channel.end()
    assert said == [KEYS[which] for which in order]
    assert all(phase_of(supervisor, h).stop.reason == "shutdown" for h in left.handles.values())


@pytest.mark.parametrize("fates", list(itertools.permutations(("adopted", "refused", "hangs"))))
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
async def test_what_cannot_be_adopted_is_recovered_and_the_other_goes_on(
    autojump_clock, fates, late
):
    answers = {
        "adopted": Answer(0.5 if late else 0.1),
        "refused": Answer(0.3, AdoptionFailed("it did not prove itself")),
        "hangs": HANGS,
    }
    adopts = {key: answers[fate] for key, fate in zip(KEYS, fates, strict=True)}
    fate_of = dict(zip(fates, KEYS, strict=True))
    async with stage() as s:
        left = await left_behind(s, "adopt", lease=30.0)
        async with after(s, left, adopts=adopts, orphaned="adopt") as (supervisor, execution):
            asked = [key for what, key in execution.asked if what == "recover"]
            assert asked == [fate_of["refused"], fate_of["hangs"]]
            adopted = left.handles[fate_of["adopted"]]
            assert isinstance(supervisor.status(adopted).phase, Loaded)
            supervisor.renew(adopted)
            for fate in ("refused", "hangs"):
                phase = phase_of(supervisor, left.handles[fate_of[fate]])
                assert (phase.stop.reason, phase.recovered) == ("recovered", True)
            assert len(s.machine.children) == 1


@pytest.mark.parametrize("failing", KEYS)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
async def test_a_start_that_fails_ends_what_it_had_adopted(autojump_clock, failing, late):
    unseen = TerminationUnconfirmed("it cannot be seen")
    adopts = {key: Answer(0.3) for key in KEYS}
    adopts[failing] = Answer(0.1, AdoptionFailed("it did not prove itself"))
    recovers = {failing: Answer(0.6 if late else 0.0, unseen)}
    async with stage() as s:
        left = await left_behind(s, "adopt")
        with pytest.raises(BaseExceptionGroup) as raised:
            async with after(s, left, adopts=adopts, recovers=recovers, orphaned="adopt"):
                raise AssertionError
        assert list(leaves(raised.value)) == [unseen]
        async with after(s, left) as (supervisor, _):
            for key, handle in left.handles.items():
                phase = phase_of(supervisor, handle)
                if key == failing:
                    assert (phase.stop.reason, phase.recovered) == ("recovered", True)
                else:
                    assert (phase.stop.reason, phase.recovered) == ("shutdown", False)
        assert not s.machine.children


async def test_an_adopted_session_ends_at_its_lease_though_others_are_still_looked_for(
    autojump_clock,
):
    async with stage() as s:
        left = await left_behind(s, "adopt", lease=2.0)
        adopts = {"b": Answer(0.1, AdoptionFailed("no")), "c": Answer(0.1, AdoptionFailed("no"))}
        recovers = {"b": Answer(2.5), "c": Answer(2.9)}
        async with after(s, left, adopts=adopts, recovers=recovers, orphaned="adopt") as (
            supervisor,
            _,
        ):
            phase = phase_of(supervisor, left.handles["a"])
            assert (phase.stop.reason, phase.recovered) == ("expired", False)
            with pytest.raises(LeaseExpired):
                supervisor.renew(left.handles["a"])
            for key in ("b", "c"):
                assert phase_of(supervisor, left.handles[key]).stop.reason == "recovered"


async def test_an_adopted_child_that_ends_while_others_are_looked_for_is_told_as_exited(
    autojump_clock,
):
    async with stage() as s:
        left = await left_behind(s, "adopt", lease=30.0)
        (child,) = [c for c in s.machine.children.values() if c.order.key.identity == "a"]
        adopts = {"b": Answer(0.1, AdoptionFailed("no"))}

        async def end_child() -> None:
            await trio.sleep(1.0)
            child.end(ExitStatus(code=3))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_child)
            async with after(
                s, left, adopts=adopts, recovers={"b": Answer(2.0)}, orphaned="adopt"
            ) as (supervisor, _):
                phase = phase_of(supervisor, left.handles["a"])
                assert phase.stop.reason == "exited"
                assert phase.stop.exit == ExitStatus(code=3)
                assert isinstance(supervisor.status(left.handles["c"]).phase, Loaded)
