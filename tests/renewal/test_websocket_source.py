"""What an open WebSocket source does: it plays, in order and without a copy, and answers."""

from __future__ import annotations

import pytest
import trio
from websocket_story import (
    HEIGHT,
    WIDTH,
    Watcher,
    film,
    opened,
    scene,
    serving,
    uncommitted,
)

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
from trio_reactor.renewal.websocket.link import Link


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
