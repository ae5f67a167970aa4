"""The event channel: one typed order of events, many bounded readers, a publisher that never waits.

Publishing is synchronous.  It never waits, is never refused because of a reader, and costs the same
however many readers there are: an event is stored once, in a ring that all of them share, and one
sleeping reader is woken once for a burst, who wakes the others when it runs.  There are no
callbacks.  A reader that hangs delays nobody: it falls behind, alone, and finds that out by itself
when it comes back (see `Subscription`).

The ring keeps what the slowest subscription that has not fallen behind has still to receive, to
within a few events, so it is bounded by the largest capacity, and is empty when nobody subscribes
or all readers sleep.

Many handles can share one channel and so one order of events.  Each publishes through a `Publisher`
of its own, which marks its events with the handle's name, and through which that handle's events
alone can be observed.  A handle that is over ends or fails its own publisher, never the channel.

A channel belongs to one `trio.run`, and is used from its thread.
"""

from __future__ import annotations

import itertools
import logging
import weakref
from typing import final

import msgspec
from trio.lowlevel import enable_ki_protection

from trio_reactor.events import Envelope, Event
from trio_reactor.world import SystemWorld, World

from .observable import Observable
from .reader import Admission, Reader
from .stream import FIRST, Ending, Stream
from .subscription import Subscription

__all__ = ["ChannelStatistics", "EventChannel", "Publisher"]

_log = logging.getLogger("trio_reactor.channel")


class ChannelStatistics(msgspec.Struct, frozen=True):
    """What a channel, or one handle's end of it, holds and who waits for it."""

    published: int
    """How many events were published, in total."""
    kept: int
    """How many events are in the ring because somebody may still receive them."""
    subscriptions: int
    """How many subscriptions there are that were not closed."""
    waiting: int
    """In how many of them a reader sleeps."""
    ended: bool
    """Whether it has ended or failed."""


@final
class EventChannel(Observable):
    """One total order of events of any class.

    Args:
        world: Where the instants of its events come from; the real world if not given.
        max_subscriptions: How many subscriptions there may be at once.
        max_capacity: How many positions one of them may be behind, and so, to within a few, how
            many events are kept at most.
        name: What it is called in messages.

    Raises:
        ValueError: If one of the bounds is less than one.
    """

    def __init__(
        self,
        *,
        world: World | None = None,
        max_subscriptions: int = 65_536,
        max_capacity: int = 65_536,
        name: str = "the channel",
    ) -> None:
        world = SystemWorld() if world is None else world
        self._wall, self._clock = world.wall, world.clock
        self._stream = Stream(name)
        self._admission = Admission(self._stream, max_subscriptions, max_capacity)

    def __repr__(self) -> str:
        return f"<EventChannel {self._stream.name}: {self._stream.ring.head - FIRST} published>"

    @enable_ki_protection
    def publish(self, event: Event, *, handle: str = "") -> int:
        """Put an event at the end of the order, for everybody who subscribes; never waits.

        Args:
            event: What happened.
            handle: Who says so.

        Returns:
            Its `seq`.

        Raises:
            Closed: If the channel has ended.
            Failed: If it failed.
        """
        stream = self._stream
        if stream.ending is not None:
            raise stream.ending.for_publisher() from stream.ending.failure
        if stream.abandoned:
            stream.settle()
        ring = stream.ring
        seq = ring.head
        envelope = Envelope(seq, self._wall(), self._clock(), handle, event)
        if stream.courier is None and (stream.keen or stream.choosy):
            stream.call()
        ring.append(envelope)
        return seq

    def publisher(self, handle: str) -> Publisher:
        """A handle's own end of this channel.

        Args:
            handle: The handle's name, which its events carry.
        """
        return Publisher(self, handle, self._admission)

    @enable_ki_protection
    def end(self) -> None:
        """End the order: who subscribes receives what was published, then `trio.EndOfChannel`.

        Nothing can be published any more.  The first end or failure stays.
        """
        self._finish(None)

    @enable_ki_protection
    def fail(self, failure: BaseException) -> None:
        """End the order because something failed for good.

        Who subscribes receives what was published, then a `Failed` of its own, caused by the
        failure.  So does who publishes.  The first end or failure stays.

        Args:
            failure: What failed.
        """
        self._finish(failure)

    def statistics(self) -> ChannelStatistics:
        """What it holds and who waits for it."""
        stream = self._stream
        stream.settle()
        kinds = itertools.chain(stream.keen, *stream.choosy.values())
        return ChannelStatistics(
            published=stream.ring.head - FIRST,
            kept=len(stream.ring),
            subscriptions=stream.subscriptions,
            waiting=sum(len(kind.asleep) for kind in kinds),
            ended=stream.ending is not None,
        )

    def _finish(self, failure: BaseException | None) -> None:
        stream = self._stream
        if stream.ending is not None:
            return
        if stream.courier is None and (stream.keen or stream.choosy):
            stream.call()
        stream.ending = Ending(stream.name, failure)
        _log_ending(stream.ending)

    def _subscribe(self, types: tuple[type[Event], ...], capacity: int) -> Subscription[Event]:
        return Subscription(self._admission.admit(None, types, capacity))


