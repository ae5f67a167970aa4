"""A copy of JSON is deep, equal, and made of nothing but JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.renewal.jsonvalue import (
    MAX_DEPTH,
    MAX_INTEGER,
    MIN_INTEGER,
    Json,
    NotJson,
    copy_json,
)

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(MIN_INTEGER, MAX_INTEGER)
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
        ({"a": [1, {"b": (1,)}]}, r"^it\.a\[1\]\.b: a tuple is not JSON$"),
        ([{1}], r"^it\[0\]: a set is not JSON$"),
        ({"a": {1: 2}}, r"^it\.a: a key is an int, not text$"),
        ({Words("a"): 2}, "^it: a key is a Words, not text$"),
        (Words("a"), "^it: a Words is not JSON$"),
        ([b"a"], r"^it\[0\]: a bytes is not JSON$"),
        ([float("nan")], r"^it\[0\]: nan is not JSON$"),
        ([float("-inf")], r"^it\[0\]: -inf is not JSON$"),
        (MAX_INTEGER + 1, "^it: an integer of more than 64 bits$"),
        (MIN_INTEGER - 1, "^it: an integer of more than 64 bits$"),
        ({"\ud800": 1}, "^it: text that is not Unicode$"),
        (object(), "^it: an object is not JSON$"),
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
    with pytest.raises(NotJson, match=f"deeper than {MAX_DEPTH}$"):
        copy_json([value], what="it", max_bytes=1_000)
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(NotJson, match=f"deeper than {MAX_DEPTH}$"):
        copy_json(endless, what="it", max_bytes=1_000)


def test_the_bound_is_in_bytes_of_what_is_sent() -> None:
    assert copy_json("é" * 49, what="it", max_bytes=100) == "é" * 49
    with pytest.raises(NotJson, match=r"^it: larger than 100 bytes$"):
        copy_json("é" * 50, what="it", max_bytes=100)


@given(VALUES)
def test_the_bound_is_exact_whatever_it_is_made_of(value: Any) -> None:
    size = len(msgspec.json.encode(value))
    copy_json(value, what="it", max_bytes=size)
    with pytest.raises(NotJson, match=f"larger than {size - 1} bytes$"):
        copy_json(value, what="it", max_bytes=size - 1)


def test_what_is_too_large_is_found_before_it_is_copied() -> None:
    laugh: Any = ["ha"] * 10
    for _ in range(20):
        laugh = [laugh] * 10
    with pytest.raises(NotJson, match=r"larger than 1000 bytes$"):
        copy_json(laugh, what="it", max_bytes=1_000)
