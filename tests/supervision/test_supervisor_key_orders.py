"""All orders of what can happen to one key, and what it means for the others: nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import nullcontext

import pytest
import trio
from lying_story import lied_to
from supervisor_story import stage

from trio_reactor import Closed, ReactorError
from trio_reactor.supervision import (
    Exited,
    ExitStatus,
    LeaseExpired,
    Loaded,
    NotStarted,
    Open,
    SessionRecord,
    SessionStopped,
    StaleSession,
    Stopped,
    Supervisor,
)
from trio_reactor.supervision.simulation import MachineOptions, Program
from trio_reactor.testing.faults import Fault, Slow

EVENTS = ("renew", "load", "dispose", "supersede", "expire", "close")
REASONS = {
    "dispose": "disposed",
    "supersede": "superseded",
    "expire": "expired",
    "close": "shutdown",
}


class Play:
    """One session, and a sequence of events that are begun one after the other."""

    def __init__(self, order: Sequence[str], gap: float) -> None:
        self.order = order
        self.gap = gap
        self.told: dict[str, ReactorError] = {}
        self.done: set[str] = set()
        self.second: SessionRecord | None = None
        self.closing = trio.Event()

    async def begin(self, supervisor: Supervisor, first: SessionRecord) -> None:
        """Begin each event; the one that closes is left to whoever holds the block."""
        async with trio.open_nursery() as nursery:
            for what in self.order:
                if what == "expire":
                    await trio.sleep(11)
                elif what == "close":
                    self.closing.set()
                else:
                    nursery.start_soon(self._one, supervisor, first, what)
                await trio.sleep(self.gap)
        self.closing.set()

    async def _one(self, supervisor: Supervisor, first: SessionRecord, what: str) -> None:
        try:
            match what:
                case "renew":
                    supervisor.renew(first.handle)
                case "load":
                    await supervisor.load(first.handle, "worker:main")
                case "dispose":
                    await supervisor.dispose(first.handle)
                case _:
                    self.second = await supervisor.open("key", expected_generation=1)
        except ReactorError as failure:
            self.told[what] = failure
        else:
            self.done.add(what)

    def before(self, what: str, others: Sequence[str]) -> bool:
        """Whether an event was begun before any of the others."""
        place = self.order.index(what)
        return all(self.order.index(other) > place for other in others if other in self.order)


@pytest.mark.parametrize("start", list(itertools.permutations(EVENTS, 2)), ids="-".join)
@pytest.mark.parametrize("gap", [0.0, 0.06])
async def test_in_every_order_the_first_stop_is_the_reason_and_everybody_is_told_it(
    autojump_clock, start, gap
):
    """Any four events, by the two that they start with."""
    for order in itertools.permutations(EVENTS, 4):
        if order[:2] == start:
            await in_this_order(order, gap)


async def in_this_order(order: tuple[str, ...], gap: float) -> None:
    play = Play(order, gap)
    async with stage() as s:
        async with trio.open_nursery() as nursery, s.supervisor() as supervisor:
            first = await supervisor.open("key")
            nursery.start_soon(play.begin, supervisor, first)
            await play.closing.wait()
        assert play.done | set(play.told) == set(order) - {"expire", "close"}
        phase = supervisor.status(first.handle).phase
        assert isinstance(phase, Stopped)
        assert supervisor.status(first.handle).journaled
        stops = [REASONS[what] for what in order if what in REASONS]
        if gap:
            assert phase.stop.reason == stops[0]
        else:
            assert phase.stop.reason in stops
        # What is told is the stop, or that it is closed, and whatever came in time was done.
        for what, failure in play.told.items():
            if isinstance(failure, Closed):
                assert "close" in order
            else:
                assert what in ("renew", "load")
                expired = phase.stop.reason == "expired"
                assert isinstance(failure, LeaseExpired if expired else SessionStopped)
        if gap and "renew" in order:
            assert ("renew" in play.done) == play.before("renew", list(REASONS))
        if "dispose" in order:
            assert "dispose" in play.done  # it works also once it is closed
        loaded = phase.code is not None
        assert isinstance(phase.termination, NotStarted) or loaded or "load" in order
        if play.second is not None:
            assert play.second.handle.generation == 2
            after = supervisor.status(play.second.handle).phase
            assert isinstance(after, Stopped)
            assert after.stop.reason in ("shutdown", "expired")
        assert not s.machine.children
        high = 1 if play.second is None else 2
        async with s.supervisor() as following:  # the journal tells the same
            assert await following.high_water("key") == high
            assert following.status(first.handle).phase == phase


# ------------------------------------------------------------- at each moment of an open

AROUND = ("dispose", "renew", "again", "leave")
MOMENTS = (0.0, 0.05, 0.15, 0.4, 0.9, 1.4, 1.9)
"""The one before is fenced, has ended, its stop and its end are written, then the next is."""


@pytest.mark.parametrize("order", list(itertools.permutations(AROUND)), ids="-".join)
@pytest.mark.parametrize("moment", MOMENTS)
async def test_whatever_comes_in_an_open_there_is_one_next_session_and_one_end_of_the_last(
    autojump_clock, order, moment
):
    slow: Fault = Slow(0.5)
    found: list[SessionRecord] = []
    async with (
        stage() as s,
        s.supervisor(store_faults={"commit": dict.fromkeys(range(5, 12), slow)}) as supervisor,
    ):
        first = (await supervisor.open("key")).handle
        await supervisor.load(first, "worker:main")
        leaver = trio.CancelScope()

        async def open_next(scope: trio.CancelScope) -> None:
            with scope:
                found.append(await supervisor.open("key", request="r", expected_generation=1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_next, leaver)
            await trio.sleep(moment)
            for what in order:
                match what:
                    case "dispose":
                        nursery.start_soon(supervisor.dispose, first)
                    case "renew":
                        fenced = not isinstance(supervisor.status(first).phase, Loaded)
                        with pytest.raises(SessionStopped) if fenced else nullcontext():
                            supervisor.renew(first)
                        assert fenced or not moment
                    case "again":
                        nursery.start_soon(open_next, trio.CancelScope())
                    case _:
                        leaver.cancel()
        assert len({record.handle for record in found}) == 1
        assert found[0].handle.generation == 2
        assert isinstance(found[0].phase, Open)
        supervisor.renew(found[0].handle)
        phase = supervisor.status(first).phase
        assert isinstance(phase, Stopped)
        assert phase.stop.reason in ("superseded", "disposed")
        if moment:
            assert phase.stop.reason == "superseded"
        with pytest.raises(StaleSession):
            await supervisor.open("key", expected_generation=1)
        assert await supervisor.high_water("key") == 2


# ------------------------------------------------------------------ one key and the others

AT_ONCE = MachineOptions(launch_delay=0.0, kill_delay=0.0)
PROMPT = {"worker:main": Program(load_delay=0.0, obeys_after=0.0)}


async def whole_life(supervisor: Supervisor, key: str) -> None:
    """A life of a key, which takes no time at all."""
    began = trio.current_time()
    handle = (await supervisor.open(key)).handle
    await supervisor.load(handle, "worker:main")
    supervisor.renew(handle)
    second = (await supervisor.open(key, expected_generation=1)).handle
    await supervisor.load(second, "worker:main")
    assert isinstance(await supervisor.dispose(second), Exited)
    assert trio.current_time() == began


async def hangs() -> None:
    await trio.sleep_forever()


@pytest.mark.parametrize("where", ["launch", "launched", "start", "started", "load"])
async def test_a_key_that_hangs_in_its_load_holds_no_other_up(autojump_clock, where):
    faults = {where: {1: Slow(1e6)}}
    programs = PROMPT | ({"stuck:main": Program(load_delay=1e6)} if where == "load" else {})
    async with (
        stage(options=AT_ONCE, programs=programs) as s,
        s.supervisor(faults=faults) as supervisor,
        trio.open_nursery() as nursery,
    ):
        stuck = (await supervisor.open("stuck")).handle

        async def load() -> None:
            with pytest.raises(SessionStopped, match="disposed"):
                await supervisor.load(stuck, "stuck:main")

        nursery.start_soon(load)
        await trio.sleep(1)
        await whole_life(supervisor, "other")
        await supervisor.dispose(stuck)


async def test_a_key_whose_end_takes_long_holds_only_its_own_opens_up(autojump_clock):
    async with (
        stage(options=AT_ONCE, programs=PROMPT) as s,
        s.supervisor(grace=5.0) as supervisor,
        trio.open_nursery() as nursery,
    ):
        stuck = (await supervisor.open("stuck")).handle
        await supervisor.load(stuck, "stubborn:main")
        opened: list[int] = []

        async def supersede() -> None:
            record = await supervisor.open("stuck", expected_generation=1)
            opened.append(record.handle.generation)

        async def stale() -> None:
            with pytest.raises(StaleSession):
                await supervisor.open("stuck", expected_generation=1)
            opened.append(0)

        nursery.start_soon(supersede)
        await trio.sleep(1)
        nursery.start_soon(stale)  # it stands behind
        await whole_life(supervisor, "other")
        await trio.sleep(1)
        assert not opened
        await whole_life(supervisor, "another")
        await trio.sleep(4)
        assert opened == [2, 0]


async def test_a_key_whose_child_says_nothing_of_its_end_holds_no_other_up(autojump_clock):
    lies = {"wait_exited": lambda _: hangs}
    async with (
        stage(options=AT_ONCE, programs=PROMPT) as s,
        lied_to(s, lies=lies) as supervisor,
        trio.open_nursery() as nursery,
    ):
        liar = (await supervisor.open("liar")).handle
        await supervisor.load(liar, "worker:main")
        nursery.start_soon(supervisor.dispose, liar)
        await trio.sleep(0.5)
        await whole_life(supervisor, "other")


@pytest.mark.parametrize("work", ["worker:main", "slow:main"], ids=["loaded", "loading"])
async def test_a_child_that_keeps_its_deadline_has_expired_though_its_end_is_seen_first(
    autojump_clock, monkeypatch, work
):
    """The machine slept: the child's deadline is over, and the alarm sleeps on another clock."""
    async with stage() as s, s.supervisor() as supervisor, trio.open_nursery() as nursery:
        handle = (await supervisor.open("key")).handle

        async def load() -> None:
            with pytest.raises(LeaseExpired) if work == "slow:main" else nullcontext():
                await supervisor.load(handle, work)

        nursery.start_soon(load)
        await trio.sleep(1)
        (child,) = s.machine.children.values()
        child.end(ExitStatus(signal=9))  # while the machine sleeps
        boottime = s.world.boottime
        monkeypatch.setattr(s.world, "boottime", lambda: boottime() + 3600.0)
        stopped = await supervisor.wait_stopped(handle)
        assert stopped.stop.reason == "expired"
        assert stopped.termination == Exited(ExitStatus(signal=9))
        with pytest.raises(LeaseExpired):
            supervisor.renew(handle)
        monkeypatch.undo()
