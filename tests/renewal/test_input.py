"""Input that an application sends upstream, across all the sources."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from line_stage import Exchange, Line, options
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_reactor.channel import EventChannel
from trio_reactor.errors import Closed, Failed, Refused
from trio_reactor.renewal import (
    InputOverflow,
    Predecessor,
    Renewal,
    SessionRetired,
    SourcesExhausted,
    open_renewal,
)
from trio_reactor.renewal.events import InputLost
from trio_reactor.testing import Order, Simulation, for_every_checkpoint, orders


class Listener(Line):
    """A line that takes input, slowly if it is told to."""

    def __init__(self, number: int, lifetime: float | None, taking: float) -> None:
        super().__init__(number, lifetime, 0.0)
        self.taking = taking
        self.begun: list[bytes] = []
        self.heard: list[bytes] = []
        self.failure: Exception | None = None

    async def send_input(self, data: bytes, /) -> None:
        assert self.closed_at is None
        assert self.begun == self.heard  # one at a time
        self.begun.append(data)
        try:
            await trio.sleep(self.taking)
            if self.failure is not None:
                failure, self.failure = self.failure, None
                raise failure
        except BaseException:
            self.begun.pop()
            raise
        self.heard.append(data)


class Studio:
    """Opens listeners, and knows of all of them; a `SourceOpener`."""

    def __init__(
        self, *, lifetime: float | None = None, open_delay: float = 1.0, taking: float = 0.0
    ) -> None:
        self.lifetime = lifetime
        self.open_delay = open_delay
        self.taking = taking
        self.listeners: list[Listener] = []

    @property
    def newest(self) -> Listener:
        """The last that was opened."""
        return self.listeners[-1]

    @property
    def heard(self) -> list[list[bytes]]:
        """What each has heard."""
        return [listener.heard for listener in self.listeners]

    @asynccontextmanager
    async def __call__(self, _: Predecessor) -> AsyncGenerator[Listener]:
        await trio.sleep(self.open_delay if self.listeners else 0)
        self.listeners.append(Listener(len(self.listeners) + 1, self.lifetime, self.taking))
        yield self.listeners[-1]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


async def send(renewal: Renewal[Listener], first: int, last: int) -> None:
    for data in numbers(first, last):
        await renewal.send_input(data)


async def test_input_reaches_the_source_on_air_in_order(autojump_clock: object) -> None:
    studio = Studio()
    async with open_renewal(studio, options=options()) as renewal:
        with assert_checkpoints():
            await renewal.send_input(b"1")
        await send(renewal, 2, 20)
        await wait_all_tasks_blocked()
        assert studio.heard == [numbers(1, 20)]
        said = renewal.statistics().input
        assert (said.delivered_pieces, said.delivered_bytes) == (20, 9 + 22)
        assert (said.held_pieces, said.held_bytes) == (0, 0)


async def test_accepting_does_not_wait_for_the_source(autojump_clock: object) -> None:
    studio = Studio(taking=5.0)
    async with open_renewal(studio, options=options()) as renewal:
        await send(renewal, 1, 3)
        assert trio.current_time() == 0
        await trio.sleep(6)
        assert studio.heard == [numbers(1, 1)]
        said = renewal.statistics().input
        assert (said.held_pieces, said.held_bytes, said.delivered_pieces) == (2, 2, 1)


async def test_what_comes_while_the_place_is_vacant_is_held_for_the_next_source(
    autojump_clock: object,
) -> None:
    studio = Studio()
    async with open_renewal(studio, options=options()) as renewal:
        await send(renewal, 1, 3)
        await trio.sleep(10)
        studio.newest.lose()
        await wait_all_tasks_blocked()
        await send(renewal, 4, 8)
        assert renewal.statistics().input.held_pieces == 5
        await trio.sleep(0.5)
        assert studio.heard == [numbers(1, 3)]
        await trio.sleep(1)
        await send(renewal, 9, 9)
        await wait_all_tasks_blocked()
        assert studio.heard == [numbers(1, 3), numbers(4, 9)]
        assert renewal.statistics().input.lost_pieces == 0


async def test_a_switch_lets_the_piece_under_way_finish_and_the_rest_follows_it(
    autojump_clock: object,
) -> None:
    studio = Studio(taking=2.0)
    async with open_renewal(studio, options=options()) as renewal, trio.open_nursery() as nursery:
        await send(renewal, 1, 4)
        nursery.start_soon(renewal.renew, "settings")  # takes over at 1.0, the first ends at 2.0
        await trio.sleep(20)
        assert studio.heard == [numbers(1, 1), numbers(2, 4)]
        assert renewal.state.leaving == 0
        assert renewal.statistics().input.delivered_pieces == 4


async def test_of_a_steady_stream_nothing_is_lost_over_many_handovers(
    autojump_clock: object,
) -> None:
    studio = Studio(lifetime=12.0, taking=0.3)
    async with open_renewal(studio, options=options()) as renewal:
        sent = numbers(1, 1000)
        for data in sent:
            await renewal.send_input(data)
            await trio.sleep(0.35)
        await trio.sleep(5)
        assert [data for heard in studio.heard for data in heard] == sent
        assert len(studio.listeners) > 100
        assert renewal.statistics().input.lost_pieces == 0


async def test_what_was_under_way_when_its_source_was_lost_is_never_sent_again_and_named(
    autojump_clock: object,
) -> None:
    studio = Studio(taking=2.0)
    async with open_renewal(studio, options=options()) as renewal:
        with renewal.observe(InputLost) as (_, events):
            await trio.sleep(10)
            await renewal.send_input(b"lost")
            await send(renewal, 1, 2)
            await trio.sleep(1)
            studio.newest.lose()
            await trio.sleep(10)
            said = (await events.receive()).event
            assert said.source is not None
            assert (said.source.id, said.pieces, said.bytes) == ("line-1", 1, 4)
            assert said.why == "source-lost"
            with pytest.raises(trio.WouldBlock):
                events.receive_nowait()
        assert studio.heard == [[], numbers(1, 2)]
        told = renewal.statistics().input
        assert (told.lost_pieces, told.lost_bytes, told.delivered_pieces) == (1, 4, 2)


async def test_what_does_not_fit_is_refused_and_counted_exactly(autojump_clock: object) -> None:
    studio = Studio(taking=1.0)
    async with open_renewal(studio, options=options(max_input_bytes=10)) as renewal:
        await renewal.send_input(b"12345")
        await renewal.send_input(b"12345")
        for size in (1, 3):
            with pytest.raises(InputOverflow) as caught:
                await renewal.send_input(b"x" * size)
            assert (caught.value.bytes, caught.value.missed) == (size, 1)
            assert caught.value.outcome == "not-submitted"
        with pytest.raises(InputOverflow):
            await renewal.send_input(b"x" * 11)
        await trio.sleep(1.5)
        await renewal.send_input(b"67890")
        with pytest.raises(InputOverflow):
            await renewal.send_input(b"x")
        told = renewal.statistics().input
        assert (told.refused_pieces, told.refused_bytes, told.held_bytes) == (4, 16, 10)
        await trio.sleep(5)
        assert studio.heard == [[b"12345", b"12345", b"67890"]]


async def test_a_buffer_can_be_used_again_at_once(autojump_clock: object) -> None:
    studio = Studio(taking=1.0)
    async with open_renewal(studio, options=options()) as renewal:
        buffer = bytearray(b"one")
        await renewal.send_input(buffer)
        buffer[:] = b"second"
        await renewal.send_input(memoryview(buffer)[::2])
        buffer[:] = b"-" * 50
        assert renewal.statistics().input.held_bytes == 6
        await trio.sleep(5)
        assert studio.heard == [[b"one", b"scn"]]
        assert {type(piece) for piece in studio.newest.heard} == {bytes}
        assert renewal.statistics().input.held_bytes == 0


@pytest.mark.parametrize("piece", [3, "text", [1, 2], None], ids=repr)
async def test_what_is_not_bytes_is_refused_and_ends_nothing(
    autojump_clock: object, piece: Any
) -> None:
    studio = Studio()
    async with open_renewal(studio, options=options()) as renewal:
        with pytest.raises(TypeError, match=r"^a piece of input is bytes, not an? "):
            await renewal.send_input(piece)
        await send(renewal, 1, 2)
        await wait_all_tasks_blocked()
        assert studio.heard == [numbers(1, 2)]


async def test_pieces_are_bounded_in_number_too(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_reactor.renewal.access.upstream.MAX_INPUT_PIECES", 3)
    studio = Studio(taking=1.0)
    async with open_renewal(studio, options=options()) as renewal:
        await send(renewal, 1, 3)
        with pytest.raises(InputOverflow, match="3 pieces are held") as caught:
            await renewal.send_input(b"4")
        assert caught.value.bytes == 1
        told = renewal.statistics().input
        assert (told.refused_pieces, told.refused_bytes, told.held_pieces) == (1, 1, 3)
        await renewal.send_input(b"")
        await trio.sleep(1.5)
        await renewal.send_input(b"4")
        await trio.sleep(5)
        assert studio.heard == [numbers(1, 4)]


async def test_an_empty_piece_is_nothing(autojump_clock: object) -> None:
    studio = Studio()
    async with open_renewal(studio, options=options()) as renewal:
        with assert_checkpoints():
            await renewal.send_input(b"")
        await wait_all_tasks_blocked()
        assert studio.heard == [[]]


async def test_cancelled_before_it_is_accepted_nothing_is_sent(autojump_clock: object) -> None:
    studio = Studio()
    async with open_renewal(studio, options=options()) as renewal:
        with trio.CancelScope() as scope:
            scope.cancel()
            await renewal.send_input(b"1")
        assert scope.cancelled_caught
        await wait_all_tasks_blocked()
        assert studio.heard == [[]]


async def test_a_source_that_takes_no_input_is_told_of_at_once(autojump_clock: object) -> None:
    async with open_renewal(Exchange(), options=options()) as renewal:
        with pytest.raises(Refused):
            await renewal.send_input(b"1")


async def test_what_is_held_for_a_source_that_takes_no_input_is_lost(
    autojump_clock: object,
) -> None:
    studio = Studio()

    @asynccontextmanager
    async def opener(before: Predecessor) -> AsyncGenerator[Line]:
        if before.source is not None:
            await trio.sleep(1)
            yield Line(2, None, 0.0)
        else:
            async with studio(before) as listener:
                yield listener

    async with open_renewal(opener, options=options()) as renewal:
        with renewal.observe(InputLost) as (_, events):
            studio.newest.lose()
            await wait_all_tasks_blocked()
            await renewal.send_input(b"1")
            await renewal.send_input(b"23")
            await trio.sleep(5)
            said = (await events.receive()).event
            assert (said.pieces, said.bytes, said.why) == (2, 3, "not-taken")


async def test_a_piece_that_is_refused_is_lost_alone(autojump_clock: object) -> None:
    studio = Studio()
    async with open_renewal(studio, options=options()) as renewal:
        with renewal.observe(InputLost) as (_, events):
            studio.newest.failure = Refused("no")
            await send(renewal, 1, 3)
            await wait_all_tasks_blocked()
            assert (await events.receive()).event.why == "refused"
        assert studio.heard == [numbers(2, 3)]
        assert renewal.state.status == "ready"


async def test_a_source_that_fails_under_a_piece_is_replaced(autojump_clock: object) -> None:
    studio = Studio()
    async with open_renewal(studio, options=options()) as renewal:
        with renewal.observe(InputLost) as (_, events):
            await trio.sleep(10)
            studio.newest.failure = OSError("cable")
            await send(renewal, 1, 3)
            await trio.sleep(5)
            assert (await events.receive()).event.why == "source-lost"
        assert studio.heard == [[], numbers(2, 3)]


async def test_a_piece_that_is_not_taken_in_time_costs_its_source_its_place(
    autojump_clock: object,
) -> None:
    studio = Studio(taking=1000.0)
    async with open_renewal(studio, options=options(reply_timeout=5.0)) as renewal:
        await send(renewal, 1, 2)
        await trio.sleep(3)
        studio.taking = 0.0
        await trio.sleep(10)
        assert studio.heard == [[], numbers(2, 2)]
        assert renewal.statistics().input.lost_pieces == 1


async def test_a_defect_under_a_piece_is_terminal_and_what_is_held_is_counted(
    autojump_clock: object,
) -> None:
    studio = Studio(taking=1.0)
    defect = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug") as caught:
        async with open_renewal(studio, options=options()) as renewal:
            studio.newest.failure = defect
            await send(renewal, 1, 3)
            await trio.sleep_forever()
    assert caught.value is defect
    assert trio.current_time() == 1
    told = renewal.statistics().input
    assert (told.lost_pieces, told.held_pieces, told.held_bytes) == (3, 0, 0)
    with pytest.raises(Closed):
        await renewal.send_input(b"1")


async def test_what_a_failure_loses_names_the_source_it_was_being_sent_to_and_not_the_one_on_air(
    autojump_clock: object,
) -> None:
    studio = Studio(taking=20.0)
    channel = EventChannel()
    with channel.subscribe(InputLost) as events:
        with pytest.raises(ValueError, match="a bug"):
            async with open_renewal(studio, options=options(), events=channel) as renewal:
                await send(renewal, 1, 3)
                await renewal.renew("settings")
                assert renewal.state.on_air is not None
                assert renewal.state.on_air.source.id == "line-2"
                studio.newest.lose(ValueError("a bug"))
                await trio.sleep_forever()
        channel.end()
        told = [each.event async for each in events]
    assert [
        (None if each.source is None else each.source.id, each.pieces, each.why) for each in told
    ] == [("line-1", 1, "source-lost"), (None, 2, "no-source")]
    assert renewal.statistics().input.lost_pieces == 3


async def test_at_close_what_is_held_is_still_sent(autojump_clock: object) -> None:
    studio = Studio(taking=2.0)
    async with open_renewal(studio, options=options()) as renewal:
        await send(renewal, 1, 3)
        assert (await renewal.close()).complete
        assert trio.current_time() == 6
        assert studio.heard == [numbers(1, 3)]
        with pytest.raises(Closed):
            await renewal.send_input(b"1")


async def test_at_the_end_of_the_budget_of_close_the_rest_is_named_lost(
    autojump_clock: object,
) -> None:
    studio = Studio(taking=4.0)
    channel = EventChannel()
    with channel.subscribe(InputLost) as events:
        async with open_renewal(studio, options=options(), events=channel) as renewal:
            await send(renewal, 1, 9)
        assert trio.current_time() == 10
        assert studio.heard == [numbers(1, 2)]
        channel.end()
        said = [(each.event.pieces, each.event.why) async for each in events]
    assert said == [(1, "source-lost"), (6, "no-source")]
    told = renewal.statistics().input
    assert (told.delivered_pieces, told.lost_pieces, told.held_pieces) == (2, 7, 0)


async def test_at_close_nothing_waits_for_a_source_that_will_not_come(
    autojump_clock: object,
) -> None:
    studio = Studio()
    async with open_renewal(studio, options=options()) as renewal:
        await send(renewal, 1, 1)
        await trio.sleep(10)
        studio.newest.lose()
        await wait_all_tasks_blocked()
        await send(renewal, 2, 3)
    assert trio.current_time() == 10
    assert renewal.statistics().input.lost_pieces == 2


async def test_after_the_last_source_what_is_held_is_lost_and_no_more_is_taken(
    autojump_clock: object,
) -> None:
    studio = Studio()
    async with open_renewal(studio, options=options()) as renewal:
        studio.newest.lose()
        await wait_all_tasks_blocked()
        await send(renewal, 1, 2)
        await renewal.stop_renewal()
        await wait_all_tasks_blocked()
        assert renewal.statistics().input.lost_pieces == 2
        with pytest.raises(SessionRetired):
            await renewal.send_input(b"1")


async def test_after_it_has_failed_what_is_held_is_lost_and_no_more_is_taken(
    autojump_clock: object,
) -> None:
    studio = Studio(taking=100.0)
    with pytest.raises(SourcesExhausted):
        async with open_renewal(studio, options=options(max_failures=1)) as renewal:
            await send(renewal, 1, 2)
            studio.newest.lose()
            with trio.CancelScope(shield=True):
                await wait_all_tasks_blocked()
                with pytest.raises(Failed):
                    await renewal.send_input(b"1")
    assert renewal.statistics().input.lost_pieces == 2


async def play(order: Order) -> None:
    """Let a source that is in the middle of a piece meet all of it, in this order."""
    studio = Studio(taking=1.0)
    sent: list[bytes] = []

    async def say(renewal: Renewal[Listener]) -> None:
        for data in numbers(10 + len(sent), 12 + len(sent)):
            with contextlib.suppress(Closed):
                await renewal.send_input(data)
                sent.append(data)

    async def ask(renewal: Renewal[Listener]) -> None:
        with contextlib.suppress(Closed):
            await renewal.renew("a switch")

    async with trio.open_nursery() as nursery:
        async with open_renewal(studio, options=options(first_pause=0.1)) as renewal:
            await say(renewal)
            await trio.sleep(0.5)
            studio.open_delay = 0.0
            actions = {
                "lose": studio.newest.lose,
                "say": functools.partial(say, renewal),
                "switch": functools.partial(ask, renewal),
                "close": renewal.close,
            }
            await order.play(actions, nursery)
            await trio.sleep(10)
        told = renewal.statistics().input
        heard = [data for each in studio.heard for data in each]
        assert heard == sorted(set(heard))
        assert (told.held_pieces, told.held_bytes) == (0, 0)
        assert told.delivered_pieces == len(heard)
        assert told.delivered_pieces + told.lost_pieces == len(sent)
        assert told.lost_pieces <= 1 or "close" in str(order)


async def steady(simulation: Simulation) -> None:
    """Somebody who sends is cancelled somewhere: each piece is accepted, or it is not."""
    studio = Studio(lifetime=12.0, taking=0.1)
    accepted = 0
    async with open_renewal(studio, options=options(), world=simulation.world) as renewal:
        with simulation.cancelling():
            for data in numbers(1, 8):
                await renewal.send_input(data)
                accepted += 1
                await trio.sleep(1)
        await trio.sleep(5)
        heard = [data for each in studio.heard for data in each]
        assert heard == numbers(1, accepted)
        assert renewal.statistics().input.lost_pieces == 0


def test_a_sender_cancelled_at_every_checkpoint_has_sent_what_was_accepted() -> None:
    assert for_every_checkpoint(steady) >= 15


@pytest.mark.parametrize("first", range(4))
async def test_in_whatever_order_things_meet_no_piece_is_sent_twice_or_out_of_order(
    first: int, autojump_clock: object
) -> None:
    for order in orders("lose", "say", "switch", "close")[first::4]:
        await play(order)


async def test_input_that_a_terminal_failure_loses_is_told_before_the_failure(
    autojump_clock: object,
) -> None:
    studio, channel = Studio(taking=5.0), EventChannel()
    renewal = None
    with channel.subscribe() as events, pytest.raises((ZeroDivisionError, ExceptionGroup)):
        async with open_renewal(studio, options=options(), events=channel) as renewal:
            for piece in (b"one", b"two", b"three"):
                await renewal.send_input(piece)
            await wait_all_tasks_blocked()
            renewal._owner.fail(ZeroDivisionError())
            told = []
            with contextlib.suppress(trio.WouldBlock):
                while True:
                    told.append(events.receive_nowait().event)
            names = [type(each).__name__ for each in told]
            assert names.index("RenewalFailed") > max(
                place for place, name in enumerate(names) if name == "InputLost"
            )
            lost = [each for each in told if isinstance(each, InputLost)]
            assert [(each.pieces, each.bytes, each.why) for each in lost] == [
                (1, 3, "source-lost"),
                (2, 8, "no-source"),
            ]
    assert renewal is not None
    assert renewal.statistics().input.lost_pieces == 3
    assert renewal.statistics().input.delivered_pieces == 0
