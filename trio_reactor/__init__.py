"""Own what does not last: structured concurrency for things whose life is shorter than yours.

The floor is here: the owner and what it holds, fences, lanes, the event channel, errors and the
world.  Systems stand on it: `trio_reactor.renewal` and `trio_reactor.supervision`.  What it is
tested with is `trio_reactor.testing`.
"""

from .channel import ChannelStatistics, EventChannel, Publisher, Subscription
from .errors import (
    EXPECTED,
    Busy,
    Closed,
    Expired,
    Failed,
    Lost,
    Outcome,
    Overflow,
    ReactorError,
    Refused,
    Retired,
    TimedOut,
    is_expected,
)
from .events import Envelope, Event, EventCodec, FailureRecord
from .fence import Fence, FencedMapping, Generations, KeyToken, Token
from .lanes import Lanes
from .owner import Attempt, CloseReport, Owner, OwnerOptions, OwnerStatistics, open_owner
from .world import SeededWorld, SystemWorld, World

__all__ = [
    "EXPECTED",
    "Attempt",
    "Busy",
    "ChannelStatistics",
    "CloseReport",
    "Closed",
    "Envelope",
    "Event",
    "EventChannel",
    "EventCodec",
    "Expired",
    "Failed",
    "FailureRecord",
    "Fence",
    "FencedMapping",
    "Generations",
    "KeyToken",
    "Lanes",
    "Lost",
    "Outcome",
    "Overflow",
    "Owner",
    "OwnerOptions",
    "OwnerStatistics",
    "Publisher",
    "ReactorError",
    "Refused",
    "Retired",
    "SeededWorld",
    "Subscription",
    "SystemWorld",
    "TimedOut",
    "Token",
    "World",
    "is_expected",
    "open_owner",
]
