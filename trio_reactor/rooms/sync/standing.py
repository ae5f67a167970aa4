"""How a room stands, and how all of them do, from counts of what each of them is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, get_args

import msgspec

from trio_reactor.rooms.model.status import Attention, Reach, State, Status

__all__ = ["Standing", "Tally", "overall", "standing_of"]

_ATTENTIONS: Final = get_args(Attention)


class Standing(msgspec.Struct, frozen=True):
    """What one room adds to the whole."""

    behind: bool = False
    """Something of it is stale, unread or on its way here."""
    queued: bool = False
    """Something of it waits for the authority."""
    attention: tuple[Attention, ...] = ()


def standing_of(
    *,
    followed: bool,
    held: bool,
    step_is_due: bool,
    queued: bool,
    attention: Iterable[Attention],
) -> Standing:
    """What a room adds to the whole.

    Args:
        followed: Whether it is listed and asked for.
        held: Whether something of it is held.
        step_is_due: Whether there is something to be done about it.
        queued: Whether something of it waits for the authority.
        attention: What somebody has to see to.
    """
    return Standing(
        behind=followed and (step_is_due or not held), queued=queued, attention=tuple(attention)
    )


class Tally:
    """Counts of how rooms stand."""

    def __init__(self) -> None:
        self.rooms = 0
        self.behind = 0
        self.queued = 0
        self.attention: Counter[Attention] = Counter()

    def add(self, standing: Standing) -> None:
        """Count a room."""
        self._count(standing, 1)

    def remove(self, standing: Standing) -> None:
        """Count a room no more."""
        self._count(standing, -1)

    def _count(self, standing: Standing, by: int) -> None:
        self.rooms += by
        self.behind += by * standing.behind
        self.queued += by * standing.queued
        for each in standing.attention:
            self.attention[each] += by


def overall(
    tally: Tally,
    *,
    reach: Reach,
    synchronized: float | None,
    recorded: bool,
    more: Iterable[Attention],
) -> Status:
    """How all the rooms stand.

    Args:
        tally: How each of them does.
        reach: How far the connection is.
        synchronized: When all were last synchronized.
        recorded: Whether that is recorded for what is held now.
        more: What somebody has to see to beside the rooms.
    """
    found = {each for each, count in tally.attention.items() if count > 0} | set(more)
    if reach == "refused":
        found.add("connection-refused")
    attention = tuple(each for each in _ATTENTIONS if each in found)
    state: State
    if reach == "refused":
        state = "needs-attention"
    elif reach in {"unreachable", "connecting", "stopped"}:
        state = "unreachable"
    elif reach == "opening" or tally.behind or (tally.queued and "writing-halted" not in found):
        state = "transferring"
    elif attention:
        state = "needs-attention"
    elif recorded:
        state = "synchronized"
    else:
        state = "transferring"
    return Status(
        state=state,
        reach=reach,
        synchronized=synchronized,
        rooms=tally.rooms,
        transferring=tally.behind,
        queued=tally.queued,
        attention=attention,
    )
