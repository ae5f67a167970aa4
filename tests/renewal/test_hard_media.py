"""The one output, where a source fails in the middle of giving it something."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from chain_stage import Stage, until
from lying_stage import Actor, Lasting, Reel, giving, picture

from trio_reactor.renewal.events import OnAir, Recovering, Replaced
from trio_reactor.renewal.source import MediaLosses


class Counting(Reel):
    """A generation that has lost what it is told to have lost."""

    def __init__(self, generation: int) -> None:
        super().__init__(generation)
        self.lost = MediaLosses()

    def losses(self) -> MediaLosses:
        return self.lost


class Projector(Lasting):
    """Counts, and does not answer when it is told to play after its reconnect."""

    def __init__(self) -> None:
        super().__init__("projector")
        self.generations: list[Counting] = []
        self.reconnects = 0

    def reel(self) -> Any:
        self.generations.append(Counting(len(self.generations) + 1))
        return self.generations[-1]

    async def reconnect(self) -> None:
        self.reconnects += 1
        await super().reconnect()

    async def set_autoplay(self, enabled: bool, /) -> None:
        if self.reconnects:
            await trio.sleep_forever()
        await super().set_autoplay(enabled)


async def test_what_a_generation_lost_that_fed_the_output_before_its_recovery_failed_is_counted(
    autojump_clock: object,
) -> None:
    stage, source = Stage(renewal={"stable_after": 0.0}), Projector()
    async with stage.open(giving(source)) as renewal:
        source.generations[0].lost = MediaLosses(2, 20)
        source.media[0].lost(None)
        await until(lambda: len(source.generations) == 2)
        source.media[1].video(picture())
        assert renewal.pressure().frames == 1, "it feeds the output"
        source.generations[1].lost = MediaLosses(5, 50)
        await until(lambda: len(stage.said(OnAir)) == 2)
        (replaced,) = stage.said(Replaced)
        assert [said.mode for said in stage.said(Recovering)] == ["reconnect", "replace"]
        assert (replaced.tail.frames_dropped, replaced.tail.samples_dropped) == (7, 70)
        assert renewal.pressure().frames_lost == 7


async def test_a_generation_that_began_while_its_source_recovers_counts_in_pressure_at_once(
    autojump_clock: object,
) -> None:
    stage, source = Stage(renewal={"stable_after": 0.0}), Projector()
    async with stage.open(giving(source)) as renewal:
        source.media[0].lost(None)
        await until(lambda: len(source.generations) == 2)
        source.generations[1].lost = MediaLosses(3, 0)
        assert renewal.pressure().frames_lost == 3


@pytest.mark.parametrize("lose", ["resumption", "losses"])
async def test_a_source_that_tells_of_its_loss_while_it_is_asked_for_what_it_left_has_left(
    autojump_clock: object, lose: str
) -> None:
    class Reporting(Counting):
        def losses(self) -> MediaLosses:
            if lose == "losses" and source.asked:
                source.media[0].lost(None)
            return self.lost

    class Telling(Lasting):
        asked = False

        def reel(self) -> Any:
            return Reporting(1)

        @property
        def resumption(self) -> str | None:
            if lose == "resumption" and self.asked:
                self.media[0].lost(None)
            return None

    stage, source = Stage(renewal={"stable_after": 0.0}), Telling("telling", 60.0)
    async with stage.open(giving(source, Actor("next"))):
        await until(lambda: "Prepared" in stage.story)
        source.asked = True
        stage._envelopes.clear()
        await trio.sleep(30)
    assert source.closes == 1
    assert "Recovering" not in stage.story


async def test_what_an_old_generation_lost_is_asked_before_it_is_ended(
    autojump_clock: object,
) -> None:
    class Forgetting(Counting):
        def losses(self) -> MediaLosses:
            return MediaLosses() if self.closes else MediaLosses(2, 20)

    class Camera(Lasting):
        def reel(self) -> Any:
            self.reels += 1
            return Forgetting(self.reels)

    stage, source = Stage(renewal={"stable_after": 0.0}), Camera("camera")
    async with stage.open(giving(source)) as renewal:
        source.media[0].lost(None)
        await until(lambda: "Recovered" in stage.story)
        assert renewal.pressure().frames_lost == 4
