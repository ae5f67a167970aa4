"""What becomes of what a dead process has left: pure.

At most one is adopted, as the first source: the newest that is known to exist and may still live.
All others are terminated.  What cannot be terminated for certain stays recorded and is tried again
at the next start, until it has ended by itself for certain.

Where some were recorded by a renewal of another name nothing is done with any: it may have left
them for its own next start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from trio_reactor.renewal.evidence import Cleanup

from .records import AllocationRecord

__all__ = ["RecoveryPlan", "Settlement", "has_ended", "plan_recovery", "settlement"]

Settlement: TypeAlias = Literal["adopted", "terminated", "expired", "unconfirmed"]
"""What became of a recorded allocation.

`adopted`: it is the first source.  `terminated`: its end is proven.  `expired`: its end could not
be proven, and its latest end has passed.  `unconfirmed`: neither; it stays recorded.
"""


class RecoveryPlan(msgspec.Struct, frozen=True):
    """What is to be done with what is recorded."""

    adopt: AllocationRecord | None
    terminate: tuple[AllocationRecord, ...]
    foreign: tuple[str, ...] = ()
    """The names of the renewals whose records these are, if they may not be touched."""


def plan_recovery(
    records: Iterable[AllocationRecord], *, renewal: str | None, adopt: bool, wall: float
) -> RecoveryPlan:
    """What is to be done with these.

    Args:
        records: What is recorded.
        renewal: The name of the renewal that found it; `None` if it may have been recorded by any.
        adopt: Whether one may be adopted.
        wall: The wall time now, in seconds since 1970 UTC.
    """
    found = tuple(records)
    names = {record.renewal for record in found} - {renewal}
    if renewal is not None and names:
        return RecoveryPlan(None, (), tuple(sorted(names)))
    alive = [
        record
        for record in found
        if adopt and record.source is not None and (record.ends_by is None or record.ends_by > wall)
    ]
    newest = max(alive, key=lambda record: (record.intended_at, record.key), default=None)
    return RecoveryPlan(newest, tuple(record for record in found if record is not newest))


def has_ended(record: AllocationRecord, cleanup: Cleanup | None) -> bool:
    """Whether this evidence proves that a recorded allocation is over.

    Evidence that something was only left (`attached`) does not: it was ours, and lives on.
    """
    return (
        cleanup is not None
        and cleanup.complete
        and cleanup.allocation != "attached"
        and (None in (record.source, cleanup.source) or cleanup.source == record.source)
    )


def settlement(
    record: AllocationRecord, cleanup: Cleanup | None, *, wall: float, margin: float
) -> Settlement:
    """What has become of an allocation that was to be terminated.

    Args:
        record: What is recorded of it.
        cleanup: What terminating it has proven; `None` if it failed.
        wall: The wall time now, in seconds since 1970 UTC.
        margin: Seconds after its latest end from which it is certain to have ended, whatever the
            clocks of the two sides say.
    """
    if has_ended(record, cleanup):
        return "terminated"
    if record.ends_by is not None and record.ends_by + margin <= wall:
        return "expired"
    return "unconfirmed"
