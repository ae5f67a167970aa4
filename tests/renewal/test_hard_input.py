"""Input in the forms in which it comes, and reasons in those in which they are given."""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from line_stage import Exchange, Line, options
from trio.testing import wait_all_tasks_blocked

from trio_reactor.renewal import Predecessor, open_renewal


class Ear(Line):
    """A line that takes input once it listens."""

    def __init__(self) -> None:
        super().__init__(1, None, 0.0)
        self.listens = trio.Event()
        self.heard: list[bytes] = []

    async def send_input(self, data: bytes, /) -> None:
        await self.listens.wait()
        self.heard.append(data)


def ear(given: Ear) -> Any:
    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Ear]:
        await trio.lowlevel.checkpoint()
        yield given

    return opener


def _view(data: bytes) -> memoryview:
    return memoryview(bytearray(data))


@pytest.mark.parametrize("of", [bytearray, _view])
async def test_a_buffer_that_is_used_again_does_not_change_what_was_accepted(
    of: Any, autojump_clock: object
) -> None:
    line = Ear()
    async with open_renewal(ear(line), options=options()) as renewal:
        buffer = of(b"one")
        await renewal.send_input(buffer)
        await wait_all_tasks_blocked()
        buffer[:] = b"two"
        await renewal.send_input(buffer)
        buffer[:] = b"xyz"
        line.listens.set()
        await wait_all_tasks_blocked()
        assert line.heard == [b"one", b"two"]
        assert [type(data) for data in line.heard] == [bytes, bytes]


async def test_a_view_of_wide_items_counts_by_its_bytes(autojump_clock: object) -> None:
    line = Ear()
    line.listens.set()
    async with open_renewal(ear(line), options=options()) as renewal:
        wide: Any = memoryview(array("d", [1.0, 2.0]))
        await renewal.send_input(wide)
        await wait_all_tasks_blocked()
        assert renewal.statistics().input.delivered_bytes == 16


@pytest.mark.parametrize("data", ["text", 3, None, [1, 2]])
async def test_what_is_no_bytes_is_refused_to_who_gives_it_and_harms_nobody(
    data: Any, autojump_clock: object
) -> None:
    line = Ear()
    line.listens.set()
    async with open_renewal(ear(line), options=options()) as renewal:
        with pytest.raises(TypeError):
            await renewal.send_input(data)
        await renewal.send_input(b"1")
        await wait_all_tasks_blocked()
        assert line.heard == [b"1"]
        said = renewal.statistics().input
        assert (said.held_pieces, said.held_bytes, said.delivered_bytes) == (0, 0, 1)


@pytest.mark.parametrize("reason", ["\ud800", "x" * 1025, 5, None])
async def test_a_reason_that_is_none_is_refused_and_who_asks_after_it_gets_a_successor(
    reason: Any, autojump_clock: object
) -> None:
    exchange = Exchange(lifetime=None)
    async with open_renewal(exchange, options=options()) as renewal:
        with pytest.raises(ValueError, match="reason"):
            await renewal.renew(reason)
        with trio.fail_after(60):
            assert (await renewal.renew("a new credential")).incarnation == 2
