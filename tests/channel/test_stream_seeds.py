"""Two hundred seeds of a world around one channel: nobody loses, doubles or disorders an event."""

from __future__ import annotations

import trio
from stream_story import Loud, Ping, Pong

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Closed, Failed, Overflow
from trio_reactor.events import Envelope, Event
from trio_reactor.testing import Schedule, Simulation, run, simulate

SEEDS = 200
FILTERS: list[tuple[type[Event], ...]] = [(), (), (Ping,), (Pong,), (Loud, Pong)]


class Follower:
    """Reads with interruptions; checks that what it gets are the next events that are for it."""

    def __init__(
        self, sim: Simulation, log: list[Envelope[Event]], only: str | None, types: tuple[type, ...]
    ) -> None:
        self.sim = sim
        self.log = log
        self.only = only
        self.types = types or (Event,)
        self.position = len(log)

    def next(self) -> list[Envelope[Event]]:
        return [
            envelope
            for envelope in self.log[self.position :]
            if isinstance(envelope.event, self.types) and self.only in (None, envelope.handle)
        ]

    def took(self, batch: list[Envelope[Event]]) -> None:
        expected = self.next()[: len(batch)]
        assert [envelope.seq for envelope in batch] == [envelope.seq for envelope in expected]
        self.position = batch[-1].seq

    async def follow(self, subscription: Subscription[Event], capacity: int) -> None:
        chance = self.sim.random
        while True:
            with trio.move_on_after(chance.choice([0.0, 0.001, 0.5, 3.0])) as scope:
                try:
                    match chance.randrange(3):
                        case 0:
                            self.took([await subscription.receive()])
                        case 1:
                            self.took(await subscription.receive_batch(chance.choice([None, 2])))
                        case _:
                            try:
                                self.took([subscription.receive_nowait()])
                            except trio.WouldBlock:
                                assert not self.next()
                                await trio.sleep(chance.choice([0.0, 1.0]))
                except Overflow as overflow:
                    missed = overflow.missed
                    assert capacity < missed <= len(self.log) - self.position
                    self.sim.record("overflow")
                    return
                except Closed:
                    self.sim.record("closed")
                    return
                except (trio.EndOfChannel, Failed) as end:
                    left = [each for each in self.next() if self.only is None]
                    assert not left
                    self.sim.record("ended" if isinstance(end, trio.EndOfChannel) else "failed")
                    return
            if scope.cancelled_caught:
                self.sim.record("cancelled")
            if chance.random() < 0.2:
                await trio.sleep(chance.choice([0.0, 0.001, 2.0]))


async def world(sim: Simulation) -> None:
    chance = sim.random
    channel = EventChannel(world=sim.world)
    publishers = {name: channel.publisher(name) for name in ("a", "b")}
    log: list[Envelope[Event]] = []

    async def publish(name: str) -> None:
        publisher = publishers[name]
        for _ in range(chance.randrange(10)):
            for _ in range(chance.choice([1, 1, 3, 12])):
                event = chance.choice([Ping, Loud, Pong])(chance.randrange(9))
                seq = publisher.publish(event)
                assert seq == len(log) + 1
                log.append(Envelope(seq, sim.world.wall(), sim.world.clock(), name, event))
            await trio.sleep(chance.choice([0.0, 0.001, 1.0]))
        if chance.random() < 0.5:
            publisher.end()
        elif chance.random() < 0.5:
            publisher.fail(OSError())

    async def read() -> None:
        await trio.sleep(chance.choice([0.0, 0.001, 1.0]))
        only = chance.choice([None, None, "a", "b"])
        types, capacity = chance.choice(FILTERS), chance.choice([1, 4, 16, 200])
        owner = channel if only is None else publishers[only]
        with owner.observe(lambda: len(log), *types, capacity=capacity) as (state, subscription):
            follower = Follower(sim, log, only, types)
            assert follower.position == state
            async with trio.open_nursery() as nursery:
                if chance.random() < 0.3:

                    async def close() -> None:
                        await trio.sleep(chance.choice([0.0, 0.001, 1.0, 2.0]))
                        subscription.close()

                    nursery.start_soon(close)
                if chance.random() < 0.2:
                    nursery.cancel_scope.deadline = trio.current_time() + chance.choice([0.001, 1])
                nursery.start_soon(follower.follow, subscription, capacity)

    async with trio.open_nursery() as readers:
        for _ in range(8):
            readers.start_soon(read)
        async with trio.open_nursery() as talking:
            for name in publishers:
                talking.start_soon(publish, name)
        await trio.sleep(chance.choice([0.0, 1.0]))
        if chance.random() < 0.5:
            channel.end()
        else:
            channel.fail(OSError())
    statistics = channel.statistics()
    assert (statistics.subscriptions, statistics.waiting, statistics.kept) == (0, 0, 0)
    assert statistics.published == len(log)


def test_under_no_seed_does_anybody_lose_anything() -> None:
    summary = simulate(world, range(SEEDS))
    for what in ("overflow", "closed", "ended", "failed", "cancelled"):
        assert summary.counts[what] > SEEDS // 20, (what, summary.counts)


def test_nor_where_many_tasks_are_held_back() -> None:
    simulate(world, range(40), schedule=Schedule(hold=0.5, longest=8))


def test_the_same_seed_does_the_same() -> None:
    assert run(world, seed=3).fingerprint == run(world, seed=3).fingerprint
