"""A faulty store: commits fail before and after they are durable, are late, hang, and crash."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from trio_reactor.errors import ReactorError
from trio_reactor.supervision.errors import RecordRefused, StoreFailed
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Open, SessionRecord
from trio_reactor.supervision.model.work import UNLIMITED
from trio_reactor.supervision.simulation import FaultyStore
from trio_reactor.supervision.store.protocol import (
    Change,
    Contents,
    HostFacts,
    Journal,
    KeyFacts,
    SharedJournal,
)
from trio_reactor.testing import Crashed, Crashes, Fails, Fault, Faults, Never, Plan, Slow, Twice


class Lines:
    """A store that keeps what is committed, whatever it is."""

    def __init__(self) -> None:
        self.lines: list[Change] = []
        self.opened = 0

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Journal]:
        self.opened += 1
        yield self

    async def load(self) -> Contents:
        await trio.lowlevel.checkpoint()
        records = tuple(change.record for change in self.lines)
        return Contents(records, {record.handle.key: 1 for record in records})

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        await trio.lowlevel.checkpoint()
        self.lines += changes
        return [None] * len(changes)


class SharedLines(Lines):
    """The same, as one that is shared."""

    incarnation = "host-1"
    lease = 10.0

    async def beat(self) -> bool:
        return True

    async def look(self, key: Key, /) -> KeyFacts:
        return KeyFacts(0, "", None)

    async def host(self, incarnation: str, /) -> HostFacts | None:
        return None

    async def fence(self, seen: HostFacts, /) -> bool:
        return True


def change(name: str) -> Change:
    record = SessionRecord(Handle(Key(name), 1, "token"), name, 30.0, UNLIMITED, 0.0, Open())
    return Change(record, encode(record))


HOST = HostFacts("host-2", "host", 3, 10.0, fenced=False)
ONE, TWO, THREE = change("one"), change("two"), change("three")


def planned(**places: Fault) -> Faults:
    return Faults(Plan({place: {1: fault} for place, fault in places.items()}))


async def test_what_is_not_planned_passes(autojump_clock: MockClock) -> None:
    lines = Lines()
    async with FaultyStore(lines).open() as journal:
        assert not isinstance(journal, SharedJournal)
        assert await journal.commit([ONE, TWO]) == [None, None]
        assert (await journal.load()).records == (ONE.record, TWO.record)
    assert lines.lines == [ONE, TWO]


@pytest.mark.parametrize(
    ("fault", "outcome", "durable"),
    [
        (Fails("refused"), "not-submitted", False),
        (Fails("refused", done=True), "unknown", True),
        (Fails("lost"), "unknown", False),
        (Fails("lost", done=True), "unknown", True),
        (Fails("timed-out", after=3.0), "unknown", False),
    ],
)
async def test_a_commit_that_fails_says_what_can_be_known(
    fault: Fails, outcome: str, durable: bool, autojump_clock: MockClock
) -> None:
    lines = Lines()
    async with FaultyStore(lines, planned(commit=fault)).open() as journal:
        with pytest.raises(StoreFailed) as told:
            await journal.commit([ONE, TWO])
        assert told.value.outcome == outcome
        assert not told.value.retryable
        assert lines.lines == ([ONE, TWO] if durable else [])
        assert trio.current_time() == fault.after
        assert await journal.commit([THREE]) == [None]


async def test_a_defect_comes_out_as_one(autojump_clock: MockClock) -> None:
    async with FaultyStore(Lines(), planned(commit=Fails("defect"))).open() as journal:
        with pytest.raises(RuntimeError, match="a defect as planned"):
            await journal.commit([ONE])


async def test_a_slow_commit_is_late(autojump_clock: MockClock) -> None:
    lines = Lines()
    async with FaultyStore(lines, planned(commit=Slow(4.0))).open() as journal:
        assert await journal.commit([ONE]) == [None]
        assert trio.current_time() == 4.0
    assert lines.lines == [ONE]


@pytest.mark.parametrize("held", [True, False])
async def test_a_commit_hangs_until_it_is_told(held: bool, autojump_clock: MockClock) -> None:
    lines = Lines()
    store = FaultyStore(lines, None if held else planned(commit=Never()))
    async with store.open() as journal, trio.open_nursery() as nursery:
        if held:
            store.hold()
            store.hold()
        nursery.start_soon(journal.commit, [ONE])
        await trio.sleep(100)
        assert lines.lines == []
        store.release()
        await trio.sleep(1)
        assert lines.lines == [ONE]
        nursery.start_soon(journal.commit, [TWO])
        await trio.sleep(1)
        assert lines.lines == [ONE, TWO]


async def test_one_record_of_a_group_is_refused_alone(autojump_clock: MockClock) -> None:
    lines = Lines()
    faults = Faults(Plan({"record": {2: Fails()}}))
    async with FaultyStore(lines, faults).open() as journal:
        first, second, third = await journal.commit([ONE, TWO, THREE])
        assert (first, third) == (None, None)
        assert isinstance(second, RecordRefused)
        assert lines.lines == [ONE, THREE]


async def test_a_group_of_which_all_are_refused_is_not_committed(
    autojump_clock: MockClock,
) -> None:
    lines = Lines()
    async with FaultyStore(lines, planned(record=Fails())).open() as journal:
        (refusal,) = await journal.commit([ONE])
        assert isinstance(refusal, RecordRefused)
    assert lines.lines == []


@pytest.mark.parametrize("done", [True, False])
async def test_a_supervisor_dies_at_a_write(done: bool, autojump_clock: MockClock) -> None:
    lines = Lines()
    faults = Faults(Plan({"commit": {2: Crashes(done)}}))
    died: list[str] = []
    store = FaultyStore(lines, faults, crashed=lambda: died.append("now"))
    async with store.open() as journal:
        await journal.commit([ONE])
        with pytest.raises(Crashed):
            await journal.commit([TWO])
        assert died == ["now"]
        assert store.gone.is_set
        for _ in range(2):
            with pytest.raises(Crashed):
                await journal.commit([THREE])
        with pytest.raises(Crashed):
            await journal.load()
    assert died == ["now"]
    assert lines.lines == ([ONE, TWO] if done else [ONE])

    async with FaultyStore(lines, faults).open() as journal:  # the next one's life
        assert await journal.commit([THREE]) == [None]


async def test_what_is_on_its_way_when_the_supervisor_dies_is_not_done(
    autojump_clock: MockClock,
) -> None:
    lines = Lines()
    store = FaultyStore(lines, planned(commit=Slow(4.0)))

    async def commit(journal: Journal) -> None:
        with pytest.raises(Crashed):
            await journal.commit([ONE])

    async with store.open() as journal, trio.open_nursery() as nursery:
        nursery.start_soon(commit, journal)
        await trio.sleep(1)
        store.die()
    assert lines.lines == []


@pytest.mark.parametrize("place", ["open", "load"])
async def test_opening_and_loading_fail_and_crash(place: str, autojump_clock: MockClock) -> None:
    lines = Lines()
    with pytest.raises(StoreFailed, match=place):
        async with FaultyStore(lines, planned(**{place: Fails("lost")})).open() as journal:
            await journal.load()
    died: list[str] = []
    store = FaultyStore(lines, planned(**{place: Crashes()}), crashed=lambda: died.append("now"))
    with pytest.raises(Crashed):
        async with store.open() as journal:
            await journal.load()
    assert died == ["now"]
    assert lines.opened == (0 if place == "open" else 2)


async def test_a_shared_journal_stays_one(autojump_clock: MockClock) -> None:
    store = FaultyStore(SharedLines(), planned(beat=Fails("lost"), fence=Fails("timed-out")))
    async with store.open() as journal:
        assert isinstance(journal, SharedJournal)
        assert (journal.incarnation, journal.lease) == ("host-1", 10.0)
        for call in (journal.beat, lambda: journal.fence(HOST)):
            with pytest.raises(StoreFailed):
                await call()
            assert await call()
        assert await journal.look(Key("one")) == KeyFacts(0, "", None)
        assert await journal.host("host-2") is None
        assert await journal.commit([ONE]) == [None]


async def test_a_plan_that_makes_no_sense_is_told(autojump_clock: MockClock) -> None:
    async with FaultyStore(Lines(), planned(commit=Twice())).open() as journal:
        with pytest.raises(ValueError, match="commit"):
            await journal.commit([ONE])
