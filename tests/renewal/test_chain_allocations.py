"""What is allocated is recorded before it is used, and what a dead process left is ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from chain_stage import Stage, Token, until

from trio_reactor.errors import Lost, leaves
from trio_reactor.renewal import Cleanup, OpenFailed, RenewalOptions, open_renewal
from trio_reactor.renewal.allocation import (
    AllocationJournal,
    AllocationRecord,
    Allocations,
    JournalBusy,
    JournalFailed,
    JournalUnusable,
    open_journal,
)
from trio_reactor.renewal.allocation.records import MAX_ALLOCATION_BYTES
from trio_reactor.renewal.chain.inherited import MAX_TERMINATING
from trio_reactor.renewal.events import (
    AdoptionDiscarded,
    AllocationSettled,
    OnAir,
    OpenFailure,
    Replaced,
    SourceClosed,
    SourceOpening,
)
from trio_reactor.renewal.jsonvalue import NotJson
from trio_reactor.renewal.simulation import (
    SimulatedJournal,
    SimulatedProvider,
    SimulatedSource,
    SimulationOptions,
)
from trio_reactor.renewal.source import Predecessor, Source
from trio_reactor.testing import Fails, Faults, Never, Plan, Simulation, Slow, for_every_checkpoint


def kept(stage: Stage, journal: SimulatedJournal, **more: Any) -> Allocations:
    return Allocations(journal=journal, terminate=stage.provider.terminate, **more)


def journal_with(
    *records: AllocationRecord, faults: dict[str, Any] | None = None
) -> SimulatedJournal:
    return SimulatedJournal(records, faults=Faults(Plan(faults or {})))


# ---------------------------------------------------------------------------- what is written when


async def test_a_source_is_recorded_before_it_opens_and_before_it_is_used_until_its_end_is_proven(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, journal = Stage(lifetime=60.0), journal_with()
    at_open: list[dict[str, AllocationRecord]] = []
    at_use: list[dict[str, AllocationRecord]] = []
    at_close: list[dict[str, AllocationRecord]] = []
    attach, close = SimulatedSource.attach, SimulatedSource.close

    async def attaching(self: SimulatedSource, sink: Any, /) -> Any:
        at_use.append(dict(journal.records))
        return await attach(self, sink)

    async def closing(self: SimulatedSource) -> Cleanup:
        evidence = await close(self)
        at_close.append(dict(journal.records))
        return evidence

    monkeypatch.setattr(SimulatedSource, "attach", attaching)
    monkeypatch.setattr(SimulatedSource, "close", closing)

    @asynccontextmanager
    async def opener(predecessor: Predecessor) -> AsyncGenerator[Source]:
        at_open.append(dict(journal.records))
        async with stage.provider(predecessor) as source:
            assert isinstance(source, SimulatedSource)
            yield source

    async with stage.open(opener, allocations=kept(stage, journal)):
        (intent,) = at_open[0].values()
        assert (intent.renewal, intent.source, intent.ends_by) == ("renewal", None, None)
        assert intent.intended_at == stage.world.wall() - 0.22
        (record,) = journal.records.values()
        assert at_use == [journal.records]
        assert record.key == intent.key
        assert (record.source, record.allocation) == ("simulated-1", {"session": "simulated-1"})
        assert record.ends_by == pytest.approx(stage.world.wall() + 60.0, abs=0.1)
        assert stage.provider.allocated["simulated-1"].key == record.key
        stage.provider.newest.die()
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert [each.source for each in journal.records.values()] == ["simulated-2"]
    assert not journal.records
    assert [len(found) for found in at_close] == [1, 1] or [len(f) for f in at_close] == [2, 1]
    assert journal.writes.count("intend") == journal.writes.count("forget") == 2
    assert len({each.key for found in at_open for each in found.values()}) == 2


async def test_every_open_has_a_key_of_its_own_also_where_nothing_is_recorded(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open():
        first = stage.provider.newest.predecessor.key
        stage.provider.newest.die()
        await until(lambda: len(stage.said(OnAir)) == 2)
        second = stage.provider.newest.predecessor.key
        assert first is not None
        assert second is not None
        assert first != second


async def test_what_is_not_proven_to_have_ended_stays_recorded(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, faults={"close": {1: Fails("lost")}})
    journal = journal_with()
    async with stage.open(allocations=kept(stage, journal)):
        pass
    (record,) = journal.records.values()
    assert record.source == "simulated-1"
    assert not stage.said(SourceClosed)[0].cleanup.complete


@pytest.mark.parametrize("outcome", ["replied", "unknown"])
async def test_an_open_that_failed_stays_recorded_only_if_something_may_have_been_allocated(
    autojump_clock: object, outcome: Any
) -> None:
    stage, journal = Stage(), journal_with()
    stage.provider.refusing = lambda: OpenFailed("no", outcome=outcome)
    with pytest.raises(OpenFailed):
        async with stage.open(allocations=kept(stage, journal)):
            pytest.fail("opened")
    assert len(journal.records) == (outcome == "unknown")
    assert all(record.source is None for record in journal.records.values())


async def test_a_source_that_says_nothing_of_its_allocation_is_recorded_by_its_identity(
    autojump_clock: object,
) -> None:
    stage, journal = Stage(), journal_with()

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Source]:
        await trio.lowlevel.checkpoint()
        yield Token("plain", None)

    async with stage.open(opener, allocations=kept(stage, journal)):
        (record,) = journal.records.values()
        assert (record.source, record.allocation, record.ends_by) == ("plain", None, None)
    assert not journal.records


@pytest.mark.parametrize(
    "said",
    [b"secret", {"a": float("inf")}, "x" * MAX_ALLOCATION_BYTES],
    ids=["bytes", "infinite", "large"],
)
async def test_an_allocation_that_is_not_json_or_too_large_is_a_defect_and_the_source_is_closed(
    autojump_clock: object, said: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, journal = Stage(), journal_with()
    monkeypatch.setattr(SimulatedSource, "allocation", property(lambda self: said))
    with pytest.raises(ExceptionGroup) as caught:
        async with stage.open(allocations=kept(stage, journal)):
            pytest.fail("opened")
    assert caught.group_contains(NotJson, match="the allocation of source 1")
    assert stage.provider.closed == stage.provider.opened == 1
    assert not journal.records


# ------------------------------------------------------------------ a journal that fails or is slow


@pytest.mark.parametrize("done", [False, True], ids=["not done", "done"])
async def test_nothing_is_allocated_where_the_intent_could_not_be_recorded(
    autojump_clock: object, done: bool
) -> None:
    stage = Stage()
    journal = journal_with(faults={"record": {1: Fails("lost", done=done)}})
    with pytest.raises(OpenFailed) as caught:
        async with stage.open(allocations=kept(stage, journal)):
            pytest.fail("opened")
    assert isinstance(caught.value.__cause__, JournalFailed)
    assert stage.provider.attempts == 0
    assert not journal.records
    assert caught.value.cleanup is not None
    assert caught.value.cleanup.allocation == "none"


async def test_a_source_whose_identity_could_not_be_recorded_is_closed_and_never_used(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    journal = journal_with(faults={"record": {2: Fails("refused")}})

    def attach(self: SimulatedSource, sink: object, /) -> None:
        pytest.fail("used")

    monkeypatch.setattr(SimulatedSource, "attach", attach)
    with pytest.raises(OpenFailed):
        async with stage.open(allocations=kept(stage, journal)):
            pytest.fail("opened")
    assert stage.provider.closed == stage.provider.opened == 1
    assert not journal.records


async def test_a_later_source_that_cannot_be_recorded_is_tried_again_after_a_pause(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    journal = journal_with(faults={"record": {3: Fails("refused")}})
    async with stage.open(allocations=kept(stage, journal)):
        await trio.sleep(40)
        stage.provider.newest.die()
        await until(lambda: len(stage.said(OnAir)) == 2)
        (failed,) = stage.said(OpenFailure)
        assert failed.failure.type == "JournalFailed"
        assert failed.pause == 1.0
        assert stage.provider.attempts == 2


async def test_a_record_that_could_not_be_deleted_stays_and_that_is_told(
    autojump_clock: object,
) -> None:
    stage = Stage()
    journal = journal_with(faults={"record": {3: Fails("refused")}})
    async with stage.open(allocations=kept(stage, journal)) as renewal:
        pass
    assert len(journal.records) == 1
    report = renewal.report
    assert report is not None
    (entry,) = report.retained
    assert entry.cleanup.complete
    assert [failure.type for failure in entry.cleanup.failures] == ["JournalFailed"]


async def test_a_journal_that_never_answers_holds_up_neither_an_open_nor_close_beyond_its_budget(
    autojump_clock: object,
) -> None:
    stage = Stage(renewal={"accounting_timeout": 2.0})
    journal = journal_with(faults={"journal": {4: Never()}})
    async with stage.open(allocations=kept(stage, journal)):
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(2.0, abs=0.1)
    assert len(journal.records) == 1

    other = Stage(renewal={"open_timeout": 3.0})
    stuck = journal_with(faults={"journal": {2: Never(), 3: Slow(1.0)}})
    began = trio.current_time()
    with pytest.raises(OpenFailed):
        async with other.open(allocations=kept(other, stuck)):
            pytest.fail("opened")
    assert trio.current_time() - began == pytest.approx(4.0, abs=0.1)
    assert other.provider.attempts == 0


async def test_one_journal_serves_one_renewal_at_a_time(autojump_clock: object) -> None:
    stage, journal = Stage(), journal_with()
    async with stage.open(allocations=kept(stage, journal)):
        with pytest.raises(JournalBusy, match="'renewal'"):
            async with stage.open(allocations=kept(stage, journal)):
                pytest.fail("opened")
    async with stage.open(allocations=kept(stage, journal)):
        assert len(journal.records) == 1


# ------------------------------------------------------------------------- what a dead process left


def settled(stage: Stage) -> list[tuple[str | None, str]]:
    return [(said.source, said.how) for said in stage.said(AllocationSettled)]


async def test_what_was_left_is_adopted_as_the_first_source(autojump_clock: object) -> None:
    stage = Stage()
    left = stage.provider.leave_behind(lifetime=50.0)
    journal = journal_with(left)
    await trio.sleep(5)
    async with stage.open(allocations=kept(stage, journal)) as renewal:
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.source.id == "left-behind-1"
        assert renewal.state.on_air.expires_in == pytest.approx(45.0, abs=0.5)
        predecessor = stage.provider.newest.predecessor
        assert (predecessor.adopt, predecessor.key) == (left, left.key)
        assert [said.adopting for said in stage.said(SourceOpening)] == [True]
        assert settled(stage) == [("left-behind-1", "adopted")]
        assert stage.said(AllocationSettled)[0].age == pytest.approx(5.2, abs=0.1)
        (record,) = journal.records.values()
        assert record.key == left.key
        assert "intend" not in journal.writes
        # And it is followed like any other.
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert stage.provider.newest.predecessor.adopt is None
    assert not journal.records
    assert not stage.provider.allocated
    assert not stage.provider.terminated


@pytest.mark.parametrize("why", ["gone", "refused", "hangs", "short"])
async def test_what_cannot_be_adopted_is_terminated_and_a_fresh_open_follows(
    autojump_clock: object, why: str
) -> None:
    faults: dict[str, Any] = {
        "refused": {"open": {1: Fails("refused")}},
        "hangs": {"open": {1: Never()}},
    }.get(why, {})
    stage = Stage(exclusive=True, faults=faults)
    left = stage.provider.leave_behind(lifetime=8.0 if why == "short" else 60.0)
    journal = journal_with(left)
    if why == "gone":
        stage.provider.allocated.clear()
    async with stage.open(allocations=kept(stage, journal)) as renewal:
        assert settled(stage) == [("left-behind-1", "terminated")]
        assert len(stage.said(AdoptionDiscarded)) == 1
        assert not stage.said(OpenFailure)
        assert [said.adopting for said in stage.said(SourceOpening)] == [True, False]
        assert list(stage.provider.allocated) == [stage.provider.newest.id]
        assert [each.source for each in journal.records.values()] == [stage.provider.newest.id]
        assert renewal.state.status == "ready"
    report = renewal.report
    assert report is not None
    assert (report.total, report.complete) == (2, True)
    assert not journal.records
    assert not stage.provider.allocated
    # What said by itself that it is over, or was closed after it had been reached, needs no more.
    assert len(stage.provider.terminated) == (why in ("refused", "hangs"))


async def test_where_nothing_is_to_be_adopted_all_of_it_is_terminated_before_anything_opens(
    autojump_clock: object,
) -> None:
    stage = Stage(exclusive=True, faults={"terminate": {1: Slow(3.0), 2: Slow(3.0)}})
    left = [stage.provider.leave_behind(), stage.provider.leave_behind(identified=False)]
    journal = journal_with(*left)
    began = trio.current_time()
    async with stage.open(allocations=kept(stage, journal, adopt=False)):
        assert trio.current_time() - began == pytest.approx(3.2, abs=0.1), "side by side"
        assert sorted(how for _, how in settled(stage)) == ["terminated", "terminated"]
        assert stage.story.index("SourceOpening") == 2
        assert stage.provider.newest.predecessor.adopt is None
    assert not journal.records
    assert not stage.provider.allocated


async def test_what_another_renewal_has_left_is_not_touched_and_it_is_named(
    autojump_clock: object,
) -> None:
    stage = Stage()
    own, other = stage.provider.leave_behind(), stage.provider.leave_behind()
    journal = journal_with(own, msgspec.structs.replace(other, renewal="the other one"))
    with pytest.raises(JournalUnusable, match=r"memory: .*: 'the other one'$") as caught:
        async with stage.open(allocations=kept(stage, journal)):
            pytest.fail("opened")
    assert caught.value.path == "memory"
    assert stage.provider.attempts == 0
    assert not stage.provider.terminated
    assert not journal.writes
    assert len(journal.records) == len(stage.provider.allocated) == 2


async def test_what_any_renewal_has_left_is_adopted_and_terminated_if_that_is_wanted(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"close": {1: Fails("lost")}})
    own = stage.provider.leave_behind(lifetime=None)
    await trio.sleep(1)
    other = msgspec.structs.replace(
        stage.provider.leave_behind(lifetime=None), renewal="the other one"
    )
    journal = journal_with(own, other)
    async with stage.open(allocations=kept(stage, journal, any_renewal=True)):
        assert sorted(settled(stage)) == [
            ("left-behind-1", "terminated"),
            ("left-behind-2", "adopted"),
        ]
    # It could not be closed, and is now what this one has left.
    assert [record.renewal for record in journal.records.values()] == ["renewal"]
    async with stage.open(allocations=kept(stage, journal)):
        pass
    assert not journal.records


async def test_no_more_than_a_few_are_terminated_at_a_time(autojump_clock: object) -> None:
    stage = Stage()
    left = [stage.provider.leave_behind() for _ in range(3 * MAX_TERMINATING)]
    journal, busy, most = journal_with(*left), 0, 0

    async def terminate(record: AllocationRecord) -> Cleanup:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await trio.sleep(1)
        busy -= 1
        return await stage.provider.terminate(record)

    began = trio.current_time()
    allocations = Allocations(journal=journal, terminate=terminate, adopt=False)
    async with stage.open(allocations=allocations):
        assert trio.current_time() - began == pytest.approx(3.2, abs=0.1)
    assert most == MAX_TERMINATING
    assert not journal.records
    assert len(stage.provider.terminated) == len(left)


async def test_of_several_the_newest_that_may_live_is_adopted_and_the_others_are_terminated(
    autojump_clock: object,
) -> None:
    stage = Stage()
    left: list[AllocationRecord] = []
    for identified in (True, True, False):
        left.append(stage.provider.leave_behind(identified=identified))
        await trio.sleep(1)
    journal = journal_with(*left)
    async with stage.open(allocations=kept(stage, journal)) as renewal:
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.source.id == "left-behind-2"
        assert set(stage.provider.terminated) == {left[0].key, left[2].key}
        assert list(stage.provider.allocated) == ["left-behind-2"]
    assert not journal.records


async def test_what_cannot_be_terminated_stays_recorded_until_it_has_ended_for_certain(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"terminate": {n: Fails("lost") for n in (1, 2, 3)}})
    left = stage.provider.leave_behind(lifetime=60.0)
    journal = journal_with(left)
    for at, how in ((0.0, "unconfirmed"), (119.0, "unconfirmed"), (120.0, "expired")):
        await trio.sleep(at - trio.current_time())
        allocations = kept(stage, journal, adopt=False, end_margin=60.0)
        async with stage.open(allocations=allocations):
            said = stage.said(AllocationSettled)[-1]
            assert (said.how, said.cleanup) == (how, None)
            assert said.failure is not None
            assert said.failure.type == "Lost"
        assert bool(journal.records) == (how == "unconfirmed")


async def test_one_that_ends_never_stays_recorded_until_its_end_is_proven(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"terminate": {1: Never()}})
    journal = journal_with(stage.provider.leave_behind(identified=False))
    allocations = kept(stage, journal, terminate_timeout=2.0)
    async with stage.open(allocations=allocations):
        assert trio.current_time() == pytest.approx(2.2, abs=0.1)
    assert len(journal.records) == 1
    for _ in range(30):
        await trio.sleep(86_400)
    async with stage.open(allocations=allocations):
        pass
    assert settled(stage) == [(None, "unconfirmed"), (None, "terminated")]
    assert not journal.records


async def test_a_source_that_was_only_left_is_not_proven_to_have_ended(
    autojump_clock: object,
) -> None:
    stage = Stage()
    journal = journal_with(stage.provider.leave_behind())

    async def leave(record: AllocationRecord) -> Cleanup:
        await trio.lowlevel.checkpoint()
        return Cleanup.of(
            record.source, allocation="attached", termination="not-needed", connection="closed"
        )

    allocations = Allocations(journal=journal, terminate=leave, adopt=False)
    async with stage.open(allocations=allocations):
        assert settled(stage) == [("left-behind-1", "unconfirmed")]
    assert len(journal.records) == 1


async def test_a_source_with_another_identity_is_not_what_was_to_be_adopted(
    autojump_clock: object,
) -> None:
    stage = Stage()
    journal = journal_with(stage.provider.leave_behind())

    @asynccontextmanager
    async def opener(predecessor: Predecessor) -> AsyncGenerator[Source]:
        careless = Predecessor(None, predecessor.cause, key=predecessor.key)
        async with stage.provider(careless) as source:
            yield source

    async with stage.open(opener, allocations=kept(stage, journal)):
        (said,) = stage.said(AdoptionDiscarded)
        assert "not the one that was to be adopted" in said.failure.message
        assert settled(stage) == [("left-behind-1", "terminated")]
        assert list(stage.provider.allocated) == ["simulated-2"]
    assert not journal.records
    assert not stage.provider.allocated


@pytest.mark.parametrize("confirmed", [True, False])
async def test_what_was_reached_but_could_not_be_set_up_is_closed_and_told(
    autojump_clock: object, confirmed: bool
) -> None:
    faults: dict[str, Any] = {"attach": {1: Fails("lost")}}
    if not confirmed:
        faults["close"] = {1: Fails("lost")}
    stage = Stage(faults=faults)
    journal = journal_with(stage.provider.leave_behind(lifetime=None))
    async with stage.open(allocations=kept(stage, journal)):
        assert len(stage.said(AdoptionDiscarded)) == 1
        how = "terminated" if confirmed else "unconfirmed"
        assert settled(stage) == [("left-behind-1", how)]
    assert [each.source for each in journal.records.values()] == (
        [] if confirmed else ["left-behind-1"]
    )


async def test_an_adapter_that_allocates_where_it_was_to_adopt_leaves_neither_unseen(
    autojump_clock: object,
) -> None:
    stage = Stage(outlives=True, faults={"close": {1: Fails("lost")}})
    left = stage.provider.leave_behind()
    journal = journal_with(left)

    @asynccontextmanager
    async def opener(predecessor: Predecessor) -> AsyncGenerator[Source]:
        careless = Predecessor(None, predecessor.cause, key=predecessor.key)
        async with stage.provider(careless) as source:
            yield source

    async with stage.open(opener, allocations=kept(stage, journal)) as renewal:
        assert settled(stage) == [("left-behind-1", "terminated")]
        # The one that it opened, under the same key, could not be closed: its record stays.
        assert left.key in journal.records
        assert "simulated-1" in stage.provider.allocated
    report = renewal.report
    assert report is not None
    assert not report.complete


@pytest.mark.parametrize("adopt", [True, False])
@pytest.mark.parametrize("returned", [None, "done"])
async def test_a_defect_of_what_terminates_is_raised_and_nothing_is_opened(
    autojump_clock: object, adopt: bool, returned: object
) -> None:
    stage = Stage(faults={"open": {1: Fails("refused")}})
    journal = journal_with(stage.provider.leave_behind())

    async def broken(_: AllocationRecord) -> Any:
        await trio.lowlevel.checkpoint()
        if returned is None:
            raise ZeroDivisionError
        return returned

    allocations = Allocations(journal=journal, terminate=broken, adopt=adopt)
    # Beside the defect, where there is one, the adoption that failed before it.
    with pytest.raises((ZeroDivisionError, TypeError, ExceptionGroup)) as caught:
        async with stage.open(allocations=allocations):
            pytest.fail("opened")
    defect = TypeError if returned else ZeroDivisionError
    assert any(isinstance(leaf, defect) for leaf in leaves(caught.value))
    assert stage.provider.opened == 0
    assert stage.provider.attempts == adopt
    assert len(journal.records) == 1


async def test_a_journal_that_cannot_be_read_opens_nothing(autojump_clock: object) -> None:
    stage = Stage()
    journal = journal_with(faults={"journal": {1: Fails("lost")}})
    with pytest.raises(Lost):
        async with stage.open(allocations=kept(stage, journal)):
            pytest.fail("opened")
    assert stage.provider.attempts == 0


async def test_an_adopted_source_whose_end_is_not_proven_stays_recorded(
    autojump_clock: object,
) -> None:
    stage = Stage(faults={"close": {1: Fails("lost")}})
    journal = journal_with(stage.provider.leave_behind(lifetime=None))
    async with stage.open(allocations=kept(stage, journal)):
        stage.provider.newest.die()
        await until(lambda: bool(stage.said(Replaced)))
        await until(lambda: len(stage.said(OnAir)) == 2)
    assert [record.source for record in journal.records.values()] == ["left-behind-1"]


async def test_who_is_cancelled_while_it_adopts_terminates_within_the_budget_of_a_source(
    autojump_clock: object,
) -> None:
    stage = Stage(
        faults={"open": {1: Never()}, "terminate": {1: Never()}}, renewal={"cleanup_timeout": 2.0}
    )
    journal = journal_with(stage.provider.leave_behind())
    with trio.move_on_after(1.0):
        async with stage.open(allocations=kept(stage, journal)):
            pytest.fail("opened")
    assert trio.current_time() == pytest.approx(3.0, abs=0.1)
    assert settled(stage) == [("left-behind-1", "unconfirmed")]
    assert len(journal.records) == 1


@pytest.mark.parametrize("name", ["terminate_timeout", "end_margin"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "5", True])
def test_a_wrong_number_is_refused_by_its_name(name: str, value: object) -> None:
    provider: Any = None
    with pytest.raises(ValueError, match=f"^{name}: "):
        Allocations(journal=journal_with(), terminate=provider, **{name: value})  # type: ignore[arg-type]


# ------------------------------------------------------------------------- cancelled at any moment


async def two_lives(simulation: Simulation, journal: AllocationJournal) -> None:
    """Something is left, adopted, followed and closed; cancelled somewhere; then a new process."""
    provider = SimulatedProvider(
        simulation.world, SimulationOptions(lifetime=30.0, frame_rate=1.0, sound=False)
    )
    for left in (provider.leave_behind(), provider.leave_behind(identified=False)):
        await journal.put(left)
    allocations = Allocations(journal=journal, terminate=provider.terminate)
    options = RenewalOptions(lead=5.0, jitter=0.0)

    async def live() -> None:
        async with open_renewal(
            provider, options=options, world=simulation.world, allocations=allocations
        ):
            provider.newest.die()
            await trio.sleep(3)

    with simulation.cancelling("all"):
        await live()
    recorded = await journal.load()
    for identity, allocation in provider.allocated.items():
        assert any(
            identity == record.source or allocation.key == record.key for record in recorded
        ), "left running unseen"
    await live()
    assert not provider.allocated
    assert await journal.load() == ()


def test_cancelled_after_any_step_of_anybody_nothing_is_left_running_unseen() -> None:
    async def lives(simulation: Simulation) -> None:
        await two_lives(simulation, SimulatedJournal())

    assert for_every_checkpoint(lives) > 50


def test_the_same_holds_of_a_journal_in_a_file(tmp_path: Path) -> None:
    async def lives(simulation: Simulation) -> None:
        async with open_journal(tmp_path / "journal", inline=True) as journal:
            await two_lives(simulation, journal)

    assert for_every_checkpoint(lives) > 50
