"""Every combination of the facts of a handoff."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from trio_reactor.renewal.policy.handoff import (
    BoundaryFacts,
    GraceUntil,
    HandoffEvidence,
    LastClip,
    boundary,
)

NOW = 100.0
GRACE = 0.25

CLIPS = [
    None,
    *(
        LastClip("clip", expected, received, ended_at)
        for expected in (None, 0, 10)
        for received in (0, 9, 10, 11)
        for ended_at in (None, NOW - 1, NOW - GRACE, NOW - 0.1, NOW)
    ),
]
IDLE_SINCE = [None, NOW - 1, NOW - GRACE, NOW - 0.1, NOW]

COMBINATIONS = [
    BoundaryFacts(open_sequences=sequences, idle_since=idle, next_ready=ready, last=last)
    for sequences, idle, ready, last in itertools.product(
        (False, True), IDLE_SINCE, (False, True), CLIPS
    )
]


def handoff_evidence(facts: BoundaryFacts, *, now: float, grace: float) -> HandoffEvidence | None:
    """The evidence if this is a boundary."""
    found = boundary(facts, now=now, grace=grace)
    return found if isinstance(found, HandoffEvidence) else None


def test_there_is_a_boundary_only_where_each_condition_holds() -> None:
    for facts in COMBINATIONS:
        evidence = handoff_evidence(facts, now=NOW, grace=GRACE)
        last = facts.last
        counted = (
            last is not None
            and last.frames_expected is not None
            and last.frames_received >= last.frames_expected
        )
        began = None
        if last is not None:
            began = facts.idle_since if last.ended_at is None else last.ended_at
        over = began is not None and began + GRACE <= NOW
        eligible = (
            not facts.open_sequences
            and facts.idle_since is not None
            and facts.next_ready
            and (last is None or counted or over)
        )
        assert (evidence is not None) == eligible, facts
        if evidence is None:
            continue
        if last is None:
            assert evidence == HandoffEvidence("no-observed-start", NOW)
            continue
        assert evidence.kind == ("count-complete" if counted else "grace-elapsed")
        assert evidence.captured_at == NOW
        assert evidence.clip == "clip"
        assert evidence.frames_expected == last.frames_expected
        assert evidence.frames_received == last.frames_received
        assert evidence.grace_from == ("idle" if last.ended_at is None else "ended")
        assert evidence.grace_began == began


def test_where_only_the_grace_is_missing_the_answer_is_when_it_ends() -> None:
    waited = 0
    for facts in COMBINATIONS:
        found = boundary(facts, now=NOW, grace=GRACE)
        if not isinstance(found, GraceUntil):
            continue
        waited += 1
        assert found.at > NOW
        later = boundary(facts, now=found.at, grace=GRACE)
        assert isinstance(later, HandoffEvidence), "one sleep is enough"
        assert later.kind == "grace-elapsed"
    assert waited > 0


def test_time_alone_helps_nobody_who_is_not_idle_or_has_a_sequence_open_or_nothing_to_show() -> (
    None
):
    for facts in COMBINATIONS:
        if boundary(facts, now=NOW, grace=GRACE) is None:
            assert boundary(facts, now=NOW + 1_000_000, grace=GRACE) is None


def test_a_clip_whose_end_was_never_heard_does_not_hold_the_handoff() -> None:
    facts = BoundaryFacts(
        open_sequences=False, idle_since=NOW, next_ready=True, last=LastClip("clip", 10, 9)
    )
    assert boundary(facts, now=NOW, grace=GRACE) == GraceUntil(NOW + GRACE)
    evidence = handoff_evidence(facts, now=NOW + GRACE, grace=GRACE)
    assert evidence is not None
    assert (evidence.kind, evidence.grace_from) == ("grace-elapsed", "idle")


def test_without_a_grace_the_end_of_a_clip_is_enough() -> None:
    facts = BoundaryFacts(
        open_sequences=False, idle_since=NOW, next_ready=True, last=LastClip("clip", None, 3, NOW)
    )
    evidence = handoff_evidence(facts, now=NOW, grace=0.0)
    assert evidence is not None
    assert evidence.kind == "grace-elapsed"


@pytest.mark.parametrize(
    "contradiction",
    [
        '{"kind": "count-complete", "captured_at": 1.0}',
        '{"kind": "no-observed-start", "captured_at": 1.0, "clip": "clip"}',
        '{"kind": "grace-elapsed", "captured_at": 1.0, "clip": "clip"}',
        """{"kind": "count-complete", "captured_at": 1.0, "clip": "c", "frames_expected": 2,
        "frames_received": 1, "grace_from": "ended", "grace_began": 0.5}""",
        """{"kind": "count-complete", "captured_at": 1.0, "clip": "c", "frames_received": 1,
        "grace_from": "ended", "grace_began": 0.5}""",
    ],
)
def test_evidence_that_contradicts_itself_cannot_be_decoded(contradiction: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(contradiction, type=HandoffEvidence)


def test_all_evidence_goes_through_json_and_comes_back() -> None:
    for facts in COMBINATIONS:
        evidence = handoff_evidence(facts, now=NOW, grace=GRACE)
        if evidence is not None:
            encoded = msgspec.json.encode(evidence)
            assert msgspec.json.decode(encoded, type=HandoffEvidence) == evidence
