"""The check of one source before it goes on air, under way.

It runs in a task of the owner's, beside the source's own.  It ends with the source at the latest:
what leaves cancels and joins it before it closes, so that a check never looks at a source that is
being closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, final

import trio

from trio_reactor.errors import Lost, TimedOut, is_expected
from trio_reactor.renewal.source import Source

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["Check", "Checking"]

Check = Callable[[Source], Awaitable[object]]
"""Looks at a source before it goes on air; what it raises is why it must not."""


@final
class Checking:
    """One check.

    Args:
        slot: Whose.
        check: The application's.
        deadline: When its budget is over, on the clock.
    """

    def __init__(self, slot: Slot, check: Check, deadline: float) -> None:
        self._slot = slot
        self._check = check
        self._budget = trio.CancelScope(deadline=deadline)
        self._over = trio.Event()

    async def run(self) -> Exception | None:
        """Look at the source.

        Returns:
            Why it is not to go on air, or `None`.

        Raises:
            Exception: A defect.
        """
        slot = self._slot
        source = slot.source
        assert source is not None  # noqa: S101 - it is open
        try:
            with self._budget:
                try:
                    await self._check(source)
                except Exception as failure:
                    if not is_expected(failure):
                        raise
                    return failure
                return None if slot.live else Lost(f"source {slot.incarnation} has left")
            return TimedOut(f"the check of source {slot.incarnation} was not over in time")
        finally:
            slot.checking = None
            self._over.set()

    async def stop(self) -> None:
        """Cancel it and wait until it has ended."""
        self._budget.cancel()
        await self._over.wait()
