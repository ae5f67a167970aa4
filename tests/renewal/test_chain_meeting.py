"""A loss, a replacement that arrives, a stop and a close, in every order and also in one step."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest
import trio
from chain_stage import Stage, scene

from benchmarks.renewal_account import Account
from trio_reactor.errors import ReactorError, leaves
from trio_reactor.renewal import Renewal
from trio_reactor.renewal.events import (
    OnAir,
    RenewalClosed,
    RenewalFailed,
    RenewalStopped,
    SourceClosed,
    SourceOpened,
    SourceOpening,
)
from trio_reactor.renewal.source import Predecessor, Source
from trio_reactor.testing import Order, orders

Loss = Literal["lost and made again", "lost for good", "dead", "with a defect"]
End = Literal["close", "cancel"]

LOSSES: tuple[Loss, ...] = ("lost and made again", "lost for good", "dead")
ENDS: tuple[End, ...] = ("close", "cancel")


class Bug(Exception):
    """An adapter's."""


def every(*names: str, having: str = "") -> Iterator[Order]:
    """Every order of every selection of these, at least one; only of those with `having`, if any.

    What has no end is the same whichever end it could have had, and is played for `close` alone.
    """
    if having == "close":
        having = ""
    for length in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, length):
            if not having or having in chosen:
                yield from orders(*chosen)


