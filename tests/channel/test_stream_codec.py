"""Every event comes back equal from JSON and MessagePack; what could not is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from enum import Enum, IntEnum
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.errors import Busy, Lost, Overflow
from trio_reactor.events import Envelope, Event, EventCodec, FailureRecord

SMALLEST, LARGEST = -(2**63), 2**64 - 1


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Place(NamedTuple):
    x: float
    y: int


@dataclasses.dataclass(frozen=True)
class Size:
    height: float


class Part(msgspec.Struct, frozen=True):
    name: str
    parts: tuple[Part, ...] = ()
    weight: float | None = None


class Rich(Event):
    count: int
    ratio: float
    text: str
    blob: bytes
    maybe: float | None
    flag: bool
    numbers: tuple[int, ...]
    table: dict[str, float]
    by_number: dict[int, str]
    colour: Colour
    level: Level
    place: Place
    size: Size
    part: Part
    failure: FailureRecord | None


class Bare(Event):
    pass


class Number(Event):
    value: int | float | str | None


class Anything(Event):
    first: int
    value: Any


class Own(Event):
    value: float

    def __post_init__(self) -> None:
        pass


class Derived(Own):
    other: float = 0.0


floats = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(SMALLEST, LARGEST)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
parts = st.recursive(
    st.builds(Part, text, st.just(()), st.none() | floats),
    lambda inner: st.builds(Part, text, st.lists(inner, max_size=3).map(tuple), floats),
    max_leaves=5,
)
rich = st.builds(
    Rich,
    integers,
    floats,
    text,
    st.binary(max_size=20),
    st.none() | floats,
    st.booleans(),
    st.lists(integers, max_size=4).map(tuple),
    st.dictionaries(text, floats, max_size=3),
    st.dictionaries(integers, text, max_size=3),
    st.just(Colour.RED),
    st.just(Level.LOW),
    st.builds(Place, floats, integers),
    st.builds(Size, floats),
    parts,
    st.none()
    | st.builds(
        FailureRecord, text, text, st.sampled_from([None, "unknown", "replied"]), st.booleans()
    ),
)
envelopes = st.builds(Envelope, st.integers(1, 2**63), floats, floats, text, rich | st.just(Bare()))
CODEC = EventCodec(Rich, Bare, Number, Own, Derived)


@given(envelopes)
def test_what_is_written_is_read_as_equal(envelope: Envelope[Event]) -> None:
    as_json, as_msgpack = CODEC.encode_json(envelope), CODEC.encode_msgpack(envelope)
    assert b"\n" not in as_json
    json.loads(as_json)
    for back in (CODEC.decode_json(as_json), CODEC.decode_msgpack(as_msgpack)):
        assert back == envelope
        assert type(back.event) is type(envelope.event)
    assert CODEC.decode_json(as_json.decode()) == envelope


BAD = [math.nan, math.inf, -math.inf, LARGEST + 1, SMALLEST - 1, "\ud800"]


@pytest.mark.parametrize("bad", BAD, ids=repr)
@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda bad: bad, "value"),
        (lambda bad: [1, bad], r"value\[1\]"),
        (lambda bad: (1, (2, bad)), r"value\[1\]\[1\]"),
        (lambda bad: {"key": bad}, "value"),
        (lambda bad: {bad: 1}, "value"),
        (lambda bad: frozenset({bad}), "value"),
        (lambda bad: Place(bad, 1), r"value\[0\]"),
        (Size, r"value\.height"),
        (lambda bad: Part("a", (Part("b", weight=bad),)), r"value\.parts\[0\]\.weight"),
        (lambda bad: FailureRecord(bad, ""), r"value\.type"),
    ],
)
def test_what_would_not_come_back_is_refused_by_the_name_of_its_field(
    wrap: Any, path: str, bad: object
) -> None:
    with pytest.raises(ValueError, match=rf"Anything\.{path}") as refused:
        Anything(1, wrap(bad))
    assert repr(bad) not in str(refused.value)


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_a_class_that_looks_at_its_fields_by_itself_does_not_lose_the_look(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"Own\.value"):
        Own(bad)
    with pytest.raises(ValueError, match=r"Derived\.other"):
        Derived(1.0, bad)
    with pytest.raises(ValueError, match=r"Number\.value"):
        msgspec.structs.replace(Number(1), value=bad)


@pytest.mark.parametrize("good", [SMALLEST, LARGEST, 0, 5e-324, -0.0, 1.7976931348623157e308, None])
def test_the_bounds_themselves_come_back(good: float | None) -> None:
    envelope: Envelope[Event] = Envelope(1, 0.0, 0.0, "", Number(good))
    assert CODEC.decode_json(CODEC.encode_json(envelope)) == envelope
    assert CODEC.decode_msgpack(CODEC.encode_msgpack(envelope)) == envelope


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyStr(str):
    __slots__ = ()


@pytest.mark.parametrize("odd", [MyInt(1), MyFloat(1.0), MyStr("x")], ids=repr)
@pytest.mark.parametrize("deep", [False, True])
def test_a_number_or_text_of_a_subclass_is_refused_where_the_event_is_made(
    odd: Any, deep: bool
) -> None:
    """NumPy's `float64` is such a float, and type checkers take it for one."""
    with pytest.raises(ValueError, match=r"Anything\.value"):
        Anything(1, (odd,) if deep else odd)


