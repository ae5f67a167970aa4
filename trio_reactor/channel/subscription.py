"""A subscription: one reader's way through a channel, as an ordinary Trio receive channel."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Self, TypeVar, final

import msgspec
import trio
from trio.lowlevel import checkpoint, enable_ki_protection, wait_task_rescheduled

from trio_reactor.errors import Busy
from trio_reactor.events import Envelope, Event

from .reader import Reader

__all__ = ["Subscription", "SubscriptionStatistics"]

E_co = TypeVar("E_co", bound=Event, covariant=True)


class SubscriptionStatistics(msgspec.Struct, frozen=True):
    """How a subscription stands."""

    capacity: int
    """How many positions of the channel it may be behind."""
    behind: int
    """How many positions it has not had, whatever of them its filter lets through; once its handle
    has ended, how many events are left for it."""
    missed: int
    """How many positions it never received because it fell behind; zero if it did not."""
    waiting: bool
    """Whether a reader sleeps in it."""


@final
class Subscription(trio.abc.ReceiveChannel[Envelope[E_co]], Generic[E_co]):
    """The events of a channel from one moment on, for one reader at a time.

    It is made by `subscribe` and `observe`, and is a `trio.abc.ReceiveChannel`: `async for` goes
    through it and ends when the channel does, `with` and `async with` close it.

    *Falling behind.*  A subscription may be `capacity` positions behind the channel's head.  All
    positions count, whatever its filter lets through.  Once it is further behind it fails for good
    with `Overflow`, which tells exactly how many positions it never received: at once, without
    what it still had left, and without anybody else noticing.  Whoever needs to go on observes
    again and starts from the current state.  A burst that is published in one step, without a
    checkpoint, and is longer than the capacity fails even a reader that was waiting for it.

    *Cancellation.*  A cancelled `receive` or `receive_batch` has taken nothing.

    *The end.*  When the channel, or the handle through which it was subscribed, ends or fails, what
    was published before is delivered first.  Then it raises `trio.EndOfChannel`, or a `Failed` of
    its own whose cause is the original failure.

    There is no `clone`, since every reader can subscribe for itself.
    """

    __slots__ = ("__weakref__", "_reader", "_reading")

    def __init__(self, reader: Reader[E_co]) -> None:
        self._reader = reader
        self._reading = False

    def __repr__(self) -> str:
        kind = self._reader.kind
        return f"<Subscription at {self._reader.position}, capacity {kind.capacity}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @enable_ki_protection
    async def receive(self) -> Envelope[E_co]:
        """The next event.

        Always a checkpoint, also when an event is ready.  If it is cancelled, nothing is lost.

        Raises:
            Overflow: If the subscription fell behind; `missed` says by how much.
            trio.EndOfChannel: If the channel, or the handle observed, has ended.
            Failed: If it failed.
            Closed: If the subscription was closed, before or while it is read.
            Busy: If another task is reading from it.
        """
        if self._reading:
            raise Busy("another task is reading from this subscription")
        self._reading = True
        try:
            reader = self._reader
            if reader.everything and reader.position < reader.ring.head:
                await checkpoint()  # the quick way, in a burst
            else:
                abort = reader.sleep()
                if abort is None:
                    await checkpoint()
                while abort is not None:
                    await wait_task_rescheduled(abort)
                    abort = reader.awake()
            return reader.take()
        finally:
            self._reading = False

    @enable_ki_protection
    async def receive_batch(self, limit: int | None = None) -> list[Envelope[E_co]]:
        """All the events that are there, and at least one: it waits for the first.

        Always a checkpoint.  If it is cancelled, nothing is lost.

        Args:
            limit: The most events to take; as many as there are if not given.

        Raises:
            ValueError: If `limit` is less than one.
            Overflow: If the subscription fell behind; `missed` says by how much.
            trio.EndOfChannel: If the channel, or the handle observed, has ended.
            Failed: If it failed.
            Closed: If the subscription was closed, before or while it is read.
            Busy: If another task is reading from it.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        if self._reading:
            raise Busy("another task is reading from this subscription")
        self._reading = True
        try:
            reader = self._reader
            abort = reader.sleep()
            if abort is None:
                await checkpoint()
            while abort is not None:
                await wait_task_rescheduled(abort)
                abort = reader.awake()
            return reader.take_all(limit)
        finally:
            self._reading = False

    @enable_ki_protection
    def receive_nowait(self) -> Envelope[E_co]:
        """The next event, if it is there.

        Raises:
            trio.WouldBlock: If there is none yet.
            Overflow: If the subscription fell behind; `missed` says by how much.
            trio.EndOfChannel: If the channel, or the handle observed, has ended.
            Failed: If it failed.
            Closed: If the subscription was closed.
            Busy: If a task is reading from it.
        """
        if self._reading:
            raise Busy("another task is reading from this subscription")
        if not self._reader.pending():
            raise trio.WouldBlock
        return self._reader.take()

    @enable_ki_protection
    def close(self) -> None:
        """Take nothing any more.  A task that is reading from it gets `Closed`.  Idempotent."""
        self._reader.close()

    @enable_ki_protection
    async def aclose(self) -> None:
        """Close it, and then pass a checkpoint; if that is cancelled, it is closed all the same."""
        self._reader.close()
        await checkpoint()

    def statistics(self) -> SubscriptionStatistics:
        """How it stands.  If it fell behind, that is found out here too."""
        reader = self._reader
        missed = reader.missed
        return SubscriptionStatistics(reader.kind.capacity, reader.behind, missed, reader.asleep)
