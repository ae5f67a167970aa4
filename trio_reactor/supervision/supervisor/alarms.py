"""One task that sleeps until the next of many deadlines.

A deadline that is moved further away is not moved here: what is due looks by itself whether its
time has really come, and says when to ask again.  So a renewal costs nothing, and a thousand
sessions cost one sleeping task.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from typing import Final, TypeAlias, final

import trio

from trio_reactor.world import World

__all__ = ["Alarm", "Alarms", "Due"]

Due: TypeAlias = Callable[[], float | None]
"""What to call when it is time: returns in how many seconds to call it again, or `None`."""

_FEW: Final = 64
"""How many cancelled alarms are not worth a clearance."""


@final
class Alarm:
    """What is to be called, unless it was cancelled."""

    __slots__ = ("due",)

    def __init__(self, due: Due) -> None:
        self.due: Due | None = due


@final
class Alarms:
    """Calls, synchronously, what is due.

    Args:
        world: Whose clock counts.
        failed: Called with what a call raised; the others are called all the same.
    """

    def __init__(self, world: World, failed: Callable[[Exception], None]) -> None:
        self._world = world
        self._failed = failed
        self._heap: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._cancelled = 0
        self._nap: trio.CancelScope | None = None

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def after(self, seconds: float, due: Due) -> Alarm:
        """Call this after so many seconds."""
        alarm = Alarm(due)
        self._push(seconds, alarm)
        return alarm

    def cancel(self, alarm: Alarm) -> None:
        """Do not call it any more."""
        if alarm.due is None:
            return
        alarm.due = None
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].due is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    async def run(self) -> None:
        """Call what is due when it is; ends only by cancellation."""
        while True:
            self._call()
            when = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=when) as self._nap:
                await trio.sleep_forever()
            self._nap = None

    def _call(self) -> None:
        now = self._world.clock()
        while self._heap and self._heap[0][0] <= now:
            _, _, alarm = heapq.heappop(self._heap)
            due = alarm.due
            if due is None:
                self._cancelled -= 1
                continue
            try:
                again = due()
            except Exception as failure:  # noqa: BLE001 - told, and the others are due all the same
                self._failed(failure)
                again = None
            if again is None or alarm.due is None:
                alarm.due = None
            else:
                # At least a moment later, so that a clock that stands still is no endless loop.
                self._push(max(again, 1e-6), alarm)

    def _push(self, seconds: float, alarm: Alarm) -> None:
        when = self._world.clock() + max(seconds, 0.0)
        heapq.heappush(self._heap, (when, next(self._order), alarm))
        if self._nap is not None and when < self._nap.deadline:
            self._nap.deadline = when
