"""What holds for sources that play clips: what they tell of them, and what they are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, cast

import trio

from trio_reactor.errors import Refused, leaves
from trio_reactor.renewal.slot.validity import MAX_IDENTITY
from trio_reactor.renewal.source import (
    Clip,
    ClipEnded,
    ClipFailed,
    ClipStarted,
    ClipUpdated,
    Playable,
    SourceState,
)
from trio_reactor.testing.cancellation import cancel_at
from trio_reactor.testing.conformance import Part

from .ears import Ears, follow, heard_of
from .life import MAX_STEPS
from .trial import Trial, uncommitted

__all__ = ["PLAYING"]

PLAYING: Final = Part(Trial, "playable")

_MOMENTS: Final = 12
"""At how many moments it is attached to what happens meanwhile."""


class _NotNow(Exception):
    """What a commit raises that does not let its request leave."""


# --------------------------------------------------------------------------------- what it tells


@PLAYING.case("a new one has no clips, and does not play what is ready until it is told to")
async def _new(trial: Trial) -> None:
    async with trial.playing() as source:
        ears = Ears()
        state = await source.attach(ears.events)
        trial.require(not state.clips, f"is new and has {len(state.clips)} clips")
        trial.require(state.autoplay is False, "is new and plays by itself")
        clip = await trial.enqueue(source)
        await trial.ready(ears, clip)
        await trial.quiet()
        trial.require(not ears.started(clip), "played a clip without being told to")


@PLAYING.case("what it tells of a clip comes in order: it waits, it starts, it is over")
async def _story(trial: Trial) -> None:
    async with trial.listening() as (source, ears):
        await source.set_autoplay(True)
        clips = [await trial.enqueue(source) for _ in range(2)]
        for clip in clips:
            await trial.over(ears, clip)
        await trial.quiet()
        for clip in clips:
            _in_order(trial, ears, clip)
        ends = [heard_of(each) for each in ears.told if isinstance(each, ClipEnded)]
        trial.require(ends == clips, f"was asked for {clips} and played {ends}")
        trial.require(not await trial.clips(source), "has clips in its state that are over")


def _in_order(trial: Trial, ears: Ears, clip: str) -> None:
    order = ("queued", "building", "ready", "playing", "over")
    last = "queued"
    for event in ears.told:
        if heard_of(event) != clip:
            continue
        match event:
            case ClipUpdated(clip=told):
                now = cast("str", told.phase)
            case ClipStarted():
                now = "playing"
            case _:
                now = "over"
        trial.require(now in order, f"told that {clip!r} is {now!r}")
        trial.require(
            order.index(last) <= order.index(now) and last != "over",
            f"told that {clip!r} is {now} after it had told that it is {last}",
        )
        trial.require(
            now != "over" or last == "playing" or isinstance(event, ClipFailed),
            f"told that {clip!r} ended and not that it had started",
        )
        last = now


@PLAYING.case("a clip that is on air is in the state, and playing")
async def _on_air(trial: Trial) -> None:
    async with trial.listening() as (source, ears):
        await source.set_autoplay(True)
        clip = await trial.enqueue(source, "long")
        await trial.started(ears, clip)
        state = await source.attach(Ears().events)
        playing = None if state.playing is None else state.playing.id
        trial.require(playing == clip, f"told who attached of {playing} on air, not of {clip!r}")


@PLAYING.case("attaching gives the state and every event after it, without a gap")
async def _no_gap(trial: Trial) -> None:
    async with trial.playing() as source, trio.open_nursery() as nursery:
        for moment in range(_MOMENTS):
            nursery.start_soon(trial.enqueue, source)
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            ears = Ears()
            state = await source.attach(ears.events)
            await _agrees(trial, source, ears, state.clips)
            for clip in await trial.clips(source):
                await source.remove(clip)


async def _agrees(trial: Trial, source: Playable, ears: Ears, attached: tuple[Clip, ...]) -> None:
    """Wait until every clip is ready, and whoever attached knows what there is."""
    with trio.move_on_after(trial.rig.patience):
        while set((known := follow(SourceState(attached), ears.told)).values()) != {"ready"}:
            await ears.changed.wait()
    # What is ready and is not played does not change any more.
    await trial.quiet()
    known = follow(SourceState(attached), ears.told)
    there = {clip.id: cast("str", clip.phase) for clip in (await trial.state(source)).clips}
    if there and known == there and set(there.values()) == {"ready"}:
        return
    trial.fail(f"has {there}, and told whoever attached of {known}")


@PLAYING.case("a second attach takes the events over from the first")
async def _taken_over(trial: Trial) -> None:
    async with trial.playing() as source:
        first, second = Ears(), Ears()
        await source.attach(first.events)
        await source.attach(second.events)
        before = first.amount
        clip = await trial.enqueue(source)
        await trial.ready(second, clip)
        trial.require(first.amount == before, "told the first sink what belongs to the second")


# ------------------------------------------------------------------------------ what it is asked


@PLAYING.case("a request is answered with the identity of a clip that the state has")
async def _answered(trial: Trial) -> None:
    async with trial.playing() as source:
        clip = cast("object", await trial.enqueue(source))
        if not isinstance(clip, str) or not 0 < len(clip) <= MAX_IDENTITY:
            trial.fail(f"answered a request with {clip!r}")
        trial.require(clip in await trial.clips(source), f"does not have {clip!r} in its state")


@PLAYING.case("two requests side by side give two clips")
async def _side_by_side(trial: Trial) -> None:
    answers: list[str] = []

    async def ask(source: Playable) -> None:
        answers.append(await trial.enqueue(source))

    async with trial.playing() as source:
        with trial.soon("did not answer two requests"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, source)
                nursery.start_soon(ask, source)
        there = await trial.clips(source)
        trial.require(
            sorted(there) == sorted(answers) and len(set(answers)) == 2,
            f"answered {answers} and has {there}",
        )


@PLAYING.case("the commit of a request is called once")
async def _committed(trial: Trial) -> None:
    called: list[None] = []
    async with trial.playing() as source:
        await trial.enqueue(source, commit=lambda: called.append(None))
        await trial.quiet()
        trial.require(len(called) == 1, f"called the commit {len(called)} times")


@PLAYING.case("a request whose commit raises is not sent, and what was raised comes out")
async def _not_committed(trial: Trial) -> None:
    mine = _NotNow("not now")

    def commit() -> None:
        raise mine

    async with trial.playing() as source:
        try:
            await trial.enqueue(source, commit=commit)
        except Exception as raised:  # noqa: BLE001 - what comes out is the question
            came = raised
        else:
            trial.fail("answered a request whose commit raised")
        trial.require(mine in tuple(leaves(came)), f"raised {came!r} instead of what commit did")
        await trial.quiet()
        trial.require(not await trial.clips(source), "sent a request whose commit raised")


@PLAYING.case("a request that is cancelled before its commit is not sent")
async def _withdrawn(trial: Trial) -> None:
    async with trial.playing() as source:
        for step in range(MAX_STEPS):
            committed = trio.Event()
            with cancel_at(step) as scope:
                await trial.enqueue(source, commit=committed.set)
            await trial.quiet()
            there = await trial.clips(source)
            trial.require(
                committed.is_set() or not there, f"sent what was cancelled at checkpoint {step}"
            )
            if committed.is_set() or not scope.cancel_called:
                return


@PLAYING.case("the position of a request is passed on as it is, or the request is refused")
async def _position(trial: Trial) -> None:
    async with trial.playing() as source:
        clips = [await trial.enqueue(source) for _ in range(2)]
        for position in (0, 1):
            try:
                clips.insert(position, await trial.enqueue(source, position=position))
            except Refused:
                continue  # then it is not queued at all, which is seen below
        await trial.quiet()
        there = await trial.clips(source)
        trial.require(there == clips, f"has {there} and was asked for {clips}")


@PLAYING.case("a clip that was moved has its new position, or moving is refused")
async def _moved(trial: Trial) -> None:
    async with trial.playing() as source:
        clips = [await trial.enqueue(source) for _ in range(3)]
        try:
            await source.move(clips[2], 0)
        except Refused:
            pass
        else:
            clips.insert(0, clips.pop())
        there = await trial.clips(source)
        trial.require(there == clips, f"has {there} and was asked for {clips}")


@PLAYING.case("a clip that was removed is told to be over and is not in the state, or is refused")
async def _removed(trial: Trial) -> None:
    async with trial.listening() as (source, ears):
        clips = [await trial.enqueue(source) for _ in range(2)]
        try:
            await source.remove(clips[0])
        except Refused:
            pass
        else:
            gone = clips.pop(0)
            await trial.over(ears, gone)
        there = await trial.clips(source)
        trial.require(there == clips, f"has {there} and was asked for {clips}")


@PLAYING.case("whether it plays by itself is as it was set")
async def _autoplay(trial: Trial) -> None:
    async with trial.playing() as source:
        for enabled in (True, False, True):
            await source.set_autoplay(enabled)
            said = (await trial.state(source)).autoplay
            trial.require(said is enabled, f"says {said} after autoplay was set to {enabled}")


@PLAYING.case("pausing ends what plays and holds what is queued")
async def _paused(trial: Trial) -> None:
    async with trial.listening() as (source, ears):
        await source.set_autoplay(True)
        long = await trial.enqueue(source, "long")
        short = await trial.enqueue(source)
        await trial.started(ears, long)
        await trial.ready(ears, short)
        await source.pause_and_stop()
        await trial.over(ears, long)
        await trial.quiet()
        trial.require(not ears.started(short), "went on to play what it was to hold")
        there = await trial.clips(source)
        trial.require(there == [short], f"has {there} and was to hold {[short]}")


@PLAYING.case("the size of the picture is set, or refused")
async def _canvas(trial: Trial) -> None:
    async with trial.playing() as source:
        for width, height in ((64, 64), (0, -1)):
            try:
                await source.set_canvas(width, height)
            except Exception as failure:
                if not isinstance(failure, Refused):
                    raise trial.broken(
                        f"raised {failure!r} when it was asked for a size of {width}x{height}"
                    ) from failure


@PLAYING.case("what makes no sense is refused, and changes nothing", "refused")
async def _refused(trial: Trial) -> None:
    async with trial.playing() as source:
        clip = await trial.enqueue(source)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "to queue what cannot be": lambda: source.enqueue(
                trial.rig.refused(), commit=uncommitted
            ),
            "to remove an unknown clip": lambda: source.remove("no such clip"),
            "to move an unknown clip": lambda: source.move("no such clip", 0),
        }
        for name, call in calls.items():
            try:
                await call()
            except Refused:
                continue
            except Exception as failure:
                raise trial.broken(f"raised {failure!r} when it was asked {name}") from failure
            trial.fail(f"did as it was asked {name}")
        there = await trial.clips(source)
        trial.require(there == [clip], f"has {there} and was to have {[clip]}")


@PLAYING.case("what is not answered leaves promptly when it is cancelled", "fall_silent")
async def _silent(trial: Trial) -> None:
    with trial.soon("did not leave after it was not answered"):
        async with trial.playing() as source:
            clip = await trial.enqueue(source)
            await trial.rig.fall_silent()
            ears = Ears()
            calls = {
                "attach": lambda: source.attach(ears.events),
                "enqueue": lambda: trial.enqueue(source),
                "move": lambda: source.move(clip, 0),
                "set_autoplay": lambda: source.set_autoplay(True),
                "pause_and_stop": source.pause_and_stop,
                "set_canvas": lambda: source.set_canvas(64, 64),
                "remove": lambda: source.remove(clip),
                "open_media": lambda: source.open_media(ears.media),
            }
            for name, call in calls.items():
                await trial.leaves_promptly(call, name)
