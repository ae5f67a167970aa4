"""Blocking work, one piece at a time, out of Trio's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, final

import trio

__all__ = ["Turns"]

T = TypeVar("T")


@final
class Turns:
    """Runs one thing at a time, in the order in which they were asked for.

    Args:
        inline: Whether it runs in the calling task rather than in a thread: on a virtual clock,
            which does not wait for threads.
    """

    def __init__(self, *, inline: bool) -> None:
        self._inline = inline
        self._turn = trio.CapacityLimiter(1)

    async def run(self, work: Callable[[], T]) -> T:
        """Run it; once begun, it is finished.  Always a checkpoint, before it begins."""
        if self._inline:
            await trio.lowlevel.checkpoint()
            return work()
        return await trio.to_thread.run_sync(work, limiter=self._turn)
