"""A keyboard interrupt never comes in the middle of the channel's own steps."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import pytest
import trio
from channel_story import CountingWorld, Said
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel


class InterruptingWorld(CountingWorld):
    """Somebody presses Ctrl-C whenever the time is asked for."""

    def clock(self) -> float:
        signal.raise_signal(signal.SIGINT)
        return super().clock()


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run it with Python's own handler for the interrupt, as in a program's main thread."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        trio.run(main)
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_is_being_published_is_published() -> None:
    steps: list[str] = []

    async def main() -> None:
        channel = EventChannel(world=InterruptingWorld())
        subscription = channel.subscribe()
        try:
            steps.append(str(channel.publish(Said(1))))
            await trio.lowlevel.checkpoint()
        except KeyboardInterrupt:
            steps.append("interrupted")
        assert subscription.receive_nowait().event == Said(1)
        assert channel.statistics().published == 1

    run(main)
    assert steps == ["1", "interrupted"]


def test_a_reader_that_is_interrupted_asleep_loses_nothing() -> None:
    got: list[int] = []

    async def main() -> None:
        channel = EventChannel()
        subscription = channel.subscribe()

        async def read() -> None:
            got.append((await channel.subscribe().receive()).seq)

        @trio.lowlevel.enable_ki_protection  # so that it reaches the main task and not this one
        async def interrupt() -> None:
            await wait_all_tasks_blocked()
            signal.raise_signal(signal.SIGINT)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(interrupt)
            with pytest.raises(KeyboardInterrupt):
                await subscription.receive()
            channel.publish(Said(1))
            got.append(subscription.receive_nowait().seq)

    run(main)
    assert got == [1, 1]


def test_an_interrupt_while_the_news_is_carried_does_not_lose_it() -> None:
    got: list[int] = []

    class AlarmingName(str):
        """Somebody presses Ctrl-C whenever it is looked up."""

        __slots__ = ()

        def __hash__(self) -> int:
            signal.raise_signal(signal.SIGINT)
            return super().__hash__()

    async def main() -> None:
        channel = EventChannel()

        async def read() -> None:
            with channel.subscribe(Said) as subscription:
                got.append((await subscription.receive()).seq)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(read)
            await wait_all_tasks_blocked()
            channel.publish(Said(1), handle=AlarmingName("choir"))
            with pytest.raises(KeyboardInterrupt):
                await trio.sleep_forever()

    run(main)
    assert got == [1, 1, 1]
