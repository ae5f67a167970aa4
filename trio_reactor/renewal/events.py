"""What a renewal has to say, as events.

Each carries what a person needs to understand it alone: which source, by its identity and by its
number in the chain, how old it was, why it happened, and, where a source leaves the air, the tail
of what it gave.  `age` is in seconds since the source was opened, and 0 while it opens.

The order in which a reader sees them is the order in which things happened.  Of one source it is
`SourceOpening`, then `OpenFailure`, `ResumptionDiscarded`, `AdoptionDiscarded` or `SourceOpened`,
`Prepared` if it has to wait its turn, `OnAir`, and so on to `SourceClosed`; the clips that are lost
with a source are each named by a `ClipLost` before its `Replaced`.

The phases of `trio_reactor.renewal.policy.phases` have some of these names: import that module
whole where both are needed.
"""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from trio_reactor.events import Event, FailureRecord

from .allocation.recovery import Settlement
from .evidence import Cleanup
from .policy.handoff import HandoffEvidence
from .policy.phases import LeaveReason, RecoveryMode
from .source import ClipEnded, ClipFailed, ClipStarted, ClipUpdated, OpenCause
from .summary import RenewalReport

__all__ = [
    "RENEWAL_EVENTS",
    "AdoptionDiscarded",
    "AllocationSettled",
    "AnyRenewalEvent",
    "ClipChanged",
    "ClipLossReason",
    "ClipLost",
    "HandedOver",
    "HandoffEvidence",
    "InputLossReason",
    "InputLost",
    "LifetimeShortened",
    "LossReason",
    "OnAir",
    "OpenFailure",
    "PrepareScheduled",
    "Prepared",
    "Recovered",
    "Recovering",
    "RenewalClosed",
    "RenewalEvent",
    "RenewalFailed",
    "RenewalFinished",
    "RenewalStopped",
    "RenewalWanted",
    "Replaced",
    "ResumptionDiscarded",
    "SequenceRetired",
    "SequenceSealed",
    "SourceClosed",
    "SourceOpened",
    "SourceOpening",
    "SourceRef",
    "Tail",
]

LossReason = Literal[
    "media-lost",
    "events-lost",
    "reconnect-failed",
    "outcome-unknown",
    "check-failed",
    "contract-broken",
    "died",
    "expired",
]
"""What was lost, or was found wrong, with a source.

`outcome-unknown`: a command left and its fate is not known.  `contract-broken`: what the adapter
said makes no sense.  `expired`: its life ended before a boundary came.
"""


ClipLossReason = Literal["source-lost", "not-in-state"]
"""Whether the clip's source is gone, or is there and knows the clip no longer."""


InputLossReason = Literal["source-lost", "refused", "not-taken", "no-source"]
"""Why input that was accepted is not known to have arrived: its source was lost while it was under
way; the provider said no to it; the source that came next takes no input; or none came."""


class SourceRef(msgspec.Struct, frozen=True):
    """Which source."""

    incarnation: int
    """Its number in the chain, from 1; every attempt to open one has its own."""
    id: str | None = None
    """Its identity, once it has one."""


class Tail(msgspec.Struct, frozen=True):
    """What the last clip of a source gave while it was on air, and what is still on its way."""

    clip: str | None = None
    """The clip; `None` if none was seen to start."""
    frames_expected: int | None = None
    """How many pictures it has, if that is known."""
    frames_received: int = 0
    samples: int = 0
    """Interleaved samples received of it."""
    frames_dropped: int | None = 0
    """Pictures that the source lost while it fed the output; `None` if that could not be told."""
    samples_dropped: int | None = 0
    """Interleaved samples that it lost; `None` if that could not be told."""
    frames_queued: int = 0
    """Pictures that were in the output, still to be read, of whichever source."""
    samples_queued: int = 0
    bytes_queued: int = 0


class RenewalEvent(Event, frozen=True, kw_only=True):
    """The base of the events of a renewal.

    Raises:
        ValueError: If a number in it is infinite or not a number, which JSON cannot say.
    """

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{type(self).__name__}.{name} is {value}")


# opening


class SourceOpening(RenewalEvent, frozen=True, kw_only=True):
    """An attempt to open a source began."""

    source: SourceRef
    after: SourceRef | None
    """The one before it, or `None` for the first."""
    cause: OpenCause
    """Whether it follows nothing, a plan, or a loss."""
    resuming: bool = False
    """Whether it is given a handle to resume from."""
    adopting: bool = False
    """Whether it is to hold what a dead process left."""


