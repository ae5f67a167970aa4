"""Process after process in a simulation, with faults; a journal and a provider outlive them."""

from __future__ import annotations

import contextlib
import random

import trio

from trio_reactor.channel import EventChannel
from trio_reactor.errors import EXPECTED
from trio_reactor.renewal import Allocations, RenewalOptions, open_renewal
from trio_reactor.renewal.events import AllocationSettled
from trio_reactor.renewal.simulation import SimulatedJournal, SimulatedProvider, SimulationOptions
from trio_reactor.testing import Fails, Faults, Never, Plan, Simulation, Slow

__all__ = ["draw_faults", "world"]

OPTIONS = RenewalOptions(
    lead=4.0,
    open_timeout=3.0,
    cleanup_timeout=2.0,
    accounting_timeout=1.0,
    first_pause=0.2,
    max_pause=0.5,
    max_failures=6,
    stable_after=2.0,
)


def draw_faults(chance: random.Random) -> Plan:
    """What goes wrong in one run."""
    return Plan.draw(
        chance,
        {
            "open": (Slow(2.0), Fails("refused", after=0.5), Fails("lost"), Never()),
            "attach": (Slow(1.0), Fails("lost"), Never()),
            "life": (Fails("lost", after=3.0),),
            "close": (Slow(1.0), Fails("lost"), Never()),
            "terminate": (Slow(1.0), Fails("lost"), Never()),
            "journal": (Slow(0.5), Fails("lost"), Never()),
            "record": (Fails("refused"), Fails("lost", done=True)),
        },
        rate=chance.choice((0.05, 0.15, 0.3)),
        tries=30,
    )


async def world(simulation: Simulation) -> None:
    """Some processes, the last of which meets no faults."""
    chance = simulation.random
    provider = SimulatedProvider(
        simulation.world,
        SimulationOptions(
            lifetime=chance.choice((10.0, None)),
            sound=False,
            frame_rate=1.0,
            outlives=True,
            exclusive=chance.random() < 0.3,
            resumable=chance.random() < 0.5,
            refuses_resumption=chance.random() < 0.3,
            stubborn=chance.random() < 0.3,
        ),
        faults=simulation.faults,
    )
    journal = SimulatedJournal(faults=simulation.faults)
    for _ in range(chance.randint(1, 3)):
        for _ in range(chance.randint(0, 2)):
            lifetime = chance.choice((2.0, 30.0, None))
            left = provider.leave_behind(identified=chance.random() < 0.6, lifetime=lifetime)
            journal.records[left.key] = left
        adopt = chance.random() < 0.7
        with trio.move_on_after(chance.choice((0.5, 5.0, 40.0))):
            await _process(simulation, provider, journal, adopt=adopt)
        _nothing_runs_unseen(provider, journal)
        await trio.sleep(chance.choice((0.0, 5.0)))
    provider.faults = Faults()
    calm = SimulatedJournal(journal.records.values())
    with trio.move_on_after(20.0):
        await _process(simulation, provider, calm, adopt=chance.random() < 0.5)
    assert not provider.allocated, "left running after a process without faults"
    assert not calm.records
    simulation.record("over")


async def _process(
    simulation: Simulation, provider: SimulatedProvider, journal: SimulatedJournal, *, adopt: bool
) -> None:
    channel = EventChannel(world=simulation.world)
    allocations = Allocations(
        journal=journal, terminate=provider.terminate, adopt=adopt, terminate_timeout=2.0
    )
    with channel.subscribe(AllocationSettled) as settled:
        try:
            async with open_renewal(
                provider,
                allocations=allocations,
                options=OPTIONS,
                events=channel,
                world=simulation.world,
            ):
                simulation.record("on-air")
                await trio.sleep_forever()
        except* EXPECTED:
            simulation.record("failed")
        finally:
            with contextlib.suppress(trio.WouldBlock):
                while True:
                    simulation.record(settled.receive_nowait().event.how)


def _nothing_runs_unseen(provider: SimulatedProvider, journal: SimulatedJournal) -> None:
    """Whatever is allocated now that everything has been left is recorded."""
    for identity, allocation in provider.allocated.items():
        assert any(
            identity == record.source or allocation.key == record.key
            for record in journal.records.values()
        ), f"{identity} runs unseen"
