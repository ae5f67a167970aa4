"""One physical source of a chain: from its opening to its end, and what is known meanwhile.

`life` is what its own task does, from the opening to the leaving, and `setup` what makes a source
that was opened, or reconnected, a whole one.  What the source pushes goes into sinks that belong to
one generation of it and are fenced with that: after a reconnect, or after its end, an old
generation changes nothing any more.
"""

from __future__ import annotations

import logging
from typing import Final, cast, final

import msgspec
import trio

from trio_reactor.errors import Lost
from trio_reactor.events import FailureRecord
from trio_reactor.fence import Generations, Token
from trio_reactor.owner import Attempt
from trio_reactor.renewal.errors import ContractBroken, sole
from trio_reactor.renewal.events import LossReason, SourceRef, Tail
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.policy.facts import SourceFacts
from trio_reactor.renewal.policy.lifespan import Lifespan, notice_fault
from trio_reactor.renewal.policy.resumption import Handle
from trio_reactor.renewal.source import (
    GoingAway,
    Media,
    OpenCause,
    Playable,
    Predecessor,
    Receptive,
    Reconnectable,
    Resumable,
    Source,
    SourceEvent,
    SourceOpener,
)

from .clips import ClipBook
from .host import Pending, SlotHost
from .loans import Loan, LoanEnd, ends_loans
from .recording import Recording
from .settings import Applied
from .underway import Underway
from .validity import (
    resumption_fault,
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
        self.opener = opener
        self.predecessor = predecessor
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
        self.opening_budget: trio.CancelScope | None = None
        """Its budget while it is opened and set up."""
        self._failures: list[FailureRecord] = []
        self.broken: tuple[LossReason, BaseException | None] | None = None
        """What its newest connection was lost by."""
        self.events = Generations(f"events of source {incarnation}")
        """Its connections, one after the other: what it tells."""
        self.frames = Generations(f"media of source {incarnation}")
        """The same of what it gives to be seen and heard."""
        self.notices = Generations(f"notices of source {incarnation}")
        """The same of what it announces, of which it has one: its whole life."""

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
        return self.events.token()

    @property
    def opening(self) -> bool:
        """Whether it is being opened, or was to be when it was given up."""
        return self.attempt is not None and self.attempt.phase == "opening"

    @property
    def offered(self) -> Handle | None:
        """What it was given to resume from, if it was."""
        handle = self.predecessor.resumption
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
                self.hush()
            if self.left_at is None:
                self.left_at = self.host.world.clock()
        return True

    def hush(self) -> None:
        """Hear nothing more of what its source pushes."""
        self.events.advance()
        self.frames.advance()
        self.notices.advance()

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
        if self.opening_budget is not None and span.expires_at is not None:
            self.opening_budget.deadline = min(self.opening_budget.deadline, span.expires_at)
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
        self.add_failure(self.contract_broken(fault))
        return None

    @property
    def _is_seen(self) -> bool:
        """Whether its pictures reach us, if it is on air."""
        return not (isinstance(self.phase, phases.Recovering) and self.phase.on_air)

    def early(self) -> list[SourceEvent]:
        """What its source told while it was set up, once."""
        told, self._early = self._early, []
        return told

    def check_whole(self) -> None:
        """Raise `Lost` if its newest connection was lost while it was set up.

        Raises:
            Lost: It was.
            ContractBroken: It did what it must not.
        """
        if self.broken is not None:
            why, cause = self.broken
            if isinstance(cause, ContractBroken):
                raise cause  # which names what it did
            raise Lost(f"source {self.incarnation} was lost while it was set up: {why}") from cause

    def contract_broken(self, did: str) -> ContractBroken:
        """The error that says that its source did this."""
        return ContractBroken(f"source {self.incarnation} {did}")

    def too_many_clips(self) -> ContractBroken:
        """The error that says that its source has more clips than it may."""
        return self.contract_broken(f"has more than {self.host.options.max_clips} clips")

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
        if self.broken is None:
            self.broken = (why, cause)
        self.host.hearing.lost(self, why, cause)

    def distrust(self, did: str) -> None:
        """Hear that it has done what a source must not."""
        self.broke("contract-broken", self.contract_broken(did))

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
            self.broke("contract-broken", self.too_many_clips())
            return
        if not isinstance(self.phase, phases.Opening):
            self.host.hearing.told(self, event)
        elif len(self._early) < MAX_EARLY:
            self._early.append(event)
        else:
            self.distrust("told too much while it was set up")
