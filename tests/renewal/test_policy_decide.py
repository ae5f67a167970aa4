"""What a chain does next, over every class of facts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec
import pytest

from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.policy.decision import decide, route_of
from trio_reactor.renewal.policy.facts import MAX_OWNED, ChainFacts, SourceFacts
from trio_reactor.renewal.policy.handoff import BoundaryFacts, HandoffEvidence, LastClip
from trio_reactor.renewal.policy.phases import OnAir, Opening, Prepared, Recovering, takes_work
from trio_reactor.renewal.policy.steps import (
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
    Tell,
    Wait,
    Yield,
)

NOW = 100.0
OPTIONS = RenewalOptions(handoff_grace=0.25, reconnect_timeout=10.0)

BOUNDARIES = (
    BoundaryFacts(open_sequences=False, idle_since=None, next_ready=True),
    BoundaryFacts(open_sequences=False, idle_since=NOW - 1, next_ready=True),
    BoundaryFacts(open_sequences=False, idle_since=NOW - 1, next_ready=False),
    BoundaryFacts(
        open_sequences=False,
        idle_since=NOW - 0.1,
        next_ready=True,
        last=LastClip("clip", None, 3, NOW - 0.1),
    ),
)
CURRENTS: tuple[SourceFacts | None, ...] = (
    None,
    *(
        SourceFacts(
            phase, expires_at, prepare_at, exclusive, busy, settled=settled, telling=telling
        )
        for phase, busy, settled, telling in (
            (OnAir(), False, True, False),
            (OnAir(), False, False, False),
            (OnAir(), False, False, True),
            (Recovering(True, "reconnect"), False, True, False),
            (Recovering(True, "reconnect"), True, False, False),
            (Recovering(True, "replace"), False, False, False),
            (Recovering(True, "replace"), True, False, True),
        )
        for expires_at in (None, NOW, NOW + 5)
        for prepare_at in (None, NOW, NOW + 2)
        for exclusive in (False, True)
    ),
)
NEXTS: tuple[SourceFacts | None, ...] = (
    None,
    SourceFacts(Opening()),
    *(
        SourceFacts(phase, expires_at, busy=busy, checked=checked, settled=settled, telling=telling)
        for phase, busy, checked, settled, telling in (
            (Prepared(), False, True, True, False),
            (Prepared(), False, True, False, False),
            (Prepared(), False, True, False, True),
            (Prepared(), False, False, True, False),
            (Prepared(), False, False, False, False),
            (Prepared(), True, False, True, False),
            (Prepared(), True, False, False, True),
            (Recovering(False, "reconnect"), False, False, True, False),
            (Recovering(False, "reconnect"), True, True, False, False),
            (Recovering(False, "replace"), False, False, False, True),
            (Recovering(False, "replace"), True, True, False, False),
        )
        for expires_at in (None, NOW - 1, NOW + 3)
    ),
)


def everything() -> Iterator[ChainFacts]:
    """The product of all classes of facts, as far as at most two sources are owned."""
    for current, following in itertools.product(CURRENTS, NEXTS):
        held = (current is not None) + (following is not None)
        for leaving, boundary, (retry_at, fresh), renewing, wanted in itertools.product(
            range(MAX_OWNED - held + 1),
            BOUNDARIES,
            ((None, False), (NOW, False), (NOW + 1, False), (NOW + 1, True)),
            (True, False),
            (True, False),
        ):
            for exclusive_leaving in {False, leaving > 0}:
                yield ChainFacts(
                    now=NOW,
                    current=current,
                    next=following,
                    leaving=leaving,
                    exclusive_leaving=exclusive_leaving,
                    boundary=boundary,
                    vacancy="loss",
                    retry_at=retry_at,
                    fresh=fresh,
                    renewing=renewing,
                    wanted=wanted,
                )


EVERYTHING = list(everything())


def at(facts: ChainFacts, now: float) -> ChainFacts:
    return msgspec.structs.replace(facts, now=now)


def is_over(source: SourceFacts | None) -> bool:
    return source is not None and source.expires_at is not None and source.expires_at <= NOW


def is_untold(source: SourceFacts | None) -> bool:
    return source is not None and takes_work(source.phase) and not source.settled


def is_due(facts: ChainFacts) -> bool:
    current = facts.current
    if current is None or facts.wanted or current.phase == Recovering(True, "replace"):
        return True
    return current.prepare_at is not None and current.prepare_at <= facts.now


def check(facts: ChainFacts, decision: Decision) -> None:
    """That a decision is one that these facts allow."""
    current, following = facts.current, facts.next
    assert isinstance(decision, Expire) == is_over(current), (facts, decision)
    match decision:
        case Wait(until=until):
            assert until is None or until > facts.now
            assert not is_over(following)
            # Whoever has something to take is being told, or comes after one that is.
            untold = [source for source in (current, following) if is_untold(source)]
            assert all(source is not None and source.telling for source in untold[:1])
        case Prepare(cause=cause):
            assert facts.renewing
            assert following is None
            assert facts.owned < MAX_OWNED
            assert not facts.exclusive_leaving
            assert facts.fresh or facts.retry_at is None or facts.retry_at <= facts.now
            assert is_due(facts)
            assert current is None or not current.exclusive
            if current is not None:
                assert cause == ("plan" if current.phase == OnAir() else "loss")
            else:
                assert cause == facts.vacancy
        case HandOver(evidence=evidence):
            assert current is not None
            assert following is not None
            assert (current.phase, following.phase) == (OnAir(), Prepared())
            assert following.checked
            assert following.settled
            assert facts.boundary.next_ready
            assert facts.boundary.idle_since is not None
            assert evidence.captured_at == facts.now
        case Yield(evidence=evidence):
            assert current is not None
            assert (current.phase, current.exclusive) == (OnAir(), True)
            assert following is None
            assert facts.renewing
            assert is_due(facts)
            assert facts.boundary.idle_since is not None
            assert evidence.captured_at == facts.now
        case Check(role=role):
            assert role == "next"
            assert following is not None
            assert following.phase == Prepared()
            assert not following.checked
            assert not following.busy
            checked = msgspec.structs.replace(following, checked=True)
            after = decide(msgspec.structs.replace(facts, next=checked), OPTIONS)
            assert isinstance(after, Activate if current is None else HandOver)
        case Activate(cause=cause):
            assert current is None
            assert following is not None
            assert following.checked
            assert following.phase == Prepared()
            assert cause == facts.vacancy
        case Reconnect(role=role, within=within):
            source = current if role == "current" else following
            assert source is not None
            assert not source.busy
            assert isinstance(source.phase, Recovering)
            assert source.phase.mode == "reconnect"
            assert 0 < within <= OPTIONS.reconnect_timeout
            assert source.expires_at is None or facts.now + within <= source.expires_at
        case Tell(role="current"):
            assert is_untold(current)
            assert current is not None
            assert not current.telling
        case Tell():
            assert is_untold(following)
            assert following is not None
            assert not following.telling
            assert not is_untold(current)  # what that refuses is not wanted any more
        case Replace():
            assert current is not None
            assert not current.busy
            assert current.phase == Recovering(True, "replace")
        case Discard(why=why):
            assert following is not None
            assert not isinstance(following.phase, Opening)
            assert (why == "expired") == is_over(following)
            assert why == "expired" or not following.busy
        case Abandon():
            assert following is not None
            assert following.phase == Opening()
            assert not facts.renewing
        case Finish():
            assert (current, following, facts.renewing) == (None, None, False)
        case Expire():
            pass
        case Fail() | Idle():
            pytest.fail(f"{decision} where nothing calls for it")


def test_every_decision_is_one_that_the_facts_allow() -> None:
    seen: set[type] = set()
    for facts in EVERYTHING:
        decision = decide(facts, OPTIONS)
        seen.add(type(decision))
        check(facts, decision)
    assert seen == {
        Abandon,
        Activate,
        Check,
        Discard,
        Expire,
        Finish,
        HandOver,
        Prepare,
        Reconnect,
        Replace,
        Tell,
        Wait,
        Yield,
    }


def test_a_wait_ends_exactly_when_there_is_something_to_do() -> None:
    for facts in EVERYTHING:
        decision = decide(facts, OPTIONS)
        if not isinstance(decision, Wait):
            continue
        if decision.until is None:
            assert decide(at(facts, NOW + 1e9), OPTIONS) == Wait(None), facts
            continue
        half_way = (NOW + decision.until) / 2
        assert decide(at(facts, half_way), OPTIONS) == decision, facts
        assert not isinstance(decide(at(facts, decision.until), OPTIONS), Wait), facts


def take(facts: ChainFacts, decision: Decision) -> ChainFacts:
    """The facts after the chain has taken a step and nothing else has happened."""
    change = msgspec.structs.replace
    current, following = facts.current, facts.next
    match decision:
        case Prepare():
            return change(facts, next=SourceFacts(Opening()), fresh=False)
        case Abandon() | Discard():
            return change(facts, next=None, leaving=facts.leaving + 1)
        case Activate():
            assert following is not None
            return change(facts, current=change(following, phase=OnAir()), next=None)
        case HandOver():
            assert following is not None
            return change(
                facts,
                current=change(following, phase=OnAir()),
                next=None,
                leaving=facts.leaving + 1,
                wanted=False,
            )
        case Yield() | Expire() | Replace():
            assert current is not None
            return change(
                facts,
                current=None,
                leaving=facts.leaving + 1,
                exclusive_leaving=facts.exclusive_leaving or current.exclusive,
                vacancy="plan" if isinstance(decision, Yield) else "loss",
                wanted=False,
            )
        case Check():
            assert following is not None
            return change(facts, next=change(following, busy=True))
        case Tell(role="current"):
            assert current is not None
            return change(facts, current=change(current, telling=True))
        case Tell():
            assert following is not None
            return change(facts, next=change(following, telling=True))
        case Reconnect(role="current"):
            assert current is not None
            return change(facts, current=change(current, busy=True))
        case Reconnect():
            assert following is not None
            return change(facts, next=change(following, busy=True))
        case Wait() | Idle() | Fail() | Finish():
            return facts


def test_after_a_few_steps_the_chain_waits_and_never_owns_more_than_two() -> None:
    for start in EVERYTHING:
        facts = start
        for _ in range(7):
            decision = decide(facts, OPTIONS)
            if isinstance(decision, (Wait, Finish)):
                break
            facts = take(facts, decision)
            assert facts.owned <= MAX_OWNED
        else:
            pytest.fail(f"the chain does not come to rest: {start}")


def test_a_chain_that_is_stopping_does_nothing_whatever_the_facts() -> None:
    for facts in EVERYTHING[::7]:
        stopping = msgspec.structs.replace(facts, stopping=True, exhausted=True)
        assert decide(stopping, OPTIONS) == Idle()


def test_too_many_failures_end_the_chain_and_only_the_end_of_a_life_comes_before() -> None:
    for facts in EVERYTHING[::7]:
        decision = decide(msgspec.structs.replace(facts, exhausted=True), OPTIONS)
        if is_over(facts.current):
            assert decision == Expire()
        elif is_over(facts.next):
            assert decision == Discard("expired")
        else:
            assert decision == Fail()


def test_work_goes_to_the_prepared_source_else_to_the_one_on_air_else_nowhere() -> None:
    busy = [
        msgspec.structs.replace(each, next=msgspec.structs.replace(each.next, has_work=True))
        for each in EVERYTHING
        if each.next is not None and each.next.phase != Opening()
    ]
    for facts in EVERYTHING + busy:
        chosen = route_of(facts.current, facts.next)
        if facts.next is not None and facts.next.phase == Prepared():
            assert chosen == "next"
        elif facts.next is not None and facts.next.has_work:
            assert chosen is None  # new work must not overtake it
        elif facts.current is not None and takes_work(facts.current.phase):
            assert chosen == "current"
        else:
            assert chosen is None


def test_a_renewal_without_incident_sleeps_from_one_deadline_to_the_next() -> None:
    on_air = SourceFacts(OnAir(), expires_at=160.0, prepare_at=130.0)
    facts = ChainFacts(now=100.0, current=on_air)
    assert decide(facts, OPTIONS) == Wait(130.0)
    facts = at(facts, 130.0)
    assert decide(facts, OPTIONS) == Prepare("plan")
    facts = msgspec.structs.replace(facts, next=SourceFacts(Opening()))
    assert decide(facts, OPTIONS) == Wait(160.0)
    prepared = SourceFacts(Prepared(), expires_at=191.0, prepare_at=161.0)
    facts = msgspec.structs.replace(facts, now=131.0, next=prepared)
    assert decide(facts, OPTIONS) == Wait(160.0)
    ending = BoundaryFacts(
        open_sequences=False, idle_since=140.0, next_ready=True, last=LastClip("c", 10, 9, 140.0)
    )
    facts = msgspec.structs.replace(facts, now=140.0, boundary=ending)
    assert decide(facts, OPTIONS) == Wait(140.25)
    evidence = HandoffEvidence("grace-elapsed", 140.25, "c", 10, 9, "ended", 140.0)
    assert decide(at(facts, 140.25), OPTIONS) == HandOver(evidence)


def test_the_next_is_checked_when_its_turn_has_come_and_then_the_boundary_counts_again() -> None:
    change = msgspec.structs.replace
    following = SourceFacts(Prepared(), checked=False)
    facts = ChainFacts(
        now=NOW,
        current=SourceFacts(OnAir(), expires_at=NOW + 9, prepare_at=NOW - 30),
        next=following,
        boundary=BOUNDARIES[0],
    )
    assert decide(facts, OPTIONS) == Wait(NOW + 9)
    facts = change(facts, boundary=BOUNDARIES[1])
    assert decide(facts, OPTIONS) == Check("next")
    facts = change(facts, next=change(following, busy=True))
    assert decide(facts, OPTIONS) == Wait(NOW + 9)
    facts = change(facts, next=change(following, checked=True))
    assert isinstance(decide(facts, OPTIONS), HandOver)
    assert decide(change(facts, boundary=BOUNDARIES[0]), OPTIONS) == Wait(NOW + 9)


def test_what_was_set_is_told_to_the_source_on_air_and_after_that_to_the_next() -> None:
    change = msgspec.structs.replace
    current = SourceFacts(OnAir(), settled=False)
    following = SourceFacts(Prepared(), settled=False)
    facts = ChainFacts(now=NOW, current=current, next=following, boundary=BOUNDARIES[1])
    assert decide(facts, OPTIONS) == Tell("current")
    facts = change(facts, current=change(current, telling=True))
    assert decide(facts, OPTIONS) == Wait(None)
    facts = change(facts, current=change(current, settled=True))
    assert decide(facts, OPTIONS) == Tell("next")
    facts = change(facts, next=change(following, telling=True))
    assert decide(facts, OPTIONS) == Wait(None)  # it is not put on air before it has taken it
    facts = change(facts, next=change(following, settled=True))
    assert isinstance(decide(facts, OPTIONS), HandOver)


def test_a_source_on_air_that_recovers_does_not_keep_the_next_from_being_told() -> None:
    facts = ChainFacts(
        now=NOW,
        current=SourceFacts(Recovering(True, "reconnect"), busy=True, settled=False),
        next=SourceFacts(Prepared(), settled=False),
    )
    assert decide(facts, OPTIONS) == Tell("next")


def test_at_its_expiry_a_source_goes_even_if_it_could_hand_over() -> None:
    facts = ChainFacts(
        now=NOW,
        current=SourceFacts(OnAir(), expires_at=NOW, prepare_at=NOW - 30),
        next=SourceFacts(Prepared()),
        boundary=BoundaryFacts(open_sequences=False, idle_since=NOW - 1, next_ready=True),
    )
    assert decide(facts, OPTIONS) == Expire()
    vacant = msgspec.structs.replace(facts, current=None, leaving=1, vacancy="loss")
    assert decide(vacant, OPTIONS) == Activate("loss")


def test_a_failed_preparation_is_tried_again_after_its_pause() -> None:
    on_air = SourceFacts(OnAir(), expires_at=160.0, prepare_at=90.0)
    facts = ChainFacts(now=100.0, current=on_air, retry_at=104.0)
    assert decide(facts, OPTIONS) == Wait(104.0)
    assert decide(at(facts, 104.0), OPTIONS) == Prepare("plan")


def test_an_exclusive_source_has_left_before_its_successor_opens() -> None:
    exclusive = SourceFacts(OnAir(), expires_at=160.0, prepare_at=NOW, exclusive=True)
    idle = BoundaryFacts(open_sequences=False, idle_since=NOW - 1, next_ready=False)
    facts = ChainFacts(now=NOW, current=exclusive, boundary=idle)
    assert decide(facts, OPTIONS) == Yield(HandoffEvidence("no-observed-start", NOW))
    gone = ChainFacts(now=NOW, leaving=1, exclusive_leaving=True, vacancy="plan")
    assert decide(gone, OPTIONS) == Wait(None)
    assert decide(ChainFacts(now=NOW, vacancy="plan"), OPTIONS) == Prepare("plan")


def test_one_that_is_leaving_bounds_the_next_open() -> None:
    lost = ChainFacts(now=NOW, leaving=2, vacancy="loss")
    assert decide(lost, OPTIONS) == Wait(None)
    assert decide(msgspec.structs.replace(lost, leaving=1), OPTIONS) == Prepare("loss")


def test_a_successor_that_was_asked_for_is_prepared_without_a_lead() -> None:
    facts = ChainFacts(now=NOW, current=SourceFacts(OnAir()))
    assert decide(facts, OPTIONS) == Wait(None)
    assert decide(msgspec.structs.replace(facts, wanted=True), OPTIONS) == Prepare("plan")


def test_after_renewal_was_stopped_a_prepared_source_is_used_and_an_opening_one_abandoned() -> None:
    facts = ChainFacts(now=NOW, current=SourceFacts(OnAir(), 160.0, 90.0), renewing=False)
    assert decide(facts, OPTIONS) == Wait(160.0)
    opening = msgspec.structs.replace(facts, next=SourceFacts(Opening()))
    assert decide(opening, OPTIONS) == Abandon()
    prepared = msgspec.structs.replace(facts, next=SourceFacts(Prepared()), boundary=BOUNDARIES[1])
    assert isinstance(decide(prepared, OPTIONS), HandOver)
    assert decide(ChainFacts(now=NOW, renewing=False), OPTIONS) == Finish()


@pytest.mark.parametrize(
    "impossible",
    [
        {"current": SourceFacts(Prepared())},
        {"next": SourceFacts(OnAir())},
        {"next": SourceFacts(Recovering(True, "reconnect"))},
        {"leaving": 3},
        {"current": SourceFacts(OnAir()), "next": SourceFacts(Opening()), "leaving": 1},
    ],
)
def test_facts_that_cannot_be_are_refused(impossible: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"cannot be|are owned"):
        ChainFacts(now=NOW, **impossible)  # type: ignore[arg-type]
