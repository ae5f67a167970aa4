"""The owner: it holds what does not last.

Read `owner` first.  `attempt` is one acquisition, `worker` one task, `hold` the block that holds a
thing; `closing` is the order in which everything ends, and `verdict` what the block then raises.
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
