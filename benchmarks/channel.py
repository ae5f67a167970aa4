"""What the event channel costs: to its publisher, and beside Trio's memory channels."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import trio

from trio_reactor.channel import EventChannel
from trio_reactor.events import Envelope, Event
from trio_reactor.world import SystemWorld

from .harness import Benchmark

__all__ = ["BENCHMARKS", "WakeAllChannel"]

BURST = 1_000
CROWD = 1_000
READERS = 16


class Ticked(Event):
    """A small event, as most are."""

    number: int
    source: str = "clock"


TICK = Ticked(1)


class WakeAllChannel:
    """The straightforward variant: one list of events, a cursor each, and publish wakes them all."""

    def __init__(self) -> None:
        self._world = SystemWorld()
        self._events: list[Envelope[Event]] = []
        self._lot = trio.lowlevel.ParkingLot()

    def publish(self, event: Event) -> int:
        """Put an event at the end, and wake everybody who sleeps."""
        seq = len(self._events)
        self._events.append(Envelope(seq, self._world.wall(), self._world.clock(), "", event))
        self._lot.unpark_all()
        return seq

    def subscribe(self, *, capacity: int) -> WakeAllSubscription:
        """Receive everything from the beginning."""
        return WakeAllSubscription(self._events, self._lot)


class WakeAllSubscription:
    """A cursor into the list of events."""

    def __init__(self, events: list[Envelope[Event]], lot: trio.lowlevel.ParkingLot) -> None:
        self._events = events
        self._lot = lot
        self._cursor = len(events)

    async def receive_batch(self) -> list[Envelope[Event]]:
        """All the events that are there; waits for the first."""
        if self._cursor < len(self._events):
            await trio.lowlevel.checkpoint()
        else:
            await self._lot.park()
        batch = self._events[self._cursor :]
        self._cursor += len(batch)
        return batch
