"""What becomes of a request: refused, committed, answered, late, or of unknown outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio_websocket import WebSocketConnection
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

from trio_reactor.errors import Lost, Overflow, Refused, TimedOut
from trio_reactor.renewal.source import (
    ClipRequest,
    SourceState,
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
