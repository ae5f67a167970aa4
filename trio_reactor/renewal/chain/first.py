"""The first source: opened while its application waits, which is told why it could not be."""

from __future__ import annotations

import trio

from trio_reactor.errors import Lost, ReactorError
from trio_reactor.owner import Attempt, Owner
from trio_reactor.renewal.allocation.records import AllocationRecord
from trio_reactor.renewal.errors import OpenFailed, refusal, sole
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import Source

from .lineup import Lineup

__all__ = ["never_on_air", "not_opened", "open_first"]


async def open_first(owner: Owner, lineup: Lineup, left: AllocationRecord | None) -> Slot:
    """Open the first source: what was left if it can be adopted, else a fresh one.

    It is open and set up then, and not on air yet.

    Raises:
        OpenFailed: It could not be opened; carries what is proven of its clean-up.
        BaseException: The defect that its adapter raised.
    """
    # In a scope that is cancelled already the owner would only say that it acquires nothing.
    await trio.lowlevel.checkpoint_if_cancelled()
    slot = lineup.open("first", adopt=left)
    attempt = slot.attempt
    assert attempt is not None  # noqa: S101 - just started
    gone: ReactorError | None = None
    try:
        await attempt.wait_opened()
    except ReactorError as raised:
        gone = raised
    except trio.Cancelled:
        if owner.failure is None:
            raise
        # A defect of its close ended the owner before it was told that nothing was opened.
        with trio.CancelScope(shield=True):
            await attempt.wait_ended()
        if attempt.failure is None or attempt.is_defect:
            raise
        gone = Lost("the first source could not be opened")
    if gone is not None:
        fails = attempt.reason == "failed" and not attempt.is_defect
        if left is not None and fails and not owner.stopping.is_set:
            return await open_first(owner, lineup, None)
        raise not_opened(slot, attempt, gone)
    # A source that was put on air after its owner began to stop would be a lie.
    await trio.lowlevel.checkpoint_if_cancelled()
    owner.stopping.check()
    return slot


def never_on_air(slot: Slot) -> OpenFailed:
    """What is raised of a first source that was open, and gone before it was on air."""
    failed = OpenFailed(
        "the first source ended before it was on air", cleanup=slot.cleanup, outcome="replied"
    )
    failed.__cause__ = slot.loss
    return failed


def not_opened(slot: Slot, attempt: Attempt[Source], gone: ReactorError) -> BaseException:
    """What is raised of a first source that could not be opened, with what is proven of it."""
    failure = attempt.failure
    if failure is None and attempt.reason not in ("lost", "expired"):
        return gone
    if failure is not None and attempt.is_defect:
        return failure
    refused = refusal(failure)
    if refused is not None:
        refused.cleanup = slot.cleanup
        if failure is not None and sole(failure) is refused:
            return refused
    opened = OpenFailed(
        "the first source could not be opened",
        permanent=refused is not None and refused.permanent,
        cleanup=slot.cleanup,
        outcome=failure.outcome if isinstance(failure, ReactorError) else "unknown",
    )
    opened.__cause__ = failure or gone
    return opened
