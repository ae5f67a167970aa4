"""Plain sources for the tests: lines that can be used, lost, and told to end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from trio_reactor.errors import Lost
from trio_reactor.renewal import Cleanup, Predecessor, RenewalOptions

__all__ = ["Exchange", "Line", "options"]


class Line:
    """A source that is used directly; it ends when it is told to."""

    def __init__(self, number: int, lifetime: float | None, close_delay: float) -> None:
        self.id = f"line-{number}"
        self.number = number
        self.lifetime = lifetime
        self.closed_at: float | None = None
        self._close_delay = close_delay
        self._lost = trio.Event()
        self._why: BaseException | None = None

    @property
    def open(self) -> bool:
        """Whether it can be used."""
        return self.closed_at is None and not self._lost.is_set()

    def lose(self, why: BaseException | None = None) -> None:
        """Let it end by itself."""
        self._why = why
        self._lost.set()

    async def wait_lost(self) -> None:
        await self._lost.wait()
        if self._why is not None:
            raise self._why

    async def close(self) -> Cleanup:
        if self.closed_at is None:
            self.closed_at = trio.current_time()
        await trio.sleep(self._close_delay)
        return Cleanup.of(self.id, allocation="owned", termination="confirmed", connection="closed")


class Exchange:
    """Opens lines, and knows of all of them; a `SourceOpener`."""

    def __init__(
        self,
        *,
        lifetime: float | None = 60.0,
        open_delay: float = 0.5,
        close_delay: float = 0.0,
        failures: int = 0,
    ) -> None:
        self.lifetime = lifetime
        self.open_delay = open_delay
        self.failures = failures
        self.lines: list[Line] = []
        self._close_delay = close_delay
        self.alive = 0
        self.most_alive = 0

    @property
    def newest(self) -> Line:
        """The last that was opened."""
        return self.lines[-1]

    @asynccontextmanager
    async def __call__(self, _: Predecessor) -> AsyncGenerator[Line]:
        await trio.sleep(self.open_delay if self.lines else 0)
        if self.lines and self.failures:
            self.failures -= 1
            raise Lost("no line")
        line = Line(len(self.lines) + 1, self.lifetime, self._close_delay)
        self.lines.append(line)
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        try:
            yield line
        finally:
            self.alive -= 1


def options(**more: float) -> RenewalOptions:
    """Those of the tests, with some of their own."""
    given = {"lead": 10.0, "jitter": 0.0, "pause_jitter": 0.0, "stable_after": 5.0}
    return RenewalOptions.model_validate(given | more)
