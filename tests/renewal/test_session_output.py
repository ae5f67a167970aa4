"""The one output of a session, across all its sources."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, scene, until

from trio_reactor.errors import Busy, Failed, Overflow
from trio_reactor.renewal import AudioFrame, LossesUnknown, VideoFrame
from trio_reactor.renewal.events import HandedOver, Prepared, Recovered, RenewalFailed, Replaced
from trio_reactor.renewal.simulation import read_stamp
from trio_reactor.testing import Fails


async def test_one_output_runs_across_handovers_in_order_without_a_gap(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=20.0, renewal={"lead": 12.0})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        nursery.start_soon(stage.watch, renewal)

        async def feed() -> None:
            for number in range(60):
                await renewal.enqueue(scene(25))
                await until(lambda number=number: len(stage.stamps) > 25 * (number - 1))

        await feed()
        await until(lambda: len(stage.stamps) == 60 * 25)
        nursery.cancel_scope.cancel()
    assert len(stage.said(HandedOver)) > 5
    assert stage.stamps == sorted(stage.stamps)
    gaps = [b - a for a, b in zip(stage.at[5:], stage.at[6:], strict=False)]
    assert max(gaps) <= 0.04 + 0.01 + 1e-6
    assert all(said.tail.frames_received == 25 for said in stage.said(HandedOver))


async def test_what_was_queued_at_a_handover_comes_before_the_next_sources_frames(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await trio.sleep(48.5)
        await renewal.enqueue(scene(20))
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(20))
        await until(lambda: bool(stage.said(HandedOver)))
        assert stage.said(HandedOver)[0].tail.frames_queued == 20
        await trio.sleep(2)
        assert renewal.pressure().frames == 40
        stamps = [read_stamp(renewal.video.receive_nowait()) for _ in range(40)]
        assert [stamp.source for stamp in stamps] == [1] * 20 + [2] * 20


async def test_an_output_that_is_left_undrained_fails_and_names_the_bound(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, sound=True, renewal={"max_samples": 48_000})
    with pytest.raises(Overflow, match="max_samples"):
        async with stage.open() as renewal:
            await renewal.enqueue(scene(100))
            await trio.sleep_forever()
    assert stage.said(RenewalFailed)[0].failure.type == "Overflow"


async def test_one_reader_at_a_time_and_a_later_one_goes_on(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        nursery.start_soon(stage.watch, renewal)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Busy):
            await renewal.video.receive()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await renewal.enqueue(scene(5))
            await trio.sleep(1)
            assert read_stamp(await renewal.video.receive()).frame == 0


async def test_frames_are_the_objects_that_the_source_pushed(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None, sound=True)
    async with stage.open() as renewal:
        pushed: list[VideoFrame | AudioFrame | None] = []
        media = stage.provider.newest._connection.media  # type: ignore[union-attr]
        give = type(media).give

        def noted(self, picture, sound, *, drop):  # type: ignore[no-untyped-def]
            pushed.extend((picture, sound))
            give(self, picture, sound, drop=drop)

        monkeypatch.setattr(type(media), "give", noted)
        await renewal.enqueue(scene(1))
        picture, sound = await renewal.video.receive(), await renewal.audio.receive()
        assert pushed[0] is picture
        assert pushed[1] is sound
        assert (picture.format, sound.format) == ("gray", "s16")


async def test_pressure_counts_what_is_queued_exactly(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, sound=True)
    async with stage.open() as renewal:
        await renewal.enqueue(scene(10))
        await trio.sleep(2)
        pressure = renewal.pressure()
        assert (pressure.frames, pressure.samples) == (10, 10 * 1920 * 2)
        assert pressure.bytes == 10 * (32 * 18 + 1920 * 2 * 2)


async def test_losses_count_while_a_source_feeds_the_output_and_each_generation_once(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        source = stage.provider.newest
        source.drop(3)
        await renewal.enqueue(scene(10))
        await trio.sleep(2)
        assert renewal.pressure().frames_lost == 3
        source.lose_connection()
        await until(lambda: bool(stage.said(Recovered)))
        assert renewal.pressure().frames_lost == 3
        source.drop(2)
        await renewal.enqueue(scene(10))
        await trio.sleep(2)
        assert renewal.pressure().frames_lost == 5
        await until(lambda: bool(stage.said(Prepared)))
        stage.provider.newest.drop(4)
        await renewal.enqueue(scene(10))
        await until(lambda: bool(stage.said(HandedOver)))
        assert stage.said(HandedOver)[0].tail.frames_dropped == 5
        await trio.sleep(2)
        assert renewal.pressure().frames_lost == 9
    assert renewal.pressure().frames_lost == 9


async def test_a_total_that_cannot_be_told_is_never_zero(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, faults={"losses": {number: Fails() for number in range(1, 9)}})
    async with stage.open() as renewal:
        with pytest.raises(LossesUnknown):
            renewal.pressure()
        stage.provider.newest.die()
        await until(lambda: bool(stage.said(Replaced)))
        assert stage.said(Replaced)[0].tail.frames_dropped is None
        with pytest.raises(LossesUnknown):
            renewal.pressure()


async def test_frames_of_a_clip_that_died_add_up_with_what_is_told(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, renewal={"max_frames": 1000})
    async with stage.open() as renewal:
        await renewal.enqueue(scene(100))
        source = stage.provider.newest
        await trio.sleep(1)
        source.drop(5)
        await trio.sleep(1)
        source.lose_connection()
        await until(lambda: bool(stage.said(Recovered)))
        await trio.sleep(5)
        pressure = renewal.pressure()
        assert pressure.frames + pressure.frames_lost == 100
        assert pressure.frames_lost > 5  # what went into the void counts too


async def test_a_reader_gets_what_was_queued_before_the_failure(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, faults={"open": {2: Fails("defect")}})
    frames = 0
    with pytest.raises(RuntimeError, match="a defect"):
        async with stage.open() as renewal:
            await renewal.enqueue(scene(10))
            with trio.CancelScope(shield=True):
                await trio.sleep(55)
                with pytest.raises(Failed):
                    while True:
                        await renewal.video.receive()
                        frames += 1
    assert frames == 10


async def test_an_idle_chain_wakes_nobody(autojump_clock: object) -> None:
    class Steps(trio.abc.Instrument):
        count = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += 1

    stage = Stage(lifetime=None, cut_after=None)
    async with stage.open():
        await trio.sleep(5)
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        await trio.sleep(80_000)
        trio.lowlevel.remove_instrument(steps)
    assert steps.count == 1  # this task's own waking
