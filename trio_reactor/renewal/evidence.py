"""What is proven of the end of a source.

A clean-up record is marked complete only if its own evidence proves it: whatever was allocated is
known to be gone, and the connection is closed.  A record that contradicts itself cannot be made and
cannot be decoded.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from trio_reactor.events import FailureRecord

__all__ = ["Allocation", "Cleanup", "Connection", "Termination"]

Allocation = Literal["none", "owned", "attached"]
"""Nothing was allocated; a session of our own was; one that exists without us was joined."""

Termination = Literal["not-needed", "confirmed", "unconfirmed"]
"""Whether the provider's side is known to have ended."""

Connection = Literal["never-opened", "closed", "failed"]


class Cleanup(msgspec.Struct, frozen=True):
    """The evidence that closing one source left.

    Raises:
        ValueError: If it says complete and its evidence does not prove it, or the reverse.
    """

    source: str | None
    """Whose; `None` if it never had an identity."""
    allocation: Allocation
    termination: Termination
    connection: Connection
    complete: bool
    failures: tuple[FailureRecord, ...] = ()

    @classmethod
    def of(
        cls,
        source: str | None,
        *,
        allocation: Allocation,
        termination: Termination,
        connection: Connection,
        failures: tuple[FailureRecord, ...] = (),
    ) -> Cleanup:
        """The record of this evidence, marked by what it proves."""
        return cls(
            source,
            allocation,
            termination,
            connection,
            _proves(allocation, termination, connection),
            failures,
        )

    def __post_init__(self) -> None:
        if self.complete != _proves(self.allocation, self.termination, self.connection):
            raise ValueError(
                f"complete={self.complete} contradicts the evidence: allocation {self.allocation}, "
                f"termination {self.termination}, connection {self.connection}"
            )


def _proves(allocation: Allocation, termination: Termination, connection: Connection) -> bool:
    ended = termination == "confirmed" if allocation == "owned" else termination != "unconfirmed"
    return ended and connection != "failed"