class ResumptionDiscarded(RenewalEvent, frozen=True, kw_only=True):
    """A source refused to resume; one fresh open follows, which is given the context instead."""

    source: SourceRef
    failure: FailureRecord


class AdoptionDiscarded(RenewalEvent, frozen=True, kw_only=True):
    """What a dead process left could not be adopted: it is terminated, and a fresh open follows."""

    source: SourceRef
    failure: FailureRecord


class AllocationSettled(RenewalEvent, frozen=True, kw_only=True):
    """It is known what has become of an allocation that a dead process left."""

    key: str
    """What it was recorded under."""
    source: str | None
    """The identity of its source, if that is known."""
    age: float
    """Seconds since it was asked for, by the wall clock."""
    how: Settlement
    """`unconfirmed`: it may be running still, stays recorded, and is tried again at the next
    start."""
    cleanup: Cleanup | None = None
    """What terminating it has proven; `None` if it was adopted, or that failed."""
    failure: FailureRecord | None = None
    """Why it could not be terminated, if it could not."""


class SourceOpened(RenewalEvent, frozen=True, kw_only=True):
    """A source was opened and lives."""

    source: SourceRef
    after: SourceRef | None
    cause: OpenCause
    took: float
    """Seconds that opening took."""
    lifetime: float | None
    """Seconds it lives, from when it was opened; `None` for no end."""
    exclusive: bool = False
    """Whether there can be no second one while it lives."""


class OpenFailure(RenewalEvent, frozen=True, kw_only=True):
    """A source could not be opened or prepared."""

    source: SourceRef
    after: SourceRef | None
    cause: OpenCause
    took: float
    """Seconds until it failed."""
    consecutive: int
    """Failures in a row, this one included."""
    pause: float | None
    """Seconds before the next attempt; `None` if there will be none."""
    permanent: bool
    """Whether trying again was declared pointless."""
    failure: FailureRecord


class Prepared(RenewalEvent, frozen=True, kw_only=True):
    """The next source is ready to take over, and takes new work from now on."""

    source: SourceRef
    age: float
    after: SourceRef | None
    """The one on air."""


# on air


class OnAir(RenewalEvent, frozen=True, kw_only=True):
    """A source feeds the output from now on."""

    source: SourceRef
    age: float
    generation: int | None
    """Its media generation; `None` if it gives no media."""
    after: SourceRef | None
    """The one that was on air before."""
    cause: OpenCause
    gap: float = 0.0
    """Seconds for which nothing was on air."""


class PrepareScheduled(RenewalEvent, frozen=True, kw_only=True):
    """It was settled when the successor of a source is due."""

    source: SourceRef
    age: float
    prepare_in: float | None
    """Seconds until then; `None` for never."""
    expires_in: float | None
    """Seconds until its life ends; `None` for no end."""


class LifetimeShortened(RenewalEvent, frozen=True, kw_only=True):
    """A source will end sooner than it said; `PrepareScheduled` says what follows from that."""

    source: SourceRef
    age: float
    expires_in: float
    """Seconds until its life ends."""
    detail: str = ""
    """The provider's words."""


class RenewalWanted(RenewalEvent, frozen=True, kw_only=True):
    """The application asked for a successor at the next boundary."""

    source: SourceRef | None
    """The one on air."""
    age: float
    reason: str
    """The application's words."""


class HandedOver(RenewalEvent, frozen=True, kw_only=True):
    """A source gave way to the next at a boundary."""

    old: SourceRef
    age: float
    """The old one's."""
    new: SourceRef | None
    """The one that took its place; `None` if an exclusive source gave way and none ever did."""
    evidence: HandoffEvidence
    tail: Tail
    """The old one's."""
    gap: float = 0.0
    """Seconds for which nothing was on air, so far; more than 0 only after an exclusive source."""


class ClipChanged(RenewalEvent, frozen=True, kw_only=True):
    """A source told of one of its clips."""

    source: SourceRef
    age: float
    change: ClipUpdated | ClipStarted | ClipEnded | ClipFailed


class ClipLost(RenewalEvent, frozen=True, kw_only=True):
    """A clip that was queued or playing will not be played to its end: its source lost it.

    Also one that its source was said to have played to its end, where some of its pictures never
    came because the source could not be reached, and it was replaced before it could be again.
    """

    source: SourceRef
    age: float
    clip: str
    frames_expected: int | None
    """How many pictures it has, if that is known."""
    frames_received: int
    """How many of them came."""
    why: ClipLossReason


