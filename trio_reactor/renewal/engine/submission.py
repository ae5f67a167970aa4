"""A request on its way: prepared, submitted once, and what became of it.

A submission holds what it needs only as long as it needs it.  Once it is completed it keeps its
outcome as data, and nothing of the source, the chain or a traceback stays alive because of it.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, final

import msgspec
import trio

from trio_reactor.renewal.events import SourceRef
from trio_reactor.renewal.source import ClipRequest

from .capture import check_flag, check_name
from .dispatch import Dispatch
from .failure import Failure
from .routing import Placement

__all__ = [
    "Accepted",
    "Completed",
    "Order",
    "SequenceMember",
    "Submission",
    "SubmissionState",
    "Submitter",
    "Submitting",
    "Unsent",
]


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """A clip that a source took."""

    source: SourceRef
    clip: str


class SequenceMember(msgspec.Struct, frozen=True):
    """As what a request belongs to a sequence.

    Raises:
        ValueError: A name is empty or too long.
    """

    sequence: str
    """The sequence's name."""
    name: str | None = None
    """The request's name in it; one of its own, by number, if it is `None`."""
    final: bool = False
    """Whether it is the last: the sequence is sealed with it, also if it is rejected."""

    def __post_init__(self) -> None:
        check_name("sequence", self.sequence)
        if self.name is not None:
            check_name("name", self.name)
        check_flag("final", self.final)


@final
class Order(msgspec.Struct, frozen=True):
    """Everything that was asked for, as it was prepared."""

    request: ClipRequest
    placement: Placement
    sequence: SequenceMember | None
    member: str
    """Its name in the sequence; empty without one."""


class Unsent(msgspec.Struct, frozen=True, tag=True):
    """Nothing of it has left."""


class Submitting(msgspec.Struct, frozen=True, tag=True):
    """It is on its way, or its answer is."""

    source: SourceRef
    """Where it goes."""


class Completed(msgspec.Struct, frozen=True, tag=True):
    """It was sent, and this is what became of it."""

    outcome: Accepted | Failure


SubmissionState: TypeAlias = Unsent | Submitting | Completed


class Submitter(Protocol):
    """What a submission needs while it is not completed."""

    def dispatch(self, order: Order, selected: int | None, submission: Submission) -> Dispatch[str]:
        """Choose a source and begin to send."""
        ...


@final
class Submission:
    """One request, to be sent once.  Made by `Renewal.prepare`.

    Until it is submitted it binds nothing and costs nothing.  It keeps to the source that it chose
    when it was first submitted: it is not sent to another, because what it was prepared for may not
    be there.
    """

    def __init__(self, submitter: Submitter, order: Order) -> None:
        self._open: tuple[Submitter, Order] | None = (submitter, order)
        """What sends it, and what; `None` once it is completed."""
        self._selected: int | None = None
        self._flight: Dispatch[str] | None = None
        self._outcome: Accepted | Failure | None = None

    def __repr__(self) -> str:
        return f"<Submission: {self.state}>"

    @property
    def state(self) -> SubmissionState:
        """How far it is.  Readable at any time, also after the renewal was closed."""
        if self._outcome is not None:
            return Completed(self._outcome)
        if self._flight is None or self._flight.withdrawn:
            return Unsent()
        return Submitting(self._flight.slot.ref)

    async def submit(self) -> Accepted:
        """Send it, once, and wait for the answer.  A checkpoint.

        Called again, or by several tasks at once, it is sent once all the same and gives every one
        the same outcome, also after the renewal was closed.  A failure is raised afresh to each;
        only the one whose call met it first gets the original with its cause.

        If its outcome is `not-submitted`, nothing was sent and it is prepared as before: it can be
        submitted again.

        Cancelled before the request left, nothing leaves, unless another task waits for it.
        Cancelled after, it goes on: `state` tells, and a later call waits for, what comes of it.

        Raises:
            SessionRecovering: No source takes it now.
            SessionRetired: The source that it is bound to is gone, or the last one is.
            RouteChanged: The source that it chose lives, and takes it no more.
            OwnerConflict: What it is bound to is at different sources.
            ClipUnknown, ClipNotQueued: A clip that it names is not known, or does not wait.
            QueueFull: Too many commands are pending, or there are too many clips, sequences or
                members.
            SequenceOver, MemberKnown: Its sequence does not take it.
            Refused: The provider said no.
            Lost: The source was lost; `outcome` says whether the request may have arrived.
            TimedOut: It was not answered in time; `outcome` says whether it may have arrived.
            ContractBroken: The answer makes no sense; or, with the outcome `not-submitted`, two
                sources have a clip of the name that it names.
            Closed, Failed: The renewal is closed, or has failed.
        """
        if self._outcome is not None:
            await trio.lowlevel.checkpoint()
            return _result(self._outcome)
        flight = self._flight
        if flight is None or flight.withdrawn:
            await trio.lowlevel.checkpoint_if_cancelled()
            flight = self._take_off()
        await flight.outcome()
        assert isinstance(self._outcome, Accepted)  # noqa: S101 - it would have raised
        return self._outcome

    def _take_off(self) -> Dispatch[str]:
        assert self._open is not None  # noqa: S101 - it is not completed
        submitter, order = self._open
        self._flight = flight = submitter.dispatch(order, self._selected, self)
        self._selected = flight.slot.incarnation
        return flight

    def _landed(self, flight: Dispatch[str]) -> None:
        """A flight is over: the submission is completed, or prepared as before."""
        if flight is not self._flight:
            return
        self._flight = None
        if flight.answer is not None:
            self._outcome = Accepted(flight.slot.ref, flight.answer[0])
        elif flight.sent:
            assert flight.failure is not None  # noqa: S101 - it has no answer
            self._outcome = Failure.of(flight.failure)
        else:
            return
        self._open = None


def _result(outcome: Accepted | Failure) -> Accepted:
    if isinstance(outcome, Accepted):
        return outcome
    raise outcome.afresh()
