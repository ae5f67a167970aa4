"""Where a renewal stands, as a value."""

from __future__ import annotations

from typing import Literal, assert_never

import msgspec

from trio_reactor.owner import Owner

from .chain.chain import Chain
from .events import SourceRef
from .policy import phases
from .slot.slot import Slot
from .source import Clip

__all__ = ["RenewalState", "SessionStatus", "SourcePhase", "SourceStatus", "state_of"]

SessionStatus = Literal["ready", "recovering", "vacant", "finished", "closed"]
"""A source is on air; it is being recovered; the place is vacant until the next opens; the last
source is gone and none follows; the handle is closed."""


SourcePhase = Literal["opening", "prepared", "on-air", "reconnecting", "replacing"]
"""It is being opened; it is open and waits its turn; it feeds the output; its connection is being
made again; it is not trusted any more, and goes as soon as another can take its place."""


class SourceStatus(msgspec.Struct, frozen=True):
    """One source, as far as it is known."""

    source: SourceRef
    phase: SourcePhase
    age: float
    """Seconds since it was opened."""
    expires_in: float | None
    """Seconds it has left; `None` for no end, or while it opens."""
    clips: tuple[Clip, ...]


class RenewalState(msgspec.Struct, frozen=True):
    """Where a renewal stands."""

    status: SessionStatus
    on_air: SourceStatus | None
    """The source that has the place on air, whole or not; `None` from when it was let go."""
    next: SourceStatus | None
    """The one that is to follow."""
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
        leaving=len(chain.leaving) + _leaving(chain.on_air) + _leaving(chain.next),
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
    phase = None if slot is None else _phase(slot.phase)
    if slot is None or phase is None:
        return None
    return SourceStatus(slot.ref, phase, slot.age, slot.expires_in, slot.book.clips)


def _phase(phase: phases.Phase) -> SourcePhase | None:
    match phase:
        case phases.Opening():
            return "opening"
        case phases.Prepared():
            return "prepared"
        case phases.OnAir():
            return "on-air"
        case phases.Recovering(mode="reconnect"):
            return "reconnecting"
        case phases.Recovering():
            return "replacing"
        case phases.Leaving() | phases.Closed():
            return None  # with the whole renewal: it keeps its place to the end
        case _:
            assert_never(phase)


def _leaving(slot: Slot | None) -> int:
    """Whether a source that keeps its place is leaving it all the same."""
    return int(slot is not None and isinstance(slot.phase, phases.Leaving))
