"""What a channel and its subscriptions share: the ring, who sleeps, and how it all ended.

Publishing costs the same however many readers sleep, because it wakes one of them at most, and none
while the one it woke has not run yet.  That one is the *courier*: as soon as it runs, before it
does anything of its own, it wakes the others whom the burst concerns.  Nothing can be lost on the
way: a task that has been woken can no longer be cancelled out of its sleep, so it does run, whether
its subscription was closed meanwhile or not.  And whoever is about to fall asleep while a courier
is on its way does the courier's round first, so that all who sleep stand at one and the same
position:

- while no courier is on its way, at the head, so nothing needs to be kept for them;
- otherwise where the head was when the courier was woken (`passed`), and the ring keeps what came
  since, for all of them together.

A sleeper therefore needs no cursor and no hold of its own.  Those whom a burst does not concern
sleep on, and what their filters hide has passed them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, final

import msgspec
import trio
from trio.lowlevel import reschedule

from trio_reactor.errors import Closed, Failed
from trio_reactor.events import Envelope, Event

from .ring import Hold, Ring

if TYPE_CHECKING:
    from trio.lowlevel import Task

__all__ = ["Cursor", "Ending", "Kind", "Stream"]

FIRST: Final = 1
"""The position, and the `seq`, of a channel's first event."""

STRIDE: Final = 32
"""A subscription's hold of the ring follows it in strides of so many positions, since to move it
with each event would cost more than to receive the event.  So it may keep up to 31 too many."""


class Ending(msgspec.Struct, frozen=True):
    """How a channel, or one handle's end of it, came to its end."""

    name: str
    """What ended, for messages."""
    failure: BaseException | None = None
    """What it failed with, if it failed."""

    def for_reader(self) -> Exception:
        """A fresh exception for a reader that has had everything; raise it from `failure`."""
        return trio.EndOfChannel() if self.failure is None else self._failed(self.failure)

    def for_publisher(self) -> Exception:
        """A fresh exception for who would publish; raise it from `failure`."""
        if self.failure is None:
            return Closed(f"{self.name} has ended: nothing is published any more")
        return self._failed(self.failure)

    def _failed(self, failure: BaseException) -> Failed:
        return Failed(f"{self.name} failed: {type(failure).__qualname__}")


class _Accepted(dict[type[Event], bool]):
    """Whether a class of events is one of those wanted; each class is asked about once."""

    __slots__ = ("_types",)

    def __init__(self, types: tuple[type[Event], ...]) -> None:
        super().__init__()
        self._types = types

    def __missing__(self, cls: type[Event]) -> bool:
        accepted = self[cls] = issubclass(cls, self._types)
        return accepted


@final
class Kind:
    """What subscriptions are alike in: which events they take, and how far they may fall behind.

    Args:
        handle: The handle whose events they take, or `None` for any.
        types: The classes of events they take, with their subclasses; none for all.
        capacity: How many positions they may be behind.
    """

    __slots__ = ("__weakref__", "accepted", "asleep", "capacity", "depth", "everything", "handle")

    def __init__(self, handle: str | None, types: tuple[type[Event], ...], capacity: int) -> None:
        self.handle = handle
        self.capacity = capacity
        self.depth = capacity + STRIDE - 1
        """How deep their holds are: a hold may be a little behind its subscription."""
        self.accepted = _Accepted(types or (Event,))
        self.everything = handle is None and (not types or Event in types)
        """Whether they take every event of the channel."""
        self.asleep: dict[Cursor, Task] = {}
        """Those whose readers sleep."""

    def takes(self, envelope: Envelope[Event]) -> bool:
        """Whether an event is for them."""
        handle = self.handle
        return self.accepted[envelope.event.__class__] and (
            handle is None or handle == envelope.handle
        )


class Cursor:
    """Where a subscription stands.

    Args:
        kind: What it takes.
        position: The next position it has not had; it says nothing while its reader sleeps.
        hold: What keeps this position for it, or one a little before; it says nothing, and holds
            nothing, while its reader sleeps.
    """

    __slots__ = ("__weakref__", "hold", "kind", "position")

    def __init__(self, kind: Kind, position: int, hold: Hold) -> None:
        self.kind = kind
        self.position = position
        self.hold = hold


