"""The account of what failed in a row: when the next source may be opened, and when it is over."""

from __future__ import annotations

from random import Random
from typing import final

from trio_reactor.renewal.errors import SourcesExhausted, refusal
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.policy.failures import FailureCount, pause
from trio_reactor.renewal.policy.lifespan import Lifespan

__all__ = ["FailureTally"]


@final
class FailureTally:
    """Keeps the count of one chain.

    Args:
        options: `max_failures` and the pauses count.
        random: Where the pauses' jitter is drawn from.
    """

    def __init__(self, options: RenewalOptions, random: Random) -> None:
        self._options = options
        self._random = random
        self._count = FailureCount()
        self._last: BaseException | None = None
        self.retry_at: float | None = None
        """Before when nothing may be opened, on the clock."""

    @property
    def consecutive(self) -> int:
        """Failures in a row."""
        return self._count.consecutive

    @property
    def last(self) -> BaseException | None:
        """The last failure in a row, if there is one."""
        return self._last

    @property
    def exhausted(self) -> bool:
        """Whether it is over."""
        return self._count.exhausted(self._options.max_failures)

    def settle(self, now: float, on_air: Lifespan | None) -> None:
        """Look at the source on air: once it is a good one the count begins anew."""
        self._count = self._count.settled(now, None if on_air is None else on_air.stable_at)
        if self._count.consecutive == 0 and not self._count.permanent:
            self._last = None  # it would keep alive what its traceback knows

    def open_failed(self, now: float, on_air: Lifespan | None, failure: BaseException) -> None:
        """Count a source that could not be opened."""
        refused = refusal(failure)
        self._counted(
            self._count.failed(
                now,
                stable_at=None if on_air is None else on_air.stable_at,
                permanent=refused is not None and refused.permanent,
            ),
            now,
            failure,
        )

    def source_ended(
        self, now: float, span: Lifespan, failure: BaseException, *, wanted: bool
    ) -> None:
        """Count a source that ended, if it was not a good one and nobody wanted it to."""
        count = self._count.ended(now, stable_at=span.stable_at, wanted=wanted)
        self._counted(count, now, failure)
        early = not wanted and now < span.early_until
        if early and (self.retry_at is None or self.retry_at <= now):
            self.retry_at = now + pause(1, self._options, self._random)

    def failure(self) -> SourcesExhausted:
        """What ends the chain."""
        exhausted = SourcesExhausted(
            "a source refused for good"
            if self._count.permanent
            else f"{self._count.consecutive} sources failed in a row"
        )
        exhausted.__cause__ = self._last
        return exhausted

    def _counted(self, count: FailureCount, now: float, failure: BaseException) -> None:
        before, self._count = self._count, count
        # The same number can still be one more, after a count that began anew.
        if count.last_at != before.last_at or count.consecutive > before.consecutive:
            self._last = failure
            self.retry_at = now + pause(count.consecutive, self._options, self._random)
