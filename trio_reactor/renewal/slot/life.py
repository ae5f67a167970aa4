"""The life of one source, in its own task: opened, set up, kept, closed, left.

It is one context manager, entered and left by the task of its attempt: a source that is closed on
the provider's side is then left in the ordinary way, whatever opened it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from trio_reactor.errors import TimedOut
from trio_reactor.renewal.source import Source

from .leaving import leave
from .opener import opened_by
from .setup import accept, connect
from .validity import source_fault

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["life"]


@asynccontextmanager
async def life(slot: Slot) -> AsyncGenerator[Source]:
    """Open the source, set it up, keep it, close it and leave it.

    Raises:
        TimedOut: It did not open within `open_timeout`, or within its own lifetime.
        OpenFailed: What was opened is not what a source must be.
        TypeError: It is no source at all, or the opener is no opener; a defect.
        BaseException: What opening or leaving raised.
    """
    world, options = slot.host.world, slot.host.options
    with trio.CancelScope(deadline=world.clock() + options.open_timeout) as opening:
        slot.opening_budget = opening
        async with slot.recording.kept(), opened_by(slot.opener, slot.predecessor) as source:
            fault = source_fault(source)
            if fault is not None:
                raise TypeError(f"source {slot.incarnation}: {fault}")
            try:
                span = accept(slot, source)
                if span.expires_at is not None:
                    opening.deadline = min(opening.deadline, span.expires_at)
                await slot.recording.identify(source)
                slot.check_whole()  # it may have announced what makes no sense
                if slot.playable is not None:
                    await connect(slot, slot.playable)
                # The budget can run out in the very step in which all of that was done.
                if opening.cancel_called:
                    raise _too_slow(slot)
                opening.deadline = math.inf
                slot.opening_budget = None
                if slot.attempt is not None:
                    slot.attempt.set_lifetime(slot.expires_in)
                slot.host.hearing.opened(slot)
                yield source
            finally:
                slot.host.hearing.leaving(slot)
                slot.hush()
                await leave(slot, source)
    if opening.cancelled_caught:
        raise _too_slow(slot)


def _too_slow(slot: Slot) -> TimedOut:
    return TimedOut(f"source {slot.incarnation} did not open in time", outcome="unknown")
