"""Cancelled at every checkpoint there is: nothing is left behind, and nothing comes back."""

from __future__ import annotations

import contextlib
import functools
from contextlib import AbstractContextManager

import pytest
import trio

from trio_reactor.channel import EventChannel
from trio_reactor.renewal import (
    ClipRequest,
    Renewal,
    RenewalOptions,
    SessionRecovering,
    open_renewal,
)
from trio_reactor.renewal.events import RenewalClosed, SourceClosed, SourceOpened
from trio_reactor.renewal.simulation import SimulatedProvider, SimulationOptions
from trio_reactor.testing import (
    AtMost,
    Ended,
    NothingAfter,
    Once,
    Simulation,
    for_every_checkpoint,
    run,
)
from trio_reactor.testing.cancellation import Tasks

OPTIONS = RenewalOptions(lead=2.0, jitter=0.0, first_pause=0.1, max_pause=0.1)


async def life(
    simulation: Simulation, *, exclusive: bool = False, tasks: Tasks = "all", by: str = "body"
) -> list[str]:
    """A handover, a reconnect, a replacement, a stop and a close; somewhere in it is cancelled.

    Args:
        simulation: Where it plays.
        exclusive: Whether the provider refuses two sources: then the handover leaves a gap.
        tasks: Whose steps count.
        by: Whether the block is cancelled, or a caller in a task beside it.
    """
    provider = SimulatedProvider(
        simulation.world,
        SimulationOptions(
            lifetime=3.0, frame_rate=5.0, build_delay=0.1, sound=False, exclusive=exclusive
        ),
        record=simulation.record,
    )
    channel = EventChannel(world=simulation.world)
    simulation.check(
        AtMost(1 if exclusive else 2, "opened", until="left", by="source"),
        Ended("opened", until="left", by="source", within="gone"),
        Once("closing", by="source"),
        NothingAfter("gone", "opening"),
    )

    async def call(renewal: Renewal) -> None:
        """Ask for clips, lose connections and sources, stop and close."""

        def mark() -> AbstractContextManager[object]:
            return simulation.cancelling(tasks) if by == "caller" else contextlib.nullcontext()

        with mark():
            await renewal.enqueue(ClipRequest({"frames": 2}))
        provider.newest.lose_connection()
        await trio.sleep(0.4)  # it is whole again
        with mark():
            await renewal.set_canvas(64, 48)
        await trio.sleep(1.1)
        with mark(), contextlib.suppress(SessionRecovering):  # while an exclusive one opens
            await renewal.enqueue(ClipRequest({"frames": 2}))
        await trio.sleep(1.0)  # it has handed over
        with mark(), contextlib.suppress(SessionRecovering):
            await renewal.pause_and_stop()
            await renewal.set_autoplay(True)
        for source in tuple(provider.live.values())[:1]:
            source.die()
        await trio.sleep(0.4)
        with mark():
            await renewal.stop_renewal()
        with mark():
            await renewal.close()

    with channel.subscribe() as events:
        with simulation.cancelling(tasks) if by == "body" else contextlib.nullcontext():
            async with open_renewal(
                provider, options=OPTIONS, events=channel, world=simulation.world
            ) as renewal:
                if by == "body":
                    await call(renewal)
                else:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(call, renewal)
        simulation.record("gone")
        channel.end()
        said = [envelope.event async for envelope in events]
    opened = [event.source for event in said if isinstance(event, SourceOpened)]
    closed = [event.source for event in said if isinstance(event, SourceClosed)]
    assert set(opened) <= set(closed)
    assert len(set(closed)) == len(closed)
    if said:
        assert isinstance(said[-1], RenewalClosed)
        assert said[-1].report.complete
    assert provider.opened == provider.closed == provider.left
    return [type(event).__name__ for event in said]


LIFE = ("Recovering", "Recovered", "HandedOver", "Replaced", "RenewalStopped", "RenewalClosed")


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_life_has_all_of_it(exclusive: bool) -> None:
    told = run(functools.partial(life, exclusive=exclusive), seed=0).value
    places = [told.index(what) for what in LIFE]
    assert places == sorted(places)


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_life_cancelled_at_every_step_of_anybody_leaves_nothing_behind(exclusive: bool) -> None:
    assert for_every_checkpoint(functools.partial(life, exclusive=exclusive)) > 100


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_life_cancelled_at_every_checkpoint_of_its_body_leaves_nothing_behind(
    exclusive: bool,
) -> None:
    own = functools.partial(life, exclusive=exclusive, tasks="own")
    assert for_every_checkpoint(own) > 10


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_caller_cancelled_at_every_checkpoint_leaves_a_life_that_ends_in_order(
    exclusive: bool,
) -> None:
    called = functools.partial(life, exclusive=exclusive, tasks="own", by="caller")
    assert for_every_checkpoint(called) > 5


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
