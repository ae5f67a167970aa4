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

from .errors import ContractBroken
from .evidence import Cleanup
from .source import Media, Source

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["leave"]


async def leave(slot: Slot, source: Source) -> None:
    """Close a source and account for it; shielded, within its budgets.

    The slot has its evidence afterwards.  A reconnect that is under way is ended before.
    """
    clock, options = slot.host.world.clock, slot.host.options
    by = slot.host.close_deadline
    deadline = min(clock() + options.cleanup_timeout, by - options.accounting_timeout)
    try:
        with trio.CancelScope(shield=True, deadline=deadline):
            if slot.recovery is not None:
                await slot.recovery.stop()
            slot.cleanup = await _close(slot, source)
    finally:
        if slot.cleanup is None:
            late = TimedOut(f"source {slot.incarnation} did not close within its budget")
            slot.cleanup = _unproven(slot, late)
    if slot.media is not None:
        deadline = min(clock() + options.accounting_timeout, by)
        with trio.CancelScope(shield=True, deadline=deadline) as budget:
            await _account(slot, slot.media)
        if budget.cancelled_caught:
            late = TimedOut(f"source {slot.incarnation} did not account for its media in time")
            slot.add_failure(late)


async def _close(slot: Slot, source: Source) -> Cleanup:
    try:
        cleanup = cast("object", await source.close())  # an adapter may return anything
    except Exception as failure:  # noqa: BLE001 - kept, or terminal
        if not is_expected(failure):
            slot.host.slot_failed(slot, failure)
        return _unproven(slot, failure)
    if isinstance(cleanup, Cleanup):
        return cleanup
    return _unproven(slot, ContractBroken(f"source {slot.incarnation} closed without any evidence"))


async def _account(slot: Slot, media: Media) -> None:
    try:
        await media.aclose()
    except Exception as failure:  # noqa: BLE001 - kept, or terminal
        slot.add_failure(failure)
        if not is_expected(failure):
            slot.host.slot_failed(slot, failure)


def _unproven(slot: Slot, failure: BaseException) -> Cleanup:
    return Cleanup.of(
        slot.identity,
        allocation="owned",
        termination="unconfirmed",
        connection="failed",
        failures=(FailureRecord.of(failure),),
    )
