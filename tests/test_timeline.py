"""A timeline says what was held when, by whom and why it changed hands, to whoever looks at it."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.events import Envelope, Event
from trio_reactor.timeline import (
    Happened,
    Lane,
    Mark,
    Span,
    Step,
    Timeline,
    TimelineBuilder,
    Turned,
    TurnedBack,
    TurnedOff,
    render_svg,
)
from trio_reactor.timeline.axis import MAX_TICKS, tick_label, ticks
from trio_reactor.timeline.model import PALETTE
from trio_reactor.timeline.shapes import INK, PAPER, contrast

SVG = "{http://www.w3.org/2000/svg}"


class Took(Event, frozen=True):
    what: str
    who: str


class Let(Event, frozen=True):
    what: str
    why: str


class Irrelevant(Event, frozen=True):
    pass


def steps(event: Event) -> tuple[Step, ...]:
    match event:
        case Took(what, who):
            return (Turned(what, who, "active", f"{who} took it"),)
        case Let(what, why):
            return (TurnedOff(what, why), Happened(why, "loss", what))
        case _:
            return ()


def envelopes(*events: tuple[float, Event]) -> list[Envelope]:
    return [
        Envelope(seq, 1_700_000_000.0 + clock, clock, "test", event)
        for seq, (clock, event) in enumerate(events)
    ]


def drawn(timeline: Timeline) -> ET.Element:
    return ET.fromstring(render_svg(timeline))


def words(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def tooltips(root: ET.Element) -> list[str]:
    titles = [group.find(f"{SVG}title") for group in root.iter(f"{SVG}g")]
    return [title.text or "" for title in titles if title is not None]


BROADCAST = Timeline(
    "One broadcast",
    lanes=(Lane("output", "#64748b", "on air"), Lane("a"), Lane("b")),
    spans=(
        Span("a", "opening", 10.0, 10.5, "opening", "opened"),
        Span("a", "on air", 10.5, 14.0, "active", "handed over"),
        Span("b", "prepared", 13.0, 14.0, "ready", "took over"),
        Span("b", "on air", 14.0, 18.0, "active"),
        Span("output", "a", 10.5, 14.0, "active", "count complete", by="a"),
        Span("output", "b", 14.0, 18.0, "active", by="b"),
    ),
    marks=(
        Mark(14.0, "count-complete", "handover", "a", "b"),
        Mark(16.0, "3 frames lost", "loss", "b"),
        Mark(17.0, "reconnected", "recovery", "b"),
        Mark(17.5, "someone said something"),
    ),
)


# ------------------------------------------------------------------------------------ what is told


def test_events_become_spans_that_say_when_by_whom_and_why_they_ended() -> None:
    builder = TimelineBuilder("Room", steps=steps)
    for envelope in envelopes(
        (1.0, Took("room", "ann")),
        (2.0, Irrelevant()),
        (4.0, Took("room", "bob")),
        (5.0, Let("room", "revoked")),
    ):
        builder.feed(envelope)
    timeline = builder.build()
    assert timeline.spans == (
        Span("room", "ann", 1.0, 4.0, "active", "bob took it"),
        Span("room", "bob", 4.0, 5.0, "active", "revoked"),
    )
    assert timeline.marks == (Mark(5.0, "revoked", "loss", "room"),)


def test_what_has_not_ended_is_shown_up_to_the_latest_event_and_the_builder_goes_on() -> None:
    builder = TimelineBuilder("Room", steps=steps)
    first, quiet, last = envelopes(
        (1.0, Took("room", "ann")), (3.0, Irrelevant()), (6.0, Let("room", "left"))
    )
    builder.feed(first)
    builder.feed(quiet)
    assert builder.build().spans == (Span("room", "ann", 1.0, 3.0, "active"),)
    assert builder.build(until=4.5).spans == (Span("room", "ann", 1.0, 4.5, "active"),)
    builder.feed(last)
    assert builder.build().spans == (Span("room", "ann", 1.0, 6.0, "active", "left"),)


def test_turning_off_a_lane_that_is_in_no_state_changes_nothing() -> None:
    builder = TimelineBuilder("Room", steps=steps)
    builder.take(TurnedOff("room", "never"), 1.0)
    assert builder.build().spans == ()


def test_a_lane_turns_back_to_what_it_was_after_a_disturbance() -> None:
    builder = TimelineBuilder("Room", steps=steps)
    builder.take(Turned("room", "ann", "active"), 1.0)
    builder.take(Turned("room", "reconnecting", "broken", "lost", by="room"), 2.0)
    builder.take(TurnedBack("room", "someone else recovered", by="other"), 2.5)
    builder.take(TurnedBack("room", "recovered", by="room"), 3.0)
    builder.take(TurnedBack("room", "there is nothing before"), 4.0)
    builder.take(TurnedBack("elsewhere"), 4.0)
    assert builder.build().spans == (
        Span("room", "ann", 1.0, 2.0, "active", "lost"),
        Span("room", "reconnecting", 2.0, 3.0, "broken", "recovered", "room"),
        Span("room", "ann", 3.0, 4.0, "active", "there is nothing before"),
    )


def test_a_lane_held_by_another_is_not_turned_off() -> None:
    builder = TimelineBuilder("Room", steps=steps)
    builder.take(Turned("room", "ann", "active", by="a"), 1.0)
    builder.take(TurnedOff("room", "b left", by="b"), 2.0)
    builder.take(TurnedOff("room", "a left", by="a"), 3.0)
    assert builder.build().spans == (Span("room", "ann", 1.0, 3.0, "active", "a left", "a"),)


def test_only_the_newest_are_kept_and_the_picture_says_how_many_are_missing() -> None:
    builder = TimelineBuilder("Room", steps=steps, max_items=3)
    for number in range(6):
        builder.take(Turned("room", f"holder {number}", "active"), float(number))
    timeline = builder.build()
    assert [span.label for span in timeline.spans] == [f"holder {n}" for n in (2, 3, 4, 5)]
    assert timeline.omitted == 2
    assert any("2 earlier spans and marks are not shown" in text for text in words(drawn(timeline)))
    with pytest.raises(ValueError, match="max_items"):
        TimelineBuilder("Room", steps=steps, max_items=0)


def test_lanes_come_in_the_order_in_which_something_first_happened_after_those_put_first() -> None:
    builder = TimelineBuilder(
        "Rooms", steps=steps, first=(Lane("top", "#112233"), Lane("never used"))
    )
    builder.take(Turned("late", "x", "active"), 1.0)
    builder.take(Turned("later", "x", "active"), 2.0)
    builder.take(Turned("top", "x", "active", by="later"), 3.0)
    assert [lane.name for lane in builder.build().lanes] == ["top", "late", "later"]


def test_handles_that_share_a_channel_have_lanes_of_their_own_one_below_the_other() -> None:
    builder = TimelineBuilder("Rooms", steps=steps, first=(Lane("door", "#112233", "the door"),))
    builder.take(Turned("room", "ann", "active"), 1.0, handle="east")
    builder.take(Turned("room", "bob", "active", by="room"), 2.0, handle="west")
    builder.take(Turned("door", "eve", "active"), 3.0, handle="east")
    builder.take(TurnedOff("room", "left"), 4.0, handle="west")
    builder.take(Happened("moved", "handover", "room", "door"), 5.0, handle="east")
    builder.take(Happened("it rains", "note"), 6.0, handle="west")
    timeline = builder.build()
    assert timeline.lanes == (
        Lane("east: door", "#112233", "east: the door"),
        Lane("east: room"),
        Lane("west: room"),
    )
    assert timeline.spans == (
        Span("west: room", "bob", 2.0, 4.0, "active", "left", "west: room"),
        Span("east: room", "ann", 1.0, 6.0, "active"),
        Span("east: door", "eve", 3.0, 6.0, "active"),
    )
    assert timeline.marks == (
        Mark(5.0, "moved", "handover", "east: room", "east: door"),
        Mark(6.0, "west: it rains", "note"),
    )


def test_who_shares_with_no_other_handle_is_not_named() -> None:
    builder = TimelineBuilder("Rooms", steps=steps)
    builder.take(Turned("room", "ann", "active"), 1.0, handle="east")
    builder.take(Happened("it rains", "note"), 2.0, handle="east")
    assert builder.build().lanes == (Lane("room"),)
    assert [mark.label for mark in builder.build().marks] == ["it rains"]
    builder.take(Turned("room", "bob", "active"), 3.0)
    assert [lane.name for lane in builder.build().lanes] == ["east: room", "room"]


def test_a_timeline_travels_as_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(BROADCAST), type=Timeline) == BROADCAST


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("colour", ["red", "#12345", "#1234567", '#123456"/>', "#12345\n", ""])
def test_a_colour_of_another_form_is_refused(colour: str) -> None:
    with pytest.raises(ValueError, match="#rrggbb"):
        Lane("a", colour)


@pytest.mark.parametrize("time", [float("nan"), float("inf"), float("-inf")])
def test_a_time_that_is_not_finite_is_refused(time: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        Span("a", "x", time, 1.0)
    with pytest.raises(ValueError, match="not finite"):
        Mark(time, "x")


def test_a_span_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before"):
        Span("a", "x", 2.0, 1.0)


def test_a_reference_to_a_lane_that_is_not_there_is_refused_by_name() -> None:
    for spans, marks in (
        ((Span("ghost", "x", 0, 1),), ()),
        ((Span("a", "x", 0, 1, by="ghost"),), ()),
        ((), (Mark(0, "x", lane="ghost"),)),
        ((), (Mark(0, "x", "handover", "a", "ghost"),)),
    ):
        with pytest.raises(ValueError, match="ghost"):
            Timeline("t", (Lane("a"),), spans, marks)
    with pytest.raises(ValueError, match="same name"):
        Timeline("t", (Lane("a"), Lane("a")))


# ------------------------------------------------------------------------------------ what is drawn


def test_everything_drawn_says_what_it_is() -> None:
    root = drawn(BROADCAST)
    said = tooltips(root)
    assert (
        "on air: a (in use, held by a) from 0.50 s to 4.00 s, 3.50 s. Ended: count complete."
    ) in said
    assert "b: on air (in use) from 4.00 s to 8.00 s, 4.00 s." in said
    assert "4.00 s, handover, a → b: count-complete" in said
    assert "6.00 s, loss, b: 3 frames lost" in said
    labelled = [group for group in root.iter(f"{SVG}g") if group.get("role") == "img"]
    assert len(labelled) == len(BROADCAST.spans) + len(BROADCAST.marks)
    assert all(group.get("aria-label") for group in labelled)


def test_the_picture_has_a_title_and_a_description_that_assistive_technology_finds() -> None:
    root = drawn(BROADCAST)
    named = {element.get("id"): element.text for element in root if element.get("id")}
    assert named[root.get("aria-labelledby")] == "One broadcast"
    description = named[root.get("aria-describedby")]
    assert description == (
        "3 lanes, 6 spans, handover: 1, loss: 1, recovery: 1, note: 1; 8.00 s in all."
    )


def test_the_axis_counts_seconds_from_the_start() -> None:
    shown = words(drawn(BROADCAST))
    assert [text for text in shown if re.fullmatch(r"\d+ s", text)] == [
        f"{second} s" for second in range(9)
    ]


def test_the_legend_explains_what_occurs_and_nothing_else() -> None:
    shown = words(drawn(BROADCAST))
    for name in ("opening", "ready, in reserve", "in use", "handover", "loss", "recovery", "note"):
        assert name in shown
    assert "leaving" not in shown
    assert "broken" not in shown


def test_a_span_is_as_long_as_it_lasted_and_starts_where_it_started() -> None:
    root = drawn(
        Timeline(
            "t", (Lane("a"),), (Span("a", "1", 0, 1), Span("a", "2", 1, 4), Span("a", "3", 4, 4))
        )
    )
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.get("class", "").startswith("bar")][:3]
    x = [float(bar.get("x", "")) for bar in bars]
    width = [float(bar.get("width", "")) for bar in bars]
    assert width[1] == pytest.approx(3 * width[0], abs=0.1)
    assert x[1] == pytest.approx(x[0] + width[0], abs=0.1)
    assert width[2] > 0


def test_text_never_becomes_markup() -> None:
    evil = "</text><script>alert('\"&\x00\x1b\ud800\uffff')</script>"
    timeline = Timeline(
        evil,
        (Lane("a", label=evil), Lane(evil)),
        (Span("a", evil, 0, 9, "active", evil, by=evil),),
        (Mark(1, evil, "loss", "a"),),
        evil,
    )
    root = drawn(timeline)
    svg = render_svg(timeline)
    assert "<script" not in svg
    assert svg.encode("utf-8")
    assert words(root)[0] == "</text><script>alert('\"&\ufffd\ufffd\ufffd\ufffd')</script>"


def test_marks_that_would_cover_each_other_share_a_sign_that_tells_of_all() -> None:
    root = drawn(
        Timeline(
            "t",
            (Lane("a"),),
            (Span("a", "x", 0, 100),),
            (
                Mark(50, "one", "loss", "a"),
                Mark(50.1, "two", "loss", "a"),
                Mark(80, "three", "loss", "a"),
            ),
        )
    )
    said = [text for text in tooltips(root) if "loss" in text]
    assert said == ["50.00 s, loss, a: one\n50.10 s, loss, a: two", "1:20 min, loss, a: three"]
    assert {"one; two", "three"} <= set(words(root))


def test_what_is_rare_is_named_before_handovers_where_room_is_short() -> None:
    handovers = [
        Mark(float(time), "count-complete", "handover", "a", "b") for time in range(0, 200, 2)
    ]
    marks = (*handovers, Mark(101, "what went wrong", "loss", "a"))
    shown = words(drawn(Timeline("t", (Lane("a"), Lane("b")), (), marks)))
    assert "what went wrong" in shown
    assert 2 < shown.count("count-complete") < 20


def test_the_picture_needs_nothing_from_elsewhere() -> None:
    svg = render_svg(BROADCAST).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|href|url\(|@import|<script|<image|<use", svg)


def test_the_same_timeline_gives_the_same_picture() -> None:
    assert render_svg(BROADCAST) == render_svg(BROADCAST)


def test_it_follows_the_readers_choice_of_light_or_dark() -> None:
    assert "prefers-color-scheme:dark" in render_svg(BROADCAST)


@pytest.mark.parametrize("colour", PALETTE)
def test_white_text_is_readable_on_every_colour_and_every_colour_on_both_grounds(
    colour: str,
) -> None:
    assert contrast(PAPER, colour) >= 4.5
    assert contrast(colour, "#fcfcfe") >= 3
    assert contrast(colour, "#12161f") >= 3


def test_text_on_a_colour_of_ones_own_is_dark_where_that_is_what_can_be_read() -> None:
    svg = render_svg(Timeline("t", (Lane("a", "#ffe08a"),), (Span("a", "text", 0, 1),)))
    assert f'fill="{INK}">text<' in svg


def test_a_label_is_shortened_to_its_bar_and_whole_in_its_tooltip() -> None:
    long = "a label that is far longer than its bar could ever be, " * 8
    root = drawn(Timeline("t", (Lane("a"),), (Span("a", long, 0, 1),)))
    shown = next(text for text in words(root) if text.startswith("a label"))
    assert shown.endswith("…")
    assert any(long in tooltip for tooltip in tooltips(root))


@pytest.mark.parametrize(
    "timeline",
    [
        Timeline("nothing"),
        Timeline("a lane", (Lane("a"),)),
        Timeline("a moment", (Lane("a"),), (Span("a", "x", 5, 5),)),
        Timeline("a mark", (), (), (Mark(3, "x", "loss"),)),
    ],
    ids=lambda timeline: timeline.title,
)
def test_hardly_anything_can_be_drawn_too(timeline: Timeline) -> None:
    assert words(drawn(timeline))[0] == timeline.title


@given(
    title=st.text(),
    labels=st.lists(st.text(), min_size=1, max_size=5),
    times=st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(0, 1e6)), min_size=1, max_size=20),
)
def test_any_timeline_is_drawn_as_valid_xml(
    title: str, labels: list[str], times: list[tuple[float, float]]
) -> None:
    lanes = tuple(Lane(f"{index}", label=label) for index, label in enumerate(labels))
    spans = tuple(
        Span(f"{index % len(lanes)}", labels[index % len(labels)], start, start + length)
        for index, (start, length) in enumerate(times)
    )
    marks = tuple(Mark(start, labels[0], "loss", "0") for start, _ in times)
    drawn(Timeline(title, lanes, spans, marks, title))


@given(duration=st.floats(1e-3, 1e8))
def test_ticks_are_few_and_their_labels_differ(duration: float) -> None:
    step, marked = ticks(duration)
    assert 2 <= len(marked) <= MAX_TICKS + 1
    labels = [tick_label(tick, step) for tick in marked]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(
    ("duration", "last"),
    [
        (0.5, "0.50 s"),
        (8.0, "8 s"),
        (21.6, "20 s"),
        (119, "110 s"),
        (600, "10:00"),
        (7300, "2:00:00"),
    ],
)
def test_the_axis_is_labelled_in_round_steps(duration: float, last: str) -> None:
    step, marked = ticks(duration)
    assert tick_label(marked[-1], step) == last
