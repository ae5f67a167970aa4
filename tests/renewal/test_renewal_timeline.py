"""The events of a renewal on a timeline: who was on air when, and why it changed."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from trio_reactor.events import Envelope, Event, FailureRecord
from trio_reactor.renewal import events as said
from trio_reactor.renewal.events import SourceRef, Tail
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.policy.handoff import HandoffEvidence
from trio_reactor.renewal.summary import RenewalReport
from trio_reactor.renewal.timeline import renewal_steps, renewal_timeline
from trio_reactor.timeline import Mark, Span, Timeline, render_svg

A, B = SourceRef(1, "session-a"), SourceRef(2, "session-b")
CLEAN = Cleanup.of("s", allocation="owned", termination="confirmed", connection="closed")
EVIDENCE = HandoffEvidence("count-complete", 14.0, "clip-3", 48, 48, "ended", 13.9)


def told(*events: tuple[float, Event]) -> Timeline:
    builder = renewal_timeline("Test")
    for seq, (clock, event) in enumerate(events):
        builder.feed(Envelope(seq, 0.0, clock, "renewal", event))
    return builder.build()


def on_air_from(time: float, source: SourceRef) -> list[tuple[float, Event]]:
    return [
        (time, said.SourceOpening(source=source, after=None, cause="first")),
        (
            time + 0.2,
            said.SourceOpened(source=source, after=None, cause="first", took=0.2, lifetime=4.0),
        ),
        (
            time + 0.3,
            said.OnAir(source=source, age=0.1, generation=1, after=None, cause="first"),
        ),
    ]


def test_a_planned_handover_leads_from_one_source_to_the_next_with_its_evidence() -> None:
    timeline = told(
        *on_air_from(10.0, A),
        (12.0, said.SourceOpening(source=B, after=A, cause="plan")),
        (12.5, said.SourceOpened(source=B, after=A, cause="plan", took=0.5, lifetime=4.0)),
        (12.7, said.Prepared(source=B, age=0.2, after=A)),
        (
            14.0,
            said.HandedOver(
                old=A,
                age=3.8,
                new=B,
                evidence=EVIDENCE,
                tail=Tail("clip-3", 48, 48, frames_queued=2),
            ),
        ),
        (14.0, said.OnAir(source=B, age=1.5, generation=1, after=A, cause="plan")),
        (14.2, said.SourceClosed(source=A, age=4.0, why="handed-over", took=0.2, cleanup=CLEAN)),
        (15.0, said.RenewalClosed(source=B, age=2.5, report=RenewalReport("bounded", 0, True))),
    )
    assert [lane.name for lane in timeline.lanes] == ["output", "source 1", "source 2"]
    assert [span for span in timeline.spans if span.lane == "output"] == [
        Span("output", "session-a", 10.3, 14.0, "active", "handed over as planned", "source 1"),
        Span("output", "session-b", 14.0, 15.0, "active", "closed", "source 2"),
    ]
    assert [span for span in timeline.spans if span.lane == "source 1"] == [
        Span("source 1", "opening", 10.0, 10.2, "opening", "opened in 0.20 s"),
        Span("source 1", "open", 10.2, 10.3, "opening", "went on air"),
        Span(
            "source 1",
            "on air",
            10.3,
            14.0,
            "active",
            "handed over: count-complete, 48 of 48 frames, 2 still queued",
        ),
        Span("source 1", "leaving", 14.0, 14.2, "leaving", "handed-over, clean-up complete"),
    ]
    assert timeline.marks == (Mark(14.0, "count-complete", "handover", "source 1", "source 2"),)
    assert [span.kind for span in timeline.spans if span.lane == "source 2"] == [
        "opening",
        "opening",
        "ready",
        "active",
    ]


def test_a_source_that_recovers_goes_on_where_it_was() -> None:
    timeline = told(
        *on_air_from(0.0, A),
        (1.0, said.Recovering(source=A, age=0.8, mode="reconnect", why="media-lost")),
        (1.5, said.Recovered(source=A, age=1.3, generation=2, took=0.5)),
        (2.0, said.RenewalStopped(source=A, age=1.8)),
    )
    assert [span for span in timeline.spans if span.lane == "output"] == [
        Span("output", "session-a", 0.3, 1.0, "active", "media-lost", "source 1"),
        Span("output", "reconnecting", 1.0, 1.5, "broken", "recovered in 0.50 s", "source 1"),
        Span("output", "session-a", 1.5, 2.0, "active", "", "source 1"),
    ]
    assert [mark.kind for mark in timeline.marks] == ["loss", "recovery", "note"]


def test_a_prepared_source_that_recovers_does_not_touch_the_output() -> None:
    timeline = told(
        *on_air_from(0.0, A),
        (1.0, said.Prepared(source=B, age=0.8, after=A)),
        (1.2, said.Recovering(source=A, age=1, mode="reconnect", why="media-lost")),
        (1.4, said.Recovering(source=B, age=1, mode="reconnect", why="events-lost", on_air=False)),
        (1.6, said.Recovered(source=B, age=1.3, generation=2, took=0.2)),
        (2.0, said.RenewalStopped(source=A, age=1.8)),
    )
    output = [span for span in timeline.spans if span.lane == "output"]
    assert [(span.label, span.end) for span in output] == [
        ("session-a", 1.2),
        ("reconnecting", 2.0),
    ]
    prepared = [span.label for span in timeline.spans if span.lane == "source 2"]
    assert prepared == ["prepared", "reconnecting", "prepared"]


def test_a_loss_names_what_went_with_it_and_leaves_the_output_empty_until_it_is_replaced() -> None:
    failure = FailureRecord("Lost", "the connection ended")
    timeline = told(
        *on_air_from(0.0, A),
        (
            2.0,
            said.ClipLost(
                source=A,
                age=1.8,
                clip="clip-7",
                frames_expected=40,
                frames_received=31,
                why="source-lost",
            ),
        ),
        (2.0, said.Replaced(old=A, age=1.8, new=None, why="died", failure=failure, tail=Tail())),
        (2.1, said.SourceOpening(source=B, after=A, cause="loss")),
        (2.8, said.OnAir(source=B, age=0.3, generation=1, after=A, cause="loss", gap=0.8)),
        (3.0, said.RenewalStopped(source=B, age=0.5)),
    )
    assert [span for span in timeline.spans if span.lane == "output"] == [
        Span("output", "session-a", 0.3, 2.0, "active", "lost: died", "source 1"),
        Span("output", "session-b", 2.8, 3.0, "active", "", "source 2"),
    ]
    assert [mark.label for mark in timeline.marks[:2]] == [
        "lost: clip-7, 9 of 40 frames",
        "replaced: died",
    ]


def test_an_open_that_fails_is_a_loss_and_says_what_comes_next() -> None:
    failure = FailureRecord("Refused", "no room")
    timeline = told(
        (1.0, said.SourceOpening(source=A, after=None, cause="first")),
        (
            1.5,
            said.OpenFailure(
                source=A,
                after=None,
                cause="first",
                took=0.5,
                consecutive=2,
                pause=None,
                permanent=True,
                failure=failure,
            ),
        ),
        (1.5, said.RenewalFailed(source=None, age=0, failure=failure)),
    )
    assert timeline.spans == (
        Span("source 1", "opening", 1.0, 1.5, "opening", "failed: Refused: no room"),
    )
    assert [mark.label for mark in timeline.marks] == [
        "open failed (2 in a row), given up",
        "failed: Refused: no room",
    ]


def test_a_sequence_that_ends_with_its_source_is_a_loss_only_if_a_fate_is_unknown() -> None:
    for unknown, kind in ((0, "note"), (2, "loss")):
        timeline = told(
            *on_air_from(0.0, A),
            (
                2.0,
                said.SequenceRetired(
                    source=A,
                    age=1.8,
                    sequence="titles",
                    accepted=1,
                    rejected=0,
                    indeterminate=unknown,
                ),
            ),
        )
        assert [mark.kind for mark in timeline.marks] == [kind]
        assert "titles" in timeline.marks[0].label


@pytest.mark.parametrize("event", said.RENEWAL_EVENTS, ids=lambda event: event.__name__)
def test_every_event_of_a_renewal_is_understood_or_passed_over_on_purpose(
    event: type[said.RenewalEvent],
) -> None:
    passed_over = {said.PrepareScheduled, said.ClipChanged, said.SequenceSealed}
    assert (event in passed_over) == (event not in _EXAMPLES)
    if event in _EXAMPLES:
        steps = renewal_steps(_EXAMPLES[event])
        assert steps
        builder = renewal_timeline("Test")
        for step in steps:
            builder.take(step, 1.0)
        ET.fromstring(render_svg(builder.build()))


def test_events_of_others_mean_nothing_here() -> None:
    class Foreign(Event, frozen=True):
        pass

    assert renewal_steps(Foreign()) == ()


_EXAMPLES: dict[type[said.RenewalEvent], said.RenewalEvent] = {
    type(event): event
    for event in (
        said.SourceOpening(source=A, after=None, cause="first"),
        said.ResumptionDiscarded(source=A, failure=FailureRecord("Refused", "too old")),
        said.SourceOpened(source=A, after=None, cause="first", took=1, lifetime=None),
        said.OpenFailure(
            source=A,
            after=None,
            cause="loss",
            took=0.5,
            consecutive=1,
            pause=2.0,
            permanent=False,
            failure=FailureRecord("Refused", "full"),
        ),
        said.Prepared(source=A, age=1, after=None),
        said.OnAir(source=A, age=1, generation=None, after=None, cause="first"),
        said.LifetimeShortened(source=A, age=1, expires_in=3.0, detail="<going & away>"),
        said.RenewalWanted(source=A, age=1, reason="new <settings>"),
        said.InputLost(source=A, age=1, pieces=2, bytes=640, why="source-lost"),
        said.HandedOver(old=A, age=1, new=B, evidence=EVIDENCE, tail=Tail()),
        said.ClipLost(
            source=A, age=1, clip="<c>", frames_expected=None, frames_received=0, why="not-in-state"
        ),
        said.SequenceRetired(
            source=A, age=1, sequence="<s>", accepted=2, rejected=0, indeterminate=1
        ),
        said.Recovering(source=A, age=1, mode="replace", why="check-failed"),
        said.Recovered(source=A, age=1, generation=2, took=0.1),
        said.Replaced(old=A, age=1, new=B, why="expired", failure=None, tail=Tail()),
        said.SourceClosed(source=A, age=1, why="retired", took=0.1, cleanup=CLEAN),
        said.AdoptionDiscarded(source=A, failure=FailureRecord("OpenFailed", "<gone>")),
        said.AllocationSettled(key="k", source=None, age=1.0, how="terminated"),
        said.RenewalStopped(source=None, age=0),
        said.RenewalFinished(source=A, age=1),
        said.RenewalClosed(source=None, age=0, report=RenewalReport("bounded", 0, True)),
        said.RenewalFailed(source=A, age=1, failure=FailureRecord("TypeError", "a bug")),
    )
}
