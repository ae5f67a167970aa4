"""The life of a session, as a table.

A session goes one way::

    open ──▶ launching ──▶ registered ──▶ loaded
      └──────────┴─────────────┴────────────┴──▶ stopping ──▶ stopped

What each state means:

`open`
    It is leased and has no execution.
`launching`
    The launch is journaled; a child may exist, and may not run the user's code.
`registered`
    The child's identity is journaled; it loads the code.
`loaded`
    The code runs.
`stopping`
    It is fenced: nobody renews or loads it any more.  Its execution is being ended.
`stopped`
    Its execution's end was observed, or it never had one.

What happens is an event; `TRANSITIONS` holds every event that changes a state, and whatever is not
in it changes nothing: `advance` returns `None`, and the shell tells whoever asked why.  So what
comes late is harmless: a child that registers after the stop, a load that succeeds after the lease
ran out, a second stop.  The first stop's reason is the one that stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, assert_never, get_args

import msgspec

from .child import Child, Launch
from .ends import Stop, Termination
from .records import LivePhase, Loaded, Loading, Open, Phase, Stopped, Stopping
from .work import CodeIdentity, Enforced, Work

__all__ = [
    "OCCURRENCES",
    "STATES",
    "TRANSITIONS",
    "CodeLoaded",
    "Ended",
    "LoadBegun",
    "Occurrence",
    "Registered",
    "SessionEvent",
    "State",
    "StopBegun",
    "advance",
    "state_of",
    "stopped",
    "stopping",
]

State = Literal["open", "launching", "registered", "loaded", "stopping", "stopped"]
"""Where a session is on its way."""

STATES: Final[tuple[State, ...]] = get_args(State)

Occurrence = Literal["load-begun", "registered", "code-loaded", "stop-begun", "ended"]
"""What can happen to a session."""

OCCURRENCES: Final[tuple[Occurrence, ...]] = get_args(Occurrence)


class LoadBegun(msgspec.Struct, frozen=True, tag="load-begun"):
    """Somebody wants code to run in it."""

    work: Work
    launch: Launch


class Registered(msgspec.Struct, frozen=True, tag="registered"):
    """Its child exists, and is known."""

    child: Child
    enforced: Enforced


class CodeLoaded(msgspec.Struct, frozen=True, tag="code-loaded"):
    """Its child has loaded the code."""

    code: CodeIdentity


class StopBegun(msgspec.Struct, frozen=True, tag="stop-begun"):
    """It is to end, for whatever reason."""

    stop: Stop


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The end of its execution was observed."""

    termination: Termination
    recovered: bool = False


SessionEvent: TypeAlias = LoadBegun | Registered | CodeLoaded | StopBegun | Ended

TRANSITIONS: Final[Mapping[tuple[State, Occurrence], State]] = MappingProxyType(
    {
        ("open", "load-begun"): "launching",
        ("launching", "registered"): "registered",
        ("registered", "code-loaded"): "loaded",
        ("open", "stop-begun"): "stopping",
        ("launching", "stop-begun"): "stopping",
        ("registered", "stop-begun"): "stopping",
        ("loaded", "stop-begun"): "stopping",
        ("stopping", "ended"): "stopped",
    }
)
"""Every event that changes a state, and what it becomes."""


def state_of(phase: Phase) -> State:
    """The state that a phase is in."""
    match phase:
        case Open():
            return "open"
        case Loading(child=None):
            return "launching"
        case Loading():
            return "registered"
        case Loaded():
            return "loaded"
        case Stopping():
            return "stopping"
        case Stopped():
            return "stopped"
        case _:
            assert_never(phase)


def stopping(phase: LivePhase, stop: Stop) -> Stopping:
    """A live phase after its stop began."""
    return Stopping(stop, before=phase)


def stopped(phase: Stopping, ended: Ended) -> Stopped:
    """A session that was stopping, after the end of its execution was observed."""
    before = phase.before
    return Stopped(
        phase.stop,
        ended.termination,
        work=None if isinstance(before, Open) else before.work,
        code=before.code if isinstance(before, Loaded) else None,
        recovered=ended.recovered,
    )


def advance(phase: Phase, event: SessionEvent) -> Phase | None:
    """The phase after an event; `None` if the event changes nothing there."""
    match phase, event:
        case Open(), LoadBegun(work=work, launch=launch):
            return Loading(work, launch)
        case Loading(work=work, launch=launch, child=None), Registered(
            child=child, enforced=enforced
        ):
            return Loading(work, launch, child, enforced)
        case Loading(work=work, launch=launch, child=Child() as child), CodeLoaded(code=code):
            return Loaded(work, launch, child, phase.enforced or Enforced(), code)
        case ((Open() | Loading() | Loaded()), StopBegun(stop=stop)):
            return stopping(phase, stop)
        case Stopping(), Ended():
            return stopped(phase, event)
        case _:
            return None
