"""The owner: it holds what does not last.

Read `owner` first.  `attempt` is one acquisition and `ends` how it can end, `worker` is one task;
`hold` and `using` are the blocks that hold and use a thing.  `closing` is the order in which
everything ends, and `verdict` what the block then raises.  Under them, `ledger` keeps account of
what there is and was, `failures` of what went wrong, and `waiting` of who will have received it.
"""

from .attempt import Attempt, Factory
from .block import open_owner
from .ends import AttemptEnd, EndReason, Phase
from .hold import Hold
from .owner import Owner
from .records import (
    AttemptEnded,
    AttemptHeld,
    CloseReport,
    OwnerClosed,
    OwnerFailed,
    OwnerOptions,
    OwnerStatistics,
)
from .using import Using

__all__ = [
    "Attempt",
    "AttemptEnd",
    "AttemptEnded",
    "AttemptHeld",
    "CloseReport",
    "EndReason",
    "Factory",
    "Hold",
    "Owner",
    "OwnerClosed",
    "OwnerFailed",
    "OwnerOptions",
    "OwnerStatistics",
    "Phase",
    "Using",
    "open_owner",
]
