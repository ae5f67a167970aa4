"""What a dead process has left: terminated before anything is opened, but for what is adopted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import trio

from trio_reactor.errors import is_expected
from trio_reactor.events import FailureRecord
from trio_reactor.renewal.allocation.allocations import Allocations, terminated
from trio_reactor.renewal.allocation.records import AllocationRecord, JournalUnusable
from trio_reactor.renewal.allocation.recovery import plan_recovery, settlement
from trio_reactor.renewal.slot.recording import Settled
from trio_reactor.world import World

from .announcer import Announcer

__all__ = ["MAX_TERMINATING", "Inheritance"]

MAX_TERMINATING: Final = 8
"""How many allocations are terminated at a time: a provider may take few requests at once."""


@final
class Inheritance:
    """What is recorded when a renewal begins.

    Args:
        name: The name of the renewal.
        allocations: Where, and what ends it.
        world: Its clocks.
        announce: Where it is said what became of each.
    """

    def __init__(
        self, name: str, allocations: Allocations, world: World, announce: Announcer
    ) -> None:
        self._name = name
        self._allocations = allocations
        self._world = world
        self._announce = announce
        self._defects: list[Exception] = []

    async def settle(self) -> AllocationRecord | None:
        """Terminate what is not to be adopted, `MAX_TERMINATING` at a time; returns what is.

        Cancelled, it leaves the rest recorded.

        Raises:
            JournalUnusable: Another renewal has recorded something, and nothing was changed.
            JournalError: The journal could not be read or written.
            BaseException: A defect of what terminates.
        """
        allocations = self._allocations
        plan = plan_recovery(
            await allocations.journal.load(),
            renewal=None if allocations.any_renewal else self._name,
            adopt=allocations.adopt,
            wall=self._world.wall(),
        )
        if plan.foreign:
            path, whose = allocations.journal.path, ", ".join(map(repr, plan.foreign))
            raise JournalUnusable(
                f"{path}: holds what other renewals have allocated: {whose}", path=path
            )
        left = iter(plan.terminate)
        async with trio.open_nursery() as nursery:
            for _ in range(min(len(plan.terminate), MAX_TERMINATING)):
                nursery.start_soon(self._settle_each, left)
        if len(self._defects) == 1:
            raise self._defects[0]
        if self._defects:
            raise ExceptionGroup("settling what was recorded", self._defects)
        return plan.adopt

    async def _settle_each(self, left: Iterator[AllocationRecord]) -> None:
        for record in left:
            await self._settle(record)

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
