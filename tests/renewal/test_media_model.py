"""The output media beside a model of it, under any order of what can happen."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from trio_reactor.errors import Failed, Overflow
from trio_reactor.renewal.media import MediaOutput, Pressure
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.source import AudioFrame, VideoFrame

MAX_FRAMES, MAX_SAMPLES, MAX_BYTES = 4, 20, 60

STEPS = st.one_of(
    st.tuples(st.just("video"), st.integers(0, 30)),
    st.tuples(st.just("audio"), st.integers(0, 12)),
    st.tuples(
        st.sampled_from(["read video", "read audio"]), st.sampled_from(["now", "wait", "gone"])
    ),
    st.tuples(st.just("reopen"), st.sampled_from(["video", "audio"])),
    st.tuples(st.just("end"), st.none()),
    st.tuples(st.just("fail"), st.none()),
)


class Model:
    def __init__(self) -> None:
        self.video: list[VideoFrame] = []
        self.audio: list[AudioFrame] = []
        self.over: str | None = None
        self.overflows = 0

    @property
    def bytes(self) -> int:
        return sum(frame.size for frame in (*self.video, *self.audio))

    @property
    def samples(self) -> int:
        return sum(run.samples for run in self.audio)

    def offer(self, frame: VideoFrame | AudioFrame) -> None:
        if self.over is not None:
            return
        if isinstance(frame, VideoFrame):
            fits = len(self.video) < MAX_FRAMES
        else:
            fits = self.samples + frame.samples <= MAX_SAMPLES and len(self.audio) < MAX_SAMPLES
        if not fits or self.bytes + frame.size > MAX_BYTES:
            self.over, self.overflows = "failed", 1
        elif isinstance(frame, VideoFrame):
            self.video.append(frame)
        else:
            self.audio.append(frame)


async def walk(steps: list[tuple[str, object]]) -> None:
    overflows: list[Overflow] = []
    output = MediaOutput(
        RenewalOptions(max_frames=MAX_FRAMES, max_samples=MAX_SAMPLES, max_bytes=MAX_BYTES),
        overflows.append,
    )
    model = Model()
    for step, argument in steps:
        match step, argument:
            case "video", int(size):
                frame = VideoFrame(bytes(size), 1, 1, "gray", 0.0)
                output.offer_video(frame)
                model.offer(frame)
            case "audio", int(samples):
                run = AudioFrame(bytes(samples), samples, 1, 8000, "u8", 0.0)
                output.offer_audio(run)
                model.offer(run)
            case "reopen", which:
                await (output.video if which == "video" else output.audio).aclose()
            case "end", _:
                output.end()
                model.over = model.over or "ended"
            case "fail", _:
                output.fail(RuntimeError("a crash"))
                model.over = model.over or "failed"
            case _, how:
                receiver = output.video if step == "read video" else output.audio
                queue: list[VideoFrame] | list[AudioFrame]
                queue = model.video if step == "read video" else model.audio
                if how == "gone":
                    with trio.CancelScope() as scope:
                        scope.cancel()
                        await receiver.receive()
                    assert scope.cancelled_caught
                elif queue:
                    got = receiver.receive_nowait() if how == "now" else await receiver.receive()
                    assert got is queue.pop(0)
                elif model.over is None:
                    if how == "now":
                        with pytest.raises(trio.WouldBlock):
                            receiver.receive_nowait()
                    else:
                        with trio.move_on_after(1):
                            await receiver.receive()
                else:
                    expected = Failed if model.over == "failed" else trio.EndOfChannel
                    with pytest.raises(expected):
                        await receiver.receive()
        assert len(overflows) == model.overflows
        assert output.pressure() == Pressure(len(model.video), model.samples, model.bytes, 0, 0)
        assert output.statistics().audio.queued == len(model.audio)
        assert not output.statistics().video.waiting


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_the_output_does_what_its_model_does(steps: list[tuple[str, object]]) -> None:
    trio.run(walk, steps, clock=trio.testing.MockClock(autojump_threshold=0))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, MAX_FRAMES), min_size=1, max_size=20),
    st.lists(st.integers(0, 3), max_size=20),
)
def test_frames_are_neither_lost_nor_doubled_by_readers_that_come_and_are_cancelled(
    bursts: list[int], patience: list[int]
) -> None:
    async def main() -> None:
        output = MediaOutput(RenewalOptions(max_frames=MAX_FRAMES), pytest.fail)  # type: ignore[arg-type]
        received: list[float] = []
        total = sum(bursts)

        async def source() -> None:
            number = 0
            for burst in bursts:
                for _ in range(burst):
                    output.offer_video(VideoFrame(b"", 1, 1, "gray", float(number)))
                    number += 1
                await trio.sleep(10)
            output.end()

        async def readers() -> None:
            turns = iter([*patience, *([10**6] * 2)])
            ended = False
            while not ended:
                with trio.move_on_after(next(turns)):
                    while True:
                        try:
                            frame = await output.video.receive()
                        except trio.EndOfChannel:
                            ended = True
                            break
                        received.append(frame.time)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(source)
            nursery.start_soon(readers)
        assert received == [float(number) for number in range(total)]

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
