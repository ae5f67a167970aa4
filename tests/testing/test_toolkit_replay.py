"""The same seed gives the same run, in any process."""

from __future__ import annotations

import os
import subprocess
import sys

import replayed_world
import trio

from trio_reactor.testing import Schedule, Simulation, run

SEEDS = range(12)


def printed(hash_seed: str) -> str:
    """What another process with another hash seed makes of the same seeds."""
    done = subprocess.run(
        [sys.executable, replayed_world.__file__, *map(str, SEEDS)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_other_processes_with_other_hash_seeds_do_the_same_to_the_byte() -> None:
    here = [replayed_world.play(seed) for seed in SEEDS]
    lines = [
        f"{done.seed} {done.fingerprint} {done.steps}\n{done.trace.encode().decode()}\n"
        for done in here
    ]
    expected = "".join(lines)
    assert printed("0") == expected
    assert printed("4242") == expected


def test_the_replayed_world_has_in_it_what_could_differ() -> None:
    seen = {what for seed in SEEDS for what in replayed_world.play(seed).trace.counts}
    assert seen >= {"woken", "timed-out", "received", "Opened", "failed", "replied", "fault"}
    assert seen >= {"jump", "over", "left"}


def test_every_seed_does_something_else() -> None:
    assert len({replayed_world.play(seed).fingerprint for seed in SEEDS}) == len(SEEDS)


def test_what_a_scenario_draws_shifts_neither_the_schedule_nor_the_world() -> None:
    async def world(sim: Simulation, draws: int) -> None:
        async def walk(number: int) -> None:
            for _ in range(5):
                world, chance = sim.world, sim.world.random.random()
                sim.record("step", number=number, token=world.token(), chance=chance)
                await trio.lowlevel.checkpoint()

        for _ in range(draws):
            sim.random.random()
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(walk, number)

    few, many = (
        run(lambda sim, draws=draws: world(sim, draws), seed=3, schedule=Schedule(hold=0.3))
        for draws in (0, 1000)
    )
    assert few.trace.encode() == many.trace.encode()
