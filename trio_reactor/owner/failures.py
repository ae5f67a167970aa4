"""The record of what went wrong, each failure once, until somebody has received it.

A defect is always told by close.  An expected failure is told by close only if nobody received it:
a caller to whom it was raised, or who listens for the loss of that thing, has had it.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable

from .verdict import remaining

__all__ = ["FailureLog"]


class FailureLog:
    """What close will tell.

    Args:
        bound: Failures that are kept; more are only counted.  A defect takes the place of an
            expected failure.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._kept: dict[Hashable, BaseException] = {}
        self._not_kept: weakref.WeakSet[Hashable] | None = None
        """What those that were omitted come from; made for the first, for most have none."""
        self.omitted = 0

    def __len__(self) -> int:
        return len(self._kept)

    def defect(self, failure: BaseException, source: Hashable = None) -> None:
        """Keep a failure that close tells whoever else had it.

        Args:
            failure: What went wrong.
            source: What it went wrong with, if nobody has heard of it yet.
        """
        if len(self._kept) >= self._bound and not self._make_room():
            self.omitted += 1
        else:
            self._kept[_Defect(source)] = failure

    def expected(self, source: Hashable, failure: BaseException) -> None:
        """Keep the failure of this source until somebody has received it."""
        if len(self._kept) >= self._bound:
            self._omit(source)
        else:
            self._kept[source] = failure

    def received(self, source: Hashable) -> None:
        """Somebody has had the failure of this source."""
        omitted = self._not_kept
        if self._kept.pop(source, None) is None and omitted is not None and source in omitted:
            omitted.discard(source)
            self.omitted -= 1

    def unreceived(self, terminal: BaseException | None) -> list[BaseException]:
        """What is kept but the terminal failure, each exception once, in the order it came in."""
        return remaining(self._kept.values(), (terminal,))

    def sources(self) -> Iterable[Hashable]:
        """What the failures that are kept come from, where that is known."""
        return [key.source if isinstance(key, _Defect) else key for key in self._kept]

    def _make_room(self) -> bool:
        for source in reversed(self._kept):
            if not isinstance(source, _Defect):
                del self._kept[source]
                self._omit(source)
                return True
        return False

    def _omit(self, source: Hashable) -> None:
        self.omitted += 1
        if self._not_kept is None:
            self._not_kept = weakref.WeakSet()
        self._not_kept.add(source)


class _Defect:
    """The key of a defect, which nobody takes away from close by receiving it."""

    __slots__ = ("source",)

    def __init__(self, source: Hashable) -> None:
        self.source = source
