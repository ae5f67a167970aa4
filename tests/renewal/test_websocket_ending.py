"""How a WebSocket source ends: closed, lost, expired, called away; and what is proven of it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio
import trio.lowlevel
from websocket_story import (
    Watcher,
    next_request,
    opened,
    say,
    scene,
    serving,
    speaking,
    uncommitted,
    welcome,
)

from examples.film_server.server import FilmServer
from trio_reactor.errors import Closed, Expired, Lost
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import ClipEnded, ClipStarted, GoingAway
from trio_reactor.renewal.websocket.link import Disconnected, Link
from trio_reactor.renewal.websocket.wire import (
    VERSION,
    CloseCode,
    Hello,
    Refusal,
    Reply,
    Terminate,
    Terminated,
    Welcome,
    decode_from_client,
)


def proven(source: str) -> Cleanup:
    return Cleanup.of(source, allocation="owned", termination="confirmed", connection="closed")


def void_frames(server: FilmServer, session: str) -> int:
    told = server.session_statistics(session)
    assert told is not None
    return told.void_frames


async def test_closing_ends_the_session_on_the_other_side_and_says_so(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        assert server.statistics().sessions == (source.id,)
        evidence = await source.close()
        assert evidence == proven(source.id)
        assert evidence.complete
        assert server.statistics().sessions == ()
        assert watcher.losses == [None, None]
        await source.wait_lost()  # it ended, and nothing went wrong
        for ask in (source.state, source.pause_and_stop, source.reconnect):
            with pytest.raises(Closed):
                await ask()
        with pytest.raises(Closed):
            await source.enqueue(scene(0, 1), commit=uncommitted)


async def test_everyone_who_closes_gets_the_same_evidence(nursery: trio.Nursery) -> None:
    _, url = await serving(nursery)
    evidence: list[Cleanup] = []
    async with opened(url) as source:

        async def close() -> None:
            evidence.append(await source.close())

        async with trio.open_nursery() as closing:
            for _ in range(5):
                closing.start_soon(close)
        evidence.append(await source.close())
    evidence.append(await source.close())
    assert len(evidence) == 7
    assert all(each is evidence[0] for each in evidence)


async def test_a_cancelled_closer_leaves_and_the_termination_goes_on(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery)
    async with opened(url) as source:
        with trio.CancelScope() as scope:
            scope.cancel()
            await source.close()
        assert scope.cancelled_caught
        assert await source.close() == proven(source.id)
        assert server.statistics().sessions == ()


@pytest.mark.parametrize("leaving", ["returned", "failed", "cancelled"])
async def test_leaving_without_closing_closes_too(nursery: trio.Nursery, leaving: str) -> None:
    server, url = await serving(nursery)
    raised = (
        pytest.raises(LookupError, match="the body's own")
        if leaving == "failed"
        else contextlib.nullcontext()
    )
    with trio.CancelScope() as scope, raised:
        async with opened(url) as source:
            if leaving == "failed":
                raise LookupError("the body's own")
            if leaving == "cancelled":
                scope.cancel()
                await trio.sleep_forever()
    assert scope.cancelled_caught is (leaving == "cancelled")
    assert server.statistics().sessions == ()
    assert await source.close() == proven(source.id)


async def test_a_server_that_does_not_confirm_leaves_it_unconfirmed(nursery: trio.Nursery) -> None:
    async def serve(link: Link, _: Any) -> None:
        await welcome(link)

    peer = await speaking(nursery, serve)
    async with opened(peer.url, terminate_timeout=0.05) as source:
        evidence = await source.close()
    assert not evidence.complete
    assert (evidence.termination, evidence.connection) == ("unconfirmed", "closed")
    assert [failure.type for failure in evidence.failures] == ["TimedOut"]


async def test_a_server_that_does_not_close_is_cut_off(nursery: trio.Nursery) -> None:
    async def serve(link: Link, peer: Any) -> None:
        await welcome(link)
        request = await next_request(link, peer)
        assert isinstance(request.command, Terminate)
        link._connection._wsproto.receive_data = lambda _: None  # it is deaf from now on
        await say(link, Reply(request.id, Terminated()))
        await trio.sleep_forever()

    peer = await speaking(nursery, serve)
    async with opened(peer.url, close_timeout=0.05) as source:
        evidence = await source.close()
    assert (evidence.termination, evidence.connection) == ("confirmed", "failed")
    assert not evidence.complete


async def test_a_session_is_cut_off_when_its_lifetime_is_over(nursery: trio.Nursery) -> None:
    server, url = await serving(nursery, lifetime=0.3)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        await source.enqueue(scene(0, 1000), commit=uncommitted)
        await source.set_autoplay(True)
        with pytest.raises(Expired) as failed:
            await source.wait_lost()
        assert failed.value.detail == "the lifetime of the session is over"
        assert 0 < len(watcher.frames) < 35
        for cause in watcher.losses:
            assert isinstance(cause, Disconnected)
            assert cause.code == CloseCode.LIFETIME_OVER
        assert len(watcher.losses) == 2
        with pytest.raises(Expired):
            await source.state()
        with pytest.raises(Expired):
            await source.reconnect()
        with pytest.raises(Expired):  # made afresh for everyone who asks
            await source.wait_lost()
        assert server.statistics().sessions == ()
        assert await source.close() == proven(source.id)


async def test_a_source_that_is_called_away_says_so_and_then_goes(nursery: trio.Nursery) -> None:
    faults = {"going_away_after": 0.1, "going_away_notice": 0.2}
    _, url = await serving(nursery, faults=faults)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await watcher.until_event(GoingAway)
        assert watcher.events == [GoingAway(0.2, "the service is being restarted")]
        told = trio.current_time()
        with pytest.raises(Lost, match="ended with code 1001"):
            await source.wait_lost()
        assert trio.current_time() - told > 0.1
        assert await source.close() == proven(source.id)


async def test_a_dropped_socket_is_noticed_at_once_and_does_not_end_the_session(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery, faults={"drop_after": 0.2, "drop_limit": 1})
    ended = trio.Event()

    async def hear_its_end() -> None:
        await source.wait_lost()
        ended.set()

    async with opened(url) as source:
        nursery.start_soon(hear_its_end)
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        await watcher.until(lambda: len(watcher.losses) == 2)
        assert all(isinstance(cause, Disconnected) for cause in watcher.losses)
        with pytest.raises(Lost) as failed:
            await source.enqueue(scene(0, 1), commit=lambda: pytest.fail("it was not sent"))
        assert (failed.value.outcome, failed.value.retryable) == ("not-submitted", True)
        # It is there still, and plays for whoever takes it up again.
        await source.reconnect()
        again = Watcher()
        await source.attach(again)
        await source.enqueue(scene(0, 1), commit=uncommitted)
        await source.set_autoplay(True)
        await again.until_event(ClipEnded)
        assert server.statistics().sessions == (source.id,)
        assert not ended.is_set()
        await source.close()
        await ended.wait()


async def test_a_request_that_left_before_the_socket_dropped_has_an_unknown_outcome(
    nursery: trio.Nursery,
) -> None:
    async def serve(link: Link, peer: Any) -> None:
        await welcome(link, grace=60.0)
        await next_request(link, peer)
        await link.cut("broke")

    peer = await speaking(nursery, serve)
    committed: list[None] = []
    async with opened(peer.url, terminate_timeout=0.05) as source:
        with pytest.raises(Lost) as failed:
            await source.enqueue(scene(0, 1), commit=lambda: committed.append(None))
        assert (failed.value.outcome, failed.value.retryable) == ("unknown", False)
        assert isinstance(failed.value.__cause__, Disconnected)
        assert committed == [None]


async def test_a_session_is_taken_up_again_and_every_frame_is_accounted_for(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery, faults={"drop_after": 0.2, "drop_limit": 1})
    async with opened(url) as source:
        first, second = Watcher(), Watcher()
        await source.attach(first)
        before = await source.open_media(first)
        clip = await source.enqueue(scene(0, 80), commit=uncommitted)
        await source.set_autoplay(True)
        await first.until(lambda: len(first.losses) == 2)
        state = server.session_statistics(source.id)
        assert state is not None
        while (state := server.session_statistics(source.id)) and not state.void_frames:
            await trio.lowlevel.checkpoint()  # it plays on, into the void
        await source.reconnect()
        assert (await source.attach(second)).playing is not None
        after = await source.open_media(second)
        assert after.generation > before.generation
        await second.until_event(ClipEnded)
        assert second.events[-1] == ClipEnded(clip, 80)

        came = [frame.index for frame in (*first.frames, *second.frames)]
        assert came == sorted(set(came), key=lambda index: index or 0)
        assert before.losses().frames == 0
        assert 0 < after.losses().frames == 80 - len(came)
        heard = sum(frame.samples for frame in (*first.sound, *second.sound))
        assert after.losses().samples == 80 * 960 - heard
        assert await source.close() == proven(source.id)


async def test_reconnecting_ends_a_socket_that_is_still_there(nursery: trio.Nursery) -> None:
    server, url = await serving(nursery)
    async with opened(url) as source:
        first, second = Watcher(), Watcher()
        await source.attach(first)
        await source.open_media(first)
        await source.reconnect()
        assert first.losses == [None, None]
        await source.attach(second)
        await source.open_media(second)
        await source.enqueue(scene(0, 2), commit=uncommitted)
        await source.set_autoplay(True)
        await second.until_event(ClipEnded)
        assert len(second.frames) == 2
        assert first.log == []
        assert server.statistics().opened == 1


async def test_a_session_that_is_not_taken_up_within_its_grace_is_lost(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery, grace=0.1, faults={"drop_after": 0.05, "drop_limit": 1})
    async with opened(url) as source:
        with pytest.raises(Lost, match="without a socket for too long"):
            await source.wait_lost()
        with pytest.raises(Lost):
            await source.reconnect()
        with trio.fail_after(5):
            while server.statistics().sessions:
                await trio.lowlevel.checkpoint()
        # Only the server's word proves it: it is asked, and knows no such session.
        assert (await source.close()).termination == "confirmed"


async def test_a_session_that_is_gone_is_not_taken_up(nursery: trio.Nursery) -> None:
    async def serve(link: Link, peer: Any) -> None:
        if peer.connections == 1:
            await welcome(link, grace=60.0)
            await link.cut("broke")
        else:
            await link.receive()
            await say(link, Refusal("no-such-session", "it is over"))

    peer = await speaking(nursery, serve)
    async with opened(peer.url) as source:
        await peer.ended.wait()
        with pytest.raises(Lost, match="refused a session: no-such-session") as failed:
            await source.reconnect()
        assert not failed.value.retryable
        with pytest.raises(Lost):
            await source.wait_lost()
        assert (await source.close()).termination == "confirmed"


async def test_what_takes_a_session_up_may_change_with_every_socket(nursery: trio.Nursery) -> None:
    hellos: list[Hello] = []

    async def serve(link: Link, peer: Any) -> None:
        hello = decode_from_client(await link.receive())
        assert isinstance(hello, Hello)
        hellos.append(hello)
        resume = f"resume-{peer.connections}"
        await say(link, Welcome(VERSION, "session-1", resume, None, 60.0))

    peer = await speaking(nursery, serve)
    async with opened(peer.url, terminate_timeout=0.05) as source:
        await source.reconnect()
        await source.reconnect()
    assert [hello.resume for hello in hellos] == [None, "resume-1", "resume-2"]


async def test_a_server_that_is_gone_can_be_reached_for_again_later(nursery: trio.Nursery) -> None:
    async def serve(link: Link, _: Any) -> None:
        await welcome(link, grace=60.0)

    peer = await speaking(nursery, serve)
    async with opened(peer.url) as source:
        peer.life.cancel()
        await peer.ended.wait()
        for _ in range(2):
            with pytest.raises(Lost, match="cannot be reached") as failed:
                await source.reconnect()
            assert failed.value.retryable
        evidence = await source.close()
    assert (evidence.termination, evidence.connection) == ("unconfirmed", "failed")
    assert [failure.type for failure in evidence.failures] == ["Lost"]


async def test_closing_makes_a_dropped_socket_again_to_end_the_session(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery, faults={"drop_after": 0.1, "drop_limit": 1})
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await watcher.until(lambda: bool(watcher.losses))
        assert server.statistics().sessions == (source.id,)
        assert await source.close() == proven(source.id)
        assert server.statistics().sessions == ()


async def test_closing_ends_a_reconnection_in_progress(nursery: trio.Nursery) -> None:
    async def serve(link: Link, peer: Any) -> None:
        if peer.connections == 1:
            await welcome(link, grace=60.0)
            await link.cut("broke")
        await link.receive()  # and never greets again

    peer = await speaking(nursery, serve)
    outcome: list[Exception] = []
    async with opened(peer.url, open_timeout=60.0, terminate_timeout=0.05) as source:

        async def reconnect() -> None:
            with pytest.raises(Closed) as failed:
                await source.reconnect()
            outcome.append(failed.value)

        await peer.ended.wait()
        nursery.start_soon(reconnect)
        with trio.fail_after(5):
            while peer.connections < 2:
                await trio.lowlevel.checkpoint()
        evidence = await source.close()
    assert evidence.termination == "unconfirmed"
    await trio.testing.wait_all_tasks_blocked()
    assert len(outcome) == 1


async def test_a_cancelled_reconnection_leaves_the_session_to_be_taken_up_later(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery, faults={"drop_after": 0.1, "drop_limit": 1})
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await watcher.until(lambda: bool(watcher.losses))
        with trio.CancelScope() as scope:
            scope.cancel()
            await source.reconnect()
        await source.reconnect()
        assert server.statistics().sessions == (source.id,)
        assert await source.close() == proven(source.id)


async def test_a_server_that_stops_ends_its_sessions_in_order(nursery: trio.Nursery) -> None:
    server, url = await serving(nursery)
    async with opened(url) as source:
        server.stop()
        with pytest.raises(Lost, match="1001"):
            await source.wait_lost()
        assert await source.close() == proven(source.id)


async def test_a_sink_that_raises_is_a_defect_and_the_session_is_still_ended(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery)

    class Broken(Watcher):
        def event(self, event: object, /) -> None:
            raise ZeroDivisionError(f"no sink raises, least of all at {event}")

    with pytest.raises(ZeroDivisionError):
        async with opened(url) as source:
            await source.attach(Broken())
            await source.enqueue(scene(0, 1), commit=uncommitted)
            await trio.sleep_forever()
    assert server.statistics().sessions == ()
    assert (await source.close()).termination == "confirmed"


async def test_what_ends_while_it_plays_tells_how_much_of_the_clip_came(
    nursery: trio.Nursery,
) -> None:
    _, url = await serving(nursery, lifetime=0.25)
    async with opened(url) as source:
        watcher = Watcher()
        await source.attach(watcher)
        await source.open_media(watcher)
        clip = await source.enqueue(scene(0, 200), commit=uncommitted)
        await source.set_autoplay(True)
        await watcher.until(lambda: len(watcher.losses) == 2)
        assert ClipStarted(clip, 200) in watcher.events
        assert not any(isinstance(event, ClipEnded) for event in watcher.events)
        assert [frame.index for frame in watcher.frames] == list(range(len(watcher.frames)))
