"""Cancelled at every checkpoint there is: nothing is left behind, and nothing comes back."""

from __future__ import annotations

import trio

from trio_reactor.channel import EventChannel
from trio_reactor.renewal import ClipRequest, RenewalOptions, open_renewal
from trio_reactor.renewal.events import RenewalClosed, SourceClosed, SourceOpened
from trio_reactor.renewal.simulation import SimulatedProvider, SimulationOptions
from trio_reactor.testing import Ended, NothingAfter, Once, Simulation, for_every_checkpoint

OPTIONS = RenewalOptions(lead=2.0, jitter=0.0, first_pause=0.1, max_pause=0.1)


async def life(simulation: Simulation) -> None:
    """A handover, a reconnect, a death and a close; cancelled somewhere, whoever is running."""
    provider = SimulatedProvider(
        simulation.world,
        SimulationOptions(lifetime=3.0, frame_rate=5.0, build_delay=0.1, sound=False),
        record=simulation.record,
    )
    channel = EventChannel(world=simulation.world)
    simulation.check(
        Ended("opened", until="left", by="source", within="gone"),
        Once("closing", by="source"),
        NothingAfter("gone", "opening"),
    )
    with channel.subscribe() as events:
        with simulation.cancelling("all"):
            async with open_renewal(
                provider, options=OPTIONS, events=channel, world=simulation.world
            ) as renewal:
                await renewal.enqueue(ClipRequest({"frames": 2}))
                provider.newest.lose_connection()
                await trio.sleep(1.5)
                await renewal.enqueue(ClipRequest({"frames": 2}))
                await trio.sleep(0.5)
                provider.newest.die()
                await trio.sleep(0.4)
                await renewal.stop_renewal()
                await renewal.close()
        simulation.record("gone")
        channel.end()
        said = [envelope.event async for envelope in events]
    opened = [event.source for event in said if isinstance(event, SourceOpened)]
    closed = [event.source for event in said if isinstance(event, SourceClosed)]
    assert set(opened) <= set(closed)
    if said:
        assert isinstance(said[-1], RenewalClosed)
        assert said[-1].report.complete
    assert provider.opened == provider.closed == provider.left


def test_a_life_cancelled_at_every_step_of_anybody_leaves_nothing_behind() -> None:
    assert for_every_checkpoint(life) > 100


async def asking(simulation: Simulation) -> None:
    """One request, cancelled somewhere: it was sent or it was not, and its source knows which."""
    provider = SimulatedProvider(
        simulation.world, SimulationOptions(lifetime=None, sound=False), record=simulation.record
    )
    async with open_renewal(provider, options=OPTIONS, world=simulation.world) as renewal:
        await trio.sleep(1)
        answered = False
        with simulation.cancelling():
            await renewal.enqueue(ClipRequest({"frames": 2}))
            answered = True
        assert provider.dispatched <= 1
        await trio.sleep(1)
        assert provider.dispatched >= answered
        slot = renewal._chain.on_air
        assert slot is not None
        assert not slot.pending
        assert len(slot.book.clips) + (slot.book.last is not None) == provider.dispatched
        assert renewal.state.status == "ready"
        for command in (renewal.set_autoplay, lambda _: renewal.stop_renewal()):
            with simulation.cancelling():
                await command(True)
        assert renewal.state.status == "ready"


def test_a_command_cancelled_at_every_checkpoint_leaves_the_handle_whole() -> None:
    assert for_every_checkpoint(asking) >= 3


async def closing(simulation: Simulation) -> None:
    """Closers that are cancelled leave, and close goes on."""
    provider = SimulatedProvider(simulation.world, SimulationOptions(lifetime=None, sound=False))
    async with open_renewal(provider, options=OPTIONS, world=simulation.world) as renewal:
        with simulation.cancelling():
            await renewal.close()
        assert (await renewal.close()).complete
    assert provider.left == 1


def test_a_close_cancelled_at_every_checkpoint_goes_on() -> None:
    assert for_every_checkpoint(closing) >= 1
