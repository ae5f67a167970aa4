"""Whether a supervisor can vouch for what it holds, and for how long it takes requests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Never, final

import trio

from trio_reactor.errors import Overflow
from trio_reactor.supervision.errors import SupervisorPoisoned

__all__ = ["Health"]

_log = logging.getLogger("trio_reactor.supervision")

_MAX_FAILURES: Final = 256


@final
class Health:
    """Poisoned by the first failure after which it could not be believed; it stays so.

    Args:
        name: The supervisor, for messages.
        on_poisoned: Called with the first failure, synchronously.
    """

    def __init__(self, name: str, on_poisoned: Callable[[BaseException], None]) -> None:
        self._name = name
        self._on_poisoned = on_poisoned
        self._failures: list[BaseException] = []
        self._omitted = 0
        self._poisoned = trio.Event()

    @property
    def failure(self) -> BaseException | None:
        """What poisoned it, if anything did."""
        return self._failures[0] if self._failures else None

    @property
    def failures(self) -> tuple[BaseException, ...]:
        """All that poisoned it; of those that are too many to keep, how many."""
        if not self._omitted:
            return tuple(self._failures)
        more = Overflow(f"{self._name}: {self._omitted} further failures", missed=self._omitted)
        return (*self._failures, more)

    def poison(self, failure: BaseException) -> None:
        """It cannot vouch for everything any more, for this reason."""
        if any(failure is known for known in self._failures):
            return
        if len(self._failures) >= _MAX_FAILURES:
            self._omitted += 1
            return
        self._failures.append(failure)
        _log.error("%s is poisoned: %s", self._name, type(failure).__name__)
        if len(self._failures) == 1:
            self._on_poisoned(failure)
            self._poisoned.set()

    def check(self) -> None:
        """Raise, afresh for every caller, if it is poisoned."""
        if self._failures:
            self._raise()

    async def wait(self) -> Never:
        """Sleep until it is poisoned, and raise that; always a checkpoint."""
        await self._poisoned.wait()
        self._raise()

    def _raise(self) -> Never:
        error = SupervisorPoisoned(f"{self._name} can no longer vouch for what it holds")
        raise error from self._failures[0]
