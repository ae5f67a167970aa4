"""What became of all the sources of a chain, as records that add up; `chain.ledger` keeps them."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

import msgspec

from .evidence import Allocation, Cleanup, Connection, Termination
from .options import Retention

__all__ = ["OmittedCleanups", "RenewalReport", "SourceCleanup", "combine"]


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
