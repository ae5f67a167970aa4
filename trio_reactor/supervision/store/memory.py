"""A store in memory: for tests, and for those who want nothing to outlive the process.

What was committed stays while the store exists, however often its journal is opened and closed, so
a supervisor that is started again on it recovers as it would from a file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import final

import trio

from trio_reactor.errors import Closed, ReactorError
from trio_reactor.supervision.errors import StaleSession, StoreBusy
from trio_reactor.supervision.model.codec import decode
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.records import Open

from .protocol import Change, Contents

__all__ = ["MemoryJournal", "MemoryStore"]


@final
class MemoryStore:
    """A journal in this process; implements `Store`.

    Args:
        name: What it is called in messages.
    """

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self._open = False
        self._records: dict[tuple[Key, int], Change] = {}
        self._high_water: dict[Key, int] = {}

    def __repr__(self) -> str:
        return f"<MemoryStore {self.name}: {len(self._records)} records>"

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MemoryJournal]:
        """Own the journal exclusively for a block.

        Raises:
            StoreBusy: It is open already.
        """
        await trio.lowlevel.checkpoint()
        if self._open:
            raise StoreBusy(f"{self.name}: another supervisor uses this journal", store=self.name)
        self._open = True
        journal = MemoryJournal(self)
        try:
            yield journal
        finally:
            journal._closed = True
            self._open = False


@final
class MemoryJournal:
    """The journal of a `MemoryStore`, while it is open; implements `Journal`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemoryJournal {self._store.name}>"

    async def load(self) -> Contents:
        """Everything in it.  Always a checkpoint.

        Raises:
            RecordUnreadable: A record is damaged.
            Closed: Its block was left.
        """
        await trio.lowlevel.checkpoint()
        self._check()
        store = self._store
        records = tuple(
            decode(
                change.encoded,
                name=f"{store.name}: the record of {change.record.handle}",
                handle=change.record.handle,
            )
            for change in store._records.values()
        )
        return Contents(records, dict(store._high_water))

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        """Make the changes, in their order, all in one step.  Always a checkpoint, before that.

        Raises:
            Closed: Its block was left.
        """
        await trio.lowlevel.checkpoint()
        self._check()
        return [self._make(change) for change in changes]

    def _check(self) -> None:
        if self._closed:
            raise Closed(f"{self._store.name}: this journal is closed")

    def _make(self, change: Change) -> ReactorError | None:
        records, high_water = self._store._records, self._store._high_water
        handle = change.record.handle
        session = (handle.key, handle.generation)
        if isinstance(change.record.phase, Open):
            highest = high_water.get(handle.key, 0)
            if handle.generation != highest + 1:
                return StaleSession(
                    f"{handle} cannot follow generation {highest}", outcome="replied"
                )
            high_water[handle.key] = handle.generation
        elif records.pop(session, None) is None:
            return StaleSession(f"{handle} is not in the journal", outcome="replied")
        records[session] = change  # what is written last comes last
        for forgotten in change.forgets:
            records.pop((forgotten.key, forgotten.generation), None)
        return None