class Meeting:
    """A chain whose successor arrives when it is told to, and all that meets around it."""

    def __init__(self, loss: Loss, *, exclusive: bool, yielded: bool, opened: bool) -> None:
        self.stage = Stage(
            renewal={"max_frames": 1_000},
            lifetime=12.0,
            open_delay=0.0,
            frame_rate=5.0,
            reply_delay=0.0,
            reconnect_delay=0.0,
            reconnectable=loss != "lost for good",
            exclusive=exclusive,
        )
        self.account = Account(self.stage.options)
        self._loss = loss
        self._yielded = yielded
        """Whether the one on air has given way already."""
        self._opened = opened
        """Whether the successor is at its provider already when it is still to arrive."""
        self._arrives = trio.Event()
        self.bug = Bug()
        self.struck = False
        self.opens = 0
        self.opens_at_end: int | None = None

    @asynccontextmanager
    async def _open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        self.opens += 1
        first = predecessor.cause == "first"
        if not first and not self._opened:
            await self._arrives.wait()
        async with self.stage.provider(predecessor) as source:
            if not first and self._opened:
                await self._arrives.wait()
            yield source

    def _lose(self) -> None:
        live = list(self.stage.provider.live.values())
        if not live:
            return
        match self._loss:
            case "dead":
                live[0].die()
            case "with a defect":
                live[0].crash(self.bug)
                self.struck = True
            case _:
                live[0].lose_connection(OSError("cable"))

    async def _stop(self, renewal: Renewal) -> None:
        with contextlib.suppress(ReactorError):
            await renewal.stop_renewal()
            opening = [said.source.incarnation for said in self.stage.said(SourceOpening)]
            ended = [said.source.incarnation for said in self.stage.said(SourceOpened)]
            ended += [said.source.incarnation for said in self.stage.said(SourceClosed)]
            assert set(opening) == set(ended), "it was joined"

    async def _close(self, renewal: Renewal) -> None:
        self.opens_at_end = self.opens
        with contextlib.suppress(ReactorError, ExceptionGroup):
            await renewal.close()

    async def play(self, order: Order) -> BaseException | None:
        """Let it all happen, close, and return what the block raised."""
        block, ready = trio.CancelScope(), trio.Event()
        handle: list[Renewal] = []
        raised: list[BaseException] = []

        async def live() -> None:
            try:
                with block:
                    async with self.stage.open(self._open) as renewal:
                        if not self._yielded:
                            accepted = await renewal.enqueue(scene(40))
                            self.account.requests.accepted[accepted.clip] = 1
                        handle.append(renewal)
                        await trio.sleep(2.5)  # the successor is due, and opens if it can
                        opening = self._yielded or not self.stage.provider.options.exclusive
                        assert len(self.stage.said(SourceOpening)) == 1 + opening
                        ready.set()
                        await trio.sleep_forever()
            except Exception as failure:
                if not handle:
                    raise
                raised.append(failure)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(live)
            await ready.wait()
            (renewal,) = handle
            actions: dict[str, Callable[[], object]] = {
                "loss": self._lose,
                "arrives": self._arrives.set,
                "stop": lambda: self._stop(renewal),
                "close": lambda: self._close(renewal),
                "cancel": block.cancel,
            }
            await order.play(actions, nursery)
            await trio.sleep(1.5)
            self._settled(order, renewal)
            if self.opens_at_end is None:
                self.opens_at_end = self.opens
            block.cancel()
        return raised[0] if raised else None

    def _settled(self, order: Order, renewal: Renewal) -> None:
        """What holds a while after, if it was not ended."""
        names = {name for block in order.blocks for name in block}
        if names & {"close", "cancel"} or self._loss == "with a defect":
            return
        made_again = self._loss == "lost and made again"
        on_air = renewal.state.on_air is not None
        if "loss" not in names and not self._yielded:
            assert on_air
        if "stop" not in names and "arrives" in names:
            assert renewal.state.status == "ready"
        if "stop" in names and "loss" in names and not made_again and not on_air:
            assert renewal.state.status in ("finished", "vacant")

    def judge(self) -> None:
        """What holds of every story when it is over."""
        stage, provider = self.stage, self.stage.provider
        for envelope in stage.envelopes:
            self.account.take(envelope.event)
        assert provider.live == {}
        assert provider.opened == provider.left
        assert provider.most_live <= (1 if provider.options.exclusive else 2)
        assert self.opens == self.opens_at_end, "opened after its end"
        assert len(stage.said(RenewalClosed, RenewalFailed)) == 1
        assert stage.story[-1] in ("RenewalClosed", "RenewalFailed")
        if stage.story[-1] == "RenewalClosed":
            assert self.account.report is not None
            assert self.account.report.complete
            self.account.ends(self.account.report)
        opened = {said.source for said in stage.said(SourceOpened)}
        assert {said.source for said in stage.said(OnAir)} <= opened
        assert len(stage.said(RenewalStopped)) <= 1


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("end", ENDS)
async def test_of_two_sources_that_can_live_together_in_every_order(
    autojump_clock: object, loss: Loss, end: End, part: int
) -> None:
    told = list(every("loss", "arrives", "stop", end, having=end))
    for number, order in enumerate(told[part::4]):
        meeting = Meeting(loss, exclusive=False, yielded=False, opened=number % 2 == 0)
        try:
            assert await meeting.play(order) is None
            meeting.judge()
        except BaseException as failure:
            failure.add_note(f"{order}, opened={number % 2 == 0}")
            raise


@pytest.mark.parametrize("yielded", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("end", ENDS)
async def test_of_exclusive_sources_in_every_order(
    autojump_clock: object, loss: Loss, end: End, yielded: bool
) -> None:
    for order in every("loss", "arrives", "stop", end, having=end):
        meeting = Meeting(loss, exclusive=True, yielded=yielded, opened=True)
        try:
            assert await meeting.play(order) is None
            meeting.judge()
        except BaseException as failure:
            failure.add_note(str(order))
            raise


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("end", ENDS)
async def test_after_a_defect_nothing_is_opened_in_whatever_order(
    autojump_clock: object, end: End, exclusive: bool
) -> None:
    for order in orders("loss", "arrives", "stop", end):
        meeting = Meeting("with a defect", exclusive=exclusive, yielded=False, opened=False)
        try:
            raised = await meeting.play(order)
            meeting.judge()
            told = [] if raised is None else list(leaves(raised))
            failed = "RenewalFailed" in meeting.stage.story
            assert told == ([meeting.bug] if failed or meeting.bug in told else [])
            assert failed or not meeting.struck or str(order) != "loss"
        except BaseException as failure:
            failure.add_note(str(order))
            raise
