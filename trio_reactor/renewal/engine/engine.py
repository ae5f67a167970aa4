"""The engine: prepares submissions, chooses their sources, and sends them.

Whatever is decided is decided in one synchronous step: which source takes a request when it is
submitted, and once more in the step in which it leaves, together with its place in its sequence.
Its place in the queue is an argument that an adapter has before that step: where the queue has
moved meanwhile, it is asked once more with the new one.
"""

from __future__ import annotations

import itertools
from collections.abc import Container
from typing import TYPE_CHECKING, Final, TypeVar, final

from trio_reactor.errors import Refused
from trio_reactor.owner import Owner
from trio_reactor.renewal.chain.retired import RetiredClips
from trio_reactor.renewal.errors import (
    ClipNotQueued,
    ContractBroken,
    QueueFull,
    RouteChanged,
    SessionRecovering,
    SessionRetired,
    sole,
)
from trio_reactor.renewal.sequences.book import (
    MemberAccepted,
    MemberFate,
    MemberIndeterminate,
    MemberRejected,
)
from trio_reactor.renewal.slot.settings import is_refusal
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import ClipRequest, Commit, Playable

from .capture import capture, check_name, check_position
from .courier import Couriers
from .dispatch import Dispatch, identity_of
from .routing import Placement, Route, locate, resolve
from .submission import Order, SequenceMember, Submission

if TYPE_CHECKING:
    from trio_reactor.renewal.chain.chain import Chain

__all__ = ["Engine"]

T = TypeVar("T")

MAX_PLACINGS: Final = 8
"""How often a request is given a place in a queue that moves before it can leave."""


@final
class Engine:
    """The requests of one renewal.

    Args:
        owner: Runs them.
        chain: Has the sources.
    """

    def __init__(self, owner: Owner, chain: Chain) -> None:
        self._owner = owner
        self._chain = chain
        self._numbers = itertools.count(1)
        self._couriers = Couriers(owner)

    # ------------------------------------------------------------------------------- submissions

    def prepare(
        self,
        request: ClipRequest,
        *,
        position: int | None,
        before: str | None,
        same_session_as: str | None,
        sequence: SequenceMember | None,
    ) -> Submission:
        """A request as it is now, to be submitted; see `Renewal.prepare`."""
        for name, clip in (("before", before), ("same_session_as", same_session_as)):
            if clip is not None:
                check_name(name, clip)
        if position is not None:
            check_position(position)
        captured = capture(request)
        placement = Placement.of(captured.continue_from, before, same_session_as, position)
        member = ""
        if sequence is not None:
            member = sequence.name or f"submission-{next(self._numbers)}"
        return Submission(self, Order(captured, placement, sequence, member))

    def dispatch(self, order: Order, selected: int | None, submission: Submission) -> Dispatch[str]:
        """Choose the source of a submission and begin to send it.

        Args:
            order: What was prepared.
            selected: The source that it chose before, if it did.
            submission: Hears what comes of it.

        Raises:
            ReactorError: Nothing was sent; see `Submission.submit`.
        """
        self._owner.check()
        self.check_room()
        if selected is not None and self._live(selected) is None:
            raise SessionRetired("the source that the submission chose is gone")
        route = self._resolve(order)
        if selected is not None and route.incarnation != selected:
            raise RouteChanged("the submission chose a source that does not take it any more")
        slot = self._live(route.incarnation)
        assert slot is not None  # noqa: S101 - it was seen in this step
        source = slot.playable
        assert source is not None  # noqa: S101 - else it takes no work
        self._check_clips(slot)
        if order.sequence is not None:
            self._chain.sequences.check(order.sequence.sequence, order.member, slot.incarnation)
        chain, errand = self._chain, _Errand(source, order.request, route.position)
        return self.begin(
            Dispatch(
                chain,
                slot,
                errand.run,
                check=lambda: self._commit(order, slot, errand),
                take=lambda clip: chain.hearing.accepted(slot, identity_of(clip), errand.position),
                over=lambda dispatch: self._over(order, submission, dispatch),
            )
        )

    def _commit(self, order: Order, slot: Slot, errand: _Errand) -> None:
        """Look once more, in the step in which it leaves; then it is a member of its sequence."""
        self._owner.check()
        if not slot.live:
            raise SessionRetired("the source that was to take the request is gone")
        route = self._resolve(order)
        if route.incarnation != slot.incarnation:
            raise RouteChanged("the source that was to take the request changed", retryable=True)
        errand.check_place(route.position)
        if order.sequence is not None:
            self._chain.sequences.begin(order.sequence.sequence, order.member, slot.incarnation)

    def _over(self, order: Order, submission: Submission, dispatch: Dispatch[str]) -> None:
        """Account for a submission that is over, once."""
        member = order.sequence
        if member is not None and dispatch.committed:
            self._chain.sequences.settle(
                member.sequence,
                order.member,
                _fate(dispatch),
                owner=dispatch.slot.incarnation,
                final=member.final,
            )
        submission._landed(dispatch)

    # ---------------------------------------------------------------------------------- commands

    def holder(self, clip: str) -> tuple[Slot, Playable]:
        """The source in whose queue a clip waits or plays.

        Raises:
            ValueError: It is no name.
            ClipUnknown: Nobody knows it.
            ClipNotQueued: It is over.
            SessionRetired: Its source is gone.
            SessionRecovering: Its source takes no work now.
            ContractBroken: Two sources have it.
            QueueFull: Too many commands are pending.
            Closed, Failed: No commands are taken.
        """
        check_name("clip", clip)
        self._owner.check()
        self.check_room()
        self._check_sole(clip)
        slot = locate("clip", clip, self._slots(), self._gone())
        if slot is None:
            raise SessionRetired("the source of the clip is gone")
        if clip not in slot.book:
            raise ClipNotQueued("the clip is over", detail=clip)
        if slot.playable is None or not slot.takes_work:
            raise SessionRecovering("the source of the clip takes no commands now", retryable=True)
        return slot, slot.playable

    def begin(self, dispatch: Dispatch[T]) -> Dispatch[T]:
        """Send a command, in a task of its own."""
        try:
            self._couriers.carry(dispatch)
        except BaseException:
            dispatch.drop()  # it never begins
            raise
        return dispatch

    def check_plays(self) -> None:
        """Raise if no source that is known plays clips: to try again would not help.

        Raises:
            Refused: The source on air does not, and none that does is prepared.
        """
        on_air, following = self._chain.on_air, self._chain.next
        if on_air is None or on_air.playable is not None:
            return
        if following is None or following.playable is None:
            raise Refused(f"{self._owner.name}: its sources play no clips")

    def check_room(self) -> None:
        """Raise unless one more command may be pending.

        Raises:
            QueueFull: As many are as may be.
        """
        pending = 0
        for slot in self._slots():
            pending += len(slot.pending)
        for slot in self._chain.leaving.values():
            pending += len(slot.pending)
        if pending >= self._chain.options.max_queue:
            raise QueueFull(f"{pending} commands are pending", retryable=True)

    def _check_clips(self, slot: Slot) -> None:
        """Raise unless a source may have one more clip; what is on its way counts as one.

        More would be held against the source, although it was asked for them.
        """
        bound = self._chain.options.max_clips
        if len(slot.book) + len(slot.pending) >= bound:
            raise QueueFull(f"max_clips={bound}: the source has as many as it may", retryable=True)

    # --------------------------------------------------------------------------------- the sources

    def _resolve(self, order: Order) -> Route:
        if self._chain.finished:
            raise SessionRetired("the last source is gone")
        named, sequence = order.placement.named, order.sequence
        for clip in named.values():
            self._check_sole(clip)
        bound = None if sequence is None else self._chain.sequences.owner(sequence.sequence)
        if bound is None and not named:
            self.check_plays()
        # Only what is bound to nothing goes where the chain prefers it.
        free = self._chain.route() if bound is None and not named else None
        return resolve(
            order.placement,
            self._slots(),
            retired=self._gone() if named else (),
            bound=bound,
            preferred=None if free is None else free.incarnation,
        )

    def _slots(self) -> tuple[Slot, ...]:
        """The live ones, the oldest first."""
        on_air, following = self._chain.on_air, self._chain.next
        if on_air is None:
            return () if following is None else (following,)
        return (on_air,) if following is None else (on_air, following)

    def _live(self, incarnation: int) -> Slot | None:
        for slot in self._slots():
            if slot.incarnation == incarnation:
                return slot
        return None

    def _gone(self) -> Container[str]:
        return _Gone(tuple(self._chain.leaving.values()), self._chain.retired_clips)

    def _check_sole(self, clip: str) -> None:
        """Raise if two live sources have this clip: then its name says nothing.

        Where clips are not named that does no harm, and no source is let go for it.
        """
        have = [slot.incarnation for slot in self._slots() if clip in slot.book]
        if len(have) > 1:
            raise ContractBroken(
                f"source {have[1]} has a clip of the name that one of source {have[0]} has",
                detail=clip,
            )


