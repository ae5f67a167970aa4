"""Two renewals in one application: one channel, one order of events, one picture."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from itertools import pairwise

import pytest
import trio
from chain_stage import Token, scene, tokens, until
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Failed
from trio_reactor.events import Envelope, Event
from trio_reactor.renewal import (
    OpenFailed,
    Renewal,
    RenewalOptions,
    SourceOpener,
    SourcesExhausted,
    open_renewal,
)
from trio_reactor.renewal.events import (
    HandedOver,
    OnAir,
    RenewalClosed,
    RenewalFailed,
    SourceOpened,
    SourceOpening,
)
from trio_reactor.renewal.simulation import SimulatedProvider, SimulationOptions
from trio_reactor.renewal.source import Predecessor, Source
from trio_reactor.renewal.timeline import renewal_timeline
from trio_reactor.testing import Faults, Plan
from trio_reactor.timeline import render_svg
from trio_reactor.world import SeededWorld

OPTIONS = RenewalOptions(lead=10.0, jitter=0.0)


class Applause(Event, frozen=True):
    """Something that the application itself has to say."""


class Application:
    """Whatever has a channel: it hears everything, in one order."""

    def __init__(self) -> None:
        self.world = SeededWorld(1)
        self.channel = EventChannel(world=self.world)
        self._everything = self.channel.subscribe(capacity=65_536)

    def open(
        self, name: str, opener: SourceOpener | None = None
    ) -> contextlib.AbstractAsyncContextManager[Renewal]:
        provider = SimulatedProvider(
            self.world, SimulationOptions(lifetime=20.0, sound=False), faults=Faults(Plan({}))
        )
        return open_renewal(
            opener or provider,
            options=OPTIONS,
            events=self.channel,
            world=self.world,
            name=name,
        )

    def heard(self) -> list[Envelope[Event]]:
        return drained(self._everything)


def drained(events: Subscription[Event]) -> list[Envelope[Event]]:
    """Everything that is there to be received now."""
    told: list[Envelope[Event]] = []
    with contextlib.suppress(trio.WouldBlock, trio.EndOfChannel, Failed):
        while True:
            told.append(events.receive_nowait())
    return told


@contextlib.asynccontextmanager
async def breaks_after_the_first(previous: Predecessor) -> AsyncGenerator[Source]:
    """An opener whose second source is refused for good."""
    await trio.lowlevel.checkpoint()
    if previous.source is not None:
        raise OpenFailed("there is no more", permanent=True)
    yield Token("only", lifetime=20.0)


async def play(renewal: Renewal, scenes: int) -> None:
    """Ask for scenes and take their pictures, always one ahead."""
    frames = 0

    async def watch() -> None:
        nonlocal frames
        async for _ in renewal.video:
            frames += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        for number in range(scenes):
            await renewal.enqueue(scene(25))
            await until(lambda number=number: frames > 25 * (number - 1))
        await until(lambda: frames == 25 * scenes)
        nursery.cancel_scope.cancel()


async def test_one_order_holds_what_both_say_each_under_its_name(autojump_clock: object) -> None:
    application = Application()
    async with (
        application.open("stage") as stage,
        application.open("lobby") as lobby,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(play, stage, 30)
        nursery.start_soon(play, lobby, 30)
    told = application.heard()

    assert [each.seq for each in told] == list(range(1, len(told) + 1))
    assert [each.clock for each in told] == sorted(each.clock for each in told)
    assert {each.handle for each in told} == {"stage", "lobby"}
    turns = sum(one.handle != other.handle for one, other in pairwise(told))
    assert turns > 20, (
        "what they say is told in the order in which it happened, not handle by handle"
    )
    for name in ("stage", "lobby"):
        own = [each.event for each in told if each.handle == name]
        assert isinstance(own[0], SourceOpening)
        assert isinstance(own[-1], RenewalClosed)
        # Each counts its own sources, whatever the other has opened meanwhile.
        opened = [event.source.incarnation for event in own if isinstance(event, SourceOpened)]
        assert opened == list(range(1, len(opened) + 1))
        assert any(isinstance(event, HandedOver) for event in own)


async def test_observers_of_one_hear_nothing_of_the_other(autojump_clock: object) -> None:
    application = Application()
    async with application.open("stage") as stage, application.open("lobby") as lobby:
        with stage.observe() as (_, of_stage), lobby.observe(OnAir) as (_, of_lobby):
            await trio.sleep(60)
            told = drained(of_stage)
            assert told
            assert {each.handle for each in told} == {"stage"}
            assert {each.handle for each in drained(of_lobby)} == {"lobby"}


async def test_one_that_closes_ends_its_own_observers_and_nobody_elses(
    autojump_clock: object,
) -> None:
    application = Application()
    async with application.open("lobby") as lobby:
        async with application.open("stage") as stage:
            of_stage = stage.events.subscribe()
            of_lobby = lobby.events.subscribe()
            of_both = application.channel.subscribe()
        assert isinstance(drained(of_stage)[-1].event, RenewalClosed)
        with pytest.raises(trio.EndOfChannel):
            of_stage.receive_nowait()

        assert not application.channel.statistics().ended
        assert not lobby.events.ended
        drained(of_both)
        drained(of_lobby)
        await trio.sleep(60)
        assert {each.handle for each in drained(of_lobby)} == {"lobby"}
        assert {each.handle for each in drained(of_both)} == {"lobby"}
        with pytest.raises(trio.WouldBlock):
            of_both.receive_nowait()

    # The application's channel is the application's to end.
    assert not application.channel.statistics().ended
    application.channel.publish(Applause())
    assert [type(each.event) for each in drained(of_both)][-1] is Applause


async def test_one_that_fails_fails_its_own_observers_and_the_other_goes_on(
    autojump_clock: object,
) -> None:
    application = Application()
    async with application.open("lobby") as lobby:
        of_both = application.channel.subscribe(capacity=4096)
        of_stage: Subscription[Event] | None = None
        with pytest.raises(SourcesExhausted) as raised:
            async with application.open("stage", breaks_after_the_first) as stage:
                of_stage = stage.events.subscribe()
                await trio.sleep_forever()
        assert of_stage is not None
        assert isinstance(drained(of_stage)[-1].event, RenewalFailed)
        with pytest.raises(Failed) as told:
            of_stage.receive_nowait()
        assert told.value.__cause__ is raised.value
        assert "stage" in str(told.value)

        assert not application.channel.statistics().ended
        assert lobby.state.status == "ready"
        drained(of_both)
        await play(lobby, 3)
        assert {each.handle for each in drained(of_both)} == {"lobby"}


async def test_a_third_can_take_the_name_of_one_that_is_over(autojump_clock: object) -> None:
    application = Application()
    async with application.open("stage"):
        pass
    async with application.open("stage", tokens(Token("again", None))) as again:
        with again.observe() as (state, events):
            assert state.status == "ready"
            await wait_all_tasks_blocked()
            with pytest.raises(trio.WouldBlock):
                events.receive_nowait()


async def test_one_picture_shows_both_each_in_lanes_of_its_own(autojump_clock: object) -> None:
    application = Application()
    async with (
        application.open("stage") as stage,
        application.open("lobby") as lobby,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(play, stage, 16)
        nursery.start_soon(play, lobby, 16)
    builder = renewal_timeline("An evening")
    told = application.heard()
    for envelope in told:
        builder.feed(envelope)
    timeline = builder.build()

    names = [lane.name for lane in timeline.lanes]
    assert names[:3] == ["stage: output", "stage: source 1", "stage: source 2"]
    ours = [name for name in names if name.startswith("lobby: ")]
    assert ours[:2] == ["lobby: output", "lobby: source 1"]
    assert names[-len(ours) :] == ours, "the lanes of a handle are together"
    for name in ("stage", "lobby"):
        on_air = [
            span.by
            for span in timeline.spans
            if span.lane == f"{name}: output" and span.kind == "active"
        ]
        assert on_air[:2] == [f"{name}: source 1", f"{name}: source 2"]
    handed_over = [mark for mark in timeline.marks if mark.kind == "handover"]
    assert len(handed_over) == sum(isinstance(each.event, HandedOver) for each in told)
    assert all(
        mark.lane is not None
        and mark.to is not None
        and mark.lane.split(":")[0] == mark.to.split(":")[0]
        for mark in handed_over
    )
    svg = render_svg(timeline)
    assert "stage: output" in svg
    assert "lobby: output" in svg


async def test_a_picture_of_one_alone_does_not_repeat_its_name(autojump_clock: object) -> None:
    application = Application()
    async with application.open("stage"), application.open("lobby"):
        await trio.sleep(1)
    builder = renewal_timeline("The stage")
    for envelope in application.heard():
        if envelope.handle == "stage":
            builder.feed(envelope)
    assert [lane.name for lane in builder.build().lanes] == ["output", "source 1"]
