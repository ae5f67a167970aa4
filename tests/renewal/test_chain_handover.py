"""Preparing the next source, and handing over at a boundary."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from chain_stage import Stage, Token, scene, tokens, until

from trio_reactor.errors import Refused
from trio_reactor.renewal import OpenFailed, SourcesExhausted
from trio_reactor.renewal.events import (
    ClipLost,
    HandedOver,
    OnAir,
    OpenFailure,
    Prepared,
    PrepareScheduled,
    Replaced,
    SourceClosed,
    SourceOpened,
    SourceOpening,
)
from trio_reactor.renewal.simulation import read_stamp
from trio_reactor.testing import Fails, Never, Slow


async def test_the_next_source_is_prepared_its_lead_before_the_end(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open():
        (first,) = stage.said(PrepareScheduled)
        assert first.prepare_in == pytest.approx(50.0 - first.age)
        await trio.sleep(49.9)
        assert len(stage.said(SourceOpening)) == 1
        await trio.sleep(0.5)
        assert [said.cause for said in stage.said(SourceOpening)] == ["first", "plan"]
        assert [said.source.id for said in stage.said(Prepared)] == ["simulated-2"]


async def test_a_fleet_does_not_renew_in_one_second(autojump_clock: object) -> None:
    due: set[float | None] = set()
    stage = Stage(lifetime=60.0, renewal={"jitter": 1.0})
    for _ in range(8):
        async with stage.open():
            due.add(stage.said(PrepareScheduled)[-1].prepare_in)
    assert len(due) == 8
    assert all(wait is not None and 39.9 <= wait <= 50.0 for wait in due)


async def test_without_a_lead_nothing_is_prepared_and_the_end_is_a_replacement(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, renewal={"lead": 0.0})
    async with stage.open():
        await trio.sleep(59.9)
        assert stage.provider.attempts == 1
        await trio.sleep(1.0)
        (replaced,) = stage.said(Replaced)
        assert (replaced.why, replaced.new, replaced.failure) == ("expired", None, None)
        assert [said.cause for said in stage.said(OnAir)] == ["first", "loss"]


@pytest.mark.parametrize("lifetime", [float("nan"), 0.0, -1.0, 9.0, 10.0])
async def test_a_lifetime_that_is_none_fails_the_open_and_is_closed_at_once(
    autojump_clock: object, lifetime: float
) -> None:
    stage = Stage(lifetime=lifetime, cut_after=None)
    with pytest.raises(OpenFailed) as caught:
        async with stage.open():
            pytest.fail("it opened")
    assert caught.value.cleanup is not None
    assert caught.value.cleanup.complete
    assert stage.provider.closed == stage.provider.left == 1


async def test_a_bad_lifetime_of_a_successor_counts_as_a_failed_open(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        stage.provider.options = type(stage.provider.options)(lifetime=5.0)
        await trio.sleep(53)
        assert [said.consecutive for said in stage.said(OpenFailure)] == [1, 2]
        assert renewal.state.status == "ready"


async def test_wrong_options_are_named_before_anything_is_opened(autojump_clock: object) -> None:
    with pytest.raises(ValueError, match="lead"):
        Stage(renewal={"lead": -1.0})


async def test_a_failed_preparation_is_tried_again_after_a_pause_that_grows(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=60.0,
        faults={"open": {2: Fails(), 3: Fails("lost"), 4: Fails("timed-out")}},
        renewal={"lead": 40.0, "first_pause": 1.0, "max_pause": 3.0},
    )
    async with stage.open():
        await until(lambda: bool(stage.said(Prepared)))
        failures = stage.said(OpenFailure)
        assert [said.consecutive for said in failures] == [1, 2, 3]
        assert [said.pause for said in failures] == [1.0, 2.0, 3.0]
        opened = [at.clock for at in stage.envelopes if isinstance(at.event, SourceOpening)]
        assert [b - a for a, b in pairwise(opened[1:])] == [1.0, 2.0, 3.0]


async def test_too_many_failures_in_a_row_are_terminal(autojump_clock: object) -> None:
    stage = Stage(
        lifetime=60.0,
        faults={"open": {number: Fails() for number in range(2, 9)}},
        renewal={"max_failures": 3, "lead": 40.0},
    )
    with pytest.raises(SourcesExhausted) as caught:
        async with stage.open():
            await trio.sleep_forever()
    assert "refused as planned" in str(caught.value.__cause__)
    assert [said.pause for said in stage.said(OpenFailure)] == [1.0, 2.0, None]
    assert stage.story[-1] == "RenewalFailed"


async def test_a_permanent_refusal_is_terminal_at_once(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0)
    with pytest.raises(SourcesExhausted) as caught:
        async with stage.open():
            stage.provider.refusing = lambda: OpenFailed("no more of these", permanent=True)
            await trio.sleep_forever()
    assert str(caught.value.__cause__) == "no more of these"
    assert stage.provider.attempts == 2


async def test_sources_that_open_and_die_at_once_are_found_out(autojump_clock: object) -> None:
    stage = Stage(
        lifetime=None,
        faults={"life": {number: Fails("lost", after=1.0) for number in range(1, 99)}},
        renewal={"max_failures": 4},
    )
    with pytest.raises(SourcesExhausted):
        async with stage.open():
            await trio.sleep_forever()
    assert stage.provider.opened == 4


async def test_only_a_source_that_lived_begins_the_count_anew(autojump_clock: object) -> None:
    dies = {number: Fails("lost", after=40.0) for number in range(1, 30)}
    stage = Stage(lifetime=None, faults={"life": dies}, renewal={"max_failures": 2})
    async with stage.open():
        await until(lambda: stage.provider.opened == 12, within=1000)


async def test_an_open_that_hangs_is_given_up_in_time(autojump_clock: object) -> None:
    stage = Stage(
        lifetime=60.0, faults={"open": {2: Never()}}, renewal={"open_timeout": 2.0, "lead": 40.0}
    )
    async with stage.open():
        await until(lambda: bool(stage.said(Prepared)))
        (failure,) = stage.said(OpenFailure)
        assert (failure.failure.type, failure.took) == ("TimedOut", pytest.approx(2.0))


async def test_setting_up_that_hangs_is_given_up_in_time_and_closed(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=60.0, faults={"media": {2: Never()}}, renewal={"open_timeout": 2.0, "lead": 40.0}
    )
    async with stage.open():
        await until(lambda: bool(stage.said(Prepared)))
        assert len(stage.said(OpenFailure)) == 1
        assert stage.provider.closed == 1


async def test_a_source_that_expires_while_it_is_set_up_is_a_failed_open(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=11.0, cut_after=None, faults={"attach": {1: Slow(12.0)}})
    with pytest.raises(OpenFailed):
        async with stage.open():
            pytest.fail("it opened")
    assert stage.provider.left == 1


async def test_it_hands_over_once_the_old_is_idle_and_the_next_has_something_to_show(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        nursery.start_soon(stage.watch, renewal)
        await renewal.enqueue(scene(25))
        await until(lambda: bool(stage.said(Prepared)))
        await trio.sleep(1)
        assert not stage.said(HandedOver)
        accepted = await renewal.enqueue(scene(25))
        assert accepted.source.id == "simulated-2"
        await trio.sleep(0.45)
        assert not stage.said(HandedOver)
        await until(lambda: bool(stage.said(HandedOver)))
        (said,) = stage.said(HandedOver)
        assert said.evidence.kind == "count-complete"
        assert (said.evidence.frames_expected, said.evidence.frames_received) == (25, 25)
        assert (said.tail.frames_expected, said.tail.frames_received) == (25, 25)
        await trio.sleep(2)
        assert [stamp.source for stamp in stage.stamps] == [1] * 25 + [2] * 25
        nursery.cancel_scope.cancel()


async def test_while_a_clip_plays_on_the_old_source_nothing_is_handed_over(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, renewal={"max_frames": 1000})
    async with stage.open() as renewal:
        await trio.sleep(48)
        await renewal.enqueue(scene(100))
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(10))
        await until(lambda: bool(stage.said(HandedOver)))
        (said,) = stage.said(HandedOver)
        assert said.evidence.captured_at == pytest.approx(48.0 + 0.22 + 0.505 + 4.0, abs=0.02)


async def test_a_count_that_is_not_reached_waits_for_the_grace(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, renewal={"handoff_grace": 0.5})
    async with stage.open() as renewal:
        await trio.sleep(50.5)
        source = stage.provider.live["simulated-1"]
        assert stage.said(Prepared)
        source.drop(1)
        # Straight to the old one, which unbound work does not go to any more.
        await source.enqueue(scene(5), commit=lambda: None)
        await renewal.enqueue(scene(5))
        await until(lambda: bool(stage.said(HandedOver)))
        (said,) = stage.said(HandedOver)
        evidence = said.evidence
        assert (evidence.kind, evidence.grace_from) == ("grace-elapsed", "ended")
        assert (evidence.frames_expected, evidence.frames_received) == (5, 4)
        assert evidence.grace_began is not None
        assert evidence.captured_at == pytest.approx(evidence.grace_began + 0.5)
        assert said.tail.frames_dropped == 1


async def test_a_source_that_never_played_hands_over_without_a_start(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(HandedOver)))
        assert stage.said(HandedOver)[0].evidence.kind == "no-observed-start"


async def test_a_request_that_is_not_answered_yet_holds_the_handoff(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"reply": {4: Slow(5.0)}})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await trio.sleep(50.1)
        nursery.start_soon(renewal.enqueue, scene(1))  # to the old one, which is alone
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        await trio.sleep(3)
        assert not stage.said(HandedOver)
        await until(lambda: bool(stage.said(HandedOver)))
        assert trio.current_time() > 55.0


async def test_an_end_without_a_boundary_is_a_loss_whose_tail_is_named(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, renewal={"max_frames": 1000})
    async with stage.open() as renewal:
        await trio.sleep(47)
        await renewal.enqueue(scene(1000))
        await until(lambda: bool(stage.said(Replaced)))
        (replaced,) = stage.said(Replaced)
        assert (replaced.why, replaced.new) == ("expired", stage.said(Prepared)[0].source)
        (lost,) = stage.said(ClipLost)
        assert lost.frames_expected == replaced.tail.frames_expected == 1000
        assert lost.frames_received == replaced.tail.frames_received == 312
        assert [said.gap for said in stage.said(OnAir)] == [0.0, 0.0]
        assert not stage.said(HandedOver)


async def test_the_end_of_a_life_comes_although_closing_another_hangs(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=30.0, faults={"close": {1: Never()}}, cut_after=None)
    async with stage.open() as renewal:
        await trio.sleep(21)
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(HandedOver)))
        stage.provider.live["simulated-2"].go_away(3.0)
        await trio.sleep(4)
        assert stage.said(Replaced)[-1].why == "expired"


async def test_at_most_two_sources_are_owned_while_one_is_slow_to_leave(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=30.0, faults={"close": {1: Slow(8.0)}})
    async with stage.open() as renewal:
        await trio.sleep(21)
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(HandedOver)))
        stage.provider.live["simulated-2"].die()
        await trio.sleep(1)
        assert renewal.state.leaving == 1
        await until(lambda: stage.provider.opened == 3)
        assert stage.provider.most_live == 2
        (first, _, third) = stage.said(SourceOpening)
        closed = next(at.clock for at in stage.envelopes if isinstance(at.event, SourceClosed))
        opening = [at.clock for at in stage.envelopes if at.event == third]
        assert opening[0] >= closed
        assert first.after is None


async def test_a_live_duplicate_of_an_identity_is_refused(autojump_clock: object) -> None:
    stage = Stage()
    first, same, other = Token("a"), Token("a"), Token("b")
    async with stage.open(tokens(first, same, other)) as renewal:
        await trio.sleep(55)
        (failure,) = stage.said(OpenFailure)
        assert "identity" in failure.failure.message
        assert same.closes == 1
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.source.id == "b"


@pytest.mark.parametrize("identity", ["", "x" * 1025])
async def test_an_identity_that_is_none_is_refused(autojump_clock: object, identity: str) -> None:
    token = Token(identity)
    with pytest.raises(OpenFailed, match="identity"):
        async with Stage().open(tokens(token)):
            pytest.fail("it opened")
    assert token.closes == 1


async def test_what_plays_nothing_is_handed_over_as_soon_as_the_next_is_prepared(
    autojump_clock: object,
) -> None:
    stage = Stage()
    async with stage.open(tokens(Token("a"), Token("b"))) as renewal:
        with pytest.raises(Refused):
            await renewal.enqueue(scene())
        await trio.sleep(51)
        (said,) = stage.said(HandedOver)
        assert said.evidence.kind == "no-observed-start"
        assert said.new.id == "b"


async def test_unbound_work_goes_to_the_prepared_source_as_soon_as_there_is_one(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        assert (await renewal.enqueue(scene(1))).source.id == "simulated-1"
        await until(lambda: bool(stage.said(Prepared)))
        assert (await renewal.enqueue(scene(1))).source.id == "simulated-2"


async def test_frames_of_a_source_that_is_not_on_air_are_neither_shown_nor_counted(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, renewal={"max_frames": 1000})
    async with stage.open() as renewal:
        await trio.sleep(48)
        await renewal.enqueue(scene(1000))  # keeps the first one on air
        await until(lambda: bool(stage.said(Prepared)))
        waiting = stage.provider.live["simulated-2"]
        waiting.drop(2)
        await waiting.set_autoplay(True)
        await waiting.enqueue(scene(10), commit=lambda: None)
        await trio.sleep(3)
        assert not waiting.clips
        pressure = renewal.pressure()
        assert pressure.frames_lost == 0
        stamps = [read_stamp(renewal.video.receive_nowait()) for _ in range(pressure.frames)]
        assert {stamp.source for stamp in stamps} == {1}


async def test_a_source_opens_with_what_was_set_and_with_what_came_before(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, resumable=True)
    async with stage.open() as renewal:
        await renewal.set_canvas(64, 36)
        assert stage.provider.newest.canvas == (64, 36)
        await until(lambda: bool(stage.said(Prepared)))
        prepared = stage.provider.newest
        assert prepared.canvas == (64, 36)
        assert prepared.predecessor.source == "simulated-1"
        assert prepared.predecessor.resumption == "after-1"
        assert [said.after for said in stage.said(SourceOpened)][-1] is not None


async def test_an_exclusive_source_leaves_before_its_successor_opens(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, exclusive=True)
    async with stage.open() as renewal:
        await renewal.enqueue(scene(5))
        await until(lambda: bool(stage.said(HandedOver)))
        (said,) = stage.said(HandedOver)
        assert said.gap == stage.said(OnAir)[-1].gap == pytest.approx(0.23)
        assert stage.provider.most_live == 1
        assert "OpenFailure" not in stage.story


async def test_a_source_that_goes_away_sooner_is_followed_at_once(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await trio.sleep(100)
        stage.provider.newest.go_away(8.0, "maintenance")
        await trio.sleep(0.3)
        assert stage.said(Prepared)
        assert stage.said(PrepareScheduled)[-2].expires_in == pytest.approx(8.0)
        stage.provider.newest.go_away(100.0)
        told = len(stage.story)
        stage.provider.newest.go_away(200.0)  # later than what is known: nothing new
        await trio.sleep(0.1)
        assert len(stage.story) == told
        await trio.sleep(8)
        assert renewal.state.status == "ready"
        assert stage.said(Replaced)[-1].why == "expired"
