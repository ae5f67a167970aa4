"""What a film server does with whoever connects to it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncGenerator, Callable
from fractions import Fraction

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from examples.film_server.film import RATE, Film
from examples.film_server.options import FilmServerOptions
from examples.film_server.server import FilmServer
from trio_reactor.renewal.websocket.address import Address
from trio_reactor.renewal.websocket.handshake import connect
from trio_reactor.renewal.websocket.link import Disconnected, Link, LinkOptions
from trio_reactor.renewal.websocket.wire import (
    MAX_REQUEST_BYTES,
    VERSION,
    Command,
    Done,
    Enqueue,
    FromServer,
    GetState,
    Happened,
    Hello,
    Losses,
    MediaOpened,
    OpenMedia,
    Picture,
    Refusal,
    Reply,
    Request,
    SetAutoplay,
    Terminate,
    Terminated,
    Welcome,
    decode_from_server,
    encode,
    encode_payload,
)

PATIENCE = 20.0


def film(width: int = 16, height: int = 16, rate: int = 100) -> Film:
    pictures = tuple(bytes([number]) * (width * height * 3 // 2) for number in range(100))
    return Film(width, height, Fraction(rate), pictures, bytes(RATE * 4))


async def serving(
    nursery: trio.Nursery, shown: Film | None = None, **terms: object
) -> tuple[FilmServer, int]:
    options = FilmServerOptions.model_validate({"build_time": 0.0, **terms})
    server = FilmServer(shown or film(), options)
    return server, await nursery.start(server.serve)


@contextlib.asynccontextmanager
async def linked(port: int) -> AsyncGenerator[Link]:
    options = LinkOptions(heartbeat=None)
    with trio.fail_after(PATIENCE):
        async with connect(Address("127.0.0.1", port, "/", False), options=options) as link:
            yield link


async def hear(link: Link) -> FromServer:
    return decode_from_server(await link.receive())


async def greeted(link: Link, resume: str | None = None) -> Welcome:
    await link.send(encode(Hello(VERSION, None, resume), bound=MAX_REQUEST_BYTES))
    welcome = await hear(link)
    assert isinstance(welcome, Welcome)
    return welcome


async def ask(link: Link, number: int, command: Command) -> None:
    await link.send(encode(Request(number, command), bound=MAX_REQUEST_BYTES))


async def ended(link: Link) -> int | None:
    """The code with which the server closes; what it says before is skipped."""
    with pytest.raises(Disconnected) as end:
        while True:
            await link.receive()
    return end.value.code


async def until(fact: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE):
        while not fact():
            await wait_all_tasks_blocked(0.005)


def due_frames(server: FilmServer, session: str) -> int:
    told = server.session_statistics(session)
    assert told is not None
    return told.due_frames


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\nhi",
        b"\x16\x03\x01garbage\r\n\r\n",
        b"",
    ],
)
async def test_who_speaks_no_websocket_is_sent_away(nursery: trio.Nursery, said: bytes) -> None:
    server, port = await serving(nursery, hello_timeout=0.2)
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with trio.fail_after(PATIENCE):
            await stream.send_all(said or b"\r\n")
            answer = b""
            while part := await stream.receive_some():
                answer += part
    assert answer == b"" or b" 400 " in answer.partition(b"\r\n")[0] + b" "
    async with linked(port) as link:
        await greeted(link)  # and the others are served
    assert server.statistics().opened == 1


@pytest.mark.parametrize(
    "said",
    [
        b"no MessagePack",
        encode(Request(1, GetState()), bound=MAX_REQUEST_BYTES),
        bytes(MAX_REQUEST_BYTES + 1),
    ],
)
async def test_who_does_not_greet_is_sent_away(nursery: trio.Nursery, said: bytes) -> None:
    server, port = await serving(nursery)
    async with linked(port) as link:
        await link.send(said)
        assert await ended(link) in {1002, 1009}
    assert server.statistics().opened == 0


async def test_who_says_nothing_is_sent_away(nursery: trio.Nursery) -> None:
    _, port = await serving(nursery, hello_timeout=0.1)
    async with linked(port) as link:
        assert await ended(link) is None


@pytest.mark.parametrize(
    "said",
    [
        b"\xc1",
        encode(Hello(VERSION), bound=MAX_REQUEST_BYTES),
        bytes(MAX_REQUEST_BYTES + 1),
    ],
)
async def test_who_breaks_the_protocol_loses_the_socket_and_not_the_session(
    nursery: trio.Nursery, said: bytes
) -> None:
    _, port = await serving(nursery)
    async with linked(port) as link:
        welcome = await greeted(link)
        await link.send(said)
        assert await ended(link) in {1002, 1009}
    async with linked(port) as link:
        again = await greeted(link, welcome.resume)
        assert again.session == welcome.session


async def test_a_socket_closed_by_its_client_ends_the_session(nursery: trio.Nursery) -> None:
    _, port = await serving(nursery)
    async with linked(port) as link:
        welcome = await greeted(link)
        assert await link.close(1000, "no longer wanted")
    async with linked(port) as link:
        await link.send(encode(Hello(VERSION, None, welcome.resume), bound=MAX_REQUEST_BYTES))
        assert await hear(link) == Refusal("no-such-session", "the session is over or never was")


async def test_a_second_socket_takes_the_session_over(nursery: trio.Nursery) -> None:
    _, port = await serving(nursery)
    async with linked(port) as first, linked(port) as second:
        welcome = await greeted(first)
        await greeted(second, welcome.resume)
        assert await ended(first) == 4003
        await ask(second, 1, Terminate())
        assert await hear(second) == Reply(1, Terminated())
        assert await ended(second) == 1000


async def test_sockets_are_bounded(nursery: trio.Nursery) -> None:
    server, port = await serving(nursery, max_connections=1)
    async with linked(port) as link:
        await greeted(link)
        async with await trio.open_tcp_stream("127.0.0.1", port) as another:
            assert await another.receive_some() == b""
    assert server.statistics().opened == 1


async def test_a_slow_reader_gets_every_event_and_an_exact_account_of_its_losses(
    nursery: trio.Nursery,
) -> None:
    large = film(640, 360, 200)
    server, port = await serving(nursery, large, max_outgoing_frames=4, max_scene_bytes=1 << 30)
    async with linked(port) as link:
        welcome = await greeted(link)
        await ask(link, 1, OpenMedia())
        payload = encode_payload({"scene": {"start": 0, "frames": 100}})
        await ask(link, 2, Enqueue(payload))
        await ask(link, 3, SetAutoplay(True))
        await until(lambda: due_frames(server, welcome.session) == 100)  # nothing is read meanwhile
        pictures: list[int] = []
        losses = Losses(1, 0, 0)
        said: list[FromServer] = []
        while "ClipEnded" not in repr(said[-1:]):
            match await hear(link):
                case Picture(index=index):
                    pictures.append(index)
                case Losses() as losses:
                    pass
                case Reply() | Happened() as other:
                    said.append(other)
                case _:
                    pass
        assert losses.frames > 0
        assert len(pictures) + losses.frames == 100
        assert pictures == sorted(pictures)
        assert [each.result for each in said if isinstance(each, Reply)][::2] == [
            MediaOpened(1, 200.0, 0, 0),
            Done(),
        ]


async def test_a_reader_that_stopped_reading_does_not_keep_its_session_alive(
    nursery: trio.Nursery,
) -> None:
    server, port = await serving(
        nursery, film(640, 360, 200), lifetime=0.5, close_timeout=0.2, max_scene_bytes=1 << 30
    )
    async with linked(port) as link:
        await greeted(link)
        await ask(link, 1, OpenMedia())
        await ask(link, 2, Enqueue(encode_payload({"scene": {"start": 0, "frames": 1000}})))
        await ask(link, 3, SetAutoplay(True))
        await until(lambda: not server.statistics().sessions)  # nothing is read meanwhile
        await until(lambda: not server.statistics().connections)


async def test_what_goes_wrong_by_chance_goes_wrong_again_with_the_same_seed(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    sleep = trio.sleep

    async def noting(seconds: float) -> None:
        if 0 < seconds < 1e6:
            waits.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr("examples.film_server.server.trio.sleep", noting)
    for _ in range(2):
        _, port = await serving(nursery, faults={"seed": 7, "drop_rate": 50.0, "drop_limit": 3})
        for _ in range(3):
            async with linked(port) as link:
                await greeted(link)
                assert await ended(link) is None  # without a close frame
    drops = [seconds for seconds in waits if seconds < 1]
    assert len(drops) == 6
    assert drops[:3] == drops[3:]


async def test_no_more_sockets_are_dropped_than_were_to_be(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    after, times_up = 0.0517, 0
    sleep = trio.sleep

    async def noting(seconds: float) -> None:
        nonlocal times_up
        await sleep(seconds)
        times_up += seconds == after

    monkeypatch.setattr("examples.film_server.server.trio.sleep", noting)
    server, port = await serving(nursery, faults={"drop_after": after, "drop_limit": 1})
    async with linked(port) as link:
        await greeted(link)
        assert await ended(link) is None
    async with linked(port) as link:
        await greeted(link)
        await until(lambda: times_up == 2)
        await ask(link, 1, SetAutoplay(True))
        assert await hear(link) == Reply(1, Done())
    assert server.statistics().sockets_dropped == 1


async def test_a_port_that_is_taken_is_an_error(nursery: trio.Nursery) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = FilmServer(film(), FilmServerOptions())
        with pytest.raises(OSError, match="in use"):
            await server.serve(taken.getsockname()[1])
