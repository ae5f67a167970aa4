"""Until when a host may hold anything, and when another may take it: pure.

A host that shares a journal beats in it.  Before it sends a beat it reads its machine's clock, at
`t0`; once the journal has answered, nothing of the host's may run after its *horizon*, `t0` + its
lease.  Every execution ends by itself at its horizon, told or not.

Another host that wants a key of a silent one reads the beats, and then its own machine's clock.
The last beat was committed before that, so its `t0` was earlier still, and its horizon is at most
one lease later than this reading.  So it waits for a lease and a margin on its own clock, and then
fences the host in the journal on condition that the beats are what they were.  No two clocks are
compared; only their rates are, over one lease, and the margin covers how much they differ.

The condition is on the journal's history too: after a failover to another history a beat may be
missing there that was answered, so every wait starts again.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from trio_reactor.supervision.store.protocol import HostFacts

__all__ = [
    "Fence",
    "Free",
    "Lives",
    "Seen",
    "Verdict",
    "Watch",
    "beat_period",
    "decide",
    "default_margin",
    "horizon_of",
]

BEATS_A_LEASE: Final = 3
"""How often a host beats in a lease: two may be lost."""


def horizon_of(sent_at: float, lease: float) -> float:
    """Until when a host may hold anything, after the answer to a beat.

    Args:
        sent_at: What its machine's clock said before the beat was sent, in seconds.
        lease: Its lease in seconds.
    """
    return sent_at + lease


def beat_period(lease: float) -> float:
    """Seconds between two beats."""
    return lease / BEATS_A_LEASE


def default_margin(lease: float) -> float:
    """Seconds beyond a lease that are waited: for drift, the guard's wake-up and the kill."""
    return max(1.0, lease / 10)


class Seen(msgspec.Struct, frozen=True):
    """What was read of an incarnation, and when."""

    facts: HostFacts
    at: float
    """What this machine's clock said after the answer, in seconds."""

    def is_over_at(self, margin: float) -> float:
        """When everything has ended that it may have held when it was seen."""
        return self.at + self.facts.lease + margin


class Free(msgspec.Struct, frozen=True):
    """It is fenced: what it holds may be taken."""


class Lives(msgspec.Struct, frozen=True):
    """It was heard of: what it holds stays its own."""

    seen: Seen
    """As it is now."""


class Watch(msgspec.Struct, frozen=True):
    """It may be dead or alive."""

    seen: Seen
    """What the wait is counted from."""
    until: float
    """When to look again, on this machine's clock."""


class Fence(msgspec.Struct, frozen=True):
    """Whatever it held has ended, unless it was heard of meanwhile: fence it."""

    seen: Seen
    """On which condition."""


Verdict: TypeAlias = Free | Lives | Watch | Fence


def decide(facts: HostFacts, seen: Seen | None, *, now: float, margin: float) -> Verdict:
    """What to do about an incarnation that holds what is wanted.

    Args:
        facts: What was just read of it.
        seen: What it was seen like before; `None`: never.
        now: What this machine's clock said after `facts` were answered, in seconds.
        margin: Seconds beyond the lease.
    """
    if facts.fenced:
        return Free()
    fresh = Seen(facts, now)
    if seen is None or seen.facts.timeline != facts.timeline:
        return _watch(fresh, now, margin)
    if seen.facts.beats != facts.beats:
        # A change that may be older than a whole wait says nothing of whether it lives now; whoever
        # waits looks more often than that, or as the wait is over.
        stale = now > seen.is_over_at(margin) + beat_period(facts.lease)
        return _watch(fresh, now, margin) if stale else Lives(fresh)
    if now < seen.is_over_at(margin):
        return _watch(seen, now, margin)
    return Fence(seen)


def _watch(seen: Seen, now: float, margin: float) -> Watch:
    """Wait for the end, looking as often as one that lives would beat."""
    return Watch(seen, min(seen.is_over_at(margin), now + beat_period(seen.facts.lease)))
