"""Opening a session of a server that is not there, says no, or is something else."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import msgspec
import pytest
import trio
from websocket_story import PATIENCE, Peer, listening, opened, say, serving, speaking, welcome

from trio_reactor.errors import is_expected
from trio_reactor.renewal.source import OpenFailed, Predecessor
from trio_reactor.renewal.websocket import WebSocketOptions, websocket_source
from trio_reactor.renewal.websocket.handshake import MAX_HANDSHAKE_BYTES
from trio_reactor.renewal.websocket.link import Link
from trio_reactor.renewal.websocket.wire import VERSION, Denied, Welcome


async def failing(url: str, **options: object) -> OpenFailed:
    """The failure of an opening, which is one exception and names the server without its query."""
    with pytest.raises(OpenFailed) as failed:
        async with opened(url, **options):
            pytest.fail("it opened")
    failure = failed.value
    assert url.partition("?")[0] in failure.message
    assert "secret" not in failure.message
    assert is_expected(failure)
    assert failure.cleanup is not None
    return failure


def allocated_nothing(failure: OpenFailed) -> bool:
    return failure.cleanup is not None and failure.cleanup.complete


async def test_a_server_that_is_not_there_can_be_tried_again() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    failure = await failing(f"ws://127.0.0.1:{port}/film?key=secret")
    assert failure.message.endswith("cannot be reached")
    assert (failure.permanent, failure.retryable) == (False, True)
    assert failure.outcome == "not-submitted"
    assert allocated_nothing(failure)
    assert isinstance(failure.__cause__, OSError)


@pytest.mark.parametrize(
    ("reply", "what", "permanent"),
    [
        (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", "with HTTP status 404", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "with HTTP status 200", True),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "with HTTP status 503", False),
        (b"HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n", "with HTTP status 429", False),
        (b"220 mail.example ESMTP\r\n\r\n", "does not speak WebSocket", True),
        (b"\x00\x01\x02garbage\xff\r\n\r\n", "does not speak WebSocket", True),
        (
            b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            "does not speak WebSocket",
            True,
        ),
    ],
)
async def test_a_server_that_speaks_something_else_is_told_apart(
    nursery: trio.Nursery, reply: bytes, what: str, permanent: bool
) -> None:
    async def answer(stream: trio.SocketStream, _: Peer) -> None:
        await stream.receive_some()
        await stream.send_all(reply)

    peer = await listening(nursery, answer)
    failure = await failing(peer.url)
    assert failure.message.endswith(what)
    assert (failure.permanent, failure.retryable) == (permanent, not permanent)
    assert allocated_nothing(failure)
    await peer.ended.wait()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.0 200 OK\r\n\r\nhello"])
async def test_a_server_that_goes_in_the_handshake_is_noticed_at_once(
    nursery: trio.Nursery, said: bytes
) -> None:
    async def go(stream: trio.SocketStream, _: Peer) -> None:
        await stream.receive_some()
        await stream.send_all(said)
        await stream.aclose()

    peer = await listening(nursery, go)
    failure = await failing(peer.url, open_timeout=1000.0)
    assert failure.message.endswith("closed the connection in the opening handshake")
    assert (failure.permanent, failure.retryable) == (False, True)
    assert allocated_nothing(failure)


async def test_a_server_that_talks_without_end_is_cut_off(nursery: trio.Nursery) -> None:
    async def talk(stream: trio.SocketStream, _: Peer) -> None:
        await stream.send_all(b"HTTP/1.1 404 No\r\nContent-Length: 999999999999\r\n\r\n")
        while True:
            await stream.send_all(bytes(8192))

    peer = await listening(nursery, talk)
    failure = await failing(peer.url, open_timeout=1000.0)
    assert f"said more than {MAX_HANDSHAKE_BYTES} bytes" in failure.message
    assert (failure.permanent, failure.retryable) == (True, False)
    await peer.ended.wait()


async def test_a_server_that_says_nothing_costs_no_more_than_the_timeout(
    nursery: trio.Nursery,
) -> None:
    async def hang(_: trio.SocketStream, __: Peer) -> None:
        pass

    peer = await listening(nursery, hang)
    failure = await failing(peer.url, open_timeout=0.1)
    assert failure.message.endswith("gave no session within 0.1 s")
    assert failure.outcome == "not-submitted"
    assert failure.retryable
    assert allocated_nothing(failure)
    await peer.ended.wait()


async def test_a_server_that_does_not_greet_may_have_opened_a_session(
    nursery: trio.Nursery,
) -> None:
    async def listen(link: Link, _: Peer) -> None:
        await link.receive()

    peer = await speaking(nursery, listen)
    failure = await failing(peer.url, open_timeout=0.1)
    assert failure.message.endswith("gave no session within 0.1 s")
    assert failure.outcome == "unknown"
    assert not failure.retryable
    assert not allocated_nothing(failure)
    await peer.ended.wait()


GREETINGS: dict[str, bytes | str] = {
    "text": "hello",
    "an empty message": b"",
    "no MessagePack": b"\xc1",
    "another protocol": msgspec.msgpack.encode({"jsonrpc": "2.0"}),
    "a truncated message": msgspec.msgpack.encode(Welcome(VERSION, "s", "r", None, 1.0))[:-2],
    "another message": msgspec.msgpack.encode(Denied(1, "full")),
    "a grace that is none": msgspec.msgpack.encode(Welcome(VERSION, "s", "r", None, float("nan"))),
    "a message over its bound": bytes(4096),
}


@pytest.mark.parametrize("greeting", GREETINGS.values(), ids=GREETINGS.keys())
async def test_a_websocket_that_speaks_another_protocol_is_not_tried_again(
    nursery: trio.Nursery, greeting: bytes | str
) -> None:
    async def greet(link: Link, _: Peer) -> None:
        await link.receive()
        await link._connection.send_message(greeting)

    peer = await speaking(nursery, greet)
    failure = await failing(peer.url, max_message_bytes=1024)
    assert failure.permanent
    assert not failure.retryable
    await peer.ended.wait()


async def test_a_message_over_its_bound_is_named(nursery: trio.Nursery) -> None:
    async def greet(link: Link, _: Peer) -> None:
        await link.receive()
        await link.send(bytes(4096))

    peer = await speaking(nursery, greet)
    failure = await failing(peer.url, max_message_bytes=1024)
    assert "a message was over its bound, which is 1024 bytes here" in failure.message


async def test_a_server_of_another_version_is_not_tried_again(nursery: trio.Nursery) -> None:
    async def greet(link: Link, _: Peer) -> None:
        await link.receive()
        await say(link, Welcome(VERSION + 1, "session-1", "resume-1", None, 5.0))

    peer = await speaking(nursery, greet)
    failure = await failing(peer.url)
    assert failure.message.endswith(f"speaks version {VERSION + 1} of the protocol, not {VERSION}")
    assert failure.permanent


async def test_a_client_of_another_version_is_told_so(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = await serving(nursery)
    monkeypatch.setattr("trio_reactor.renewal.websocket.session.VERSION", VERSION + 1)
    failure = await failing(url)
    assert failure.message.endswith("refused a session: version")
    assert failure.detail == f"version {VERSION} is spoken here"
    assert failure.permanent
    assert allocated_nothing(failure)


@pytest.mark.parametrize("token", [None, "wrong"])
async def test_a_client_without_the_token_is_not_admitted(
    nursery: trio.Nursery, token: str | None
) -> None:
    _, url = await serving(nursery, token="right")
    failure = await failing(url, token=token)
    assert failure.message.endswith("refused a session: not-authorised")
    assert failure.permanent
    async with opened(url, token="right") as source:
        assert source.id.startswith("film-")


async def test_a_refused_session_can_be_asked_for_again(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery, max_sessions=1, faults={"refuse_opens": 1})
    failure = await failing(url)
    assert failure.message.endswith("refused a session: unavailable")
    assert (failure.permanent, failure.retryable, failure.outcome) == (False, True, "replied")
    assert allocated_nothing(failure)
    async with opened(url):
        failure = await failing(url)
        assert failure.message.endswith("refused a session: full")
        assert failure.retryable
    async with opened(url):
        pass


async def test_a_slow_server_opens_in_its_time_or_not_at_all(nursery: trio.Nursery) -> None:
    server, url = await serving(nursery, faults={"slow_open": 0.2})
    async with opened(url, open_timeout=5.0):
        pass
    await failing(url, open_timeout=0.05)
    assert server.statistics().sessions == ()


@pytest.mark.parametrize("half", [b"", b"\x82\x7f\x00\x00\x00\x00\x00\x10", b"\x82\x20half"])
async def test_a_connection_that_breaks_before_the_greeting_leaves_the_session_unknown(
    nursery: trio.Nursery, half: bytes
) -> None:
    streams: list[trio.SocketStream] = []

    async def greet(link: Link, _: Peer) -> None:
        await link.receive()
        await streams[0].send_all(half)
        await streams[0].aclose()

    peer = await speaking(nursery, greet, streams)
    failure = await failing(peer.url, open_timeout=1000.0)
    assert "went without closing the WebSocket" in failure.message
    assert (failure.permanent, failure.outcome) == (False, "unknown")
    assert not allocated_nothing(failure)


async def test_a_server_that_is_going_away_leaves_nothing_behind(nursery: trio.Nursery) -> None:
    async def greet(link: Link, _: Peer) -> None:
        await link.receive()
        await link.close(1001, "the service is being restarted")

    peer = await speaking(nursery, greet)
    failure = await failing(peer.url)
    assert failure.detail == "the service is being restarted"
    assert (failure.permanent, failure.retryable, failure.outcome) == (False, True, "replied")
    assert allocated_nothing(failure)


async def test_a_frame_that_breaks_the_protocol_is_told_apart(nursery: trio.Nursery) -> None:
    streams: list[trio.SocketStream] = []

    async def greet(link: Link, _: Peer) -> None:
        await link.receive()
        await streams[0].send_all(b"\x8f\x00")  # an opcode that there is not

    peer = await speaking(nursery, greet, streams)
    failure = await failing(peer.url)
    assert "ended with code 1002" in failure.message
    assert failure.permanent
    await peer.ended.wait()


async def _hang(stream: trio.SocketStream, peer: Peer) -> None:
    await stream.receive_some()
    peer.heard.set()


async def _accept(link: Link, peer: Peer) -> None:
    await link.receive()
    peer.heard.set()


async def given_up(peer: Peer) -> None:
    """Open, and be cancelled once the server has heard what it does not answer."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                await peer.heard.wait()
                scope.cancel()

            nursery.start_soon(give_up)
            async with opened(peer.url):
                pytest.fail("it opened")
    assert scope.cancelled_caught
    with trio.fail_after(PATIENCE):
        await peer.ended.wait()


