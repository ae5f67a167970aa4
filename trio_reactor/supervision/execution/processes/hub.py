"""One task that sleeps for all units of an execution, so that a unit costs no task.

Descriptors are watched through a kernel's queue of their own, which Trio can wait for as one; what
is to be done at a time is in a heap.  The task exists while there is something to watch.  It is a
system task: units are opened in many tasks, none of which owns the others'.
"""

from __future__ import annotations

import heapq
import itertools
import select
from collections.abc import Callable
from typing import final

import trio

__all__ = ["Hub", "Timer"]


@final
class Timer:
    """Something that is to be done at a time."""

    __slots__ = ("do",)

    def __init__(self, do: Callable[[], None]) -> None:
        self.do: Callable[[], None] | None = do

    def cancel(self) -> None:
        """Do not do it."""
        self.do = None


@final
class Hub:
    """Watches descriptors and the time for any number of units."""

    def __init__(self) -> None:
        self._queue: select.epoll | None = None
        self._watched: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._sleep: trio.CancelScope | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it watches nothing."""
        return not self._watched

    def watch(self, fd: int, ready: Callable[[], None]) -> None:
        """Call it whenever there is something to read, until it is forgotten."""
        if self._queue is None:
            self._queue = select.epoll()
            trio.lowlevel.spawn_system_task(self._run, self._queue)
        self._queue.register(fd, select.EPOLLIN)
        self._watched[fd] = ready

    def forget(self, fd: int) -> None:
        """Watch it no more; before it is closed."""
        if self._watched.pop(fd, None) is not None:
            assert self._queue is not None  # noqa: S101 - there is one while there is something
            self._queue.unregister(fd)
            if not self._watched and self._sleep is not None:
                self._sleep.cancel()

    def after(self, seconds: float, do: Callable[[], None]) -> Timer:
        """Call it then, if something is still being watched."""
        timer = Timer(do)
        at = trio.current_time() + seconds
        heapq.heappush(self._timers, (at, next(self._order), timer))
        if self._sleep is not None:
            self._sleep.deadline = min(self._sleep.deadline, at)
        return timer

    async def _run(self, queue: select.epoll) -> None:
        try:
            while self._watched:
                self._run_timers()
                with trio.CancelScope() as self._sleep:
                    if self._timers:
                        self._sleep.deadline = self._timers[0][0]
                    await trio.lowlevel.wait_readable(queue.fileno())
                self._sleep = None
                for fd, _ in queue.poll(0):
                    ready = self._watched.get(fd)  # an earlier one may have had it forgotten
                    if ready is not None:
                        ready()
        finally:
            self._sleep = None
            if self._queue is queue:
                self._queue = None
                self._watched.clear()
                self._timers.clear()
            queue.close()

    def _run_timers(self) -> None:
        now = trio.current_time()
        while self._timers and (self._timers[0][0] <= now or self._timers[0][2].do is None):
            _, _, timer = heapq.heappop(self._timers)
            do, timer.do = timer.do, None
            if do is not None:
                do()
