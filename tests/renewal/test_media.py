"""The output media, walked through its life."""

from __future__ import annotations

import pytest
import trio
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from trio_reactor.errors import Busy, Closed, Failed, Overflow
from trio_reactor.renewal.media import LossesUnknown, MediaOutput, Pressure
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.source import AudioFrame, MediaLosses, VideoFrame


def picture(index: int = 0, size: int = 8) -> VideoFrame:
    return VideoFrame(bytes(size), 4, 2, "gray", float(index), "clip", index)


def sound(samples: int = 4, channels: int = 2) -> AudioFrame:
    return AudioFrame(bytes(samples * 2), samples, channels, 48_000, "s16", 0.0, "clip")


def opened(**options: int) -> tuple[MediaOutput, list[Overflow]]:
    overflows: list[Overflow] = []
    return MediaOutput(RenewalOptions(**options), overflows.append), overflows  # type: ignore[arg-type]


async def test_a_frame_is_the_same_object_at_both_ends() -> None:
    output, _ = opened()
    frame, run = picture(), sound()
    output.offer_video(frame)
    output.offer_audio(run)
    assert await output.video.receive() is frame
    assert output.audio.receive_nowait() is run
    assert frame.data is not None


async def test_frames_arrive_in_the_order_in_which_they_were_offered() -> None:
    output, _ = opened()
    for index in range(50):
        output.offer_video(picture(index))
    output.end()
    assert [frame.index async for frame in output.video] == list(range(50))


async def test_a_reader_that_waits_is_woken_and_reading_is_always_a_checkpoint() -> None:
    output, _ = opened()
    received: list[int | None] = []

    async def read() -> None:
        received.extend([frame.index async for frame in output.video])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for index in range(3):
            await wait_all_tasks_blocked()
            assert output.statistics().video.waiting
            output.offer_video(picture(index))
            assert not output.statistics().video.waiting
        await wait_all_tasks_blocked()
        output.end()
    assert received == [0, 1, 2]
    output, _ = opened()
    output.offer_video(picture())
    with assert_checkpoints():
        await output.video.receive()
    output.end()
    with assert_checkpoints(), pytest.raises(trio.EndOfChannel):
        await output.video.receive()


async def test_a_cancelled_reader_loses_nothing() -> None:
    output, _ = opened()
    output.offer_video(picture(0))
    with trio.CancelScope() as scope:
        scope.cancel()
        await output.video.receive()
    assert scope.cancelled_caught
    with trio.CancelScope() as waiting:
        async with trio.open_nursery() as nursery:
            assert (await output.video.receive()).index == 0
            nursery.start_soon(output.video.receive)
            await wait_all_tasks_blocked()
            waiting.cancel()
    assert not output.statistics().video.waiting
    output.offer_video(picture(1))
    assert (await output.video.receive()).index == 1


async def test_a_reader_that_is_woken_and_cancelled_at_once_still_gets_its_frame() -> None:
    output, _ = opened()
    received: list[VideoFrame] = []
    frame = picture()

    async def read() -> None:
        received.append(await output.video.receive())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        output.offer_video(frame)
        nursery.cancel_scope.cancel()
    assert received == [frame]
    assert output.statistics().video.queued == 0


async def test_one_reads_at_a_time() -> None:
    output, _ = opened()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.video.receive)
        await wait_all_tasks_blocked()
        with pytest.raises(Busy):
            await output.video.receive()
        with pytest.raises(trio.BusyResourceError):
            output.video.receive_nowait()
        # The other output is another matter.
        with pytest.raises(trio.WouldBlock):
            output.audio.receive_nowait()
        output.offer_video(picture())
        with pytest.raises(Busy):  # it is the waiting reader's, who has not run yet
            output.video.receive_nowait()


