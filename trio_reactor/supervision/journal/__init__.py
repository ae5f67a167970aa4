"""The one way into a store: transitions in order, many to a commit.

A transition is submitted synchronously, in the step that decided it, and is durable when its
callback is called.  One task writes: what is submitted while it has nothing to do is committed at
once, and what comes meanwhile forms the next group.
"""

from __future__ import annotations

from .write import Write
from .writer import DEFAULT_MAX_BATCH, DEFAULT_MAX_TRANSITIONS, Writer, WriterStatistics

__all__ = [
    "DEFAULT_MAX_BATCH",
    "DEFAULT_MAX_TRANSITIONS",
    "Write",
    "Writer",
    "WriterStatistics",
]
