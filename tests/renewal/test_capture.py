"""What a request is when it was taken down: a copy of what is JSON, within bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.renewal import ClipRequest, SequenceMember
from trio_reactor.renewal.engine.capture import MAX_PAYLOAD_SIZE, capture
from trio_reactor.renewal.jsonvalue import MAX_DEPTH

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=20,
)


def containers(value: Any) -> set[int]:
    if isinstance(value, dict):
        return {id(value)}.union(*(containers(each) for each in value.values()))
    if isinstance(value, list):
        return {id(value)}.union(*(containers(each) for each in value))
    return set()


@given(st.dictionaries(st.text("abc"), JSON))
def test_what_is_json_is_copied_whole_and_shares_nothing(payload: dict[str, Any]) -> None:
    captured = capture(ClipRequest(payload, "clip"))
    assert captured == ClipRequest(payload, "clip")
    assert msgspec.json.encode(captured) == msgspec.json.encode(ClipRequest(payload, "clip"))
    assert not containers(captured.payload) & containers(payload)


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"scene": [{"at": {1, 2}}]}, r"payload\.scene\[0\]\.at: a set is not JSON"),
        ({"scene": (1, 2)}, r"payload\.scene: a tuple is not JSON"),
        ({"scene": b"x"}, r"payload\.scene: a bytes is not JSON"),
        ({"scene": Text("x")}, r"payload\.scene: a Text is not JSON"),
        ({"scene": float("nan")}, r"payload\.scene: nan is not JSON"),
        ({"scene": float("inf")}, r"payload\.scene: inf is not JSON"),
        ({"scene": 2**64}, r"payload\.scene: an integer of more than 64 bits"),
        ({"scene": -(2**63) - 1}, r"payload\.scene: an integer of more than 64 bits"),
        ({"scene": 10**10_000}, r"payload\.scene: an integer of more than 64 bits"),
        ({"scene": "\ud800"}, r"payload\.scene: text that is not Unicode"),
        ({"scene": {1: "x"}}, r"payload\.scene: a key is an int, not text"),
        (["x"], r"payload: a list is not a dict"),
    ],
)
def test_what_is_not_json_is_refused_by_where_it_is(payload: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        capture(ClipRequest(payload))


def nested(depth: int) -> Any:
    inner: Any = {}
    for _ in range(depth - 1):
        inner = {"x": inner}
    return inner


def test_what_is_too_deep_is_refused_also_if_it_holds_itself() -> None:
    capture(ClipRequest(nested(MAX_DEPTH)))
    with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH}"):
        capture(ClipRequest(nested(MAX_DEPTH + 1)))
    endless: dict[str, Any] = {}
    endless["x"] = endless
    with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH}"):
        capture(ClipRequest(endless))


@pytest.mark.parametrize("size", [MAX_PAYLOAD_SIZE, MAX_PAYLOAD_SIZE + 1])
@pytest.mark.parametrize(
    "of",
    [
        lambda size: {"x": "y" * (size - len('{"x":""}'))},
        lambda size: {"x": [0] * ((size - 9) // 2), "0" * (1 + size % 2): 0},
        lambda size: {"x": "\\n" * ((size - 9) // 2), "0" * (1 + size % 2): 0},
    ],
)
def test_what_is_larger_by_one_byte_is_refused(of: Any, size: int) -> None:
    payload = of(size)
    excess = len(msgspec.json.encode(payload)) - MAX_PAYLOAD_SIZE
    if excess <= 0:
        assert capture(ClipRequest(payload)).payload == payload
        return
    with pytest.raises(ValueError, match=f"larger than {MAX_PAYLOAD_SIZE} bytes"):
        capture(ClipRequest(payload))


def test_what_only_shares_its_parts_is_bounded_too() -> None:
    laugh: Any = ["ha"] * 10
    for _ in range(20):
        laugh = [laugh] * 10
    with pytest.raises(ValueError, match="larger than"):
        capture(ClipRequest({"laugh": laugh}))


@pytest.mark.parametrize("name", ["", "x" * 1025, 5])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="continue_from: a name is"):
        capture(ClipRequest({}, name))
    with pytest.raises(ValueError, match="sequence: a name is"):
        SequenceMember(name)
    with pytest.raises(ValueError, match="name: a name is"):
        SequenceMember("titles", name)


@pytest.mark.parametrize("final", [0, "yes", None])
def test_whether_a_member_is_the_last_is_true_or_false(final: Any) -> None:
    with pytest.raises(ValueError, match="final"):
        SequenceMember("titles", "a", final)
