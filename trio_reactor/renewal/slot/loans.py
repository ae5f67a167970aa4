"""Who uses a source directly, and what becomes of that when the source goes.

A source that was handed over while somebody uses it leaves the air at once, and leaves altogether
with the last who does, or at the end of its life.  A source that is not whole any more is taken
from them at once.
"""

from __future__ import annotations

from typing import Final, Literal, Protocol

import trio

from trio_reactor.renewal.policy import phases

__all__ = ["Loan", "LoanEnd", "ends_loans"]

LoanEnd = Literal["lost", "expired", "retired"]
"""Why what was borrowed was taken back."""

_ENDS: Final[dict[phases.Occurrence, LoanEnd]] = {"expired": "expired", "retired": "retired"}


class Loan(Protocol):
    """One use of a source."""

    def cut(self, why: LoanEnd) -> None:
        """End it: the source goes."""
        ...

    def holds(self, task: trio.lowlevel.Task, nursery: trio.Nursery | None) -> bool:
        """Whether a task, or a child of it in this nursery of its, runs inside of it."""
        ...


def ends_loans(phase: phases.Phase, occurrence: phases.Occurrence) -> LoanEnd | None:
    """Why an occurrence that led to this phase ends every use of its source; `None`: it does not.

    After a handover the source is whole, and waits for who uses it.
    """
    if isinstance(phase, phases.OnAir) or occurrence == "handed-over":
        return None
    return _ENDS.get(occurrence, "lost")
