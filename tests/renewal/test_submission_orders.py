"""A request and everything that can meet it, in every order: one dispatch, one accounting, one end.

What comes of a request is what the provider answered, if that came before its source ended; else it
is not known.
"""

from __future__ import annotations

import functools

import pytest
import trio
from chain_stage import Stage, scene
from submission_stage import Desk
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import ReactorError
from trio_reactor.renewal import Accepted, Renewal, SequenceMember, SequenceState
from trio_reactor.renewal.engine.failure import Failure
from trio_reactor.renewal.engine.submission import Completed, Unsent
from trio_reactor.renewal.events import SequenceRetired, SequenceSealed, SourceClosed
from trio_reactor.renewal.sequences.book import (
    MemberAccepted,
    MemberIndeterminate,
)
from trio_reactor.testing import Order, orders

PLAIN = None
OPEN, FINAL = SequenceMember("titles", "first"), SequenceMember("titles", "first", final=True)


class Play:
    """One request that meets all of it.

    Args:
        member: As what it belongs to a sequence.
        stays: Whether a second caller waits for it, who is never cancelled.
        holds: Whether it leaves only when it is told to.
        close_delay: Seconds that its source takes to close.
    """

    def __init__(
        self,
        *,
        member: SequenceMember | None,
        stays: bool = False,
        holds: bool = False,
        close_delay: float = 0.0,
    ) -> None:
        self.stage = Stage(lifetime=None, close_delay=close_delay, renewal={"reply_timeout": 1e6})
        self.member = member
        self.stays = stays
        self.holds = holds
        self.in_time: bool | None = None
        """Whether the answer came after the request had left and before its source ended."""
        self.heard: list[Accepted | Failure] = []
        self.sequence: SequenceState | None = None

    async def run(self, order: Order) -> None:
        async with trio.open_nursery() as nursery, self.stage.open() as renewal:
            await trio.sleep(1)
            self.source = self.stage.provider.newest
            self.desk = Desk(self.source, holds=self.holds)
            slot = renewal._chain.on_air
            assert slot is not None
            assert slot.attempt is not None
            self.slot = slot
            self.submission = renewal.prepare(scene(), sequence=self.member)
            patience = trio.CancelScope()
            nursery.start_soon(self._call, patience)
            if self.stays:
                nursery.start_soon(self._call, trio.CancelScope())
            await wait_all_tasks_blocked()
            actions = {
                "leave": self.desk.may_leave.set,
                "cancel": patience.cancel,
                "reply": self._reply,
                "expire": functools.partial(slot.attempt.set_lifetime, 0.0),
                "close": functools.partial(self._close, renewal),
            }
            await order.play(actions, nursery)
            await renewal.close()
            await wait_all_tasks_blocked()
            self.sequence = renewal.sequences.get("titles")
            self.judge(order)
        after = self.submission.state
        await self._call(trio.CancelScope())
        if isinstance(after, Completed):
            assert self.heard[-1] == after.outcome, order
        else:
            refused = self.heard[-1]
            assert isinstance(refused, Failure)
            assert (refused.kind, after) == ("Closed", Unsent()), order

    async def _call(self, patience: trio.CancelScope) -> None:
        with patience:
            try:
                self.heard.append(await self.submission.submit())
            except ReactorError as failure:
                self.heard.append(Failure.of(failure))

    def _reply(self) -> None:
        if self.desk.sent:
            self.in_time = not self.slot.gone
        self.desk.answered.set()

    async def _close(self, renewal: Renewal) -> None:
        await renewal.close()

    def judge(self, order: Order) -> None:
        """What holds of every story when it is over."""
        assert self.source.closes == 1, order
        closed = [said.source.incarnation for said in self.stage.said(SourceClosed)]
        assert closed.count(1) == 1, order
        assert self.desk.sent <= 1, order
        assert len(self.desk.asked) == 1, order
        assert not self.slot.pending, order
        sealed, retired = self.stage.said(SequenceSealed), self.stage.said(SequenceRetired)
        if not self.desk.sent:
            assert self.submission.state == Unsent(), order
            assert self.sequence is None, order
            assert all(not isinstance(heard, Accepted) for heard in self.heard), order
            assert not sealed
            assert not retired
            return
        state = self.submission.state
        assert isinstance(state, Completed), order
        taken = isinstance(state.outcome, Accepted)
        if self.in_time is not None:
            assert taken == self.in_time, order
        if not taken:
            assert isinstance(state.outcome, Failure)
            assert state.outcome.record.outcome == "unknown", order
        for heard in self.heard:
            assert heard == state.outcome, order
        assert len(self.heard) >= self.stays, order
        if self.member is None:
            assert self.sequence is None
            return
        assert self.sequence is not None
        (fate,) = self.sequence.members.values()
        assert isinstance(fate, MemberAccepted if taken else MemberIndeterminate), order
        phase = type(self.sequence.phase).__name__
        if not taken:
            assert phase == "Indeterminate", order
        else:
            assert phase == ("Sealed" if self.member.final else "Ended"), order
        assert len(sealed) == (phase == "Sealed"), order
        assert [(said.accepted, said.indeterminate) for said in retired] == (
            [] if phase == "Sealed" else [(int(taken), int(not taken))]
        ), order


@pytest.mark.parametrize("close_delay", [0.0, 0.5])
@pytest.mark.parametrize("member", [PLAIN, OPEN, FINAL], ids=["plain", "open", "final"])
async def test_a_caller_who_leaves_an_answer_an_expiry_and_a_close_in_every_order(
    autojump_clock: object, member: SequenceMember | None, close_delay: float
) -> None:
    seen = set()
    for order in orders("cancel", "reply", "expire", "close"):
        play = Play(member=member, close_delay=close_delay)
        await play.run(order)
        seen.add(play.in_time)
    # Without a delay a source can end before the answer comes.
    assert seen == ({True, False} if close_delay == 0.0 else {True})


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("member", [PLAIN, FINAL], ids=["plain", "final"])
async def test_a_request_that_leaves_meanwhile_in_every_order(
    autojump_clock: object, member: SequenceMember | None, stays: bool
) -> None:
    sent = set()
    for order in orders("leave", "cancel", "reply", "expire"):
        play = Play(member=member, stays=stays, holds=True)
        await play.run(order)
        sent.add(play.desk.sent)
    assert sent == {0, 1}


@pytest.mark.parametrize("member", [PLAIN, OPEN], ids=["plain", "open"])
async def test_a_request_that_leaves_while_all_is_closed_in_every_order(
    autojump_clock: object, member: SequenceMember | None
) -> None:
    for order in orders("leave", "reply", "close"):
        await Play(member=member, stays=True, holds=True).run(order)
