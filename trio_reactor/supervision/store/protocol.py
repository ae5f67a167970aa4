"""What a store does: it holds the journal of sessions durably, and fences it.

A store is opened by one supervisor at a time, or by several where it says so (`SharedJournal`).
All calls of one journal come from one task, one after the other: a store needs no lock of its own
and no queue.  Whatever is committed together is committed in one durable transaction, which is what
makes sixty-four transitions at once cost hardly more than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import msgspec

from trio_reactor.errors import ReactorError
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import SessionRecord

__all__ = [
    "Change",
    "Contents",
    "HostFacts",
    "Journal",
    "KeyFacts",
    "SharedJournal",
    "Store",
]


class Change(msgspec.Struct, frozen=True):
    """One transition to be made durable."""

    record: SessionRecord
    encoded: bytes
    """The record as it is to be stored; see `trio_reactor.supervision.model.codec`."""
    forgets: tuple[Handle, ...] = ()
    """Stopped sessions that are deleted in the same transaction."""


class Contents(msgspec.Struct, frozen=True):
    """What a journal holds."""

    records: tuple[SessionRecord, ...]
    """In the order in which they were last written."""
    high_water: Mapping[Key, int]
    """The highest generation each key ever had; never forgotten."""


class Journal(Protocol):
    """An open journal, which only this supervisor uses, or its own part of a shared one."""

    async def load(self) -> Contents:
        """Everything in it; of a shared one, what earlier incarnations of this host hold.

        Raises:
            RecordUnreadable: A record is damaged or newer; nothing was overwritten.
            StoreError: It could not be read.
        """
        ...

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        """Make the changes durable, in their order, in one transaction.

        A session's first record (phase `Open`) raises its key's highest generation to its own, and
        is refused unless that is one more than it was.  A later one takes the place of the one
        before.  What one change is refused for is its own: the others are made all the same.

        It is called shielded from cancellation and must end by itself; once it returns, what it
        took is durable.  Always a checkpoint.

        Returns:
            For each change, `None` if it is durable, or why it alone was refused:
            `StaleSession` or `RecordRefused`.

        Raises:
            StoreError: None of them was made, or nobody can know (`outcome`).
        """
        ...


class Store(Protocol):
    """Where a journal is."""

    def open(self) -> AbstractAsyncContextManager[Journal]:
        """Own the journal exclusively, or this host's part of a shared one, for a block.

        Entering raises:
            StoreBusy: Another supervisor has it.
            StoreUnusable: It is not such a journal, or damaged, read-only or of another version;
                nothing was changed.
            StoreFailed: It could not be reached or made.
        """
        ...


class KeyFacts(msgspec.Struct, frozen=True):
    """What a shared journal holds of one key."""

    generation: int
    """The highest it ever had; 0: none."""
    host: str
    """The incarnation that had that; empty if none."""
    record: SessionRecord | None
    """Its newest record, unless that was forgotten."""


class HostFacts(msgspec.Struct, frozen=True):
    """What a shared journal holds of one incarnation of a host."""

    incarnation: str
    name: str
    """Which host, the same over its incarnations."""
    beats: int
    """How often it was heard of."""
    lease: float
    """Seconds from a beat that it may hold anything."""
    fenced: bool
    """Whether it may write no more; what it still holds may be taken."""
    timeline: str = ""
    """Which history of the database it was read in: no wait outlasts a failover to another."""


@runtime_checkable
class SharedJournal(Journal, Protocol):
    """A journal that supervisors on several machines share; each fences what it writes.

    Every commit is refused whole, with `HostFenced`, once this incarnation is fenced.  A session's
    first record is refused, as `StaleSession`, also while another incarnation that is not fenced
    has the key with a session that has not stopped; a later record of such a session too.

    `beat`, and `look`, `host` and `fence`, are called from other tasks than `commit`, and at any
    time.  Cancelling one leaves it, done or not; each is harmless if it is done twice.
    """

    @property
    def incarnation(self) -> str:
        """This start of this host's supervisor; never used again."""
        ...

    @property
    def lease(self) -> float:
        """Seconds from a beat that this host may hold anything."""
        ...

    async def beat(self) -> bool:
        """Say that this host lives; returns `False` if it is fenced.

        Raises:
            StoreFailed: The journal could not be reached, or nobody knows whether it was told.
        """
        ...

    async def look(self, key: Key, /) -> KeyFacts:
        """What is there of a key, whoever holds it."""
        ...

    async def host(self, incarnation: str, /) -> HostFacts | None:
        """What is there of an incarnation."""
        ...

    async def fence(self, seen: HostFacts, /) -> bool:
        """Fence an incarnation that was not heard of since it was seen like that.

        Returns:
            Whether it is fenced now; `False`: it was heard of, or the database began another
            history, and every wait starts again.
        """
        ...
