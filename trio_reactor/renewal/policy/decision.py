"""What a chain does next: a pure function of what is known.

`decide` is asked after every change and at every deadline it named, and answers with one step.  A
step changes the facts, so the chain asks again until the answer is `Wait` (for a change, or for
the instant it names, whichever is first) or one of the ends.  Nothing polls, and nothing is decided
across an await: the facts are gathered, the decision taken and the step recorded in one go.

In order of importance:

1. Once the chain is stopping, nothing is decided any more.
2. The end of a source's life comes before anything that could delay it.
3. Too many failures in a row, or a permanent refusal, end the chain.
4. What was lost is recovered, or let go and followed by the next.
5. What goes on air was checked before, if the application has a check; the boundary is looked at
   again after it.
6. A handoff happens at a boundary, and at most two sources are owned at once: one that is leaving
   counts until it has left.
7. The next source is prepared when it is due.
8. What was set and a source has not taken is told to it, whoever set it: to the one on air first,
   because what that one refuses is not wanted any more.

The chain keeps its sources by role: `current` feeds the output or is being recovered, `next` is
opening or prepared, and any other is leaving.  A current source that died, expired or was replaced
is leaving at once, so that the current place is vacant until the next one takes it.  One that was
handed over while somebody has borrowed it is leaving too: it counts until it is given back, or its
life ends, and so the next open may wait for that.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.source import OpenCause

from . import phases
from .handoff import BoundaryFacts, GraceUntil, HandoffEvidence, boundary

__all__ = [
    "MAX_OWNED",
    "Abandon",
    "Activate",
    "ChainFacts",
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
    "SourceFacts",
    "Tell",
    "Wait",
    "Yield",
    "decide",
    "route_of",
]

Role = Literal["current", "next"]

MAX_OWNED: Final = 2
"""How many sources a chain owns at once, those that are leaving included."""


class SourceFacts(msgspec.Struct, frozen=True):
    """What is known of a source that is live."""

    phase: phases.LivePhase
    expires_at: float | None = None
    """When its life ends, on the clock; `None` for no end, and while it opens."""
    prepare_at: float | None = None
    """When its successor is due; `None` for never."""
    exclusive: bool = False
    """Whether there can be no second one while it lives."""
    busy: bool = False
    """Whether its recovery, or the check of it, is under way."""
    has_work: bool = False
    """Whether it was given work that it has not finished."""
    checked: bool = True
    """Whether nothing is to be looked at any more before it goes on air."""
    settled: bool = True
    """Whether it has taken everything that was set and that it is to have now."""
    telling: bool = False
    """Whether somebody tells it what was set."""


class ChainFacts(msgspec.Struct, frozen=True):
    """What is known of a chain in one step.

    Raises:
        ValueError: If a source is in a role that its phase has no place in, or more are owned than
            may be.
    """

    now: float
    current: SourceFacts | None = None
    """On air or recovering; `None` while the place is vacant."""
    next: SourceFacts | None = None
    """Opening, prepared, or recovering off air."""
    leaving: int = 0
    """How many sources have been let go and have not left yet."""
    exclusive_leaving: bool = False
    """Whether one of these is exclusive."""
    boundary: BoundaryFacts = BoundaryFacts(open_sequences=False, idle_since=None, next_ready=False)
    """What decides whether `current` may hand over."""
    vacancy: OpenCause = "first"
    """Why the current place is vacant, if it is."""
    retry_at: float | None = None
    """Before when nothing may be opened because something failed, on the clock."""
    fresh: bool = False
    """Whether a resumption was refused and the fresh open that follows is due: no pause counts."""
    exhausted: bool = False
    """Whether the failures in a row are too many, or one of them was permanent."""
    renewing: bool = True
    """Whether successors are wanted at all."""
    wanted: bool = False
    """Whether a successor was asked for, whatever the lifetime of the current source."""
    stopping: bool = False

    def __post_init__(self) -> None:
        if self.current is not None and not phases.is_on_air(self.current.phase):
            raise ValueError(f"the current source cannot be {self.current.phase}")
        if self.next is not None and phases.is_on_air(self.next.phase):
            raise ValueError(f"the next source cannot be {self.next.phase}")
        if self.owned > MAX_OWNED:
            raise ValueError(f"{self.owned} sources are owned, {MAX_OWNED} at most may be")

    @property
    def owned(self) -> int:
        """How many sources are owned, those that are leaving included."""
        return self.leaving + (self.current is not None) + (self.next is not None)


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


def decide(facts: ChainFacts, options: RenewalOptions) -> Decision:
    """The next step of a chain.

    Args:
        facts: What is known now.
        options: `handoff_grace` and `reconnect_timeout` count.
    """
    current, following = facts.current, facts.next
    if facts.stopping:
        return Idle()
    if current is not None and _over(current, facts.now):
        return Expire()
    if following is not None and _over(following, facts.now):
        return Discard("expired")
    if facts.exhausted:
        return Fail()
    if not facts.renewing and following is not None:
        # What is prepared already is kept and used; only what still opens is not wanted.
        match following.phase:
            case phases.Opening():
                return Abandon()
            case phases.Prepared() | phases.OnAir() | phases.Recovering():
                pass
            case _:
                assert_never(following.phase)
    return (
        _recovery(facts, options)
        or (_vacant(facts) if current is None else _held(facts, current, options))
        or _untold(facts)
        or _wait(facts, options)
    )


def route_of(current: SourceFacts | None, following: SourceFacts | None) -> Role | None:
    """Which source takes work that is bound to none; `None` if none takes any now.

    The prepared one as soon as there is one, because the old source would otherwise be given work
    without end and never reach a boundary; else the one on air.  None while a next one that has
    work already is being recovered: the one on air would play the new work before the old.
    """
    if following is not None:
        if phases.takes_work(following.phase):
            return "next"
        if following.has_work:
            return None
    if current is not None and phases.takes_work(current.phase):
        return "current"
    return None


def _over(source: SourceFacts, now: float) -> bool:
    return source.expires_at is not None and source.expires_at <= now


def _recovery(facts: ChainFacts, options: RenewalOptions) -> Decision | None:
    roles: tuple[tuple[Role, SourceFacts | None], ...] = (
        ("current", facts.current),
        ("next", facts.next),
    )
    for role, source in roles:
        if source is None or source.busy or not isinstance(source.phase, phases.Recovering):
            continue
        if source.phase.mode == "reconnect":
            within = options.reconnect_timeout
            if source.expires_at is not None:
                within = min(within, source.expires_at - facts.now)
            return Reconnect(role, within)
        return Replace() if role == "current" else Discard("replaced")
    return None


def _vacant(facts: ChainFacts) -> Decision | None:
    """What is due while nothing is on air.

    A prepared source takes the place at once, also while a setting is still on its way to it: a
    wait would be a gap, and it is told to play only after it has taken what was set.
    """
    if facts.next is not None:
        if not isinstance(facts.next.phase, phases.Prepared):
            return None
        return Activate(facts.vacancy) if facts.next.checked else _check(facts.next)
    if not facts.renewing:
        return Finish()
    if _has_room(facts) and _may_open(facts):
        return Prepare(facts.vacancy)
    return None


def _held(facts: ChainFacts, current: SourceFacts, options: RenewalOptions) -> Decision | None:
    if facts.next is None:
        if not _due(facts, current):
            return None
        if current.exclusive and _is_steady(current):
            if not _may_open(facts):
                return None
            evidence = _eligible(facts, options, facts.now)
            return Yield(evidence) if isinstance(evidence, HandoffEvidence) else None
        if _has_room(facts) and _may_open(facts):
            return Prepare("plan" if _is_steady(current) else "loss")
        return None
    if _is_steady(current) and isinstance(facts.next.phase, phases.Prepared):
        evidence = _eligible(facts, options, facts.now)
        if not isinstance(evidence, HandoffEvidence):
            return None
        return HandOver(evidence) if facts.next.checked else _check(facts.next)
    return None


def _untold(facts: ChainFacts) -> Tell | None:
    roles: tuple[tuple[Role, SourceFacts | None], ...] = (
        ("current", facts.current),
        ("next", facts.next),
    )
    for role, source in roles:
        # One that opens or recovers asks by itself before it counts as whole.
        if source is None or source.settled or not phases.takes_work(source.phase):
            continue
        return None if source.telling else Tell(role)
    return None


def _check(following: SourceFacts) -> Decision | None:
    return None if following.busy else Check("next")


def _due(facts: ChainFacts, current: SourceFacts) -> bool:
    """Whether the current source is to have a successor by now."""
    if not facts.renewing:
        return False
    if _is_condemned(current):
        return True
    due = current.prepare_at is not None and current.prepare_at <= facts.now
    return due or facts.wanted


def _is_steady(source: SourceFacts) -> bool:
    return isinstance(source.phase, phases.OnAir)


def _is_condemned(source: SourceFacts) -> bool:
    return isinstance(source.phase, phases.Recovering) and source.phase.mode == "replace"


def _has_room(facts: ChainFacts) -> bool:
    """Whether one more source may be owned."""
    if facts.exclusive_leaving or (facts.current is not None and facts.current.exclusive):
        return False
    return facts.owned < MAX_OWNED


def _may_open(facts: ChainFacts) -> bool:
    return facts.fresh or facts.retry_at is None or facts.retry_at <= facts.now


def _eligible(
    facts: ChainFacts, options: RenewalOptions, at: float
) -> HandoffEvidence | GraceUntil | None:
    known = facts.boundary
    if facts.next is None:
        # An exclusive source goes before there can be a next one to be ready.
        known = msgspec.structs.replace(known, next_ready=True)
    elif not facts.next.settled:
        return None
    return boundary(known, now=at, grace=options.handoff_grace)


def _wait(facts: ChainFacts, options: RenewalOptions) -> Wait:
    """The earliest instant at which `decide` has another answer by time alone."""
    ends = (source.expires_at for source in (facts.current, facts.next) if source is not None)
    instants = (*ends, _step_at(facts, options))
    ahead = [instant for instant in instants if instant is not None and instant > facts.now]
    return Wait(min(ahead, default=None))


def _step_at(facts: ChainFacts, options: RenewalOptions) -> float | None:
    """When the next step is due if nothing changes but the time; the ends of lives apart."""
    current = facts.current
    if facts.next is not None:
        if current is None or not _is_steady(current):
            return None
        if not isinstance(facts.next.phase, phases.Prepared):
            return None
        checking = facts.next.busy and not facts.next.checked
        return None if checking else _eligible_at(facts, options, facts.now)
    if current is None:
        pending = facts.renewing and _has_room(facts) and not _may_open(facts)
        return facts.retry_at if pending else None
    yields = current.exclusive and _is_steady(current)
    if not facts.renewing or not (yields or _has_room(facts)):
        return None
    if _due(facts, current):
        at = facts.now
    elif current.prepare_at is not None:
        at = current.prepare_at
    else:
        return None
    if facts.retry_at is not None and not facts.fresh:
        at = max(at, facts.retry_at)
    return _eligible_at(facts, options, at) if yields else at


def _eligible_at(facts: ChainFacts, options: RenewalOptions, at: float) -> float | None:
    """From when on, and not before this instant, there will be evidence if nothing changes."""
    found = _eligible(facts, options, at)
    match found:
        case HandoffEvidence():
            return at
        case GraceUntil():
            return found.at
        case None:
            return None
        case _:
            assert_never(found)
