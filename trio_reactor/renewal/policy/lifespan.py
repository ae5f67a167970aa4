"""How long a source lives, when its successor is due, and when it counts as a good one."""

from __future__ import annotations

import math
from random import Random

import msgspec

from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.wording import a_kind

__all__ = ["Lifespan", "lifetime_fault", "notice_fault", "plan"]


class Lifespan(msgspec.Struct, frozen=True):
    """The instants that matter in the life of one source, on the clock."""

    opened_at: float
    expires_at: float | None
    """When it ends; `None` for no end."""
    prepare_at: float | None
    """When the next is due, jitter included; `None` if it ends never or `lead` is 0."""
    stable_at: float
    """From this instant it counts as a good source.  Fixed when it was opened: one that shortens
    its own life does not become good by that."""
    early_until: float = -math.inf
    """If it ends by itself before this instant, the next is opened after a pause, also where it
    counts as good: sources that die as they open are never opened without one.  Fixed, too."""

    def age(self, now: float) -> float:
        """Seconds since it was opened."""
        return max(0.0, now - self.opened_at)

    def left(self, now: float) -> float | None:
        """Seconds it still has to live, at least 0; `None` for no end."""
        return None if self.expires_at is None else max(0.0, self.expires_at - now)

    def shortened(self, now: float, expires_in: float, *, lead: float) -> Lifespan:
        """The rest of a life that its source says will end sooner; one that ends later is ignored.

        Args:
            now: The time of the notice, on the clock.
            expires_in: Seconds from then; less than 0 is at once.
            lead: Seconds before its end that the next is prepared; jitter does not apply, because
                a notice comes to each at its own time.

        Raises:
            ValueError: If `expires_in` has a `notice_fault`.
        """
        fault = notice_fault(expires_in)
        if fault is not None:
            raise ValueError(fault)
        expires_at = now + max(0.0, float(expires_in))
        if self.expires_at is not None and self.expires_at <= expires_at:
            return self
        prepare_at = None
        if lead > 0:
            prepare_at = max(now, expires_at - lead)
            if self.prepare_at is not None:
                prepare_at = min(prepare_at, self.prepare_at)
        return Lifespan(self.opened_at, expires_at, prepare_at, self.stable_at, self.early_until)


def lifetime_fault(lifetime: object, lead: float) -> str | None:
    """What is wrong with a lifetime that a source declares; `None` if nothing is.

    Args:
        lifetime: Seconds, or `None` for no end.  An adapter may declare anything.
        lead: Seconds before its end that the next source is prepared.  A life that is not longer
            would have its successor prepared at once, after every open.
    """
    if lifetime is None:
        return None
    if isinstance(lifetime, bool) or not isinstance(lifetime, (int, float)):
        return f"the lifetime is {a_kind(lifetime)}, not a number of seconds"
    if not _is_finite(lifetime):
        return f"the lifetime is {_told(lifetime)}; no end is None"
    if lifetime <= 0:
        return f"the lifetime is {lifetime} s, which is over already"
    if lifetime <= lead:
        return (
            f"the lifetime of {lifetime} s is not longer than the lead of {lead} s; "
            "set RenewalOptions(lead=…) to less than it"
        )
    return None


def notice_fault(expires_in: object) -> str | None:
    """What is wrong with the notice of a source that it will end sooner; `None` if nothing is."""
    if isinstance(expires_in, bool) or not isinstance(expires_in, (int, float)):
        return f"the notice gives {a_kind(expires_in)}, not a number of seconds"
    if not _is_finite(expires_in):
        return f"the notice gives {_told(expires_in)} seconds"
    return None


def _is_finite(seconds: float) -> bool:
    try:
        return math.isfinite(seconds)
    except OverflowError:  # an integer that no float can hold
        return False


def _told(seconds: float) -> str:
    """A number that is not finite; one that no float can hold may be too long for any text."""
    return str(seconds) if isinstance(seconds, float) else "more than any float"


def plan(
    opened_at: float, lifetime: float | None, options: RenewalOptions, random: Random
) -> Lifespan:
    """The instants of a source that was opened.

    Args:
        opened_at: When, on the clock.
        lifetime: Seconds it lives from then; `None` for no end.
        options: `lead`, `jitter`, `stable_after` and `first_pause` count.
        random: Where the jitter is drawn from.

    Raises:
        ValueError: If the lifetime has a `lifetime_fault`.
    """
    fault = lifetime_fault(lifetime, options.lead)
    if fault is not None:
        raise ValueError(fault)
    stable_at, early_until = opened_at + options.stable_after, opened_at + options.first_pause
    if lifetime is None:
        return Lifespan(opened_at, None, None, stable_at, early_until)
    expires_at = opened_at + lifetime
    if options.lead == 0:
        return Lifespan(
            opened_at,
            expires_at,
            None,
            min(stable_at, expires_at),
            min(early_until, expires_at),
        )
    before = lifetime - options.lead
    # Never later than the lead, which is a promise; never before the source was opened.
    early = options.jitter * random.random() * min(options.lead, before)
    prepare_at = opened_at + before - early
    return Lifespan(
        opened_at,
        expires_at,
        prepare_at,
        min(stable_at, prepare_at),
        min(early_until, prepare_at),
    )
