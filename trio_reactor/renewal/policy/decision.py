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

from typing import assert_never

import msgspec

from trio_reactor.renewal.options import RenewalOptions

from . import phases
from .facts import MAX_OWNED, ChainFacts, SourceFacts
from .handoff import GraceUntil, HandoffEvidence, boundary
from .steps import (
    Abandon,
    Activate,
    Check,
    Decision,
    Discard,
    Expire,
    Fail,
    Finish,
    HandOver,
    Idle,
    Prepare,
    Reconnect,
    Replace,
    Role,
    Tell,
    Wait,
    Yield,
)

__all__ = ["decide", "route_of"]


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
