"""The roles of a chain's sources, and the steps that change them.

One is *on air*, one is the *next*, the others are *leaving*.  Every step is synchronous, and says
what it did.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Protocol, final

import msgspec

from trio_reactor.errors import EXPECTED, Closed, Lost, Overflow
from trio_reactor.owner import Attempt, Owner
from trio_reactor.renewal import events
from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.policy.handoff import HandoffEvidence
from trio_reactor.renewal.policy.resumption import Handle, Offers
from trio_reactor.renewal.slot.host import SlotHearing, SlotHost
from trio_reactor.renewal.slot.life import life
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import OpenCause, Predecessor, Source, SourceOpener

from .announcer import Announcer
from .ledger import CleanupLedger
from .replay import Replay
from .tally import FailureTally
from .upkeep import defects_are_terminal

__all__ = ["Lineup", "LineupHost", "Trace"]


class Trace(msgspec.Struct, frozen=True):
    """What is kept of a source that is, or was, on air: data, which keeps nothing of it alive."""

    ref: events.SourceRef
    age: float
    """Seconds it has lived, or had when it was let go."""
    resumption: str | None = None
    """What it left, to go on where it stopped."""

    @property
    def handle(self) -> Handle | None:
        """What it left, and whose it is."""
        if self.resumption is None:
            return None
        return Handle(self.ref.incarnation, self.resumption)


class LineupHearing(SlotHearing, Protocol):
    """What hears of the ends of attempts, beside what a slot tells."""

    def departed(self, slot: Slot, attempt: Attempt[Source]) -> None:
        """A source that was held is lost, or has expired."""
        ...

    def ended(self, slot: Slot, attempt: Attempt[Source]) -> None:
        """A source has left altogether, or was never opened."""
        ...


class LineupHost(SlotHost, Protocol):
    """What a lineup needs of its chain.  Everything is synchronous."""

    @property
    def hearing(self) -> LineupHearing:
        """Who hears what becomes of its slots."""
        ...

    def is_wanted_after(self, slot: Slot) -> bool:
        """Whether the application has asked for a successor of this source."""
        ...


@final
class Lineup:
    """Who is on air, who is next and who is leaving.

    Args:
        host: The chain.
        owner: Holds the sources.
        opener: Opens a source.
        announce: Where it is said what happens.
        ledger: Is asked before each open.
        tally: Counts what ended by itself.
        replay: What is told to a source that has nothing to resume from.
    """

    def __init__(
        self,
        host: LineupHost,
        owner: Owner,
        opener: SourceOpener,
        announce: Announcer,
        ledger: CleanupLedger,
        tally: FailureTally,
        replay: Replay,
    ) -> None:
        self._host = host
        self._owner = owner
        self._opener = opener
        self._announce = announce
        self._ledger = ledger
        self._tally = tally
        self._replay = replay
        self.on_air: Slot | None = None
        self.next: Slot | None = None
        self.leaving: dict[int, Slot] = {}
        self.vacancy: OpenCause = "first"
        """Why the place on air is vacant, if it is."""
        self.offers = Offers()
        """What was left to resume from, and refused."""
        self._vacant_since: float | None = None
        self._before: Trace | None = None
        self._yielded: tuple[Trace, HandoffEvidence, events.Tail] | None = None

    @property
    def last(self) -> Trace | None:
        """What is known of the source that is on air, or was the last to be."""
        return self._before if self.on_air is None else Trace(self.on_air.ref, self.on_air.age)

    def is_taken(self, identity: str) -> bool:
        """Whether a source that is owned has this identity."""
        owned = (self.on_air, self.next, *self.leaving.values())
        return any(slot is not None and slot.identity == identity for slot in owned)

    def prepare(self, cause: OpenCause) -> None:
        """Open the next source; that there is no room for its clean-up is terminal."""
        try:
            self.open(cause)
        except Overflow as full:
            self._owner.fail(full)
        except Closed:
            # What was asked for it had a defect, or has cancelled what is around the renewal.
            if not self._owner.stopping.is_set:
                raise

    def open(self, cause: OpenCause, *, adopt: AllocationRecord | None = None) -> Slot:
        """Begin to open the next source, or to adopt what a dead process left.

        Raises:
            Overflow: There is no room for its clean-up.
            Closed: The owner stops: what was asked for it had a defect, or has cancelled it.
        """
        before = self._before if self.on_air is None else self._trace(self.on_air)
        handle = None if before is None else self.offers.offer(before.handle)
        context = None
        if before is not None and handle is None:
            with defects_are_terminal(self._owner):
                context = self._replay.told()
        self._owner.stopping.check()
        incarnation = self._ledger.reserve()
        self.offers = self.offers.opening()
        after = None if before is None else before.ref
        predecessor = Predecessor(
            None if after is None else after.id,
            cause,
            resumption=None if handle is None else handle.value,
            context=context,
            key=self._owner.world.token() if adopt is None else adopt.key,
            adopt=adopt,
        )
        slot = Slot(self._host, self._opener, incarnation, predecessor, after)
        self.next = slot
        self._announce.opening(slot)
        slot.attempt = self._owner.start(
            functools.partial(life, slot),
            name=f"{self._owner.name} source {incarnation}",
            on_lost=functools.partial(self._host.hearing.departed, slot),
            on_ended=functools.partial(self._host.hearing.ended, slot),
        )
        return slot

    def activate(self, cause: OpenCause) -> None:
        """Put the prepared source on air: the place is vacant."""
        slot = self.next
        assert slot is not None  # noqa: S101 - the policy saw it prepared
        now = self._owner.world.clock()
        gap = 0.0 if self._vacant_since is None else now - self._vacant_since
        if self._yielded is not None:
            old, evidence, tail = self._yielded
            self._yielded = None
            self._announce.handed_over(old.ref, old.age, slot, evidence, tail, gap)
        self._put_on_air(slot, cause, gap)

    def hand_over(self, evidence: HandoffEvidence) -> None:
        """Put the prepared source on air in the place of the one that is."""
        old, new = self.on_air, self.next
        assert old is not None  # noqa: S101 - the policy saw both
        assert new is not None  # noqa: S101
        tail = self.take_off_air(old, "handed-over")
        self._count_end(old, wanted=self._host.is_wanted_after(old))
        self._announce.handed_over(old.ref, old.age_at_end, new, evidence, tail, 0.0)
        self._put_on_air(new, "plan", 0.0)

    def give_way(self, evidence: HandoffEvidence) -> None:
        """Let the exclusive source on air go, so that its successor can open."""
        old = self.on_air
        assert old is not None  # noqa: S101 - the policy saw it
        tail = self.take_off_air(old, "handed-over")
        self._count_end(old, wanted=self._host.is_wanted_after(old))
        self._yielded = (Trace(old.ref, old.age_at_end), evidence, tail)
        self.vacancy = "plan"

    def end_yield(self) -> None:
        """Tell of the exclusive source that gave way, if none took its place and none will."""
        if self._yielded is None:
            return
        old, evidence, tail = self._yielded
        self._yielded = None
        now = self._owner.world.clock()
        gap = 0.0 if self._vacant_since is None else now - self._vacant_since
        self._announce.handed_over(old.ref, old.age, None, evidence, tail, gap)

    def _put_on_air(self, slot: Slot, cause: OpenCause, gap: float) -> None:
        slot.advance("activated")
        self.next = None
        self.on_air = slot
        self._vacant_since = None
        if slot.media is not None:
            with defects_are_terminal(self._owner):
                self._host.output.losses.activate(slot.media, from_start=cause == "first")
        self._announce.on_air(slot, cause, gap)

    def take_off_air(self, slot: Slot, occurrence: phases.Occurrence) -> events.Tail:
        """Let go of the source on air; the place is vacant.  Returns its tail."""
        self.on_air = None
        # Before anything is asked of it: what it tells meanwhile comes from one that has left.
        self.let_go(slot, occurrence)
        self._before = self._trace(slot)
        self._vacant_since = self._owner.world.clock()
        lost = None
        with defects_are_terminal(self._owner):
            lost = self._host.output.losses.end_feed()
        return slot.tail((None, None) if lost is None else (lost.frames, lost.samples))

    def _trace(self, slot: Slot) -> Trace:
        """What is to be known of a source by its successor.  A defect of the source is terminal."""
        resumption = None
        if slot.resumable is not None and not self._owner.stopping.is_set:
            with defects_are_terminal(self._owner), contextlib.suppress(*EXPECTED):
                resumption = slot.resumption()
        return Trace(slot.ref, slot.age_at_end, resumption)

    def let_go(self, slot: Slot, occurrence: phases.Occurrence) -> None:
        """Have a source leave; it counts as owned until it has."""
        self.leaving[slot.incarnation] = slot
        slot.retire(occurrence)

    def replace(self, occurrence: phases.Occurrence) -> None:
        """Let the source on air go as lost, or at the end of its life."""
        slot = self.on_air
        assert slot is not None  # noqa: S101 - the policy saw it
        if occurrence == "expired":
            slot.why, slot.loss = "expired", None
        self.lose(slot, occurrence)

    def lose(self, slot: Slot, occurrence: phases.Occurrence) -> None:
        """The source on air is lost: name what went with it, then say so."""
        self._announce.lost_clips(slot, slot.book.unfinished(), "source-lost")
        tail = self.take_off_air(slot, occurrence)
        self._count_end(slot)
        self.vacancy = "loss"
        following = self.next
        takes_over = following is not None and isinstance(following.phase, phases.Prepared)
        if self._owner.stopping.is_set:
            takes_over = False
        self._announce.replaced(slot, following if takes_over else None, tail)

    def discard(self, occurrence: phases.Occurrence) -> None:
        """Let go of the next source before its turn came."""
        slot = self.next
        assert slot is not None  # noqa: S101 - the policy saw it
        self.next = None
        self._announce.lost_clips(slot, slot.book.unfinished(), "source-lost")
        if occurrence != "retired":
            self._count_end(slot)
        self.let_go(slot, occurrence)

    def _count_end(self, slot: Slot, *, wanted: bool = False) -> None:
        """Count a source that ended by itself before it was a good one.

        One that has announced its end did that too, although it was handed over.
        """
        if slot.lifespan is not None:
            failure = slot.loss or Lost(f"source {slot.incarnation} was lost: {slot.why}")
            now = self._owner.world.clock()
            self._tally.source_ended(now, slot.lifespan, failure, wanted=wanted)
