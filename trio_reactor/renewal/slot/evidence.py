"""What is proven of the end of a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trio_reactor.events import FailureRecord
from trio_reactor.renewal.errors import ContractBroken, OpenFailed, refusal
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.summary import combine

from .validity import cleanup_fault

if TYPE_CHECKING:
    from .slot import Slot

__all__ = ["cleanup_of", "reported_by"]


def reported_by(refused: OpenFailed | None) -> Cleanup | None:
    """What a failed open says of what had been allocated; what makes no sense proves nothing."""
    if refused is None or refused.cleanup is None:
        return None
    fault = cleanup_fault(refused.cleanup, None)
    if fault is None:
        return refused.cleanup
    broken = ContractBroken(f"an open that failed {fault}")
    return Cleanup.of(
        None,
        allocation="owned",
        termination="unconfirmed",
        connection="failed",
        failures=(FailureRecord.of(broken),),
    )


def cleanup_of(slot: Slot, failure: BaseException | None) -> Cleanup:
    """What is proven of the end of a slot: by its source, by its failed open, or by both."""
    refused = refusal(failure)
    reported = reported_by(refused)
    if slot.cleanup is not None:
        return slot.cleanup if reported is None else combine(slot.cleanup, reported)
    if reported is not None:
        return reported
    if refused is not None and refused.outcome == "unknown":
        return Cleanup.of(
            None,
            allocation="owned",
            termination="unconfirmed",
            connection="failed",
            failures=(FailureRecord.of(refused),),
        )
    # A context manager that never entered has given up whatever it had: that is its contract.
    return Cleanup.of(None, allocation="none", termination="not-needed", connection="never-opened")
