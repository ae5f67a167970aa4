"""What several tasks may wait for, and comes once: a value, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast, final

import trio

__all__ = ["Outcome"]

T = TypeVar("T")


@final
class Outcome(Generic[T]):
    """A value or a failure that is settled once, by whoever is first.

    A failure is given as what makes it, so that each who waits gets one of its own: one exception
    object raised to many grows its traceback with each of them.
    """

    __slots__ = ("_event", "_failing", "_settled", "_value")

    def __init__(self) -> None:
        self._settled = False
        self._value: T | None = None
        self._failing: Callable[[], BaseException] | None = None
        self._event: trio.Event | None = None

    @property
    def settled(self) -> bool:
        """Whether it is known."""
        return self._settled

    def set(self, value: T) -> None:
        """Settle it with a value; nothing if it is settled."""
        if not self._settled:
            self._value = value
            self._settle()

    def fail(self, failing: Callable[[], BaseException]) -> None:
        """Settle it with a failure, made afresh for each who waits; nothing if it is settled."""
        if not self._settled:
            self._failing = failing
            self._settle()

    async def wait(self) -> T:
        """Sleep until it is settled; always a checkpoint.  Cancelling only leaves.

        Raises:
            BaseException: The failure, if that is what came.
        """
        if self._settled:
            await trio.lowlevel.checkpoint()
        else:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()
        if self._failing is not None:
            raise self._failing()
        return cast("T", self._value)

    def _settle(self) -> None:
        self._settled = True
        if self._event is not None:
            self._event.set()
