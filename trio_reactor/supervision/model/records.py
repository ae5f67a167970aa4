"""What is recorded of a session, and told of it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .child import Child, Launch
from .ends import Stop, Termination
from .keys import Handle
from .work import CodeIdentity, Enforced, Limits, Work

__all__ = [
    "LivePhase",
    "Loaded",
    "Loading",
    "Open",
    "Phase",
    "SessionRecord",
    "SessionStatus",
    "Stopped",
    "Stopping",
    "child_of",
]


class Open(msgspec.Struct, frozen=True, tag="open", forbid_unknown_fields=True):
    """It is leased, and has no execution."""


class Loading(msgspec.Struct, frozen=True, tag="loading", forbid_unknown_fields=True):
    """Its execution is being launched, or has been and loads the code."""

    work: Work
    launch: Launch
    child: Child | None = None
    """The registered child; until then none may run the user's code."""
    enforced: Enforced | None = None


class Loaded(msgspec.Struct, frozen=True, tag="loaded", forbid_unknown_fields=True):
    """Its code runs."""

    work: Work
    launch: Launch
    child: Child
    enforced: Enforced
    code: CodeIdentity


LivePhase: TypeAlias = Open | Loading | Loaded


class Stopping(msgspec.Struct, frozen=True, tag="stopping", forbid_unknown_fields=True):
    """It is fenced, and its execution is being ended."""

    stop: Stop
    before: LivePhase


class Stopped(msgspec.Struct, frozen=True, tag="stopped", forbid_unknown_fields=True):
    """It is over, and its execution's end was observed."""

    stop: Stop
    termination: Termination
    work: Work | None = None
    code: CodeIdentity | None = None
    recovered: bool = False
    """Whether a later supervisor saw to it, after the one that had it ended."""


Phase: TypeAlias = Open | Loading | Loaded | Stopping | Stopped


class SessionRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One session, as it is journaled."""

    handle: Handle
    request: str
    """The request that opened it; the same request finds it again."""
    lease: float
    """Seconds from an opening or a renewal until it ends."""
    limits: Limits
    opened_at: float
    """Wall time, in seconds since 1970 UTC."""
    phase: Phase
    host: str = ""
    """Which incarnation of a supervisor has it, where several share a journal."""


class SessionStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session at one moment."""

    record: SessionRecord
    remaining: float | None
    """Seconds that its lease has left; `None` once it is stopping."""
    journaled: bool = True
    """Whether the journal has the record: stopping is fenced also when it cannot take it."""

    @property
    def phase(self) -> Phase:
        """Where it is on its way."""
        return self.record.phase


def child_of(phase: Phase) -> Child | None:
    """The child that a session has at most, if one was registered."""
    match phase:
        case Loading(child=child) | Loaded(child=child):
            return child
        case Stopping(before=before):
            return child_of(before)
        case Open() | Stopped():
            return None
