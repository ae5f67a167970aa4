"""A copy of JSON is deep, equal, and made of nothing but JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.renewal.jsonvalue import MAX_DEPTH, MAX_INTEGER, Json, NotJson, copy_json

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


def parts(value: Json) -> list[list[Json] | dict[str, Json]]:
    if isinstance(value, list):
        return [value, *(part for each in value for part in parts(each))]
    if isinstance(value, dict):
        return [value, *(part for each in value.values() for part in parts(each))]
    return []


@given(VALUES)
def test_a_copy_is_equal_and_shares_nothing_that_could_change(value: Any) -> None:
    copied = copy_json(value, what="it", max_bytes=1_000_000)
    assert json.dumps(copied) == json.dumps(value)
    assert not {id(part) for part in parts(copied)} & {id(part) for part in parts(value)}


class Words(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [1, {"b": (1,)}]}, r"^it\.a\[1\]\.b is of type tuple$"),
        ([{1}], r"^it\[0\] is of type set$"),
        ({"a": {1: 2}}, r"^it\.a has a key of type int$"),
        ({Words("a"): 2}, "^it has a key of type Words$"),
        (Words("a"), "^it is of type Words$"),
        ([b"a"], r"^it\[0\] is of type bytes$"),
        ([float("nan")], r"^it\[0\] is nan$"),
        ([float("-inf")], r"^it\[0\] is -inf$"),
        (MAX_INTEGER, "^it is an integer of more than 64 bits$"),
        ({"\ud800": 1}, "^it has a string that is no Unicode text$"),
        (object(), "^it is of type object$"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_what_is_no_json_is_refused_by_where_it_is(value: object, words: str) -> None:
    with pytest.raises(NotJson, match=words):
        copy_json(value, what="it", max_bytes=1_000)


def test_what_is_nested_too_deep_or_contains_itself_is_refused() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert copy_json(value, what="it", max_bytes=1_000) == value
    with pytest.raises(NotJson, match=f"nested deeper than {MAX_DEPTH}$"):
        copy_json([value], what="it", max_bytes=1_000)
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(NotJson, match="nested deeper"):
        copy_json(endless, what="it", max_bytes=1_000)


def test_the_bound_is_in_bytes_of_what_is_sent() -> None:
    assert copy_json("é" * 49, what="it", max_bytes=100) == "é" * 49
    with pytest.raises(NotJson, match=r"^it is 102 bytes, 100 at most may be$"):
        copy_json("é" * 50, what="it", max_bytes=100)
