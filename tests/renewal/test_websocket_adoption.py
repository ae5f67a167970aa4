"""What a dead process left at a server is adopted or terminated over a WebSocket."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import trio
from websocket_story import PATIENCE, opened, serving, until

from examples.film_server.server import FilmServer
from trio_reactor.channel import EventChannel
from trio_reactor.renewal import (
    AllocationRecord,
    Allocations,
    OpenFailed,
    RenewalOptions,
    open_journal,
    open_renewal,
)
from trio_reactor.renewal.events import AllocationSettled
from trio_reactor.renewal.source import Predecessor
from trio_reactor.renewal.websocket import WebSocketSource, websocket_source, websocket_terminate

CHILD = Path(__file__).with_name("websocket_child.py")


async def die(url: str, path: Path) -> None:
    done = await trio.run_process(
        [sys.executable, str(CHILD), url, str(path)],
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("adopt", [True, False])
async def test_the_session_of_a_process_that_was_killed_is_adopted_or_terminated(
    nursery: trio.Nursery, tmp_path: Path, adopt: bool
) -> None:
    server, url = await serving(nursery, grace=1000.0, max_sessions=1)
    path = tmp_path / "journal"
    await die(url, path)
    (left,) = server.statistics().sessions
    channel = EventChannel()
    with channel.subscribe(AllocationSettled) as settled, trio.fail_after(PATIENCE):
        async with open_journal(path) as journal:
            (record,) = await journal.load()
            assert record.source == left
            assert record.allocation == {"server": url.partition("?")[0]}
            allocations = Allocations(
                journal=journal, terminate=websocket_terminate(url), adopt=adopt
            )
            async with open_renewal(
                websocket_source(url),
                allocations=allocations,
                options=RenewalOptions(lead=1.0),
                events=channel,
            ) as renewal:
                # There is room for one only, so what was left is this one, or is gone.
                assert renewal.state.on_air is not None
                assert (renewal.state.on_air.source.id == left) == adopt
                how = (await settled.receive()).event.how
                assert how == ("adopted" if adopt else "terminated")
            assert await journal.load() == ()
    await until(lambda: not server.statistics().sessions)
    assert server.statistics().opened == 2 - adopt


async def test_the_same_key_gives_the_same_session_and_no_second_one(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery)
    open_source = websocket_source(url)
    async with open_source(Predecessor(key="one")) as first:
        async with open_source(Predecessor(key="two")) as other:
            assert other.id != first.id
        record = AllocationRecord("one", "renewal", 0.0, first.id)
        async with open_source(Predecessor(key="one", adopt=record)) as again:
            assert isinstance(again, WebSocketSource)
            assert again.id == first.id
            assert again.lifetime is not None
            assert again.lifetime < 60.0
            assert server.statistics().opened == 2
    await gone(server)


async def test_what_the_server_does_not_have_cannot_be_adopted_and_is_proven_to_be_over(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery)
    record = AllocationRecord("unknown", "renewal", 0.0, "film-0")
    with pytest.raises(OpenFailed, match="no-such-session"):
        async with websocket_source(url)(Predecessor(key="unknown", adopt=record)):
            pytest.fail("opened")
    cleanup = await websocket_terminate(url)(record)
    assert (cleanup.complete, cleanup.allocation) == (True, "none")
    assert server.statistics().opened == 0


async def test_a_server_that_is_not_there_proves_nothing(nursery: trio.Nursery) -> None:
    server, url = await serving(nursery)
    server.stop()
    await gone(server)
    record = AllocationRecord("one", "renewal", 0.0, "film-0")
    with trio.fail_after(PATIENCE), pytest.raises(OpenFailed, match="cannot be reached"):
        while True:  # its port is given back in a moment
            await websocket_terminate(url)(record)


async def test_a_session_that_was_not_asked_for_by_a_key_is_as_it_was(
    nursery: trio.Nursery,
) -> None:
    server, url = await serving(nursery)
    async with opened(url):
        assert len(server.statistics().sessions) == 1
    await gone(server)


async def gone(server: FilmServer) -> None:
    await until(lambda: not server.statistics().sessions)
