"""Opens simulated sources, and knows of all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, final

import msgspec
import trio

from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import OpenFailed, Predecessor
from trio_reactor.testing.faults import Faults
from trio_reactor.world import World

from .options import SimulationOptions
from .source import ReconnectableSource, Recorder, SimulatedSource

__all__ = ["SimulatedAllocation", "SimulatedProvider"]


class SimulatedAllocation(msgspec.Struct, frozen=True):
    """A session as its provider knows it."""

    key: str | None
    """What it was asked for under."""
    ends_at: float | None
    """When it ends, on the clock; `None` for no end."""


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
        self.terminated: list[str] = []
        """The keys of the records for which `terminate` was asked."""
        self._left_behind = 0
        self.heard: deque[tuple[str, bytes]] = deque(maxlen=MAX_HEARD)
        """The newest pieces of input that were heard, and by which source."""
        self.most_live = 0
        """The most sources there were at one time."""
        self.allocated: dict[str, SimulatedAllocation] = {}
        """The sessions that have not ended, by identity; also those that nobody is connected to."""

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

    def note(self, what: str, source: SimulatedSource, /, **about: object) -> None:
        """Record what happened to a source."""
        if self._record is not None:
            self._record(what, source=source.id, **about)

    def ended(self, source: SimulatedSource) -> None:
        """Hear that the session of a source is over."""
        self.allocated.pop(source.id, None)

    # ----------------------------------------------------------------- what outlives a process

    def leave_behind(
        self, *, identified: bool = True, lifetime: float | None = 60.0
    ) -> AllocationRecord:
        """Allocate a session as a process does that dies then; returns what it has recorded.

        Args:
            identified: Whether it died after it had recorded the identity.
            lifetime: Seconds that the session lives from now; `None` for no end.
        """
        self._left_behind += 1
        identity, key = f"left-behind-{self._left_behind}", self.world.token()
        wall = self.world.wall()
        self._allocate(identity, key, lifetime)
        if not identified:
            return AllocationRecord(key, "renewal", wall)
        ends_by = None if lifetime is None else wall + lifetime
        return AllocationRecord(
            key, "renewal", wall, identity, {"session": identity}, ends_by=ends_by
        )

    async def terminate(self, record: AllocationRecord) -> Cleanup:
        """End what is recorded, found by its identity or by its key; it may be gone already."""
        await self.faults.meet("terminate")
        self.terminated.append(record.key)
        self._end_of_time()
        for identity, allocation in list(self.allocated.items()):
            if identity == record.source or allocation.key == record.key:
                del self.allocated[identity]
                return _ended(identity)
        return Cleanup.of(
            record.source, allocation="none", termination="not-needed", connection="never-opened"
        )

    def _allocate(self, identity: str, key: str | None, lifetime: float | None) -> None:
        ends_at = None if lifetime is None else self.world.clock() + lifetime
        self.allocated[identity] = SimulatedAllocation(key, ends_at)

    def _left_of(self, identity: str) -> float | None:
        """Seconds that a session still has which is to be adopted."""
        allocation = self.allocated.get(identity)
        if allocation is None:
            raise OpenFailed("the session is over", cleanup=_ended(identity))
        ends_at = allocation.ends_at
        return None if ends_at is None else ends_at - self.world.clock()

    def _end_of_time(self) -> None:
        """End the sessions whose lives are over and whom nobody is connected to."""
        for identity, allocation in list(self.allocated.items()):
            over = allocation.ends_at is not None and allocation.ends_at <= self.world.clock()
            if over and identity not in self.live:
                del self.allocated[identity]

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
        if predecessor.resumption is not None and self.options.refuses_resumption:
            raise OpenFailed("the simulated provider does not resume", resumption_refused=True)
        self._end_of_time()
        identity, lifetime = None, self.options.lifetime
        if predecessor.adopt is not None:
            identity = predecessor.adopt.source or ""
            lifetime = self._left_of(identity)
        if self.options.exclusive and self.allocated.keys() - {identity}:
            raise OpenFailed("another simulated source is alive", retryable=True)
        async with trio.open_nursery() as nursery:
            self.opened += 1
            kind = ReconnectableSource if self.options.reconnectable else SimulatedSource
            source = kind(self, self.opened, predecessor, nursery, identity, lifetime)
            self._allocate(source.id, predecessor.key, lifetime)
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


def _ended(identity: str) -> Cleanup:
    return Cleanup.of(
        identity, allocation="owned", termination="confirmed", connection="never-opened"
    )
