"""What an application sets is kept for every later source, and is the same on each of them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from chain_stage import Stage, scene, until

from trio_reactor.errors import Lost, Refused
from trio_reactor.renewal import QueueFull, Renewal, SessionRecovering, SourcesExhausted
from trio_reactor.renewal.events import (
    HandedOver,
    OnAir,
    OpenFailure,
    Prepared,
    Recovered,
    Recovering,
    Replaced,
    SourceOpened,
)
from trio_reactor.renewal.simulation import SimulatedSource, SimulationOptions
from trio_reactor.renewal.slot.settings import MAX_WISHES, Setting
from trio_reactor.testing import Slow


def test_a_refused_setting_gives_way_to_what_was_wanted_before() -> None:
    setting = Setting(1)
    wish = setting.want(2)
    assert setting.wanted == 2
    with pytest.raises(Refused), setting.telling(wish):
        raise Refused("no")
    assert setting.wanted == 1


def test_a_refused_setting_does_not_displace_a_newer_one() -> None:
    setting = Setting(1)
    wish = setting.want(2)
    with setting.telling(setting.want(3)):
        pass
    with pytest.raises(Refused), setting.telling(wish):
        raise Refused("no")
    assert setting.wanted == 3


def test_of_two_settings_that_are_both_refused_neither_is_wanted() -> None:
    setting = Setting(1)
    for wish in (setting.want(2), setting.want(2)):
        with pytest.raises(Refused), setting.telling(wish):
            raise Refused("no")
    assert setting.wanted == 1


def test_a_setting_that_could_not_be_told_yet_stays_wanted() -> None:
    setting = Setting(1)
    with pytest.raises(Lost), setting.telling(setting.want(2)):
        raise Lost("not now")
    assert setting.wanted == 2


def test_settings_that_are_never_told_are_forgotten_but_for_the_newest() -> None:
    setting = Setting(0)
    for number in range(1, 10_000):
        setting.want(number)
    assert setting.wanted == 9_999
    assert len(setting._wishes) == MAX_WISHES


async def test_a_refused_canvas_is_not_told_to_any_later_source(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:

        async def refuse(self: object, width: int, height: int, /) -> None:
            await trio.lowlevel.checkpoint()
            raise Refused("too large", outcome="replied")

        monkeypatch.setattr(type(stage.provider.newest), "set_canvas", refuse)
        with pytest.raises(Refused):
            await renewal.set_canvas(100_000, 100_000)
        await until(lambda: bool(stage.said(Prepared)))
        assert not stage.said(OpenFailure)


async def test_who_sets_what_is_refused_hears_it_also_while_the_source_is_told_to_play(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    told = SimulatedSource.set_autoplay

    async def slowly(self: SimulatedSource, enabled: bool, /) -> None:
        await trio.sleep(2)
        await told(self, enabled)

    async def refuse(self: SimulatedSource, width: int, height: int, /) -> None:
        await trio.lowlevel.checkpoint()
        raise Refused("too large", outcome="replied")

    monkeypatch.setattr(SimulatedSource, "set_autoplay", slowly)
    monkeypatch.setattr(SimulatedSource, "set_canvas", refuse)
    async with stage.open() as renewal:
        await trio.sleep(1)
        with pytest.raises(Refused):
            await renewal.set_canvas(100_000, 100_000)
        await until(lambda: stage.provider.newest.autoplay)
        assert not stage.said(Recovering)


async def test_a_canvas_that_is_set_while_the_next_source_is_set_up_reaches_it_in_time(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"media": {2: Slow(3.0)}})
    async with stage.open() as renewal:
        await until(lambda: renewal.state.next is not None)
        await trio.sleep(1)
        assert renewal.state.next is not None
        assert renewal.state.next.phase == "opening"
        await renewal.set_canvas(320, 240)
        await until(lambda: bool(stage.said(Prepared)))
        assert stage.provider.newest.canvas == (320, 240)


async def test_a_canvas_that_is_set_while_a_source_is_prepared_is_told_without_its_caller(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"request": {6: Slow(1.0)}})
    async with stage.open() as renewal:
        await until(lambda: bool(stage.said(Prepared)))
        with trio.move_on_after(0.5) as scope:
            await renewal.set_canvas(320, 240)
        assert scope.cancelled_caught
        await until(lambda: stage.provider.newest.canvas == (320, 240), within=2.0)


async def test_of_two_who_tell_a_source_to_play_or_not_the_later_one_counts(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        source = type(stage.provider.newest)
        told = source.set_autoplay

        async def slow_to_play(self, enabled, /):  # type: ignore[no-untyped-def]
            if enabled:
                await trio.sleep(2)
            await told(self, enabled)

        await trio.sleep(40)
        monkeypatch.setattr(source, "set_autoplay", slow_to_play)
        stage.provider.newest.die()
        await until(lambda: len(stage.said(OnAir)) == 2)
        await renewal.set_autoplay(False)
        await trio.sleep(5)
        assert not stage.provider.newest.autoplay


async def test_what_is_set_while_a_source_recovers_is_told_before_it_has_recovered(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        source = type(stage.provider.newest)
        told = source.set_autoplay

        async def slow(self, enabled, /):  # type: ignore[no-untyped-def]
            await trio.sleep(2)
            await told(self, enabled)

        await trio.sleep(40)
        monkeypatch.setattr(source, "set_autoplay", slow)
        stage.provider.newest.lose_connection()
        await trio.sleep(1)
        with pytest.raises(SessionRecovering):
            await renewal.set_autoplay(False)
        with pytest.raises(SessionRecovering):
            await renewal.set_canvas(320, 240)
        await until(lambda: bool(stage.said(Recovered)))
        assert not stage.provider.newest.autoplay
        assert stage.provider.newest.canvas == (320, 240)


async def test_a_prepared_source_takes_a_vacant_place_at_once_and_plays_after_it_was_told(
    autojump_clock: object, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0, renewal={"max_frames": 1000})
    told: list[tuple[str, str, float]] = []

    def note(name: str) -> None:
        asked = getattr(SimulatedSource, name)

        async def asking(self: SimulatedSource, *given: Any) -> None:
            await asked(self, *given)
            told.append((self.id, name, trio.current_time()))

        monkeypatch.setattr(SimulatedSource, name, asking)

    note("set_canvas")
    note("set_autoplay")
    async with stage.open() as renewal:
        nursery.start_soon(stage.watch, renewal)
        await trio.sleep(48)
        await renewal.enqueue(scene(500))  # keeps the first one on air
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(5))
        await trio.sleep(1)

        async def set_canvas() -> None:
            await renewal.set_canvas(64, 36)

        slow = SimulationOptions(reply_delay=2.0, sound=False)
        stage.provider.live["simulated-2"].options = slow
        # It is on its way to the next source when the one on air dies.
        nursery.start_soon(set_canvas)
        await until(lambda: ("simulated-1", "set_canvas") in [each[:2] for each in told])
        stage.provider.live["simulated-1"].die()
        died = trio.current_time()
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert stage.said(OnAir)[-1].gap == 0.0
        assert trio.current_time() - died < 0.1
        await until(lambda: ("simulated-2", "set_autoplay") in [each[:2] for each in told])
        names = [name for source, name, _ in told if source == "simulated-2"]
        assert names.index("set_canvas") < names.index("set_autoplay")
        await until(lambda: [stamp.source for stamp in stage.stamps].count(2) == 5)
        first = next(
            at for stamp, at in zip(stage.stamps, stage.at, strict=True) if stamp.source == 2
        )
        assert first > max(at for _, name, at in told if name == "set_canvas")


async def test_a_source_that_refuses_what_was_set_is_not_put_on_air_and_counts_as_failed(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0, renewal={"max_failures": 3})
    with pytest.raises(SourcesExhausted) as caught:
        async with stage.open() as renewal:
            await renewal.set_canvas(64, 36)

            async def refuse(self: object, width: int, height: int, /) -> None:
                await trio.lowlevel.checkpoint()
                raise Refused("too large now", outcome="replied")

            monkeypatch.setattr(SimulatedSource, "set_canvas", refuse)
            await trio.sleep(200)
    assert isinstance(caught.value.__cause__, Refused)
    failed = stage.said(OpenFailure)
    assert [said.consecutive for said in failed] == [1, 2, 3]
    assert {said.failure.type for said in failed} == {"Refused"}
    assert [said.source.id for said in stage.said(OnAir)] == ["simulated-1"]


async def prepared(stage: Stage, renewal: Renewal) -> None:
    """Let the next source be ready to take over, but for the source on air, which plays."""
    await trio.sleep(48)
    await renewal.enqueue(scene(150))
    await until(lambda: bool(stage.said(Prepared)))
    await renewal.enqueue(scene(5))
    await trio.sleep(1)


@pytest.mark.parametrize("seconds", [0.0, 0.005, 0.015, 0.025])
async def test_a_canvas_whose_caller_leaves_at_any_time_delays_no_handover(
    autojump_clock: object, seconds: float
) -> None:
    stage = Stage(lifetime=60.0, renewal={"max_frames": 1000})
    async with stage.open() as renewal:
        await prepared(stage, renewal)
        with trio.move_on_after(seconds):
            await renewal.set_canvas(64, 36)
        await trio.sleep(0.5)
        assert [source.canvas for source in stage.provider.live.values()] == [(64, 36)] * 2
        await until(lambda: bool(stage.said(HandedOver)))
        assert not stage.said(Replaced)


async def test_a_canvas_that_is_set_while_the_source_on_air_recovers_is_told_to_the_next(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, renewal={"max_frames": 1000}, faults={"reconnect": {1: Slow(1.0)}})
    async with stage.open() as renewal:
        await prepared(stage, renewal)
        stage.provider.live["simulated-1"].lose_connection()
        with pytest.raises(SessionRecovering):
            await renewal.set_canvas(64, 36)
        assert not stage.said(Recovered)
        await trio.sleep(0.5)
        assert stage.provider.newest.canvas == (64, 36)
        assert not stage.said(Recovered)
        await until(lambda: bool(stage.said(HandedOver)))
        assert not stage.said(Replaced)


async def test_whether_to_play_is_told_although_its_caller_has_left_at_once(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await until(lambda: stage.provider.newest.autoplay)
        with trio.move_on_after(0) as scope:
            await renewal.set_autoplay(False)
        assert scope.cancelled_caught
        await trio.sleep(0.1)
        assert not stage.provider.newest.autoplay


async def test_a_next_source_that_refuses_what_the_one_on_air_took_is_replaced(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0, renewal={"max_frames": 1000, "stable_after": 0.0})
    told = SimulatedSource.set_canvas

    async def refuse(self: SimulatedSource, width: int, height: int, /) -> None:
        if self.id == "simulated-2":
            await trio.lowlevel.checkpoint()
            raise Refused("too large here", outcome="replied")
        await told(self, width, height)

    monkeypatch.setattr(SimulatedSource, "set_canvas", refuse)
    async with stage.open() as renewal:
        await prepared(stage, renewal)
        await renewal.set_canvas(64, 36)  # the source on air has taken it
        await until(lambda: len(stage.said(SourceOpened)) == 3)
        (lost,) = stage.said(Recovering)
        assert (lost.source.id, lost.why, lost.on_air) == ("simulated-2", "check-failed", False)
        await until(lambda: stage.provider.newest.canvas == (64, 36))


async def test_what_was_kept_for_lack_of_room_is_told_later_and_not_wanted_once_it_is_refused(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None, renewal={"max_queue": 1}, faults={"reply": {4: Slow(4.0)}})
    asked: list[tuple[int, int]] = []

    async def refuse(self: SimulatedSource, width: int, height: int, /) -> None:
        await trio.lowlevel.checkpoint()
        asked.append((width, height))
        raise Refused("too large", outcome="replied")

    monkeypatch.setattr(SimulatedSource, "set_canvas", refuse)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await trio.sleep(1)
        nursery.start_soon(renewal.enqueue, scene(1))
        await trio.sleep(0.01)
        with pytest.raises(QueueFull):
            await renewal.set_canvas(100_000, 100_000)
        await trio.sleep(1)
        assert asked == [(100_000, 100_000)]
        assert renewal._chain.canvas.wanted is None
        assert renewal.state.status == "ready"
        assert not stage.said(Recovering)
