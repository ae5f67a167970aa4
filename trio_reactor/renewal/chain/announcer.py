"""What a chain says: its steps as events, each with what a person needs to understand it alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, final

from trio_reactor.channel import Publisher
from trio_reactor.events import FailureRecord
from trio_reactor.renewal import events
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.policy.handoff import HandoffEvidence
from trio_reactor.renewal.sequences.book import (
    MemberAccepted,
    MemberIndeterminate,
    MemberRejected,
    SequenceState,
)
from trio_reactor.renewal.slot.clips import Unfinished
from trio_reactor.renewal.slot.recording import Settled
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import GoingAway, OpenCause, SourceEvent
from trio_reactor.world import World

__all__ = ["Announcer"]


@final
class Announcer:
    """Publishes the events of one chain, until its publisher has ended."""

    def __init__(self, publisher: Publisher, world: World) -> None:
        self._publisher = publisher
        self._world = world

    def say(self, event: events.RenewalEvent) -> None:
        """Publish this event; after the end of the handle there is nobody to tell."""
        if not self._publisher.ended:
            self._publisher.publish(event)

    def opening(self, slot: Slot) -> None:
        """An attempt to open a source begins."""
        self.say(
            events.SourceOpening(
                source=slot.ref,
                after=slot.after,
                cause=slot.cause,
                resuming=slot.resuming,
                adopting=slot.recording.adopting is not None,
            )
        )

    def opened(self, slot: Slot, on_air: Slot | None) -> None:
        """A source is open and set up."""
        self.say(
            events.SourceOpened(
                source=slot.ref,
                after=slot.after,
                cause=slot.cause,
                took=self._world.clock() - slot.began,
                lifetime=slot.lifetime,
                exclusive=slot.exclusive,
            )
        )
        self.scheduled(slot)
        if on_air is not None:
            self.say(events.Prepared(source=slot.ref, age=slot.age, after=on_air.ref))

    def open_failed(
        self,
        slot: Slot,
        failure: BaseException,
        *,
        consecutive: int,
        pause: float | None,
        permanent: bool,
    ) -> None:
        """A source could not be opened."""
        self.say(
            events.OpenFailure(
                source=slot.ref,
                after=slot.after,
                cause=slot.cause,
                took=self._world.clock() - slot.began,
                consecutive=consecutive,
                pause=pause,
                permanent=permanent,
                failure=FailureRecord.of(failure),
            )
        )

    def resumption_discarded(self, slot: Slot, failure: BaseException) -> None:
        """A source could not be opened because it refused to resume."""
        self.say(events.ResumptionDiscarded(source=slot.ref, failure=FailureRecord.of(failure)))

    def adoption_discarded(self, slot: Slot, failure: BaseException) -> None:
        """What a dead process left was not adopted."""
        self.say(events.AdoptionDiscarded(source=slot.ref, failure=FailureRecord.of(failure)))

    def settled(self, settled: Settled) -> None:
        """It is known what has become of what a dead process left."""
        record = settled.record
        self.say(
            events.AllocationSettled(
                key=record.key,
                source=record.source,
                age=max(0.0, self._world.wall() - record.intended_at),
                how=settled.how,
                cleanup=settled.cleanup,
                failure=settled.failure,
            )
        )

    def scheduled(self, slot: Slot) -> None:
        """It is settled when the successor of a source is due."""
        span = slot.lifespan
        assert span is not None  # noqa: S101 - it is open
        now = self._world.clock()
        self.say(
            events.PrepareScheduled(
                source=slot.ref,
                age=slot.age,
                prepare_in=None if span.prepare_at is None else max(0.0, span.prepare_at - now),
                expires_in=span.left(now),
            )
        )

    def on_air(self, slot: Slot, cause: OpenCause, gap: float) -> None:
        """A source feeds the output from now on."""
        self.say(
            events.OnAir(
                source=slot.ref,
                age=slot.age,
                generation=slot.generation,
                after=slot.after,
                cause=cause,
                gap=gap,
            )
        )

    def handed_over(
        self,
        old: events.SourceRef,
        age: float,
        new: Slot | None,
        evidence: HandoffEvidence,
        tail: events.Tail,
        gap: float,
    ) -> None:
        """A source gave way to the next at a boundary, at this age; to none if none ever came."""
        self.say(
            events.HandedOver(
                old=old,
                age=age,
                new=None if new is None else new.ref,
                evidence=evidence,
                tail=tail,
                gap=gap,
            )
        )

    def told(self, slot: Slot, event: SourceEvent) -> None:
        """A source told of one of its clips, or that it will end sooner."""
        if not isinstance(event, GoingAway):
            self.say(events.ClipChanged(source=slot.ref, age=slot.age, change=event))
            return
        self.say(
            events.LifetimeShortened(
                source=slot.ref,
                age=slot.age,
                expires_in=slot.expires_in or 0.0,
                detail=event.reason,
            )
        )
        self.scheduled(slot)

    def lost_clips(
        self,
        slot: Slot,
        clips: Iterable[Unfinished],
        why: Literal["source-lost", "not-in-state"],
    ) -> None:
        """Name each clip that will not be played to its end."""
        for clip in clips:
            self.say(
                events.ClipLost(
                    source=slot.ref,
                    age=slot.age,
                    clip=clip.clip,
                    frames_expected=clip.frames_expected,
                    frames_received=clip.frames_received,
                    why=why,
                )
            )

    def sequence_sealed(self, slot: Slot, sequence: SequenceState) -> None:
        """A sequence of a source is over."""
        self.say(
            events.SequenceSealed(
                source=slot.ref,
                age=slot.age,
                sequence=sequence.name,
                accepted=sequence.count(MemberAccepted),
                rejected=sequence.count(MemberRejected),
            )
        )

    def sequence_retired(self, slot: Slot, sequence: SequenceState) -> None:
        """A sequence ended with its source."""
        self.say(
            events.SequenceRetired(
                source=slot.ref,
                age=slot.age,
                sequence=sequence.name,
                accepted=sequence.count(MemberAccepted),
                rejected=sequence.count(MemberRejected),
                indeterminate=sequence.count(MemberIndeterminate),
            )
        )

    def recovering(self, slot: Slot) -> None:
        """Something was lost of a source that lives, and is being made good."""
        phase = slot.phase
        assert isinstance(phase, phases.Recovering)  # noqa: S101 - it has just become that
        self.say(
            events.Recovering(
                source=slot.ref,
                age=slot.age,
                mode=phase.mode,
                why=slot.why,
                failure=_record(slot.loss),
                on_air=phase.on_air,
            )
        )

    def recovered(self, slot: Slot, took: float) -> None:
        """A source is whole again."""
        self.say(
            events.Recovered(source=slot.ref, age=slot.age, generation=slot.generation, took=took)
        )

    def replaced(self, old: Slot, new: Slot | None, tail: events.Tail) -> None:
        """The source on air was let go as lost."""
        self.say(
            events.Replaced(
                old=old.ref,
                age=old.age_at_end,
                new=None if new is None else new.ref,
                why=old.why,
                failure=_record(old.loss),
                tail=tail,
            )
        )

    def closed(self, slot: Slot, cleanup: Cleanup) -> None:
        """A source has left altogether."""
        phase = slot.phase
        left_at = slot.left_at
        self.say(
            events.SourceClosed(
                source=slot.ref,
                age=slot.age,
                why=phase.why if isinstance(phase, phases.Closed) else "retired",
                took=0.0 if left_at is None else self._world.clock() - left_at,
                cleanup=cleanup,
            )
        )

    def input_lost(
        self, slot: Slot | None, pieces: int, size: int, why: events.InputLossReason
    ) -> None:
        """Input that was accepted is not known to have arrived."""
        self.say(
            events.InputLost(
                source=None if slot is None else slot.ref,
                age=0.0 if slot is None else slot.age,
                pieces=pieces,
                bytes=size,
                why=why,
            )
        )

    def wanted(self, on_air: Slot | None, reason: str) -> None:
        """The application asked for a successor."""
        self.say(
            events.RenewalWanted(
                source=None if on_air is None else on_air.ref,
                age=0.0 if on_air is None else on_air.age,
                reason=reason,
            )
        )

    def stopped(self, on_air: Slot | None) -> None:
        """No successors are prepared any more."""
        self.say(
            events.RenewalStopped(
                source=None if on_air is None else on_air.ref,
                age=0.0 if on_air is None else on_air.age,
            )
        )

    def finished(self, source: events.SourceRef | None, age: float) -> None:
        """The last source has left the air, and none follows."""
        self.say(events.RenewalFinished(source=source, age=age))


def _record(failure: BaseException | None) -> FailureRecord | None:
    return None if failure is None else FailureRecord.of(failure)
