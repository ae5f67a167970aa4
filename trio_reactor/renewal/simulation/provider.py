"""Opens simulated sources, and knows of all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, final

import trio

from trio_reactor.renewal.source import OpenFailed, Predecessor
from trio_reactor.testing.faults import Faults
from trio_reactor.world import World

from .options import SimulationOptions
from .source import ReconnectableSource, Recorder, SimulatedSource

__all__ = ["SimulatedProvider"]

MAX_HEARD: Final = 65_536
"""Pieces of input that a provider keeps."""


@final
class SimulatedProvider:
    """Opens simulated sources, and knows of all of them; a `SourceOpener`.

    Args:
        world: Whose clock counts.
        options: How its sources behave; may be set anew for those to come.
        faults: What goes wrong; nothing by default.
        record: Hears what happens.
    """

    def __init__(
        self,
        world: World,
        options: SimulationOptions | None = None,
        *,
        faults: Faults | None = None,
        record: Recorder | None = None,
    ) -> None:
        self.world = world
        self.options = options or SimulationOptions()
        self.faults = faults or Faults()
        self._record = record
        self.refusing: Callable[[], OpenFailed] | None = None
        """Makes what every open is refused with from now on, if anything."""
        self.live: dict[str, SimulatedSource] = {}
        """The sources whose context managers have been entered and not been left."""
        self.attempts = 0
        """How many opens were begun."""
        self.opened = 0
        """How many succeeded."""
        self.closed = 0
        """How many sources ended because they were closed, confirmed."""
        self.left = 0
        """How many context managers were left."""
        self.dispatched = 0
        """How many requests for clips were sent."""
        self.heard: deque[tuple[str, bytes]] = deque(maxlen=MAX_HEARD)
        """The newest pieces of input that were heard, and by which source."""
        self.most_live = 0
        """The most sources there were at one time."""

    def __repr__(self) -> str:
        return f"<SimulatedProvider: {self.opened} opened, {len(self.live)} live>"

    def __call__(self, predecessor: Predecessor, /) -> AbstractAsyncContextManager[SimulatedSource]:
        """Open a source."""
        return self._open(predecessor)

    @property
    def newest(self) -> SimulatedSource:
        """The source that was opened last.

        Raises:
            LookupError: If none is live.
        """
        if not self.live:
            raise LookupError("no simulated source is live")
        return next(reversed(self.live.values()))

    def note(self, what: str, source: SimulatedSource) -> None:
        """Record what happened to a source."""
        if self._record is not None:
            self._record(what, source=source.id)

    @asynccontextmanager
    async def _open(self, predecessor: Predecessor) -> AsyncGenerator[SimulatedSource]:
        self.attempts += 1
        if self._record is not None:
            self._record("opening", cause=predecessor.cause)
        await self.faults.meet("open")
        if self.refusing is not None:
            raise self.refusing()
        with trio.CancelScope(shield=self.options.stubborn):
            await trio.sleep(self.options.open_delay)
        if self.options.exclusive and any(source.alive for source in self.live.values()):
            raise OpenFailed("another simulated source is alive", retryable=True)
        async with trio.open_nursery() as nursery:
            self.opened += 1
            kind = ReconnectableSource if self.options.reconnectable else SimulatedSource
            source = kind(self, self.opened, predecessor, nursery)
            self.live[source.id] = source
            self.most_live = max(self.most_live, len(self.live))
            self.note("opened", source)
            source.start()
            try:
                yield source
            finally:
                source.leave()
                del self.live[source.id]
                self.left += 1
                self.note("left", source)
                nursery.cancel_scope.cancel()
