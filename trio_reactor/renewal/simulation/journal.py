"""A journal of allocations that is only simulated: in memory, with faults, without threads."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import final

from trio_reactor.errors import ReactorError
from trio_reactor.renewal.allocation.records import AllocationRecord, JournalBusy, JournalFailed
from trio_reactor.testing.faults import Faults

__all__ = ["SimulatedJournal"]


@final
class SimulatedJournal:
    """A journal in memory; implements `AllocationJournal`.  It outlives the renewals that use it.

    Args:
        records: What a process that died has left.
        faults: What goes wrong, at the places `journal` (before a transaction: slow, never) and
            `record` (in it: refused, or done and not heard of).
    """

    path = "memory"

    def __init__(
        self, records: Iterable[AllocationRecord] = (), *, faults: Faults | None = None
    ) -> None:
        self.records = {record.key: record for record in records}
        self.writes: list[str] = []
        """What was done: `intend`, `identify` or `forget`, in order."""
        self._faults = faults or Faults()
        self._claimed_by: str | None = None

    def __repr__(self) -> str:
        return f"<SimulatedJournal: {len(self.records)} records>"

    @contextmanager
    def claimed(self, by: str) -> Generator[None]:
        """A block in which one renewal uses it, alone."""
        if self._claimed_by is not None:
            raise JournalBusy(f"the renewal {self._claimed_by!r} uses this journal", path=self.path)
        self._claimed_by = by
        try:
            yield
        finally:
            self._claimed_by = None

    async def load(self) -> tuple[AllocationRecord, ...]:
        """Everything that is recorded, in the order in which it was intended."""
        await self._faults.meet("journal")
        found = self.records.values()
        return tuple(sorted(found, key=lambda record: (record.intended_at, record.key)))

    async def put(self, record: AllocationRecord, /) -> None:
        """Record it, in the place of the one with the same key if there is one."""
        await self._faults.meet("journal")
        with self._transaction("intend" if record.source is None else "identify"):
            self.records[record.key] = record

    async def forget(self, key: str, /) -> None:
        """Delete the record with this key, if there is one."""
        await self._faults.meet("journal")
        with self._transaction("forget"):
            self.records.pop(key, None)

    @contextmanager
    def _transaction(self, what: str) -> Generator[None]:
        try:
            with self._faults.around("record"):
                self.writes.append(what)
                yield
        except ReactorError as failure:
            raise JournalFailed(
                f"{self.path}: the journal could not be used", path=self.path, outcome="unknown"
            ) from failure
