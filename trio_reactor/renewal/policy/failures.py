"""How many sources failed in a row, and how long to pause before the next.

A source failed if it could not be opened or prepared, or if it ended by itself before it had become
a good one.  Only a source that lived longer begins the count anew; a successful open alone does
not, so sources that open and die at once are found out.  Nothing is totalled over a life: a chain
that runs for months and fails once a day never comes closer to its end.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from trio_reactor.renewal.options import RenewalOptions

__all__ = ["FailureCount", "counts_as_failed", "pause"]

_MAX_DOUBLINGS: Final = 64


class FailureCount(msgspec.Struct, frozen=True):
    """The failures in a row, as a value: each method returns the next one."""

    consecutive: int = 0
    permanent: bool = False
    """Whether a refusal was declared permanent; that never falls again."""
    last_at: float | None = None
    """When the last of them was, on the clock."""

    def exhausted(self, max_failures: int) -> bool:
        """Whether it is over: too many in a row, or one that was permanent."""
        return self.permanent or self.consecutive >= max_failures

    def settled(self, now: float, stable_at: float | None) -> FailureCount:
        """The count after a look at the source on air.

        Args:
            now: The time, on the clock.
            stable_at: From when that source is a good one; `None` if there is none.  What failed
                since that instant is still in a row.
        """
        if self.consecutive == 0 or stable_at is None or now < stable_at:
            return self
        if self.last_at is not None and self.last_at >= stable_at:
            return self
        return FailureCount(permanent=self.permanent)

    def failed(
        self, now: float, *, stable_at: float | None = None, permanent: bool = False
    ) -> FailureCount:
        """The count after an open or a preparation failed.

        Args:
            now: When, on the clock.
            stable_at: From when the source on air is a good one; `None` if there is none.
            permanent: Whether trying again was declared pointless.
        """
        before = self.settled(now, stable_at)
        return FailureCount(before.consecutive + 1, before.permanent or permanent, now)

    def ended(self, now: float, *, stable_at: float, wanted: bool = False) -> FailureCount:
        """The count after a source ended.

        Its own end is what counts, also where a successor was ready for it: a source that announces
        its going as soon as it is opened would otherwise have others opened without end.

        Args:
            now: When, on the clock.
            stable_at: From when it was a good one.
            wanted: Whether the application wanted it to end.
        """
        if wanted or not counts_as_failed(now, stable_at):
            return self.settled(now, stable_at)
        return FailureCount(self.consecutive + 1, self.permanent, now)


def counts_as_failed(lived: float, stable_after: float) -> bool:
    """Whether a source that ended by itself after this long counts as one that failed.

    Both in seconds since it was opened, or both instants on the clock.
    """
    return lived < stable_after


def pause(consecutive: int, options: RenewalOptions, random: Random) -> float:
    """Seconds before another attempt after so many failures in a row; 0 after none.

    It doubles from `first_pause` to `max_pause` and is shortened by chance, so that a fleet which
    failed together does not return together.
    """
    if consecutive < 1:
        return 0.0
    doublings = min(consecutive - 1, _MAX_DOUBLINGS)
    longest = min(options.max_pause, options.first_pause * 2.0**doublings)
    return longest * (1.0 - options.pause_jitter * random.random())