@final
class Stream:
    """The ring of a channel, the readers that sleep, and the wake that is on its way.

    Args:
        name: Whose it is, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.ring: Ring[Envelope[Event]] = Ring(FIRST)
        self.ending: Ending | None = None
        """How it ended, once it has."""
        self.keen: dict[Kind, None] = {}
        """The kinds that take everything of which some reader sleeps."""
        self.choosy: OrderedDict[str | None, OrderedDict[Kind, None]] = OrderedDict()
        """The other kinds of which some reader sleeps, by the handle that they are for."""
        self.courier: Cursor | None = None
        """Whose reader was woken and has not run yet."""
        self.subscriptions = 0
        """How many there are that were not closed and are not garbage."""
        self.abandoned: deque[Hold | None] = deque()
        """What subscriptions held that became garbage, `None` if one held nothing any more; put
        here by whatever thread found it out."""
        self._passed = FIRST
        self._held: Hold | None = None
        # Bounds of the depths and capacities of those who sleep; exact when nobody did before.
        self._deepest = 0
        self._shallowest = 0

    def settle(self) -> None:
        """Count and keep nothing any more for subscriptions that became garbage."""
        while self.abandoned:
            self.subscriptions -= 1
            hold = self.abandoned.popleft()
            if hold is not None:
                self.ring.release(hold)

    def position(self, cursor: Cursor) -> int:
        """Where a subscription stands, asleep or not."""
        if cursor not in cursor.kind.asleep:
            return cursor.position
        return self.ring.head if self.courier is None else self._passed

    def admit(self, kind: Kind) -> None:
        """Take in a kind of which nobody slept until now."""
        if self.keen or self.choosy:
            self._deepest = max(self._deepest, kind.depth)
            self._shallowest = min(self._shallowest, kind.capacity)
        else:
            self._deepest = kind.depth
            self._shallowest = kind.capacity
        if kind.everything:
            self.keen[kind] = None
        else:
            row = self.choosy.get(kind.handle)
            if row is None:
                row = self.choosy[kind.handle] = OrderedDict()
            row[kind] = None

    def leave(self, cursor: Cursor) -> Task:
        """Let one go that sleeps, without waking it: it stands by itself again, and loses nothing.

        This is all that happens when a sleep is cancelled.  It tells nobody and trims nothing, so
        it makes no difference in which order several are cancelled.
        """
        kind = cursor.kind
        cursor.position = self.position(cursor)
        task = kind.asleep.pop(cursor)
        if not kind.asleep:
            self._dismiss(kind)
        cursor.hold = self.ring.hold(cursor.position, kind.depth)
        return task

    def call(self) -> None:
        """Wake one that sleeps, as the courier; there is one, and no courier is under way.

        Called before the head moves on, or the ending is set.
        """
        kind = next(iter(self.keen or next(iter(self.choosy.values()))))
        cursor, task = kind.asleep.popitem()
        if not kind.asleep:
            self._dismiss(kind)
        passed = self._passed = cursor.position = self.ring.head
        hold = cursor.hold = self.ring.hold(passed, kind.depth)
        if self.keen or self.choosy:
            if hold.depth == self._deepest:
                hold.count += 1
            else:
                hold = self.ring.hold(passed, self._deepest)
            self._held = hold
        self.courier = cursor
        reschedule(task)

    def sweep(self) -> None:
        """Do the courier's round: wake all whom something concerns that came since it was woken."""
        self.courier = None
        held, self._held = self._held, None
        if held is None:
            return
        for kind in tuple(self.keen):
            self._wake(kind, held)
        if self.choosy:
            for kind in self._concerned():
                self._wake(kind, held)
        self.ring.release(held)

    def _concerned(self) -> list[Kind]:
        """Which of the choosy have something to take, or have fallen behind."""
        choosy, passed, ring = self.choosy, self._passed, self.ring
        if self.ending is not None:
            return [kind for row in choosy.values() for kind in row]
        found: dict[Kind, None] = {}
        nobody: OrderedDict[Kind, None] = OrderedDict()
        came = ring.between(max(passed, ring.base), ring.head)
        for cls, handle in dict.fromkeys((each.event.__class__, each.handle) for each in came):
            for row in (choosy.get(None, nobody), choosy.get(handle, nobody)):
                found.update((kind, None) for kind in row if kind.accepted[cls])
        behind = ring.head - passed
        if behind > self._shallowest:
            for row in choosy.values():
                found.update((kind, None) for kind in row if behind > kind.capacity)
        return list(found)

    def _wake(self, kind: Kind, hold: Hold) -> None:
        """Wake all of a kind that sleep; each stands by itself again, where the burst began."""
        asleep, kind.asleep = kind.asleep, {}
        self._dismiss(kind)
        passed = self._passed
        if hold.depth == kind.depth:
            hold.count += len(asleep)
        else:
            hold = self.ring.hold(passed, kind.depth, len(asleep))
        for cursor, task in asleep.items():
            cursor.position = passed
            cursor.hold = hold
            reschedule(task)

    def _dismiss(self, kind: Kind) -> None:
        """Forget a kind of which nobody sleeps any more."""
        if kind.everything:
            del self.keen[kind]
            return
        row = self.choosy[kind.handle]
        del row[kind]
        if not row:
            del self.choosy[kind.handle]
