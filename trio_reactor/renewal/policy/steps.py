"""The steps that a chain can take, as values: what a decision comes to."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from trio_reactor.renewal.source import OpenCause

from .handoff import HandoffEvidence

__all__ = [
    "Abandon",
    "Activate",
    "Check",
    "Decision",
    "Discard",
    "Expire",
    "Fail",
    "Finish",
    "HandOver",
    "Idle",
    "Prepare",
    "Reconnect",
    "Replace",
    "Role",
    "Tell",
    "Wait",
    "Yield",
]

Role = Literal["current", "next"]


class Idle(msgspec.Struct, frozen=True, tag=True):
    """The chain is stopping: nothing is to be decided any more."""


class Wait(msgspec.Struct, frozen=True, tag=True):
    """Nothing is to be done before a change, or before an instant."""

    until: float | None
    """The instant, on the clock and later than now; `None` if only a change matters."""


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """Open the next source, on an attempt of its own."""

    cause: OpenCause


class Abandon(msgspec.Struct, frozen=True, tag=True):
    """Cancel the next source while it opens: it is not wanted any more."""


class Discard(msgspec.Struct, frozen=True, tag=True):
    """Let the next source go: it expired, or cannot be recovered, before its turn came."""

    why: Literal["expired", "replaced"]


class Check(msgspec.Struct, frozen=True, tag=True):
    """Look at a source, whose turn it is, before it goes on air."""

    role: Role


class Activate(msgspec.Struct, frozen=True, tag=True):
    """Put the prepared source on air: the place is vacant."""

    cause: OpenCause


class HandOver(msgspec.Struct, frozen=True, tag=True):
    """Put the prepared source on air in the place of the current one, which leaves."""

    evidence: HandoffEvidence


class Yield(msgspec.Struct, frozen=True, tag=True):
    """Let the exclusive current source go at a boundary, so that its successor can open."""

    evidence: HandoffEvidence


class Reconnect(msgspec.Struct, frozen=True, tag=True):
    """Begin to recover a source by making its connection again."""

    role: Role
    within: float
    """Seconds it may take."""


class Tell(msgspec.Struct, frozen=True, tag=True):
    """Tell a source what was set and it has not taken."""

    role: Role


class Replace(msgspec.Struct, frozen=True, tag=True):
    """Let the current source go as lost."""


class Expire(msgspec.Struct, frozen=True, tag=True):
    """Let the current source go: its life is over."""


class Fail(msgspec.Struct, frozen=True, tag=True):
    """Give up: too many failures in a row, or a permanent refusal."""


class Finish(msgspec.Struct, frozen=True, tag=True):
    """End: the last source is gone and no successor is wanted."""


Decision: TypeAlias = (
    Idle
    | Wait
    | Prepare
    | Abandon
    | Discard
    | Check
    | Activate
    | HandOver
    | Yield
    | Reconnect
    | Tell
    | Replace
    | Expire
    | Fail
    | Finish
)