@final
class Publisher(Observable):
    """A handle's own end of a channel: it publishes under that name, and its end is its own.

    Who subscribes or observes through it receives the events of its handle only, and what becomes
    of the handle: `end` and `fail` end those subscriptions and no others.  It is made by
    `EventChannel.publisher`; of two that have one name each ends only what came through itself.
    """

    def __init__(self, channel: EventChannel, handle: str, admission: Admission) -> None:
        self._channel = channel
        self._handle = handle
        self._admission = admission
        self._ending: Ending | None = None
        self._published = 0
        self._numbers = itertools.count()
        self._readers: weakref.WeakValueDictionary[int, Reader[Event]] = (
            weakref.WeakValueDictionary()
        )

    def __repr__(self) -> str:
        return f"<Publisher {self._handle}: {self._published} published>"

    @property
    def channel(self) -> EventChannel:
        """The channel that it publishes to, which others may use too."""
        return self._channel

    @property
    def handle(self) -> str:
        """The name that its events carry."""
        return self._handle

    @property
    def ended(self) -> bool:
        """Whether nothing can be published through it any more: it, or its channel, has ended."""
        return self._ending is not None or self._admission.stream.ending is not None

    @enable_ki_protection
    def publish(self, event: Event) -> int:
        """Put an event at the end of the channel's order, under the handle's name; never waits.

        Args:
            event: What happened.

        Returns:
            Its `seq` in the channel.

        Raises:
            Closed: If it has ended, or the channel has.
            Failed: If it failed, or the channel did.
        """
        if self._ending is not None:
            raise self._ending.for_publisher() from self._ending.failure
        seq = self._channel.publish(event, handle=self._handle)
        self._published += 1
        return seq

    @enable_ki_protection
    def end(self) -> None:
        """End what was subscribed through it: it receives what was published, then the end.

        The channel goes on.  The first end or failure stays.
        """
        self._finish(None)

    @enable_ki_protection
    def fail(self, failure: BaseException) -> None:
        """Fail what was subscribed through it, once it has received what was published.

        Each then gets a `Failed` of its own, caused by the failure, and so does who publishes
        through it.  The channel goes on.  The first end or failure stays.

        Args:
            failure: What failed.
        """
        self._finish(failure)

    def statistics(self) -> ChannelStatistics:
        """What was published through it, what of its handle's the channel keeps, and who waits."""
        stream = self._admission.stream
        stream.settle()
        ring = stream.ring
        readers = [reader for reader in self._readers.values() if not reader.closed]
        kept = ring.between(ring.base, ring.head)
        return ChannelStatistics(
            published=self._published,
            kept=sum(envelope.handle == self._handle for envelope in kept),
            subscriptions=len(readers),
            waiting=sum(reader.asleep for reader in readers),
            ended=self._ending is not None or stream.ending is not None,
        )

    def _finish(self, failure: BaseException | None) -> None:
        if self._ending is not None:
            return
        self._ending = Ending(self._handle, failure)
        _log_ending(self._ending)
        for reader in list(self._readers.values()):
            reader.finish(self._ending)

    def _subscribe(self, types: tuple[type[Event], ...], capacity: int) -> Subscription[Event]:
        reader = self._admission.admit(self._handle, types, capacity)
        if self._ending is None:
            self._readers[next(self._numbers)] = reader
        else:
            reader.finish(self._ending)
        return Subscription(reader)


def _log_ending(ending: Ending) -> None:
    how = "ended" if ending.failure is None else f"failed: {type(ending.failure).__qualname__}"
    _log.debug("%s %s", ending.name, how)
