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
    # The clocks may differ in rate, and nothing but the instant is waited for.
    while (remaining := instant - world.boottime()) > 0:  # noqa: ASYNC110
        await trio.sleep(remaining)
