"""A store in memory that sees, as if from outside, what became durable, and in which order."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from trio_reactor.errors import ReactorError
from trio_reactor.supervision import MemoryStore
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.machine import STATES, state_of
from trio_reactor.supervision.model.records import (
    Loaded,
    Open,
    Phase,
    SessionRecord,
    Stopped,
    Stopping,
    child_of,
)
from trio_reactor.supervision.store.protocol import Change, Contents, Journal, Store

__all__ = ["Answers", "Ledger", "Named", "named", "rank"]

Named: TypeAlias = tuple[str, int]
"""A session's key and generation."""

_RANKS: Final = {state: number for number, state in enumerate(STATES)}


def named(handle: Handle) -> Named:
    """Which session a handle is of."""
    return str(handle.key), handle.generation


def rank(phase: Phase) -> int:
    """How far on its way a phase is."""
    return _RANKS[state_of(phase)]


class Ledger:
    """Implements `Store`; what it held is known while no supervisor has it open, too.

    Args:
        wrong: Told what should not have been written.
        taken: Told of each record that became durable, right after that.
        refused: Sessions of which a record was refused by itself: those may be forgotten although
            the journal does not know that they have stopped.
        max_stopped: How many stopped sessions may be kept.
    """

    def __init__(
        self,
        wrong: Callable[[str], None],
        taken: Callable[[SessionRecord], None],
        refused: AbstractSet[Named],
        *,
        max_stopped: int,
    ) -> None:
        self._store = MemoryStore()
        self._wrong = wrong
        self._taken = taken
        self._refused = refused
        self._max_stopped = max_stopped
        self._early: list[Named] = []
        self._kept = 0
        self.records: dict[Named, SessionRecord] = {}
        """What is there."""
        self.handles: dict[Named, Handle] = {}
        """Of every session that there ever was."""
        self.requests: dict[tuple[Key, str], Handle] = {}
        """What each request ever opened."""
        self.forgotten: set[Named] = set()
        self.loaded: dict[Named, Loaded] = {}
        """Every session whose code was ever loaded."""
        self.registered: set[Named] = set()
        """Every session whose child was ever registered."""
        self.high: dict[Key, int] = {}

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Journal]:
        """Own the journal for a block."""
        async with self._store.open() as journal:
            contents = await journal.load()
            there = {named(record.handle): record for record in contents.records}
            if there != self.records or dict(contents.high_water) != self.high:
                self._wrong("the journal holds something else than was committed")
            yield _Watched(self, journal)

    def take(self, change: Change) -> None:
        """See what became durable."""
        record = change.record
        name, phase = named(record.handle), record.phase
        if isinstance(phase, Open):
            self._take_first(record)
        else:
            self._take_later(record, self.records.get(name))
        if isinstance(phase, Loaded):
            self.loaded[name] = phase
        if child_of(phase) is not None:
            self.registered.add(name)
        self.records.pop(name, None)
        self.records[name] = record
        for handle in change.forgets:
            gone = self.records.pop(named(handle), None)
            stopped = gone is not None and isinstance(gone.phase, Stopped)
            if not stopped:
                self._early.append(named(handle))
            self.forgotten.add(named(handle))
        if change.forgets or isinstance(phase, Stopped):
            self._kept = sum(isinstance(each.phase, Stopped) for each in self.records.values())
        self._taken(record)

    def judge(self) -> str | None:
        """Judge what was forgotten, once it is known what was refused; returns what is wrong."""
        early, self._early = self._early, []
        for name in early:
            if name not in self._refused:
                return f"{name} was forgotten, and had not stopped"
        # One whose stop was refused could make nobody leave; the next one does.
        if self._kept > self._max_stopped + len(self._refused):
            return f"{self._kept} stopped sessions are kept"
        return None

    def _take_first(self, record: SessionRecord) -> None:
        handle = record.handle
        if handle.generation != self.high.get(handle.key, 0) + 1:
            self._wrong(f"{handle} was opened after generation {self.high.get(handle.key)}")
        if (handle.key, record.request) in self.requests:
            self._wrong(f"request {record.request} opened a second session, {handle}")
        self.high[handle.key] = handle.generation
        self.handles[named(handle)] = handle
        self.requests[handle.key, record.request] = handle

    def _take_later(self, record: SessionRecord, before: SessionRecord | None) -> None:
        handle, phase = record.handle, record.phase
        if before is None:
            self._wrong(f"{handle} was written, and is not there")
            return
        old = before.phase
        if rank(phase) <= rank(old):
            self._wrong(f"{handle} went from {state_of(old)} to {state_of(phase)}")
        match old, phase:
            case Stopping(stop=first), Stopped(stop=last) if last.reason != first.reason:
                self._wrong(f"{handle} stopped for {last.reason}, not {first.reason}")
            case _:
                pass
        same = (before.handle, before.request, before.lease, before.limits, before.opened_at)
        if same != (handle, record.request, record.lease, record.limits, record.opened_at):
            self._wrong(f"{handle} became another session")


class _Watched:
    """The journal, while it is open; implements `Journal`."""

    def __init__(self, ledger: Ledger, journal: Journal) -> None:
        self._ledger = ledger
        self._journal = journal

    async def load(self) -> Contents:
        """Everything in it."""
        return await self._journal.load()

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        """Make the changes durable, and see which are."""
        outcomes = await self._journal.commit(changes)
        for change, outcome in zip(changes, outcomes, strict=True):
            if outcome is None:
                self._ledger.take(change)
        return outcomes


class Answers:
    """A store that sees what the supervisor is told of its records; implements `Store`.

    Args:
        store: The store beneath.
        refused: Told of each record that was refused by itself.
        failed: Told of each record of a commit that failed.
    """

    def __init__(
        self,
        store: Store,
        refused: Callable[[SessionRecord], None],
        failed: Callable[[SessionRecord], None],
    ) -> None:
        self._store = store
        self.refused = refused
        self.failed = failed

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Journal]:
        """Own the journal for a block."""
        async with self._store.open() as journal:
            yield _Answered(self, journal)


class _Answered:
    """The journal, while it is open; implements `Journal`."""

    def __init__(self, answers: Answers, journal: Journal) -> None:
        self._answers = answers
        self._journal = journal

    async def load(self) -> Contents:
        """Everything in it."""
        return await self._journal.load()

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        """Make the changes durable, and see which are said to be."""
        try:
            outcomes = await self._journal.commit(changes)
        except BaseException:
            for change in changes:
                self._answers.failed(change.record)
            raise
        for change, outcome in zip(changes, outcomes, strict=True):
            if outcome is not None:
                self._answers.refused(change.record)
        return outcomes
