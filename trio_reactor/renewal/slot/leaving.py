"""How a source leaves: closed on the provider's side first, then accounted for.

Each has a budget of its own, and neither outlasts the budget of the whole renewal's close.  What
the adapter raises meanwhile does not come out of here, so that whatever opened the source is left
in the ordinary way: weather is kept with the evidence, and a defect is terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import trio

from trio_reactor.errors import TimedOut, is_expected
from trio_reactor.events import FailureRecord
from trio_reactor.renewal.errors import ContractBroken
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import Media, Source

from .validity import cleanup_fault

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["account", "leave"]


async def leave(slot: Slot, source: Source) -> None:
    """Close a source and account for it; shielded, within its budgets.

    The slot has its evidence afterwards.  A reconnect or check that is under way is ended before.
    """
    clock, options = slot.host.world.clock, slot.host.options
    by = slot.host.close_deadline
    deadline = min(clock() + options.cleanup_timeout, by - options.accounting_timeout)
    try:
        with trio.CancelScope(shield=True, deadline=deadline):
            if slot.recovery is not None:
                await slot.recovery.stop()
            if slot.checking is not None:
                await slot.checking.stop()
            slot.closed(await _close(slot, source))
    except Exception as failure:  # noqa: BLE001 - it broke when its budget was over
        _keep(slot, failure)
    finally:
        if slot.cleanup is None:
            late = TimedOut(f"source {slot.incarnation} did not close within its budget")
            slot.closed(_unproven(slot, late))
    if slot.unclosed:
        deadline = min(clock() + options.accounting_timeout, by)
        budget = trio.CancelScope(shield=True, deadline=deadline)
        try:
            with budget:
                await account(slot)
        except Exception as failure:  # noqa: BLE001 - the same
            _keep(slot, failure)
        if budget.cancelled_caught:
            late = TimedOut(f"source {slot.incarnation} did not account for its media in time")
            slot.add_failure(late)


async def _close(slot: Slot, source: Source) -> Cleanup:
    try:
        cleanup = cast("object", await source.close())  # an adapter may return anything
    except Exception as failure:  # noqa: BLE001 - kept, or terminal
        if not is_expected(failure):
            slot.host.hearing.failed(slot, failure)
        return _unproven(slot, failure)
    fault = cleanup_fault(cleanup, slot.identity)
    if fault is None:
        return cast("Cleanup", cleanup)
    return _unproven(slot, ContractBroken(f"source {slot.incarnation} {fault}"))


async def account(slot: Slot, *, keep: Media | None = None) -> None:
    """End the media generations of a source that are over, all but one that is kept.

    Weather is kept with the evidence, and a defect is terminal.  Cancelled, it leaves the rest to
    the next time.
    """
    for media in tuple(slot.unclosed):
        if media is keep:
            continue
        try:
            await media.aclose()
        except Exception as failure:  # noqa: BLE001 - kept, or terminal
            _keep(slot, failure)
        slot.unclosed.remove(media)


def _keep(slot: Slot, failure: Exception) -> None:
    """Keep what went wrong with the evidence; a defect is terminal."""
    slot.add_failure(failure)
    if not is_expected(failure):
        slot.host.hearing.failed(slot, failure)


def _unproven(slot: Slot, failure: BaseException) -> Cleanup:
    return Cleanup.of(
        slot.identity,
        allocation="owned",
        termination="unconfirmed",
        connection="failed",
        failures=(FailureRecord.of(failure),),
    )
