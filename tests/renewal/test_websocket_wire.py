"""What the two sides say to each other: bounded, typed, and without a copy."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.renewal.source import Clip, ClipUpdated, SourceState
from trio_reactor.renewal.websocket.wire import (
    MAX_CONTROL_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_REQUEST_BYTES,
    VERSION,
    CloseMedia,
    Denied,
    Done,
    Enqueue,
    FromClient,
    FromServer,
    GetState,
    Happened,
    Hello,
    Losses,
    Malformed,
    MediaOpened,
    Move,
    OpenMedia,
    PauseAndStop,
    Picture,
    Queued,
    Refusal,
    Remove,
    Reply,
    Request,
    SetAutoplay,
    SetCanvas,
    Snapshot,
    Sound,
    Terminate,
    Terminated,
    TooLarge,
    Unencodable,
    Welcome,
    WireError,
    decode_from_client,
    decode_from_server,
    encode,
    encode_payload,
)


def picture(size: int = 86_400) -> Picture:
    return Picture(1, "clip-1", 0, 0.0, 320, 180, "yuv420p", memoryview(bytes(size)))


COMMANDS = [
    Remove("clip-1"),
    Move("clip-1", 2),
    SetAutoplay(True),
    PauseAndStop(),
    SetCanvas(320, 180),
    GetState(),
    OpenMedia(),
    CloseMedia(1),
    Terminate(),
]

FROM_CLIENT: list[FromClient] = [
    Hello(VERSION),
    Hello(VERSION, "token", "resume"),
    Hello(VERSION, None, None, "key", existing=True),
    *(Request(number, command) for number, command in enumerate(COMMANDS)),
]

FROM_SERVER: list[FromServer] = [
    Welcome(VERSION, "session", "resume", 4.0, 5.0),
    Welcome(VERSION, "session", "resume", None, 0.0),
    Refusal("full", "later"),
    Reply(1, Queued("clip-1")),
    Reply(2, Snapshot(SourceState((Clip("clip-1", "ready", 3),), True))),
    Reply(3, MediaOpened(1, 25.0, 10, 19200)),
    Reply(4, Done()),
    Reply(5, Terminated()),
    Denied(6, "on-air", "clip-1 is on air"),
    Happened(ClipUpdated(Clip("clip-1", "queued"))),
    Losses(1, 2, 3),
]


@pytest.mark.parametrize("message", FROM_CLIENT, ids=lambda message: type(message).__name__)
def test_what_a_client_says_is_what_a_server_hears(message: FromClient) -> None:
    assert decode_from_client(encode(message, bound=MAX_REQUEST_BYTES)) == message


@pytest.mark.parametrize("message", FROM_SERVER, ids=lambda message: type(message).__name__)
def test_what_a_server_says_is_what_a_client_hears(message: FromServer) -> None:
    assert decode_from_server(encode(message, bound=MAX_MESSAGE_BYTES)) == message


def test_the_payload_of_a_request_is_read_by_its_provider_only() -> None:
    payload = {"scene": {"start": 1, "frames": 25}, "note": [None, 1.5, "ä"]}
    asked = Request(1, Enqueue(encode_payload(payload), 3, "clip-1"))
    heard = decode_from_client(encode(asked, bound=MAX_REQUEST_BYTES))
    assert isinstance(heard, Request)
    assert isinstance(heard.command, Enqueue)
    assert msgspec.msgpack.decode(heard.command.payload) == payload


@pytest.mark.parametrize(
    "sent",
    [picture(), Sound(1, "clip-1", 0.0, 48_000, 2, 3840, "s16", memoryview(bytes(7680)))],
    ids=["picture", "sound"],
)
def test_received_media_is_a_view_on_the_received_message(sent: Picture | Sound) -> None:
    message = encode(sent, bound=MAX_MESSAGE_BYTES)
    heard = decode_from_server(message)
    assert isinstance(heard, (Picture, Sound))
    assert heard.data.obj is message
    assert heard.data == sent.data


def test_a_message_over_its_bound_is_not_encoded() -> None:
    with pytest.raises(TooLarge, match=r"over its bound of 1000$") as failed:
        encode(picture(1001), bound=1000)
    assert failed.value.outcome == "not-submitted"
    with pytest.raises(TooLarge, match="a payload of"):
        encode_payload({"text": "x" * MAX_REQUEST_BYTES})


def test_a_large_message_that_is_no_media_is_refused() -> None:
    clips = tuple(Clip("c" * 1000, "queued") for _ in range(300))
    message = encode(Reply(1, Snapshot(SourceState(clips))), bound=MAX_MESSAGE_BYTES)
    with pytest.raises(TooLarge, match=f"bound of {MAX_CONTROL_BYTES}"):
        decode_from_server(message)
    decode_from_server(encode(picture(MAX_CONTROL_BYTES), bound=MAX_MESSAGE_BYTES))


def _endless() -> list[object]:
    inside: list[object] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    "payload",
    [{"n": 2**70}, {"text": "\ud800"}, {"thing": object()}, {"deep": _endless()}],
    ids=["number too large", "no Unicode", "no value", "without end"],
)
def test_what_messagepack_cannot_hold_is_refused_before_it_is_sent(payload: object) -> None:
    with pytest.raises(Unencodable) as failed:
        encode_payload(payload)
    assert failed.value.outcome == "not-submitted"


def _raw(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


BROKEN = {
    "nothing": b"",
    "truncated": encode(picture(), bound=MAX_MESSAGE_BYTES)[:-1],
    "too much": _raw(Reply(1, Done())) + b"\xc0",
    "no MessagePack": b"\xc1\xc1",
    "another protocol": _raw({"jsonrpc": "2.0", "id": 1}),
    "another message": _raw({"type": "goodbye"}),
    "a wrong type": _raw({"type": "reply", "id": "one", "result": {"type": "done"}}),
    "a field missing": _raw({"type": "reply", "id": 1}),
    "a negative count": _raw({"type": "losses", "generation": 1, "frames": -1, "samples": 0}),
    "an identity too long": _raw(
        {"type": "reply", "id": 1, "result": {"type": "queued", "clip": "c" * 1025}}
    ),
    "an empty identity": _raw({"type": "reply", "id": 1, "result": {"type": "queued", "clip": ""}}),
    "no Unicode": b"\x82\xa4type\xa7refusal\xa4code\xa1\xff",
    "a length beyond its end": b"\x82\xa4type\xa7picture\xa4data\xc6\xff\xff\xff\xff",
    "a structure too deep": b"\x81\xa4junk" + b"\x91" * 60_000 + b"\xc0",
}


@pytest.mark.parametrize("message", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_message_is_told_apart(message: bytes) -> None:
    with pytest.raises(Malformed, match=f"a message of {len(message)} bytes") as failed:
        decode_from_server(message)
    assert failed.value.outcome == "replied"
    with pytest.raises(Malformed):
        decode_from_client(message)


@given(
    st.binary(max_size=64)
    | st.sampled_from(FROM_SERVER).flatmap(
        lambda message: st.tuples(
            st.just(encode(message, bound=MAX_MESSAGE_BYTES)), st.integers(0, 400), st.binary()
        ).map(lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + len(parts[2]) :])
    )
)
def test_whatever_comes_is_a_message_or_a_typed_error(message: bytes) -> None:
    for decode in (decode_from_client, decode_from_server):
        with contextlib.suppress(WireError):
            decode(message)
