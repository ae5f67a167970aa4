"""What holds for the media of sources that play clips."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, cast

from trio_reactor.renewal.source import ClipEnded, Media, MediaLosses
from trio_reactor.testing.conformance import Part

from .ears import Ears
from .trial import Trial

__all__ = ["MEDIA"]

MEDIA: Final = Part(Trial, "playable")


def checked(trial: Trial, media: Media) -> int:
    """The number of a generation, which is one."""
    number = cast("object", media.generation)
    if isinstance(number, bool) or not isinstance(number, int):
        trial.fail(f"has a media generation {number!r}")
    return number


def losses(trial: Trial, media: Media, when: str) -> MediaLosses:
    """What a generation lost, which can be told."""
    try:
        lost = cast("object", media.losses())
    except Exception as failure:
        raise trial.broken(f"raised {failure!r} when asked {when} what was lost") from failure
    if not isinstance(lost, MediaLosses) or min(lost.frames, lost.samples) < 0:
        trial.fail(f"lost {lost!r} {when}")
    return lost


@MEDIA.case("every picture of a clip comes once and in order, or is counted as lost")
async def _pictures(trial: Trial) -> None:
    async with trial.playing() as source:
        ears = Ears()
        await source.attach(ears.events)
        media = await source.open_media(ears.media)
        checked(trial, media)
        await source.set_autoplay(True)
        clip = await trial.enqueue(source)
        await trial.over(ears, clip)
        await trial.quiet()
        end = next(each for each in ears.told if isinstance(each, ClipEnded))
        came = [frame for frame in ears.pictures if frame.clip == clip]
        lost = losses(trial, media, "after a clip")
        if end.frames is not None:
            trial.require(
                len(came) <= end.frames <= len(came) + lost.frames,
                f"sent {len(came)} pictures of {end.frames} and lost {lost.frames}",
            )
        numbers = [frame.index for frame in came if frame.index is not None]
        trial.require(
            numbers == sorted(set(numbers)), f"sent the pictures of a clip in the order {numbers}"
        )
        times = [frame.time for frame in came]
        trial.require(times == sorted(times), f"sent pictures for the times {times}")
        for frame in ears.pictures:
            trial.require(
                frame.width > 0 and frame.height > 0 and frame.size > 0 and frame.format,
                f"sent a picture of {frame.width}x{frame.height} {frame.format!r}, "
                f"{frame.size} bytes",
            )
        for run in ears.sounds:
            trial.require(
                run.channels > 0 and run.rate > 0 and run.samples % run.channels == 0,
                f"sent {run.samples} samples of {run.channels} channels at {run.rate} Hz",
            )


@MEDIA.case("the sound of a clip comes once and in order")
async def _sound(trial: Trial) -> None:
    async with trial.listening() as (source, ears):
        await source.set_autoplay(True)
        clip = await trial.enqueue(source)
        await trial.over(ears, clip)
        await trial.quiet()
        runs = [run for run in ears.sounds if run.clip == clip and run.samples]
        for one, next_one in pairwise(runs):
            trial.require(
                one.time <= next_one.time, f"sent sound for {next_one.time} s after {one.time} s"
            )
            trial.require(
                one.time != next_one.time or bytes(one.data) != bytes(next_one.data),
                f"sent the sound for {one.time} s twice",
            )


@MEDIA.case("a second generation has a higher number and takes the frames over from the first")
async def _taken_over(trial: Trial) -> None:
    async with trial.playing() as source:
        first, second = Ears(), Ears()
        await source.attach(second.events)
        one = await source.open_media(first.media)
        other = await source.open_media(second.media)
        before, after = checked(trial, one), checked(trial, other)
        trial.require(after > before, f"has a media generation {after} after {before}")
        amount = first.amount
        await source.set_autoplay(True)
        clip = await trial.enqueue(source)
        await trial.over(second, clip)
        trial.require(first.amount == amount, "put frames into the sink of an old generation")
        trial.require(second.pictures, "put no frames into the sink of the new generation")


@MEDIA.case("ending a generation twice ends it once, and nothing is put into its sink any more")
async def _ended(trial: Trial) -> None:
    async with trial.listening() as (source, ears):
        media = await source.open_media(ears.media)
        with trial.soon("did not end a media generation twice"):
            await media.aclose()
            await media.aclose()
        amount = len(ears.pictures), len(ears.sounds)
        await source.set_autoplay(True)
        clip = await trial.enqueue(source)
        await trial.over(ears, clip)
        await trial.quiet()
        came = len(ears.pictures), len(ears.sounds)
        trial.require(came == amount, "put frames into the sink of a generation that had ended")


@MEDIA.case("ending an old generation changes nothing of the new one")
async def _old_ended(trial: Trial) -> None:
    async with trial.listening() as (source, first):
        old = await source.open_media(first.media)
        second = Ears()
        await source.attach(second.events)
        await source.open_media(second.media)
        losses(trial, old, "before it was ended")
        await old.aclose()
        await source.set_autoplay(True)
        clip = await trial.enqueue(source)
        await trial.over(second, clip)
        await trial.quiet()
        trial.require(second.pictures, "ended the new media generation with the old one")


@MEDIA.case("what was lost only grows")
async def _losses(trial: Trial) -> None:
    async with trial.listening() as (source, ears):
        media = await source.open_media(ears.media)
        first = losses(trial, media, "at the start")
        await source.set_autoplay(True)
        clip = await trial.enqueue(source)
        await trial.over(ears, clip)
        second = losses(trial, media, "after a clip")
        trial.require(
            second.frames >= first.frames and second.samples >= first.samples,
            f"lost {first} first and {second} in all",
        )


@MEDIA.case("nothing is put into any sink after it was closed, nor after it was left")
async def _closed(trial: Trial) -> None:
    async with trial.listening() as (source, ears):
        await source.set_autoplay(True)
        clip = await trial.enqueue(source, "long")
        await trial.started(ears, clip)
        await trial.enqueue(source)
        await trial.close(source)
        closed = ears.amount
        await trial.quiet()
        trial.require(ears.amount == closed, "pushed something after it was closed")
    left = ears.amount
    await trial.quiet()
    trial.require(ears.amount == left == closed, "pushed something after it was left")