def test_events_are_frozen_and_tagged_by_their_class() -> None:
    event = Bare()
    with pytest.raises(AttributeError):
        Number(1).value = 2  # type: ignore[misc]
    assert CODEC.encode_json(Envelope(1, 0.0, 0.0, "", event)).endswith(b'"event":{"type":"Bare"}}')
    assert hash(Number(1)) == hash(Number(1))


def test_two_classes_with_one_tag_are_refused_and_both_named() -> None:
    def another() -> type[Event]:
        class Bare(Event):
            x: int

        return Bare

    class Alias(Event, tag="Bare"):
        pass

    for second in (another(), Alias):
        with pytest.raises(ValueError, match=r"Bare.*Bare"):
            EventCodec(Bare, second)
    assert EventCodec(Bare, Number, Bare).types == (Bare, Number)
    with pytest.raises(TypeError):
        EventCodec()


def test_an_event_of_another_class_is_neither_written_nor_read() -> None:
    narrow = EventCodec(Own)
    other: Envelope[Event] = Envelope(1, 0.0, 0.0, "", Bare())
    derived: Envelope[Event] = Envelope(1, 0.0, 0.0, "", Derived(1.0))
    for envelope in (other, derived):
        with pytest.raises(TypeError):
            narrow.encode_json(envelope)
        with pytest.raises(TypeError):
            narrow.encode_msgpack(envelope)
        with pytest.raises(msgspec.ValidationError):
            narrow.decode_json(CODEC.encode_json(envelope))
        with pytest.raises(msgspec.ValidationError):
            narrow.decode_msgpack(CODEC.encode_msgpack(envelope))


@pytest.mark.parametrize("written", [b"", b"{", b"[]", b'{"seq":1}', b"\xff"])
def test_what_is_no_envelope_is_a_decode_error(written: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        CODEC.decode_json(written)
    with pytest.raises(msgspec.DecodeError):
        CODEC.decode_msgpack(written)


def test_a_float_that_is_not_finite_is_not_read_either() -> None:
    written = msgspec.msgpack.encode(
        {
            "seq": 1,
            "wall": 0.0,
            "clock": 0.0,
            "handle": "",
            "event": {"type": "Own", "value": math.nan},
        }
    )
    with pytest.raises(msgspec.ValidationError):
        CODEC.decode_msgpack(written)


@given(text | st.text(), st.sampled_from([Lost, Busy, Overflow, OSError, ValueError]))
def test_an_exception_is_told_as_a_value(words: str, cls: type[Exception]) -> None:
    record = FailureRecord.of(cls(words))
    assert record.type == cls.__name__
    assert record.outcome == ("not-submitted" if cls in (Lost, Busy, Overflow) else None)
    kept = Anything(1, record)
    assert msgspec.json.decode(msgspec.json.encode(kept.value), type=FailureRecord) == record
