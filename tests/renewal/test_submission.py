"""Submissions: prepared without a trace, sent once, and what is kept of them."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import trio
from chain_stage import Stage, scene, until
from submission_stage import Desk
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Closed, Failed, Lost, ReactorError, Refused
from trio_reactor.renewal import (
    Accepted,
    ClipRequest,
    ContractBroken,
    QueueFull,
    Renewal,
    RouteChanged,
    SequenceMember,
    SessionRecovering,
    SessionRetired,
    Submission,
)
from trio_reactor.renewal.engine.submission import Completed, Submitting, Unsent
from trio_reactor.renewal.events import (
    HandedOver,
    OnAir,
    Prepared,
    Recovered,
    Replaced,
    SourceClosed,
)


async def test_to_prepare_leaves_no_trace(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        before = stage.story
        submission = renewal.prepare(scene(), sequence=SequenceMember("titles"))
        await trio.sleep(1)
        assert submission.state == Unsent()
        assert stage.provider.dispatched == 0
        assert stage.story == before
        assert renewal.sequences.snapshots() == ()
        assert renewal._owner.statistics().workers == 1  # the chain's own
    with pytest.raises(Closed):
        await submission.submit()
    assert submission.state == Unsent()


async def test_a_request_is_taken_down_as_it_was_when_it_was_prepared(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        desk = Desk(stage.provider.newest)
        desk.answered.set()
        payload: dict[str, Any] = {"frames": 5, "look": {"colours": ["red"]}}
        submission = renewal.prepare(ClipRequest(payload))
        payload["frames"] = 7
        payload["look"]["colours"].append("green")
        await submission.submit()
        assert desk.asked == [ClipRequest({"frames": 5, "look": {"colours": ["red"]}})]


async def test_what_cannot_be_sent_is_refused_where_it_is_prepared(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        with pytest.raises(ValueError, match=r"payload\.look: a set is not JSON"):
            renewal.prepare(ClipRequest({"look": {"red"}}))  # type: ignore[dict-item]
        with pytest.raises(ValueError, match="before: a name is"):
            renewal.prepare(scene(), before="")
        with pytest.raises(ValueError, match="same_session_as: a name is"):
            renewal.prepare(scene(), same_session_as="x" * 2000)
        with pytest.raises(ValueError, match="not both"):
            renewal.prepare(scene(), before="clip", position=1)


async def test_however_often_it_is_submitted_it_is_sent_once(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    outcomes: list[Accepted] = []
    async with stage.open() as renewal:
        submission = renewal.prepare(scene())

        async def submit() -> None:
            outcomes.append(await submission.submit())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(submit)
            await trio.testing.wait_all_tasks_blocked()
            assert submission.state == Submitting(renewal.state.on_air.source)  # type: ignore[union-attr]
        await submit()
    await submit()
    assert outcomes == [Accepted(outcomes[0].source, "simulated-1/clip-1")] * 5
    assert submission.state == Completed(outcomes[0])
    assert stage.provider.dispatched == 1


async def test_a_failure_is_raised_afresh_to_everyone_and_says_the_same(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    raised: list[Refused] = []
    async with stage.open() as renewal:
        desk = Desk(stage.provider.newest)
        desk.answer = Refused("no such film", outcome="replied", detail="try another")
        submission = renewal.prepare(scene())

        async def submit() -> None:
            with pytest.raises(Refused) as caught:
                await submission.submit()
            raised.append(caught.value)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(submit)
            await wait_all_tasks_blocked()
            desk.answered.set()
        await submit()
    await submit()
    assert len(raised) == len({id(each) for each in raised}) == 5
    assert sum(each is desk.answer for each in raised) == 1
    assert {(each.message, each.outcome, each.detail, each.retryable) for each in raised} == {
        ("no such film", "replied", "try another", False)
    }
    assert desk.sent == 1


# ------------------------------------------------------------------------------- local refusals


async def test_while_its_source_recovers_nothing_is_sent_and_it_can_be_submitted_again(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, reconnect_delay=1.0)
    async with stage.open() as renewal:
        submission = renewal.prepare(scene())
        stage.provider.newest.lose_connection()
        with pytest.raises(SessionRecovering) as caught:
            await submission.submit()
        assert (caught.value.outcome, caught.value.retryable) == ("not-submitted", True)
        assert submission.state == Unsent()
        await until(lambda: bool(stage.said(Recovered)))
        assert (await submission.submit()).source.incarnation == 1
        assert stage.provider.dispatched == 1


async def test_it_keeps_to_the_source_that_it_chose(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        desk = Desk(stage.provider.newest, holds=True)
        submission = renewal.prepare(scene(), sequence=SequenceMember("titles"))
        with trio.move_on_after(1):
            await submission.submit()
        assert submission.state == Unsent()
        await until(lambda: bool(stage.said(Prepared)))
        for _ in range(2):
            with pytest.raises(RouteChanged):
                await submission.submit()
        assert renewal.sequences.snapshots() == ()
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(HandedOver)))
        with pytest.raises(SessionRetired) as caught:
            await submission.submit()
        assert caught.value.outcome == "not-submitted"
        assert submission.state == Unsent()
        assert desk.sent == 0


async def test_a_route_that_changed_before_the_request_left_sends_nothing(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, renewal={"reply_timeout": 100.0})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        desk = Desk(stage.provider.newest, holds=True)
        submission = renewal.prepare(scene(), sequence=SequenceMember("titles"))
        failures: list[ReactorError] = []

        async def submit() -> None:
            try:
                await submission.submit()
            except ReactorError as failure:
                failures.append(failure)

        nursery.start_soon(submit)
        nursery.start_soon(submit)
        await until(lambda: bool(stage.said(Prepared)))
        desk.may_leave.set()
        await wait_all_tasks_blocked()
        assert [type(failure) for failure in failures] == [RouteChanged, RouteChanged]
        assert submission.state == Unsent()
        assert (desk.sent, renewal.sequences.snapshots()) == (0, ())


async def test_a_source_that_is_gone_when_the_request_is_to_leave_is_told_as_gone(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, close_delay=5.0)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await trio.sleep(40)
        desk = Desk(stage.provider.newest, holds=True)
        raised: list[ReactorError] = []

        async def ask() -> None:
            with pytest.raises(SessionRetired) as caught:
                await renewal.enqueue(scene())
            raised.append(caught.value)

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        slot = renewal._chain.on_air
        assert slot is not None
        renewal._chain.hearing.lost(slot, "check-failed", None)
        await wait_all_tasks_blocked()
        assert renewal.state.leaving == 1
        desk.may_leave.set()
        await wait_all_tasks_blocked()
        assert [failure.outcome for failure in raised] == ["not-submitted"]
        assert desk.sent == 0


async def test_no_more_commands_are_pending_than_may_be(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, renewal={"max_queue": 2})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        desk = Desk(stage.provider.newest)
        for _ in range(2):
            nursery.start_soon(renewal.enqueue, scene())
        await wait_all_tasks_blocked()
        submission = renewal.prepare(scene())
        commands: list[Callable[[], Any]] = [
            submission.submit,
            renewal.pause_and_stop,
            lambda: renewal.remove("clip"),
            lambda: renewal.move("clip", 0),
            lambda: renewal.set_autoplay(False),
            lambda: renewal.set_canvas(320, 240),
        ]
        for command in commands:
            with pytest.raises(QueueFull) as caught:
                await command()
            assert (caught.value.outcome, caught.value.retryable) == ("not-submitted", True)
        assert submission.state == Unsent()
        desk.answered.set()
        await wait_all_tasks_blocked()
        await submission.submit()
        assert desk.sent == 3
        assert not renewal._chain.autoplay.wanted  # it is kept all the same


# ------------------------------------------------------------------------------- cancelled callers


async def test_cancelled_before_it_left_it_is_prepared_again(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        desk = Desk(stage.provider.newest, holds=True)
        desk.answered.set()
        submission = renewal.prepare(scene(), sequence=SequenceMember("titles"))
        with trio.move_on_after(1) as scope:
            await submission.submit()
        assert scope.cancelled_caught
        assert submission.state == Unsent()
        assert not renewal._chain.on_air.pending  # type: ignore[union-attr]
        assert renewal.sequences.snapshots() == ()
        desk.may_leave.set()
        await trio.sleep(1)
        assert desk.sent == 0
        assert (await submission.submit()).clip == "clip"
        assert desk.sent == 1


async def test_one_of_two_callers_who_leaves_takes_nothing_from_the_other(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        desk = Desk(stage.provider.newest, holds=True)
        desk.answered.set()
        submission = renewal.prepare(scene())
        outcomes: list[Accepted] = []
        impatient = trio.CancelScope()

        async def leave() -> None:
            with impatient:
                await submission.submit()

        async def stay() -> None:
            outcomes.append(await submission.submit())

        nursery.start_soon(leave)
        await wait_all_tasks_blocked()
        nursery.start_soon(stay)
        await wait_all_tasks_blocked()
        impatient.cancel()
        await wait_all_tasks_blocked()
        desk.may_leave.set()
        await wait_all_tasks_blocked()
        assert [outcome.clip for outcome in outcomes] == ["clip"]
        assert (desk.sent, len(desk.asked)) == (1, 1)


async def test_who_comes_while_the_last_caller_leaves_has_it_sent(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        source = stage.provider.newest
        desk = Desk(source, holds=True)
        desk.answered.set()
        enqueue = desk.enqueue

        async def slow_to_leave(*args: Any, **named: Any) -> str:
            try:
                return await enqueue(*args, **named)
            except trio.Cancelled:
                with trio.CancelScope(shield=True):
                    await trio.sleep(3)
                raise

        source.enqueue = slow_to_leave  # type: ignore[method-assign]
        submission = renewal.prepare(scene())
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_soon, scope)
            nursery.start_soon(_submit_at, 2.0, submission)
            await submission.submit()
        assert trio.current_time() == pytest.approx(4.2, abs=0.3)
        assert submission.state == Submitting(renewal.state.on_air.source)  # type: ignore[union-attr]
        desk.may_leave.set()
        await wait_all_tasks_blocked()
        assert isinstance(submission.state, Completed)
        assert (desk.sent, len(desk.asked)) == (1, 2)


async def _cancel_soon(scope: trio.CancelScope) -> None:
    await trio.sleep(1)
    scope.cancel()


async def _submit_at(after: float, submission: Submission) -> None:
    await trio.sleep(after)
    await submission.submit()


async def test_cancelled_after_it_left_it_goes_on_and_its_outcome_can_be_read(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        desk = Desk(stage.provider.newest)
        submission = renewal.prepare(scene())
        with trio.move_on_after(1) as scope:
            await submission.submit()
        assert scope.cancelled_caught
        assert isinstance(submission.state, Submitting)
        nursery.start_soon(submission.submit)
        await wait_all_tasks_blocked()
        desk.answered.set()
        await wait_all_tasks_blocked()
        ref = renewal.state.on_air.source  # type: ignore[union-attr]
        assert submission.state == Completed(Accepted(ref, "clip"))
        assert desk.sent == 1


# ------------------------------------------------------------------------------ unknown outcomes


async def test_an_unknown_outcome_replaces_the_source_and_stays_the_outcome(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await trio.sleep(40)
        desk = Desk(stage.provider.newest)
        submission = renewal.prepare(scene())
        nursery.start_soon(_unknown, submission)
        await wait_all_tasks_blocked()
        stage.provider.newest.lose_connection()
        desk.answer = Lost("the cable", outcome="unknown")
        desk.answered.set()
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert stage.said(Replaced)[0].why == "outcome-unknown"
        await _unknown(submission)
        assert (desk.sent, stage.provider.dispatched) == (1, 0)
    await _unknown(submission)


async def _unknown(submission: Submission) -> None:
    with pytest.raises(Lost) as caught:
        await submission.submit()
    assert (caught.value.outcome, caught.value.retryable) == ("unknown", False)


async def test_an_answer_in_the_step_in_which_its_source_has_ended_comes_too_late(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await trio.sleep(40)
        desk = Desk(stage.provider.newest)
        slot = renewal._chain.on_air
        assert slot is not None
        assert slot.attempt is not None
        end = functools.partial(renewal._chain.hearing.ended, slot)

        def answer_and_end(attempt: Any) -> None:
            desk.answered.set()
            end(attempt)

        submission = renewal.prepare(scene(), sequence=SequenceMember("titles"))
        nursery.start_soon(_unknown, submission)
        await wait_all_tasks_blocked()
        slot.attempt._on_ended = answer_and_end
        stage.provider.newest.die()
        await trio.sleep(1)
        titles = renewal.sequences.get("titles")
        assert titles is not None
        assert type(titles.phase).__name__ == "Indeterminate"
        await _unknown(submission)


@pytest.mark.parametrize("clip", ["", "x" * 1025, 7, None])
async def test_an_answer_without_an_identity_is_a_broken_contract(
    autojump_clock: object, clip: Any
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await trio.sleep(40)
        desk = Desk(stage.provider.newest)
        desk.answer = clip
        desk.answered.set()
        member = SequenceMember("titles", "first", final=True)
        submission = renewal.prepare(scene(), sequence=member)
        for _ in range(2):
            with pytest.raises(ContractBroken) as caught:
                await submission.submit()
            assert caught.value.outcome == "unknown"
        titles = renewal.sequences.get("titles")
        assert titles is not None
        assert type(titles.phase).__name__ == "Indeterminate"
        assert type(titles.members["first"]).__name__ == "MemberIndeterminate"
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert stage.said(Replaced)[0].why == "contract-broken"
        assert desk.sent == 1


async def test_a_source_that_answers_what_it_did_not_send_breaks_its_contract(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        await trio.sleep(40)

        async def enqueue(*_: Any, **__: Any) -> str:
            await trio.lowlevel.checkpoint()
            return "clip"

        stage.provider.newest.enqueue = enqueue  # type: ignore[method-assign]
        submission = renewal.prepare(scene())
        with pytest.raises(ContractBroken, match="not sent"):
            await submission.submit()
        assert isinstance(submission.state, Completed)
        await until(lambda: bool(stage.said(Replaced)))


# --------------------------------------------------------------------------------- what is kept


async def accepted(stage: Stage, renewal: Renewal, submission: Submission) -> None:
    await submission.submit()


async def refused(stage: Stage, renewal: Renewal, submission: Submission) -> None:
    desk = Desk(stage.provider.newest)
    desk.answer = Refused("no", outcome="replied")
    desk.answered.set()
    with pytest.raises(Refused):
        await submission.submit()


async def lost(stage: Stage, renewal: Renewal, submission: Submission) -> None:
    desk = Desk(stage.provider.newest)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_unknown, submission)
        nursery.start_soon(_unknown, submission)
        await wait_all_tasks_blocked()
        await renewal.close()
    assert desk.sent == 1


@pytest.mark.parametrize("ending", [accepted, refused, lost])
async def test_a_completed_submission_keeps_nothing_alive_but_its_outcome(
    autojump_clock: object, ending: Callable[[Stage, Renewal, Submission], Any]
) -> None:
    submission, alive = await _played(ending)
    gc.collect()
    assert isinstance(submission.state, Completed)
    assert [each() for each in alive] == [None] * len(alive)


async def _played(
    ending: Callable[[Stage, Renewal, Submission], Any],
) -> tuple[Submission, list[weakref.ref[Any]]]:
    stage = Stage(lifetime=None)
    async with stage.open() as renewal:
        submission = renewal.prepare(scene())
        chain = renewal._chain
        kept = (stage.provider.newest, chain, chain.on_air, renewal._engine, renewal)
        alive = [weakref.ref(each) for each in kept]
        await ending(stage, renewal, submission)
    return submission, alive


async def test_a_source_that_has_left_is_kept_by_nothing_that_was_sent_to_it(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        submissions = [renewal.prepare(scene(1)) for _ in range(5)]
        async with trio.open_nursery() as nursery:
            for submission in submissions:
                nursery.start_soon(submission.submit)
        slot = weakref.ref(renewal._chain.on_air)  # type: ignore[arg-type]
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.enqueue(scene(1))
        await until(lambda: bool(stage.said(SourceClosed)))
        await renewal.enqueue(scene(1))
        gc.collect()
        assert slot() is None
        assert all(isinstance(each.state, Completed) for each in submissions)


async def test_a_defect_is_raised_by_the_block_and_to_each_who_waits_as_a_failure(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    raised: list[BaseException] = []

    async def submit(submission: Submission) -> None:
        with pytest.raises(Failed) as caught:
            await submission.submit()
        raised.append(caught.value)

    async with trio.open_nursery() as outside:
        with pytest.raises(ZeroDivisionError):
            async with stage.open() as renewal:
                desk = Desk(stage.provider.newest)
                desk.answer = ZeroDivisionError()
                submission = renewal.prepare(scene())
                outside.start_soon(submit, submission)
                outside.start_soon(submit, submission)
                await wait_all_tasks_blocked()
                desk.answered.set()
                await trio.sleep_forever()
    assert len({id(each) for each in raised}) == 2
    assert {type(each.__cause__) for each in raised} == {ZeroDivisionError}
    assert isinstance(submission.state, Completed)


async def test_a_request_that_is_never_answered_is_completed_by_close(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, renewal={"reply_timeout": 500.0})
    async with stage.open() as renewal:
        Desk(stage.provider.newest)
        submission = renewal.prepare(scene())
        with trio.move_on_after(1):
            await submission.submit()
        assert isinstance(submission.state, Submitting)
    await _unknown(submission)
