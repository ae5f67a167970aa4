"""What takes its time for one source, under way: a reconnect, or the application's check.

It runs in a task of the owner's, beside the source's own.  It ends with the source at the latest:
what leaves cancels and joins it before it closes, so that nothing works on a source that is being
closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import final

import trio

from trio_reactor.errors import TimedOut, is_expected

__all__ = ["Underway"]


@final
class Underway:
    """One piece of work on a source.

    Args:
        deadline: When its budget is over, on the clock.
    """

    def __init__(self, deadline: float) -> None:
        self._budget = trio.CancelScope(deadline=deadline)
        self._over = trio.Event()
        self.cancelled = False
        """Whether it was cancelled: what comes of it is no news."""

    async def run(self, work: Callable[[], Awaitable[object]], late: str) -> Exception | None:
        """Do the work; nothing is awaited after it.

        Args:
            work: What is to be done.
            late: What is said if it was not over in time.

        Returns:
            Why it failed, or `None`.

        Raises:
            Exception: A defect.
        """
        too_late = TimedOut(late)
        try:
            with self._budget:
                await work()
                return None
        except Exception as failure:
            # Caught around the budget: what breaks when that cancels it comes in a group with it.
            if not is_expected(failure):
                raise
            if not self._budget.cancelled_caught:
                return failure
            too_late.__cause__ = failure
        finally:
            self._over.set()
        return too_late

    def cancel(self) -> None:
        """End it; it may take until its next checkpoint."""
        self.cancelled = True
        self._budget.cancel()

    async def stop(self) -> None:
        """Cancel it and wait until it has ended."""
        self.cancel()
        await self._over.wait()
