"""Submissions and sequences against adapters that are late, and what is given that is none."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from chain_stage import Stage, scene, until
from lying_stage import Actor, giving
from submission_stage import Desk
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Lost, ReactorError, Refused, Retired, TimedOut
from trio_reactor.renewal import ClipRequest, ContractBroken, SequenceMember
from trio_reactor.renewal.engine.submission import Completed
from trio_reactor.renewal.events import OnAir, Recovering, SequenceRetired
from trio_reactor.renewal.sequences.book import MemberIndeterminate, MemberPending, MemberRejected
from trio_reactor.renewal.source import Commit


class Writer(Actor):
    """One whose requests leave by another task of its, which may be late."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Commit] = []

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        self.commits.append(commit)
        await trio.sleep_forever()
        raise AssertionError


async def test_what_was_said_not_to_have_left_does_not_leave_later(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, renewal={"reply_timeout": 5.0})
    writer = Writer()
    async with stage.open(giving(writer)) as renewal:
        submission = renewal.prepare(scene(), sequence=SequenceMember("titles", "a"))
        with pytest.raises(TimedOut) as caught:
            await submission.submit()
        assert caught.value.outcome == "not-submitted"
        with pytest.raises(Retired):
            writer.commits[0]()
        assert renewal.sequences.snapshots() == ()


@pytest.mark.parametrize("slow", [0.0, 5.0])
async def test_a_member_that_is_late_to_end_does_not_settle_its_namesake_at_another_source(
    slow: float, autojump_clock: object
) -> None:
    stage = Stage(lifetime=60.0, renewal={"reply_timeout": 300.0})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        source = stage.provider.newest
        desk = Desk(source)
        enqueue = desk.enqueue

        async def slow_to_leave(*args: Any, **named: Any) -> str:
            try:
                return await enqueue(*args, **named)
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(slow)

        source.enqueue = slow_to_leave  # type: ignore[method-assign]
        first = renewal.prepare(scene(1), sequence=SequenceMember("titles", "a"))
        failures: list[ReactorError] = []

        async def submit() -> None:
            try:
                await first.submit()
            except ReactorError as failure:
                failures.append(failure)

        nursery.start_soon(submit)
        await until(lambda: bool(stage.said(SequenceRetired)))
        renewal.sequences.acknowledge("titles")
        renewal.sequences.release("titles")
        second = Desk(stage.provider.newest)
        nursery.start_soon(renewal.prepare(scene(1), sequence=SequenceMember("titles", "a")).submit)
        await wait_all_tasks_blocked()
        assert second.sent == 1
        await trio.sleep(slow + 1)
        assert [failure.outcome for failure in failures] == ["unknown"]
        titles = renewal.sequences.get("titles")
        assert titles is not None
        assert titles.members == {"a": MemberPending()}
        second.answered.set()
        await wait_all_tasks_blocked()


@pytest.mark.parametrize("position", [2**31, -1, 10**30, 1.5, "1", True])
async def test_a_position_that_is_none_is_refused_where_it_is_given(
    position: Any, autojump_clock: object
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open(giving(Actor())) as renewal:
        with pytest.raises(ValueError, match="position"):
            renewal.prepare(scene(), position=position)
        await renewal.enqueue(scene())
        with pytest.raises(ValueError, match="position"):
            await renewal.move("clip", position)
        assert renewal.state.status == "ready"


@pytest.mark.parametrize("position", [2**31 - 1, 1000, 0])
async def test_any_position_that_a_provider_takes_has_a_place_in_what_is_known(
    position: int, autojump_clock: object
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open(giving(Actor())) as renewal:
        await renewal.enqueue(scene(), position=position)
        await renewal.move("clip", position)
        assert renewal.state.status == "ready"


@pytest.mark.parametrize("name", ["\ud800", "a\udfff"])
async def test_a_name_that_is_no_unicode_text_is_refused(name: str, autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        for wrong in (
            lambda: SequenceMember(name),
            lambda: SequenceMember("titles", name),
            lambda: renewal.prepare(scene(), before=name),
            lambda: renewal.prepare(scene(), same_session_as=name),
            lambda: renewal.prepare(ClipRequest({}, name)),
        ):
            with pytest.raises(ValueError, match="Unicode"):
                cast("Any", wrong)()


async def test_a_clip_whose_identity_is_no_unicode_text_costs_its_source_its_place(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    actor = Actor()
    actor.answer = "\ud800"
    async with stage.open(giving(actor)) as renewal:
        with pytest.raises(ReactorError) as caught:
            await renewal.enqueue(scene())
        assert caught.value.outcome == "unknown"
        await until(lambda: renewal.state.status == "ready")
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.source.incarnation == 2


@pytest.mark.parametrize("outcome", ["not-submitted", "unknown", "replied"])
async def test_a_refusal_of_what_has_left_is_an_answer_whatever_it_says_of_itself(
    outcome: Any, autojump_clock: object
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        desk = Desk(stage.provider.newest)
        desk.answered.set()
        desk.answer = Refused("no", outcome=outcome)
        submission = renewal.prepare(scene(), sequence=SequenceMember("titles", "a"))
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                await submission.submit()
            assert caught.value.outcome == "replied"
        assert isinstance(submission.state, Completed)
        assert desk.sent == 1
        titles = renewal.sequences.get("titles")
        assert titles is not None
        assert isinstance(titles.members["a"], MemberRejected)
        assert not stage.said(Recovering)


@pytest.mark.parametrize("outcome", ["not-submitted", "unknown"])
async def test_only_an_answer_can_tell_that_nothing_came_of_what_has_left(
    outcome: Any, autojump_clock: object
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        desk = Desk(stage.provider.newest)
        desk.answered.set()
        desk.answer = Lost("the connection is gone", outcome=outcome)
        submission = renewal.prepare(scene(), sequence=SequenceMember("titles", "a"))
        with pytest.raises(Lost) as caught:
            await submission.submit()
        assert caught.value.outcome == "unknown"
        titles = renewal.sequences.get("titles")
        assert titles is not None
        assert isinstance(titles.members["a"], MemberIndeterminate)
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert desk.sent == 1


class Stutterer(Actor):
    """One that sends what it is given twice."""

    sent = 0

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        for _ in range(2):
            commit()
            self.sent += 1
            await trio.sleep(1)
        return "clip"


async def test_a_source_that_would_send_a_request_twice_is_stopped_and_replaced(
    autojump_clock: object,
) -> None:
    stage = Stage()
    stutterer = Stutterer()
    async with stage.open(giving(stutterer)) as renewal:
        submission = renewal.prepare(scene())
        for _ in range(2):
            with pytest.raises(ContractBroken) as caught:
                await submission.submit()
            assert caught.value.outcome == "unknown"
        assert stutterer.sent == 1
        await until(lambda: len(stage.said(OnAir)) == 2)
