"""How a renewal records what it allocates, and ends what a dead process has left."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

import msgspec
import trio

from trio_reactor.errors import TimedOut
from trio_reactor.renewal.evidence import Cleanup

from .records import AllocationJournal, AllocationRecord

__all__ = ["Allocations", "Terminate", "terminated"]

Terminate: TypeAlias = Callable[[AllocationRecord], Awaitable[Cleanup]]
"""Ends an allocation that no source of this process holds, and returns the evidence.

A record without an identity may stand for nothing at all: its process died before, while or after
it asked the provider.  The key finds it if the adapter gave that to the provider.  What is not
there any more is proven to have ended.  It may be asked again for what has ended already.
"""


class Allocations(msgspec.Struct, frozen=True, kw_only=True):
    """Where a renewal records what it allocates, and what becomes of what it finds there.

    Raises:
        ValueError: If a number is not one of seconds; names it.
    """

    journal: AllocationJournal
    """Where it is recorded; one renewal uses it at a time."""
    terminate: Terminate
    """Ends what was found, unless it is adopted."""
    adopt: bool = True
    """Whether the first source may be one that was found; the opener is given it as
    `Predecessor.adopt`.  If it refuses, what was found is terminated."""
    any_renewal: bool = False
    """Whether what a renewal of another name has recorded is adopted and terminated, too: for one
    that was renamed, or that cleans up after others.  Otherwise it is not touched, and the renewal
    does not open: `JournalUnusable` names whose it is."""
    terminate_timeout: float = 10.0
    """Seconds that terminating one may take."""
    end_margin: float = 60.0
    """Seconds after its latest end from which an allocation is certain to have ended: for clocks
    that differ."""

    def __post_init__(self) -> None:
        for name, least in (("terminate_timeout", 0.001), ("end_margin", 0.0)):
            value = cast("object", getattr(self, name))
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not least <= value < math.inf
            ):
                raise ValueError(f"{name}: a number of seconds from {least} on, not {value!r}")


async def terminated(
    allocations: Allocations, record: AllocationRecord
) -> tuple[Cleanup | None, Exception | None]:
    """Terminate an allocation, within its budget; a cancellation goes through.

    Returns:
        What is proven, and what went wrong, of which a defect is for the caller to raise.
    """
    try:
        with trio.move_on_after(allocations.terminate_timeout):
            cleanup = cast("object", await allocations.terminate(record))
            if isinstance(cleanup, Cleanup):
                return cleanup, None
            return None, TypeError(f"terminating {record.key} came without any evidence")
    except Exception as failure:  # noqa: BLE001 - told, or raised by the caller
        return None, failure  # also what broke when its budget was over
    late = f"{record.key} was not terminated within {allocations.terminate_timeout} s"
    return None, TimedOut(late, outcome="unknown")
