"""Records as bytes: versioned, and validated when they are read.

What a record is made of refuses fields that it does not know: a name that was damaged would else be
a limit, or a child, that is not there.  So a record with another field is of another version.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trio_reactor.supervision.errors import RecordRefused, RecordUnreadable

from .keys import Handle
from .records import SessionRecord, Stopped, Stopping

__all__ = ["MAX_RECORD_BYTES", "VERSION", "decode", "encode"]

VERSION: Final = 1
"""The version of the records that are written; older ones are read."""

MAX_RECORD_BYTES: Final = 65_536
"""The most bytes of one record."""

ROOM_FOR_THE_STOP: Final = 2_048
"""How many of them a live session's record leaves, so that its stop can always be written down."""


class _Written(msgspec.Struct, frozen=True):
    version: int
    record: msgspec.Raw


class _Versioned(msgspec.Struct, frozen=True):
    version: int
    record: SessionRecord


_encode = msgspec.json.Encoder().encode
_decode_version = msgspec.json.Decoder(_Written).decode
_decode_versioned = msgspec.json.Decoder(_Versioned).decode
_decode_record = msgspec.json.Decoder(SessionRecord).decode


def encode(record: SessionRecord) -> bytes:
    """The record as JSON, with its version.

    What is returned was read back: a record that nobody could read would keep the next supervisor
    from starting.

    Raises:
        RecordRefused: It cannot be encoded, does not come back equal, or is too large.
    """
    try:
        encoded = _encode(_Versioned(VERSION, record))
    except (TypeError, ValueError, OverflowError, RecursionError) as failure:
        raise RecordRefused(
            f"the record of {record.handle} cannot be encoded", detail=str(failure)
        ) from failure
    allowed = MAX_RECORD_BYTES
    if not isinstance(record.phase, Stopping | Stopped):
        allowed -= ROOM_FOR_THE_STOP
    if len(encoded) > allowed:
        raise RecordRefused(
            f"the record of {record.handle} has {len(encoded)} bytes; {allowed} are allowed"
        )
    if _read_back(encoded) != record:
        raise RecordRefused(f"the record of {record.handle} does not come back as it was")
    return encoded


def _read_back(encoded: bytes) -> SessionRecord | None:
    try:
        return _decode_versioned(encoded).record
    except msgspec.DecodeError:
        return None


def decode(encoded: bytes, *, name: str, handle: Handle | None = None) -> SessionRecord:
    """The record that was encoded.

    Args:
        encoded: The bytes.
        name: What it is called in messages: where it was found.
        handle: Whose it has to be, if that is known; its token is not looked at.

    Raises:
        RecordUnreadable: It is damaged, or of a version that this library does not read.
    """
    if len(encoded) > MAX_RECORD_BYTES:
        raise RecordUnreadable(
            f"{name} has {len(encoded)} bytes; {MAX_RECORD_BYTES} are allowed", name=name
        )
    try:
        written = _decode_version(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        raise RecordUnreadable(f"{name} is damaged", name=name, detail=str(failure)) from failure
    if written.version != VERSION:
        raise RecordUnreadable(
            f"{name} has version {written.version}; this library reads {VERSION}", name=name
        )
    try:
        record = _decode_record(written.record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        raise RecordUnreadable(f"{name} is damaged", name=name, detail=str(failure)) from failure
    found = record.handle
    if handle is not None and (found.key, found.generation) != (handle.key, handle.generation):
        raise RecordUnreadable(f"{name} is the record of another session", name=name)
    return record
