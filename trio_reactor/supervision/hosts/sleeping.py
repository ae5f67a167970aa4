"""Sleeping on the clock that a machine's processes share."""

from __future__ import annotations

import trio

from trio_reactor.world import World

__all__ = ["sleep_until"]


async def sleep_until(world: World, instant: float) -> None:
    """Sleep until an instant on the machine's clock.  Always a checkpoint; may be cancelled.

    Trio's clock may stand while the machine's counts on, as when it sleeps; then this wakes later.
    It never wakes earlier.
    """
    await trio.lowlevel.checkpoint()
    while (remaining := instant - world.boottime()) > 0:  # the two clocks may differ in rate
        await trio.sleep(remaining)
