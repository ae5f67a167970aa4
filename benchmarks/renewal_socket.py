"""A submission over a real socket: what routing, a sequence and a chain add to a request.

Both sides speak the same protocol to the same server in this process, which answers at once.  The
subject is a submission through `open_renewal`: copied, routed, sent by a task of its own, a member
of a sequence, with a timeout and a known outcome.  The baseline is a bare request on a bare link:
numbered, sent, and its reply matched by a reader task.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import trio

from trio_reactor.renewal import ClipRequest, RenewalOptions, SequenceMember, open_renewal
from trio_reactor.renewal.source import Json, OpenFailed, SourceState
from trio_reactor.renewal.websocket import websocket_source
from trio_reactor.renewal.websocket.address import Address
from trio_reactor.renewal.websocket.handshake import accept, connect
from trio_reactor.renewal.websocket.link import Disconnected, Link, LinkOptions
from trio_reactor.renewal.websocket.wire import (
    MAX_MESSAGE_BYTES,
    MAX_REQUEST_BYTES,
    VERSION,
    CloseCode,
    Command,
    Done,
    Enqueue,
    GetState,
    Hello,
    MediaOpened,
    OpenMedia,
    Queued,
    Reply,
    Request,
    Result,
    Snapshot,
    Terminate,
    Terminated,
    Welcome,
    decode_from_client,
    decode_from_server,
    encode,
    encode_payload,
)

from .harness import Benchmark

__all__ = ["BENCHMARKS"]

TURNS = 400
MEMBERS = 100
"""Of a sequence, before the next one begins."""

_PAYLOAD: dict[str, Json] = {"scene": {"start": 0, "frames": 25}}
_LINK = LinkOptions(max_message_bytes=MAX_MESSAGE_BYTES)


class _Server:
    """Says yes to everything, at once."""

    def __init__(self) -> None:
        self._clips = itertools.count(1)

    async def serve(self, stream: trio.SocketStream) -> None:
        with contextlib.suppress(Disconnected, OpenFailed):
            async with accept(stream, name="a client", options=_LINK) as link:
                await self._converse(link)

    async def _converse(self, link: Link) -> None:
        while True:
            match decode_from_client(await link.receive()):
                case Hello():
                    welcome = Welcome(VERSION, "session", "resume", None, 5.0)
                    await link.send(encode(welcome, bound=MAX_MESSAGE_BYTES))
                case Request(id=number, command=command):
                    reply = Reply(number, self._result(command))
                    await link.send(encode(reply, bound=MAX_MESSAGE_BYTES))
                    if isinstance(command, Terminate):
                        await link.close(CloseCode.DONE, "terminated")
                        return

    def _result(self, command: Command) -> Result:
        match command:
            case Enqueue():
                return Queued(f"clip-{next(self._clips)}")
            case GetState():
                return Snapshot(SourceState())
            case OpenMedia():
                return MediaOpened(1, None, 0, 0)
            case Terminate():
                return Terminated()
            case _:
                return Done()


@contextlib.asynccontextmanager
async def _serving() -> AsyncGenerator[str]:
    """A server in this process; gives its url."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, _Server().serve, listeners)
        yield f"ws://127.0.0.1:{port}/"
        nursery.cancel_scope.cancel()


async def _timed(turn: Callable[[int], Awaitable[object]]) -> float:
    """Microseconds a turn."""
    for number in range(TURNS // 10):
        await turn(number)
    began = time.perf_counter()
    for number in range(TURNS // 10, TURNS // 10 + TURNS):
        await turn(number)
    return (time.perf_counter() - began) / TURNS * 1e6


async def _submitted() -> float:
    """Submissions through a renewal, each routed and a member of a sequence."""
    request = ClipRequest(_PAYLOAD)
    async with (
        _serving() as url,
        open_renewal(websocket_source(url), options=RenewalOptions(lead=0.0)) as renewal,
    ):

        async def turn(number: int) -> None:
            last = number % MEMBERS == MEMBERS - 1
            member = SequenceMember(f"sequence-{number // MEMBERS}", final=last)
            await renewal.enqueue(request, sequence=member)

        return await _timed(turn)


async def _bare() -> float:
    """Requests on a link, whose replies a reader task matches by number."""
    waiting: dict[int, trio.Event] = {}
    replies: dict[int, Result] = {}
    numbers = itertools.count(1)

    async def read(link: Link) -> None:
        while True:
            message = decode_from_server(await link.receive())
            if isinstance(message, Reply):
                replies[message.id] = message.result
                waiting.pop(message.id).set()

    async with (
        _serving() as url,
        connect(Address.parse(url), options=_LINK) as link,
        trio.open_nursery() as nursery,
    ):
        await link.send(encode(Hello(VERSION), bound=MAX_REQUEST_BYTES))
        decode_from_server(await link.receive())
        nursery.start_soon(read, link)

        async def turn(_: int) -> Result:
            number = next(numbers)
            answered = waiting[number] = trio.Event()
            command = Enqueue(encode_payload(_PAYLOAD))
            await link.send(encode(Request(number, command), bound=MAX_REQUEST_BYTES))
            await answered.wait()
            return replies.pop(number)

        microseconds = await _timed(turn)
        nursery.cancel_scope.cancel()
    return microseconds


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark(
        "renewal_submit_vs_websocket_roundtrip",
        "us/op",
        lambda: trio.run(_submitted),
        lambda: trio.run(_bare),
        at_most=1.5,
        rounds=15,
    ),
)
