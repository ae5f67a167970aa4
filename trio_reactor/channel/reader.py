"""Where one subscription stands, and what it came to: everything of it but the waiting.

A reader is open, or it has met one of three fates, and the first is for good:

- *closed*, by its owner;
- *overflowed*: it fell further behind than its capacity.  Nobody tells it.  It finds out by
  arithmetic when anything of it is next asked, and what it had left is not delivered any more;
- *ended*, because the handle through whose end of the channel it subscribed did.  It takes with it
  what was still to be delivered, since the channel itself goes on.

The end of a whole channel is no fate: nothing comes after it, so a reader at the head has ended.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar, cast, final
from weakref import WeakValueDictionary

import msgspec
from trio.lowlevel import Abort, RaiseCancelT, current_task, enable_ki_protection, reschedule

from trio_reactor.errors import Closed, Overflow
from trio_reactor.events import Envelope, Event

from .ring import Ring
from .stream import STRIDE, Cursor, Ending, Kind, Stream

__all__ = ["Admission", "Reader"]

E_co = TypeVar("E_co", bound=Event, covariant=True)

_log = logging.getLogger("trio_reactor.channel")


class _Shut(msgspec.Struct, frozen=True):
    """It was closed."""


class _Overflowed(msgspec.Struct, frozen=True):
    """It fell behind."""

    missed: int


class _Ended(msgspec.Struct, Generic[E_co], frozen=True):
    """The handle that it observed ended, and this is what it had not had by then."""

    ending: Ending
    rest: deque[Envelope[E_co]]


@final
class Reader(Cursor, Generic[E_co]):
    """One subscription, synchronously.

    Args:
        stream: What it reads.
        kind: What it takes of it.
    """

    __slots__ = ("_fate", "_reach", "everything", "ring", "stream")

    def __init__(self, stream: Stream, kind: Kind) -> None:
        head = stream.ring.head
        super().__init__(kind, head, stream.ring.hold(head, kind.depth))
        self.stream = stream
        # Its filter lets nothing else through, which no type can tell.
        self.ring = cast("Ring[Envelope[E_co]]", stream.ring)
        # How far behind it may be to go on: its capacity, and nothing once it has met its fate.
        self._reach = kind.capacity
        self.everything = kind.everything
        self._fate: _Shut | _Overflowed | _Ended[E_co] | None = None
        stream.subscriptions += 1

    def __del__(self) -> None:
        # It may run in any thread and between any two steps of the stream, so it only leaves word.
        if not isinstance(self._fate, _Shut):
            self.stream.abandoned.append(self.hold if self._fate is None else None)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return isinstance(self._fate, _Shut)

    @property
    def asleep(self) -> bool:
        """Whether its task sleeps, waiting for an event."""
        return self in self.kind.asleep

    @property
    def behind(self) -> int:
        """How many positions it has not had; once its handle has ended, how many events."""
        match self._fate:
            case None:
                return self.ring.head - self.stream.position(self)
            case _Ended(rest=rest):
                return len(rest)
            case _:
                return 0

    @property
    def missed(self) -> int:
        """How many positions it never received because it fell behind; zero if it did not."""
        if self._fate is None and not self.asleep:
            self._keeps_up()
        return self._fate.missed if isinstance(self._fate, _Overflowed) else 0

    def pending(self) -> bool:
        """Whether there is something to say at once: an event, an end, a failure."""
        behind = self.ring.head - self.position
        if behind and not self.everything and behind <= self._reach:
            behind = self._seek()
        return behind > 0 or self._fate is not None or self.stream.ending is not None

    def sleep(self) -> Callable[[RaiseCancelT], Abort] | None:
        """Let the current task sleep until something concerns it, unless something is `pending`.

        Returns:
            What the task must then wait with, at once, and ask `awake` when it is woken; `None` if
            it need not wait.
        """
        stream = self.stream
        if (
            self.position < self.ring.head or self._fate is not None or stream.ending is not None
        ) and (self.everything or self.pending()):
            return None
        if stream.courier is not None:
            stream.sweep()  # so that all who sleep stand at the same position
        hold = self.hold
        if hold.count > 1:
            hold.count -= 1
        else:
            self.ring.release(hold)
        kind = self.kind
        if not kind.asleep:
            stream.admit(kind)
        kind.asleep[self] = current_task()
        return self._abort

    def awake(self) -> Callable[[RaiseCancelT], Abort] | None:
        """Do what is first to be done when woken.

        Returns:
            As `sleep` does: a filter may let nothing through of what it was woken for.
        """
        stream = self.stream
        if stream.courier is self:
            stream.sweep()
        return None if self.everything else self.sleep()

    def _abort(self, _: RaiseCancelT) -> Abort:
        self.stream.leave(self)
        return Abort.SUCCEEDED

    def take(self) -> Envelope[E_co]:
        """The next event, which is `pending`; raises what the reader came to if there is none."""
        position, ring = self.position, self.ring
        if not 0 < ring.head - position <= self._reach:
            return self._rest().popleft()
        envelope = ring.places[position & ring.mask]
        self.position = position = position + 1
        if not position % STRIDE:
            self._follow()
        return envelope

    def take_all(self, limit: int | None = None) -> list[Envelope[E_co]]:
        """The next events, of which one is `pending`; raises what it came to if there is none."""
        position, ring = self.position, self.ring
        head = ring.head
        if not 0 < head - position <= self._reach:
            rest = self._rest()
            return [rest.popleft() for _ in range(min(len(rest), limit or len(rest)))]
        onward = head
        taken: list[Envelope[E_co]]
        if self.everything:
            if limit is not None:
                onward = min(head, position + limit)
            taken = ring.between(position, onward)
        else:
            taken = []
            for passed, envelope in enumerate(ring.between(position, head), 1):
                if self.kind.takes(envelope):
                    taken.append(envelope)
                    if len(taken) == limit:
                        onward = position + passed
                        break
        self.position = onward
        if position // STRIDE != onward // STRIDE:
            self._follow()
        return taken

    def finish(self, ending: Ending) -> None:
        """Deliver what was published until now, and then end so; the first end or failure stays."""
        stream = self.stream
        if self._fate is not None or stream.ending is not None:
            return
        task = stream.leave(self) if self.asleep else None
        if self._keeps_up():
            came = self.ring.between(self.position, self.ring.head)
            rest = deque(envelope for envelope in came if self.kind.takes(envelope))
            self._meet(_Ended(ending, rest))
        if task is not None:
            reschedule(task)

    def close(self) -> None:
        """Take nothing any more, and wake a task that sleeps in it."""
        if isinstance(self._fate, _Shut):
            return
        stream = self.stream
        stream.subscriptions -= 1
        task = stream.leave(self) if self.asleep else None
        self._meet(_Shut())
        if task is not None:
            reschedule(task)

    def _keeps_up(self) -> bool:
        """Whether it has not fallen behind; if it has, that is its fate from now on."""
        behind = self.ring.head - self.position
        if behind <= self.kind.capacity:
            return True
        self._meet(_Overflowed(behind))
        _log.debug("%s: a subscription fell %d positions behind", self.stream.name, behind)
        return False

    def _meet(self, fate: _Shut | _Overflowed | _Ended[E_co]) -> None:
        if self._fate is None:
            self.ring.release(self.hold)
            self._reach = 0
        self._fate = fate

    def _follow(self) -> None:
        """Let the hold catch up, so that it is never in an earlier stride than the reader."""
        behind = self.hold
        self.hold = self.ring.hold(self.position, self.kind.depth)
        self.ring.release(behind)

    def _seek(self) -> int:
        """Pass what is not for it; returns how many positions are then left."""
        ring, takes = self.ring, self.kind.takes
        start = position = self.position
        head = ring.head
        while position < head and not takes(ring[position]):
            position += 1
        if position > start:
            self.position = position
            if start // STRIDE != position // STRIDE:
                self._follow()
        return head - position

    def _rest(self) -> deque[Envelope[E_co]]:
        """What is left of an ended handle; raises what the reader came to if nothing is."""
        if self._fate is None:
            self._keeps_up()
        match self._fate:
            case _Shut():
                raise Closed("the subscription was closed")
            case _Overflowed(missed=missed):
                raise Overflow(
                    f"the subscription fell behind its capacity of {self.kind.capacity} positions "
                    f"and missed {missed}; observe again to go on from the current state",
                    missed=missed,
                    retryable=True,
                )
            case _Ended(ending=ending, rest=rest):
                if rest:
                    return rest
                raise ending.for_reader() from ending.failure
            case None:
                over = self.stream.ending
                assert over is not None  # noqa: S101 - nothing else is left to be pending
                raise over.for_reader() from over.failure


@final
class Admission:
    """Lets readers in to a stream, within its bounds.

    Args:
        stream: What they read.
        max_subscriptions: How many there may be at once.
        max_capacity: How far one of them may fall behind.

    Raises:
        ValueError: If a bound is less than one.
    """

    def __init__(self, stream: Stream, max_subscriptions: int, max_capacity: int) -> None:
        if max_subscriptions < 1:
            raise ValueError(f"max_subscriptions must be at least 1, not {max_subscriptions}")
        if max_capacity < 1:
            raise ValueError(f"max_capacity must be at least 1, not {max_capacity}")
        self.stream = stream
        self._max_subscriptions = max_subscriptions
        self._max_capacity = max_capacity
        # Those that are alike sleep and are woken together.
        self._kinds: WeakValueDictionary[tuple[str | None, tuple[type[Event], ...], int], Kind] = (
            WeakValueDictionary()
        )

    @enable_ki_protection
    def admit(
        self, handle: str | None, types: tuple[type[Event], ...], capacity: int
    ) -> Reader[Event]:
        """A reader that starts at the head.

        Raises:
            TypeError: If one of the types is no class of events.
            ValueError: If the capacity is out of bounds.
            Overflow: If there are as many readers as there may be.
        """
        if not 1 <= capacity <= self._max_capacity:
            raise ValueError(f"capacity must be from 1 to {self._max_capacity}, not {capacity}")
        self.stream.settle()
        if self.stream.subscriptions >= self._max_subscriptions:
            raise Overflow(
                f"{self.stream.name} has as many subscriptions as it may, {self._max_subscriptions}"
            )
        key = (handle, types, capacity)
        kind = self._kinds.get(key)
        if kind is None:
            # Found out later, it would be by the courier, who asks for everybody.
            for each in cast("tuple[object, ...]", types):
                if not (isinstance(each, type) and issubclass(each, Event)):
                    raise TypeError(f"only classes of events can be subscribed to, not {each!r}")
            kind = self._kinds[key] = Kind(handle, types, capacity)
        return Reader(self.stream, kind)
