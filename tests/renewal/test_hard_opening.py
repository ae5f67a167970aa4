"""Opening at the edge of its budget, with callbacks that call back in, and with false evidence."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from chain_stage import Stage, Token, until
from lying_stage import Actor, giving

from trio_reactor.events import FailureRecord
from trio_reactor.renewal import Cleanup, OpenFailed
from trio_reactor.renewal.events import OnAir, OpenFailure, SourceClosed, SourceOpened
from trio_reactor.renewal.source import Predecessor, Source


async def test_what_is_open_in_the_step_in_which_its_budget_ran_out_was_too_slow_and_is_closed(
    autojump_clock: object,
) -> None:
    late = Token("late")

    @asynccontextmanager
    async def opener(before: Predecessor) -> AsyncGenerator[Source]:
        if before.source is None:
            yield Token("first", 60.0)
            return
        with trio.CancelScope(shield=True):
            await trio.sleep(5.0)
        yield late

    stage = Stage(renewal={"open_timeout": 5.0, "max_failures": 100})
    async with stage.open(opener):
        await until(lambda: bool(stage.said(OpenFailure)))
        failed = stage.said(OpenFailure)[0]
        assert (failed.failure.type, failed.source.incarnation) == ("TimedOut", 2)
        assert [said.source.incarnation for said in stage.said(SourceOpened)] == [1]
        assert late.closes == 1


async def test_a_source_that_is_set_up_no_sooner_than_its_life_is_over_fails_at_that_end(
    autojump_clock: object,
) -> None:
    class Slow(Actor):
        async def set_canvas(self, width: int, height: int, /) -> None:
            raise AssertionError

        async def attach(self, sink: Any, /) -> Any:
            await trio.sleep_forever()

    stage, slow = Stage(renewal={"lead": 0.0, "open_timeout": 30.0}), Slow("slow", 3.0)
    started = trio.current_time()
    with pytest.raises(OpenFailed):
        async with stage.open(giving(slow)):
            raise AssertionError("it was opened")
    assert trio.current_time() - started == pytest.approx(3.0)
    assert slow.closes == 1


@pytest.mark.parametrize("where", ["context", "resumption", "opener"])
async def test_a_callback_that_cancels_what_is_around_the_renewal_ends_it_like_any_cancellation(
    autojump_clock: object, where: str
) -> None:
    scope = trio.CancelScope()
    opens = 0

    class Leaving(Token):
        @property
        def resumption(self) -> str | None:
            if where == "resumption" and armed:
                scope.cancel()
            return None

    armed = False

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Source]:
        nonlocal opens
        opens += 1
        if where == "opener" and armed:
            scope.cancel()
        await trio.lowlevel.checkpoint()
        yield Leaving(f"source {opens}", 60.0)

    def context() -> Any:
        if where == "context":
            scope.cancel()
        return None

    stage = Stage()
    with scope:
        async with stage.open(opener, context=context):
            armed = True
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert stage.story[-1] == "RenewalClosed"
    assert "RenewalFailed" not in stage.story
    assert len(stage.said(OnAir)) == 1
    assert opens == (2 if where == "opener" else 1)


@pytest.mark.parametrize(
    "evidence",
    [
        "all is well",
        Cleanup.of("other", allocation="owned", termination="confirmed", connection="closed"),
        Cleanup.of(
            None,
            allocation="owned",
            termination="unconfirmed",
            connection="failed",
            failures=(FailureRecord("Lost", "broken \ud800"),),
        ),
    ],
    ids=["none", "of another", "not to be encoded"],
)
@pytest.mark.parametrize("first", [True, False])
async def test_evidence_of_a_failed_open_that_makes_no_sense_proves_nothing_and_breaks_nothing(
    autojump_clock: object, evidence: Any, first: bool
) -> None:
    opens = 0

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Source]:
        nonlocal opens
        opens += 1
        await trio.lowlevel.checkpoint()
        source = Token(f"source {opens}", 60.0)
        if opens == (1 if first else 2):
            raise OpenFailed("no", cleanup=evidence)
        yield source

    stage = Stage()
    if first:
        with pytest.raises(OpenFailed) as raised:
            async with stage.open(opener):
                raise AssertionError("it was opened")
        cleanup = raised.value.cleanup
        assert cleanup is not None
        assert not cleanup.complete or cleanup.source == "other"
        return
    async with stage.open(opener):
        await trio.sleep(70)
        assert len(stage.said(OnAir)) == 2
    assert [said.source.incarnation for said in stage.said(SourceClosed)] == [1, 3]


async def test_of_two_losses_while_a_source_is_set_up_the_first_is_named(
    autojump_clock: object,
) -> None:
    class Falling(Actor):
        async def open_media(self, sink: Any, /) -> Any:
            self.events[0].lost(None)
            sink.lost(None)
            return await super().open_media(sink)

    stage = Stage()
    with pytest.raises(OpenFailed) as raised:
        async with stage.open(giving(Falling("falling"))):
            raise AssertionError("it was opened")
    assert "events-lost" in str(raised.value.__cause__)
