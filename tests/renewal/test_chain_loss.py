"""Losses: reconnecting, replacing, and what is named of it."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, scene, until

from trio_reactor.errors import Failed, Lost
from trio_reactor.renewal import SessionRecovering
from trio_reactor.renewal.events import (
    ClipChanged,
    ClipLost,
    HandedOver,
    OnAir,
    Prepared,
    Recovered,
    Recovering,
    Replaced,
    SourceClosed,
    SourceOpening,
)
from trio_reactor.renewal.source import ClipEnded, GoingAway
from trio_reactor.testing import Fails, Never, Slow


async def test_a_lost_connection_is_made_again_and_gives_a_new_generation(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await trio.sleep(5)
        stage.provider.newest.lose_connection(OSError("cable"))
        assert renewal.state.status == "recovering"
        await trio.sleep(1)
        (lost,) = stage.said(Recovering)
        (found,) = stage.said(Recovered)
        assert (lost.mode, lost.why, lost.on_air) == ("reconnect", "events-lost", True)
        assert lost.failure is not None
        assert lost.failure.detail == "cable"
        assert found.generation == 2
        assert found.took == pytest.approx(0.05 + 3 * 0.01)
        assert renewal.state.status == "ready"
        assert stage.provider.newest.autoplay


async def test_media_that_ends_without_an_error_is_recovered_too(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open():
        stage.provider.newest.end_media()
        await trio.sleep(1)
        assert [(said.why, said.failure) for said in stage.said(Recovering)] == [
            ("media-lost", None)
        ]
        assert len(stage.said(Recovered)) == 1


async def test_commands_are_refused_while_a_source_recovers(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, faults={"reconnect": {1: Slow(3.0)}})
    async with stage.open() as renewal:
        stage.provider.newest.lose_connection()
        for command in (
            renewal.enqueue(scene()),
            renewal.set_autoplay(False),
            renewal.pause_and_stop(),
        ):
            with pytest.raises(SessionRecovering) as caught:
                await command
            assert caught.value.retryable
        await until(lambda: bool(stage.said(Recovered)))
        assert not stage.provider.newest.autoplay  # it was kept
        await renewal.enqueue(scene())


async def test_a_reconnect_that_fails_escalates_to_a_replacement(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, faults={"reconnect": {1: Fails("lost")}})
    async with stage.open():
        await trio.sleep(40)
        stage.provider.newest.lose_connection()
        await trio.sleep(1)
        assert [(said.mode, said.why) for said in stage.said(Recovering)] == [
            ("reconnect", "events-lost"),
            ("replace", "reconnect-failed"),
        ]
        (replaced,) = stage.said(Replaced)
        assert replaced.why == "reconnect-failed"
        assert [said.cause for said in stage.said(OnAir)] == ["first", "loss"]
        assert stage.said(OnAir)[1].gap > 0


async def test_a_reconnect_has_a_budget(autojump_clock: object) -> None:
    stage = Stage(
        lifetime=None, faults={"reconnect": {1: Never()}}, renewal={"reconnect_timeout": 4.0}
    )
    async with stage.open():
        await trio.sleep(40)
        stage.provider.newest.lose_connection()
        await trio.sleep(3.9)
        assert not stage.said(Replaced)
        await trio.sleep(1)
        assert stage.said(Replaced)[0].failure is not None
        assert stage.said(Replaced)[0].failure.type == "TimedOut"


async def test_a_reconnect_takes_no_longer_than_the_source_has_left(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"reconnect": {1: Never()}}, renewal={"lead": 0.0})
    async with stage.open():
        await trio.sleep(57)
        stage.provider.newest.lose_connection()
        await trio.sleep(2.79)
        assert not stage.said(Replaced)
        await trio.sleep(0.3)
        assert stage.said(Replaced)[0].why == "expired"


async def test_a_generation_that_does_not_rise_is_replaced(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, generation_step=0)
    async with stage.open():
        stage.provider.newest.lose_connection()
        await trio.sleep(1)
        failure = stage.said(Replaced)[0].failure
        assert failure is not None
        assert failure.type == "ContractBroken"


async def test_what_follows_a_state_is_not_undone_by_it_however_early_it_comes(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        source = stage.provider.newest
        clip = (await renewal.enqueue(scene(50))).clip
        await trio.sleep(1)
        attach = type(source).attach

        async def hasty(self, sink, /):  # type: ignore[no-untyped-def]
            state = await attach(self, sink)
            assert [each.id for each in state.clips] == [clip]
            sink.event(ClipEnded(clip, 50))
            await trio.sleep(0.1)
            return state

        with monkeypatch.context() as patched:
            patched.setattr(type(source), "attach", hasty)
            source.lose_connection()
            await until(lambda: bool(stage.said(Recovered)))
        on_air = renewal.state.on_air
        assert on_air is not None
        assert not on_air.clips
        ends = [said.change for said in stage.said(ClipChanged)]
        assert ClipEnded(clip, 50) in ends
        assert not stage.said(ClipLost)


async def test_a_second_loss_during_recovery_is_no_recovery(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, faults={"request": {6: Slow(1.0)}})
    async with stage.open():
        source = stage.provider.newest
        await trio.sleep(40)
        source.lose_connection()
        await trio.sleep(0.3)  # attached again, with new media, and being told to play
        assert source._generation == 2
        source.end_media()
        await trio.sleep(2)
        assert not stage.said(Recovered)
        assert [said.mode for said in stage.said(Recovering)] == ["reconnect", "replace"]


async def test_a_loss_after_recovery_is_recovered_again(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open():
        for _ in range(3):
            stage.provider.newest.lose_connection()
            await trio.sleep(1)
        assert [said.generation for said in stage.said(Recovered)] == [2, 3, 4]
        assert stage.provider.attempts == 1


async def test_a_source_that_cannot_reconnect_is_replaced(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, reconnectable=False)
    async with stage.open():
        stage.provider.newest.lose_connection()
        await trio.sleep(2)
        assert [said.mode for said in stage.said(Recovering)] == ["replace"]
        assert stage.said(Replaced)[0].why == "events-lost"
        assert stage.provider.opened == 2


@pytest.mark.parametrize("how", ["die", "crash", "raise"])
async def test_a_held_source_that_dies_is_replaced(autojump_clock: object, how: str) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await renewal.enqueue(scene(1000))
        await trio.sleep(1)
        source = stage.provider.newest
        if how == "crash":
            source.crash(OSError("gone"))
        else:
            source.die(Lost("gone") if how == "raise" else None)
        await until(lambda: stage.provider.opened == 2)
        (replaced,) = stage.said(Replaced)
        assert replaced.why == "died"
        assert (replaced.failure is not None) == (how == "raise")
        (lost,) = stage.said(ClipLost)
        assert lost.why == "source-lost"
        closed = stage.said(SourceClosed)[0]
        assert source.closes == 1
        assert bool(closed.cleanup.failures) == (how != "die")
        assert closed.cleanup.complete


async def test_clips_that_were_lost_are_named_before_the_replacement(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        first = await renewal.enqueue(scene(100))
        second = await renewal.enqueue(scene(100))
        await trio.sleep(1.5)
        stage.provider.newest.die()
        await until(lambda: bool(stage.said(Replaced)))
        names = stage.story
        assert names[names.index("Replaced") - 2 : names.index("Replaced")] == ["ClipLost"] * 2
        lost = stage.said(ClipLost)
        assert [said.clip for said in lost] == [first.clip, second.clip]
        assert lost[0].frames_received == renewal.pressure().frames > 0
        assert lost[1].frames_received == 0
        assert stage.said(Replaced)[0].tail.frames_received == lost[0].frames_received


async def test_a_clip_that_ended_while_its_pictures_could_not_come_is_named_lost_too(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"media": {2: Never()}}, renewal={"reconnect_timeout": 5.0})
    async with stage.open() as renewal:
        unseen = (await renewal.enqueue(scene(50))).clip
        playing = (await renewal.enqueue(scene(500))).clip
        await until(lambda: renewal.pressure().frames >= 10)
        stage.provider.newest.end_media()
        await until(lambda: bool(stage.said(Replaced)))
        ended = [said.change for said in stage.said(ClipChanged)]
        assert ClipEnded(unseen, 50) in ended
        lost = stage.said(ClipLost)
        assert [(said.clip, said.frames_expected, said.why) for said in lost] == [
            (unseen, 50, "source-lost"),
            (playing, 500, "source-lost"),
        ]
        assert 10 <= lost[0].frames_received < 50
        assert stage.story.index("ClipLost") < stage.story.index("Replaced")


async def test_a_clip_that_ended_meanwhile_is_not_lost_where_the_source_comes_back_and_counts_it(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=None, faults={"media": {2: Slow(2.0)}}, renewal={"reconnect_timeout": 5.0}
    )
    async with stage.open() as renewal:
        unseen = (await renewal.enqueue(scene(50))).clip
        await until(lambda: renewal.pressure().frames >= 10)
        stage.provider.newest.end_media()
        await until(lambda: bool(stage.said(Recovered)))
        queued, missed = renewal.pressure().frames, renewal.pressure().frames_lost
        stage.provider.newest.die()
        await until(lambda: bool(stage.said(Replaced)))
        assert ClipEnded(unseen, 50) in [said.change for said in stage.said(ClipChanged)]
        assert queued + missed == 50
        assert not stage.said(ClipLost)


async def test_a_prepared_source_takes_the_place_of_one_that_died_without_a_gap(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open():
        await until(lambda: bool(stage.said(Prepared)))
        stage.provider.live["simulated-1"].die()
        await trio.sleep(1)
        assert stage.said(Replaced)[0].new == stage.said(Prepared)[0].source
        assert stage.said(OnAir)[-1].gap == 0.0
        assert stage.provider.attempts == 2


async def test_a_replacement_joins_a_source_that_is_opening(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, faults={"open": {2: Slow(5.0)}})
    async with stage.open() as renewal:
        await trio.sleep(52)
        stage.provider.live["simulated-1"].die()
        await trio.sleep(0.1)
        assert stage.said(Replaced)[0].new is None
        assert renewal.state.status == "vacant"
        await until(lambda: renewal.state.status == "ready")
        assert stage.provider.attempts == 2


async def test_a_source_lost_while_it_is_set_up_is_a_failed_open(autojump_clock: object) -> None:
    stage = Stage(
        lifetime=60.0, faults={"connection": {2: Fails("lost", after=0.005)}}, reply_delay=0.02
    )
    async with stage.open():
        await until(lambda: bool(stage.said(Prepared)))
        assert stage.story.count("OpenFailure") == 1
        assert stage.provider.closed == 1


async def test_a_prepared_source_recovers_and_takes_no_work_meanwhile(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"reconnect": {1: Slow(2.0)}})
    async with stage.open() as renewal:
        await until(lambda: bool(stage.said(Prepared)))
        stage.provider.newest.lose_connection()
        assert (await renewal.enqueue(scene(1))).source.id == "simulated-1"
        await until(lambda: bool(stage.said(Recovered)))
        assert not stage.said(Recovering)[0].on_air
        assert (await renewal.enqueue(scene(1))).source.id == "simulated-2"


async def test_work_does_not_overtake_what_a_recovering_prepared_source_has(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"reconnect": {1: Slow(2.0)}})
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        await renewal.enqueue(scene(1))  # which is not played, so nothing is handed over
        await until(lambda: bool(stage.said(Prepared)))
        assert (await renewal.enqueue(scene(1))).source.id == "simulated-2"
        stage.provider.newest.lose_connection()
        with pytest.raises(SessionRecovering):
            await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(Recovered)))
        assert (await renewal.enqueue(scene(1))).source.id == "simulated-2"


async def test_a_socket_lost_while_a_boundary_is_awaited_is_noticed_at_once(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await until(lambda: bool(stage.said(Prepared)))
        at = trio.current_time()
        stage.provider.live["simulated-1"].lose_connection()
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(HandedOver)))
        said = [each for each in stage.envelopes if isinstance(each.event, Recovering)]
        assert [each.clock for each in said] == [at]


async def test_a_clip_that_a_refreshed_state_does_not_have_is_lost_once(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        kept = await renewal.enqueue(scene(5))
        gone = await renewal.enqueue(scene(7))
        await trio.sleep(1)
        source = stage.provider.newest
        source.forget(gone.clip)
        source.lose_connection()
        await trio.sleep(1)
        (lost,) = stage.said(ClipLost)
        assert (lost.clip, lost.why, lost.frames_expected) == (gone.clip, "not-in-state", 7)
        assert renewal.state.on_air is not None
        assert [clip.id for clip in renewal.state.on_air.clips] == [kept.clip]


async def test_a_condemned_source_is_replaced_although_its_reconnect_still_hangs(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=None,
        faults={"reconnect": {1: Never()}},
        renewal={"reconnect_timeout": 60.0},
    )
    async with stage.open() as renewal:
        await trio.sleep(40)
        source = stage.provider.newest
        source.lose_connection()
        await trio.sleep(1)
        slot = renewal._chain.on_air
        assert slot is not None
        renewal._chain.hearing.lost(slot, "outcome-unknown", None)
        await trio.sleep(1)
        assert stage.said(Replaced)[0].why == "outcome-unknown"
        assert [said.source.id for said in stage.said(SourceClosed)] == ["simulated-1"]
        assert slot.recovery is None


async def test_a_recovery_that_ends_late_brings_nothing_back(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, faults={"reconnect": {1: Slow(5.0)}})
    async with stage.open() as renewal:
        await trio.sleep(40)
        source = stage.provider.newest
        source.lose_connection()
        await trio.sleep(1)
        source.die()
        await trio.sleep(10)
        assert not stage.said(Recovered)
        assert len(stage.said(SourceClosed)) == 1
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.source.id == "simulated-2"


async def test_a_notice_that_makes_no_sense_costs_the_source_its_place(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open():
        await trio.sleep(40)
        stage.provider.newest.tell(GoingAway(float("nan")))
        await trio.sleep(1)
        assert stage.said(Replaced)[0].why == "contract-broken"


@pytest.mark.parametrize("place", ["reconnect", "attach", "media", "request"])
async def test_a_defect_in_recovery_is_terminal_and_nothing_is_opened_after_it(
    autojump_clock: object, place: str
) -> None:
    number = {"reconnect": 1, "attach": 2, "media": 2, "request": 4}[place]
    stage = Stage(lifetime=None, faults={place: {number: Fails("defect")}})
    with pytest.raises(RuntimeError, match="a defect as planned"):
        async with stage.open() as renewal:
            stage.provider.newest.lose_connection()
            try:
                await renewal.video.receive()
            finally:
                with pytest.raises(Failed):
                    _ = renewal.state
    assert stage.provider.attempts == 1
    assert len(stage.said(SourceOpening)) == 1
    assert stage.story[-1] == "RenewalFailed"


async def test_a_defect_of_a_preparation_is_terminal(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, faults={"open": {2: Fails("defect")}})
    with pytest.raises(RuntimeError, match="open: a defect"):
        async with stage.open():
            await trio.sleep_forever()
    assert stage.provider.attempts == 2
    assert stage.provider.left == 1


async def test_a_defect_of_the_losses_is_terminal_in_the_step_that_met_it(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"losses": {1: Fails("defect")}})
    with pytest.raises(RuntimeError, match="losses: a defect"):
        async with stage.open():
            stage.provider.live["simulated-1"].die()
            await trio.sleep_forever()
    assert stage.provider.attempts == 1
