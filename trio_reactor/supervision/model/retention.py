"""Which stopped sessions are forgotten."""

from __future__ import annotations

from collections.abc import Iterable

from .keys import Handle
from .records import SessionRecord, Stopped

__all__ = ["evicted"]


def evicted(records: Iterable[SessionRecord], *, max_stopped: int) -> tuple[Handle, ...]:
    """The stopped sessions beyond the bound, oldest first.

    Args:
        records: All of them, in the order in which they became what they are.
        max_stopped: How many that are stopped are kept.
    """
    stopped = [record.handle for record in records if isinstance(record.phase, Stopped)]
    return tuple(stopped[: max(0, len(stopped) - max_stopped)])
