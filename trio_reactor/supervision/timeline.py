"""What the events of a supervisor mean on a timeline.

A lane for every key, in which one session follows another: opened, loading, running, stopping, and
why each changed hands.  What went wrong, and what was restarted, is marked where it happened.

    builder = supervision_timeline("One night")
    for envelope in envelopes:
        builder.feed(envelope)
    svg = render_svg(builder.build())
"""

from __future__ import annotations

from trio_reactor.events import Event
from trio_reactor.timeline import Happened, Step, TimelineBuilder, Turned, TurnedOff

from .events import (
    CleanupFailed,
    ServiceEnded,
    ServiceGaveUp,
    ServiceRestarting,
    SessionAdopted,
    SessionLoaded,
    SessionLoading,
    SessionOpened,
    SessionRecovered,
    SessionStopped,
    SessionStopping,
    SupervisorPoisoned,
)
from .model.ends import NotStarted, Stop, Termination

__all__ = ["supervision_steps", "supervision_timeline"]


def supervision_timeline(
    title: str, *, description: str = "", max_items: int = 4096
) -> TimelineBuilder:
    """A builder to feed with the envelopes of supervisors; the events of others are passed over.

    Args:
        title: The timeline's.
        description: A sentence under the title.
        max_items: How many spans and marks are kept; older ones are counted.
    """
    return TimelineBuilder(
        title, steps=supervision_steps, description=description, max_items=max_items
    )


def supervision_steps(event: Event) -> tuple[Step, ...]:
    """What one event of a supervisor means.  Pure; nothing for what is not to be seen."""
    match event:
        case SessionOpened(key=key, generation=generation):
            return (Turned(str(key), f"generation {generation}", "ready", "opened"),)
        case SessionLoading(key=key, work=work):
            return (Turned(str(key), f"loading {work}", "opening", "loading"),)
        case SessionLoaded(key=key, generation=generation):
            return (Turned(str(key), f"generation {generation}", "active", "loaded"),)
        case SessionAdopted(key=key, generation=generation):
            lane = str(key)
            return (
                Turned(lane, f"generation {generation}", "active", "adopted"),
                Happened("adopted", "recovery", lane),
            )
        case SessionStopping(key=key, stop=stop):
            why = _why(stop)
            return (
                Turned(str(key), "stopping", "leaving", why),
                *_marked(str(key), stop),
            )
        case SessionStopped(key=key, stop=stop, termination=termination):
            return (TurnedOff(str(key), f"{_why(stop)}: {_ended(termination)}"),)
        case SessionRecovered(key=key, stop=stop, termination=termination):
            lane = str(key)
            told = f"recovered, {_why(stop)}: {_ended(termination)}"
            return (TurnedOff(lane, told), Happened(told, "recovery", lane))
        case CleanupFailed(key=key, failures=failures):
            kinds = ", ".join(failure.type for failure in failures)
            return (Happened(f"cleaning up failed: {kinds}", "note", str(key)),)
        case ServiceRestarting(key=key, pause=pause, why=why):
            return (Happened(f"{why}: again in {pause:.2f} s", "note", str(key)),)
        case ServiceGaveUp(key=key, why=why, restarts=restarts):
            return (Happened(f"given up after {restarts} restarts: {why}", "loss", str(key)),)
        case ServiceEnded(key=key, why=why):
            return (Happened(f"no longer kept running: {why}", "note", str(key)),)
        case SupervisorPoisoned(failure=failure):
            return (Happened(f"poisoned: {failure.type}: {failure.message}", "loss"),)
        case _:
            return ()


def _marked(lane: str, stop: Stop) -> tuple[Step, ...]:
    if stop.reason == "superseded":
        return (Happened("superseded", "handover", lane),)
    failed = stop.exit is None or not stop.exit.is_success
    if stop.reason in ("disposed", "shutdown") or (stop.reason == "exited" and not failed):
        return ()
    return (Happened(_why(stop), "loss", lane),)


def _why(stop: Stop) -> str:
    return stop.reason if stop.exit is None else f"{stop.reason} with {stop.exit}"


def _ended(termination: Termination) -> str:
    if isinstance(termination, NotStarted):
        return "never started"
    return f"{type(termination).__name__.lower()}, {termination.exit}"
