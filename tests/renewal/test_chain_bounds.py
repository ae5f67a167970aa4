"""Nothing that a source does makes its chain keep more and more, or leave anything open."""

from __future__ import annotations

import pytest
import trio
from chain_stage import Stage, until

from trio_reactor.errors import Lost
from trio_reactor.renewal.events import OnAir, Recovered, Replaced, SourceClosed
from trio_reactor.renewal.simulation.media import SimulatedMedia
from trio_reactor.renewal.source import Clip, ClipUpdated
from trio_reactor.testing import Never, Slow


async def test_a_source_that_tells_of_ever_more_clips_is_replaced(autojump_clock: object) -> None:
    stage = Stage(lifetime=None, renewal={"max_clips": 100})
    async with stage.open() as renewal:
        await trio.sleep(40)
        source = stage.provider.newest
        for number in range(100):
            source.tell(ClipUpdated(Clip(f"clip {number}", "queued")))
        await trio.sleep(1)
        assert renewal.state.status == "ready"
        for number in range(100, 200):
            source.tell(ClipUpdated(Clip(f"clip {number}", "queued")))
        await until(lambda: len(stage.said(OnAir)) == 2)
        assert [said.why for said in stage.said(Replaced)] == ["contract-broken"]


async def test_a_state_with_too_many_clips_is_no_recovery(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None, renewal={"max_clips": 2})
    async with stage.open():
        await trio.sleep(40)
        attach = type(stage.provider.newest).attach

        async def many(self, sink, /):  # type: ignore[no-untyped-def]
            state = await attach(self, sink)
            return type(state)(tuple(Clip(str(number), "queued") for number in range(3)))

        with monkeypatch.context() as patched:
            patched.setattr(type(stage.provider.newest), "attach", many)
            stage.provider.newest.lose_connection()
            await until(lambda: bool(stage.said(Replaced)))
        assert stage.said(Replaced)[0].why == "reconnect-failed"


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The media generations that were ended, in order."""
    generations: list[int] = []
    aclose = SimulatedMedia.aclose

    async def note(self: SimulatedMedia) -> None:
        generations.append(self.generation)
        await aclose(self)

    monkeypatch.setattr(SimulatedMedia, "aclose", note)
    return generations


async def test_every_media_generation_is_ended_once_the_next_has_begun(
    autojump_clock: object, ended: list[int]
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open():
        for number in (1, 2, 3):
            await trio.sleep(40)
            stage.provider.newest.lose_connection()
            await until(lambda number=number: len(stage.said(Recovered)) == number)  # type: ignore[misc]
            assert ended == list(range(1, number + 1))
    assert ended == [1, 2, 3, 4]


async def test_a_generation_that_was_not_accepted_is_ended_with_its_source(
    autojump_clock: object, ended: list[int]
) -> None:
    stage = Stage(lifetime=None, generation_step=0)
    async with stage.open():
        await trio.sleep(40)
        stage.provider.newest.lose_connection()
        await until(lambda: len(stage.said(OnAir)) == 2)
        await until(lambda: bool(stage.said(SourceClosed)))
        assert len(ended) == 2


async def test_weather_at_the_end_of_an_old_generation_is_kept_with_the_evidence(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    async with stage.open():

        async def lost(self: SimulatedMedia) -> None:
            await trio.lowlevel.checkpoint()
            raise Lost("no such generation")

        with monkeypatch.context() as patched:
            patched.setattr(SimulatedMedia, "aclose", lost)
            stage.provider.newest.lose_connection()
            await until(lambda: bool(stage.said(Recovered)))
    (closed,) = stage.said(SourceClosed)
    assert [failure.message for failure in closed.cleanup.failures] == ["no such generation"]


async def test_a_defect_at_the_end_of_an_old_generation_is_terminal(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lifetime=None)
    with pytest.raises(ZeroDivisionError):
        async with stage.open():
            await trio.sleep(1)

            async def broken(self: SimulatedMedia) -> None:
                await trio.lowlevel.checkpoint()
                if self.generation == 1:
                    raise ZeroDivisionError

            monkeypatch.setattr(SimulatedMedia, "aclose", broken)
            stage.provider.newest.lose_connection()
            await trio.sleep(20)
    assert stage.provider.opened == 1


async def test_what_is_known_of_an_expired_source_has_a_budget_of_its_own_after_its_close(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=60.0,
        faults={"close": {1: Slow(9.0)}, "media-close": {1: Slow(4.0)}},
        renewal={"cleanup_timeout": 10.0, "accounting_timeout": 5.0},
    )
    async with stage.open():
        await until(lambda: bool(stage.said(SourceClosed)))
        (closed,) = stage.said(SourceClosed)
        assert (closed.why, closed.cleanup.failures) == ("expired", ())
        assert closed.took == pytest.approx(13.0, abs=0.2)


async def test_accounting_that_outlasts_its_budget_takes_nothing_from_the_proof_of_the_close(
    autojump_clock: object,
) -> None:
    stage = Stage(
        lifetime=60.0, faults={"media-close": {1: Never()}}, renewal={"accounting_timeout": 5.0}
    )
    async with stage.open():
        await until(lambda: bool(stage.said(SourceClosed)))
        (closed,) = stage.said(SourceClosed)
        assert closed.took == pytest.approx(5.0, abs=0.2)
        assert closed.cleanup.complete
        assert [failure.type for failure in closed.cleanup.failures] == ["TimedOut"]


@pytest.mark.parametrize("sink", ["events", "media"])
async def test_a_defect_that_a_source_gives_as_the_cause_is_terminal(
    autojump_clock: object, sink: str
) -> None:
    stage = Stage(lifetime=None)
    with pytest.raises(ZeroDivisionError):
        async with stage.open():
            await trio.sleep(40)
            source = stage.provider.newest
            (source.lose_connection if sink == "events" else source.end_media)(ZeroDivisionError())
            await trio.sleep(60)
    assert stage.provider.opened == 1
