"""What a successor is given of the one before it, and what becomes of a handle that is refused."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from chain_stage import Stage, scene, until

from trio_reactor.errors import Lost
from trio_reactor.renewal import ContextBroken, OpenFailed, SourcesExhausted
from trio_reactor.renewal.events import (
    HandedOver,
    OnAir,
    OpenFailure,
    Prepared,
    RenewalFailed,
    RenewalFinished,
    ResumptionDiscarded,
    SourceClosed,
    SourceOpening,
)
from trio_reactor.renewal.simulation import SimulatedSource, SimulationOptions
from trio_reactor.renewal.source import Predecessor, Source, SourceOpener
from trio_reactor.testing import Fails


def noting(
    stage: Stage, refuses: Callable[[Predecessor], Exception | None] = lambda _: None
) -> tuple[list[Predecessor], SourceOpener]:
    """The stage's provider, and everything that it was given."""
    given: list[Predecessor] = []

    @asynccontextmanager
    async def opener(predecessor: Predecessor) -> AsyncGenerator[Source]:
        given.append(predecessor)
        await trio.lowlevel.checkpoint()
        refusal = refuses(predecessor)
        if refusal is not None:
            raise refusal
        async with stage.provider(predecessor) as source:
            yield source

    return given, opener


def legacies(given: list[Predecessor]) -> list[tuple[str, str | None, Any]]:
    return [(each.cause, each.resumption, each.context) for each in given]


async def test_a_successor_is_given_the_context_where_there_is_nothing_to_resume_from(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None)
    given, opener = noting(stage)
    turns = itertools.count(1)
    history: list[Any] = []

    def context() -> Any:
        history.append(next(turns))
        return {"turns": history}

    async with stage.open(opener, context=context):
        assert not history, "a first source has nothing to be told again"
        for number in (2, 3):
            stage.provider.newest.die()
            await until(lambda number=number: len(stage.said(OnAir)) == number)  # type: ignore[misc]
    history.append("later")
    assert legacies(given) == [
        ("first", None, None),
        ("loss", None, {"turns": [1]}),
        ("loss", None, {"turns": [1, 2]}),
    ]


async def test_the_handle_is_read_at_the_last_moment_and_goes_alone(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=60.0, resumable=True)
    given, opener = noting(stage)
    monkeypatch.setattr(
        SimulatedSource,
        "resumption",
        property(lambda source: f"{source.number} at {trio.current_time():.0f}"),
    )
    async with stage.open(opener, context=lambda: pytest.fail("it has a handle")):
        await until(lambda: bool(stage.said(Prepared)))
        assert legacies(given)[1:] == [("plan", "1 at 50", None)]
        stage.provider.live["simulated-1"].die()
        await until(lambda: len(stage.said(OnAir)) == 2)
        await trio.sleep(10)
        died = f"2 at {trio.current_time():.0f}"
        stage.provider.newest.die(Lost("cable"))
        await until(lambda: len(stage.said(OnAir)) == 3)
        assert legacies(given)[2][:2] == ("loss", died)


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in a group"])
async def test_a_refused_resumption_is_discarded_and_one_fresh_open_gets_the_context_at_once(
    autojump_clock: object, grouped: bool
) -> None:
    stage = Stage(lifetime=None, resumable=True, renewal={"max_failures": 2, "stable_after": 0.0})

    def refuses(predecessor: Predecessor) -> Exception | None:
        if predecessor.resumption is None:
            return None
        refused = OpenFailed("it is forgotten", resumption_refused=True)
        return ExceptionGroup("the adapter's", [Lost("cable"), refused]) if grouped else refused

    given, opener = noting(stage, refuses)
    async with stage.open(opener, context=lambda: "so far") as renewal:
        await trio.sleep(2)  # one that dies as it opens is followed after a pause, whatever it left
        died = trio.current_time()
        stage.provider.newest.die()
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert stage.said(OnAir)[-1].gap == pytest.approx(0.2, abs=0.1)
        assert trio.current_time() - died < 1, "no pause"
        assert renewal.state.status == "ready"
    assert legacies(given)[1:] == [("loss", "after-1", None), ("loss", None, "so far")]
    assert not stage.said(OpenFailure)
    (said,) = stage.said(ResumptionDiscarded)
    assert said.source.incarnation == 2
    assert [each.resuming for each in stage.said(SourceOpening)] == [False, True, False]
    report = renewal.report
    assert report is not None
    assert (report.total, report.complete) == (3, True)


