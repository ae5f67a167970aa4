"""What one slot records of its allocation, before it is used and until its end is proven.

The intent is recorded before the adapter is asked to open anything, the identity before the source
counts as opened, and the record is deleted once the end is proven.  All of it happens in the task
of the slot's attempt, around the source: whatever becomes of that, it is looked at before the
attempt ends.  Where that last step fails, or its budget is over, the record stays, and the next
process terminates once more what has ended already.

A recorded allocation that is to be adopted and is not, for whatever reason, is terminated there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

import msgspec
import trio

from trio_reactor.errors import TimedOut, is_expected
from trio_reactor.events import FailureRecord
from trio_reactor.renewal.allocation.allocations import Allocations, terminated
from trio_reactor.renewal.allocation.records import MAX_ALLOCATION_BYTES, AllocationRecord
from trio_reactor.renewal.allocation.recovery import Settlement, has_ended, settlement
from trio_reactor.renewal.errors import refusal
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.jsonvalue import copy_json
from trio_reactor.renewal.source import Predecessor, Recordable, Source
from trio_reactor.renewal.summary import combine

from .evidence import cleanup_of, reported_by

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["Recording", "Settled"]


class Settled(msgspec.Struct, frozen=True):
    """What has become of a recorded allocation that a dead process left."""

    record: AllocationRecord
    how: Settlement
    cleanup: Cleanup | None = None
    failure: FailureRecord | None = None


@final
class Recording:
    """The record of one slot.

    Args:
        slot: Whose.
        allocations: Where it is recorded; `None` if it is not.
        predecessor: What its source is opened after: holds the key, and what is to be adopted.
        renewal: The name of the renewal.
    """

    def __init__(
        self, slot: Slot, allocations: Allocations | None, predecessor: Predecessor, renewal: str
    ) -> None:
        self._slot = slot
        self._allocations = allocations
        self._key = predecessor.key or slot.host.world.token()
        self._renewal = renewal
        self._record: AllocationRecord | None = predecessor.adopt
        self.adopting = predecessor.adopt
        """What a dead process left, if this is to hold it."""
        self.settled: Settled | None = None
        """What became of that, if it was not adopted."""
        self.held = False
        """Whether the source has opened."""

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator[None]:
        """A block around a source: it has a record before, and none once its end is proven.

        Raises:
            JournalError: The intent could not be recorded; nothing may be opened.
        """
        allocations = self._allocations
        if allocations is None:
            yield
            return
        failure: BaseException | None = None
        try:
            if self._record is None:
                self._record = AllocationRecord(
                    self._key, self._renewal, self._slot.host.world.wall()
                )
                await allocations.journal.put(self._record)
            yield
        except BaseException as raised:
            failure = raised
            raise
        finally:
            try:
                await self._conclude(allocations, failure)
            finally:
                failure = None  # this frame is in its traceback

    async def identify(self, source: Source) -> None:
        """Record the identity of a source and when it ends at the latest, before it is used.

        Raises:
            JournalError: It may not be recorded: the source is not to be used.
            NotJson: What it says of its allocation is not JSON, or too large.
            OpenFailed: It is not the one that was to be adopted.
        """
        if self._allocations is None or self._record is None:
            return
        world, slot = self._slot.host.world, self._slot
        allocation = None
        if isinstance(source, Recordable):
            allocation = copy_json(
                source.allocation,
                what=f"the allocation of source {slot.incarnation}",
                max_bytes=MAX_ALLOCATION_BYTES,
            )
        self._record = msgspec.structs.replace(
            self._record,
            renewal=self._renewal,  # which adopts it, whoever left it
            source=slot.identity,
            allocation=allocation,
            ends_by=None if slot.lifetime is None else world.wall() + slot.lifetime,
        )
        await self._allocations.journal.put(self._record)

    async def _conclude(self, allocations: Allocations, failure: BaseException | None) -> None:
        slot, record = self._slot, self._record
        assert record is not None  # noqa: S101 - set before anything else
        if self.adopting is not None and not _is_adopted(slot, self.adopting):
            record = self.adopting
            if not await self._give_up(allocations, record, failure):
                return
        else:
            cleanup = cleanup_of(slot, failure)
            if self.adopting is not None and not self.held:
                self.settled = self._settled(allocations, record, cleanup, None)
            if not _is_over(record, cleanup, adopted=self.adopting is not None):
                return
        world, options = slot.host.world, slot.host.options
        deadline = world.clock() + options.accounting_timeout
        budget = trio.CancelScope(shield=True)
        try:
            with budget:
                budget.deadline = min(deadline, slot.host.close_deadline)
                await allocations.journal.forget(record.key)
        except Exception as raised:
            if not is_expected(raised):
                raise
            slot.add_failure(raised)
        if budget.cancelled_caught:
            late = f"the record of source {slot.incarnation} was not deleted in time"
            slot.add_failure(TimedOut(late))

    async def _give_up(
        self, allocations: Allocations, record: AllocationRecord, failure: BaseException | None
    ) -> bool:
        """Terminate what was not adopted; returns whether its record is to be deleted."""
        slot, before = self._slot, self._slot.cleanup
        refused = refusal(failure)
        reported = reported_by(refused)
        cleanup = next((each for each in (reported, before) if _proves(record, each)), None)
        wrong: Exception | None = None
        if cleanup is None:
            deadline = slot.host.world.clock() + slot.host.options.cleanup_timeout
            budget = trio.CancelScope(shield=True)
            try:
                with budget:
                    budget.deadline = min(deadline, slot.host.close_deadline)
                    cleanup, wrong = await terminated(allocations, record)
            except Exception as raised:  # noqa: BLE001 - it broke when its budget was over
                wrong = raised
            if budget.cancelled_caught and (wrong is None or is_expected(wrong)):
                wrong = TimedOut("there was no time left to terminate it")
        self.settled = self._settled(allocations, record, cleanup, wrong)
        told = self.settled.failure
        proven = cleanup or Cleanup.of(
            record.source,
            allocation="owned",
            termination="unconfirmed",
            connection="failed",
            failures=() if told is None else (told,),
        )
        # An adapter that gave another source than it was to has allocated two.
        slot.cleanup = proven if before is None else combine(before, proven)
        if refused is not None:
            refused.cleanup = slot.cleanup  # it is the whole of what is proven
        if wrong is not None and not is_expected(wrong):
            slot.host.hearing.failed(slot, wrong)
        return self.settled.how != "unconfirmed" and (before is None or before.complete)

    def _settled(
        self,
        allocations: Allocations,
        record: AllocationRecord,
        cleanup: Cleanup | None,
        wrong: Exception | None,
    ) -> Settled:
        wall, margin = self._slot.host.world.wall(), allocations.end_margin
        how = settlement(record, cleanup, wall=wall, margin=margin)
        return Settled(record, how, cleanup, None if wrong is None else FailureRecord.of(wrong))


def _is_adopted(slot: Slot, record: AllocationRecord) -> bool:
    """Whether what was to be adopted was connected to: then it is closed as any source is."""
    return slot.source is not None and slot.identity == record.source


def _proves(record: AllocationRecord, cleanup: Cleanup | None) -> bool:
    """Whether this speaks of what was to be adopted, and proves that it has ended."""
    return cleanup is not None and cleanup.source == record.source and has_ended(record, cleanup)


def _is_over(record: AllocationRecord, cleanup: Cleanup, *, adopted: bool) -> bool:
    # What is left of one that was joined is its owner's affair; but what was adopted is ours.
    return has_ended(record, cleanup) if adopted else cleanup.complete
