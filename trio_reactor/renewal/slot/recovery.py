"""The reconnect of one source, under way.

It runs in a task of the owner's, beside the source's own.  It ends with the source at the latest:
what leaves cancels and joins it before it closes, so that a reconnect never works on a source that
is being closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import trio

from trio_reactor.errors import Lost, TimedOut, is_expected

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["Recovery"]


@final
class Recovery:
    """One reconnect.

    Args:
        slot: Whose.
        deadline: When its budget is over, on the clock.
    """

    def __init__(self, slot: Slot, deadline: float) -> None:
        self._slot = slot
        self._budget = trio.CancelScope(deadline=deadline)
        self._over = trio.Event()

    async def run(self) -> BaseException | None:
        """Make the connection again and set it up; nothing is awaited after that.

        Returns:
            Why it is not whole, or `None`.

        Raises:
            Exception: A defect.
        """
        slot = self._slot
        try:
            with self._budget:
                try:
                    await slot.reconnect()
                    slot.check_whole()
                except Exception as failure:
                    if not is_expected(failure):
                        raise
                    return failure
                return None if slot.live else Lost(f"source {slot.incarnation} has left")
            return TimedOut(f"source {slot.incarnation} did not reconnect within its budget")
        finally:
            slot.recovery = None
            self._over.set()

    async def stop(self) -> None:
        """Cancel it and wait until it has ended."""
        self._budget.cancel()
        await self._over.wait()
