"""What an open WebSocket source does: it plays, in order and without a copy, and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio_websocket import WebSocketConnection
from websocket_story import (
    HEIGHT,
    WIDTH,
    Watcher,
    film,
    next_request,
    opened,
    say,
    scene,
    serving,
    speaking,
    uncommitted,
    welcome,
)

from trio_reactor.errors import Lost, Overflow, Refused, TimedOut
from trio_reactor.renewal.source import (
    AudioFrame,
    Clip,
    ClipEnded,
    ClipFailed,
    ClipPhase,
    ClipRequest,
    ClipStarted,
    ClipUpdated,
    Exclusive,
    MediaLosses,
    Mortal,
    Playable,
    Reconnectable,
    Resumable,
    SourceState,
    VideoFrame,
)
from trio_reactor.renewal.websocket import WebSocketSource
from trio_reactor.renewal.websocket.link import Link
from trio_reactor.renewal.websocket.wire import (
    Denied,
    Done,
    Enqueue,
    Queued,
    Reply,
    Snapshot,
    TooLarge,
    Unencodable,
)


async def test_it_plays_reconnects_and_is_mortal(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery, lifetime=7.0)
    async with opened(url) as source:
        assert isinstance(source, Playable)
        assert isinstance(source, Reconnectable)
        assert isinstance(source, Mortal)
        assert not isinstance(source, (Exclusive, Resumable))
        assert source.lifetime == pytest.approx(7.0, abs=0.5)
        async with opened(url) as other:
            assert source.id != other.id


async def test_a_clip_is_queued_built_played_and_gone(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery)
    async with opened(url) as source:
        watcher = Watcher()
        assert await source.attach(watcher) == SourceState((), False)
        media = await source.open_media(watcher)
        assert media.frame_rate == 100.0
        clip = await source.enqueue(scene(5, 4), commit=uncommitted)
        await source.set_autoplay(True)
        await watcher.until_event(ClipEnded)
        assert await source.state() == SourceState((), True)

        phases: list[ClipPhase] = ["queued", "building", "ready"]
        assert watcher.events == [
            *(ClipUpdated(Clip(clip, phase, 4)) for phase in phases),
            ClipStarted(clip, 4),
            ClipEnded(clip, 4),
        ]
        assert media.losses() == MediaLosses(0, 0)


async def test_every_frame_of_a_clip_comes_between_its_start_and_its_end_in_order(
    nursery: trio.Nursery,
) -> None:
    _, url = await serving(nursery)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        clips = [await source.enqueue(scene(at, 5), commit=uncommitted) for at in (10, 20, 30)]
        await source.set_autoplay(True)
        await watcher.until_event(ClipEnded, 3)

        story: list[object] = []
        for entry in watcher.log:
            match entry:
                case VideoFrame(clip=clip, index=index, data=data):
                    story.append((clip, "picture", index, data[0]))
                case AudioFrame(clip=clip, time=time):
                    story.append((clip, "sound", round(time * 100)))
                case ClipStarted(clip=clip) | ClipEnded(clip=clip):
                    story.append((clip, type(entry).__name__))
                case _:
                    pass
        expected: list[object] = []
        for clip, at in zip(clips, (10, 20, 30), strict=True):
            expected.append((clip, "ClipStarted"))
            for index in range(5):
                expected += [(clip, "picture", index, at + index), (clip, "sound", index)]
            expected.append((clip, "ClipEnded"))
        assert story == expected


async def test_a_frame_is_a_view_on_the_message_it_came_in(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[bytes] = []
    receive = Link.receive

    async def remembering(link: Link) -> bytes:
        message = await receive(link)
        received.append(message)
        return message

    monkeypatch.setattr(Link, "receive", remembering)
    _, url = await serving(nursery)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        await source.enqueue(scene(7, 2), commit=uncommitted)
        await source.set_autoplay(True)
        await watcher.until_event(ClipEnded)
        for frame in (*watcher.frames, *watcher.sound):
            assert isinstance(frame.data, memoryview)
            assert any(frame.data.obj is message for message in received)
            assert frame.data.readonly
        first = watcher.frames[0]
        assert (first.width, first.height, first.format) == (WIDTH, HEIGHT, "yuv420p")
        assert first.size == WIDTH * HEIGHT * 3 // 2
        heard = watcher.sound[0]
        assert (heard.rate, heard.channels, heard.format) == (48_000, 2, "s16")
        assert (heard.samples, heard.size) == (960, 1920)


async def test_what_waits_is_moved_removed_and_held(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        first, second, third = [
            await source.enqueue(scene(0, 3), position=position, commit=uncommitted)
            for position in (None, None, 0)
        ]
        await source.move(second, 0)
        assert [clip.id for clip in (await source.state()).clips] == [second, third, first]
        await source.remove(third)
        assert [clip.id for clip in (await source.state()).clips] == [second, first]
        await watcher.until_event(ClipEnded)
        assert ClipEnded(third, 0) in watcher.events


async def test_pausing_ends_what_plays_and_holds_what_is_queued(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        long = await source.enqueue(scene(0, 1000), commit=uncommitted)
        held = await source.enqueue(scene(0, 2), commit=uncommitted)
        await source.set_autoplay(True)
        await watcher.until(lambda: len(watcher.frames) >= 3)
        await source.pause_and_stop()
        state = await source.state()
        assert [clip.id for clip in state.clips] == [held]
        assert not state.autoplay
        ended = next(event for event in watcher.events if isinstance(event, ClipEnded))
        assert ended.clip == long
        assert ended.frames == len(watcher.frames)
        await source.set_autoplay(True)
        await watcher.until_event(ClipEnded, 2)


async def test_the_canvas_is_that_of_the_next_clip(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        await source.set_canvas(64, 48)
        await source.enqueue(scene(0, 2), commit=uncommitted)
        await source.set_autoplay(True)
        await watcher.until_event(ClipEnded)
        assert {(each.width, each.height, each.size) for each in watcher.frames} == {
            (64, 48, 64 * 48 * 3 // 2)
        }


async def test_a_clip_that_cannot_be_built_is_reported(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery, faults={"fail_rate": 1.0})
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        clip = await source.enqueue(scene(0, 2), commit=uncommitted)
        await watcher.until_event(ClipFailed)
        assert watcher.events[-1] == ClipFailed(clip, "it went wrong on purpose")
        assert (await source.state()).clips == ()


REFUSED: dict[str, tuple[Callable[[WebSocketSource], Any], str, str]] = {
    "a scene before the film": (
        lambda source: source.enqueue(scene(-1, 5), commit=uncommitted),
        "bad-request",
        "$.scene.start",
    ),
    "a scene without pictures": (
        lambda source: source.enqueue(scene(0, 0), commit=uncommitted),
        "bad-request",
        "$.scene.frames",
    ),
    "a scene too long": (
        lambda source: source.enqueue(scene(0, 1501), commit=uncommitted),
        "bad-request",
        "scene.frames: at most 1500, not 1501",
    ),
    "no scene": (
        lambda source: source.enqueue(ClipRequest({"prompt": "a rabbit"}), commit=uncommitted),
        "bad-request",
        "unknown field `prompt`",
    ),
    "a position there is not": (
        lambda source: source.enqueue(scene(0, 1), position=1, commit=uncommitted),
        "out-of-range",
        "position: from 0 to 0, not 1",
    ),
    "a clip to continue there is not": (
        lambda source: source.enqueue(
            ClipRequest({"scene": {"frames": 1}}, continue_from="clip-9"), commit=uncommitted
        ),
        "unknown-clip",
        "continue_from: no clip of this session",
    ),
    "a clip there is not": (
        lambda source: source.remove("clip-9"),
        "unknown-clip",
        "there is no clip 'clip-9'",
    ),
    "an odd canvas": (
        lambda source: source.set_canvas(321, 180),
        "bad-request",
        "width: an even number from 16 to 1920, not 321",
    ),
}


@pytest.mark.parametrize(("ask", "code", "reason"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_refusal_says_what_was_wrong(
    nursery: trio.Nursery, ask: Callable[[WebSocketSource], Any], code: str, reason: str
) -> None:
    _, url = await serving(nursery)
    async with opened(url) as source:
        with pytest.raises(Refused, match=f"refused a request: {code}$") as failed:
            await ask(source)
        assert reason in (failed.value.detail or "")
        assert failed.value.outcome == "replied"
        assert (await source.state()).clips == ()


async def test_a_full_session_can_be_asked_again(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery, max_clips=1)
    async with opened(url) as source:
        await source.enqueue(scene(0, 1), commit=uncommitted)
        with pytest.raises(Refused, match="full") as failed:
            await source.enqueue(scene(0, 1), commit=uncommitted)
        assert failed.value.retryable


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def test_commit_is_called_in_the_step_in_which_the_request_leaves(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = await serving(nursery)
    steps = Steps()
    committed: list[int] = []
    sent: list[int] = []
    send_message = WebSocketConnection.send_message

    async def noting(connection: WebSocketConnection, message: bytes) -> None:
        if connection.is_client:
            sent.append(steps.count)
        await send_message(connection, message)

    async with opened(url) as source:
        monkeypatch.setattr(WebSocketConnection, "send_message", noting)
        trio.lowlevel.add_instrument(steps)
        await source.enqueue(scene(0, 1), commit=lambda: committed.append(steps.count))
        trio.lowlevel.remove_instrument(steps)
    assert committed == sent[:1]


async def test_nothing_is_sent_if_commit_raises(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery)

    def refuse() -> None:
        raise KeyError("another route")

    async with opened(url) as source:
        with pytest.raises(KeyError):
            await source.enqueue(scene(0, 1), commit=refuse)
        assert (await source.state()).clips == ()


@pytest.mark.parametrize(
    ("payload", "error"), [({"text": "x" * 70_000}, TooLarge), ({"n": 2**70}, Unencodable)]
)
async def test_a_request_that_cannot_be_sent_is_refused_before_commit(
    nursery: trio.Nursery, payload: dict[str, Any], error: type[Exception]
) -> None:
    _, url = await serving(nursery)
    committed: list[None] = []
    async with opened(url) as source:
        with pytest.raises(error):
            await source.enqueue(ClipRequest(payload), commit=lambda: committed.append(None))
        assert committed == []
        assert (await source.state()).clips == ()


async def test_a_request_cancelled_before_commit_is_not_sent(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery)
    committed: list[None] = []
    async with opened(url) as source:
        with trio.CancelScope() as scope:
            scope.cancel()
            await source.enqueue(scene(0, 1), commit=lambda: committed.append(None))
        assert committed == []
        assert (await source.state()).clips == ()


async def test_a_request_cancelled_after_commit_is_carried_out_and_its_answer_ignored(
    nursery: trio.Nursery,
) -> None:
    asked = trio.Event()
    go_on = trio.Event()

    async def serve(link: Link, peer: Any) -> None:
        await welcome(link)
        first = await next_request(link, peer)
        asked.set()
        await go_on.wait()
        second = await next_request(link, peer)
        await say(link, Reply(first.id, Queued("clip-1")), Reply(second.id, Queued("clip-2")))

    peer = await speaking(nursery, serve)
    async with opened(peer.url, terminate_timeout=0.05) as source:
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_after, asked, scope)
            await source.enqueue(scene(0, 1), commit=uncommitted)
        assert scope.cancelled_caught
        go_on.set()
        assert await source.enqueue(scene(0, 2), commit=uncommitted) == "clip-2"
    assert [type(request.command) for request in peer.requests[:2]] == [Enqueue, Enqueue]


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def test_an_answer_that_comes_twice_late_or_to_nobody_changes_nothing(
    nursery: trio.Nursery,
) -> None:
    async def serve(link: Link, peer: Any) -> None:
        await welcome(link)
        first = await next_request(link, peer)
        await say(
            link,
            Reply(999, Done()),
            Denied(998, "full"),
            Reply(first.id, Queued("clip-1")),
            Reply(first.id, Queued("clip-2")),
            Reply(first.id, Done()),
        )
        second = await next_request(link, peer)
        await say(link, Reply(first.id, Queued("clip-3")), Reply(second.id, Queued("clip-4")))

    peer = await speaking(nursery, serve)
    async with opened(peer.url, terminate_timeout=0.05) as source:
        assert await source.enqueue(scene(0, 1), commit=uncommitted) == "clip-1"
        assert await source.enqueue(scene(0, 1), commit=uncommitted) == "clip-4"


async def test_answers_find_their_requests_in_whatever_order(nursery: trio.Nursery) -> None:
    async def serve(link: Link, peer: Any) -> None:
        await welcome(link)
        requests = [await next_request(link, peer) for _ in range(3)]
        for request in reversed(requests):
            await say(link, Reply(request.id, Queued(f"clip-{request.id}")))

    peer = await speaking(nursery, serve)
    got: list[str] = []
    async with opened(peer.url, terminate_timeout=0.05) as source:

        async def ask() -> None:
            got.append(await source.enqueue(scene(0, 1), commit=uncommitted))

        async with trio.open_nursery() as asking:
            for _ in range(3):
                asking.start_soon(ask)
    assert sorted(got) == [f"clip-{request.id}" for request in peer.requests[:3]]


async def test_requests_that_wait_are_bounded(nursery: trio.Nursery) -> None:
    async def serve(link: Link, _: Any) -> None:
        await welcome(link)

    peer = await speaking(nursery, serve)
    committed: list[None] = []
    async with (
        opened(peer.url, max_pending=2, terminate_timeout=0.05) as source,
        trio.open_nursery() as asking,
    ):
        asking.start_soon(source.state)
        asking.start_soon(source.state)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Overflow) as failed:
            await source.enqueue(scene(0, 1), commit=lambda: committed.append(None))
        asking.cancel_scope.cancel()
    assert failed.value.retryable
    assert committed == []


async def test_an_answer_that_does_not_come_leaves_the_outcome_unknown(
    nursery: trio.Nursery,
) -> None:
    async def serve(link: Link, _: Any) -> None:
        await welcome(link)

    peer = await speaking(nursery, serve)
    async with opened(peer.url, reply_timeout=0.05, terminate_timeout=0.05) as source:
        with pytest.raises(TimedOut, match=r"did not answer within 0\.05 s") as failed:
            await source.enqueue(scene(0, 1), commit=uncommitted)
        assert failed.value.outcome == "unknown"


async def test_an_answer_to_another_question_ends_the_connection(nursery: trio.Nursery) -> None:
    async def serve(link: Link, peer: Any) -> None:
        await welcome(link, grace=60.0)
        request = await next_request(link, peer)
        await say(link, Reply(request.id, Snapshot(SourceState())))

    peer = await speaking(nursery, serve)
    async with opened(peer.url, terminate_timeout=0.05) as source:
        watcher = Watcher()
        with pytest.raises(Lost) as failed:
            await source.enqueue(scene(0, 1), commit=uncommitted)
        assert failed.value.outcome == "unknown"
        await peer.ended.wait()
        with pytest.raises(Lost, match="no connection"):
            await source.attach(watcher)


async def test_a_second_generation_takes_over_from_the_first(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery)
    async with opened(url) as source:
        first, second = Watcher(), Watcher()
        await source.attach(first)
        one = await source.open_media(first)
        await source.enqueue(scene(0, 1000), commit=uncommitted)
        await source.set_autoplay(True)
        await first.until(lambda: len(first.frames) >= 2)
        two = await source.open_media(second)
        assert two.generation > one.generation
        assert first.losses == [None]
        before = len(first.frames)
        await second.until(lambda: len(second.frames) >= 2)
        assert len(first.frames) == before
        shown = [frame.index for frame in (*first.frames, *second.frames)]
        assert shown == list(range(len(shown)))
        assert two.losses() == MediaLosses(0, 0)


async def test_a_closed_generation_puts_nothing_more_into_its_sink(nursery: trio.Nursery) -> None:
    server, url = await serving(nursery)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        media = await source.open_media(watcher)
        await source.enqueue(scene(0, 1000), commit=uncommitted)
        await source.set_autoplay(True)
        await watcher.until(lambda: len(watcher.frames) >= 2)
        await media.aclose()
        await media.aclose()
        seen, due = len(watcher.frames), server.session_statistics(source.id)
        await source.pause_and_stop()
        await watcher.until_event(ClipEnded)
        assert len(watcher.frames) == seen
        assert watcher.losses == []
        assert server.session_statistics(source.id) == due  # nothing was due any more
        again = await source.open_media(watcher)
        assert again.losses() == MediaLosses(0, 0)


async def test_a_clip_continues_where_another_ended(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery, shown=film(pictures=10))
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        before = await source.enqueue(scene(6, 3), commit=uncommitted)
        await source.enqueue(
            ClipRequest({"scene": {"frames": 3}}, continue_from=before), commit=uncommitted
        )
        await source.set_autoplay(True)
        await watcher.until_event(ClipEnded, 2)
        assert [frame.data[0] for frame in watcher.frames] == [6, 7, 8, 9, 0, 1]
