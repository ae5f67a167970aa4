"""One unbroken logical session out of many sessions that expire.

Read `source` for what an adapter author implements, `policy` for what a chain decides, pure, and
`session` for the handle.  Between them, `slot` is one physical source, `chain` makes one of many,
`media` is the output and `engine` the application's requests; `allocation` records what is
allocated for the process after this one; `evidence` and `summary` say what became of every source,
`events` all that happened.
"""

from .allocation import AllocationRecord, Allocations, JournalError, open_journal
from .errors import (
    ContextBroken,
    ContractBroken,
    OpenFailed,
    RouteChanged,
    SessionRecovering,
    SessionRetired,
    SourcesExhausted,
)
from .evidence import Cleanup
from .media.output import LossesUnknown, MediaReceiver, Pressure
from .opening import open_renewal
from .options import RenewalOptions
from .session import Accepted, Renewal
from .source import AudioFrame, ClipRequest, Predecessor, Source, SourceOpener, VideoFrame
from .state import RenewalState, SourceStatus
from .summary import RenewalReport

__all__ = [
    "Accepted",
    "AllocationRecord",
    "Allocations",
    "AudioFrame",
    "Cleanup",
    "ClipRequest",
    "ContextBroken",
    "ContractBroken",
    "JournalError",
    "LossesUnknown",
    "MediaReceiver",
    "OpenFailed",
    "Predecessor",
    "Pressure",
    "Renewal",
    "RenewalOptions",
    "RenewalReport",
    "RenewalState",
    "RouteChanged",
    "SessionRecovering",
    "SessionRetired",
    "Source",
    "SourceOpener",
    "SourceStatus",
    "SourcesExhausted",
    "VideoFrame",
    "open_journal",
    "open_renewal",
]
