"""What a source is opened after, and how that can fail."""

from __future__ import annotations

from typing import Literal

import msgspec

from trio_reactor.errors import Outcome, ReactorError
from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.jsonvalue import Json

__all__ = ["OpenCause", "OpenFailed", "Predecessor"]


OpenCause = Literal["first", "plan", "loss"]


class Predecessor(msgspec.Struct, frozen=True):
    """What a source is opened after."""

    source: str | None = None
    """The identity of the one before, or `None` for the first."""
    cause: OpenCause = "first"
    """Whether it follows nothing, a plan, or a loss."""
    resumption: str | None = None
    """What the one before left, to go on where it stopped."""
    context: Json = None
    """What is to be told again where nothing can be resumed; never together with `resumption`."""
    key: str | None = None
    """Names this open, and is recorded before it where allocations are: an adapter can give it to
    its provider, as idempotency key or tag.  Unguessable and unique, but no secret."""
    adopt: AllocationRecord | None = None
    """What a dead process left: connect to that, and do not allocate anything.  The source has the
    recorded identity, and its lifetime is what is left of it.  Where that cannot be done, raise
    `OpenFailed`: then it is terminated, and a fresh open follows.

    Given only where allocations are recorded.  A source of another identity is refused as if that
    had been raised, but then something was allocated for nothing."""


class OpenFailed(ReactorError):
    """A source could not be opened.

    Args:
        message: What happened, in the library's or the adapter's words.
        permanent: Whether trying again is known to be pointless: it ends the chain.
        resumption_refused: Whether it was only the resumption that was refused.
        cleanup: What became of what had been allocated by then.
        outcome: Whether the provider may have allocated something.
        retryable: Whether trying again can help and cannot do harm.
        detail: The provider's words.
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        resumption_refused: bool = False,
        cleanup: Cleanup | None = None,
        outcome: Outcome = "replied",
        retryable: bool = False,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, retryable=retryable, detail=detail)
        self.permanent = permanent
        self.resumption_refused = resumption_refused
        self.cleanup = cleanup
