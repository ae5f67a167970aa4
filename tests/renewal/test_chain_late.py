"""What comes late, or twice, of what is over: it changes nothing, and nothing of it is kept."""

from __future__ import annotations

import gc
import weakref

import pytest
import trio
from chain_stage import Stage, scene, until

from trio_reactor.errors import Lost, Overflow
from trio_reactor.renewal.events import ClipChanged, ClipLost, OnAir, Recovered, Replaced
from trio_reactor.renewal.source import Clip, ClipEnded, ClipStarted, ClipUpdated


async def test_late_words_of_a_clip_that_was_reported_lost_are_not_said(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        accepted = await renewal.enqueue(scene(5))
        await trio.sleep(5)
        source = stage.provider.newest
        source.forget(accepted.clip)
        source.lose_connection()
        await until(lambda: bool(stage.said(ClipLost)))
        await until(lambda: bool(stage.said(Recovered)))
        before = len(stage.envelopes)
        source.tell(ClipStarted(accepted.clip, 5))
        source.tell(ClipEnded(accepted.clip, 5))
        await trio.sleep(1)
        assert [each.event for each in stage.envelopes[before:]] == []


async def test_what_a_source_says_twice_is_said_once(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open():
        source = stage.provider.newest
        for event in (
            ClipUpdated(Clip("a", "queued")),
            ClipUpdated(Clip("a", "ready", 2)),
            ClipStarted("a", 2),
            ClipEnded("a", 2),
        ):
            source.tell(event)
            source.tell(event)
        await trio.sleep(1)
        assert len(stage.said(ClipChanged)) == 4


async def test_an_activation_without_an_answer_is_no_fault_of_a_source_that_recovered_since(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open():
        await trio.sleep(40)
        source = type(stage.provider.newest)
        told, asked = source.set_autoplay, 0

        async def silent_once(self, enabled, /):  # type: ignore[no-untyped-def]
            nonlocal asked
            asked += 1
            if asked == 1:
                await trio.sleep_forever()
            await told(self, enabled)

        monkeypatch.setattr(source, "set_autoplay", silent_once)
        stage.provider.newest.die()
        await until(lambda: len(stage.said(OnAir)) == 2)
        stage.provider.newest.lose_connection()
        await until(lambda: bool(stage.said(Recovered)))
        await trio.sleep(20)
        assert [said.why for said in stage.said(Replaced)] == ["died"]


async def test_nothing_of_a_dead_source_is_kept_alive_by_its_successor(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await trio.sleep(40)
        assert renewal._chain.on_air is not None
        slot, book = weakref.ref(renewal._chain.on_air), weakref.ref(renewal._chain.on_air.book)
        stage.provider.newest.die(Lost("gone"))
        await until(lambda: len(stage.said(OnAir)) == 2)
        await trio.sleep(60)
        gc.collect()
        assert slot() is None
        assert book() is None
        assert renewal._chain.last is not None
        assert renewal._chain.last.ref.id == "simulated-2"


async def test_a_handle_to_resume_from_that_cannot_be_read_is_none(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None, resumable=True)
    async with stage.open():

        def unreadable(self: object) -> str:
            raise Lost("no handle now")

        monkeypatch.setattr(
            "trio_reactor.renewal.simulation.source.SimulatedSource.resumption",
            property(unreadable),
        )
        for number in (2, 3):  # the second says so already when it is asked what it can do
            stage.provider.newest.die()
            await until(lambda number=number: len(stage.said(OnAir)) == number)  # type: ignore[misc]
            assert stage.provider.newest.predecessor.resumption is None


async def test_a_defect_of_the_handle_to_resume_from_is_terminal_and_nothing_is_opened_after_it(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0)
    with pytest.raises(ZeroDivisionError):
        async with stage.open():

            def broken(self: object) -> str:
                raise ZeroDivisionError

            monkeypatch.setattr(
                "trio_reactor.renewal.simulation.source.SimulatedSource.resumption",
                property(broken),
            )
            await trio.sleep(70)
    assert stage.provider.opened == 1


async def test_the_block_raises_the_failure_alone_although_the_applications_channel_has_ended(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, renewal={"max_frames": 5})
    with pytest.raises(Overflow):
        async with stage.open() as renewal:
            await renewal.enqueue(scene(100))
            stage.channel.end()
            await trio.sleep(50)
