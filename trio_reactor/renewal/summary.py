"""What became of all the sources of a chain: kept within a bound, and adding up.

A `CleanupLedger` is asked before each open and told after each close.  It keeps either every
clean-up, and then bounds how many sessions there can be; or all that are not proven complete and
the newest of those that are, and counts the older ones by kind.  What is not proven is never
forgotten: when there is no room for one more of those, nothing more is opened.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Self

import msgspec

from trio_reactor.errors import Overflow

from .evidence import Allocation, Cleanup, Connection, Termination
from .options import RenewalOptions, Retention

__all__ = ["CleanupLedger", "OmittedCleanups", "RenewalReport", "SourceCleanup", "combine"]

_log = logging.getLogger("trio_reactor.renewal")


class SourceCleanup(msgspec.Struct, frozen=True):
    """The clean-up of one source of a chain."""

    incarnation: int
    """Its number in the chain, from 1."""
    cleanup: Cleanup


class OmittedCleanups(msgspec.Struct, frozen=True):
    """How many clean-ups are counted and no longer kept, by kind; each was complete.

    Raises:
        ValueError: If a number is negative.
    """

    no_allocation: int = 0
    """Nothing had been allocated."""
    owned_terminated: int = 0
    """A session of our own, confirmed to have ended."""
    attached_detached: int = 0
    """A session that exists without us, left."""

    def __post_init__(self) -> None:
        if min(self.no_allocation, self.owned_terminated, self.attached_detached) < 0:
            raise ValueError("a number of omitted clean-ups is negative")

    @property
    def total(self) -> int:
        """All of them."""
        return self.no_allocation + self.owned_terminated + self.attached_detached

    def plus(self, cleanup: Cleanup) -> OmittedCleanups:
        """With one more."""
        match cleanup.allocation:
            case "none":
                return msgspec.structs.replace(self, no_allocation=self.no_allocation + 1)
            case "owned":
                return msgspec.structs.replace(self, owned_terminated=self.owned_terminated + 1)
            case "attached":
                return msgspec.structs.replace(self, attached_detached=self.attached_detached + 1)


class RenewalReport(msgspec.Struct, frozen=True):
    """What became of every source of a chain.

    Raises:
        ValueError: If it contradicts itself; so one that does cannot be decoded either.
    """

    retention: Retention
    total: int
    """How many sources there were, those that failed to open included."""
    complete: bool
    """Whether every one of them is proven to be cleaned up."""
    retained: tuple[SourceCleanup, ...] = ()
    """The clean-ups that were kept, in the order of their sources."""
    omitted: OmittedCleanups = OmittedCleanups()

    def __post_init__(self) -> None:
        if self.total != len(self.retained) + self.omitted.total:
            raise ValueError(
                f"{len(self.retained)} retained and {self.omitted.total} omitted clean-ups "
                f"do not make {self.total}"
            )
        if self.retention == "complete" and self.omitted.total:
            raise ValueError("complete retention omits nothing")
        if self.complete != all(kept.cleanup.complete for kept in self.retained):
            raise ValueError(f"complete={self.complete} contradicts the clean-ups")
        numbers = [kept.incarnation for kept in self.retained]
        if any(not 0 < number <= self.total for number in numbers):
            raise ValueError(f"a source is numbered beyond the {self.total} there were")
        if any(one >= other for one, other in pairwise(numbers)):
            raise ValueError("the sources are not in order, each once")

    @property
    def unresolved(self) -> tuple[SourceCleanup, ...]:
        """The clean-ups that are not proven complete."""
        return tuple(kept for kept in self.retained if not kept.cleanup.complete)

    def to_json(self) -> bytes:
        """The report as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, encoded: bytes | str) -> Self:
        """The report that `to_json` encoded.

        Raises:
            msgspec.ValidationError: A `ValueError`: it is no report, or contradicts itself.
        """
        return msgspec.json.decode(encoded, type=cls)


def combine(first: Cleanup, second: Cleanup) -> Cleanup:
    """The clean-up of a source of which two reports were made, as far as both together prove it.

    A failed open can carry a report of its own while the source it had got so far gives another.
    What either of them leaves open stays open.
    """
    if first == second:
        return first
    allocation: Allocation = "none"
    for candidate in (first.allocation, second.allocation):
        if candidate == "owned" or allocation == "none":
            allocation = candidate
    terminations = {first.termination, second.termination}
    termination: Termination = "not-needed"
    if "unconfirmed" in terminations:
        termination = "unconfirmed"
    elif "confirmed" in terminations:
        termination = "confirmed"
    connections = {first.connection, second.connection}
    connection: Connection = "never-opened"
    if "failed" in connections:
        connection = "failed"
    elif "closed" in connections:
        connection = "closed"
    return Cleanup.of(
        first.source if second.source is None else second.source,
        allocation=allocation,
        termination=termination,
        connection=connection,
        failures=first.failures + second.failures,
    )


