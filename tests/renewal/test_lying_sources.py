"""Adapters that lie: what they say or do is contained, told with their name, and survived."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from chain_stage import Stage, scene, until
from lying_stage import Actor, Lasting, Reel, giving, picture

from trio_reactor.errors import Lost
from trio_reactor.renewal import Cleanup, LossesUnknown, OpenFailed
from trio_reactor.renewal.errors import ContractBroken
from trio_reactor.renewal.events import (
    ClipChanged,
    ClipLost,
    LifetimeShortened,
    OnAir,
    OpenFailure,
    Prepared,
    Recovered,
    Recovering,
    Replaced,
    SourceClosed,
)
from trio_reactor.renewal.source import (
    AudioFrame,
    Clip,
    ClipEnded,
    ClipFailed,
    ClipStarted,
    ClipUpdated,
    GoingAway,
    MediaLosses,
    Predecessor,
    Source,
    SourceState,
)

LONG = "c" * 1025


def ignores(_: object, __: object) -> None:
    """Set nothing."""


def stage(**renewal: Any) -> Stage:
    return Stage(renewal={"stable_after": 0.0, "cleanup_timeout": 2.0} | renewal)


async def replaced(on: Stage) -> Replaced:
    """Wait until a source was replaced, and its successor is on air."""
    await until(lambda: len(on.said(OnAir)) == 2)
    (event,) = on.said(Replaced)
    return event


# -------------------------------------------------------------------------- what it pushes and says


@pytest.mark.parametrize(
    ("event", "did"),
    [
        (ClipUpdated(Clip(LONG, "queued")), "no identity of 1 to 1024"),
        (ClipUpdated(Clip("", "queued")), "no identity of 1 to 1024"),
        (ClipUpdated(Clip(cast("str", 7), "queued")), "Expected `str`, got `int`"),
        (
            ClipUpdated(Clip("c", cast("Any", "burning"))),
            "told a ClipUpdated that makes no sense: a value",
        ),
        (ClipUpdated(Clip("c", "ready", -1)), "a number of pictures that is none"),
        (ClipUpdated(Clip("c", "ready", cast("int", True))), "Expected `int | null`, got `bool`"),
        (ClipUpdated(cast("Clip", None)), "Expected `object`, got `null`"),
        (ClipStarted(LONG), "no identity of 1 to 1024"),
        (ClipStarted("c", 2**63), "a number of pictures that is none"),
        (ClipEnded(cast("str", None)), "Expected `str`, got `null`"),
        (ClipEnded("c", cast("int", math.nan)), "Expected `int | null`, got `float`"),
        (ClipFailed("c", cast("str", object())), "makes no sense"),
        (GoingAway(math.nan), "the notice gives nan seconds"),
        (GoingAway(cast("float", True)), "the notice gives a bool"),
        (GoingAway(5.0, cast("str", 5)), "a reason that is no text"),
        ("clip started", "told a str, which is no event"),
        (None, "told a NoneType, which is no event"),
    ],
)
async def test_an_event_that_makes_no_sense_costs_its_source_its_place(
    autojump_clock: object, event: Any, did: str
) -> None:
    on, liar = stage(), Actor("liar")
    async with on.open(giving(liar)) as renewal:
        liar.events[0].event(event)
        lost = await replaced(on)
        assert (lost.old.id, lost.why) == ("liar", "contract-broken")
        assert lost.failure is not None
        assert "source 1" in lost.failure.message
        assert did in lost.failure.message
        assert "burning" not in lost.failure.message  # what it said is not in the words
        assert renewal.state.on_air is not None
    assert not on.said(ClipChanged, LifetimeShortened)
    assert liar.closes == 1


@pytest.mark.parametrize(
    "event", [ClipEnded("ghost", 3), ClipStarted("ghost"), ClipFailed("ghost", "why not")]
)
async def test_what_is_told_of_a_clip_that_was_never_seen_is_taken_for_what_it_is(
    autojump_clock: object, event: Any
) -> None:
    on, liar = stage(), Actor("liar", 60.0)
    async with on.open(giving(liar)):
        liar.events[0].event(event)
        await trio.sleep(65)
        assert [said.change for said in on.said(ClipChanged)] == [event]
        assert on.said(OnAir)[0].source.id == "liar"
        assert len(on.said(OnAir)) == 2  # it goes on


@pytest.mark.parametrize(
    ("frame", "did"),
    [
        (picture(data=None), "gave a picture without bytes"),
        (picture(data="pixels"), "gave a picture without bytes"),
        (picture(width=-1), "gave a picture of -1 by 2 pixels"),
        (picture(height=0), "gave a picture of 2 by 0 pixels"),
        (picture(height=math.nan), "gave a picture of 2 by a float pixels"),
        (picture(clip=cast("str", 5)), "gave a frame that belongs to no clip there can be"),
        (picture(clip=LONG), "gave a frame that belongs to no clip there can be"),
        (picture(index=-1), "gave picture number -1 of a clip"),
        (picture(index="first"), "gave picture number a str of a clip"),
        (picture(time=math.nan), "gave a frame for a time that is none"),
        (picture(time="soon"), "gave a frame for a time that is none"),
        (picture(format=5), "gave a frame of a format that is no text"),
        (None, "gave a NoneType for a picture"),
    ],
)
async def test_a_picture_of_absurd_values_is_not_passed_on(
    autojump_clock: object, frame: Any, did: str
) -> None:
    on, liar = stage(), Actor("liar")
    async with on.open(giving(liar)) as renewal:
        liar.media[0].video(frame)
        lost = await replaced(on)
        assert lost.failure is not None
        assert lost.failure.message == f"source 1 {did}"
        assert renewal.statistics().video.queued == 0


async def test_a_picture_whose_memory_was_released_is_not_passed_on(
    autojump_clock: object,
) -> None:
    on, liar = stage(), Actor("liar")
    view = memoryview(bytearray(4))
    view.release()
    async with on.open(giving(liar)) as renewal:
        liar.media[0].video(picture(data=view))
        assert (await replaced(on)).why == "contract-broken"
        assert renewal.statistics().video.queued == 0


@pytest.mark.parametrize(
    "change",
    [
        {"samples": -2},
        {"samples": 10**30},
        {"samples": 1.5},
        {"channels": 0},
        {"rate": -1},
        {"data": None},
        {"clip": 5},
        {"time": math.inf},
    ],
)
async def test_sound_of_absurd_values_is_not_passed_on(
    autojump_clock: object, change: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"data": bytes(4), "samples": 2, "channels": 2, "rate": 48_000}
    told: dict[str, Any] = {**given, "format": "s16", "time": 0.0, **change}
    run = AudioFrame(**told)
    on, liar = stage(), Actor("liar")
    async with on.open(giving(liar)) as renewal:
        liar.media[0].audio(run)
        assert (await replaced(on)).why == "contract-broken"
        assert renewal.pressure().samples == 0


@pytest.mark.parametrize("cause", ["the cable", 5, KeyboardInterrupt(), ValueError])
@pytest.mark.parametrize("sink", ["events", "media"])
async def test_a_cause_of_a_loss_that_is_none_costs_its_source_its_place(
    autojump_clock: object, sink: str, cause: Any
) -> None:
    on, liar = stage(), Lasting("liar")
    async with on.open(giving(liar)):
        (liar.events[0] if sink == "events" else liar.media[0]).lost(cause)
        lost = await replaced(on)
        assert lost.failure is not None
        assert "as the cause of a loss" in lost.failure.message


@pytest.mark.parametrize("sink", ["events", "media"])
async def test_a_stream_or_socket_that_ends_without_an_error_is_lost_all_the_same(
    autojump_clock: object, sink: str
) -> None:
    on, quiet = stage(), Actor("quiet")
    async with on.open(giving(quiet)):
        (quiet.events[0] if sink == "events" else quiet.media[0]).lost(None)
        lost = await replaced(on)
        assert (lost.why, lost.failure) == (f"{sink}-lost", None)


async def test_what_is_pushed_by_another_task_after_its_end_changes_nothing(
    autojump_clock: object,
) -> None:
    on, liar = stage(), Actor("liar", 60.0)
    async with on.open(giving(liar)) as renewal:
        await until(lambda: len(on.said(SourceClosed)) == 1)
        before = len(on.envelopes)
        async with trio.open_nursery() as nursery:

            async def push() -> None:
                await trio.lowlevel.checkpoint()
                liar.events[0].event(ClipUpdated(Clip("late", "queued")))
                liar.events[0].event(cast("Any", "nonsense"))
                liar.events[0].lost(ValueError("a defect, were it heard"))
                liar.media[0].video(picture())
                liar.media[0].lost(ValueError("a defect, were it heard"))

            nursery.start_soon(push)
        await trio.sleep(5)
        assert len(on.envelopes) == before
        assert renewal.statistics().video.queued == 0


async def test_events_that_come_before_the_state_they_follow_are_not_undone_by_it(
    autojump_clock: object,
) -> None:
    on = Stage(lifetime=None, reply_delay=1.0, build_delay=1.2)
    async with on.open() as renewal:
        await renewal.enqueue(scene(5))
        on.provider.newest.lose_connection(OSError("the cable"))
        await trio.sleep(20)  # the clip is built, and played, while its state is on its way
        assert on.provider.newest.clips == ()
        assert renewal.state.on_air is not None
        assert renewal.state.on_air.clips == ()


class Hesitating(Lasting):
    """Tells something before it gives its state a second time, and then does as it is told."""

    def __init__(self, event: Any, failure: Exception | None = None) -> None:
        super().__init__("hesitating", 600.0)
        self.event = event
        self.failure = failure

    async def attach(self, sink: Any, /) -> SourceState:
        state = await super().attach(sink)
        if len(self.events) > 1:
            sink.event(self.event)
            await trio.sleep(1)
            if self.failure is not None:
                raise self.failure
        return state


async def test_a_notice_of_the_end_does_not_wait_for_the_state(autojump_clock: object) -> None:
    on, source = stage(), Hesitating(GoingAway(100.0, "maintenance"))
    async with on.open(giving(source)):
        source.media[0].lost(OSError("the cable"))
        await until(lambda: bool(on.said(Recovered)))
        told = {type(each.event): each.clock for each in on.envelopes}
        assert told[Recovered] - told[LifetimeShortened] == pytest.approx(1.0)


async def test_what_was_told_before_a_state_that_never_came_is_not_forgotten(
    autojump_clock: object,
) -> None:
    on = stage()
    source = Hesitating(ClipEnded("clip", 0), OSError("the cable, again"))
    source.told = SourceState((Clip("clip", "ready"), Clip("other", "ready")))
    async with on.open(giving(source)):
        source.media[0].lost(OSError("the cable"))
        await replaced(on)
        assert [said.change for said in on.said(ClipChanged)] == [ClipEnded("clip", 0)]
        assert [lost.clip for lost in on.said(ClipLost)] == ["other"]


async def test_a_source_that_tells_too_much_before_its_state_is_not_trusted(
    autojump_clock: object,
) -> None:
    class Babbling(Actor):
        async def attach(self, sink: Any, /) -> SourceState:
            for number in range(257):
                sink.event(ClipUpdated(Clip(f"clip {number}", "queued")))
            return await super().attach(sink)

    on = stage()
    with pytest.raises(OpenFailed) as caught:
        async with on.open(giving(Babbling("liar"))):
            pytest.fail("it opened")
    assert "told too much before it gave its state" in str(caught.value.__cause__)


# ------------------------------------------------------------------------------- what it answers


@pytest.mark.parametrize("answer", [LONG, "", None, 5, b"clip", ["clip"]])
async def test_an_identity_that_is_none_is_an_unknown_outcome_and_costs_the_place(
    autojump_clock: object, answer: Any
) -> None:
    on, liar = stage(), Actor("liar")
    liar.answer = answer
    async with on.open(giving(liar)) as renewal:
        with pytest.raises(ContractBroken) as caught:
            await renewal.enqueue(scene())
        assert caught.value.outcome == "unknown"
        lost = await replaced(on)
        assert (lost.old.id, lost.why) == ("liar", "contract-broken")


@pytest.mark.parametrize(
    ("state", "did"),
    [
        (None, "gave a NoneType for its state"),
        ({"clips": []}, "gave a dict for its state"),
        (SourceState(cast("Any", None)), "gave a state that makes no sense"),
        (SourceState((Clip("c", "ready"), Clip("c", "queued"))), "a clip twice"),
        (SourceState((Clip(LONG, "ready"),)), "no identity of 1 to 1024"),
        (SourceState((Clip("c", "ready", -5),)), "a number of pictures that is none"),
        (SourceState((), cast("bool", "yes")), "gave a state that makes no sense"),
    ],
)
async def test_a_state_that_makes_no_sense_is_a_failed_open(
    autojump_clock: object, state: Any, did: str
) -> None:
    on, good, liar = stage(), Actor("good", 60.0), Actor("liar")
    liar.told = state
    async with on.open(giving(good, liar)):
        await until(lambda: len(on.said(OnAir)) == 2)
        (failed,) = on.said(OpenFailure)
        assert "source 2" in failed.failure.message
        assert did in failed.failure.message
        assert liar.closes == 1


@pytest.mark.parametrize(
    ("reel", "did"),
    [
        (None, "gave a NoneType for its media"),
        (Reel("one"), "gave a str for the number of a media generation"),
        (Reel(True), "gave a bool for the number of a media generation"),
        (Reel(1.0), "gave a float for the number of a media generation"),
        (Reel(None), "gave a NoneType for the number of a media generation"),
        (Reel(2**63), "not one of 64 bits"),
    ],
)
async def test_media_that_is_none_is_a_failed_open(
    autojump_clock: object, reel: Any, did: str
) -> None:
    class Liar(Actor):
        def reel(self) -> Any:
            return reel

    on, good, liar = stage(), Actor("good", 60.0), Liar("liar")
    async with on.open(giving(good, liar)):
        await until(lambda: len(on.said(OnAir)) == 2)
        (failed,) = on.said(OpenFailure)
        assert "source 2" in failed.failure.message
        assert did in failed.failure.message
        assert (liar.closes, getattr(reel, "closes", 1)) == (1, 1)


@pytest.mark.parametrize("second", [1, 0, -5])
async def test_a_generation_that_does_not_rise_is_not_taken_by_a_recovery(
    autojump_clock: object, second: int
) -> None:
    class Liar(Lasting):
        def reel(self) -> Any:
            self.reels += 1
            return Reel(1 if self.reels == 1 else second)

    on, liar = stage(), Liar("liar")
    async with on.open(giving(liar)):
        liar.media[0].lost(OSError("the cable"))
        await replaced(on)
        told = [each.failure.message for each in on.said(Recovering) if each.failure]
        assert told[-1] == f"source 1 gave media generation {second}, which does not rise"


@pytest.mark.parametrize(
    "told", [None, MediaLosses(-1), MediaLosses(0, cast("int", "many")), MediaLosses(True)]
)
async def test_losses_that_are_none_are_unknown_and_never_zero(
    autojump_clock: object, told: Any
) -> None:
    class Liar(Actor):
        def reel(self) -> Any:
            reel = super().reel()
            reel.losses = lambda: told
            return reel

    on = stage()
    async with on.open(giving(Liar("liar"))) as renewal:
        with pytest.raises(LossesUnknown):
            renewal.pressure()


# -------------------------------------------------------------------------------- what it claims


@pytest.mark.parametrize("lifetime", [math.nan, math.inf, True, -1.0, 0.0, 10.0, "60", b"60"])
async def test_a_lifetime_that_is_none_is_a_failed_open(
    autojump_clock: object, lifetime: Any
) -> None:
    on, good, liar = stage(), Actor("good", 60.0), Actor("liar", lifetime)
    async with on.open(giving(good, liar)):
        await until(lambda: len(on.said(OnAir)) == 2)
        (failed,) = on.said(OpenFailure)
        assert "source 2: the lifetime" in failed.failure.message
        assert failed.consecutive == 1
        assert liar.closes == 1


@pytest.mark.parametrize("identity", ["", LONG, None, 5, "good"])
async def test_an_identity_that_is_none_or_is_taken_is_a_failed_open(
    autojump_clock: object, identity: Any
) -> None:
    on, good, liar = stage(), Actor("good", 60.0), Actor(identity)
    async with on.open(giving(good, liar)):
        await until(lambda: len(on.said(OnAir)) == 2)
        (failed,) = on.said(OpenFailure)
        assert "source 2 has" in failed.failure.message
        assert "identity" in failed.failure.message
        assert liar.closes == 1


async def test_an_identity_that_changes_stays_what_it_was(autojump_clock: object) -> None:
    on, liar = stage(), Actor("liar", 60.0)
    async with on.open(giving(liar)) as renewal:
        liar.id = "somebody else"
        await until(lambda: len(on.said(SourceClosed)) == 1)
        (closed,) = on.said(SourceClosed)
        assert closed.source.id == "liar"
        assert not closed.cleanup.complete  # the evidence is somebody else's
        assert closed.cleanup.source == "liar"
        assert "closed with evidence of another source" in closed.cleanup.failures[0].message
        assert renewal.state.on_air is not None


@pytest.mark.parametrize("said", ["perhaps", 1, None])
async def test_an_exclusiveness_that_is_none_is_a_failed_open(
    autojump_clock: object, said: Any
) -> None:
    class Liar(Actor):
        exclusive = said

    on, liar = stage(), Liar("liar")
    async with on.open(giving(Actor("good", 60.0), liar)):
        await until(lambda: len(on.said(OnAir)) == 2)
        (failed,) = on.said(OpenFailure)
        assert "source 2 says" in failed.failure.message
        assert "exclusive" in failed.failure.message


@pytest.mark.parametrize("left", [5, b"handle", "", "h" * 65_537])
async def test_a_handle_to_resume_from_that_is_none_is_not_passed_on(
    autojump_clock: object, left: Any
) -> None:
    class Liar(Actor):
        resumption = left

    seen: list[Predecessor] = []
    liar = Liar("liar", 60.0)
    opener = giving(liar)

    def noting(predecessor: Predecessor) -> Any:
        seen.append(predecessor)
        return opener(predecessor)

    on = stage()
    async with on.open(noting):
        liar.media[0].lost(OSError("the cable"))
        await replaced(on)
        assert [each.resumption for each in seen] == [None, None]
        await until(lambda: len(on.said(SourceClosed)) == 1)
        (closed,) = on.said(SourceClosed)
        assert "to resume from" in closed.cleanup.failures[0].message


# ------------------------------------------------------------------------------- hooks that raise


@pytest.mark.parametrize("hook", ["id", "lifetime", "exclusive"])
async def test_a_hook_that_raises_is_a_defect_which_ends_the_renewal_with_the_original(
    autojump_clock: object, hook: str
) -> None:
    defect = ValueError("a bug")

    def raises(_: object) -> None:
        raise defect

    liar_type = type("Liar", (Actor,), {hook: property(raises, ignores)})
    on, liar = stage(), liar_type("liar")
    with pytest.raises(ValueError, match="a bug") as caught:
        async with on.open(giving(Actor("good", 60.0), liar)):
            await trio.sleep(120)
    assert caught.value is defect
    assert liar.closes == 1
    assert len(on.said(OnAir)) == 1


@pytest.mark.parametrize("hook", ["id", "lifetime", "exclusive"])
async def test_a_hook_that_raises_what_is_expected_is_a_failed_open(
    autojump_clock: object, hook: str
) -> None:
    def raises(_: object) -> None:
        raise OSError("the cable")

    liar_type = type("Liar", (Actor,), {hook: property(raises, ignores)})
    on, liar = stage(), liar_type("liar")
    async with on.open(giving(Actor("good", 60.0), liar)):
        await until(lambda: len(on.said(OnAir)) == 2)
        (failed,) = on.said(OpenFailure)
        assert failed.failure.type == "OSError"
        assert failed.source.incarnation == 2
        assert liar.closes == 1


async def test_a_word_of_its_end_that_raises_a_defect_ends_the_renewal(
    autojump_clock: object,
) -> None:
    class Liar(Actor):
        async def wait_lost(self) -> None:
            await trio.sleep(5)
            raise TypeError("a bug")

    on, liar = stage(), Liar("liar")
    with pytest.raises(TypeError, match="a bug"):
        async with on.open(giving(liar)):
            await trio.sleep(120)
    assert liar.closes == 1


async def test_a_word_of_its_end_that_cannot_be_waited_for_ends_the_renewal(
    autojump_clock: object,
) -> None:
    class Liar(Actor):
        def wait_lost(self) -> Awaitable[None]:
            return cast("Awaitable[None]", "soon")

    on, liar = stage(), Liar("liar")
    with pytest.raises(TypeError):
        async with on.open(giving(liar)):
            await trio.sleep(120)
    assert liar.closes == 1


# ---------------------------------------------------------------------------- how it comes and goes


async def test_an_open_that_succeeds_after_it_was_cancelled_is_left_and_never_on_air(
    autojump_clock: object,
) -> None:
    late = Actor("late")

    @asynccontextmanager
    async def opener(predecessor: Predecessor) -> AsyncGenerator[Source]:
        if predecessor.cause == "first":
            await trio.lowlevel.checkpoint()
            yield Actor("good", 60.0)
            return
        with trio.CancelScope(shield=True):
            await trio.sleep(3)
        yield late

    on = stage()
    async with on.open(opener) as renewal:
        await trio.sleep(52)
        await renewal.close()
    assert [each.source.id for each in on.said(OnAir)] == ["good"]
    assert late.closes == 1
    assert renewal.report is not None
    assert renewal.report.complete
    assert renewal.report.total == 2


@pytest.mark.parametrize(
    ("evidence", "did"),
    [
        (None, "closed without any evidence"),
        ("done", "closed without any evidence"),
        (
            Cleanup.of(
                "liar",
                allocation="owned",
                termination="confirmed",
                connection="closed",
                failures=cast("Any", None),
            ),
            "closed with evidence that makes no sense",
        ),
        (
            Cleanup.of("another", allocation="owned", termination="confirmed", connection="closed"),
            "closed with evidence of another source",
        ),
    ],
)
async def test_evidence_that_makes_no_sense_proves_nothing(
    autojump_clock: object, evidence: Any, did: str
) -> None:
    class Liar(Actor):
        async def close(self) -> Cleanup:
            await super().close()
            return cast("Cleanup", evidence)

    on, liar = stage(), Liar("liar", 60.0)
    async with on.open(giving(liar)):
        await until(lambda: len(on.said(SourceClosed)) == 1)
        (closed,) = on.said(SourceClosed)
        assert not closed.cleanup.complete
        assert closed.cleanup.failures[0].message.startswith(f"source 1 {did}")
        assert len(on.said(OnAir)) == 2


async def test_a_close_that_hangs_is_given_its_budget_and_proves_nothing(
    autojump_clock: object,
) -> None:
    class Liar(Actor):
        async def close(self) -> Cleanup:
            self.closes += 1
            await trio.sleep_forever()
            raise AssertionError("for ever is over")

    on, liar = stage(cleanup_timeout=2.0), Liar("liar")
    async with on.open(giving(liar)) as renewal:
        before = trio.current_time()
        report = await renewal.close()
        assert trio.current_time() - before <= 2.0
    (closed,) = on.said(SourceClosed)
    assert closed.cleanup.termination == "unconfirmed"
    assert "source 1 did not close within its budget" in closed.cleanup.failures[0].message
    assert len(report.unresolved) == 1


async def test_a_clean_up_that_shields_itself_is_named_logged_and_waited_for(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Liar(Actor):
        async def close(self) -> Cleanup:
            with trio.CancelScope(shield=True):
                await trio.sleep(1000)
                await super().close()
            return Cleanup.of(
                "liar", allocation="owned", termination="confirmed", connection="closed"
            )

    on, liar = stage(cleanup_timeout=2.0, accounting_timeout=1.0), Liar("liar")
    overdue: list[tuple[str, ...]] = []
    with caplog.at_level(logging.WARNING, logger="trio_reactor"):
        async with trio.open_nursery() as nursery:
            async with on.open(giving(liar)) as renewal:

                async def look() -> None:
                    await trio.sleep(500)
                    overdue.append(renewal._owner.statistics().overdue)

                nursery.start_soon(look)
            assert trio.current_time() >= 1000
    assert liar.closes == 1
    assert len(overdue[0]) == 1
    assert "source 1" in overdue[0][0]
    assert any(overdue[0][0] in record.getMessage() for record in caplog.records)


async def test_an_observer_that_raises_delays_and_harms_nobody(autojump_clock: object) -> None:
    on, good = stage(), Actor("good", 60.0)
    async with on.open(giving(good)) as renewal:
        failed: list[str] = []

        async def observe() -> None:
            with renewal.observe(OnAir) as (_, events):
                async for _ in events:
                    failed.append("it raises")
                    raise Lost("an observer's own trouble")

        async with trio.open_nursery() as nursery:

            async def contained() -> None:
                try:
                    await observe()
                except Lost:
                    failed.append("contained")

            nursery.start_soon(contained)
            await until(lambda: len(on.said(OnAir)) == 2)
        assert failed == ["it raises", "contained"]
        assert renewal.state.on_air is not None


async def test_clips_of_two_sources_with_one_identity_are_told_apart(
    autojump_clock: object,
) -> None:
    on, old, new = stage(), Actor("old", 60.0), Actor("new", 60.0)
    async with on.open(giving(old, new)) as renewal:
        first = await renewal.enqueue(scene())
        await until(lambda: len(on.said(Prepared)) == 1)
        second = await renewal.enqueue(scene())
        assert (first.clip, second.clip) == ("clip", "clip")
        assert (first.source.id, second.source.id) == ("old", "new")
        old.events[0].event(ClipEnded("clip", 0))
        (ended,) = on.said(ClipChanged)
        assert ended.source == first.source
        assert renewal.state.on_air is not None
        assert renewal.state.next is not None
        assert renewal.state.on_air.clips == ()
        assert [clip.id for clip in renewal.state.next.clips] == ["clip"]
        await renewal.remove("clip")  # which is the new one's alone by now
