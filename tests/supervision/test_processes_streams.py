"""The channel's end and the kept output, without a process."""

from __future__ import annotations

import socket
import time

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from trio_reactor.errors import Closed, Lost
from trio_reactor.supervision.execution.processes.channel import Channel
from trio_reactor.supervision.execution.processes.output import Tail


def connected() -> tuple[Channel, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return Channel(ours), theirs


@pytest.mark.parametrize(("own", "told"), [(False, Lost), (True, Closed)])
@pytest.mark.parametrize("act", ["send_all", "wait"])
async def test_who_waits_to_send_is_told_whose_end_it_was(
    own: bool,
    told: type[Exception],
    act: str,
) -> None:
    channel, theirs = connected()
    with theirs:
        with trio.move_on_after(0.05):
            await channel.send_all(bytes(10_000_000))

        async def send() -> None:
            with pytest.raises(told):
                if act == "send_all":
                    await channel.send_all(b"more")
                else:
                    await channel.wait_send_all_might_not_block()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            if own:
                channel.close()
            else:
                channel.let_go()  # what a unit does with it when its code has ended


@given(st.lists(st.binary(max_size=20)), st.integers(0, 30), st.integers(0, 5))
def test_the_last_bytes_are_kept_and_all_are_counted(
    pieces: list[bytes], keep: int, dropped: int
) -> None:
    tail = Tail(keep)
    tail.add(b"", dropped_before=dropped)
    for piece in pieces:
        tail.add(piece)
    whole = b"".join(pieces)
    assert tail.tail() == whole[max(len(whole) - keep, 0) :]
    told = tail.statistics()
    assert told.written == len(whole) + dropped
    assert told.dropped == told.written - len(tail.tail())


def test_tiny_pieces_cost_no_more_than_large_ones() -> None:
    tail = Tail(64 << 20)
    tail.add(bytes(64 << 20))
    began = time.perf_counter()
    for _ in range(200_000):
        tail.add(b"x")
    # Moving what is kept for each would take an hour.
    assert time.perf_counter() - began < 10
    assert tail.statistics().dropped == 200_000
