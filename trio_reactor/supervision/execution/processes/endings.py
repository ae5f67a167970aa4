"""How what belongs to a launch is ended from outside, when its guard no longer can."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Final

import trio

from trio_reactor.supervision.model.child import ProcessIdentity

from .carriers import carriers_of
from .identity import verified

__all__ = ["end_carriers", "end_process"]

_LIMITER: Final = trio.CapacityLimiter(4)
"""Reading all of `/proc` keeps a core busy; an application's own threads are not to wait for it."""


async def end_process(identity: ProcessIdentity) -> None:
    """Kill one process, and sleep until it has ended, be it one that we may not kill."""
    with verified(identity) as fd:
        if fd is not None:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            await trio.lowlevel.wait_readable(fd)
    await trio.lowlevel.checkpoint()


async def end_carriers(nonce: str, *, session: int | None = None) -> int:
    """Kill everything that belongs to a launch, until nothing does.

    What is being ended can start more meanwhile, so it is looked for again until nothing is found.
    Bound it by a cancel scope.

    Args:
        nonce: What they carry.
        session: The guard's process id, if it is certain that it has not been given again.

    Returns:
        How many were found.
    """
    ended = 0
    while True:
        found = await trio.to_thread.run_sync(_carriers, nonce, session, limiter=_LIMITER)
        if not found:
            return ended
        ended += len(found)
        async with trio.open_nursery() as nursery:
            for identity in found:
                nursery.start_soon(end_process, identity)


def _carriers(nonce: str, session: int | None) -> list[ProcessIdentity]:
    return carriers_of(nonce, session=session)
