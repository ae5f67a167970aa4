"""The source that is borrowed: it keeps every rule, and each way to end is told from the others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from examples.lookup_source.client import MAX_ASKED, MAX_LINE
from examples.lookup_source.rig import LookupRig, lookup_rig
from examples.lookup_source.server import LookupServer
from examples.lookup_source.source import LookupSource, lookup_source
from trio_reactor.errors import Lost, Overflow, Refused
from trio_reactor.renewal import (
    AllocationRecord,
    Cleanup,
    OpenFailed,
    Predecessor,
    RenewalOptions,
    open_renewal,
)
from trio_reactor.renewal.conformance import Case, cases
from trio_reactor.renewal.errors import refusal
from trio_reactor.renewal.source import GoingAway

WORDS = {"lease": "what is held for a time", "fence": "what nothing old gets past"}


@pytest.mark.parametrize("case", cases(LookupRig), ids=str)
async def test_the_lookup_source_conforms(case: Case) -> None:
    async with lookup_rig() as rig:
        await case.run(rig)


@asynccontextmanager
async def opened(server: LookupServer) -> AsyncGenerator[LookupSource]:
    async with trio.open_nursery() as nursery:
        opener = lookup_source("127.0.0.1", await nursery.start(server.serve), goodbye=0.5)
        with trio.fail_after(20):
            async with opener(Predecessor()) as source:
                yield source
        nursery.cancel_scope.cancel()


async def test_words_are_looked_up_side_by_side_each_with_its_answer() -> None:
    async with opened(LookupServer(WORDS)) as source:
        found: dict[str, str | None] = {}

        async def find(word: str) -> None:
            found[word] = await source.find(word)

        async with trio.open_nursery() as nursery:
            for word in (*WORDS, "nothing"):
                nursery.start_soon(find, word)
        assert found == {**WORDS, "nothing": None}


async def test_who_is_cancelled_takes_nobody_elses_answer() -> None:
    async with opened(LookupServer(WORDS)) as source:
        with trio.move_on_after(0) as scope:
            await source.find("lease")
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:  # cancelled after it has left
            nursery.start_soon(source.find, "lease")
            await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert await source.find("fence") == WORDS["fence"]


@pytest.mark.parametrize(
    "word", ["", "two words", "line\nfind", " lease", "\ud800", "x" * MAX_LINE]
)
async def test_what_is_no_word_is_refused_and_not_sent(word: str) -> None:
    async with opened(LookupServer(WORDS)) as source:
        with pytest.raises(Refused):
            await source.find(word)
        assert await source.find("lease") == WORDS["lease"]


async def test_more_questions_than_may_wait_are_refused_and_a_goodbye_still_leaves() -> None:
    server = LookupServer(WORDS)
    async with opened(server) as source:
        server.silent = True
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_ASKED):
                nursery.start_soon(source.find, "lease")
            await wait_all_tasks_blocked(0.01)
            with pytest.raises(Overflow):
                await source.find("lease")
            server.silent = False
            nursery.cancel_scope.cancel()
        assert (await source.close()).complete


async def test_a_renewal_lends_one_session_after_the_other(nursery: trio.Nursery) -> None:
    server = LookupServer(WORDS, lifetime=1.0)
    opener = lookup_source("127.0.0.1", await nursery.start(server.serve))
    used: list[str] = []
    with trio.fail_after(20):
        async with open_renewal(opener, options=RenewalOptions(lead=0.5, jitter=0.0)) as renewal:
            while len(used) < 3:
                async with renewal.borrow() as source:
                    assert source.lifetime < 1.0  # from before it was asked for
                    assert await source.find("lease") == WORDS["lease"]
                if source.id not in used:
                    used.append(source.id)
                await trio.sleep(0.05)
        assert server.sessions == ()
        report = renewal.report
        assert report is not None
        assert report.complete


async def test_what_a_dead_process_left_cannot_be_adopted(nursery: trio.Nursery) -> None:
    server = LookupServer(WORDS)
    opener = lookup_source("127.0.0.1", await nursery.start(server.serve))
    record = AllocationRecord("key", "renewal", 0.0, "lookup-1")
    with pytest.raises(OpenFailed, match="nothing to adopt"):
        async with opener(Predecessor(key="key", adopt=record)):
            pytest.fail("it opened")
    assert server.sessions == ()


# ------------------------------------------------------------------------- a server that is another


@asynccontextmanager
async def talking_to(*said: bytes) -> AsyncGenerator[LookupSource]:
    """A source at a server that says the next of these to each thing it hears, then hangs up."""

    async def converse(stream: trio.SocketStream) -> None:
        async with stream:
            for each in said:
                await stream.receive_some()
                await stream.send_all(each)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, converse, listeners)
        opener = lookup_source("127.0.0.1", listeners[0].socket.getsockname()[1], goodbye=0.1)
        with trio.fail_after(20):
            async with opener(Predecessor()) as source:
                yield source
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"no room for you\n", "the service gives no session"),
        (b"welcome\n", "this is not the service"),
        (b"hello one soon\n", "this is not the service"),
        (b"hello one nan\n", "this is not the service"),
        (b"\n", "this is not the service"),
    ],
)
async def test_what_does_not_greet_is_a_failed_open(said: bytes, message: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with talking_to(said):
            pytest.fail("it opened")
    refused = refusal(caught.value)
    assert refused is not None
    assert refused.message == message
    assert refused.detail == ("room for you" if said.startswith(b"no") else None)


@pytest.mark.parametrize("said", [b"", b"hello one 6", b"\xff\n", b"bye for now\n"])
async def test_a_server_that_hangs_up_before_it_greets_is_lost(said: bytes) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with talking_to(said):
            pytest.fail("it opened")
    assert caught.group_contains(Lost, match="the session ended meanwhile")


@pytest.mark.parametrize(
    ("said", "termination", "cause"),
    [
        (b"bye for now\n", "confirmed", "the server said goodbye"),
        (b"", "unconfirmed", "the connection ended without a goodbye"),
        (b"is half an ans", "unconfirmed", "the connection ended without a goodbye"),
        (b"is one\nis another\n", "unconfirmed", "broke, or the server said what was not asked"),
        (b"\xff\n", "unconfirmed", "broke, or the server said what was not asked"),
        (b"x" * 100_000, "unconfirmed", "broke, or the server said what was not asked"),
        (b"ends nan\n", "unconfirmed", "broke, or the server said what was not asked"),
        (b"ends\n", "unconfirmed", "broke, or the server said what was not asked"),
    ],
)
async def test_only_a_goodbye_proves_that_the_session_is_over(
    said: bytes, termination: str, cause: str
) -> None:
    async with talking_to(b"hello one 60\n", said) as source:
        async with trio.open_nursery() as nursery:

            async def find() -> None:
                try:
                    await source.find("lease")
                except Lost as lost:
                    assert lost.outcome == "unknown"  # noqa: PT017 - nothing else is raised

            nursery.start_soon(find)
            with pytest.raises(Lost) as caught:
                await source.wait_lost()
        assert cause in str(caught.value.__cause__)
        with pytest.raises(Lost) as after:
            await source.find("lease")
        assert after.value.outcome == "not-submitted"
        assert (await source.close()).termination == termination


async def test_an_end_is_announced_whether_it_was_heard_before_somebody_listened_or_after() -> None:
    told: list[GoingAway] = []
    async with talking_to(b"hello one 60\nends 9\n", b"ends 5.5\nis one\n") as source:
        source.announce_to(told.append)
        (before,) = told
        assert 8.0 < before.expires_in <= 9.0
        assert await source.find("lease") == "one"
        assert told == [before, GoingAway(5.5)]


async def test_nothing_is_asked_once_a_goodbye_was_said() -> None:
    server = LookupServer(WORDS)
    async with opened(server) as source, trio.open_nursery() as nursery:
        server.silent = True
        nursery.start_soon(source.close)
        await wait_all_tasks_blocked(0.01)
        with pytest.raises(Lost) as caught:
            await source.find("lease")
        assert caught.value.outcome == "not-submitted"


async def test_one_that_is_closed_has_not_ended_by_itself() -> None:
    async with opened(LookupServer(WORDS)) as source, trio.open_nursery() as nursery:
        nursery.start_soon(source.wait_lost)
        await wait_all_tasks_blocked(0.01)
        assert (await source.close()).complete


async def test_leaving_by_cancellation_says_goodbye() -> None:
    async with trio.open_nursery() as nursery:
        port = await nursery.start(LookupServer(WORDS).serve)
        with trio.CancelScope() as scope:
            async with lookup_source("127.0.0.1", port)(Predecessor()) as source:
                scope.cancel()
        assert (await source.close()).complete
        nursery.cancel_scope.cancel()


async def test_a_close_that_nobody_answers_hangs_up_within_its_budget() -> None:
    server = LookupServer(WORDS)
    async with opened(server) as source:
        server.silent = True
        found: list[Cleanup] = []

        async def close() -> None:
            found.append(await source.close())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(close)
            nursery.start_soon(close)
        assert found[0] == found[1] == await source.close()
        assert (found[0].termination, found[0].connection) == ("unconfirmed", "closed")
        while server.sessions:  # noqa: ASYNC110 - the server, in another task, sets no event
            await trio.sleep(0.005)


async def test_a_server_that_is_not_there_is_weather() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    with pytest.raises(OSError):  # noqa: PT011 - whichever the system raises
        async with lookup_source("127.0.0.1", port)(Predecessor()):
            pytest.fail("it opened")