async def test_a_later_reader_goes_on_with_what_is_retained() -> None:
    output, _ = opened()
    for index in range(3):
        output.offer_video(picture(index))
    async with output.video as first:
        assert (await first.receive()).index == 0
    assert first.closed
    with pytest.raises(Closed):
        await first.receive()
    with pytest.raises(trio.ClosedResourceError):
        first.receive_nowait()
    second = output.video
    assert second is not first
    assert second is output.video
    assert [second.receive_nowait().index, (await second.receive()).index] == [1, 2]
    assert second.statistics().delivered == 3


async def test_closing_a_receiver_wakes_who_waits_in_it() -> None:
    output, _ = opened()
    receiver = output.video

    async def read() -> None:
        with pytest.raises(Closed):
            await receiver.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        with assert_checkpoints():
            await receiver.aclose()
        await receiver.aclose()
    output.offer_video(picture(7))
    assert output.video.receive_nowait().index == 7


async def test_closing_in_the_step_of_an_offer_leaves_the_frame_for_the_next_reader() -> None:
    output, _ = opened()
    receiver = output.video

    async def read() -> None:
        with pytest.raises(Closed):
            await receiver.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        output.offer_video(picture(7))
        receiver.close()
        assert output.video.receive_nowait().index == 7


@pytest.mark.parametrize(
    ("options", "named"),
    [({"max_frames": 3}, "max_frames"), ({"max_bytes": 24}, "max_bytes")],
)
async def test_an_undrained_output_fails_at_its_bound_once_and_delivers_what_it_has(
    options: dict[str, int], named: str
) -> None:
    output, overflows = opened(**options)
    frames = [picture(index) for index in range(4)]
    for frame in frames:
        output.offer_video(frame)
    output.offer_video(picture(5))
    output.offer_audio(sound())
    (overflow,) = overflows
    assert named in overflow.message
    assert overflow.missed == 1
    statistics = output.statistics()
    assert (statistics.video.queued, statistics.video.refused) == (3, 2)
    assert (statistics.audio.queued, statistics.audio.refused) == (0, 1)
    received = [await output.video.receive() for _ in range(3)]
    assert received == frames[:3]
    for receiver in (output.video, output.audio):
        with pytest.raises(Failed) as caught:
            await receiver.receive()
        assert caught.value.__cause__ is overflow


async def test_what_is_offered_while_the_failure_is_claimed_overflows_no_second_time() -> None:
    overflows: list[Overflow] = []

    def claim(overflow: Overflow) -> None:
        overflows.append(overflow)
        output.offer_video(picture())
        output.offer_audio(sound())

    output = MediaOutput(RenewalOptions(max_frames=1), claim)
    output.offer_video(picture())
    output.offer_video(picture())
    assert len(overflows) == 1
    statistics = output.statistics()
    assert (statistics.video.refused, statistics.audio.refused) == (2, 1)


async def test_samples_are_bounded_by_their_number_and_so_are_runs_without_any() -> None:
    output, overflows = opened(max_samples=10)
    output.offer_audio(sound(6))
    output.offer_audio(sound(4))
    assert output.statistics().audio.samples == 10
    output.offer_audio(sound(1))
    assert "max_samples" in overflows[0].message
    output, overflows = opened(max_samples=10)
    for _ in range(11):
        output.offer_audio(sound(0))
    assert len(overflows) == 1


async def test_bytes_are_bounded_over_both_outputs_and_free_again_once_read() -> None:
    output, overflows = opened(max_bytes=20)
    output.offer_video(picture(size=12))
    output.offer_audio(sound(4))
    assert output.pressure().bytes == 20
    assert overflows == []
    await output.video.receive()
    assert output.pressure() == Pressure(0, 4, 8, 0, 0)
    output.offer_video(picture(size=12))
    assert overflows == []
    output.offer_audio(sound(4))
    assert "max_bytes" in overflows[0].message


