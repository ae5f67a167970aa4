"""What the event channel costs: its publisher, and its readers beside Trio's memory channels.

In all of them the readers sleep when the first event comes.  The publisher that is set beside
memory channels publishes a burst each time it runs, and takes its turn with the readers by one
checkpoint after each; what is measured is how many events a second reach the readers, until the
last of them has had the last.  *In turn* means that it also waits until everybody has had a burst
before it publishes the next, which is harder on the channel: each burst is then a wake for each
reader, and none shares one with the burst before.

All of this is work for one processor, so it is measured in processor time: what else the machine
does then makes less of a difference.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import trio
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel
from trio_reactor.events import Envelope, Event
from trio_reactor.world import SystemWorld

from .harness import Benchmark

__all__ = ["BENCHMARKS"]

CROWD = 1_000
BURST = 1_000
READERS = 16


class Ticked(Event, frozen=True):
    """A small event, as most are."""

    number: int
    source: str = "clock"


TICK = Ticked(1)


# ------------------------------------------------------------------- one publisher, a large crowd


class Batches(Protocol):
    """What a reader of either kind of channel does."""

    async def receive_batch(self) -> list[Envelope[Event]]:
        """All the events that are there, and at least one."""
        ...


class WakeAll:
    """The straightforward variant: a list of events, a cursor each, and publish wakes them all."""

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

    def subscribe(self) -> WakeAllReader:
        """Receive everything from now on."""
        return WakeAllReader(self._events, self._lot)


class WakeAllReader:
    """A cursor into the list of events."""

    def __init__(self, events: list[Envelope[Event]], lot: trio.lowlevel.ParkingLot) -> None:
        self._events = events
        self._lot = lot
        self._cursor = len(events)

    async def receive_batch(self) -> list[Envelope[Event]]:
        """All the events that are there, and at least one."""
        if self._cursor < len(self._events):
            await trio.lowlevel.checkpoint()
        else:
            await self._lot.park()
        batch = self._events[self._cursor :]
        self._cursor += len(batch)
        return batch


async def _burst(
    publish: Callable[[Event], int], readers: list[Batches], *, delivered: bool
) -> float:
    """Microseconds an event of a burst, to publish it or until everybody has had it."""

    async def read(reader: Batches) -> None:
        had = 0
        while had < BURST:
            had += len(await reader.receive_batch())

    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(read, reader)
        await wait_all_tasks_blocked()
        begun = time.process_time()
        for _ in range(BURST):
            publish(TICK)
        published = time.process_time()
    ended = time.process_time()
    return ((ended if delivered else published) - begun) / BURST * 1e6


def _channel_burst(readers: int, *, delivered: bool) -> float:
    async def main() -> float:
        channel = EventChannel()
        subscriptions: list[Batches] = [channel.subscribe(capacity=BURST) for _ in range(readers)]
        return await _burst(channel.publish, subscriptions, delivered=delivered)

    return trio.run(main)


def _wake_all_burst() -> float:
    async def main() -> float:
        channel = WakeAll()
        readers: list[Batches] = [channel.subscribe() for _ in range(CROWD)]
        return await _burst(channel.publish, readers, delivered=True)

    return trio.run(main)


# ---------------------------------------------------------------------- beside memory channels


class Turn:
    """Lets the publisher wait until every reader has had the burst."""

    def __init__(self) -> None:
        self._had = 0
        self._all = trio.Event()

    def had(self) -> None:
        """One reader has had it."""
        self._had += 1
        if self._had == READERS:
            self._all.set()

    async def wait(self) -> None:
        """Wait for all of them, and begin anew."""
        await self._all.wait()
        self._had = 0
        self._all = trio.Event()


async def _rate(
    publish: Callable[[], object],
    readers: list[Callable[[int], Awaitable[None]]],
    burst: int,
    bursts: int,
    *,
    in_turn: bool,
) -> float:
    """Events a second that reach all the readers together; each reads as many as it is told."""
    turn = Turn()

    async def read(reader: Callable[[int], Awaitable[None]]) -> None:
        if in_turn:
            for _ in range(bursts):
                await reader(burst)
                turn.had()
        else:
            await reader(burst * bursts)

    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(read, reader)
        await wait_all_tasks_blocked()
        begun = time.process_time()
        for _ in range(bursts):
            for _ in range(burst):
                publish()
            if in_turn:
                await turn.wait()
            else:
                await trio.lowlevel.checkpoint()
    return burst * bursts * len(readers) / (time.process_time() - begun)


async def _read_singly(receive: Callable[[], Awaitable[object]], count: int) -> None:
    for _ in range(count):
        await receive()


async def _read_batches(subscription: Batches, count: int) -> None:
    while count > 0:
        count -= len(await subscription.receive_batch())


def _channel_rate(
    burst: int, bursts: int, *, batches: bool = False, in_turn: bool = False
) -> float:
    async def main() -> float:
        channel = EventChannel()
        subscriptions = [channel.subscribe(capacity=burst * bursts) for _ in range(READERS)]
        readers: list[Callable[[int], Awaitable[None]]] = [
            partial(_read_batches, subscription)
            if batches
            else partial(_read_singly, subscription.receive)
            for subscription in subscriptions
        ]
        publish = partial(channel.publish, TICK)
        return await _rate(publish, readers, burst, bursts, in_turn=in_turn)

    return trio.run(main)


def _memory_rate(burst: int, bursts: int, *, in_turn: bool = False) -> float:
    async def main() -> float:
        channels = [trio.open_memory_channel[Ticked](burst * bursts) for _ in range(READERS)]
        senders = [sender for sender, _ in channels]

        def publish() -> None:
            for sender in senders:
                sender.send_nowait(TICK)

        readers: list[Callable[[int], Awaitable[None]]] = [
            partial(_read_singly, receiver.receive) for _, receiver in channels
        ]
        return await _rate(publish, readers, burst, bursts, in_turn=in_turn)

    return trio.run(main)


def _beside_memory_channels(
    name: str,
    burst: int,
    bursts: int,
    *,
    batches: bool = False,
    in_turn: bool = False,
    at_least: float,
    rounds: int = 9,
) -> Benchmark:
    return Benchmark(
        name,
        "events/s",
        # Batches are so quick that there have to be more of them to be measured well.
        partial(
            _channel_rate,
            burst,
            4 * bursts if batches else bursts,
            batches=batches,
            in_turn=in_turn,
        ),
        baseline=partial(_memory_rate, burst, bursts, in_turn=in_turn),
        at_least=at_least,
        rounds=rounds,
    )


BENCHMARKS = (
    Benchmark(
        "channel_publish_burst_1000_vs_1",
        "us/event",
        partial(_channel_burst, CROWD, delivered=False),
        baseline=partial(_channel_burst, 1, delivered=False),
        at_most=1.5,
        rounds=9,
    ),
    Benchmark(
        "channel_burst_total_vs_wake_all",
        "us/event",
        partial(_channel_burst, CROWD, delivered=True),
        baseline=_wake_all_burst,
        at_most=1.3,
        rounds=9,
    ),
    _beside_memory_channels("channel_deliver_16_vs_memory_channels", 1, 1_600, at_least=1.1),
    _beside_memory_channels("channel_batches_16_burst_16", 16, 100, batches=True, at_least=8),
    _beside_memory_channels("channel_batches_16_burst_100", 100, 16, batches=True, at_least=25),
    # The harder ones: what is received one by one out of a burst costs little beside the checkpoint
    # that every receive is, on both sides; and in turn every burst costs every reader a sleep.
    _beside_memory_channels("channel_deliver_16_burst_16", 16, 100, at_least=0.8, rounds=5),
    _beside_memory_channels(
        "channel_deliver_16_in_turn", 1, 1_600, in_turn=True, at_least=0.8, rounds=5
    ),
    _beside_memory_channels(
        "channel_batches_16_burst_16_in_turn",
        16,
        100,
        batches=True,
        in_turn=True,
        at_least=4.5,
        rounds=5,
    ),
    _beside_memory_channels(
        "channel_batches_16_burst_100_in_turn",
        100,
        16,
        batches=True,
        in_turn=True,
        at_least=18,
        rounds=5,
    ),
)
