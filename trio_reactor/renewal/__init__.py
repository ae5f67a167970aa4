"""One unbroken logical session out of many sessions that expire.

Read `source` for what an adapter author implements, `policy` for what a chain decides, pure, and
`session` for the handle.  Between them, `slot` is one physical source, `chain` makes one of many,
`media` is the output and `engine` the application's requests; `evidence` and `summary` say what
became of every source, `events` all that happened.
"""

from .borrowing import Borrow
from .errors import (
    ContextBroken,
    ContractBroken,
    InputOverflow,
    NotRenewing,
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
from .statistics import RenewalStatistics
from .summary import RenewalReport

__all__ = [
    "Accepted",
    "AudioFrame",
    "Borrow",
    "Cleanup",
    "ClipRequest",
    "ContextBroken",
    "ContractBroken",
    "InputOverflow",
    "LossesUnknown",
    "MediaReceiver",
    "NotRenewing",
    "OpenFailed",
    "Predecessor",
    "Pressure",
    "Renewal",
    "RenewalOptions",
    "RenewalReport",
    "RenewalState",
    "RenewalStatistics",
    "RouteChanged",
    "SessionRecovering",
    "SessionRetired",
    "Source",
    "SourceOpener",
    "SourceStatus",
    "SourcesExhausted",
    "VideoFrame",
    "open_renewal",
]
