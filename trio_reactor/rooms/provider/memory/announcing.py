"""What waits to be read of one link's announcements."""

from __future__ import annotations

from collections import deque
from typing import final

import trio

from trio_reactor.errors import Closed, Lost
from trio_reactor.fence import Fence
from trio_reactor.rooms.provider.protocol import Announcement, Relisted, Writing

__all__ = ["Announcements"]


@final
class Announcements(trio.abc.ReceiveChannel[Announcement]):
    """A bounded queue of announcements for one reader.

    When it is full, all that wait give way to one `Relisted`.  Whether anybody may write is told by
    no discovery, so that is said again behind it.

    Args:
        member: Who reads them.
        capacity: How many may wait.
    """

    def __init__(self, member: str, capacity: int) -> None:
        self.member = member
        self.holding = False
        """Whether it was said what is held, so that everything about rooms has to be announced."""
        self.lost = Fence("the link")
        """Up when the link is lost."""
        self.closed = False
        """Whether the link was left."""
        self._capacity = capacity
        self._waiting: deque[tuple[str | None, Announcement]] = deque()
        self._arrival = trio.Event()
        self._reading = False

    def put(self, announcement: Announcement, room: str | None = None) -> None:
        """Let it, which may tell something of a room, wait; nothing if the link was lost."""
        if self.lost.is_set or self.closed:
            return
        self._waiting.append((room, announcement))
        if len(self._waiting) > self._capacity:
            told = [each for each in self._waiting if isinstance(each[1], Writing)]
            self._waiting.clear()
            self._waiting.append((None, Relisted()))
            self._waiting.extend(told[-1:])
        self._arrival.set()

    def forget(self, room: str) -> None:
        """Take back what waits and tells something of a room."""
        self._waiting = deque(each for each in self._waiting if each[0] != room)

    def lose(self, reason: str) -> None:
        """Lose what waits, and end it with `Lost`."""
        if self.lost.set(reason):
            self._waiting.clear()
            self._arrival.set()

    async def receive(self) -> Announcement:
        """The next announcement.  Always a checkpoint; none is lost if it is cancelled.

        Raises:
            Lost: The link is lost.
            Closed: It was closed here.
            trio.BusyResourceError: Another task is waiting for one.
        """
        if self._reading:
            raise trio.BusyResourceError("another task reads these announcements")
        self._reading = True
        try:
            await trio.lowlevel.checkpoint()
            self.check()
            while not self._waiting:
                self._arrival = trio.Event()
                await self._arrival.wait()
                self.check()
        finally:
            self._reading = False
        return self._waiting.popleft()[1]

    async def aclose(self) -> None:
        """Read no more.  Always a checkpoint, after it."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Read no more."""
        self.closed = True
        self._waiting.clear()
        self._arrival.set()

    def check(self) -> None:
        """Raise `Lost` or `Closed` if the link is."""
        if self.closed:
            raise Closed("this link was left")
        if self.lost.is_set:
            raise Lost(f"the link is lost: {self.lost.reason}")
