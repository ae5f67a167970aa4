"""How an attempt goes, why it ends, and what is told to whoever asks for a thing that is gone."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

from trio_reactor.errors import Closed, Expired, Failed, Lost, ReactorError, Retired

__all__ = ["GONE", "AttemptEnd", "EndReason", "Phase"]

Phase: TypeAlias = Literal["opening", "held", "leaving", "ended"]
"""Where an attempt is on its way."""

EndReason: TypeAlias = Literal["failed", "lost", "expired", "retired", "closed", "cancelled"]
"""Why an attempt left: it could not be opened; the thing died, or reached the end of its lifetime;
it was retired on request; its owner closed; its acquirer was cancelled."""

GONE: Final[dict[EndReason, tuple[type[ReactorError], str]]] = {
    "failed": (Failed, "could not be opened"),
    "lost": (Lost, "was lost"),
    "expired": (Expired, "reached the end of its lifetime"),
    "retired": (Retired, "was retired"),
    "cancelled": (Retired, "was given up by the task that acquired it"),
    "closed": (Closed, "was ended by its owner, which closes"),
}
"""What is told to whoever asks for a thing that is not there, by why it is not.

Somebody whose block was cut short because the owner closes is told `Retired` instead: that is what
happened to the thing.
"""


@final
class AttemptEnd:
    """How an attempt ended.

    Attributes:
        reason: Why it left.
        failure: What went wrong, if anything did.
    """

    __slots__ = ("failure", "reason")

    def __init__(self, reason: EndReason, failure: BaseException | None) -> None:
        self.reason = reason
        self.failure = failure

    def __repr__(self) -> str:
        return f"<AttemptEnd {self.reason}: {self.failure!r}>"
