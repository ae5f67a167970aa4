"""The simulated provider, as a test would use it: it does what a real one does."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from trio_reactor.errors import Lost, Refused
from trio_reactor.renewal import ClipRequest, OpenFailed
from trio_reactor.renewal.simulation import (
    SimulatedProvider,
    SimulatedSource,
    SimulationOptions,
    Stamp,
    read_stamp,
)
from trio_reactor.renewal.source import (
    AudioFrame,
    ClipEnded,
    ClipFailed,
    ClipStarted,
    ClipUpdated,
    Exclusive,
    GoingAway,
    Mortal,
    Playable,
    Predecessor,
    Reconnectable,
    Resumable,
    SourceEvent,
    VideoFrame,
)
from trio_reactor.testing import Faults, Never, Plan
from trio_reactor.world import SeededWorld


class Ears:
    """A sink for both, with everything it was told."""

    def __init__(self) -> None:
        self.events: list[SourceEvent] = []
        self.pictures: list[VideoFrame] = []
        self.sounds: list[AudioFrame] = []
        self.losses: list[Exception | None] = []

    def event(self, event: SourceEvent, /) -> None:
        self.events.append(event)

    def video(self, frame: VideoFrame, /) -> None:
        self.pictures.append(frame)

    def audio(self, frame: AudioFrame, /) -> None:
        self.sounds.append(frame)

    def lost(self, cause: Exception | None, /) -> None:
        self.losses.append(cause)


def provider(faults: dict[str, Any] | None = None, **options: Any) -> SimulatedProvider:
    return SimulatedProvider(
        SeededWorld(1), SimulationOptions(**options), faults=Faults(Plan(faults or {}))
    )


async def test_a_clip_is_queued_built_played_and_over(autojump_clock: object) -> None:
    opened = provider()
    async with opened(Predecessor()) as source:
        assert isinstance(source, SimulatedSource)
        ears = Ears()
        await source.attach(ears)
        await source.open_media(ears)
        await source.set_autoplay(True)
        clip = await source.enqueue(ClipRequest({"frames": 3}), commit=lambda: None)
        await trio.sleep(2)
        told = [(type(event).__name__, getattr(event, "clip", None)) for event in ears.events]
        assert [name for name, _ in told] == [*["ClipUpdated"] * 3, "ClipStarted", "ClipEnded"]
        assert ears.events[-1] == ClipEnded(clip, 3)
        assert [read_stamp(picture) for picture in ears.pictures] == [
            Stamp(1, 1, index) for index in range(3)
        ]
        assert [picture.time for picture in ears.pictures] == [0.0, 0.04, 0.08]
        assert {sound.samples for sound in ears.sounds} == {1920 * 2}
        assert len({sound.data for sound in ears.sounds}) == 1
    assert (opened.opened, opened.closed, opened.left) == (1, 0, 1)


async def test_it_has_every_capability_that_its_options_give(autojump_clock: object) -> None:
    async with provider()(Predecessor()) as source:
        for capability in (Playable, Exclusive, Resumable, Mortal, Reconnectable):
            assert isinstance(source, capability)
    async with provider(reconnectable=False)(Predecessor()) as source:
        assert isinstance(source, Playable)
        assert not isinstance(source, Reconnectable)


async def test_a_request_that_was_sent_is_served_although_its_caller_left(
    autojump_clock: object,
) -> None:
    opened = provider()
    async with opened(Predecessor()) as source:
        assert isinstance(source, SimulatedSource)
        with trio.move_on_after(0.001):
            await source.enqueue(ClipRequest({"frames": 3}), commit=lambda: None)
        await trio.sleep(1)
        assert len(source.clips) == 1


async def test_what_is_not_answered_when_the_connection_goes_is_unknown(
    autojump_clock: object,
) -> None:
    opened = provider({"reply": {1: Never()}})
    async with opened(Predecessor()) as source, trio.open_nursery() as nursery:
        assert isinstance(source, SimulatedSource)

        async def ask() -> None:
            with pytest.raises(Lost) as caught:
                await source.set_autoplay(True)
            assert caught.value.outcome == "unknown"

        nursery.start_soon(ask)
        await trio.sleep(1)
        source.lose_connection()
        with pytest.raises(Lost) as caught:
            await source.state()
        assert caught.value.outcome == "not-submitted"


async def test_what_went_into_the_void_is_a_loss_of_the_next_generation(
    autojump_clock: object,
) -> None:
    async with provider()(Predecessor()) as source:
        assert isinstance(source, Reconnectable)
        assert isinstance(source, SimulatedSource)
        ears = Ears()
        await source.open_media(ears)
        await source.set_autoplay(True)
        await source.enqueue(ClipRequest({"frames": 50, "build": 0}), commit=lambda: None)
        await trio.sleep(1)
        source.lose_connection(OSError("cable"))
        await trio.sleep(0.5)
        await source.reconnect()
        media = await source.open_media(ears)
        await trio.sleep(2)
        assert [str(cause) for cause in ears.losses] == ["cable"]
        assert media.generation == 2
        assert len(ears.pictures) + media.losses().frames == 50
        assert media.losses().frames > 10


async def test_a_source_is_cut_off_after_its_life(autojump_clock: object) -> None:
    async with provider(lifetime=5.0, cut_after=1.0)(Predecessor()) as source:
        assert isinstance(source, SimulatedSource)
        with pytest.raises(Lost):
            await source.wait_lost()
        assert trio.current_time() == pytest.approx(6.2)
        assert not source.alive


async def test_an_exclusive_provider_refuses_a_second_one(autojump_clock: object) -> None:
    opened = provider(exclusive=True)
    async with opened(Predecessor()) as first:
        with pytest.raises(OpenFailed):
            async with opened(Predecessor()):
                pytest.fail("it opened")
        await first.close()
        async with opened(Predecessor()):
            pass


async def test_close_is_idempotent_and_gives_the_same_evidence(autojump_clock: object) -> None:
    opened = provider()
    async with opened(Predecessor()) as source:
        cleanup = await source.close()
        assert cleanup.complete
        assert await source.close() is cleanup
    assert opened.closed == 1


async def test_a_request_that_makes_no_sense_is_refused(autojump_clock: object) -> None:
    async with provider()(Predecessor()) as source:
        assert isinstance(source, SimulatedSource)
        for payload in ({}, {"frames": 0}, {"frames": "many"}, {"frames": 1, "build": -1}):
            with pytest.raises(Refused):
                await source.enqueue(ClipRequest(payload), commit=lambda: None)  # type: ignore[arg-type]
        with pytest.raises(Refused):
            await source.remove("unknown")


async def test_a_clip_may_fail_to_build_and_a_source_may_go_away(autojump_clock: object) -> None:
    async with provider()(Predecessor()) as source:
        assert isinstance(source, SimulatedSource)
        ears = Ears()
        await source.attach(ears)
        clip = await source.enqueue(ClipRequest({"frames": 1, "fails": True}), commit=lambda: None)
        await trio.sleep(1)
        assert ClipFailed(clip, "it could not be built") in ears.events
        assert not any(isinstance(event, ClipStarted) for event in ears.events)
        assert isinstance(ears.events[0], ClipUpdated)
        source.go_away(2.0, "maintenance")
        assert ears.events[-1] == GoingAway(2.0, "maintenance")
        with pytest.raises(Lost):
            await source.wait_lost()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("open_delay", -1.0),
        ("close_delay", float("nan")),
        ("lifetime", "60"),
        ("frame_rate", 0.0),
        ("frame_rate", "25"),
        ("channels", 0),
        ("channels", True),
        ("generation_step", -1),
        ("colour", "red"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"(?m)^{name}$"):
        SimulationOptions.model_validate({name: value})


def test_a_picture_that_cannot_hold_its_stamp_is_refused() -> None:
    with pytest.raises(ValueError, match="width, height: a picture has at least 16 pixels"):
        SimulationOptions(width=3, height=5)
    assert SimulationOptions(width=4, height=4)


def test_only_a_simulated_picture_has_a_stamp() -> None:
    for data in (b"", bytes(100)):
        with pytest.raises(ValueError, match="no simulated picture"):
            read_stamp(VideoFrame(data, 10, 10, "gray", 0.0))
