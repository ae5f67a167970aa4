"""The ring of an event channel: items by absolute position, kept as long as somebody needs them.

Every item is stored once, at a position that only rises.  Who may still want items has a *hold* on
a position, with a depth: it keeps everything from there on, until the head has gone further than
the depth past it.  From then on it keeps nothing, for good.  Nobody is told; its owner finds out by
the same arithmetic.

    base: the oldest item that is kept
      |
      v
    --+-----+-----+-----+-->  head: the position of the next item
      ^     ^
    holds, each of which keeps what is to the right of it,
    as long as that is not more than its depth

Only the holds at the base decide what is let go, so that putting an item into the ring costs the
same however many holds there are: each position is passed once, and the holds on it are looked at
once, by their distinct depths.

This module reads no clock, wakes nobody and knows nothing of Trio.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar, cast, final

__all__ = ["Hold", "Ring"]

T = TypeVar("T")

_SPARE: Final = 256
"""How many places a ring has that keeps little; a power of two, as every size is."""


@final
class Hold:
    """What keeps the items from a position on; shared by all who hold it at the same depth."""

    __slots__ = ("count", "depth", "position")

    def __init__(self, position: int, depth: int) -> None:
        self.position = position
        self.depth = depth
        self.count = 0


@final
class Ring(Generic[T]):
    """Items by absolute position, and the holds that keep them.

    Args:
        start: The position of the first item.
    """

    __slots__ = ("_holds", "_hole", "_limit", "base", "head", "mask", "places")

    def __init__(self, start: int = 0) -> None:
        self.base = start
        """The position of the oldest item that is kept; the head if none is."""
        self.head = start
        """The position that the next item gets."""
        # What stands where nothing is kept: never given out, so it need not be an item.
        self._hole = cast("list[T]", [None])
        self.places = self._hole * _SPARE
        """Where the items are: the one of position `p`, if it is kept, at `p & mask`."""
        self.mask = _SPARE - 1
        # By position, from the base on, and by depth.
        self._holds: dict[int, dict[int, Hold]] = {}
        # The largest depth that holds the base: until the head is further away, nothing goes.
        self._limit = 0

    def __len__(self) -> int:
        """How many items are kept."""
        return self.head - self.base

    def __getitem__(self, position: int) -> T:
        """The item at a position that is kept; this is not checked."""
        return self.places[position & self.mask]

    def between(self, start: int, stop: int) -> list[T]:
        """The items of the positions from `start` up to `stop`, which are all kept."""
        if start >= stop:
            return []
        first, last = start & self.mask, stop & self.mask
        places = self.places
        return places[first:last] if first < last else places[first:] + places[:last]

    def append(self, item: T) -> None:
        """Put an item at the head; if nobody holds anything, it is not even stored."""
        head = self.head
        if not self._limit:
            self.head = self.base = head + 1
            return
        kept = head - self.base
        if kept > self.mask:
            self._resize(2 * kept)
        self.places[head & self.mask] = item
        self.head = head + 1
        if kept >= self._limit:
            self._trim()

    def hold(self, position: int, depth: int, count: int = 1) -> Hold:
        """Keep what is kept from a position on.

        Args:
            position: At most the head.  Below the base, the hold keeps nothing.
            depth: How far the head may go past it; at least 1.
            count: How many take this hold at once; each of them releases it.
        """
        here = self._holds.get(position)
        if here is None:
            here = {}
            if position >= self.base:
                self._holds[position] = here
        hold = here.get(depth)
        if hold is None:
            hold = here[depth] = Hold(position, depth)
        hold.count += count
        if position == self.base and depth > self._limit:
            self._limit = depth
        return hold

    def release(self, hold: Hold) -> None:
        """Keep nothing any more for one who took this hold."""
        hold.count -= 1
        if hold.count:
            return
        position = hold.position
        here = self._holds.get(position)
        if here is None:
            return  # the ring has gone on without it
        del here[hold.depth]
        if not here:
            del self._holds[position]
        if position == self.base:
            self._trim()

    def _trim(self) -> None:
        """Let go what no hold keeps any more, from the base on."""
        head, holds = self.head, self._holds
        base = start = self.base
        if len(holds) < 2:
            base = next(iter(holds), head)  # there is nobody on the way
        limit = 0
        while base < head:
            here = holds.get(base)
            if here is not None:
                limit = max(here)
                if head - base <= limit:
                    break
                del holds[base]
            base += 1
        else:
            limit = max(holds.get(head, ()), default=0)
        self._limit = limit
        if base > start:
            self.base = base
            self._clear(start, base)

    def _clear(self, start: int, stop: int) -> None:
        """Forget the items of the positions from `start` up to `stop`, which is the base."""
        gone, size = stop - start, self.mask + 1
        if size > _SPARE and 8 * (self.head - stop) < size:
            self._resize(max(_SPARE, size // 4))
            return
        places = self.places
        first, last = start & self.mask, stop & self.mask
        if first < last:
            places[first:last] = self._hole * gone
        else:
            places[first:] = self._hole * (size - first)
            places[:last] = self._hole * last

    def _resize(self, size: int) -> None:
        """Move what is kept to a list of another size, which is large enough for it."""
        kept = self.between(self.base, self.head)
        places = self._hole * size
        first = self.base & (size - 1)
        room = size - first
        places[first : first + len(kept)] = kept[:room]
        places[: len(kept) - min(room, len(kept))] = kept[room:]
        self.places = places
        self.mask = size - 1
