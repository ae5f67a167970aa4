"""A world with everything in it that could differ between two processes, and must not.

Run as a program it prints, for each seed it is given, the run's fingerprint and trace.
"""

from __future__ import annotations

import random
import sys

import msgspec
import trio

from trio_reactor.errors import Lost, Refused
from trio_reactor.testing import (
    Fails,
    Jump,
    Never,
    Plan,
    Run,
    Simulation,
    Slow,
    Swapped,
    Twice,
    Wire,
    run,
)

CROWD = 12
MENU = {
    "open": (Fails(), Slow(3.0), Never()),
    "life": (Fails("lost", after=20.0),),
    "reply": (Slow(2.0), Twice(), Swapped(), Never()),
}


class Opened(msgspec.Struct, frozen=True, tag=True):
    name: str
    token: str


def draw(chance: random.Random) -> Plan:
    return Plan.draw(chance, MENU, rate=0.3, jump=Jump(30.0, 3600.0))


async def world(sim: Simulation) -> None:
    everybody = trio.Event()
    send, receive = trio.open_memory_channel[int](3)

    async def crowd(number: int) -> None:
        """Wait for one event, whose waiters Trio keeps in a set, then go on under deadlines."""
        await everybody.wait()
        sim.record("woken", number=number)
        with trio.move_on_at(10.0):  # the same for all, a tie that Trio breaks by address
            await trio.sleep_forever()
        sim.record("timed-out", number=number, wall=sim.world.wall())
        with trio.move_on_after(sim.world.random.uniform(0, 5)):
            await receive.receive()
            sim.record("received", number=number)

    async def holder(number: int) -> None:
        with trio.move_on_after(25.0):
            try:
                await sim.faults.meet("open")
                sim.record(Opened(sim.world.identifier("thing"), sim.world.token()), by=number)
                await sim.faults.meet("life")
                wire.send(number)
            except (Refused, Lost) as failure:
                sim.record("failed", number=number, failure=failure)

    with sim.cancelling("all") as scope:
        async with send, receive, trio.open_nursery() as nursery:
            wire = Wire(sim.faults, "reply", lambda it: sim.record("replied", to=it), nursery)
            for number in range(CROWD):
                nursery.start_soon(crowd, number)
                nursery.start_soon(holder, number)
            await trio.sleep(1.0)
            everybody.set()
            for item in range(CROWD // 2):
                await trio.sleep(sim.random.uniform(0, 4))
                await send.send(item)
            await trio.sleep(sim.random.uniform(0, 10))
            sim.record("over")
            nursery.cancel_scope.cancel()
    sim.record("left", cancelled=scope.cancelled_caught)


def play(seed: int) -> Run[None]:
    return run(world, seed=seed, faults=draw, cancel_at=seed * 17 if seed % 3 == 0 else None)


if __name__ == "__main__":
    for seed in map(int, sys.argv[1:]):
        done = play(seed)
        print(seed, done.fingerprint, done.steps)
        print(done.trace.encode().decode())
