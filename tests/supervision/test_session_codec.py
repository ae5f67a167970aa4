"""Records as bytes: what was written comes back, and what is damaged is told as that."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from supervision_values import handles, records

from trio_reactor.supervision.errors import RecordRefused, RecordUnreadable
from trio_reactor.supervision.model.child import Launch
from trio_reactor.supervision.model.codec import MAX_RECORD_BYTES, VERSION, decode, encode
from trio_reactor.supervision.model.ends import NotStarted, Stop
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Loading, Open, SessionRecord, Stopped, Stopping
from trio_reactor.supervision.model.work import UNLIMITED, Limits, PythonCode

RECORD = SessionRecord(
    Handle(Key("kernel", "7"), 3, "token"),
    "request",
    30.0,
    UNLIMITED,
    1.5,
    Stopping(Stop("expired"), Loading(PythonCode("worker:main"), Launch("nonce", 10.0))),
)
ENCODED = encode(RECORD)


def unreadable(encoded: bytes, **how: Any) -> RecordUnreadable:
    with pytest.raises(RecordUnreadable) as told:
        decode(encoded, name="row 5", **how)
    assert told.value.name == "row 5"
    assert "row 5" in told.value.message
    return told.value


@settings(deadline=None, max_examples=60)
@given(records)
def test_what_was_encoded_comes_back_equal(record: SessionRecord) -> None:
    encoded = encode(record)
    assert decode(encoded, name="record", handle=record.handle) == record
    assert b"\n" not in encoded


def test_a_token_is_in_the_record_and_not_in_what_is_shown_of_it() -> None:
    assert b'"token"' in ENCODED
    assert "token" not in repr(RECORD).replace("token=", "")


WRITTEN = (
    b'{"version":1,"record":{"handle":{"key":{"identity":"a","instance":""},"generation":1,'
    b'"token":"t"},"request":"r","lease":30.5,"limits":{"memory":null,"cpu_time":null,'
    b'"open_files":null,"processes":null},"opened_at":1.5,"phase":{"type":"stopped","stop":'
    b'{"reason":"unresponsive","exit":null,"failure":{"type":"OSError","message":"a defect",'
    b'"outcome":null,"retryable":false,"detail":null},"stack":null},"termination":'
    b'{"type":"not-started","causes":[]},"work":null,"code":null,"recovered":false},"host":""}}'
)
"""A record as it is written, of a reason that once also stood for what is `unreachable` now."""


def test_what_was_written_is_read_and_written_as_it_is() -> None:
    record = decode(WRITTEN, name="record")
    assert isinstance(record.phase, Stopped)
    assert record.phase.stop.reason == "unresponsive"
    assert record.phase.termination == NotStarted()
    assert record.phase.termination.exit is None
    assert encode(record) == WRITTEN


@given(st.integers(0, len(ENCODED) - 1))
def test_a_truncated_record_is_unreadable(length: int) -> None:
    unreadable(ENCODED[:length])


@given(st.integers(0, len(ENCODED) - 1), st.integers(0, 255))
def test_a_record_with_a_wrong_byte_is_unreadable_or_a_record(index: int, byte: int) -> None:
    damaged = ENCODED[:index] + bytes([byte]) + ENCODED[index + 1 :]
    with contextlib.suppress(RecordUnreadable):
        assert isinstance(decode(damaged, name="record"), SessionRecord)


@given(st.binary(max_size=200))
def test_what_is_no_record_is_unreadable(encoded: bytes) -> None:
    unreadable(encoded)


@pytest.mark.parametrize("version", [VERSION + 1, 0, -1, 2**70])
def test_a_record_of_another_version_is_told_as_that(version: int) -> None:
    document = json.loads(ENCODED) | {"version": version}
    failure = unreadable(json.dumps(document).encode())
    assert f"version {version}" in failure.message


def test_a_newer_record_need_not_have_our_fields() -> None:
    assert "version 2" in unreadable(b'{"version":2,"record":["whatever"]}').message


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where there is something in a document, however deep."""
    found = [path] if path else []
    if isinstance(document, dict):
        for name, value in document.items():
            found += places(value, (*path, name))
    return found


