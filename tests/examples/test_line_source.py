"""The source that plays: a renewal runs on it, and nonsense does not break it."""

from __future__ import annotations

import pytest
import trio

from examples.line_source.server import LineServer
from examples.line_source.source import LineSource, line_source
from trio_reactor.errors import Lost
from trio_reactor.renewal import (
    AllocationRecord,
    AudioFrame,
    ClipRequest,
    OpenFailed,
    Predecessor,
    RenewalOptions,
    VideoFrame,
    open_renewal,
)
from trio_reactor.renewal.events import HandedOver, Prepared


async def test_a_renewal_hands_over_from_one_session_to_the_next(nursery: trio.Nursery) -> None:
    server = LineServer(lifetime=1.5)
    port = await nursery.start(server.serve)
    pictures: list[tuple[str | None, int | None]] = []

    async with open_renewal(
        line_source("127.0.0.1", port), options=RenewalOptions(lead=1.2, jitter=0.0)
    ) as renewal:
        with renewal.observe(Prepared, HandedOver) as (_, events), trio.fail_after(20):
            first = await renewal.enqueue(ClipRequest({"frames": 10}))
            pictures += [
                (picture.clip, picture.index)
                for picture in [await renewal.video.receive() for _ in range(10)]
            ]
            await events.receive()  # the next one is prepared
            second = await renewal.enqueue(ClipRequest({"frames": 10}))
            handed = (await events.receive()).event
            assert isinstance(handed, HandedOver)
            assert (handed.old, handed.new) == (first.source, second.source)
            pictures += [
                (picture.clip, picture.index)
                for picture in [await renewal.video.receive() for _ in range(10)]
            ]
        assert pictures == [
            (clip, index) for clip in (first.clip, second.clip) for index in range(10)
        ]
    assert server.sessions == ()


class Mute:
    """A server that says this to everyone who asks for a session, and then that."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = lines

    async def serve(self, *, task_status: trio.TaskStatus[int]) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")

        async def converse(stream: trio.SocketStream) -> None:
            async with stream:
                for line in self._lines:
                    await stream.receive_some()
                    await stream.send_all(line)
                if not self._lines:
                    return
                await stream.receive_some()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, converse, listeners)
            task_status.started(listeners[0].socket.getsockname()[1])


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ((), "this is not the service"),
        ((b"welcome\n",), "this is not the service"),
        ((b"no room for more\n",), "the service gives no session"),
    ],
)
async def test_what_does_not_greet_is_a_failed_open(
    nursery: trio.Nursery, said: tuple[bytes, ...], message: str
) -> None:
    port = await nursery.start(Mute(*said).serve)
    with pytest.raises(OpenFailed, match=message):
        async with line_source("127.0.0.1", port)(Predecessor()):
            pytest.fail("it opened")


async def test_what_a_dead_process_left_cannot_be_adopted(nursery: trio.Nursery) -> None:
    server = LineServer()
    opener = line_source("127.0.0.1", await nursery.start(server.serve))
    record = AllocationRecord("key", "renewal", 0.0, "session-1")
    with pytest.raises(OpenFailed, match="nothing to adopt"):
        async with opener(Predecessor(key="key", adopt=record)):
            pytest.fail("it opened")
    assert server.sessions == ()


@pytest.mark.parametrize(
    "nonsense", [b"clip one ready many\n", b"frame one 1 zz\n", b"ok\n", b"\xff\n", b"x" * 70_000]
)
async def test_what_cannot_be_read_is_a_loss_and_no_defect(
    nursery: trio.Nursery, nonsense: bytes
) -> None:
    port = await nursery.start(Mute(b"hello one 60\n", b"ok 1\n" + nonsense).serve)
    opener = line_source("127.0.0.1", port, close_timeout=0.1)
    with trio.fail_after(20):
        async with opener(Predecessor()) as source:
            assert isinstance(source, LineSource)
            sink = Frames()
            await source.open_media(sink)
            with pytest.raises(Lost):
                await source.wait_lost()
            assert [type(loss) for loss in sink.losses] == [Lost]


class Frames:
    def __init__(self) -> None:
        self.losses: list[Exception | None] = []

    def video(self, frame: VideoFrame, /) -> None:
        pytest.fail(f"there was a picture: {frame}")

    def audio(self, frame: AudioFrame, /) -> None:
        pytest.fail(f"there was sound: {frame}")

    def lost(self, cause: Exception | None, /) -> None:
        self.losses.append(cause)
