"""One unbroken logical session out of many sessions that expire.

Read `source` for what an adapter author implements, `policy` for what a chain decides, pure, and
`session` for the handle.  Between them, `slot` is one physical source, `chain` makes one of many,
`media` is the output and `engine` the application's requests; `allocation` records what is
allocated for the process after this one; `evidence` and `summary` say what became of every source,
`events` all that happened.
"""

from .allocation import AllocationRecord, Allocations, JournalError, open_journal
from .borrowing import Borrow
from .engine.register import Sequences
from .engine.sequences import SequenceState
from .engine.submission import Accepted, SequenceMember, Submission
from .errors import (
    ClipNotQueued,
    ClipUnknown,
    ContextBroken,
    ContractBroken,
    InputOverflow,
    MemberKnown,
    NotRenewing,
    OpenFailed,
    OwnerConflict,
    QueueFull,
    RouteChanged,
    SequenceOver,
    SequenceUnknown,
    SequenceUnresolved,
    SessionRecovering,
    SessionRetired,
    SourcesExhausted,
)
from .evidence import Cleanup
from .media.output import LossesUnknown, MediaReceiver, Pressure
from .opening import open_renewal
from .options import RenewalOptions
from .session import Renewal
from .source import AudioFrame, ClipRequest, Predecessor, Source, SourceOpener, VideoFrame
from .state import RenewalState, SourceStatus
from .statistics import RenewalStatistics
from .summary import RenewalReport

__all__ = [
    "Accepted",
    "AllocationRecord",
    "Allocations",
    "AudioFrame",
    "Borrow",
    "Cleanup",
    "ClipNotQueued",
    "ClipRequest",
    "ClipUnknown",
    "ContextBroken",
    "ContractBroken",
    "InputOverflow",
    "JournalError",
    "LossesUnknown",
    "MediaReceiver",
    "MemberKnown",
    "NotRenewing",
    "OpenFailed",
    "OwnerConflict",
    "Predecessor",
    "Pressure",
    "QueueFull",
    "Renewal",
    "RenewalOptions",
    "RenewalReport",
    "RenewalState",
    "RenewalStatistics",
    "RouteChanged",
    "SequenceMember",
    "SequenceOver",
    "SequenceState",
    "SequenceUnknown",
    "SequenceUnresolved",
    "Sequences",
    "SessionRecovering",
    "SessionRetired",
    "Source",
    "SourceOpener",
    "SourceStatus",
    "SourcesExhausted",
    "Submission",
    "VideoFrame",
    "open_journal",
    "open_renewal",
]
