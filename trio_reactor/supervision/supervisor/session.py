"""One session in memory: what is visible of it, and what is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, final

import trio

from trio_reactor.supervision.errors import LeaseExpired, SessionStopped
from trio_reactor.supervision.model.ends import ExitStatus, Stop, Termination
from trio_reactor.supervision.model.records import (
    Loaded,
    Loading,
    Open,
    Phase,
    SessionRecord,
    Stopped,
    Stopping,
)
from trio_reactor.supervision.model.work import CodeIdentity, Work
from trio_reactor.supervision.outcome import Outcome

from .alarms import Alarm

if TYPE_CHECKING:
    from trio_reactor.owner import Attempt
    from trio_reactor.supervision.execution.protocol import Unit

__all__ = ["LoadJob", "Session", "stopped_error"]


@final
class LoadJob:
    """A load under way: one, however many ask for it."""

    __slots__ = ("done", "hang_timeout", "outcome", "scope", "starting", "work")

    def __init__(self, work: Work, hang_timeout: float | None) -> None:
        self.work = work
        self.hang_timeout = hang_timeout
        self.outcome: Outcome[CodeIdentity] = Outcome()
        self.scope = trio.CancelScope()
        """What a stop cancels."""
        self.starting = False
        """Whether the execution is being asked to load the code."""
        self.done = trio.Event()
        """Its task is over."""


@final
class Session:
    """One session.

    `record` is what is visible; `ahead` is the newest phase that was given to the journal, which
    becomes visible when the journal has it.
    """

    __slots__ = (
        "__weakref__",
        "ahead",
        "alarm",
        "attempt",
        "deadline",
        "ending",
        "job",
        "journaled",
        "record",
        "unit",
    )

    def __init__(self, record: SessionRecord, deadline: float) -> None:
        self.record = record
        self.ahead: Phase = record.phase
        self.deadline = deadline
        """When its lease runs out, in seconds on the machine's clock."""
        self.journaled = True
        self.alarm: Alarm | None = None
        """What looks whether the lease has run out."""
        self.job: LoadJob | None = None
        self.attempt: Attempt[Unit] | None = None
        self.unit: Unit | None = None
        """Its execution, from its registration on; kept for what it said last."""
        self.ending: Outcome[Termination] = Outcome()
        """The end of its execution; never settled for one that an earlier supervisor stopped."""

    def __repr__(self) -> str:
        return f"<Session {self.record.handle}: {type(self.record.phase).__name__}>"

    @property
    def is_live(self) -> bool:
        """Whether it has not been fenced."""
        return isinstance(self.record.phase, Open | Loading | Loaded)

    @property
    def exit(self) -> ExitStatus | None:
        """How its execution ended, if that was observed; unknown if what was told cannot be."""
        exited = None if self.unit is None else cast("object", self.unit.exit)
        if exited is None or (isinstance(exited, ExitStatus) and _is_recordable(exited)):
            return exited
        # That it ended was observed; one adapter's nonsense must not keep it from being recorded.
        return ExitStatus()

    def error(self) -> LeaseExpired | SessionStopped | None:
        """Why it takes no more operations, as a fresh error; `None` if it takes them."""
        phase = self.record.phase
        if isinstance(phase, Stopping | Stopped):
            status = None
            if isinstance(phase, Stopped):
                status = phase.termination.exit
            return stopped_error(self.record, phase.stop, status or self.exit)
        return None


def _is_recordable(status: ExitStatus) -> bool:
    numbers: tuple[object, object] = (status.code, status.signal)
    return all(
        number is None or (type(number) is int and -(2**63) <= number < 2**63) for number in numbers
    )


def stopped_error(
    record: SessionRecord, stop: Stop, exit_status: ExitStatus | None = None
) -> LeaseExpired | SessionStopped:
    """What an operation on a stopping or stopped session raises."""
    if stop.reason == "expired":
        return LeaseExpired(f"the lease of {record.handle} has run out")
    status = stop.exit or exit_status or ExitStatus()
    words = f"{record.handle} has stopped: {stop.reason}"
    if stop.exit is not None:
        words = f"{words}, with {stop.exit}"
    return SessionStopped(
        words,
        reason=stop.reason,
        exit_code=status.code,
        exit_signal=status.signal,
        detail=None if stop.failure is None else stop.failure.detail,
    )
