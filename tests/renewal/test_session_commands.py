"""Commands through the handle: where they go, and what is known of what became of them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from chain_stage import Stage, scene, until

from trio_reactor.errors import Lost, Refused
from trio_reactor.renewal import (
    Accepted,
    ClipNotQueued,
    ClipUnknown,
    ContractBroken,
    Renewal,
    RouteChanged,
    SessionRetired,
)
from trio_reactor.renewal.events import (
    ClipChanged,
    ClipLost,
    HandedOver,
    OnAir,
    Prepared,
    Recovering,
    Replaced,
)
from trio_reactor.renewal.source import ClipStarted
from trio_reactor.testing import Fails, Never, Slow


async def test_a_clip_that_was_accepted_is_played(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        nursery.start_soon(stage.watch, renewal)
        accepted = await renewal.enqueue(scene(5))
        await trio.sleep(1)
        assert [stamp.frame for stamp in stage.stamps] == list(range(5))
        started = [each.change for each in stage.said(ClipChanged)]
        assert ClipStarted(accepted.clip, 5) in started
        nursery.cancel_scope.cancel()


NO_POSITIONS = ["x", 1.5, 2**31, 2**63, -1, True]


@pytest.mark.parametrize("position", NO_POSITIONS, ids=repr)
async def test_a_position_that_is_none_is_refused_and_ends_nothing(
    autojump_clock: object, position: Any
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        first = await renewal.enqueue(scene(1))
        with pytest.raises(ValueError, match=r"^position:"):
            await renewal.enqueue(scene(2), position=position)
        with pytest.raises(ValueError, match=r"^position:"):
            renewal.prepare(scene(2), position=position)
        with pytest.raises(ValueError, match=r"^position:"):
            await renewal.move(first.clip, position)
        second = await renewal.enqueue(scene(3))
        assert [clip.id for clip in stage.provider.newest.clips] == [first.clip, second.clip]


@pytest.mark.parametrize("size", ["64", 64.0, 0, -1, 2**31, True, None], ids=repr)
async def test_a_size_that_is_none_is_refused_and_not_kept(
    autojump_clock: object, size: Any
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await renewal.set_canvas(64, 36)
        with pytest.raises(ValueError, match=r"^width:"):
            await renewal.set_canvas(size, 36)
        with pytest.raises(ValueError, match=r"^height:"):
            await renewal.set_canvas(64, size)
        assert renewal._chain.canvas.wanted == (64, 36)


@pytest.mark.parametrize("enabled", [1, 0, None, "yes"], ids=repr)
async def test_what_only_stands_for_a_truth_is_refused_and_not_kept(
    autojump_clock: object, enabled: Any
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        with pytest.raises(ValueError, match=r"^enabled:"):
            await renewal.set_autoplay(enabled)
        assert renewal._chain.autoplay.wanted is True


@pytest.mark.parametrize("clip", [1, "", None, "x" * 1025, ["a"]], ids=lambda _: "")
async def test_a_name_of_a_clip_that_is_none_is_refused(autojump_clock: object, clip: Any) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        with pytest.raises(ValueError, match=r"^clip:"):
            await renewal.remove(clip)
        with pytest.raises(ValueError, match=r"^clip:"):
            await renewal.move(clip, 0)
        await renewal.enqueue(scene(1))


async def test_a_position_reaches_the_provider(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        first = await renewal.enqueue(scene(1))
        second = await renewal.enqueue(scene(2), position=0)
        assert [clip.id for clip in stage.provider.newest.clips] == [second.clip, first.clip]
        await renewal.move(first.clip, 0)
        assert [clip.id for clip in stage.provider.newest.clips] == [first.clip, second.clip]
        await renewal.remove(first.clip)
        assert [clip.id for clip in stage.provider.newest.clips] == [second.clip]
        with pytest.raises(ClipNotQueued):
            await renewal.remove(first.clip)
        with pytest.raises(ClipUnknown) as caught:
            await renewal.remove("no such clip")
        assert caught.value.detail == "no such clip"


async def test_a_refusal_is_the_providers_answer_and_changes_nothing(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        with pytest.raises(Refused) as caught:
            await renewal.enqueue(scene(0))
        assert caught.value.outcome == "replied"
        await trio.sleep(1)
        assert renewal.state.status == "ready"
        assert not stage.said(Recovering)


async def test_events_may_come_before_the_answer_even_the_end_of_the_clip(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"reply": {4: Slow(4.0)}})
    async with stage.open() as renewal:
        await trio.sleep(1)
        await renewal.enqueue(scene(1, build=0))
        await until(lambda: bool(stage.said(Prepared)))
        slot = renewal._chain.on_air
        assert slot is not None
        assert slot.book.clips == ()
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(HandedOver)))


async def test_the_answer_may_come_before_any_event(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, faults={"event": {1: Slow(3.0), 2: Slow(3.0), 3: Slow(3.0)}})
    async with stage.open() as renewal:
        accepted = await renewal.enqueue(scene(1))
        assert renewal.state.on_air is not None
        assert [clip.id for clip in renewal.state.on_air.clips] == [accepted.clip]


async def test_a_caller_cancelled_before_the_request_left_leaves_nothing_behind(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        with trio.CancelScope() as scope:
            scope.cancel()
            await renewal.enqueue(scene())
        assert scope.cancelled_caught
        await trio.sleep(1)
        assert stage.provider.dispatched == 0
        assert stage.provider.newest.clips == ()
        assert not renewal._chain.on_air.pending  # type: ignore[union-attr]


async def test_a_caller_cancelled_after_the_request_left_only_leaves(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"reply": {4: Slow(4.0)}})
    async with stage.open() as renewal:
        await trio.sleep(50.1)
        with trio.move_on_after(0.05) as scope:
            await renewal.enqueue(scene(5))
        assert scope.cancelled_caught
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        await trio.sleep(3)
        assert not stage.said(HandedOver)  # while its answer is out
        await until(lambda: bool(stage.said(HandedOver)))
        assert stage.said(HandedOver)[0].evidence.frames_received == 5
        assert stage.provider.dispatched == 2


async def test_an_unknown_outcome_replaces_the_source_and_is_never_sent_again(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"reply": {4: Fails("timed-out")}})
    async with stage.open() as renewal:
        await trio.sleep(40)
        with pytest.raises(trio.TooSlowError) as caught:
            await renewal.enqueue(scene())
        assert caught.value.outcome == "unknown"  # type: ignore[attr-defined]
        assert not caught.value.retryable  # type: ignore[attr-defined]
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert stage.said(Replaced)[0].why == "outcome-unknown"
        assert [said.mode for said in stage.said(Recovering)] == ["replace"]
        assert stage.provider.dispatched == 1


async def test_a_request_that_was_sent_and_lost_has_an_unknown_outcome(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"reply": {4: Never()}})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        failures: list[Lost] = []

        async def ask() -> None:
            with pytest.raises(Lost) as caught:
                await renewal.enqueue(scene())
            failures.append(caught.value)

        await trio.sleep(40)
        nursery.start_soon(ask)
        await trio.sleep(1)
        stage.provider.newest.lose_connection()
        await trio.sleep(2)
        assert [failure.outcome for failure in failures] == ["unknown"]
        assert stage.said(Replaced)[0].why == "outcome-unknown"


async def test_a_request_without_an_answer_ends_with_its_source(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, faults={"reply": {4: Never()}}, renewal={"reply_timeout": 100.0})
    async with stage.open() as renewal:
        await trio.sleep(1)
        with pytest.raises(Lost) as caught:
            await renewal.enqueue(scene(5))
        assert caught.value.outcome == "unknown"
        assert trio.current_time() == pytest.approx(60.2, abs=0.1)
        assert stage.said(Replaced)[0].why == "expired"
        assert not stage.said(Recovering)


async def test_the_route_is_checked_again_when_the_request_leaves(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        source = stage.provider.newest
        enqueue = type(source).enqueue

        async def slowly(  # type: ignore[no-untyped-def]
            self, request, /, *, position=None, commit
        ):
            if self is source:
                await trio.sleep(25)
            return await enqueue(self, request, position=position, commit=commit)

        monkeypatch.setattr(type(source), "enqueue", slowly)
        await trio.sleep(30)
        with pytest.raises(RouteChanged) as caught:
            await renewal.enqueue(scene())
        assert (caught.value.outcome, caught.value.retryable) == ("not-submitted", True)
        assert stage.provider.dispatched == 0
        assert (await renewal.enqueue(scene())).source.id == "simulated-2"


async def test_a_clip_without_an_identity_condemns_its_source(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await trio.sleep(40)

        async def nameless(  # type: ignore[no-untyped-def]
            self, request, /, *, position=None, commit
        ):
            await trio.lowlevel.checkpoint()
            commit()
            return ""

        with monkeypatch.context() as patched:
            patched.setattr(type(stage.provider.newest), "enqueue", nameless)
            with pytest.raises(ContractBroken):
                await renewal.enqueue(scene())
        await trio.sleep(1)
        assert stage.said(Replaced)[0].why == "contract-broken"


async def test_an_answer_of_a_source_that_leaves_is_told_and_the_clip_named_lost(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0, faults={"close": {1: Slow(2.0)}, "reply": {4: Slow(1.0)}})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        accepted: list[Accepted] = []

        async def ask() -> None:
            accepted.append(await renewal.enqueue(scene(50)))

        await trio.sleep(50.1)
        nursery.start_soon(ask)
        await trio.sleep(0.05)
        slot = renewal._chain.on_air
        assert slot is not None
        renewal._chain.hearing.lost(slot, "check-failed", None)
        await trio.sleep(1.5)
        assert len(accepted) == 1
        assert [lost.clip for lost in stage.said(ClipLost)].count(accepted[0].clip) == 1
        assert not renewal._chain.ledger.unresolved


async def test_autoplay_is_kept_for_every_later_source(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(HandedOver)))
        await trio.sleep(1)
        assert not stage.provider.newest.autoplay
        await renewal.set_autoplay(True)
        stage.provider.newest.die()
        await until(lambda: stage.provider.opened == 3 and stage.provider.newest.autoplay)


async def test_a_prepared_source_is_not_told_to_play_before_it_is_on_air(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.set_autoplay(True)
        assert not stage.provider.newest.autoplay


async def test_pause_and_stop_ends_what_plays(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, renewal={"max_frames": 1000})
    async with stage.open() as renewal:
        await renewal.enqueue(scene(500))
        await trio.sleep(2)
        await renewal.pause_and_stop()
        await trio.sleep(1)
        frames = renewal.pressure().frames
        await trio.sleep(5)
        assert renewal.pressure().frames == frames < 500


async def test_activation_that_is_not_answered_costs_the_source_its_place(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"reply": {3: Never()}}, renewal={"stable_after": 0.0})
    async with stage.open() as renewal:
        await until(lambda: bool(stage.said(Replaced)))
        assert stage.said(Replaced)[0].why == "outcome-unknown"
        await until(lambda: renewal.state.status == "ready")


async def test_after_the_last_source_work_is_refused_for_good(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await renewal.stop_renewal()
        await trio.sleep(61)
        for command in (renewal.enqueue(scene()), renewal.set_autoplay(True)):
            with pytest.raises(SessionRetired) as caught:
                await command
            assert not caught.value.retryable


async def test_the_state_and_every_later_event_come_without_a_gap(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)

    async def observe(renewal: Renewal) -> list[str]:
        with renewal.observe(Prepared, HandedOver) as (state, changes):
            assert state.status == "ready"
            assert state.on_air is not None
            assert (state.on_air.phase, state.next, state.opened) == ("on-air", None, 1)
            return [type((await changes.receive()).event).__name__]

    async with stage.open() as renewal:
        assert await observe(renewal) == ["Prepared"]