DOCUMENT = json.loads(ENCODED)
OPTIONAL = {("record", "phase", "stop", name) for name in ("exit", "failure", "stack")} | {
    ("record", "limits", name) for name in UNLIMITED.__struct_fields__
}
OPTIONAL |= {("record", "phase", "before", name) for name in ("child", "enforced")} | {
    ("record", "phase", "before", "work", name) for name in ("argument", "directory")
}


@pytest.mark.parametrize("path", places(DOCUMENT), ids=".".join)
@pytest.mark.parametrize("wrong", [None, [0], {"a": 0}, True, float(2**80)], ids=repr)
def test_a_value_of_another_type_is_unreadable(path: tuple[str, ...], wrong: object) -> None:
    document = json.loads(ENCODED)
    *parents, name = path
    holder = document
    for parent in parents:
        holder = holder[parent]
    holder[name] = wrong
    encoded = json.dumps(document).encode()
    allowed = (wrong is None and path in OPTIONAL) or (
        isinstance(wrong, float)
        and path
        in {
            ("record", "lease"),
            ("record", "opened_at"),
            ("record", "limits", "cpu_time"),
            ("record", "phase", "before", "launch", "by"),
        }
    )
    if allowed:
        assert isinstance(decode(encoded, name="record"), SessionRecord)
    else:
        unreadable(encoded)


@pytest.mark.parametrize(
    "path",
    [
        ("record", "handle"),
        ("record", "handle", "key", "identity"),
        ("record", "phase"),
        ("record", "phase", "type"),
        ("record", "phase", "stop"),
        ("record", "phase", "before", "work", "specifier"),
        ("record", "lease"),
        ("version",),
        ("record",),
    ],
    ids=".".join,
)
def test_a_record_without_what_it_needs_is_unreadable(path: tuple[str, ...]) -> None:
    document = json.loads(ENCODED)
    *parents, name = path
    holder = document
    for parent in parents:
        holder = holder[parent]
    del holder[name]
    unreadable(json.dumps(document).encode())


def test_a_value_that_the_model_refuses_is_unreadable() -> None:
    for good, bad in ((b'"kernel"', b'""'), (b'"worker:main"', b'"worker"')):
        assert good in ENCODED
        failure = unreadable(ENCODED.replace(good, bad))
        assert failure.detail


def test_a_field_that_is_not_known_is_damage() -> None:
    limited = msgspec.structs.replace(RECORD, limits=Limits(memory=5))
    damaged = encode(limited).replace(b'"memory"', b'"nemory"')
    assert "nemory" in (unreadable(damaged).detail or "")


@pytest.mark.parametrize(
    "encoded",
    [
        b"[" * 60_000,
        b'{"version":1,"record":' + b"[" * 60_000,
        b'{"version":1,"record":{"' + b"\xff" * 10 + b'":1}}',
        b'{"version":1,"record":{"request":"\\ud800"}}',
        ENCODED + b"x",
        b"",
    ],
)
def test_a_hostile_record_is_unreadable(encoded: bytes) -> None:
    unreadable(encoded)


def test_a_record_larger_than_the_bound_is_unreadable_and_refused() -> None:
    assert "bytes" in unreadable(ENCODED + b" " * MAX_RECORD_BYTES).message
    large = msgspec.structs.replace(RECORD, request="x" * MAX_RECORD_BYTES)
    with pytest.raises(RecordRefused, match=f"{MAX_RECORD_BYTES} are allowed"):
        encode(large)


@given(handles)
def test_the_record_of_another_session_is_unreadable(other: Handle) -> None:
    mine = RECORD.handle
    same = (other.key, other.generation) == (mine.key, mine.generation)
    if not same:
        assert "another session" in unreadable(ENCODED, handle=other).message
    for another in (Handle(mine.key, 4, mine.token), Handle(Key("kernel"), 3, mine.token)):
        unreadable(ENCODED, handle=another)
    assert decode(ENCODED, name="record", handle=Handle(mine.key, 3, "another token")) == RECORD


@pytest.mark.parametrize(
    "change",
    [
        {"lease": float("inf")},
        {"opened_at": float("nan")},
        {"request": "\ud800"},
        {"request": 5},
        {"limits": None},
        {"phase": Open},
        {"phase": Limits()},
    ],
    ids=str,
)
def test_what_could_not_be_read_is_refused_when_it_is_written(change: dict[str, Any]) -> None:
    with pytest.raises(RecordRefused, match="kernel"):
        encode(msgspec.structs.replace(RECORD, **change))