class CleanupLedger:
    """Records what became of each source, once, within its bounds.

    Args:
        options: `retention`, `session_limit`, `retained_successful_cleanups` and
            `max_unresolved_cleanups` count.
        name: What the renewal is called, for the log.
    """

    def __init__(self, options: RenewalOptions, name: str = "renewal") -> None:
        self._name = name
        self._retention: Retention = options.retention
        self._limit = options.session_limit
        self._max_unresolved = (
            options.max_unresolved_cleanups if options.retention == "bounded" else None
        )
        self._max_successful = options.retained_successful_cleanups
        self._reserved: dict[int, str | None] = {}
        self._unresolved: dict[int, Cleanup] = {}
        self._successful: list[SourceCleanup] = []
        self._omitted = OmittedCleanups()
        self._incarnations = 0
        self._sessions = 0

    @property
    def incarnations(self) -> int:
        """How many reservations there were."""
        return self._incarnations

    @property
    def outstanding(self) -> int:
        """How many reservations have no record yet."""
        return len(self._reserved)

    @property
    def unresolved(self) -> int:
        """How many clean-ups are not proven complete."""
        return len(self._unresolved)

    def reserve(self) -> int:
        """Make room for the clean-up of one more source, before it is opened.

        Returns:
            Its incarnation number, from 1.

        Raises:
            Overflow: If there is no room: nothing more may be opened.
        """
        if self._limit is not None and self._sessions + len(self._reserved) >= self._limit:
            raise Overflow(f"max_sessions: {self._limit} sessions have been opened")
        if (
            self._max_unresolved is not None
            and len(self._unresolved) + len(self._reserved) >= self._max_unresolved
        ):
            raise Overflow(self._too_many_unresolved())
        self._incarnations += 1
        self._reserved[self._incarnations] = None
        return self._incarnations

    def identify(self, incarnation: int, source: str) -> None:
        """Note the identity of a source that was opened.

        Raises:
            ValueError: If the incarnation has no reservation, or its record already.
        """
        self._check(incarnation)
        self._reserved[incarnation] = source

    def record(self, incarnation: int, cleanup: Cleanup) -> None:
        """Record what became of a source, in the place of its reservation.

        The first that is not proven complete is logged as a warning: more of its kind will follow.

        Raises:
            ValueError: If the incarnation has no reservation, or its record already; `combine`
                what comes from several sides first.
        """
        self._check(incarnation)
        del self._reserved[incarnation]
        # What allocated nothing was no session, so opens that fail do not use up the sessions.
        self._sessions += cleanup.allocation != "none"
        if not cleanup.complete:
            if not self._unresolved:
                _log.warning(
                    "%s: the clean-up of source %s is not proven complete",
                    self._name,
                    _told(incarnation, cleanup),
                )
            self._unresolved[incarnation] = cleanup
            return
        self._successful.append(SourceCleanup(incarnation, cleanup))
        if self._retention == "bounded" and len(self._successful) > self._max_successful:
            self._omitted = self._omitted.plus(self._successful.pop(0).cleanup)

    def report(self) -> RenewalReport:
        """What is known now; a reservation without a record counts as unresolved."""
        kept = dict(self._unresolved)
        for number, source in self._reserved.items():
            kept[number] = Cleanup.of(
                source, allocation="owned", termination="unconfirmed", connection="failed"
            )
        kept |= {record.incarnation: record.cleanup for record in self._successful}
        retained = tuple(SourceCleanup(number, kept[number]) for number in sorted(kept))
        return RenewalReport(
            retention=self._retention,
            total=self._incarnations,
            complete=all(record.cleanup.complete for record in retained),
            retained=retained,
            omitted=self._omitted,
        )

    def _too_many_unresolved(self) -> str:
        coming = len(self._reserved)
        said = (
            f"max_unresolved_cleanups={self._max_unresolved} leaves no room for another source: "
            f"{len(self._unresolved)} clean-ups are not proven complete, "
            f"{coming} {'is' if coming == 1 else 'are'} still to come"
        )
        if self._unresolved:
            newest = max(self._unresolved)
            said += f"; the newest is of source {_told(newest, self._unresolved[newest])}"
        return said

    def _check(self, incarnation: int) -> None:
        if incarnation not in self._reserved:
            raise ValueError(f"source {incarnation} has no reservation, or its record already")


def _told(incarnation: int, cleanup: Cleanup) -> str:
    """A clean-up that is not complete, in words: whose it is, what it says and what is missing."""
    return (
        f"{incarnation} (allocation={cleanup.allocation!r}, termination={cleanup.termination!r}, "
        f"connection={cleanup.connection!r}): {cleanup.missing}"
    )
