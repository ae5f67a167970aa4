"""The event channel: one typed order of events, many bounded readers, a publisher that never waits.

Read `channel` for what it promises and `subscription` for what a reader gets.  Beneath them, `ring`
keeps the events, pure; `stream` knows who sleeps and wakes one of them; `reader` is a subscription
without the waiting; `observable` is what a channel and a handle's publisher have in common.
"""

from .channel import ChannelStatistics, EventChannel, Publisher
from .observable import DEFAULT_CAPACITY
from .subscription import Subscription, SubscriptionStatistics

__all__ = [
    "DEFAULT_CAPACITY",
    "ChannelStatistics",
    "EventChannel",
    "Publisher",
    "Subscription",
    "SubscriptionStatistics",
]
