"""One unbroken logical session out of many sessions that expire.

Read `source` for what an adapter author implements, `policy` for what a chain decides, pure, and
`session` for the handle.  Between them, `slot` is one physical source, `chain` makes one of many,
`media` is the output, `engine` sends the application's requests, some of them in `sequences`, and
`access` gives it the source itself; `allocation` records what is allocated for the process after
this one; `evidence` and `summary` say what became of every source, `events` all that happened.
"""

from .access.borrowing import Borrow
from .allocation import (
    AllocationJournal,
    AllocationRecord,
    Allocations,
    JournalBusy,
    JournalError,
    JournalFailed,
    JournalUnusable,
    open_journal,
)
from .chain.replay import Context
from .engine.failure import Failure
from .engine.submission import (
    Accepted,
    Completed,
    SequenceMember,
    Submission,
    SubmissionState,
    Submitting,
    Unsent,
)
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
from .events import SourceRef
from .evidence import Cleanup
from .jsonvalue import Json
from .media.losses import LossesUnknown
from .media.output import Pressure
from .media.queue import QueueStatistics
from .media.receiver import MediaReceiver
from .opening import open_renewal
from .options import RenewalOptions
from .sequences.book import (
    Acknowledged,
    Ended,
    Indeterminate,
    MemberAccepted,
    MemberFate,
    MemberIndeterminate,
    MemberPending,
    MemberRejected,
    MemberState,
    Open,
    Sealed,
    Sealing,
    SequencePhase,
    SequenceState,
)
from .sequences.view import Sequences
from .session import Renewal
from .source import (
    AudioFrame,
    Clip,
    ClipPhase,
    ClipRequest,
    Predecessor,
    Source,
    SourceOpener,
    VideoFrame,
)
from .state import RenewalState, SessionStatus, SourcePhase, SourceStatus
from .statistics import BorrowStatistics, InputStatistics, RenewalStatistics
from .summary import OmittedCleanups, RenewalReport, SourceCleanup

__all__ = [
    "Accepted",
    "Acknowledged",
    "AllocationJournal",
    "AllocationRecord",
    "Allocations",
    "AudioFrame",
    "Borrow",
    "BorrowStatistics",
    "Cleanup",
    "Clip",
    "ClipNotQueued",
    "ClipPhase",
    "ClipRequest",
    "ClipUnknown",
    "Completed",
    "Context",
    "ContextBroken",
    "ContractBroken",
    "Ended",
    "Failure",
    "Indeterminate",
    "InputOverflow",
    "InputStatistics",
    "JournalBusy",
    "JournalError",
    "JournalFailed",
    "JournalUnusable",
    "Json",
    "LossesUnknown",
    "MediaReceiver",
    "MemberAccepted",
    "MemberFate",
    "MemberIndeterminate",
    "MemberKnown",
    "MemberPending",
    "MemberRejected",
    "MemberState",
    "NotRenewing",
    "OmittedCleanups",
    "Open",
    "OpenFailed",
    "OwnerConflict",
    "Predecessor",
    "Pressure",
    "QueueFull",
    "QueueStatistics",
    "Renewal",
    "RenewalOptions",
    "RenewalReport",
    "RenewalState",
    "RenewalStatistics",
    "RouteChanged",
    "Sealed",
    "Sealing",
    "SequenceMember",
    "SequenceOver",
    "SequencePhase",
    "SequenceState",
    "SequenceUnknown",
    "SequenceUnresolved",
    "Sequences",
    "SessionRecovering",
    "SessionRetired",
    "SessionStatus",
    "Source",
    "SourceCleanup",
    "SourceOpener",
    "SourcePhase",
    "SourceRef",
    "SourceStatus",
    "SourcesExhausted",
    "Submission",
    "SubmissionState",
    "Submitting",
    "Unsent",
    "VideoFrame",
    "open_journal",
    "open_renewal",
]
