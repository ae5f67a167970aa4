"""What a dead process has left: terminated before anything is opened, but for what is adopted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import trio

from trio_reactor.errors import is_expected
from trio_reactor.events import FailureRecord
from trio_reactor.renewal.allocation.allocations import Allocations, terminated
from trio_reactor.renewal.allocation.records import (
    AllocationRecord,
    JournalError,
    JournalFailed,
    JournalUnusable,
)
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
        load_timeout: Seconds that the journal may take to be read.
    """

    def __init__(
        self,
        name: str,
        allocations: Allocations,
        world: World,
        announce: Announcer,
        *,
        load_timeout: float,
    ) -> None:
        self._load_timeout = load_timeout
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
            JournalError: The journal could not be read, or not in time, or not written.  Where
                several records could not be deleted it is one; its cause is the group of why.
            BaseException: A defect of what terminates.
        """
        allocations = self._allocations
        plan = plan_recovery(
            await self._load(),
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
        if self._defects:
            raise self._failed()
        return plan.adopt

    async def _load(self) -> tuple[AllocationRecord, ...]:
        journal = self._allocations.journal
        with trio.CancelScope(deadline=self._world.clock() + self._load_timeout):
            return await journal.load()
        raise JournalFailed(
            f"{journal.path}: the journal was not read within {self._load_timeout} s",
            path=journal.path,
            retryable=True,
        )

    def _failed(self) -> BaseException:
        """What is raised of all that went wrong: as of one where it is of one kind."""
        if len(self._defects) == 1:
            return self._defects[0]
        several = ExceptionGroup("settling what was recorded", self._defects)
        if not all(isinstance(each, JournalError) for each in self._defects):
            return several
        path = self._allocations.journal.path
        failed = JournalFailed(
            f"{path}: {len(self._defects)} records could not be deleted", path=path
        )
        failed.__cause__ = several
        return failed

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
