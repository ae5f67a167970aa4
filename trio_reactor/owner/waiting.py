"""Who waits for an attempt, and so who will have received what becomes of it.

Trio wakes everybody who waits for an event in the step in which it is set, and whoever was woken
runs: a cancellation that comes later finds nobody asleep.  So, in the step in which an attempt
ends, it is certain whether its failure is somebody's, or is still close's to tell.
"""

from __future__ import annotations

from typing import final

import trio

__all__ = ["Waiting"]


@final
class Waiting:
    """Those who wait for one attempt.

    Who sleeps in `settled` or `ended` goes on to receive what became of it, unless cancelled before
    that.  Who sleeps in `left` only waits until it is gone.
    """

    __slots__ = ("_ended", "_left", "_on_the_way", "_settled")

    def __init__(self) -> None:
        self._settled: trio.Event | None = None
        self._ended: trio.Event | None = None
        self._left: trio.Event | None = None
        # Those who were woken because it is held, and have not run yet.
        self._on_the_way = 0

    @property
    def receivers(self) -> int:
        """How many tasks are certain to receive a failure if it comes in this step."""
        return self._on_the_way + _asleep(self._settled) + _asleep(self._ended)

    @property
    def asleep(self) -> int:
        """How many tasks wait."""
        return _asleep(self._settled) + _asleep(self._ended) + _asleep(self._left)

    async def settled(self) -> None:
        """Sleep until it is open or has failed to open."""
        if self._settled is None:
            self._settled = trio.Event()
        event = self._settled
        await event.wait()
        if event is not self._settled:
            self._on_the_way -= 1

    async def ended(self) -> None:
        """Sleep until it has left altogether, to receive how."""
        if self._ended is None:
            self._ended = trio.Event()
        await self._ended.wait()

    async def left(self) -> None:
        """Sleep until it has left altogether, whatever it has to say."""
        if self._left is None:
            self._left = trio.Event()
        await self._left.wait()

    def open(self) -> None:
        """Wake those who wait until it is open."""
        if self._settled is not None:
            self._on_the_way = _asleep(self._settled)
            self._settled.set()
            self._settled = None

    def end(self) -> None:
        """Wake everybody; this is the last that happens to it."""
        for event in (self._settled, self._ended, self._left):
            if event is not None:
                event.set()


def _asleep(event: trio.Event | None) -> int:
    return 0 if event is None else event.statistics().tasks_waiting
