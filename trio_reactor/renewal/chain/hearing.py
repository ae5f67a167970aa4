"""What a chain hears of its slots, and makes of it: recorded at once, said, and looked at again.

Everything is synchronous.  What comes late passes a fence first: the phase of its slot, which never
returns from leaving.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from trio_reactor.errors import Expired, is_expected
from trio_reactor.owner import Attempt, Owner
from trio_reactor.renewal import events
from trio_reactor.renewal.errors import refusal, sole
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.sequences.book import SequenceState
from trio_reactor.renewal.sequences.register import SequenceRegister
from trio_reactor.renewal.slot.clips import Unfinished
from trio_reactor.renewal.slot.evidence import cleanup_of
from trio_reactor.renewal.slot.recording import Settled
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import Source, SourceEvent

from .announcer import Announcer
from .ledger import CleanupLedger
from .lineup import Lineup
from .retired import RetiredClips
from .tally import FailureTally

__all__ = ["Hearing"]


@final
class Hearing:
    """The ears of one chain.

    Args:
        owner: Fails with what is terminal.
        options: The bounds of the sequences.
        lineup: Has the slots.
        ledger: Keeps what became of each.
        tally: Counts what failed.
        announce: Where it is said what happens.
        changed: Called where what was heard may decide something.
    """

    def __init__(
        self,
        owner: Owner,
        options: RenewalOptions,
        *,
        lineup: Lineup,
        ledger: CleanupLedger,
        tally: FailureTally,
        announce: Announcer,
        changed: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._lineup = lineup
        self._ledger = ledger
        self._tally = tally
        self._announce = announce
        self._changed = changed
        self.sequences = SequenceRegister(self, options)
        self.retired_clips = RetiredClips()
        """The clips of sources that have left."""

    def changed(self) -> None:
        """Something that decides has changed: look again."""
        self._changed()

    def opened(self, slot: Slot) -> None:
        """A source is open and set up: from here on it takes work, unless it is to leave."""
        attempt = slot.attempt
        assert attempt is not None  # noqa: S101 - its task runs
        assert slot.identity is not None  # noqa: S101 - set up
        self._ledger.identify(slot.incarnation, slot.identity)
        if attempt.reason is not None or self._owner.stopping.is_set:
            return
        slot.advance("opened")
        slot.recording.held = True
        if slot.recording.adopting is not None:
            self._announce.settled(Settled(slot.recording.adopting, "adopted"))
        self._announce.opened(slot, self._lineup.on_air)
        for event in slot.early():
            self._announce.told(slot, event)
        self.changed()

    def told(self, slot: Slot, event: SourceEvent) -> None:
        """A source told of a clip, or that it will end sooner."""
        self._announce.told(slot, event)
        self.changed()

    def accepted(self, slot: Slot, clip: str, position: int | None) -> None:
        """A source answered that it took a clip, at this place or at the end."""
        if slot.live:
            slot.book.accepted(clip, self._owner.world.clock(), position)
        elif not slot.book.knows(clip):
            # What it was known to have was named lost when it was let go.
            self._announce.lost_clips(slot, (Unfinished(clip, None, 0),), "source-lost")
            self.retired_clips.remember((clip,))

    def sequence_sealed(self, sequence: SequenceState) -> None:
        """A sequence is over."""
        for slot in (self._lineup.on_air, self._lineup.next, *self._lineup.leaving.values()):
            if slot is not None and slot.incarnation == sequence.owner:
                self._announce.sequence_sealed(slot, sequence)

    def replied(self, slot: Slot) -> None:
        """A command to a source is over."""
        # Without a next source only an exclusive one has a boundary that this could open.
        if slot is not self._lineup.on_air or self._lineup.next is not None or slot.exclusive:
            self.changed()

    def forgot(self, slot: Slot, lost: Unfinished) -> None:
        """A source does not know one of its clips any more."""
        self._announce.lost_clips(slot, (lost,), "not-in-state")

    def lost(self, slot: Slot, why: events.LossReason, cause: BaseException | None) -> None:
        """Something of a source that lives was lost, or is not trusted any more."""
        if cause is not None and not is_expected(cause):
            self._owner.fail(cause)
            return
        occurrence: phases.Occurrence = "condemned"
        if why in ("media-lost", "events-lost") and slot.reconnectable is not None:
            occurrence = why
        if slot.advance(occurrence):
            self.recovering(slot, why, cause)
        elif slot.loans:
            slot.loss = cause
            slot.recall("lost")  # it was handed over, and is still lent
        self.changed()

    def failed(self, slot: Slot, defect: Exception) -> None:
        """A source's adapter has a defect."""
        self._owner.fail(defect)

    def leaving(self, slot: Slot) -> None:
        """A source begins to leave; one that still has a role is closed with its owner."""
        if slot is self._lineup.on_air:
            self._lineup.take_off_air(slot, "retired")
        elif slot is self._lineup.next and not isinstance(slot.phase, phases.Opening):
            self._lineup.next = None
            self._lineup.let_go(slot, "retired")
        slot.recall("retired")

    def recovering(self, slot: Slot, why: events.LossReason, cause: BaseException | None) -> None:
        """A source has begun to recover, or its recovery has escalated: say so."""
        if slot.lost_at is None:
            slot.lost_at = self._owner.world.clock()
        slot.why, slot.loss = why, cause
        self._announce.recovering(slot)

    def departed(self, slot: Slot, attempt: Attempt[Source]) -> None:
        """A source that was held is lost, or has expired; its own task is leaving it."""
        failure = attempt.failure
        if failure is not None and attempt.is_defect:
            self._owner.fail(failure)
        found = None if failure is None else sole(failure)  # a nursery has it in a group
        expired = attempt.reason == "expired" or isinstance(found, Expired)
        if slot.live:
            condemned = isinstance(slot.phase, phases.Recovering) and slot.phase.mode == "replace"
            if expired or not condemned:
                slot.why = "expired" if expired else "died"
                slot.loss = failure if expired else failure or slot.loss
            occurrence: phases.Occurrence = "expired" if expired else "died"
            if slot is self._lineup.on_air:
                self._lineup.lose(slot, occurrence)
            elif slot is self._lineup.next:
                self._lineup.discard(occurrence)
        elif slot.loans:
            slot.loss = failure
            slot.recall("expired" if expired else "lost")
        self.changed()

    def ended(self, slot: Slot, attempt: Attempt[Source]) -> None:
        """A source has left altogether, or was never opened."""
        failure = attempt.failure
        never_was = isinstance(slot.phase, phases.Opening) and attempt.reason == "failed"
        if slot is self._lineup.next:
            self._lineup.next = None
        self._lineup.leaving.pop(slot.incarnation, None)
        if not never_was:
            slot.advance("retired")
        slot.advance("closed")
        slot.closed(cleanup_of(slot, failure))
        if failure is not None and not never_was:
            slot.add_failure(failure)
        cleanup = slot.cleanup
        assert cleanup is not None  # noqa: S101 - it was just taken
        self._ledger.record(slot.incarnation, cleanup)
        for dispatch in tuple(slot.pending):
            dispatch.give_up()
        for sequence in self.sequences.retire(slot.incarnation, "its source ended"):
            self._announce.sequence_retired(slot, sequence)
        self.retired_clips.remember(slot.book.known)
        if never_was and failure is not None:
            self._count_failed_open(slot, sole(failure))
        else:
            self._announce.closed(slot, cleanup)
        if slot.recording.settled is not None:
            self._announce.settled(slot.recording.settled)
        if failure is not None and attempt.is_defect:
            self._owner.fail(failure)
        self.changed()

    def _count_failed_open(self, slot: Slot, failure: BaseException) -> None:
        now = self._owner.world.clock()
        if slot.recording.adopting is not None and is_expected(failure):
            self._announce.adoption_discarded(slot, failure)
            return
        refused = refusal(failure)
        offers = self._lineup.offers.failed(
            slot.offered,
            refused=refused is not None and refused.resumption_refused and is_expected(failure),
            permanent=refused is not None and refused.permanent,
        )
        if offers is not None:
            self._lineup.offers = offers
            self._announce.resumption_discarded(slot, failure)
            return
        self._tally.open_failed(
            now, None if self._lineup.on_air is None else self._lineup.on_air.lifespan, failure
        )
        over = self._tally.exhausted or slot.cause == "first" or not is_expected(failure)
        retry_at = self._tally.retry_at
        self._announce.open_failed(
            slot,
            failure,
            consecutive=self._tally.consecutive,
            pause=None if over or retry_at is None else max(0.0, retry_at - now),
            permanent=refused is not None and refused.permanent,
        )
