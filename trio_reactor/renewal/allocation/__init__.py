"""Durable records of what is allocated, so that nothing paid for is left running unseen.

Before a source is opened, the intent is recorded under a key; before it is used, its identity and
its latest end; and once its end is proven the record is deleted.  A process that comes after a dead
one finds what is recorded, and adopts or terminates it.

Read `records` for what is kept and by whom, `recovery` for what becomes of it, pure, and `journal`
for the file.
"""

from .allocations import Allocations, Terminate
from .journal import SqliteJournal, open_journal
from .records import (
    AllocationJournal,
    AllocationRecord,
    JournalBusy,
    JournalError,
    JournalFailed,
    JournalUnusable,
)
from .recovery import Settlement

__all__ = [
    "AllocationJournal",
    "AllocationRecord",
    "Allocations",
    "JournalBusy",
    "JournalError",
    "JournalFailed",
    "JournalUnusable",
    "Settlement",
    "SqliteJournal",
    "Terminate",
    "open_journal",
]
