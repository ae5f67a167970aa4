"""Where a renewal stands, as a value."""

from __future__ import annotations

from typing import Literal

import msgspec

from trio_reactor.owner import Owner

from .chain.chain import Chain
from .events import SourceRef
from .policy import phases
from .slot.slot import Slot
from .source import Clip

__all__ = ["RenewalState", "SessionStatus", "SourceStatus", "state_of"]

SessionStatus = Literal["ready", "recovering", "vacant", "finished", "closed"]
"""A source is on air; it is being recovered; the place is vacant until the next opens; the last
source is gone and none follows; the handle is closed."""


class SourceStatus(msgspec.Struct, frozen=True):
    """One source, as far as it is known."""

    source: SourceRef
    phase: str
    age: float
    """Seconds since it was opened."""
    expires_in: float | None
    """Seconds it has left; `None` for no end, or while it opens."""
    clips: tuple[Clip, ...]


class RenewalState(msgspec.Struct, frozen=True):
    """Where a renewal stands."""

    status: SessionStatus
    on_air: SourceStatus | None
    next: SourceStatus | None
    leaving: int
    """Sources that were let go and have not left yet."""
    opened: int
    """Sources that were opened, or tried to, so far."""


def state_of(owner: Owner, chain: Chain) -> RenewalState:
    """Where it stands now."""
    return RenewalState(
        status=_status(owner, chain),
        on_air=_status_of(chain.on_air),
        next=_status_of(chain.next),
        leaving=len(chain.leaving),
        opened=chain.ledger.incarnations,
    )


def _status(owner: Owner, chain: Chain) -> SessionStatus:
    if owner.closing.is_set:
        return "closed"
    if chain.finished:
        return "finished"
    slot = chain.on_air
    if slot is None:
        return "vacant"
    return "ready" if isinstance(slot.phase, phases.OnAir) else "recovering"


def _status_of(slot: Slot | None) -> SourceStatus | None:
    if slot is None:
        return None
    return SourceStatus(
        slot.ref, type(slot.phase).__name__, slot.age, slot.expires_in, slot.book.clips
    )