async def test_after_a_source_that_died_as_it_opened_the_first_open_waits_and_not_the_fresh_one(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=None,
        resumable=True,
        renewal={"stable_after": 0.0, "first_pause": 3.0, "pause_jitter": 0.0},
    )
    begun: list[float] = []

    def refuses(predecessor: Predecessor) -> Exception | None:
        begun.append(trio.current_time())
        resumed = predecessor.resumption is not None
        return OpenFailed("it is forgotten", resumption_refused=True) if resumed else None

    given, opener = noting(stage, refuses)
    async with stage.open(opener, context=lambda: "so far"):
        died = trio.current_time()
        stage.provider.newest.die()
        await until(lambda: len(stage.said(OnAir)) == 2)
    assert legacies(given)[1:] == [("loss", "after-1", None), ("loss", None, "so far")]
    assert begun[1:] == [pytest.approx(died + 3.0), pytest.approx(died + 3.0)]


async def test_a_fresh_open_that_fails_counts_and_the_handle_is_not_offered_again(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=None, resumable=True, renewal={"max_failures": 3, "stable_after": 0.0})
    refused = OpenFailed("it is forgotten", resumption_refused=True)
    given, opener = noting(stage, lambda before: None if before.cause == "first" else refused)
    with pytest.raises(SourcesExhausted):
        async with stage.open(opener, context=lambda: "so far"):
            stage.provider.newest.die()
            await trio.sleep(100)
    assert legacies(given)[1:] == [("loss", "after-1", None)] + [("loss", None, "so far")] * 3
    assert [said.consecutive for said in stage.said(OpenFailure)] == [1, 2, 3]
    assert len(stage.said(ResumptionDiscarded)) == 1


async def test_a_new_handle_of_the_same_source_is_offered_but_never_to_the_fresh_open(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(
        lifetime=60.0, resumable=True, refuses_resumption=True, faults={"open": {3: Fails("lost")}}
    )
    reads = itertools.count(1)
    monkeypatch.setattr(
        SimulatedSource, "resumption", property(lambda source: f"handle {next(reads)}")
    )
    async with stage.open(context=lambda: "so far"):
        await until(lambda: bool(stage.said(Prepared)))
        resuming = [said.resuming for said in stage.said(SourceOpening)]
        # First; refused and its fresh open, which fails; after a pause, refused and a fresh one.
        assert resuming == [False, True, False, True, False]
        assert [said.consecutive for said in stage.said(OpenFailure)] == [1]
        assert stage.provider.newest.predecessor.context == "so far"


async def test_a_refusal_of_the_resumption_does_not_hide_a_defect(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, resumable=True)
    broken = ExceptionGroup(
        "both", [OpenFailed("forgotten", resumption_refused=True), ZeroDivisionError()]
    )
    given, opener = noting(stage, lambda before: None if before.cause == "first" else broken)
    with pytest.raises(BaseExceptionGroup) as caught:
        async with stage.open(opener):
            stage.provider.newest.die()
            await trio.sleep(100)
    assert caught.group_contains(ZeroDivisionError)
    assert len(given) == 2
    assert not stage.said(ResumptionDiscarded)


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: {"a": [1, (2,)]}, r"context\.a\[1\]: a tuple is not JSON"),
    (lambda: {1: 2}, "context: a key is an int, not text"),
    (lambda: float("nan"), "context: nan is not JSON"),
    (lambda: 2**64, "more than 64 bits"),
    (lambda: "x" * 100, "context: larger than 100 bytes"),
    (lambda: "\ud800", "text that is not Unicode"),
    (lambda: b"x", "context: a bytes is not JSON"),
]


@pytest.mark.parametrize(("context", "words"), WRONG, ids=[words for _, words in WRONG])
async def test_a_context_that_is_not_json_or_too_large_is_terminal_and_named(
    autojump_clock: object, context: Callable[[], Any], words: str
) -> None:
    stage = Stage(lifetime=None, renewal={"max_context_bytes": 100})
    with pytest.raises(ContextBroken, match=words):
        async with stage.open(context=context):
            stage.provider.newest.die()
            await trio.sleep(100)
    assert stage.provider.attempts == 1
    assert len(stage.said(RenewalFailed)) == 1


async def test_a_context_that_contains_itself_is_terminal(autojump_clock: object) -> None:
    stage = Stage(lifetime=None)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ContextBroken, match="deeper than 64"):
        async with stage.open(context=lambda: endless):
            stage.provider.newest.die()
            await trio.sleep(100)


