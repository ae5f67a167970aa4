"""The life of one source, as a table.

What each phase means:

`Opening`
    It is being opened; it may still fail, and can be cancelled.
`Prepared`
    It is open and takes work, but does not feed the output.
`OnAir`
    It feeds the output.
`Recovering`
    It lives, but its media or its events do not reach us, or it is no longer trusted.  The mode
    says what is to come of it: `reconnect` makes its connection again, `replace` lets it go.
`Leaving`
    It is being closed, for a reason that stays.  It still counts as owned.
`Closed`
    It is gone.

What happens to a source is an `Occurrence`.  `TRANSITIONS` holds every occurrence that changes a
phase; whatever is not in it changes nothing, which is what makes a late completion harmless: a
reconnect that succeeds after the source was replaced, an activation that arrives after its loss.
Three things follow from the table and are tested over every trace of it:

- recovery escalates from `reconnect` to `replace` and never back;
- what is leaving never returns, and what is closed stays closed;
- the reason a source leaves for is the first one.

Who reports `recovered` has checked that the new media generation lives at that moment: a
generation that was lost while it was being set up is a `recovery-failed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, assert_never, get_args

import msgspec

__all__ = [
    "LEAVE_REASONS",
    "OCCURRENCES",
    "PHASES",
    "TRANSITIONS",
    "Closed",
    "LeaveReason",
    "Leaving",
    "LivePhase",
    "Occurrence",
    "OnAir",
    "Opening",
    "Phase",
    "Prepared",
    "Recovering",
    "RecoveryMode",
    "advance",
    "is_live",
    "is_on_air",
    "takes_work",
]

RecoveryMode = Literal["reconnect", "replace"]
"""What is to come of a source that is recovering."""

LeaveReason = Literal["open-failed", "handed-over", "replaced", "died", "expired", "retired"]
"""Why a source left."""

LEAVE_REASONS: Final[tuple[LeaveReason, ...]] = get_args(LeaveReason)


class Opening(msgspec.Struct, frozen=True, tag=True):
    """It is being opened."""


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """It is open and takes work, but does not feed the output."""


class OnAir(msgspec.Struct, frozen=True, tag=True):
    """It feeds the output."""


class Recovering(msgspec.Struct, frozen=True, tag=True):
    """It lives, but does not reach us or is not trusted any more."""

    on_air: bool
    """Whether it fed the output when that began."""
    mode: RecoveryMode


class Leaving(msgspec.Struct, frozen=True, tag=True):
    """It is being closed."""

    why: LeaveReason


class Closed(msgspec.Struct, frozen=True, tag=True):
    """It is gone."""

    why: LeaveReason


LivePhase: TypeAlias = Opening | Prepared | OnAir | Recovering
Phase: TypeAlias = LivePhase | Leaving | Closed

Occurrence = Literal[
    "opened",
    "open-failed",
    "activated",
    "media-lost",
    "events-lost",
    "condemned",
    "recovered",
    "recovery-failed",
    "handed-over",
    "replaced",
    "died",
    "expired",
    "retired",
    "closed",
]
"""What can happen to a source.

`condemned`: it lives and must be replaced all the same, because a command's outcome is unknown, a
check failed, its adapter broke the protocol, or it lost its connection and cannot make another.
`retired`: it was asked to leave, by a close, a discarded preparation or an exclusive successor.
`closed`: its context manager has been left, whatever the reason.
"""

OCCURRENCES: Final[tuple[Occurrence, ...]] = get_args(Occurrence)

_RECOVERIES: Final = tuple(
    Recovering(on_air, mode) for on_air in (False, True) for mode in get_args(RecoveryMode)
)

PHASES: Final[tuple[Phase, ...]] = (
    Opening(),
    Prepared(),
    OnAir(),
    *_RECOVERIES,
    *(Leaving(why) for why in LEAVE_REASONS),
    *(Closed(why) for why in LEAVE_REASONS),
)
"""Every phase there is."""


def _table() -> dict[tuple[Phase, Occurrence], Phase]:
    table: dict[tuple[Phase, Occurrence], Phase] = {
        (Opening(), "opened"): Prepared(),
        (Opening(), "open-failed"): Closed("open-failed"),
        (Opening(), "closed"): Closed("open-failed"),
        (Opening(), "retired"): Leaving("retired"),
        (Prepared(), "activated"): OnAir(),
        (OnAir(), "handed-over"): Leaving("handed-over"),
    }
    # Whichever of the two a source is when it is hit, it is that again when it has recovered.
    steadies: tuple[tuple[Phase, bool], ...] = ((Prepared(), False), (OnAir(), True))
    for steady, on_air in steadies:
        reconnect, replace = Recovering(on_air, "reconnect"), Recovering(on_air, "replace")
        table |= {
            (steady, "media-lost"): reconnect,
            (steady, "events-lost"): reconnect,
            (steady, "condemned"): replace,
            (reconnect, "recovered"): steady,
            (reconnect, "recovery-failed"): replace,
            (reconnect, "condemned"): replace,
            (replace, "replaced"): Leaving("replaced"),
        }
    alive: tuple[Phase, ...] = (Prepared(), OnAir(), *_RECOVERIES)
    for live in alive:
        table |= {
            (live, "died"): Leaving("died"),
            (live, "expired"): Leaving("expired"),
            (live, "retired"): Leaving("retired"),
            # It left unasked: that is how a thing dies which raises nothing.
            (live, "closed"): Closed("died"),
        }
    for why in LEAVE_REASONS:
        table[Leaving(why), "closed"] = Closed(why)
    return table


TRANSITIONS: Final[Mapping[tuple[Phase, Occurrence], Phase]] = MappingProxyType(_table())
"""Every occurrence that changes a phase, and what it becomes."""


def advance(phase: Phase, occurrence: Occurrence) -> Phase:
    """The phase after an occurrence; the same object if it changes nothing there."""
    return TRANSITIONS.get((phase, occurrence), phase)


def is_live(phase: Phase) -> bool:
    """Whether it is open or opening, and nobody has asked it to leave."""
    match phase:
        case Opening() | Prepared() | OnAir() | Recovering():
            return True
        case Leaving() | Closed():
            return False
        case _:
            assert_never(phase)


def is_on_air(phase: Phase) -> bool:
    """Whether it feeds the output, or would if it could be reached."""
    match phase:
        case OnAir():
            return True
        case Recovering(on_air=on_air):
            return on_air
        case Opening() | Prepared() | Leaving() | Closed():
            return False
        case _:
            assert_never(phase)


def takes_work(phase: Phase) -> bool:
    """Whether commands may be sent to it."""
    match phase:
        case Prepared() | OnAir():
            return True
        case Opening() | Recovering() | Leaving() | Closed():
            return False
        case _:
            assert_never(phase)
