"""One physical source of a chain: from its opening to its end, and what is known meanwhile.

The life of a slot is one context manager, entered and left by the task of its attempt: it opens the
source, sets it up, keeps it, closes it on the provider's side, and leaves.  What the source pushes
goes into sinks that belong to one generation of it and are fenced with that: after a reconnect, or
after its end, an old generation changes nothing any more.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, cast, final

import msgspec
import trio

from trio_reactor.errors import EXPECTED, Lost, TimedOut
from trio_reactor.events import FailureRecord
from trio_reactor.fence import Generations, Token
from trio_reactor.owner import Attempt
from trio_reactor.renewal.errors import ContractBroken, sole
from trio_reactor.renewal.events import LossReason, SourceRef, Tail
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.policy.facts import SourceFacts
from trio_reactor.renewal.policy.lifespan import Lifespan, lifetime_fault, notice_fault, plan
from trio_reactor.renewal.policy.resumption import Handle
from trio_reactor.renewal.source import (
    Exclusive,
    GoingAway,
    Media,
    OpenCause,
    OpenFailed,
    Playable,
    Predecessor,
    Receptive,
    Reconnectable,
    Resumable,
    Source,
    SourceEvent,
    SourceOpener,
    SourceState,
)
from trio_reactor.renewal.wording import a_kind

from .clips import ClipBook
from .host import Pending, SlotHost
from .leaving import account, leave
from .loans import Loan, LoanEnd, ends_loans
from .opener import opened_by
from .recording import Recording
from .settings import Applied
from .sinks import SlotEvents, SlotFrames
from .underway import Underway
from .validity import (
    MAX_IDENTITY,
    generation_fault,
    is_identity,
    resumption_fault,
    source_fault,
    state_fault,
)

__all__ = ["MAX_EARLY", "Slot"]

MAX_EARLY: Final = 256
"""How many events a source may push while it is set up."""

MAX_FAILURES: Final = 16
"""How many failures of ending its media are kept while it lives; the newest."""

_log = logging.getLogger("trio_reactor.renewal")


@final
class Slot:
    """One physical source, by its number in the chain.

    What its adapter says of itself is asked once, when it is opened.
    """

    def __init__(
        self,
        host: SlotHost,
        opener: SourceOpener,
        incarnation: int,
        predecessor: Predecessor,
        after: SourceRef | None,
    ) -> None:
        self.host = host
        self._opener = opener
        self._predecessor = predecessor
        self.incarnation = incarnation
        self.after = after
        self.cause: OpenCause = predecessor.cause
        self.resuming = predecessor.resumption is not None
        self.recording = Recording(self, host.allocations, predecessor, host.name)
        self.phase: phases.Phase = phases.Opening()
        self.recovery: Underway | None = None
        """The reconnect that is under way."""
        self.checking: Underway | None = None
        """The check of it before it goes on air, under way."""
        self.checked = not host.has_check
        """Whether it may go on air with the connection it has, as far as the check goes."""
        self.pending: dict[Pending, None] = {}
        """Commands that were not answered yet."""
        self.loans: dict[Loan, None] = {}
        """Who uses the source directly, and is not to have it taken away."""
        self.began = host.world.clock()
        self.lost_at: float | None = None
        self.left_at: float | None = None
        self.why: LossReason = "died"
        self.loss: BaseException | None = None
        self.attempt: Attempt[Source] | None = None
        self.source: Source | None = None
        self.playable: Playable | None = None
        """The source, if it plays clips."""
        self.applied: Applied | None = None
        """What its present connection was told of the settings, if it plays clips."""
        self.reconnectable: Reconnectable | None = None
        """The source, if its connection can be made again."""
        self.resumable: Resumable | None = None
        """The source, if it leaves its successor what it needs to go on."""
        self.receptive: Receptive | None = None
        """The source, if it takes input."""
        self.identity: str | None = None
        self.ref = SourceRef(incarnation, None)
        """Which source it is, for events; with its identity once that is known."""
        self.exclusive = False
        """Whether there can be no second source while it lives."""
        self.lifetime: float | None = None
        """Seconds it said it lives; `None` for no end."""
        self.lifespan: Lifespan | None = None
        self.book = ClipBook(self.began)
        self.media: Media | None = None
        self.unclosed: list[Media] = []
        """The media generations that were opened and not ended by us yet."""
        self.generation: int | None = None
        """Its media generation, if it gives media."""
        self.cleanup: Cleanup | None = None
        self._early: list[SourceEvent] = []
        self._opening: trio.CancelScope | None = None
        """Its budget while it is opened and set up."""
        self._failures: list[FailureRecord] = []
        self._broken: tuple[LossReason, BaseException | None] | None = None
        self._events = Generations(f"events of source {incarnation}")
        self._frames = Generations(f"media of source {incarnation}")

    def __repr__(self) -> str:
        return f"<Slot {self.incarnation}: {self.phase}>"

    # ------------------------------------------------------------------------------------ reading

    @property
    def age(self) -> float:
        """Seconds since it was opened; 0 while it opens."""
        return 0.0 if self.lifespan is None else self.lifespan.age(self.host.world.clock())

    @property
    def age_at_end(self) -> float:
        """Its age when it was let go; its age if it was not."""
        if self.lifespan is None or self.left_at is None:
            return self.age
        return self.lifespan.age(self.left_at)

    @property
    def expires_in(self) -> float | None:
        """Seconds it has left; `None` for no end, or while it opens."""
        return None if self.lifespan is None else self.lifespan.left(self.host.world.clock())

    @property
    def connection(self) -> Token:
        """Lives as long as the connection that it has now."""
        return self._events.token()

    @property
    def opening(self) -> bool:
        """Whether it is being opened, or was to be when it was given up."""
        return self.attempt is not None and self.attempt.phase == "opening"

    @property
    def offered(self) -> Handle | None:
        """What it was given to resume from, if it was."""
        handle = self._predecessor.resumption
        if handle is None or self.after is None:
            return None
        return Handle(self.after.incarnation, handle)

    @property
    def live(self) -> bool:
        """Whether nobody has asked it to leave."""
        return phases.is_live(self.phase)

    @property
    def takes_work(self) -> bool:
        """Whether requests for clips may be sent to it."""
        return self.playable is not None and phases.takes_work(self.phase)

    @property
    def gone(self) -> bool:
        """Whether it has left altogether."""
        return isinstance(self.phase, phases.Closed)

    def facts(self) -> SourceFacts:
        """What decides about it.  It is live."""
        phase = self.phase
        assert not isinstance(phase, phases.Leaving | phases.Closed)  # noqa: S101 - it has a role
        span = None if isinstance(phase, phases.Opening) else self.lifespan
        return SourceFacts(
            phase,
            None if span is None else span.expires_at,
            None if span is None else span.prepare_at,
            self.exclusive,
            # A reconnect that goes on does not delay the replacement it has come to meanwhile.
            (self.checking is not None and isinstance(phase, phases.Prepared))
            or (
                self.recovery is not None
                and isinstance(phase, phases.Recovering)
                and phase.mode == "reconnect"
            ),
            bool(self.pending) or len(self.book) > 0,
            self.checked,
            self.applied is None or self.applied.settled,
            self.applied is not None and self.applied.tellers > 0,
        )

    def tail(self, dropped: tuple[int | None, int | None]) -> Tail:
        """What its last clip gave; `dropped` is what it lost of pictures and samples."""
        last = self.book.last
        queued = self.host.output.statistics()
        return Tail(
            clip=None if last is None else last.clip,
            frames_expected=None if last is None else last.frames_expected,
            frames_received=0 if last is None else last.frames_received,
            samples=self.book.samples,
            frames_dropped=dropped[0],
            samples_dropped=dropped[1],
            frames_queued=queued.video.queued,
            samples_queued=queued.audio.samples,
            bytes_queued=queued.video.bytes + queued.audio.bytes,
        )

    # ------------------------------------------------------------------------------------ changing

    def advance(self, occurrence: phases.Occurrence) -> bool:
        """Take an occurrence; returns whether it changed the phase."""
        before = self.phase
        self.phase = phases.advance(before, occurrence)
        if self.phase is before:
            return False
        _log.debug("source %d: %s", self.incarnation, occurrence)
        if isinstance(before, phases.Prepared) and isinstance(self.phase, phases.Recovering):
            # What was looked at is not what comes back.
            self.checked = not self.host.has_check
            if self.checking is not None:
                self.checking.cancel()
        if self.loans and (why := ends_loans(self.phase, occurrence)) is not None:
            self.recall(why)
        if not self.live:
            if not self.loans:
                self._hush()
            if self.left_at is None:
                self.left_at = self.host.world.clock()
        return True

    def _hush(self) -> None:
        """Hear nothing more of what its source pushes."""
        self._events.advance()
        self._frames.advance()

    def shorten(self, expires_in: float) -> bool:
        """Take the notice that it ends sooner; returns whether that is sooner than was known.

        Raises:
            ContractBroken: The notice makes no sense.
        """
        fault = notice_fault(expires_in)
        if fault is not None:
            raise ContractBroken(f"source {self.incarnation}: {fault}")
        assert self.lifespan is not None  # noqa: S101 - it has one before it can tell anything
        now = self.host.world.clock()
        span = self.lifespan.shortened(now, expires_in, lead=self.host.options.lead)
        if span is self.lifespan:
            return False
        self.lifespan = span
        if self._opening is not None and span.expires_at is not None:
            self._opening.deadline = min(self._opening.deadline, span.expires_at)
        elif self.attempt is not None:
            self.attempt.set_lifetime(span.left(now))
        return True

    def retire(self, occurrence: phases.Occurrence) -> None:
        """Let it go: it leaves in the ordinary way, in its own task."""
        self.advance(occurrence)
        self._leave_unless_lent()

    def give_back(self, loan: Loan) -> None:
        """Hear that a use of the source is over; after a handover it leaves with the last."""
        self.loans.pop(loan, None)
        if isinstance(self.phase, phases.Leaving):
            self._leave_unless_lent()

    def recall(self, why: LoanEnd) -> None:
        """Take the source from everybody who uses it, at once."""
        loans, self.loans = self.loans, {}
        if why == "lost" and self.expires_in == 0:
            why = "expired"  # whichever sign of its end was the first to be noticed
        for loan in loans:
            loan.cut(why)
        if not self.live:
            self._leave_unless_lent()

    def _leave_unless_lent(self) -> None:
        if not self.loans and self.attempt is not None:
            self.attempt.request_retire()

    def resumption(self) -> str | None:
        """What its source leaves to be resumed from, if it is what that must be.

        What is not is kept as a failure with the evidence of its end.

        Raises:
            BaseException: What the source raised.
        """
        handle = None if self.resumable is None else cast("object", self.resumable.resumption)
        fault = resumption_fault(handle)
        if fault is None:
            return cast("str | None", handle)
        self.add_failure(self._contract_broken(fault))
        return None

    @property
    def _is_seen(self) -> bool:
        """Whether its pictures reach us, if it is on air."""
        return not (isinstance(self.phase, phases.Recovering) and self.phase.on_air)

    def early(self) -> list[SourceEvent]:
        """What its source told while it was set up, once."""
        told, self._early = self._early, []
        return told

    # -------------------------------------------------------------------- its life, in its own task

    @asynccontextmanager
    async def life(self) -> AsyncGenerator[Source]:
        """Open the source, set it up, keep it, close it and leave it.

        Raises:
            TimedOut: It did not open within `open_timeout`, or within its own lifetime.
            OpenFailed: What was opened is not what a source must be.
            TypeError: It is no source at all, or the opener is no opener; a defect.
            BaseException: What opening or leaving raised.
        """
        world, options = self.host.world, self.host.options
        with trio.CancelScope(deadline=world.clock() + options.open_timeout) as opening:
            self._opening = opening
            async with self.recording.kept(), opened_by(self._opener, self._predecessor) as source:
                fault = source_fault(source)
                if fault is not None:
                    raise TypeError(f"source {self.incarnation}: {fault}")
                try:
                    span = self._accept(source)
                    if span.expires_at is not None:
                        opening.deadline = min(opening.deadline, span.expires_at)
                    await self.recording.identify(source)
                    if self.playable is not None:
                        await self._connect(self.playable)
                    # The budget can run out in the very step in which all of that was done.
                    if opening.cancel_called:
                        raise self._too_slow()
                    opening.deadline = math.inf
                    self._opening = None
                    if self.attempt is not None:
                        self.attempt.set_lifetime(self.expires_in)
                    self.host.slot_opened(self)
                    yield source
                finally:
                    self.host.slot_leaving(self)
                    self._hush()
                    await leave(self, source)
        if opening.cancelled_caught:
            raise self._too_slow()

    def _too_slow(self) -> TimedOut:
        return TimedOut(f"source {self.incarnation} did not open in time", outcome="unknown")

    def _accept(self, source: Source) -> Lifespan:
        """Take what a source says of itself, if it is what a source must be."""
        identity = cast("object", source.id)  # an adapter may say anything
        if not is_identity(identity):
            raise OpenFailed(
                f"source {self.incarnation} has no identity of 1 to {MAX_IDENTITY} characters"
            )
        if self.host.is_taken(identity):
            raise OpenFailed(f"source {self.incarnation} has the identity of one that is alive")
        adopting = self.recording.adopting
        if adopting is not None and identity != adopting.source:
            raise OpenFailed(f"source {self.incarnation} is not the one that was to be adopted")
        lifetime = source.lifetime
        fault = lifetime_fault(lifetime, self.host.options.lead)
        if fault is not None:
            raise OpenFailed(f"source {self.incarnation}: {fault}")
        self.source, self.identity = source, identity
        self.ref = SourceRef(self.incarnation, identity)
        # A plain one: a float of somebody else's cannot be encoded, nor can a long integer.
        self.lifetime = None if lifetime is None else float(lifetime)
        # Once: before Python 3.12 `isinstance` evaluates every property that a protocol names.
        exclusive = cast("object", isinstance(source, Exclusive) and source.exclusive)
        if not isinstance(exclusive, bool):
            raise OpenFailed(
                f"source {self.incarnation} says {a_kind(exclusive)}, not whether it is exclusive"
            )
        self.exclusive = exclusive
        self.playable = source if isinstance(source, Playable) else None
        self.reconnectable = source if isinstance(source, Reconnectable) else None
        self.receptive = source if isinstance(source, Receptive) else None
        self.resumable = _resumable(source)
        world = self.host.world
        self.lifespan = plan(world.clock(), self.lifetime, self.host.options, world.random)
        return self.lifespan

    async def _connect(self, source: Playable) -> None:
        """Begin a generation of events and one of media.  What was known and is gone is lost."""
        events, frames = self._events.advance(), self._frames.advance()
        self._broken = None
        sink = SlotEvents(self, events)
        try:
            state = await source.attach(sink)
            if events.live:
                self._refresh(state)
        finally:
            sink.release()
        applied = self.applied = Applied(source, self.host, lambda: self.host.on_air is self)
        await applied.tell_canvas()
        media = await source.open_media(SlotFrames(self, frames))
        if not hasattr(media, "aclose"):
            raise self._contract_broken(f"gave {a_kind(media)} for its media")
        self.unclosed.append(media)  # also one that is not what it must be
        generation = media.generation
        fault = generation_fault(generation, self.generation)
        if fault is not None:
            raise self._contract_broken(fault)
        if frames.live:
            self.media, self.generation = media, generation
            # It feeds the output already, also if it is not set up in the end.  And before those
            # that are over are asked to end: what they lost is not to be told by what has ended.
            if self.host.on_air is self:
                self.host.output.losses.activate(media, from_start=True)
            await account(self, keep=media)
        # What was set since is told before it counts as set up: nothing is awaited after this.
        await applied.tell()
        self.check_whole()

    def check_whole(self) -> None:
        """Raise `Lost` if its newest connection was lost while it was set up.

        Raises:
            Lost: It was.
            ContractBroken: It did what it must not.
        """
        if self._broken is not None:
            why, cause = self._broken
            if isinstance(cause, ContractBroken):
                raise cause  # which names what it did
            raise Lost(f"source {self.incarnation} was lost while it was set up: {why}") from cause

    def _contract_broken(self, did: str) -> ContractBroken:
        return ContractBroken(f"source {self.incarnation} {did}")

    def _too_many_clips(self) -> ContractBroken:
        return self._contract_broken(f"has more than {self.host.options.max_clips} clips")

    def _refresh(self, state: SourceState) -> None:
        fault = state_fault(state)
        if fault is not None:
            raise self._contract_broken(fault)
        if len(state.clips) > self.host.options.max_clips:
            raise self._too_many_clips()
        for lost in self.book.refresh(state, self.host.world.clock()):
            self.host.slot_forgot(self, lost)

    async def reconnect(self) -> None:
        """Make the connection again, and begin new generations of events and media.

        Raises:
            BaseException: What the source raised.  Whether it is trusted after that is for the
                caller to say.
        """
        source = self.reconnectable
        assert source is not None  # noqa: S101 - else it is replaced
        self._events.advance()
        self._frames.advance()
        self._broken = None
        await source.reconnect()
        if self.live and self.playable is not None:
            await self._connect(self.playable)

    def add_failure(self, failure: BaseException) -> None:
        """Keep what else went wrong with what is over of it, with the evidence of its end."""
        record = FailureRecord.of(sole(failure))
        if self.cleanup is None:
            self._failures.append(record)
            del self._failures[:-MAX_FAILURES]
        else:
            self.cleanup = msgspec.structs.replace(
                self.cleanup, failures=(*self.cleanup.failures, record)
            )

    def closed(self, cleanup: Cleanup) -> None:
        """Take the evidence of its end, and add what else went wrong before."""
        failures = (*self._failures, *cleanup.failures)
        self._failures.clear()
        self.cleanup = msgspec.structs.replace(cleanup, failures=failures)

    # ------------------------------------------------------------------- what its source pushes

    def broke(self, why: LossReason, cause: BaseException | None) -> None:
        """Hear from a sink that no more will come through it, or that it is not to be trusted."""
        if self._broken is None:
            self._broken = (why, cause)
        self.host.slot_lost(self, why, cause)

    def distrust(self, did: str) -> None:
        """Hear that it has done what a source must not."""
        self.broke("contract-broken", self._contract_broken(did))

    def took(self, event: SourceEvent) -> None:
        """Take an event of the source's."""
        if isinstance(event, GoingAway):
            try:
                if not self.shorten(event.expires_in) or not self.live:
                    return
            except ContractBroken as broken:
                self.broke("contract-broken", broken)
                return
        elif not self.live:
            return  # handed over and still lent: only how long it lives matters
        elif not self.book.apply(event, self.host.world.clock(), seen=self._is_seen):
            return  # said twice, or late
        elif len(self.book) > self.host.options.max_clips:
            self.broke("contract-broken", self._too_many_clips())
            return
        if not isinstance(self.phase, phases.Opening):
            self.host.slot_told(self, event)
        elif len(self._early) < MAX_EARLY:
            self._early.append(event)
        else:
            self.distrust("told too much while it was set up")


def _resumable(source: Source) -> Resumable | None:
    try:
        return source if isinstance(source, Resumable) else None
    except EXPECTED:
        # To ask has read the property: there is one, and it cannot tell just now.
        return cast("Resumable", source)
