"""What the event channel costs: to its publisher, and beside Trio's memory channels."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

import trio
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel
from trio_reactor.events import Envelope, Event
from trio_reactor.world import SystemWorld

from .harness import Benchmark

__all__ = ["BENCHMARKS", "WakeAllChannel"]

BURST = 1_000
CROWD = 1_000
READERS = 16
CAPACITY = 4_096


class Ticked(Event, frozen=True):
    """A small event, as most are."""

    number: int
    source: str = "clock"


TICK = Ticked(1)


class _Batches(Protocol):
    """Whoever gives what has come in one go."""

    async def receive_batch(self) -> Sequence[object]: ...


class WakeAllChannel:
    """The straightforward variant: one list, a cursor each, and publish wakes them all."""

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

    def subscribe(self) -> WakeAllSubscription:
        """Receive everything from the beginning."""
        return WakeAllSubscription(self._events, self._lot)


class WakeAllSubscription:
    """A cursor into the list of events."""

    def __init__(self, events: list[Envelope[Event]], lot: trio.lowlevel.ParkingLot) -> None:
        self._events = events
        self._lot = lot
        self._cursor = 0

    async def receive_batch(self) -> list[Envelope[Event]]:
        """Everything that has come, once there is something."""
        if self._cursor == len(self._events):
            await self._lot.park()
        else:
            await trio.lowlevel.checkpoint()
        batch = self._events[self._cursor :]
        self._cursor = len(self._events)
        return batch


# ------------------------------------------------------------------ a burst, to a sleeping crowd


async def _burst(
    publish: Callable[[Event], object], subscribe: Callable[[], _Batches], readers: int
) -> tuple[float, float]:
    """Microseconds an event: of publishing a burst, and of that with its delivery to everybody."""

    async def read(subscription: _Batches) -> None:
        taken = 0
        while taken < BURST:
            taken += len(await subscription.receive_batch())

    async with trio.open_nursery() as nursery:
        for _ in range(readers):
            nursery.start_soon(read, subscribe())
        await wait_all_tasks_blocked()
        began = time.perf_counter()
        for _ in range(BURST):
            publish(TICK)
        published = time.perf_counter()
    delivered = time.perf_counter()
    return (published - began) / BURST * 1e6, (delivered - began) / BURST * 1e6


async def _ours(readers: int) -> tuple[float, float]:
    channel = EventChannel()
    return await _burst(channel.publish, partial(channel.subscribe, capacity=2 * BURST), readers)


async def _wake_all(readers: int) -> tuple[float, float]:
    channel = WakeAllChannel()
    return await _burst(channel.publish, channel.subscribe, readers)


# -------------------------------------------------------------------------- delivery to 16 readers


async def _deliver(
    publish: Callable[[], object],
    readers: Sequence[Callable[[int], Awaitable[None]]],
    *,
    burst: int,
    turns: int,
    pauses: int,
) -> float:
    """Events a second, over all readers, from the first publish until each has had everything.

    After each burst the publisher lets others run for as many steps as a reader needs to catch up.
    """
    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(reader, burst * turns)
        await wait_all_tasks_blocked()
        began = time.perf_counter()
        for _ in range(turns):
            for _ in range(burst):
                publish()
            for _ in range(pauses):
                await trio.lowlevel.checkpoint()
    return burst * turns * len(readers) / (time.perf_counter() - began)


async def _one_by_one(receive: Callable[[], Awaitable[object]], total: int) -> None:
    for _ in range(total):
        await receive()


async def _by_batches(subscription: _Batches, total: int) -> None:
    taken = 0
    while taken < total:
        taken += len(await subscription.receive_batch())


async def _channel_one_by_one(burst: int, turns: int) -> float:
    channel = EventChannel()
    readers = [
        partial(_one_by_one, channel.subscribe(capacity=CAPACITY).receive) for _ in range(READERS)
    ]
    publish = partial(channel.publish, TICK)
    return await _deliver(publish, readers, burst=burst, turns=turns, pauses=burst)


async def _channel_batches(burst: int, turns: int) -> float:
    channel = EventChannel()
    readers = [partial(_by_batches, channel.subscribe(capacity=CAPACITY)) for _ in range(READERS)]
    publish = partial(channel.publish, TICK)
    return await _deliver(publish, readers, burst=burst, turns=turns, pauses=2)


async def _memory_channels(burst: int, turns: int) -> float:
    pairs = [trio.open_memory_channel[Event](CAPACITY) for _ in range(READERS)]
    senders = [sender for sender, _ in pairs]

    def publish() -> None:
        for sender in senders:
            sender.send_nowait(TICK)

    readers = [partial(_one_by_one, receiver.receive) for _, receiver in pairs]
    return await _deliver(publish, readers, burst=burst, turns=turns, pauses=burst)


def _delivery(
    name: str,
    subject: Callable[[int, int], Awaitable[float]],
    *,
    burst: int,
    turns: int,
    at_least: float,
) -> Benchmark:
    return Benchmark(
        name,
        "events/s",
        lambda: trio.run(subject, burst, turns),
        lambda: trio.run(_memory_channels, burst, turns),
        at_least=at_least,
        rounds=9,
    )


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark(
        "channel_publish_burst_1000_vs_1",
        "us/event",
        lambda: trio.run(_ours, CROWD)[0],
        lambda: trio.run(_ours, 1)[0],
        at_most=1.5,
        rounds=9,
    ),
    Benchmark(
        "channel_burst_total_vs_wake_all",
        "us/event",
        lambda: trio.run(_ours, CROWD)[1],
        lambda: trio.run(_wake_all, CROWD)[1],
        at_most=1.3,
        rounds=9,
    ),
    _delivery(
        "channel_deliver_16_vs_memory_channels",
        _channel_one_by_one,
        burst=1,
        turns=1_500,
        at_least=1.1,
    ),
    _delivery("channel_batches_16_burst_16", _channel_batches, burst=16, turns=250, at_least=8),
    _delivery("channel_batches_16_burst_100", _channel_batches, burst=100, turns=60, at_least=25),
)