@pytest.mark.parametrize("where", ["in the handshake", "in the greeting"])
async def test_a_cancelled_opening_releases_what_it_had(nursery: trio.Nursery, where: str) -> None:
    peer = (
        await listening(nursery, _hang)
        if where == "in the handshake"
        else await speaking(nursery, _accept)
    )
    await given_up(peer)


async def test_a_session_that_is_given_up_while_it_opens_is_not_left_running(
    nursery: trio.Nursery,
) -> None:
    codes: list[int | None] = []

    async def greet(link: Link, peer: Peer) -> None:
        await link.receive()
        peer.heard.set()
        try:
            await link.receive()
        finally:
            codes.append(link._connection.closed and link._connection.closed.code)

    peer = await speaking(nursery, greet)
    await given_up(peer)
    assert codes == [1000]  # which ends a session that the server may have begun


@pytest.mark.parametrize(
    "url",
    ["http://host/", "host:80", "ws:///film", "ws://user:pw@host/", "ws://host/#top", "ws://h:x/"],
)
def test_a_url_that_is_no_websocket_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"url|[Pp]ort"):
        websocket_source(url)


@pytest.mark.parametrize("token", ["", "ä", "x" * 1025])
def test_a_token_that_cannot_be_sent_is_refused_at_once(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        websocket_source("ws://127.0.0.1/", token=token)


async def test_a_server_without_tls_is_told_apart(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery)
    failure = await failing(url.replace("ws://", "wss://"))
    assert failure.message.endswith("does not speak TLS")
    assert failure.permanent


async def test_a_server_that_goes_in_the_tls_handshake_can_be_tried_again(
    nursery: trio.Nursery,
) -> None:
    async def go(stream: trio.SocketStream, _: Peer) -> None:
        await stream.receive_some()
        await stream.aclose()

    peer = await listening(nursery, go)
    failure = await failing(peer.url.replace("ws://", "wss://"))
    assert failure.message.endswith("closed the connection in the TLS handshake")
    assert (failure.permanent, failure.retryable) == (False, True)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")
async def test_a_server_is_trusted_by_its_certificate(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    await trio.run_process(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", key, "-out", certificate, "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        capture_stderr=True,
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def greet(link: Link, _: Peer) -> None:
        await welcome(link)

    peer = await speaking(nursery, greet, tls=context)
    failure = await failing(peer.url)
    assert failure.message.endswith("is not trusted: its certificate does not hold")
    assert failure.permanent

    trusting = ssl.create_default_context(cafile=str(certificate))
    options = WebSocketOptions(terminate_timeout=0.05)
    opener = websocket_source(peer.url, ssl_context=trusting, options=options)
    async with opener(Predecessor()) as source:
        assert source.id == "session-1"