@pytest.mark.parametrize("failure", [ZeroDivisionError(), Lost("not now"), OSError("disk")])
async def test_whatever_the_context_raises_is_terminal(
    autojump_clock: object, failure: Exception
) -> None:
    stage = Stage(lifetime=None)

    def context() -> Any:
        raise failure

    with pytest.raises(type(failure)) as caught:
        async with stage.open(context=context):
            stage.provider.newest.die()
            await trio.sleep(100)
    assert caught.value is failure
    assert stage.provider.attempts == 1


# ------------------------------------------------------------------------ what an exclusive leaves


async def test_an_exclusive_source_is_resumed_from_after_it_has_left(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0, exclusive=True, resumable=True)
    given, opener = noting(stage)
    async with stage.open(opener) as renewal:
        await renewal.enqueue(scene(5))
        await until(lambda: bool(stage.said(HandedOver)))
        (closed,) = stage.said(SourceClosed)
        names = stage.story
        assert names.index("SourceClosed") < names.index("SourceOpening", 1)
        (said,) = stage.said(HandedOver)
        assert said.new is not None
        assert said.gap == stage.said(OnAir)[-1].gap
        assert said.tail.frames_received == 5
        assert closed.source == said.old
    assert legacies(given)[1] == ("plan", "after-1", None)


async def test_an_exclusive_source_that_goes_away_sooner_gives_way_at_once_and_the_gap_is_measured(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    stage = Stage(lifetime=None, exclusive=True, renewal={"lead": 10.0, "stable_after": 10.0})
    async with stage.open() as renewal:
        nursery.start_soon(stage.watch, renewal)
        await renewal.enqueue(scene(25))
        await trio.sleep(20)
        told = trio.current_time()
        stage.provider.newest.go_away(5.0, "maintenance")
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert trio.current_time() - told < 1, "it did not wait for the end"
        (said,) = stage.said(HandedOver)
        off, on = (
            next(each.clock for each in stage.envelopes if isinstance(each.event, kind))
            for kind in (SourceClosed, HandedOver)
        )
        # Off the air a moment before it had left, which is when its successor could open.
        assert said.gap == pytest.approx(on - off + stage.provider.options.close_delay, abs=1e-6)
        assert stage.said(OnAir)[-1].gap == said.gap


async def gave_way(stage: Stage) -> None:
    """Let time pass until the exclusive source has given way and nothing is on air."""
    await until(lambda: bool(stage.said(SourceClosed)))
    assert not stage.said(HandedOver)


@pytest.mark.parametrize("end", ["stop", "close", "leave", "cancel", "fail"])
async def test_the_tail_of_an_exclusive_source_that_nobody_followed_is_told_once(
    autojump_clock: object, end: str
) -> None:
    broken = {"open": {2: Fails("defect", after=5.0)}} if end == "fail" else {}
    stage = Stage(lifetime=60.0, exclusive=True, faults=broken)
    gone_at = 0.0
    with trio.CancelScope() as scope:
        try:
            async with stage.open() as renewal:
                await renewal.enqueue(scene(5))
                stage.provider.options = SimulationOptions(open_delay=20.0)
                await gave_way(stage)
                gone_at = trio.current_time()
                await trio.sleep(3)
                match end:
                    case "stop":
                        await renewal.stop_renewal()
                        await until(lambda: renewal.state.status == "finished")
                    case "close":
                        await renewal.close()
                    case "cancel":
                        scope.cancel()
                        await trio.sleep_forever()
                    case "fail":
                        await trio.sleep(60)
                    case _:
                        pass
        except* RuntimeError:
            assert end == "fail"
    (said,) = stage.said(HandedOver)
    assert said.new is None
    assert said.tail.frames_received == 5
    assert said.evidence.kind == "count-complete"
    if end != "fail":
        assert said.gap == pytest.approx(trio.current_time() - gone_at, abs=0.2)
    names = stage.story
    last = {"fail": "RenewalFailed", "stop": "RenewalFinished"}.get(end, "RenewalClosed")
    assert names.index("HandedOver") < names.index(last)


async def test_that_the_last_source_of_a_stopped_renewal_has_gone_is_told(
    autojump_clock: object,
) -> None:
    stage = Stage(lifetime=60.0)
    async with stage.open() as renewal:
        await renewal.stop_renewal()
        assert not stage.said(RenewalFinished)
        await until(lambda: renewal.state.status == "finished")
        (said,) = stage.said(RenewalFinished)
        assert said.source is not None
        assert said.source.id == "simulated-1"
        assert said.age == pytest.approx(60.0, abs=0.1)
    assert len(stage.said(RenewalFinished)) == 1
