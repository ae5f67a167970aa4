"""Where requests go through the handle, and what of that is looked at once more as they leave."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from chain_stage import Stage, scene, until
from submission_stage import Desk
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Refused
from trio_reactor.renewal import (
    Accepted,
    ClipNotQueued,
    ClipRequest,
    ClipUnknown,
    ContractBroken,
    OwnerConflict,
    Renewal,
    RouteChanged,
    SessionRecovering,
    SessionRetired,
)
from trio_reactor.renewal.engine.engine import MAX_PLACINGS
from trio_reactor.renewal.events import (
    ClipChanged,
    HandedOver,
    Prepared,
    Recovered,
    Recovering,
)
from trio_reactor.renewal.source import ClipStarted, Commit, SourceEvent


def continuing(clip: str, frames: int = 1) -> ClipRequest:
    return ClipRequest({"frames": frames}, continue_from=clip)


async def two(stage: Stage, renewal: Renewal) -> tuple[Accepted, Accepted]:
    """A source that plays a long clip, and a prepared one with a clip of its own."""
    old = await renewal.enqueue(scene(1500))
    await until(lambda: bool(stage.said(Prepared)))
    new = await renewal.enqueue(scene(5))
    assert (old.source.incarnation, new.source.incarnation) == (1, 2)
    return old, new


def changes(stage: Stage) -> list[SourceEvent]:
    return [said.change for said in stage.said(ClipChanged)]


def long(**options: Any) -> Stage:
    return Stage(lifetime=60.0, renewal={"max_frames": 5000}, **options)


async def test_what_continues_a_clip_goes_to_its_source(autojump_clock: object) -> None:
    stage = long()
    async with stage.open() as renewal:
        old, new = await two(stage, renewal)
        assert (await renewal.enqueue(continuing(old.clip))).source == old.source
        assert (await renewal.enqueue(continuing(new.clip))).source == new.source
        assert (await renewal.enqueue(scene(1), same_session_as=old.clip)).source == old.source
        assert (await renewal.enqueue(scene(1))).source == new.source


async def test_what_goes_before_a_clip_goes_there(autojump_clock: object) -> None:
    stage = long()
    async with stage.open() as renewal:
        old, new = await two(stage, renewal)
        last = await renewal.enqueue(scene(1), same_session_as=old.clip)
        middle = await renewal.enqueue(scene(1), before=last.clip)
        first = await renewal.enqueue(scene(1), before=middle.clip)
        await renewal.move(last.clip, 1)
        between = await renewal.enqueue(scene(1), before=middle.clip)
        queue = [clip.id for clip in stage.provider.live["simulated-1"].clips]
        assert queue == [old.clip, first.clip, last.clip, between.clip, middle.clip]
        status = renewal.state.on_air
        assert status is not None
        assert [clip.id for clip in status.clips] == queue
        with pytest.raises(ClipNotQueued):
            await renewal.enqueue(scene(1), before=old.clip)
        assert new.clip == "simulated-2/clip-1"


async def test_what_is_bound_to_two_sources_is_not_sent(autojump_clock: object) -> None:
    stage = long()
    async with stage.open() as renewal:
        old, new = await two(stage, renewal)
        before = stage.provider.dispatched
        for named in ({"before": new.clip}, {"same_session_as": new.clip}):
            with pytest.raises(OwnerConflict) as caught:
                await renewal.enqueue(continuing(old.clip), **named)  # type: ignore[arg-type]
            assert caught.value.outcome == "not-submitted"
        assert stage.provider.dispatched == before


async def test_a_clip_of_a_source_that_is_gone_is_told_from_one_of_nobody(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, close_delay=2.0)
    async with stage.open() as renewal:
        old = await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(HandedOver)))
        for _ in range(2):
            assert renewal.state.leaving in (0, 1)
            with pytest.raises(SessionRetired):
                await renewal.enqueue(continuing(old.clip))
            with pytest.raises(SessionRetired):
                await renewal.remove(old.clip)
            await trio.sleep(5)
        assert renewal.state.leaving == 0
        with pytest.raises(ClipUnknown) as caught:
            await renewal.enqueue(continuing("nobody's"))
        assert (caught.value.outcome, caught.value.detail) == ("not-submitted", "nobody's")
        for command in (renewal.remove("nobody's"), renewal.move("nobody's", 0)):
            with pytest.raises(ClipUnknown):
                await command


async def test_what_is_bound_to_a_source_that_recovers_waits_for_it(
    autojump_clock: object,
) -> None:
    stage = long(reconnect_delay=1.0)
    async with stage.open() as renewal:
        old, new = await two(stage, renewal)
        stage.provider.live["simulated-1"].lose_connection()
        for command in (
            renewal.enqueue(continuing(old.clip)),
            renewal.remove(old.clip),
            renewal.move(old.clip, 0),
        ):
            with pytest.raises(SessionRecovering) as caught:
                await command
            assert caught.value.retryable
        assert (await renewal.enqueue(scene(1))).source == new.source
        await until(lambda: bool(stage.said(Recovered)))
        assert (await renewal.enqueue(continuing(old.clip))).source == old.source


async def test_a_place_before_a_clip_follows_it_until_the_request_leaves(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await renewal.set_autoplay(False)
        clips = [(await renewal.enqueue(scene(1))).clip for _ in range(2)]
        desk = Desk(stage.provider.newest, holds=True)
        desk.answered.set()
        accepted: list[Accepted] = []

        async def ask() -> None:
            accepted.append(await renewal.enqueue(scene(1), before=clips[1]))

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await renewal.move(clips[1], 0)
        desk.may_leave.set()
        await wait_all_tasks_blocked()
        assert (desk.positions, desk.sent) == ([1, 0], 1)
        assert renewal.state.on_air is not None
        order = [clip.id for clip in renewal.state.on_air.clips]
        assert order == [accepted[0].clip, clips[1], clips[0]]


async def test_a_request_to_go_before_a_clip_is_sent_though_another_clip_starts_meanwhile(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await renewal.set_autoplay(False)
        clips = [(await renewal.enqueue(scene(250))).clip for _ in range(2)]
        desk = Desk(stage.provider.newest, holds=True)
        desk.answered.set()
        accepted: list[Accepted] = []

        async def ask() -> None:
            accepted.append(await renewal.enqueue(scene(1), before=clips[1]))

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await renewal.set_autoplay(True)
        await until(lambda: ClipStarted(clips[0], 250) in changes(stage), within=5.0)
        desk.may_leave.set()
        await wait_all_tasks_blocked()
        assert (desk.positions, desk.sent) == ([1, 0], 1)
        assert renewal.state.on_air is not None
        order = [clip.id for clip in renewal.state.on_air.clips]
        assert order == [clips[0], accepted[0].clip, clips[1]]


async def test_a_request_to_go_before_a_clip_that_starts_meanwhile_is_not_sent(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await renewal.set_autoplay(False)
        clip = (await renewal.enqueue(scene(250))).clip
        desk = Desk(stage.provider.newest, holds=True)
        raised: list[ClipNotQueued] = []

        async def ask() -> None:
            with pytest.raises(ClipNotQueued) as caught:
                await renewal.enqueue(scene(1), before=clip)
            raised.append(caught.value)

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await renewal.set_autoplay(True)
        await until(lambda: ClipStarted(clip, 250) in changes(stage), within=5.0)
        desk.may_leave.set()
        await wait_all_tasks_blocked()
        assert [(each.outcome, each.detail) for each in raised] == [("not-submitted", clip)]
        assert (desk.positions, desk.sent) == ([0], 0)


async def test_a_queue_that_moves_each_time_is_given_up_within_a_bound(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await renewal.set_autoplay(False)
        clips = [(await renewal.enqueue(scene(1))).clip for _ in range(2)]
        asked: list[int | None] = []

        async def enqueue(_: ClipRequest, /, *, position: int | None = None, commit: Commit) -> str:
            asked.append(position)
            await renewal.move(clips[1], len(asked) % 2 ^ 1)
            commit()
            return "never"

        stage.provider.newest.enqueue = enqueue  # type: ignore[method-assign]
        with pytest.raises(RouteChanged) as caught:
            await renewal.enqueue(scene(1), before=clips[1])
        assert (caught.value.outcome, caught.value.retryable) == ("not-submitted", True)
        assert asked == [1, 0] * (MAX_PLACINGS // 2)


@pytest.mark.parametrize("position", [None, 0, 3])
async def test_an_explicit_position_reaches_the_provider_unchanged(
    autojump_clock: object, position: int | None
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        desk = Desk(stage.provider.newest)
        desk.answered.set()
        await renewal.enqueue(scene(1), position=position)
        assert desk.positions == [position]


async def test_a_clip_that_two_sources_have_is_the_clip_of_neither(
    autojump_clock: object,
) -> None:
    stage = long()
    async with stage.open() as renewal:
        old, new = await two(stage, renewal)
        desk = Desk(stage.provider.live["simulated-2"])
        desk.answer = old.clip
        desk.answered.set()
        assert (await renewal.enqueue(scene())).clip == old.clip  # which does no harm by itself
        before = stage.provider.dispatched
        for command in (
            lambda: renewal.enqueue(continuing(old.clip)),
            lambda: renewal.enqueue(scene(), before=old.clip),
            lambda: renewal.remove(old.clip),
            lambda: renewal.move(old.clip, 0),
        ):
            with pytest.raises(ContractBroken, match=r"source 2 .* of source 1 has") as caught:
                await command()
            assert (caught.value.outcome, caught.value.detail) == ("not-submitted", old.clip)
        assert (stage.provider.dispatched, desk.sent) == (before, 1)
        assert (await renewal.enqueue(scene())).source == new.source
        assert not stage.said(Recovering)


async def test_a_clip_is_removed_where_it_is(autojump_clock: object) -> None:
    stage = long()
    async with stage.open() as renewal:
        old, new = await two(stage, renewal)
        waits = await renewal.enqueue(continuing(old.clip))
        await renewal.remove(waits.clip)
        await renewal.remove(new.clip)
        assert stage.provider.live["simulated-2"].clips == ()
        with pytest.raises(ClipNotQueued):
            await renewal.remove(new.clip)
        with pytest.raises(Refused):  # by the provider: it plays
            await renewal.remove(old.clip)
