"""How what belongs to a launch is ended from outside, when its guard no longer can."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Final

import trio

from trio_reactor.supervision.model.child import ProcessIdentity

from .carriers import carriers_of
from .identity import stat_fields, verified

__all__ = ["end_carriers"]

_LIMITER: Final = trio.CapacityLimiter(4)
"""Reading all of `/proc` keeps a core busy; an application's own threads are not to wait for it."""


async def end_carriers(nonce: str, *, session: int | None = None) -> int:
    """Kill everything that belongs to a launch, until nothing does.

    What is being ended can start more meanwhile, so it is looked for again until nothing is found.
    However many there are, it takes two descriptors.  Bound it by a cancel scope.

    Args:
        nonce: What they carry.
        session: The guard's process id, if it is certain that it has not been given again.

    Returns:
        How many were found.

    Raises:
        OSError: It cannot be seen what there is.
        ValueError: It is no nonce.
    """
    ended = 0
    while True:
        killed = await trio.to_thread.run_sync(_kill_carriers, nonce, session, limiter=_LIMITER)
        if not killed:
            return ended
        ended += len(killed)
        for identity in killed:
            await _wait_ended(identity)


def _kill_carriers(nonce: str, session: int | None) -> list[ProcessIdentity]:
    """Kill what there is; a guard that lives only when nothing below it is left to be found."""
    found = carriers_of(nonce, session=session)
    pids = {identity.pid for identity in found}
    killed = [identity for identity in found if _parent_of(identity.pid) in pids] or found
    for identity in killed:
        with verified(identity) as fd:
            if fd is not None:
                with suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
    return killed


def _parent_of(pid: int) -> int:
    try:
        return int(stat_fields(pid)[1])
    except ProcessLookupError:
        return 0  # it ended meanwhile


async def _wait_ended(identity: ProcessIdentity) -> None:
    """Sleep until one has ended, be it one that we may not kill."""
    with verified(identity) as fd:
        if fd is not None:
            await trio.lowlevel.wait_readable(fd)
            return
    await trio.lowlevel.checkpoint()
