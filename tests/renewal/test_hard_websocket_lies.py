"""A server that lies about which session it gave, and urls that could never be asked for."""

from __future__ import annotations

import base64
import hashlib

import pytest
import trio
from websocket_story import PATIENCE, Peer, listening, next_request, opened, say, speaking, welcome

from trio_reactor.errors import Lost
from trio_reactor.renewal.source import OpenFailed
from trio_reactor.renewal.websocket import websocket_source
from trio_reactor.renewal.websocket.link import Link
from trio_reactor.renewal.websocket.wire import (
    VERSION,
    CloseCode,
    Reply,
    Terminate,
    Terminated,
    Welcome,
    decode_from_client,
)


async def swapping(link: Link, peer: Peer) -> None:
    """Give the session that was asked for first, and another one ever after."""
    if peer.connections == 1:
        await welcome(link)
        return
    decode_from_client(await link.receive())
    await say(link, Welcome(VERSION, "session-2", "resume-2", None, 5.0))
    request = await next_request(link, peer)
    assert isinstance(request.command, Terminate)
    await say(link, Reply(request.id, Terminated()))
    await link.close(CloseCode.DONE, "it is gone")


async def test_the_end_of_another_session_is_no_proof_of_the_end_of_this_one(
    nursery: trio.Nursery,
) -> None:
    streams: list[trio.SocketStream] = []
    peer = await speaking(nursery, swapping, streams)
    async with opened(peer.url) as source:
        await trio.aclose_forcefully(streams[0])
        await peer.ended.wait()
        cleanup = await source.close()
    assert cleanup.source == "session-1"
    assert not cleanup.complete
    assert cleanup.termination == "unconfirmed"
    assert "another session" in cleanup.failures[0].message


async def test_a_source_does_not_become_another_one_by_a_reconnect(nursery: trio.Nursery) -> None:
    streams: list[trio.SocketStream] = []
    peer = await speaking(nursery, swapping, streams)
    async with opened(peer.url) as source:
        await trio.aclose_forcefully(streams[0])
        with pytest.raises(Lost, match="another session") as lost:
            await source.reconnect()
        assert not lost.value.retryable
        with pytest.raises(Lost):
            await source.state()
        assert not peer.requests


@pytest.mark.parametrize(
    "url",
    [
        "ws://127.0.0.1/é",
        "ws://127.0.0.1/?q=é",
        "ws://127.0.0.1/a b",
        "ws://127.0.0.1/\x7f",
        "ws://a..b/",
        f"ws://{'a' * 64}/",
        "ws://h st/",
        "ws://höst/",
    ],
)
def test_a_url_that_cannot_be_asked_for_is_refused_before_anything_is_opened(url: str) -> None:
    with pytest.raises(ValueError, match=r"^url: "):
        websocket_source(url)


@pytest.mark.parametrize("host", ["[::1]", "localhost", "xn--hst-sna.example", "LOCALHOST."])
def test_a_url_that_can_be_asked_for_is_not_refused(host: str) -> None:
    websocket_source(f"ws://{host}:80/a%20b?q=%C3%A9&r=~!*'();:@,/")


ACCEPTING = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: "
)


def accepted(request: bytes) -> bytes:
    (key,) = (
        line.partition(b":")[2].strip()
        for line in request.split(b"\r\n")
        if line.lower().startswith(b"sec-websocket-key:")
    )
    proof = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    return ACCEPTING + base64.b64encode(proof) + b"\r\n\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff",  # a frame of 2**64 - 1 bytes
        b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",  # one of 2**63 - 1
        b"\xc2\x01\x00",  # compressed, which was not agreed on
        b"\x80\x01\x00",  # the rest of a message that had not begun
        b"\x89\x7e\x00\x80" + bytes(128),  # a ping that is too long
        b"\x88\x01\x03",  # a close with half a code
        b"\x88\x02\x03\xed",  # a close with a code that must not be sent
        b"\x88\x04\x03\xe8\xff\xfe",  # a close whose reason is no text
        b"\x81\x02\xff\xfe",  # text that is no text
        b"\x82\x85\x00\x00\x00\x00hello",  # masked, as only a client may
        b"\x82\x00",  # an empty message
        b"\x82\x01\xc1",  # what is no MessagePack
        b"\x82\x05\xdd\xff\xff\xff\xff",  # an array of 2**32 - 1
        b"\x82\x7e\x04\x00" + b"\x91" * 1024,  # nested without end
        b"\x82\x7e\x04\x00" + b"\x91" * 1000,  # and then nothing: the stream ends
    ],
    ids=lambda said: said[:4].hex(),
)
async def test_whatever_bytes_follow_the_handshake_opening_fails_as_expected_and_promptly(
    nursery: trio.Nursery, said: bytes
) -> None:
    async def lie(stream: trio.SocketStream, _: Peer) -> None:
        heard = bytearray()
        while b"\r\n\r\n" not in heard:
            heard += await stream.receive_some()
        await stream.send_all(accepted(bytes(heard)) + said)
        await stream.send_eof()

    peer = await listening(nursery, lie)
    with trio.fail_after(PATIENCE), pytest.raises(OpenFailed) as failed:
        async with opened(peer.url, close_timeout=0.2):
            pytest.fail("it opened")
    assert failed.value.cleanup is not None
    assert not failed.value.cleanup.complete, "the server may have allocated something"
    await peer.ended.wait()
