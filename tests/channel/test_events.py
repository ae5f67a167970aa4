"""Events are values: what can be made can be encoded, and comes back equal."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.errors import Closed, Lost, ReactorError, Refused
from trio_reactor.events import (
    MAX_DETAIL,
    MAX_MESSAGE,
    Envelope,
    Event,
    EventCodec,
    FailureRecord,
)

# ------------------------------------------------------------------------------ example events


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Tail(msgspec.Struct, frozen=True):
    """A value inside of events."""

    expected: int | None
    received: int
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Place:
    """Another kind of value inside of events."""

    x: float
    name: str


class Opened(Event, frozen=True):
    source: str
    lifetime: float | None
    """Seconds; `None` for no end."""


class Lapsed(Event, frozen=True, kw_only=True):
    source: str
    tail: Tail
    failures: tuple[FailureRecord, ...] = ()


class Measured(Event, frozen=True):
    values: tuple[float | int, ...] = ()
    by_name: dict[str, float | None] = {}  # noqa: RUF012 - msgspec copies it
    places: list[Place] = []  # noqa: RUF012 - msgspec copies it
    when: datetime | None = None
    took: timedelta | None = None
    raw: bytes = b""
    mood: Mood = Mood.GOOD
    fine: bool = True
    tags: frozenset[str] = frozenset()


class Silent(Event, frozen=True):
    pass


EVENTS = (Opened, Lapsed, Measured, Silent)

text = st.text(max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(-(2**63), 2**64 - 1)
tails = st.builds(Tail, st.none() | integers, integers, st.none() | finite)
records = st.builds(
    FailureRecord,
    text,
    text,
    st.sampled_from((None, "not-submitted", "unknown", "replied")),
    st.booleans(),
    st.none() | text,
)
instants = st.datetimes(
    min_value=datetime(1970, 1, 2),
    max_value=datetime(9000, 1, 1),
    timezones=st.just(UTC),
)
events = st.one_of(
    st.builds(Opened, text, st.none() | finite),
    st.builds(Lapsed, source=text, tail=tails, failures=st.lists(records, max_size=3).map(tuple)),
    st.builds(
        Measured,
        st.lists(finite | integers, max_size=4).map(tuple),
        st.dictionaries(text, st.none() | finite, max_size=3),
        st.lists(st.builds(Place, finite, text), max_size=3),
        st.none() | instants,
        st.none() | st.timedeltas(timedelta(0), timedelta(days=1_000)),
        st.binary(max_size=10),
        st.sampled_from(Mood),
        st.booleans(),
        st.frozensets(text, max_size=3),
    ),
    st.just(Silent()),
)
envelopes = st.builds(Envelope, integers, finite, finite, text, events)


@given(envelopes)
def test_every_event_comes_back_equal_from_json_and_from_messagepack(
    envelope: Envelope[Event],
) -> None:
    codec = EventCodec(*EVENTS)
    encoded = codec.encode_json(envelope)
    assert codec.decode_json(encoded) == envelope
    assert codec.decode_json(encoded.decode()) == envelope
    assert codec.decode_msgpack(codec.encode_msgpack(envelope)) == envelope
    assert json.loads(encoded)["event"]["type"] == type(envelope.event).__name__
    assert b"\n" not in encoded


def test_an_event_is_frozen_tagged_and_compared_by_value() -> None:
    event = Opened("a", 3.0)
    assert event == Opened("a", 3.0) != Opened("b", 3.0)
    with pytest.raises(AttributeError):
        event.source = "b"  # type: ignore[misc]
    assert Opened.__struct_config__.tag == "Opened"
    assert Opened.version == 1
    match event:
        case Opened(source=source):
            assert source == "a"


# ------------------------------------------------------------------- what could not come back

UNFIT: dict[str, tuple[Callable[[], Event], str]] = {
    "not a number": (lambda: Opened("a", math.nan), r"Opened\.lifetime: .*finite"),
    "infinity": (lambda: Opened("a", math.inf), r"Opened\.lifetime: .*finite"),
    "minus infinity": (lambda: Opened("a", -math.inf), r"Opened\.lifetime: .*finite"),
    "a large integer": (lambda: Measured((2**64,)), r"Measured\.values\[0\]: .*64 bits"),
    "a small integer": (lambda: Measured((1, -(2**63) - 1)), r"Measured\.values\[1\]: .*64 bits"),
    "inside a struct": (
        lambda: Lapsed(source="a", tail=Tail(1, 2, math.inf)),
        r"Lapsed\.tail\.seconds: .*finite",
    ),
    "deep inside": (
        lambda: Lapsed(
            source="a", tail=Tail(1, 2), failures=(FailureRecord("A", "b", detail="\udc80"),)
        ),
        r"Lapsed\.failures\[0\]\.detail: .*text",
    ),
    "inside a dataclass": (lambda: Measured(places=[Place(math.nan, "")]), r"places\[0\]\.x: "),
    "in a mapping": (lambda: Measured(by_name={"a": math.nan}), r"by_name\{\}: .*finite"),
    "as a key": (lambda: Measured(by_name={"\ud800": 1.0}), r"by_name\{\}: .*text"),
    "in a set": (lambda: Measured(tags=frozenset({"\ud800"})), r"tags\{\}: .*text"),
    "text": (lambda: Opened("\ud800", None), r"Opened\.source: .*text"),
}


@pytest.mark.parametrize(("make", "complaint"), UNFIT.values(), ids=UNFIT)
def test_what_would_not_come_back_is_refused_by_the_name_of_its_field(
    make: Callable[[], Event], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        make()
    assert "\ud800" not in str(caught.value)


def test_the_extremes_of_64_bits_are_taken() -> None:
    codec = EventCodec(Measured)
    for number in (2**64 - 1, -(2**63)):
        envelope = Envelope(1, 2.0, 3.0, "", Measured((number,)))
        assert codec.decode_json(codec.encode_json(envelope)) == envelope
        assert codec.decode_msgpack(codec.encode_msgpack(envelope)) == envelope


def test_what_arrives_encoded_is_looked_at_too() -> None:
    codec = EventCodec(Opened)
    unfit = msgspec.msgpack.encode(
        {
            "seq": 1,
            "wall": 2.0,
            "clock": 3.0,
            "handle": "",
            "event": {"type": "Opened", "source": "a", "lifetime": math.inf},
        }
    )
    with pytest.raises(msgspec.ValidationError, match=r"Opened\.lifetime"):
        codec.decode_msgpack(unfit)


def test_a_class_that_looks_at_its_fields_by_itself_is_still_looked_at() -> None:
    class Positive(Event, frozen=True):
        number: float

        def __post_init__(self) -> None:
            if self.number <= 0:
                raise ValueError("it must be positive")

    class Bounded(Positive, frozen=True):
        def __post_init__(self) -> None:
            super().__post_init__()
            if self.number > 10:
                raise ValueError("it must be at most 10")

    class Plain(Bounded, frozen=True):
        pass

    for cls in (Positive, Bounded, Plain):
        assert cls(1.0).number == 1.0
        with pytest.raises(ValueError, match="positive"):
            cls(-1.0)
        with pytest.raises(ValueError, match=f"{cls.__qualname__}.number|at most"):
            cls(math.inf)


# --------------------------------------------------------------------------------------- the codec


def test_two_events_with_one_tag_are_refused_by_name() -> None:
    class Other(Event, frozen=True, tag="Opened"):
        pass

    with pytest.raises(ValueError, match=r"Opened and .*Other carry the same tag, 'Opened'"):
        EventCodec(Silent, Opened, Other)


def test_the_same_class_twice_is_one_class() -> None:
    assert EventCodec(Opened, Silent, Opened).types == (Opened, Silent)


def test_a_codec_is_for_the_events_it_was_made_for() -> None:
    codec = EventCodec(Silent)
    envelope = Envelope(1, 2.0, 3.0, "", Opened("a", None))
    for encode in (codec.encode_json, codec.encode_msgpack):
        with pytest.raises(TypeError, match="Opened"):
            encode(envelope)
    with pytest.raises(TypeError, match="at least one"):
        EventCodec()


def test_what_is_no_such_envelope_is_a_decode_error() -> None:
    codec = EventCodec(Silent)
    with pytest.raises(msgspec.DecodeError):
        codec.decode_json(b"{")
    with pytest.raises(msgspec.DecodeError):
        codec.decode_msgpack(b"\xc1")
    with pytest.raises(msgspec.ValidationError):
        codec.decode_json(EventCodec(Opened).encode_json(envelope_of(Opened("a", None))))


def envelope_of(event: Event) -> Envelope[Event]:
    return Envelope(1, 2.0, 3.0, "", event)


# ---------------------------------------------------------------------------------- failure records


def test_a_failure_of_the_library_speaks_for_itself() -> None:
    failure = Refused("the session was refused", outcome="replied", detail="code 17: go away")
    assert FailureRecord.of(failure) == FailureRecord(
        type="Refused",
        message="the session was refused",
        outcome="replied",
        retryable=False,
        detail="code 17: go away",
    )
    assert FailureRecord.of(Closed("it is closed", retryable=True)) == FailureRecord(
        "Closed", "it is closed", "not-submitted", retryable=True
    )


def test_foreign_words_are_kept_apart_from_the_message() -> None:
    record = FailureRecord.of(OSError("secret token 123"))
    assert (record.type, record.outcome, record.retryable) == ("OSError", None, False)
    assert record.detail == "secret token 123"
    assert "secret" not in record.message
    assert FailureRecord.of(KeyboardInterrupt()).detail is None


def test_a_group_is_told_by_its_leaves_and_not_by_their_words() -> None:
    group = ExceptionGroup(
        "secret", [OSError("secret"), ExceptionGroup("", [Lost("x"), Lost("y")])]
    )
    record = FailureRecord.of(group)
    assert (record.type, record.message) == ("ExceptionGroup", "3 failures: OSError, Lost")
    assert record.detail is None


def test_records_are_bounded() -> None:
    record = FailureRecord.of(ReactorError("m" * 5_000, detail="d" * 5_000))
    assert (len(record.message), len(record.detail or "")) == (MAX_MESSAGE, MAX_DETAIL)
    assert len(FailureRecord.of(OSError("f" * 5_000)).detail or "") == MAX_DETAIL


@given(st.text(st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010)))
def test_any_words_can_be_recorded_and_encoded(words: str) -> None:
    for failure in (OSError(words), ReactorError("m", detail=words)):
        event = Lapsed(source="a", tail=Tail(1, 2), failures=(FailureRecord.of(failure),))
        codec = EventCodec(Lapsed)
        assert codec.decode_json(codec.encode_json(envelope_of(event))).event == event


def test_a_failure_that_cannot_say_what_it_is_can_be_recorded() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    assert FailureRecord.of(Mute()).detail is None
