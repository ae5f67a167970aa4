"""The chain: one logical source out of many physical ones.

It gathers what is known, asks the pure policy for the next step, and takes it, all in one go;
whatever takes time happens in tasks of the owner's and comes back as a change.  Every result that
comes back passes a fence first: the phase of its slot, which never returns from leaving.

A slot has a role: it is *on air*, or the *next*, or *leaving*.  It leaves in its own task and
counts as owned until it has left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import assert_never, final

import trio

from trio_reactor.channel import Publisher
from trio_reactor.errors import Expired, Lost, Overflow, ReactorError, is_expected
from trio_reactor.owner import Attempt, Owner
from trio_reactor.renewal import events
from trio_reactor.renewal.allocation.allocations import Allocations
from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.errors import OpenFailed, RouteChanged, refusal, sole
from trio_reactor.renewal.media.output import MediaOutput
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.policy import phases, steps
from trio_reactor.renewal.policy.decision import decide, route_of
from trio_reactor.renewal.policy.facts import ChainFacts
from trio_reactor.renewal.policy.handoff import BoundaryFacts
from trio_reactor.renewal.sequences.book import SequenceState
from trio_reactor.renewal.sequences.register import SequenceRegister
from trio_reactor.renewal.slot.clips import Unfinished
from trio_reactor.renewal.slot.recording import Settled
from trio_reactor.renewal.slot.settings import Setting
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import (
    Source,
    SourceEvent,
    SourceOpener,
)
from trio_reactor.world import World

from .announcer import Announcer
from .inherited import Inheritance
from .ledger import CleanupLedger
from .lineup import Lineup, Trace
from .proof import cleanup_of, not_opened
from .replay import Context, Replay
from .retired import RetiredClips
from .tally import FailureTally
from .upkeep import Check, Upkeep, defects_are_terminal

__all__ = ["Chain"]


@final
class Chain:
    """Keeps one source on air, prepares the next, and lets go of those before.

    Args:
        owner: Holds the sources and runs the work.
        opener: Opens a source.
        options: Leads, budgets and bounds.
        publisher: Where it says what happens.
        context: What is told again to a source that has nothing to resume from.
        allocations: Where allocations are recorded, if they are.
        check: Looks at each source before it goes on air.
    """

    def __init__(
        self,
        owner: Owner,
        opener: SourceOpener,
        options: RenewalOptions,
        publisher: Publisher,
        *,
        check: Check | None = None,
        context: Context | None = None,
        allocations: Allocations | None = None,
    ) -> None:
        self._owner = owner
        self.options = options
        self.allocations = allocations
        self._check = check
        self.announce = Announcer(publisher, owner.world)
        self.output = MediaOutput(options, self._overflowed)
        self.ledger = CleanupLedger(options, owner.name)
        self.autoplay = Setting(True)
        self.canvas = Setting[tuple[int, int] | None](None)
        self.sequences = SequenceRegister(self, options)
        self.retired_clips = RetiredClips()
        """The clips of sources that have left."""
        self.renewing = True
        self.finished = False
        self.on_step: list[Callable[[], None]] = []
        """Told, synchronously, after each step and each change: look again."""
        self._begun = False
        """Whether a source has been on air."""
        self._wanted_beyond = 0
        """A source with a higher number than this is wanted, if one on air has none."""
        self._tally = FailureTally(options, owner.world.random)
        self._upkeep = Upkeep(self, owner)
        self._lineup = Lineup(
            self,
            owner,
            opener,
            self.announce,
            self.ledger,
            self._tally,
            Replay(context, options.max_context_bytes),
        )
        self._change = trio.Event()

    @property
    def on_air(self) -> Slot | None:
        """The slot that feeds the output, or would if it could be reached."""
        return self._lineup.on_air

    @property
    def next(self) -> Slot | None:
        """The slot that is to follow."""
        return self._lineup.next

    @property
    def leaving(self) -> Mapping[int, Slot]:
        """The slots that were let go and have not left yet, by their numbers."""
        return self._lineup.leaving

    @property
    def last(self) -> Trace | None:
        """What is known of the source that is on air, or was the last to be."""
        return self._lineup.last

    @property
    def unfollowed(self) -> BaseException | None:
        """Why nothing is prepared to follow the source on air, if that is for a failure."""
        following = self.next
        prepared = following is not None and not isinstance(following.phase, phases.Opening)
        return None if prepared else self._tally.last

    @property
    def name(self) -> str:
        """The owner's."""
        return self._owner.name

    @property
    def world(self) -> World:
        """The owner's."""
        return self._owner.world

    @property
    def has_check(self) -> bool:
        """Whether a source is to be checked before it goes on air."""
        return self._check is not None

    @property
    def close_deadline(self) -> float:
        """When everything has to have left, on the clock; infinite before close began."""
        return self._owner.close_deadline

    # ------------------------------------------------------------------------------------ its life

    async def open_first(self) -> None:
        """Open the first source and put it on air.

        One that loses its connection before it is on air may recover; one that ends has not opened.
        What a dead process left is terminated before, or is the first source.

        Raises:
            OpenFailed: It could not be opened; carries what is proven of its clean-up.
            JournalError: What is recorded could not be read or deleted.
            BaseException: The defect that its adapter raised.
        """
        left = None
        if self.allocations is not None:
            found = Inheritance(self.name, self.allocations, self.world, self.announce)
            left = await found.settle()
        slot = await self._open_first(left)
        attempt = slot.attempt
        assert attempt is not None  # noqa: S101 - it is open
        while True:
            self._change = trio.Event()
            until = self._settle()
            if self.on_air is not None:
                break
            if slot is not self.next:
                await attempt.wait_ended()
                raise not_opened(slot, attempt, self._never_on_air(slot))
            await self._wait(until)
        self._begun = True
        self._owner.start_soon(self.run, name=f"{self._owner.name} chain")

    async def _open_first(self, left: AllocationRecord | None) -> Slot:
        """Open the first source: what was left if it can be adopted, else a fresh one."""
        # In a scope that is cancelled already the owner would only say that it acquires nothing.
        await trio.lowlevel.checkpoint_if_cancelled()
        slot = self._lineup.open("first", adopt=left)
        attempt = slot.attempt
        assert attempt is not None  # noqa: S101 - just started
        gone: ReactorError | None = None
        try:
            await attempt.wait_opened()
        except ReactorError as raised:
            gone = raised
        except trio.Cancelled:
            if self._owner.failure is None:
                raise
            # A defect of its close ended the owner before it was told that nothing was opened.
            with trio.CancelScope(shield=True):
                await attempt.wait_ended()
            if attempt.failure is None or attempt.is_defect:
                raise
            gone = Lost("the first source could not be opened")
        if gone is not None:
            fails = attempt.reason == "failed" and not attempt.is_defect
            if left is not None and fails and not self._owner.stopping.is_set:
                return await self._open_first(None)
            raise not_opened(slot, attempt, gone)
        # A source that was put on air after its owner began to stop would be a lie.
        await trio.lowlevel.checkpoint_if_cancelled()
        self._owner.stopping.check()
        return slot

    def _never_on_air(self, slot: Slot) -> OpenFailed:
        failed = OpenFailed(
            "the first source ended before it was on air", cleanup=slot.cleanup, outcome="replied"
        )
        failed.__cause__ = slot.loss
        return failed

    async def run(self) -> None:
        """Take each step when it is due, until the last source is gone and none is to follow."""
        while not self.finished:
            # Before the steps: what changes from here on is looked at again.
            self._change = trio.Event()
            await self._wait(self._settle())

    async def _wait(self, until: float | None) -> None:
        with trio.CancelScope(deadline=math.inf if until is None else until):
            await self._change.wait()

    async def stop_renewing(self) -> None:
        """Want no successors any more; cancel and join one that opens.  Always a checkpoint."""
        if self.renewing:
            self.renewing = False
            self.announce.stopped(self.on_air)
        opening = [
            slot.attempt
            for slot in (self.next, *self.leaving.values())
            if slot is not None and slot.attempt is not None and slot.opening
        ]
        self.changed()
        if self.next is not None and self.next.opening:
            self._lineup.discard("retired")
        await trio.lowlevel.checkpoint()
        for attempt in opening:
            await attempt.wait_ended()

    def want(self, beyond: int) -> None:
        """Want a source on air with a higher number than this."""
        self._wanted_beyond = max(self._wanted_beyond, beyond)
        self.changed()

    def changed(self) -> None:
        """Something that decides has changed: look again."""
        self._change.set()

    def told(self) -> None:
        """Tell those who wait for a step to look."""
        for look in self.on_step:
            look()

    def _settle(self) -> float | None:
        """Take every step that is due; returns until when to wait, `None` for a change only."""
        lineup = self._lineup
        while not self.finished:
            self.told()
            now = self.world.clock()
            self._tally.settle(now, None if self.on_air is None else self.on_air.lifespan)
            decision = decide(self.facts(now), self.options)
            match decision:
                case steps.Wait(until=until):
                    return until
                case steps.Idle():
                    return None
                case steps.Fail():
                    self._owner.fail(self._tally.failure())
                case steps.Finish():
                    self._finish()
                case steps.Prepare(cause=cause):
                    lineup.prepare(cause)
                case steps.Abandon():
                    lineup.discard("retired")
                case steps.Discard(why=why):
                    lineup.discard(why)
                case steps.Check(role=role):
                    assert self._check is not None  # noqa: S101 - else it counts as checked
                    by = now + self.options.check_timeout
                    self._upkeep.check(self._of(role), self._check, by)
                case steps.Activate(cause=cause):
                    lineup.activate(cause)
                case steps.HandOver(evidence=evidence):
                    lineup.hand_over(evidence)
                case steps.Yield(evidence=evidence):
                    lineup.give_way(evidence)
                case steps.Reconnect(role=role, within=within):
                    self._upkeep.reconnect(self._of(role), now + within)
                case steps.Tell(role=role):
                    self._upkeep.tell(self._of(role), now + self.options.reconnect_timeout)
                case steps.Replace():
                    lineup.replace("replaced")
                case steps.Expire():
                    lineup.replace("expired")
                case _:
                    assert_never(decision)
        self.told()
        return None

    def _of(self, role: steps.Role) -> Slot:
        slot = self.on_air if role == "current" else self.next
        assert slot is not None  # noqa: S101 - the policy saw it
        return slot

    def _finish(self) -> None:
        self.finished = True
        self.end_yield()
        last = self.last
        self.announce.finished(
            None if last is None else last.ref, 0.0 if last is None else last.age
        )
        self.output.end()

    def end_yield(self) -> None:
        """Tell of an exclusive source that gave way and was followed by none."""
        self._lineup.end_yield()

    # ----------------------------------------------------------------------------------- the facts

    def facts(self, now: float) -> ChainFacts:
        """What is known in this step."""
        on_air, following = self.on_air, self.next
        ready = (
            following is not None
            and isinstance(following.phase, phases.Prepared)
            and (following.playable is None or following.book.has_ready)
        )
        return ChainFacts(
            now=now,
            current=None if on_air is None else on_air.facts(),
            next=None if following is None else following.facts(),
            leaving=len(self.leaving),
            exclusive_leaving=any(slot.exclusive for slot in self.leaving.values()),
            boundary=BoundaryFacts(
                open_sequences=on_air is not None and self._is_bound(on_air),
                idle_since=None if on_air is None else on_air.book.idle_since,
                next_ready=ready,
                last=None if on_air is None else on_air.book.last,
            ),
            vacancy=self._lineup.vacancy,
            # There is no second one before a first has been on air.
            retry_at=self._tally.retry_at if self._begun else math.inf,
            fresh=self._lineup.offers.fresh,
            exhausted=self._begun and self._tally.exhausted,
            renewing=self.renewing,
            wanted=on_air is not None and self.is_wanted_after(on_air),
            stopping=self._owner.stopping.is_set,
        )

    def _is_bound(self, slot: Slot) -> bool:
        """Whether a command to it is pending, or more is to come to it."""
        return bool(slot.pending) or self.sequences.holds(slot.incarnation)

    def route(self) -> Slot | None:
        """The slot that takes work bound to none, if any does now."""
        on_air, following = self.on_air, self.next
        current = None if on_air is None else on_air.facts()
        match route_of(current, None if following is None else following.facts()):
            case "next":
                return following
            case "current":
                return on_air
            case None:
                return None

    def check_working(self, slot: Slot) -> None:
        """Raise unless commands are taken, and the slot is one that takes them.

        Raises:
            RouteChanged: It takes none any more.
            Closed, Failed: No commands are taken.
        """
        self._owner.check()
        if not phases.takes_work(slot.phase):
            raise RouteChanged("the source that was to be told does not take it", retryable=True)

    def is_wanted_after(self, slot: Slot) -> bool:
        """Whether the application has asked for a successor of this source."""
        return slot.incarnation <= self._wanted_beyond

    def is_taken(self, identity: str) -> bool:
        """Whether a source that is owned has this identity."""
        return self._lineup.is_taken(identity)

    def last_tail(self) -> events.Tail | None:
        """The tail of the source on air, if there is one; its losses are not counted any more."""
        if self.on_air is None:
            return None
        lost = None
        with defects_are_terminal(self._owner):
            lost = self.output.losses.end_feed()
        return self.on_air.tail((None, None) if lost is None else (lost.frames, lost.samples))

    # ------------------------------------------------------- what slots tell, each in its own task

    def slot_opened(self, slot: Slot) -> None:
        """A source is open and set up: from here on it takes work, unless it is to leave."""
        attempt = slot.attempt
        assert attempt is not None  # noqa: S101 - its task runs
        assert slot.identity is not None  # noqa: S101 - set up
        self.ledger.identify(slot.incarnation, slot.identity)
        if attempt.reason is not None or self._owner.stopping.is_set:
            return
        slot.advance("opened")
        slot.recording.held = True
        if slot.recording.adopting is not None:
            self.announce.settled(Settled(slot.recording.adopting, "adopted"))
        self.announce.opened(slot, self.on_air)
        for event in slot.early():
            self.announce.told(slot, event)
        self.changed()

    def slot_told(self, slot: Slot, event: SourceEvent) -> None:
        """A source told of a clip, or that it will end sooner."""
        self.announce.told(slot, event)
        self.changed()

    def slot_accepted(self, slot: Slot, clip: str, position: int | None) -> None:
        """A source answered that it took a clip, at this place or at the end."""
        if slot.live:
            slot.book.accepted(clip, self.world.clock(), position)
        elif not slot.book.knows(clip):
            # What it was known to have was named lost when it was let go.
            self.announce.lost_clips(slot, (Unfinished(clip, None, 0),), "source-lost")
            self.retired_clips.remember((clip,))

    def sequence_sealed(self, sequence: SequenceState) -> None:
        """A sequence is over."""
        for slot in (self.on_air, self.next, *self.leaving.values()):
            if slot is not None and slot.incarnation == sequence.owner:
                self.announce.sequence_sealed(slot, sequence)

    def slot_replied(self, slot: Slot) -> None:
        """A command to a source is over."""
        # Without a next source only an exclusive one has a boundary that this could open.
        if slot is not self.on_air or self.next is not None or slot.exclusive:
            self.changed()

    def slot_forgot(self, slot: Slot, lost: Unfinished) -> None:
        """A source does not know one of its clips any more."""
        self.announce.lost_clips(slot, (lost,), "not-in-state")

    def slot_lost(self, slot: Slot, why: events.LossReason, cause: BaseException | None) -> None:
        """Something of a source that lives was lost, or is not trusted any more."""
        if cause is not None and not is_expected(cause):
            self._owner.fail(cause)
            return
        occurrence: phases.Occurrence = "condemned"
        if why in ("media-lost", "events-lost") and slot.reconnectable is not None:
            occurrence = why
        if slot.advance(occurrence):
            self.say_recovering(slot, why, cause)
        elif slot.loans:
            slot.loss = cause
            slot.recall("lost")  # it was handed over, and is still lent
        self.changed()

    def slot_failed(self, slot: Slot, defect: Exception) -> None:
        """A source's adapter has a defect."""
        self._owner.fail(defect)

    def slot_leaving(self, slot: Slot) -> None:
        """A source begins to leave; one that still has a role is closed with its owner."""
        if slot is self.on_air:
            self._lineup.take_off_air(slot, "retired")
        elif slot is self.next and not isinstance(slot.phase, phases.Opening):
            self._lineup.next = None
            self._lineup.let_go(slot, "retired")
        slot.recall("retired")

    def say_recovering(
        self, slot: Slot, why: events.LossReason, cause: BaseException | None
    ) -> None:
        """A source has begun to recover, or its recovery has escalated: say so."""
        if slot.lost_at is None:
            slot.lost_at = self.world.clock()
        slot.why, slot.loss = why, cause
        self.announce.recovering(slot)

    def slot_departed(self, slot: Slot, attempt: Attempt[Source]) -> None:
        """A source that was held is lost, or has expired; its own task is leaving it."""
        failure = attempt.failure
        if failure is not None and attempt.is_defect:
            self._owner.fail(failure)
        expired = attempt.reason == "expired" or isinstance(failure, Expired)
        if slot.live:
            condemned = isinstance(slot.phase, phases.Recovering) and slot.phase.mode == "replace"
            if expired or not condemned:
                slot.why = "expired" if expired else "died"
                slot.loss = failure if expired else failure or slot.loss
            occurrence: phases.Occurrence = "expired" if expired else "died"
            if slot is self.on_air:
                self._lineup.lose(slot, occurrence)
            elif slot is self.next:
                self._lineup.discard(occurrence)
        elif slot.loans:
            slot.loss = failure
            slot.recall("expired" if expired else "lost")
        self.changed()

    def slot_ended(self, slot: Slot, attempt: Attempt[Source]) -> None:
        """A source has left altogether, or was never opened."""
        failure = attempt.failure
        never_was = isinstance(slot.phase, phases.Opening) and attempt.reason == "failed"
        if slot is self.next:
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
        self.ledger.record(slot.incarnation, cleanup)
        for dispatch in tuple(slot.pending):
            dispatch.give_up()
        for sequence in self.sequences.retire(slot.incarnation, "its source ended"):
            self.announce.sequence_retired(slot, sequence)
        self.retired_clips.remember(slot.book.known)
        if never_was and failure is not None:
            self._count_failed_open(slot, sole(failure))
        else:
            self.announce.closed(slot, cleanup)
        if slot.recording.settled is not None:
            self.announce.settled(slot.recording.settled)
        if failure is not None and attempt.is_defect:
            self._owner.fail(failure)
        self.changed()

    def _count_failed_open(self, slot: Slot, failure: BaseException) -> None:
        now = self.world.clock()
        if slot.recording.adopting is not None and is_expected(failure):
            self.announce.adoption_discarded(slot, failure)
            return
        refused = refusal(failure)
        offers = self._lineup.offers.failed(
            slot.offered,
            refused=refused is not None and refused.resumption_refused and is_expected(failure),
            permanent=refused is not None and refused.permanent,
        )
        if offers is not None:
            self._lineup.offers = offers
            self.announce.resumption_discarded(slot, failure)
            return
        self._tally.open_failed(now, None if self.on_air is None else self.on_air.lifespan, failure)
        over = self._tally.exhausted or slot.cause == "first" or not is_expected(failure)
        retry_at = self._tally.retry_at
        self.announce.open_failed(
            slot,
            failure,
            consecutive=self._tally.consecutive,
            pause=None if over or retry_at is None else max(0.0, retry_at - now),
            permanent=refused is not None and refused.permanent,
        )

    def _overflowed(self, overflow: Overflow) -> None:
        """Fail, because the output was not drained; once close began nobody has to any more."""
        if not self._owner.closing.is_set:
            self._owner.fail(overflow)