@final
class _Errand:
    """One request on its way into the queue of one source.

    Args:
        source: Whose.
        request: What it is asked for.
        position: The place among the clips that wait; `None` for the end.
    """

    def __init__(self, source: Playable, request: ClipRequest, position: int | None) -> None:
        self._source = source
        self._request = request
        self.position = position
        self._moved = False

    async def run(self, commit: Commit) -> str:
        """Send it to the place that is right when it leaves; returns the clip's identity."""
        for _ in range(MAX_PLACINGS - 1):
            try:
                return await self._source.enqueue(
                    self._request, position=self.position, commit=commit
                )
            except Exception as failure:
                if not self._moved or not isinstance(sole(failure), RouteChanged):
                    raise
                self._moved = False
        return await self._source.enqueue(self._request, position=self.position, commit=commit)

    def check_place(self, position: int | None) -> None:
        """Raise unless this is the place it was given; if it is not, it is given this.

        Raises:
            RouteChanged: It is not.
        """
        if position != self.position:
            self.position, self._moved = position, True
            raise RouteChanged("the queue that was to take the request moved", retryable=True)


@final
class _Gone:
    """The clips that are known of sources that are leaving, or have left."""

    def __init__(self, leaving: tuple[Slot, ...], retired: RetiredClips) -> None:
        self._leaving = leaving
        self._retired = retired

    def __contains__(self, clip: object) -> bool:
        if clip in self._retired:
            return True
        return isinstance(clip, str) and any(slot.book.knows(clip) for slot in self._leaving)


def _fate(dispatch: Dispatch[str]) -> MemberFate:
    """What became of a member of a sequence that was sent."""
    if dispatch.answer is not None:
        return MemberAccepted(dispatch.answer[0])
    failure = dispatch.failure
    assert failure is not None  # noqa: S101 - it has no answer
    if is_refusal(failure):
        return MemberRejected(failure.message)
    return MemberIndeterminate(failure.message)
