"""What a dead process has left: terminated before anything is opened, but for what is adopted."""

from __future__ import annotations

from typing import final

import trio

from trio_reactor.errors import is_expected
from trio_reactor.events import FailureRecord
from trio_reactor.renewal.allocation.allocations import Allocations, terminated
from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.allocation.recovery import plan_recovery, settlement
from trio_reactor.renewal.slot.recording import Settled
from trio_reactor.world import World

from .announcer import Announcer

__all__ = ["Inheritance"]


@final
class Inheritance:
    """What is recorded when a renewal begins.

    Args:
        allocations: Where, and what ends it.
        world: Its clocks.
        announce: Where it is said what became of each.
    """

    def __init__(self, allocations: Allocations, world: World, announce: Announcer) -> None:
        self._allocations = allocations
        self._world = world
        self._announce = announce
        self._defects: list[Exception] = []

    async def settle(self) -> AllocationRecord | None:
        """Terminate what is not to be adopted, side by side; returns what is.

        Cancelled, it leaves the rest recorded.

        Raises:
            JournalError: The journal could not be read or written.
            BaseException: A defect of what terminates.
        """
        records = await self._allocations.journal.load()
        plan = plan_recovery(records, adopt=self._allocations.adopt, wall=self._world.wall())
        async with trio.open_nursery() as nursery:
            for record in plan.terminate:
                nursery.start_soon(self._settle, record)
        if len(self._defects) == 1:
            raise self._defects[0]
        if self._defects:
            raise ExceptionGroup("settling what was recorded", self._defects)
        return plan.adopt

    async def _settle(self, record: AllocationRecord) -> None:
        cleanup, failure = await terminated(self._allocations, record)
        how = settlement(
            record, cleanup, wall=self._world.wall(), margin=self._allocations.end_margin
        )
        told = None if failure is None else FailureRecord.of(failure)
        self._announce.settled(Settled(record, how, cleanup, told))
        if failure is not None and not is_expected(failure):
            self._defects.append(failure)
        elif how != "unconfirmed":
            try:
                await self._allocations.journal.forget(record.key)
            except Exception as failed:  # noqa: BLE001 - raised by `settle`
                self._defects.append(failed)
