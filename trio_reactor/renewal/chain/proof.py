"""What is proven, and what is raised, of a source that is gone or never came to be."""

from __future__ import annotations

from trio_reactor.errors import ReactorError
from trio_reactor.owner import Attempt
from trio_reactor.renewal.errors import OpenFailed, refusal, sole
from trio_reactor.renewal.slot.evidence import cleanup_of
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import Source

__all__ = ["cleanup_of", "not_opened"]


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
