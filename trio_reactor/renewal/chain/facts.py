"""What a chain gives to the pure policy: the state of its slots as facts, in one step."""

from __future__ import annotations

import math

from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.policy.decision import route_of
from trio_reactor.renewal.policy.facts import ChainFacts
from trio_reactor.renewal.policy.handoff import BoundaryFacts
from trio_reactor.renewal.sequences.register import SequenceRegister
from trio_reactor.renewal.slot.slot import Slot

from .lineup import Lineup
from .tally import FailureTally

__all__ = ["facts_of", "route_in"]


def facts_of(
    now: float,
    lineup: Lineup,
    tally: FailureTally,
    sequences: SequenceRegister,
    *,
    begun: bool,
    renewing: bool,
    wanted: bool,
    stopping: bool,
) -> ChainFacts:
    """What is known in this step.

    Args:
        now: The instant, on the clock.
        lineup: Has the slots.
        tally: Has counted what failed.
        sequences: Knows which of them are bound.
        begun: Whether a source has been on air: there is no second one before.
        renewing: Whether successors are wanted at all.
        wanted: Whether one was asked for of the source on air.
        stopping: Whether the owner stops.
    """
    on_air, following = lineup.on_air, lineup.next
    ready = (
        following is not None
        and isinstance(following.phase, phases.Prepared)
        and (following.playable is None or following.book.has_ready)
    )
    # A command that is pending, or more that is to come, keeps a source.
    bound = on_air is not None and (bool(on_air.pending) or sequences.holds(on_air.incarnation))
    return ChainFacts(
        now=now,
        current=None if on_air is None else on_air.facts(),
        next=None if following is None else following.facts(),
        leaving=len(lineup.leaving),
        exclusive_leaving=any(slot.exclusive for slot in lineup.leaving.values()),
        boundary=BoundaryFacts(
            open_sequences=bound,
            idle_since=None if on_air is None else on_air.book.idle_since,
            next_ready=ready,
            last=None if on_air is None else on_air.book.last,
        ),
        vacancy=lineup.vacancy,
        retry_at=tally.retry_at if begun else math.inf,
        fresh=lineup.offers.fresh,
        exhausted=begun and tally.exhausted,
        renewing=renewing,
        wanted=wanted,
        stopping=stopping,
    )


def route_in(lineup: Lineup) -> Slot | None:
    """The slot that takes work bound to none, if any does now."""
    on_air, following = lineup.on_air, lineup.next
    current = None if on_air is None else on_air.facts()
    match route_of(current, None if following is None else following.facts()):
        case "next":
            return following
        case "current":
            return on_air
        case None:
            return None
