"""What the events of a renewal mean on a timeline.

A lane for the output, coloured by whose turn it is, and below it one for every source: opening,
prepared, on air, recovering, leaving.  An arrow leads from each source to the one it handed over
to, with the evidence that it was time; what was lost is marked where it was lost.

    builder = renewal_timeline("One broadcast")
    for envelope in envelopes:
        builder.feed(envelope)
    svg = render_svg(builder.build())

Several renewals on one channel are drawn in one picture, each with lanes of its own.
"""

from __future__ import annotations

from typing import Final

from trio_reactor.events import Event, FailureRecord
from trio_reactor.timeline import (
    Happened,
    Lane,
    Step,
    TimelineBuilder,
    Turned,
    TurnedBack,
    TurnedOff,
)

from .events import (
    AdoptionDiscarded,
    AllocationSettled,
    ClipLost,
    HandedOver,
    InputLost,
    LifetimeShortened,
    OnAir,
    OpenFailure,
    Prepared,
    Recovered,
    Recovering,
    RenewalClosed,
    RenewalFailed,
    RenewalFinished,
    RenewalStopped,
    RenewalWanted,
    Replaced,
    ResumptionDiscarded,
    SequenceRetired,
    SourceClosed,
    SourceOpened,
    SourceOpening,
    SourceRef,
    Tail,
)
from .source import OpenCause

__all__ = ["renewal_steps", "renewal_timeline"]

OUTPUT: Final = Lane("output", "#64748b")
"""What a viewer sees: one lane, whichever source it comes from."""

_FOLLOWED: Final[dict[OpenCause, str]] = {
    "first": "the first one",
    "plan": "handed over as planned",
    "loss": "its source was lost",
}


def renewal_timeline(
    title: str, *, description: str = "", max_items: int = 4096
) -> TimelineBuilder:
    """A builder to feed with the envelopes of renewals; the events of others are passed over.

    Args:
        title: The timeline's.
        description: A sentence under the title.
        max_items: How many spans and marks are kept; older ones are counted.
    """
    return TimelineBuilder(
        title,
        steps=renewal_steps,
        description=description,
        first=(OUTPUT,),
        max_items=max_items,
    )


def renewal_steps(event: Event) -> tuple[Step, ...]:
    """What one event of a renewal means.  Pure; nothing for what is not to be seen."""
    match event:
        case SourceOpening(source=source, cause=cause, adopting=adopting):
            label = "opening after a loss" if cause == "loss" else "opening"
            if adopting:
                label = "adopting"
            return (Turned(_lane(source), label, "opening"),)
        case SourceOpened(source=source, took=took):
            return (Turned(_lane(source), "open", "opening", f"opened in {took:.2f} s"),)
        case OpenFailure(source=source, failure=failure, consecutive=count, pause=pause):
            again = "given up" if pause is None else f"again in {pause:.2f} s"
            return (
                TurnedOff(_lane(source), f"failed: {_failed(failure)}"),
                Happened(f"open failed ({count} in a row), {again}", "loss", _lane(source)),
            )
        case Prepared(source=source):
            return (Turned(_lane(source), "prepared", "ready", "ready to take over"),)
        case OnAir(source=source, cause=cause):
            lane = _lane(source)
            return (
                Turned(lane, "on air", "active", "went on air"),
                Turned(OUTPUT.name, source.id or lane, "active", _FOLLOWED[cause], by=lane),
            )
        case HandedOver(old=old, new=new, evidence=evidence, tail=tail):
            why = f"handed over: {evidence.kind}{_tail(tail)}"
            to = None if new is None else _lane(new)
            return (
                Turned(_lane(old), "leaving", "leaving", why),
                Happened(evidence.kind, "handover", _lane(old), to),
            )
        case Recovering(source=source, mode=mode, why=why, on_air=on_air):
            lane = _lane(source)
            label = "reconnecting" if mode == "reconnect" else "being replaced"
            disturbed = Turned(OUTPUT.name, label, "broken", why, by=lane)
            return (
                Turned(lane, label, "broken", why),
                Happened(why, "loss", lane),
                *((disturbed,) if on_air else ()),
            )
        case Recovered(source=source, took=took):
            lane, whole = _lane(source), f"recovered in {took:.2f} s"
            return (
                TurnedBack(lane, whole),
                TurnedBack(OUTPUT.name, whole, by=lane),
                Happened(whole, "recovery", lane),
            )
        case Replaced(old=old, new=new, why=why, tail=tail):
            lane = _lane(old)
            return (
                Turned(lane, "leaving", "leaving", f"lost: {why}{_tail(tail)}"),
                Happened(f"replaced: {why}", "loss", lane, None if new is None else _lane(new)),
                TurnedOff(OUTPUT.name, f"lost: {why}", by=lane),
            )
        case ClipLost(source=source, clip=clip, frames_expected=expected, frames_received=received):
            missing = "" if expected is None else f", {expected - received} of {expected} frames"
            return (Happened(f"lost: {clip}{missing}", "loss", _lane(source)),)
        case SequenceRetired(source=source, sequence=sequence, indeterminate=unknown):
            label = f"sequence not sealed: {sequence}"
            if unknown:
                return (Happened(f"{label}, {unknown} unknown", "loss", _lane(source)),)
            return (Happened(label, "note", _lane(source)),)
        case SourceClosed(source=source, why=why, cleanup=cleanup):
            proven = "clean-up complete" if cleanup.complete else "clean-up not proven"
            return (TurnedOff(_lane(source), f"{why}, {proven}"),)
        case LifetimeShortened(source=source, expires_in=expires_in):
            return (Happened(f"ends in {expires_in:.2f} s", "note", _lane(source)),)
        case ResumptionDiscarded(source=source):
            lane = _lane(source)
            return (
                TurnedOff(lane, "resumption refused"),
                Happened("resumption refused, opening afresh", "note", lane),
            )
        case AdoptionDiscarded(source=source, failure=failure):
            lane = _lane(source)
            return (
                TurnedOff(lane, f"not adopted: {_failed(failure)}"),
                Happened("not adopted, opening afresh", "note", lane),
            )
        case AllocationSettled(source=source, key=key, how=how):
            return (Happened(f"left behind: {source or key}, {how}", "note"),)
        case InputLost(pieces=pieces, bytes=size, why=why):
            return (Happened(f"lost: {pieces} pieces of input, {size} bytes: {why}", "loss"),)
        case RenewalWanted(reason=reason):
            return (Happened(f"renewal wanted: {reason}", "note"),)
        case RenewalStopped():
            return (Happened("no more renewals", "note"),)
        case RenewalFinished():
            return (TurnedOff(OUTPUT.name, "the last source is gone"),)
        case RenewalClosed():
            return (TurnedOff(OUTPUT.name, "closed"),)
        case RenewalFailed(failure=failure):
            return (
                Happened(f"failed: {_failed(failure)}", "loss"),
                TurnedOff(OUTPUT.name, f"failed: {_failed(failure)}"),
            )
        case _:
            return ()


def _lane(source: SourceRef) -> str:
    return f"source {source.incarnation}"


def _tail(tail: Tail) -> str:
    """How much of the last clip came, and how much of that was still to be read."""
    if tail.clip is None:
        return ""
    expected = "" if tail.frames_expected is None else f" of {tail.frames_expected}"
    return f", {tail.frames_received}{expected} frames, {tail.frames_queued} still queued"


def _failed(failure: FailureRecord) -> str:
    return f"{failure.type}: {failure.message}"
