"""What is recorded of an allocation, and what a journal has to do.

A record says how to find an allocation again and never how to use it: a token, a password or any
other secret does not belong in it, because a journal is a file that is kept, copied and read.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, Protocol

import msgspec
import trio

from trio_reactor.errors import Outcome, ReactorError
from trio_reactor.renewal.jsonvalue import Json

__all__ = [
    "MAX_ALLOCATION_BYTES",
    "AllocationJournal",
    "AllocationRecord",
    "JournalBusy",
    "JournalError",
    "JournalFailed",
    "JournalUnusable",
]

MAX_ALLOCATION_BYTES: Final = 64 * 1024
"""What a source may say of its allocation, in bytes of JSON."""


class AllocationRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One allocation, as far as it is known to have been made."""

    key: str
    """What it was asked for under: the `key` of the `Predecessor` that its source was opened with.
    An adapter that gives it to its provider, as idempotency key or tag, can find by it also what
    was allocated just before its process died."""
    renewal: str
    """The name of the renewal that asked for it."""
    intended_at: float
    """When it was about to be asked for; wall time, in seconds since 1970 UTC."""
    source: str | None = None
    """The identity of its source; `None` if it is not known whether anything was allocated."""
    allocation: Json = None
    """What the source said another process needs to find it again; see `Recordable`."""
    ends_by: float | None = None
    """When it ends at the latest; wall time, in seconds since 1970 UTC; `None` if that is not
    known, or never."""


class JournalError(ReactorError):
    """Something is the matter with a journal.

    Args:
        message: What, in the library's words; names the journal.
        path: Where it is.
        outcome: Whether a change may have been made.
        retryable: Whether trying again can help.
        detail: The words of what stores it.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str,
        outcome: Outcome = "not-submitted",
        retryable: bool = False,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, retryable=retryable, detail=detail)
        self.path = path


class JournalBusy(JournalError, trio.BusyResourceError):
    """Another process, or another renewal, uses the journal; nothing was changed."""


class JournalUnusable(JournalError):
    """The file is not a journal that can be used: it is foreign, newer, damaged or read-only.

    Or it holds what a renewal of another name has allocated; see `Allocations.any_renewal`.

    Nothing in it was changed.
    """


class JournalFailed(JournalError):
    """A journal could not be read, or a change could not be made."""


class AllocationJournal(Protocol):
    """Where allocations are recorded, durably.

    Its methods may be called by several tasks at once; each is one transaction, and what it changed
    is durable when it returns.
    """

    @property
    def path(self) -> str:
        """Where it is; named in messages."""
        ...

    def claimed(self, by: str) -> AbstractContextManager[None]:
        """A block in which one renewal, of this name, uses it, alone.  Synchronous.

        Raises:
            JournalBusy: Another one does.
        """
        ...

    async def load(self) -> tuple[AllocationRecord, ...]:
        """Everything that is recorded, in the order in which it was intended.

        Raises:
            JournalError: It could not be read.
        """
        ...

    async def put(self, record: AllocationRecord, /) -> None:
        """Record it, in the place of the one with the same key if there is one.

        Raises:
            JournalError: It may not be recorded.
        """
        ...

    async def forget(self, key: str, /) -> None:
        """Delete the record with this key, if there is one.

        Raises:
            JournalError: It may still be recorded.
        """
        ...