async def test_sizes_are_in_bytes_whatever_the_buffer_is_and_becomes() -> None:
    output, _ = opened()
    wide = memoryview(bytearray(16)).cast("I")
    assert len(wide) == 4
    growing = bytearray(8)
    for content in (wide, growing, b"12345678"):
        output.offer_video(VideoFrame(content, 4, 2, "gray", 0.0))
    assert output.pressure().bytes == 32
    growing.extend(bytes(100))
    for _ in range(3):
        await output.video.receive()
    assert output.pressure() == Pressure(0, 0, 0, 0, 0)


async def test_the_state_carries_the_failure_before_a_reader_is_woken() -> None:
    seen: list[str] = []
    original = RuntimeError("a crash")

    async def read() -> None:
        with pytest.raises(Failed) as caught:
            await output.video.receive()
        seen.append("reader")
        assert caught.value.__cause__ is original

    def claim(overflow: Overflow) -> None:
        seen.append("claimed")
        output.fail(original)  # another was first, so this is what the whole failed with

    output = MediaOutput(RenewalOptions(max_samples=1), claim)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        output.offer_audio(sound(2))
        assert seen == ["claimed"]
    assert seen == ["claimed", "reader"]


async def test_every_reader_gets_a_failure_of_its_own_from_the_one_original() -> None:
    output, _ = opened()
    original = OSError("the disk is gone")
    output.fail(original)
    output.fail(RuntimeError("later"))
    output.end()
    failures = []
    for _ in range(2):
        with pytest.raises(trio.BrokenResourceError) as caught:
            await output.video.receive()
        failures.append(caught.value)
        with pytest.raises(Failed):
            output.audio.receive_nowait()
    assert failures[0] is not failures[1]
    assert [failure.__cause__ for failure in failures] == [original, original]


async def test_after_the_end_what_was_queued_is_delivered_and_nothing_more_is_taken() -> None:
    output, overflows = opened()
    output.offer_video(picture(1))
    output.end()
    output.offer_video(picture(2))
    output.fail(RuntimeError("late"))
    assert (await output.video.receive()).index == 1
    for _ in range(2):
        with pytest.raises(trio.EndOfChannel):
            await output.video.receive()
        with pytest.raises(trio.EndOfChannel):
            output.video.receive_nowait()
    assert output.statistics().video.refused == 1
    assert overflows == []


async def test_pressure_is_exact_and_stays_readable_after_the_end() -> None:
    output, _ = opened()
    for index in range(3):
        output.offer_video(picture(index, size=10))
    output.offer_audio(sound(6))
    assert output.pressure() == Pressure(3, 6, 42, 0, 0)
    output.end()
    await output.video.receive()
    assert output.pressure() == Pressure(2, 6, 32, 0, 0)


async def test_pressure_fails_rather_than_report_zero_where_losses_are_unknown() -> None:
    class Silent:
        generation = 1

        def losses(self) -> MediaLosses:
            raise OSError("it cannot be told")

        async def aclose(self) -> None: ...

    output, _ = opened()
    output.losses.activate(Silent(), from_start=True)
    with pytest.raises(LossesUnknown):
        output.pressure()
    assert output.statistics().video.queued == 0, "what is queued can be told all the same"


async def test_an_interrupt_from_the_keyboard_does_not_strike_while_a_frame_is_taken_in() -> None:
    protected: list[bool] = []
    output = MediaOutput(
        RenewalOptions(max_frames=1),
        lambda _: protected.append(trio.lowlevel.currently_ki_protected()),
    )

    @trio.lowlevel.disable_ki_protection
    def source() -> None:
        output.offer_video(picture())
        output.offer_video(picture())

    source()
    assert protected == [True]


def test_a_size_is_in_bytes_however_wide_the_items_of_a_view_are() -> None:
    wide = memoryview(bytes(48)).cast("h")
    assert VideoFrame(wide, 6, 8, "gray", 0.0).size == 48
    assert AudioFrame(wide, 24, 2, 48_000, "s16", 0.0).size == 48
    assert VideoFrame(memoryview(bytes(48)).cast("B", (6, 8)), 6, 8, "gray", 0.0).size == 48
    assert (picture(size=8).size, sound(4).size) == (8, 8)
