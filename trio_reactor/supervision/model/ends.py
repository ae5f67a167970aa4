"""How sessions and executions end."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import msgspec

from trio_reactor.events import FailureRecord

__all__ = [
    "STOP_REASONS",
    "ExitStatus",
    "Exited",
    "Killed",
    "NotStarted",
    "Stop",
    "StopReason",
    "Termination",
]


class ExitStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a process ended; both `None` if it is gone and nobody can know."""

    code: int | None = None
    signal: int | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"signal {self.signal}"
        return "an unknown status" if self.code is None else f"status {self.code}"

    @property
    def is_success(self) -> bool:
        """Whether it ended with status 0."""
        return self.code == 0


StopReason = Literal[
    "disposed",
    "expired",
    "superseded",
    "exited",
    "load-failed",
    "unresponsive",
    "unreachable",
    "shutdown",
    "fenced",
    "recovered",
    "taken-over",
]
"""Why a session stopped.

`disposed`: it was asked to.  `expired`: its lease ran out.  `superseded`: a newer session of its
key was opened.  `exited`: its execution ended by itself.  `load-failed`: the code could not be
loaded, or the execution failed before it was.  `unresponsive`: it was silent for `hang_timeout`.
`unreachable`: its child could not be told its deadline.  `shutdown`: its supervisor closed.
`fenced`: this host may no longer hold what it held.  `recovered`: its supervisor ended without a
close, and the next one found it.  `taken-over`: its host died, and another took the key.
"""

STOP_REASONS: Final[tuple[StopReason, ...]] = get_args(StopReason)


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a session stopped, and what was seen of it."""

    reason: StopReason
    exit: ExitStatus | None = None
    """How its execution had ended, if that is why or was known by then."""
    failure: FailureRecord | None = None
    """What failed, if something did."""
    stack: str | None = None
    """Where its code was, if it was silent."""


class NotStarted(msgspec.Struct, frozen=True, tag="not-started", forbid_unknown_fields=True):
    """There was no execution, or none that ever ran the user's code and could be found."""

    causes: tuple[FailureRecord, ...] = ()
    """What went wrong while it was made sure of; not what the session stopped for."""

    @property
    def exit(self) -> None:
        """None: nothing ran that could have ended."""
        return


class Exited(msgspec.Struct, frozen=True, tag="exited", forbid_unknown_fields=True):
    """The execution ended by itself, or when it was asked to."""

    exit: ExitStatus
    causes: tuple[FailureRecord, ...] = ()


class Killed(msgspec.Struct, frozen=True, tag="killed", forbid_unknown_fields=True):
    """The execution was killed, and its end was observed."""

    exit: ExitStatus
    causes: tuple[FailureRecord, ...] = ()


Termination: TypeAlias = NotStarted | Exited | Killed
"""The observed end of what a session ran.  A signal is a request; only this is the end."""
