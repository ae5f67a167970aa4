"""The ends of a chain: closing, failing, and a first source that does not open."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
from chain_stage import Stage, Token, scene, tokens, until
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Closed, Failed, Overflow
from trio_reactor.renewal import Cleanup, OpenFailed, RenewalReport
from trio_reactor.renewal.events import (
    OnAir,
    OpenFailure,
    Prepared,
    Recovered,
    RenewalClosed,
    RenewalFailed,
    Replaced,
    SourceClosed,
    SourceOpening,
)
from trio_reactor.renewal.source import Predecessor, Source
from trio_reactor.testing import Fails, Never, Slow


async def test_close_retires_every_source_once_and_reports_it(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await until(lambda: bool(stage.said(Prepared)))
        sources = list(stage.provider.live.values())
        report = await renewal.close()
        assert [source.closes for source in sources] == [1, 1]
        assert report == renewal.report == stage.said(RenewalClosed)[0].report
        assert (report.total, report.complete) == (2, True)
        assert stage.story[-1] == "RenewalClosed"
        assert renewal.state.status == "closed"
    assert [said.why for said in stage.said(SourceClosed)] == ["retired", "retired"]
    assert stage.said(RenewalClosed)[0].source == stage.said(OnAir)[0].source


async def test_everybody_who_closes_gets_the_same_report(autojump_clock: object) -> None:
    stage = Stage()
    reports: list[RenewalReport] = []
    async with stage.open() as renewal, trio.open_nursery() as nursery:

        async def close() -> None:
            reports.append(await renewal.close())

        for _ in range(3):
            nursery.start_soon(close)
    assert len(reports) == 3
    assert reports[0] == reports[1] == reports[2]


async def test_close_cancels_and_joins_a_preparation(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, faults={"open": {2: Never()}})
    async with stage.open() as renewal:
        await trio.sleep(55)
        report = await renewal.close()
        assert (report.total, report.complete) == (2, True)
        assert trio.current_time() < 56
        await trio.sleep(100)
    assert stage.provider.attempts == 2


async def test_an_open_that_succeeds_although_it_was_cancelled_is_closed(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, stubborn=True, open_delay=3.0)
    async with stage.open() as renewal:
        await trio.sleep(51)
        report = await renewal.close()
    assert (stage.provider.opened, stage.provider.closed) == (2, 2)
    assert (report.total, report.complete) == (2, True)
    assert not stage.said(Prepared)


async def test_a_replacement_that_falls_due_after_close_began_opens_nothing(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"close": {1: Slow(5.0)}})
    async with stage.open() as renewal:
        source = stage.provider.newest
        async with trio.open_nursery() as nursery:
            nursery.start_soon(renewal.close)
            await trio.sleep(1)
            source.die()
    assert stage.provider.attempts == 1
    assert not stage.said(RenewalFailed)


async def test_a_source_that_dies_in_the_last_words_of_the_body_is_not_replaced(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    with trio.move_on_after(52) as scope:
        async with stage.open() as renewal:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    stage.provider.live["simulated-1"].die()
                    await trio.sleep(5)
                    assert renewal.state.status == "vacant"
    assert scope.cancelled_caught
    assert stage.provider.attempts == 2
    assert stage.said(Replaced)[0].new is None
    assert len(stage.said(OnAir)) == 1


async def test_an_application_can_issue_its_last_commands_when_it_is_cancelled(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    with trio.move_on_after(10):
        async with stage.open() as renewal:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await renewal.set_autoplay(False)
                    await renewal.enqueue(scene(1))
    assert stage.provider.dispatched == 1


async def test_a_reconnect_that_ends_after_close_began_restores_nothing(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, faults={"reconnect": {1: Slow(5.0)}, "close": {1: Slow(8.0)}})
    async with stage.open() as renewal:
        await trio.sleep(1)
        stage.provider.newest.lose_connection()
        await trio.sleep(1)
        await renewal.close()
    assert not stage.said(Recovered)
    assert stage.said(SourceClosed)[0].cleanup.complete


async def test_a_close_that_hangs_is_given_up_in_time_and_not_called_complete(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=None,
        faults={"close": {1: Never()}},
        renewal={"cleanup_timeout": 3.0, "accounting_timeout": 1.0},
    )
    async with stage.open() as renewal:
        began = trio.current_time()
        report = await renewal.close()
        assert trio.current_time() - began == pytest.approx(3.0)
    assert not report.complete
    (cleanup,) = [kept.cleanup for kept in report.unresolved]
    assert (cleanup.source, cleanup.termination) == ("simulated-1", "unconfirmed")
    assert [failure.type for failure in cleanup.failures] == ["TimedOut"]


async def test_the_budget_of_close_counts_from_its_beginning(autojump_clock: object) -> None:
    stage = Stage(
        lifetime=60.0,
        stubborn=True,
        open_delay=2.5,
        faults={"close": {1: Never(), 2: Never()}},
        renewal={"cleanup_timeout": 3.0, "accounting_timeout": 1.0, "open_timeout": 10.0},
    )
    async with stage.open() as renewal:
        await trio.sleep(50.1)
        began = trio.current_time()
        report = await renewal.close()
        assert trio.current_time() - began <= 4.0 + 1e-6
    assert len(report.unresolved) == 2


async def test_what_closing_raises_is_kept_with_the_evidence(autojump_clock: object) -> None:
    stage = Stage(
        lifetime=None, faults={"close": {1: Fails("refused")}, "media-close": {1: Fails("lost")}}
    )
    async with stage.open():
        await trio.sleep(1)
    (closed,) = stage.said(SourceClosed)
    assert not closed.cleanup.complete
    assert [failure.type for failure in closed.cleanup.failures] == ["Refused", "Lost"]


@pytest.mark.parametrize("place", ["close", "media-close"])
async def test_a_defect_of_closing_is_raised_once(autojump_clock: object, place: str) -> None:
    stage = Stage(lifetime=None, faults={place: {1: Fails("defect")}})
    with pytest.raises(ExceptionGroup) as caught:
        async with stage.open():
            await trio.sleep(1)
    assert [type(failure) for failure in caught.value.exceptions] == [RuntimeError]
    assert stage.provider.left == 1


async def test_a_defect_of_retiring_the_old_source_is_terminal(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, faults={"close": {1: Fails("defect")}})
    with pytest.raises(RuntimeError, match="close: a defect"):
        async with stage.open() as renewal:
            await until(lambda: bool(stage.said(Prepared)))
            await renewal.enqueue(scene(1))
            await trio.sleep_forever()
    assert stage.provider.left == 2


async def test_closing_without_evidence_is_not_called_complete(autojump_clock: object) -> None:
    token = Token("a", None)

    async def close() -> None:
        await trio.lowlevel.checkpoint()

    token.close = close  # type: ignore[method-assign, assignment]
    stage = Stage()
    async with stage.open(tokens(token)) as renewal:
        report = await renewal.close()
    assert [failure.type for failure in report.unresolved[0].cleanup.failures] == ["ContractBroken"]


async def test_an_output_that_is_not_drained_while_everything_closes_is_no_failure(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, stubborn=True, open_delay=8.0, renewal={"max_frames": 10})
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        nursery.start_soon(stage.watch, renewal)
        await trio.sleep(49)
        await renewal.enqueue(scene(500))
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert not stage.said(RenewalFailed)


# ------------------------------------------------------------------------------- the first source


async def test_a_first_source_that_is_refused_raises_its_own_failure_with_the_evidence(
    autojump_clock: object,
) -> None:
    stage = Stage()
    refused = OpenFailed("no", detail="their words", permanent=True)
    stage.provider.refusing = lambda: refused
    with pytest.raises(OpenFailed) as caught:
        async with stage.open():
            pytest.fail("it opened")
    assert caught.value is refused
    assert refused.cleanup is not None
    assert refused.cleanup.complete
    assert stage.story == ["SourceOpening", "OpenFailure", "RenewalClosed"]
    assert stage.said(RenewalClosed)[0].report.total == 1


async def test_weather_at_the_first_open_becomes_an_open_that_failed(
    autojump_clock: object,
) -> None:
    stage = Stage(faults={"open": {1: Fails("lost")}})
    with pytest.raises(OpenFailed) as caught:
        async with stage.open():
            pytest.fail("it opened")
    assert type(caught.value.__cause__).__name__ == "Lost"
    assert caught.value.outcome == "unknown"


async def test_the_partial_lease_of_a_failed_open_is_closed_and_reported(
    autojump_clock: object,
) -> None:
    stage = Stage(faults={"attach": {1: Fails("refused")}, "close": {1: Fails("lost")}})
    with pytest.raises(OpenFailed) as caught:
        async with stage.open():
            pytest.fail("it opened")
    cleanup = caught.value.cleanup
    assert cleanup is not None
    assert not cleanup.complete
    assert [failure.type for failure in cleanup.failures] == ["Lost"]


async def test_a_defect_of_the_close_beside_a_failed_open_is_not_lost(
    autojump_clock: object,
) -> None:
    stage = Stage(faults={"attach": {1: Fails("refused")}, "close": {1: Fails("defect")}})
    with pytest.raises(ExceptionGroup) as caught:
        async with stage.open():
            pytest.fail("it opened")
    assert {type(failure) for failure in caught.value.exceptions} == {RuntimeError, OpenFailed}


async def test_a_defect_of_the_first_open_is_raised_as_it_is(autojump_clock: object) -> None:
    stage = Stage(faults={"open": {1: Fails("defect")}})
    with pytest.raises(RuntimeError, match="open: a defect"):
        async with stage.open():
            pytest.fail("it opened")


async def test_what_was_reported_of_a_failed_open_is_what_the_report_says(
    autojump_clock: object,
) -> None:
    cleanup = Cleanup.of("half", allocation="owned", termination="unconfirmed", connection="closed")

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Source]:
        async with trio.open_nursery():  # puts it into a group
            raise OpenFailed("half way", cleanup=cleanup)
            yield Token("never")

    stage = Stage()
    with pytest.raises(OpenFailed, match="half way"):
        async with stage.open(opener):
            pytest.fail("it opened")
    report = stage.said(RenewalClosed)[0].report
    assert [kept.cleanup for kept in report.unresolved] == [cleanup]
    assert stage.said(OpenFailure)[0].failure.type == "OpenFailed"


async def test_an_open_whose_fate_is_unknown_is_not_called_clean(autojump_clock: object) -> None:
    stage = Stage()
    stage.provider.refusing = lambda: OpenFailed("who knows", outcome="unknown")
    with pytest.raises(OpenFailed) as caught:
        async with stage.open():
            pytest.fail("it opened")
    assert caught.value.cleanup is not None
    assert not caught.value.cleanup.complete


async def test_a_cancelled_entry_gives_up_the_first_source(autojump_clock: object) -> None:
    stage = Stage(open_delay=5.0)
    with trio.move_on_after(1) as scope:
        async with stage.open():
            pytest.fail("it opened")
    assert scope.cancelled_caught
    assert stage.provider.opened == 0


# ---------------------------------------------------------------------------- the terminal failure


async def test_the_terminal_failure_is_everywhere_before_anybody_wakes(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, faults={"open": {2: Fails("defect")}})
    seen: list[str] = []
    with pytest.raises(RuntimeError, match="a defect"):
        async with stage.open() as renewal, trio.open_nursery() as nursery:

            async def reader() -> None:
                with pytest.raises(Failed) as caught:
                    await renewal.video.receive()
                seen.append(type(caught.value.__cause__).__name__)
                with pytest.raises(Failed):
                    _ = renewal.state
                with pytest.raises(Failed):
                    await renewal.enqueue(scene())
                assert stage.story[-1] == "RenewalFailed"

            async def observer() -> None:
                with renewal.observe(RenewalFailed) as (_, changes):
                    seen.append((await changes.receive()).event.failure.type)
                    with pytest.raises(Failed):
                        await changes.receive()

            nursery.start_soon(reader)
            nursery.start_soon(observer)
    assert sorted(seen) == ["RuntimeError", "RuntimeError"]
    assert stage.story[-1] == "RenewalFailed"


async def test_the_last_word_of_a_failed_renewal_is_its_failure_with_the_tail(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, renewal={"max_frames": 5})
    with pytest.raises(Overflow, match="max_frames"):
        async with stage.open() as renewal:
            await renewal.enqueue(scene(50))
            await trio.sleep_forever()
    (failed,) = stage.said(RenewalFailed)
    assert failed.tail is not None
    assert failed.tail.frames_queued == 5
    assert failed.source == stage.said(OnAir)[0].source
    assert stage.story[-1] == "RenewalFailed"


async def test_after_close_only_commands_raise(autojump_clock: object) -> None:
    stage = Stage()
    async with stage.open() as renewal:
        await renewal.close()
        for command in (
            renewal.enqueue(scene()),
            renewal.set_autoplay(True),
            renewal.pause_and_stop(),
            renewal.stop_renewal(),
            renewal.remove("x"),
        ):
            with pytest.raises(Closed):
                await command
        assert renewal.pressure().frames == 0
        assert renewal.statistics().video.queued == 0
        assert renewal.state.on_air is None
        with pytest.raises(trio.EndOfChannel):
            await renewal.video.receive()


async def test_the_report_adds_up_and_refuses_to_contradict_itself(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=20.0, renewal={"retained_successful_cleanups": 1})
    async with stage.open():
        await trio.sleep(90)
    report = stage.said(RenewalClosed)[0].report
    assert report.total == stage.provider.attempts == len(report.retained) + report.omitted.total
    assert RenewalReport.from_json(report.to_json()) == report
    broken = msgspec.json.decode(report.to_json())
    broken["total"] += 1
    with pytest.raises(msgspec.ValidationError):
        RenewalReport.from_json(msgspec.json.encode(broken))


# ------------------------------------------------------------------------------ stopping to renew


async def test_stop_renewal_keeps_the_source_to_its_end_and_then_ends_the_output(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await renewal.stop_renewal()
        await renewal.stop_renewal()
        await trio.sleep(59)
        assert renewal.state.status == "ready"
        await trio.sleep(2)
        assert renewal.state.status == "finished"
        with pytest.raises(trio.EndOfChannel):
            await renewal.video.receive()
        assert stage.provider.attempts == 1
        assert stage.story.count("RenewalStopped") == 1


async def test_stop_renewal_cancels_and_joins_a_preparation(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0, open_delay=3.0, stubborn=True)
    async with stage.open() as renewal:
        await trio.sleep(51)
        began = trio.current_time()
        await renewal.stop_renewal()
        assert trio.current_time() > began + 1
        assert stage.provider.left == 1
        assert len(stage.said(SourceOpening)) == 2
        await trio.sleep(5)
        assert stage.provider.attempts == 2


async def test_a_close_joins_a_preparation_that_stop_renewal_gave_up(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, open_delay=3.0, stubborn=True)
    async with stage.open() as renewal, trio.open_nursery() as nursery:
        await trio.sleep(51)
        nursery.start_soon(renewal.stop_renewal)
        await wait_all_tasks_blocked()
        report = await renewal.close()
        assert stage.provider.left == 2
        assert report.complete


async def test_what_is_prepared_already_is_used_after_stop_renewal(autojump_clock: object) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await until(lambda: bool(stage.said(Prepared)))
        await renewal.stop_renewal()
        await trio.sleep(20)
        assert [said.cause for said in stage.said(OnAir)] == ["first", "loss"]
        await trio.sleep(60)
        assert renewal.state.status == "finished"


async def test_failures_beyond_the_bound_of_unresolved_clean_ups_fail_closed(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=20.0,
        faults={"close": {number: Fails("refused") for number in range(1, 99)}},
        renewal={"max_unresolved_cleanups": 4},
    )
    with pytest.raises(Overflow, match="max_unresolved_cleanups"):
        async with stage.open():
            await trio.sleep_forever()
    assert stage.provider.opened == 4
