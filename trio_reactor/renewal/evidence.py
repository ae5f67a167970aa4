"""What is proven of the end of a source.

A clean-up record is marked complete only if its own evidence proves it: whatever was allocated is
known to be gone, and the connection is closed.  A record that contradicts itself, or says a word
that there is not, cannot be made and cannot be decoded.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from trio_reactor.events import FailureRecord

__all__ = ["Allocation", "Cleanup", "Connection", "Termination"]

Allocation = Literal["none", "owned", "attached"]
"""Nothing was allocated; a session of our own was; one that exists without us was joined."""

Termination = Literal["not-needed", "confirmed", "unconfirmed"]
"""Whether the provider's side is known to have ended."""

Connection = Literal["never-opened", "closed", "failed"]

_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "allocation": get_args(Allocation),
    "termination": get_args(Termination),
    "connection": get_args(Connection),
}


class Cleanup(msgspec.Struct, frozen=True):
    """The evidence that closing one source left.

    Raises:
        ValueError: If it says complete and its evidence does not prove it, or the reverse; if a
            field has a value that it cannot have; or if the end of nothing is confirmed.
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
        """The record of this evidence, marked by what it proves.

        Raises:
            ValueError: A field has a value that it cannot have, or the end of nothing is confirmed.
        """
        complete = not _missing(allocation, termination, connection)
        return cls(source, allocation, termination, connection, complete, failures)

    @property
    def missing(self) -> str | None:
        """What is missing for it to be complete, in words; `None` if nothing is."""
        return _missing(self.allocation, self.termination, self.connection)

    def __post_init__(self) -> None:
        for field, words in _WORDS.items():
            word: object = getattr(self, field)
            if word not in words:
                raise ValueError(f"{field}={word!r} is none of {', '.join(map(repr, words))}")
        if self.allocation == "none" and self.termination == "confirmed":
            raise ValueError(
                "termination='confirmed' contradicts allocation='none': of what was never "
                "allocated no end can be confirmed; it is 'not-needed'"
            )
        if self.complete != (self.missing is None):
            raise ValueError(
                f"complete={self.complete} contradicts the evidence: allocation {self.allocation}, "
                f"termination {self.termination}, connection {self.connection}"
            )


def _missing(
    allocation: Allocation, termination: Termination, connection: Connection
) -> str | None:
    missing: list[str] = []
    if allocation == "owned" and termination == "not-needed":
        missing.append(
            "an owned allocation has to be confirmed as ended (what expires by itself, such as "
            "a token, is allocation='none')"
        )
    elif termination == "unconfirmed":
        missing.append("it is not confirmed that it has ended")
    if connection == "failed":
        missing.append("its connection failed, and is not known to be closed")
    return "; ".join(missing) or None
