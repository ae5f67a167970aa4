"""Sequences and bounds where sources change: what comes late, and what is asked before."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, scene, until
from submission_stage import Desk
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Lost
from trio_reactor.renewal import MemberKnown, QueueFull, RenewalOptions, SequenceMember
from trio_reactor.renewal.events import OnAir
from trio_reactor.renewal.sequences.book import MemberAccepted, MemberPending, SequenceState
from trio_reactor.renewal.sequences.register import SequenceRegister
from trio_reactor.testing import Slow


class Deaf:
    """Hears of sequences, and does nothing about it."""

    def sequence_sealed(self, sequence: SequenceState) -> None:
        """Nothing."""

    def changed(self) -> None:
        """Nothing."""


def test_what_comes_late_of_a_source_that_is_gone_settles_nothing_of_a_name_given_anew() -> None:
    register = SequenceRegister(Deaf(), RenewalOptions())
    register.begin("titles", "one", 1)
    register.retire(1, "its source ended")
    register.acknowledge("titles")
    register.release("titles")
    register.begin("titles", "one", 2)
    register.settle("titles", "one", MemberAccepted("late"), owner=1, final=True)
    state = register.get("titles")
    assert state is not None
    assert state.members == {"one": MemberPending()}
    assert register.holds(2)


async def test_a_member_that_a_sequence_has_is_refused_before_a_source_is_asked(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        desk = Desk(stage.provider.newest)
        member = SequenceMember("titles", "one")
        first = renewal.prepare(scene(5), sequence=member)
        nursery.start_soon(first.submit)
        await wait_all_tasks_blocked()
        with pytest.raises(MemberKnown):
            await renewal.enqueue(scene(5), sequence=member)
        assert len(desk.asked) == 1
        desk.answered.set()


async def test_what_a_source_that_leaves_has_not_answered_counts_among_what_is_pending(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"close": {1: Slow(4.0)}}, renewal={"max_queue": 2})

    async def ask() -> None:
        with pytest.raises(Lost):
            await renewal.enqueue(scene(5))

    async with stage.open() as renewal, trio.open_nursery() as nursery:
        source = stage.provider.newest
        Desk(source)
        for _ in range(2):
            nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        source.die()
        await until(lambda: len(stage.said(OnAir)) == 2)
        with pytest.raises(QueueFull):
            await renewal.enqueue(scene(5))
        await trio.sleep(5)
        await renewal.enqueue(scene(5))
