"""Sequences through the handle: what holds a handover, and what becomes of one with its source."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from chain_stage import Stage, scene, until
from submission_stage import Desk
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Lost, Refused
from trio_reactor.renewal import (
    Accepted,
    ClipRequest,
    MemberKnown,
    OwnerConflict,
    QueueFull,
    Renewal,
    SequenceMember,
    SequenceOver,
    SequenceState,
    SequenceUnknown,
    SequenceUnresolved,
    SessionRetired,
)
from trio_reactor.renewal.events import (
    HandedOver,
    Prepared,
    Replaced,
    SequenceRetired,
    SequenceSealed,
    SourceClosed,
)
from trio_reactor.renewal.sequences.book import (
    MemberAccepted,
    MemberIndeterminate,
    MemberPending,
    MemberRejected,
)


def of(name: str, member: str | None = None, *, final: bool = False) -> SequenceMember:
    return SequenceMember(name, member, final)


def phase(renewal: Renewal, name: str) -> str:
    state = renewal.sequences.get(name)
    return "" if state is None else type(state.phase).__name__


async def test_a_sequence_stays_at_its_source_and_holds_the_handover_until_it_is_sealed(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        first = await renewal.enqueue(scene(1), sequence=of("titles"))
        await until(lambda: bool(stage.said(Prepared)))
        assert (await renewal.enqueue(scene(1))).source.incarnation == 2
        await trio.sleep(3)
        assert not stage.said(HandedOver)
        last = await renewal.enqueue(scene(1), sequence=of("titles", final=True))
        assert last.source == first.source
        assert phase(renewal, "titles") == "Sealed"
        await until(lambda: bool(stage.said(HandedOver)))
        (sealed,) = stage.said(SequenceSealed)
        assert (sealed.source, sealed.sequence, sealed.accepted) == (first.source, "titles", 2)
        assert stage.story.index("SequenceSealed") < stage.story.index("HandedOver")
        assert not stage.said(SequenceRetired)
        renewal.sequences.release("titles")
        assert renewal.sequences.snapshots() == ()


async def test_a_sequence_of_the_next_source_goes_on_there_after_the_handover(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await until(lambda: bool(stage.said(Prepared)))
        first = await renewal.enqueue(scene(1), sequence=of("titles"))
        assert first.source.incarnation == 2
        await until(lambda: bool(stage.said(HandedOver)))
        assert (await renewal.enqueue(scene(1), sequence=of("titles"))).source == first.source
        assert phase(renewal, "titles") == "Open"


async def test_an_open_sequence_at_the_end_of_a_life_ends_with_its_source(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        first = await renewal.enqueue(scene(1), sequence=of("titles"))
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(SourceClosed)))
        assert [said.why for said in stage.said(Replaced)] == ["expired"]
        (retired,) = stage.said(SequenceRetired)
        assert (retired.source, retired.sequence) == (first.source, "titles")
        assert (retired.accepted, retired.rejected, retired.indeterminate) == (1, 0, 0)
        story = stage.story
        assert story.index("Replaced") < story.index("SequenceRetired")
        assert story.index("SequenceRetired") < story.index("SourceClosed")
        assert phase(renewal, "titles") == "Ended"
        with pytest.raises(SessionRetired):
            await renewal.enqueue(scene(1), sequence=of("titles"))
        renewal.sequences.release("titles")
        again = await renewal.enqueue(scene(1), sequence=of("titles"))
        assert again.source.incarnation == 2


async def test_a_member_without_an_answer_is_indeterminate_once_its_source_is_gone(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, renewal={"reply_timeout": 100.0})
    async with stage.open() as renewal:
        await renewal.enqueue(scene(1), sequence=of("titles", "a"))
        desk = Desk(stage.provider.newest)
        with pytest.raises(Lost) as caught:
            await renewal.enqueue(scene(1), sequence=of("titles", "b"))
        assert caught.value.outcome == "unknown"
        titles = renewal.sequences.get("titles")
        assert titles is not None
        assert titles.members["a"] == MemberAccepted("simulated-1/clip-1")
        assert isinstance(titles.members["b"], MemberIndeterminate)
        assert [said.indeterminate for said in stage.said(SequenceRetired)] == [1]
        with pytest.raises(SequenceUnresolved):
            renewal.sequences.release("titles")
        renewal.sequences.acknowledge("titles")
        assert phase(renewal, "titles") == "Acknowledged"
        renewal.sequences.release("titles")
        assert desk.sent == 1


async def test_sealing_waits_for_the_answers_that_are_out(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        desk = Desk(stage.provider.newest)
        sealed: list[SequenceState] = []

        async def seal() -> None:
            sealed.append(await renewal.sequences.seal("titles"))

        nursery.start_soon(_ask, renewal, of("titles", "a"))
        await wait_all_tasks_blocked()
        with trio.move_on_after(1) as scope:
            await renewal.sequences.seal("titles")
        assert scope.cancelled_caught
        assert phase(renewal, "titles") == "Sealing"  # it is wanted all the same
        nursery.start_soon(seal)
        nursery.start_soon(seal)
        with pytest.raises(SequenceOver):
            await renewal.enqueue(scene(1), sequence=of("titles", "b"))
        await wait_all_tasks_blocked()
        assert sealed == []
        desk.answered.set()
        await wait_all_tasks_blocked()
        assert [(type(each.phase).__name__, each.members) for each in sealed] == [
            ("Sealed", {"a": MemberAccepted("clip")})
        ] * 2
        assert (await renewal.sequences.seal("titles")) == sealed[0]
        assert len(stage.said(SequenceSealed)) == 1
        with pytest.raises(SequenceUnknown):
            await renewal.sequences.seal("credits")


async def _ask(renewal: Renewal, member: SequenceMember) -> Accepted:
    return await renewal.enqueue(scene(1), sequence=member)


async def test_sealing_ends_when_its_source_does(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, renewal={"reply_timeout": 500.0})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        Desk(stage.provider.newest)
        ended: list[SequenceState] = []

        async def ask() -> None:
            with pytest.raises(Lost):
                await _ask(renewal, of("titles", "a"))

        async def seal() -> None:
            ended.append(await renewal.sequences.seal("titles"))

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        nursery.start_soon(seal)
        await wait_all_tasks_blocked()
        stage.provider.newest.die()
        await trio.sleep(1)
        assert [type(each.phase).__name__ for each in ended] == ["Indeterminate"]


async def test_a_final_member_that_is_rejected_seals_and_hands_over(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await renewal.enqueue(scene(1), sequence=of("titles", "a"))
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        with pytest.raises(Refused):
            await renewal.enqueue(scene(0), sequence=of("titles", "b", final=True))
        titles = renewal.sequences.get("titles")
        assert titles is not None
        assert isinstance(titles.members["b"], MemberRejected)
        assert [(said.accepted, said.rejected) for said in stage.said(SequenceSealed)] == [(1, 1)]
        await until(lambda: bool(stage.said(HandedOver)))


async def test_what_does_not_leave_is_no_member(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, renewal={"max_sequences": 1, "max_members": 2})
    async with stage.open() as renewal:
        one = await renewal.enqueue(scene(1), sequence=of("titles", "a"))
        with pytest.raises(MemberKnown):
            await renewal.enqueue(scene(1), sequence=of("titles", "a"))
        with pytest.raises(QueueFull, match="1 sequences"):
            await renewal.enqueue(scene(1), sequence=of("credits"))
        await renewal.enqueue(scene(1), sequence=of("titles"))
        with pytest.raises(QueueFull, match="2 members"):
            await renewal.enqueue(scene(1), sequence=of("titles"))
        assert stage.provider.dispatched == 2
        (titles,) = renewal.sequences.snapshots()
        assert (titles.owner, titles.count(MemberAccepted)) == (one.source.incarnation, 2)
        await renewal.sequences.seal("titles")
        with pytest.raises(SequenceOver):
            await renewal.enqueue(scene(1), sequence=of("titles"))
        await renewal.enqueue(scene(1), sequence=of("credits"))  # what is over makes room
        assert [each.name for each in renewal.sequences.snapshots()] == ["credits"]


async def test_a_member_that_is_refused_here_does_not_settle_its_namesake(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        desk = Desk(stage.provider.newest, holds=True)
        refused: list[MemberKnown] = []

        async def ask() -> None:
            try:
                await _ask(renewal, of("titles", "a"))
            except MemberKnown as failure:
                refused.append(failure)

        nursery.start_soon(ask)
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        desk.may_leave.set()
        await wait_all_tasks_blocked()
        assert len(refused) == 1
        titles = renewal.sequences.get("titles")
        assert titles is not None
        assert titles.members == {"a": MemberPending()}
        desk.answered.set()
        await wait_all_tasks_blocked()
        assert desk.sent == 1


async def test_a_sequence_and_a_clip_at_different_sources_conflict(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await renewal.enqueue(scene(1), sequence=of("titles"))
        await until(lambda: bool(stage.said(Prepared)))
        new = await renewal.enqueue(scene(1))
        sent = stage.provider.dispatched
        request = ClipRequest({"frames": 1}, continue_from=new.clip)
        with pytest.raises(OwnerConflict):
            await renewal.enqueue(request, sequence=of("titles"))
        assert stage.provider.dispatched == sent


async def test_sequences_can_be_seen_to_after_close(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await renewal.enqueue(scene(1), sequence=of("settled"))
        Desk(stage.provider.newest)
        nursery.start_soon(_lost, renewal, of("pending"))
        await wait_all_tasks_blocked()
        await renewal.close()
    assert [type(each.phase).__name__ for each in renewal.sequences.snapshots()] == [
        "Ended",
        "Indeterminate",
    ]
    await renewal.sequences.seal("settled")
    renewal.sequences.acknowledge("pending")
    renewal.sequences.release("pending")
    renewal.sequences.release("settled")
    story: list[Any] = [each for each in stage.story if each != "PrepareScheduled"]
    assert story[-4:] == ["SequenceRetired", "SequenceRetired", "SourceClosed", "RenewalClosed"]


async def _lost(renewal: Renewal, member: SequenceMember) -> None:
    with pytest.raises(Lost):
        await _ask(renewal, member)