# sequences


class SequenceSealed(RenewalEvent, frozen=True, kw_only=True):
    """A sequence is over: it takes no more members, and each was accepted or rejected."""

    source: SourceRef
    age: float
    sequence: str
    accepted: int
    """How many members the source took."""
    rejected: int
    """How many it refused."""


class SequenceRetired(RenewalEvent, frozen=True, kw_only=True):
    """A sequence ended with its source, before it was sealed."""

    source: SourceRef
    age: float
    sequence: str
    accepted: int
    """How many members the source took."""
    rejected: int
    """How many it refused."""
    indeterminate: int
    """How many were sent and have an unknown fate; if any, the sequence is to be acknowledged."""


# loss and recovery


class Recovering(RenewalEvent, frozen=True, kw_only=True):
    """Something was lost of a source that lives, and is being made good.

    It comes again for the same source when recovery escalates from reconnect to replace.
    """

    source: SourceRef
    age: float
    mode: RecoveryMode
    why: LossReason
    failure: FailureRecord | None = None
    """`None` where the loss came without an error."""
    on_air: bool = True
    """Whether it is the one on air."""


class Recovered(RenewalEvent, frozen=True, kw_only=True):
    """A source is whole again."""

    source: SourceRef
    age: float
    generation: int | None
    """Its new media generation; `None` if it gives no media."""
    took: float
    """Seconds since the loss."""


class Replaced(RenewalEvent, frozen=True, kw_only=True):
    """A source was let go as lost; the clips that went with it were named before."""

    old: SourceRef
    age: float
    """The old one's."""
    new: SourceRef | None
    """The one that takes its place at once; `None` if it is still to be opened, or none will be."""
    why: LossReason
    failure: FailureRecord | None
    """`None` where there was no error, as at the end of a life."""
    tail: Tail
    """The old one's."""


class SourceClosed(RenewalEvent, frozen=True, kw_only=True):
    """A source has left and counts no longer; what is proven of that is in its clean-up."""

    source: SourceRef
    age: float
    why: LeaveReason
    took: float
    """Seconds it took to leave."""
    cleanup: Cleanup


class InputLost(RenewalEvent, frozen=True, kw_only=True):
    """Input that was accepted is not known to have arrived, and is never sent again."""

    source: SourceRef | None
    """The one it was on its way to; `None` if there was none."""
    age: float
    pieces: int
    bytes: int
    why: InputLossReason


# the ends


class RenewalStopped(RenewalEvent, frozen=True, kw_only=True):
    """No successors are prepared any more; the source on air stays to its end."""

    source: SourceRef | None
    age: float


class RenewalFinished(RenewalEvent, frozen=True, kw_only=True):
    """The last source of a renewal that was stopped has left the air: the output has ended."""

    source: SourceRef | None
    """The last that was on air, if there was one."""
    age: float
    """Its age when it left the air."""


class RenewalClosed(RenewalEvent, frozen=True, kw_only=True):
    """The renewal was closed, and everything it owned has left."""

    source: SourceRef | None
    """The last that was on air, if there was one."""
    age: float
    """Its age when it left the air."""
    report: RenewalReport


class RenewalFailed(RenewalEvent, frozen=True, kw_only=True):
    """The renewal failed for good: nothing is opened after this."""

    source: SourceRef | None
    """The one on air, if there was one."""
    age: float
    failure: FailureRecord
    tail: Tail | None = None


AnyRenewalEvent: TypeAlias = (
    SourceOpening
    | ResumptionDiscarded
    | AdoptionDiscarded
    | AllocationSettled
    | SourceOpened
    | OpenFailure
    | Prepared
    | OnAir
    | PrepareScheduled
    | LifetimeShortened
    | RenewalWanted
    | HandedOver
    | ClipChanged
    | ClipLost
    | SequenceSealed
    | SequenceRetired
    | Recovering
    | Recovered
    | Replaced
    | SourceClosed
    | InputLost
    | RenewalStopped
    | RenewalFinished
    | RenewalClosed
    | RenewalFailed
)
"""Every event of a renewal, for decoding and for an exhaustive `match`."""

RENEWAL_EVENTS: Final[tuple[type[RenewalEvent], ...]] = get_args(AnyRenewalEvent)
