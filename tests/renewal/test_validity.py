"""What a source says is judged in words, whatever it says, and never by raising."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from trio_reactor.renewal import Cleanup
from trio_reactor.renewal.slot import validity
from trio_reactor.renewal.slot.validity import (
    MAX_IDENTITY,
    audio_fault,
    cleanup_fault,
    event_fault,
    generation_fault,
    resumption_fault,
    state_fault,
    video_fault,
)
from trio_reactor.renewal.source import (
    AudioFrame,
    Clip,
    ClipEnded,
    ClipFailed,
    ClipStarted,
    ClipUpdated,
    GoingAway,
    SourceEvent,
    SourceState,
    VideoFrame,
)

Judge = Callable[[Any], str | None]

VIDEO = VideoFrame(bytes(4), 2, 2, "gray", 0.0, "clip", 0)
AUDIO = AudioFrame(bytes(4), 2, 2, 48_000, "s16", 0.0, "clip")
CLEANUP = Cleanup.of("me", allocation="owned", termination="confirmed", connection="closed")


def cleanup_of_me(cleanup: Any) -> str | None:
    return cleanup_fault(cleanup, "me")


GOOD: list[tuple[Judge, Any]] = [
    (video_fault, VIDEO),
    (audio_fault, AUDIO),
    (event_fault, ClipUpdated(Clip("clip", "ready", 5))),
    (event_fault, ClipStarted("clip", 5)),
    (event_fault, ClipEnded("clip", 0)),
    (event_fault, ClipFailed("clip", "no")),
    (event_fault, GoingAway(5.0, "maintenance")),
    (state_fault, SourceState((Clip("clip", "ready"), Clip("other", "queued", 3)), True)),
    (cleanup_of_me, CLEANUP),
]

NONSENSE = [
    None,
    True,
    -1,
    10**30,
    1.5,
    math.nan,
    -math.inf,
    "",
    "x" * (MAX_IDENTITY + 1),
    b"bytes",
    (),
    [1],
    {"a": object()},
    object(),
    ValueError("a bug"),
    Clip,
    itertools.count(),
]
_FREE: dict[str, tuple[str, ...]] = {
    "GoingAway": ("expires_in",),  # looked at where it is taken
    "Cleanup": (),
}


@pytest.mark.parametrize(("judge", "good"), GOOD, ids=lambda each: type(each).__name__)
def test_what_makes_sense_has_no_fault(judge: Judge, good: Any) -> None:
    assert judge(good) is None


@pytest.mark.parametrize(("judge", "good"), GOOD, ids=lambda each: type(each).__name__)
def test_no_nonsense_in_any_field_makes_a_judge_raise(judge: Judge, good: Any) -> None:
    found = 0
    for field in good.__struct_fields__:
        for nonsense in NONSENSE:
            told = {name: getattr(good, name) for name in good.__struct_fields__}
            told[field] = nonsense
            try:
                record = type(good)(**told)
            except (ValueError, TypeError):
                continue  # it cannot even be made
            fault = judge(record)
            assert fault is None or fault
            found += fault is not None
    assert found >= 8


@pytest.mark.parametrize("judge", [video_fault, audio_fault, event_fault, state_fault])
@pytest.mark.parametrize("nonsense", NONSENSE, ids=lambda each: type(each).__name__)
def test_what_is_no_record_at_all_is_at_fault(judge: Judge, nonsense: Any) -> None:
    assert judge(nonsense)


@pytest.mark.parametrize(("judge", "good"), GOOD, ids=lambda each: type(each).__name__)
def test_what_has_no_fault_can_be_written_down(judge: Judge, good: Any) -> None:
    for field, nonsense in itertools.product(good.__struct_fields__, NONSENSE):
        if isinstance(good, VideoFrame | AudioFrame) or field in _FREE.get(type(good).__name__, ()):
            continue  # frames are not events
        told = {name: getattr(good, name) for name in good.__struct_fields__} | {field: nonsense}
        try:
            record = type(good)(**told)
        except (ValueError, TypeError):
            continue
        if judge(record) is None:
            kind: Any = type(good)
            assert msgspec.json.decode(msgspec.json.encode(record), type=kind) == record


CLIP_EVENTS: list[SourceEvent] = [
    ClipUpdated(Clip("clip", "ready", 5)),
    ClipUpdated(Clip("clip", "queued")),
    ClipStarted("clip", 5),
    ClipStarted("clip"),
    ClipEnded("clip", 0),
    ClipFailed("clip", "no"),
]


@pytest.mark.parametrize("event", CLIP_EVENTS, ids=str)
def test_an_ordinary_event_is_not_written_down_to_be_judged(
    event: SourceEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validity, "_fault", lambda *_: pytest.fail("it was written down"))
    assert event_fault(event) is None


def test_to_look_only_at_the_types_of_an_event_judges_as_to_write_it_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Text(str):
        __slots__ = ()

    class Later(ClipStarted, frozen=True):
        pass

    odd: list[Any] = [
        *NONSENSE,
        Text("clip"),
        0,
        5,
        2**63,
        "queued",
        "over",
        None,
        Clip("a", "ready"),
    ]
    events: list[Any] = [Later("clip", 5), Later("clip", 1.5)]  # type: ignore[arg-type]
    for event in CLIP_EVENTS:
        for field, value in itertools.product(event.__struct_fields__, odd):
            events.append(msgspec.structs.replace(event, **{field: value}))
    for field, value in itertools.product(Clip.__struct_fields__, odd):
        events.append(
            ClipUpdated(msgspec.structs.replace(Clip("clip", "ready", 5), **{field: value}))
        )
    quick = [event_fault(event) for event in events]
    monkeypatch.setattr(validity, "_is_plain", lambda _: False)
    assert quick == [event_fault(event) for event in events]
    assert None in quick
    assert len(set(quick)) > 8


@pytest.mark.parametrize("data", [bytes(4), bytearray(4), memoryview(bytes(4))])
def test_bytes_come_in_three_kinds(data: Any) -> None:
    assert video_fault(msgspec.structs.replace(VIDEO, data=data)) is None
    assert audio_fault(msgspec.structs.replace(AUDIO, data=data)) is None


def test_samples_are_counted_by_bytes_and_not_by_items() -> None:
    data = memoryview(bytes(8)).cast("h")
    assert audio_fault(msgspec.structs.replace(AUDIO, data=data, samples=4)) is None
    assert audio_fault(msgspec.structs.replace(AUDIO, data=data, samples=9))


def test_a_run_of_no_samples_is_one() -> None:
    assert audio_fault(msgspec.structs.replace(AUDIO, data=b"", samples=0)) is None


@pytest.mark.parametrize(("before", "number"), [(None, -3), (None, 0), (0, 1), (5, 2**63 - 1)])
def test_a_generation_may_begin_anywhere_and_rises(before: int | None, number: int) -> None:
    assert generation_fault(number, before) is None
    assert generation_fault(number, number)


def test_a_handle_to_resume_from_is_text_of_some_length() -> None:
    assert resumption_fault(None) is None
    assert resumption_fault("handle") is None
    for nonsense in NONSENSE:
        if nonsense is not None and not (isinstance(nonsense, str) and nonsense):
            assert resumption_fault(nonsense)


def test_evidence_may_leave_out_whose_it_is() -> None:
    assert cleanup_fault(msgspec.structs.replace(CLEANUP, source=None), "me") is None
    assert cleanup_fault(CLEANUP, None) is None
    assert cleanup_fault(CLEANUP, "you") == "closed with evidence of another source"
