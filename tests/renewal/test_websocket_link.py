"""A WebSocket that always ends, whatever its peer does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import pytest
import trio
import trio.lowlevel
from trio_websocket import WebSocketConnection
from websocket_story import PATIENCE, Peer, listening, speaking
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, Ping

from trio_reactor.renewal.websocket.address import Address
from trio_reactor.renewal.websocket.handshake import connect
from trio_reactor.renewal.websocket.link import Disconnected, Link, LinkOptions
from trio_reactor.renewal.websocket.session import WebSocketOptions
from trio_reactor.renewal.websocket.wire import CloseCode


@contextlib.asynccontextmanager
async def linked(url: str, **options: object) -> AsyncGenerator[Link]:
    bounds = LinkOptions.model_validate({"heartbeat": None, **options})
    with trio.fail_after(PATIENCE):
        async with connect(Address.parse(url), options=bounds) as link:
            yield link


async def keep_quiet(_: Link, __: Peer) -> None:
    await trio.sleep_forever()


async def test_messages_come_in_order_and_then_the_reason_of_the_end(
    nursery: trio.Nursery,
) -> None:
    async def talk(link: Link, _: Peer) -> None:
        for number in range(100):
            await link.send(bytes([number]) * 10_000)
        await link.close(CloseCode.LIFETIME_OVER, "that was all")

    peer = await speaking(nursery, talk)
    async with linked(peer.url) as link:
        assert [(await link.receive())[0] for _ in range(100)] == list(range(100))
        with pytest.raises(Disconnected, match="ended with code 4001") as failed:
            await link.receive()
        assert (failed.value.code, failed.value.detail) == (4001, "that was all")
        with pytest.raises(Disconnected):
            await link.send(b"too late", before=lambda: pytest.fail("it is not sent"))
        assert not link.open


async def test_a_cancelled_send_that_has_begun_is_finished(nursery: trio.Nursery) -> None:
    """Half a message would make everything after it unreadable."""
    begun, cancelled, over = trio.Event(), trio.Event(), trio.Event()
    got: list[int] = []

    async def listen(link: Link, _: Peer) -> None:
        await cancelled.wait()
        with pytest.raises(Disconnected, match="1000"):
            while True:
                got.append(len(await link.receive()))
        over.set()

    # Eight messages wait beside the peer's reader: what comes after stays in the sender's hands.
    peer = await speaking(nursery, listen)
    async with linked(peer.url) as link:

        async def send(scope: trio.CancelScope) -> None:
            with scope:
                while True:
                    await link.send(bytes(7_000_000), before=begun.set)

        scope = trio.CancelScope()
        async with trio.open_nursery() as sending:
            sending.start_soon(send, scope)
            await begun.wait()
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert link._sending.locked()  # in the middle of a message
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert link._sending.locked()
            cancelled.set()
        assert scope.cancelled_caught
        await link.send(b"and on")
        await link.close(CloseCode.DONE, "done")
    await over.wait()
    assert set(got[:-1]) == {7_000_000}
    assert got[-1] == 6


async def test_a_peer_that_takes_nothing_is_cut_off(nursery: trio.Nursery) -> None:
    async def hold(stream: trio.SocketStream, _: Peer) -> None:
        await _answer_handshake(stream)
        await trio.sleep_forever()  # and read nothing

    peer = await listening(nursery, hold)
    async with linked(peer.url, send_timeout=0.1) as link:
        with pytest.raises(Disconnected, match=r"did not take a message within 0\.1 s"):
            while True:
                await link.send(bytes(1_000_000))
        with pytest.raises(Disconnected, match="did not take a message"):
            await link.receive()


async def _answer_handshake(stream: trio.SocketStream) -> None:
    protocol = WSConnection(ConnectionType.SERVER)
    protocol.receive_data(await stream.receive_some())
    list(protocol.events())
    await stream.send_all(protocol.send(AcceptConnection()))


async def test_a_peer_that_went_silent_is_found_out(nursery: trio.Nursery) -> None:
    async def hold(stream: trio.SocketStream, _: Peer) -> None:
        await _answer_handshake(stream)
        await trio.sleep_forever()

    peer = await listening(nursery, hold)
    async with linked(peer.url, heartbeat=0.05) as link:
        with pytest.raises(Disconnected, match="was silent for"):
            await link.receive()


async def test_a_peer_that_has_nothing_to_say_is_kept(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    pings: list[bytes] = []

    handle = WebSocketConnection._handle_ping_event

    async def noting(connection: WebSocketConnection, event: Ping) -> None:
        pings.append(bytes(event.payload))
        await handle(connection, event)

    monkeypatch.setattr(WebSocketConnection, "_handle_ping_event", noting)
    peer = await speaking(nursery, keep_quiet)
    async with linked(peer.url, heartbeat=0.02) as link:
        with trio.fail_after(PATIENCE):
            while len(pings) < 3:
                await trio.lowlevel.checkpoint()
        assert link.open


async def test_leaving_closes_the_stream_whatever_the_peer_does(nursery: trio.Nursery) -> None:
    peer = await speaking(nursery, keep_quiet)
    async with linked(peer.url) as link:
        assert link.open
    peer.life.cancel()
    await peer.ended.wait()


async def test_closing_is_bounded_by_its_timeout(nursery: trio.Nursery) -> None:
    async def hold(stream: trio.SocketStream, _: Peer) -> None:
        await _answer_handshake(stream)
        await trio.sleep_forever()

    peer = await listening(nursery, hold)
    async with linked(peer.url, close_timeout=0.05) as link:
        assert await link.close(CloseCode.DONE, "done") is False
        with pytest.raises(Disconnected, match=r"did not close within 0\.05 s"):
            await link.receive()


async def test_both_sides_may_close_at_once(nursery: trio.Nursery) -> None:
    both = trio.Event()

    async def close(link: Link, _: Peer) -> None:
        await both.wait()
        await link.close(CloseCode.DONE, "from there")

    for _ in range(20):
        both = trio.Event()
        peer = await speaking(nursery, close)
        async with linked(peer.url) as link:
            both.set()
            assert await link.close(CloseCode.DONE, "from here")


async def test_a_message_over_the_bound_ends_the_link_even_if_the_peer_goes_on(
    nursery: trio.Nursery,
) -> None:
    async def flood(link: Link, _: Peer) -> None:
        with contextlib.suppress(Disconnected):
            while True:
                await link.send(bytes(100_000))
        await trio.sleep_forever()

    peer = await speaking(nursery, flood)
    async with linked(peer.url, max_message_bytes=99_999) as link:
        with pytest.raises(Disconnected, match="over its bound") as failed:
            await link.receive()
        assert failed.value.code == 1009


async def test_a_defect_of_the_protocol_library_is_not_taken_for_weather(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk(link: Link, _: Peer) -> None:
        await link.send(b"something")

    async def broken(_: WebSocketConnection, event: BytesMessage) -> None:
        raise ZeroDivisionError(f"a bug at {event}")

    monkeypatch.setattr(WebSocketConnection, "_handle_message_event", broken)
    peer = await speaking(nursery, talk)
    with pytest.raises(ZeroDivisionError):
        async with linked(peer.url) as link:
            await link.receive()


@pytest.mark.parametrize(
    ("url", "shown", "header", "resource"),
    [
        ("ws://host", "ws://host:80/", "host", "/"),
        ("wss://host:443/a?b=c", "wss://host:443/a", "host", "/a?b=c"),
        ("ws://[::1]:8000/x", "ws://[::1]:8000/x", "[::1]:8000", "/x"),
        ("WS://Host:81", "ws://host:81/", "host:81", "/"),
    ],
)
def test_an_address_is_named_without_its_query(
    url: str, shown: str, header: str, resource: str
) -> None:
    address = Address.parse(url)
    assert (str(address), address.host_header, address.resource) == (shown, header, resource)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("send_timeout", "10"),
        ("close_timeout", True),
        ("heartbeat", 0.0),
        ("max_message_bytes", 4096.0),
        ("open_timeout", float("nan")),
        ("reply_timeout", -1.0),
        ("max_pending", "64"),
        ("patience", 1.0),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"(?m)^{name}$"):
        WebSocketOptions.model_validate({name: value})
