"""What holds when a connection is lost, and when it is made again."""

from __future__ import annotations

from typing import Final

import trio

from trio_reactor.errors import Lost, ReactorError
from trio_reactor.renewal.source import Playable
from trio_reactor.testing.conformance import Part

from .ears import Ears
from .media import checked, losses
from .trial import Trial

__all__ = ["CONNECTION", "RECONNECTING"]

CONNECTION: Final = Part(Trial, "playable")
RECONNECTING: Final = Part(Trial, "reconnectable")


@CONNECTION.case("a connection that is lost is told to both sinks, once", "break_connection")
async def _told(trial: Trial) -> None:
    async with trial.listening() as (source, ears):
        await trial.rig.break_connection(source)
        await trial.heard(
            ears,
            lambda: ears.events_lost and ears.media_lost,
            "did not tell both sinks that the connection was lost",
        )
        await trial.quiet()
        for sink, told in (("event", ears.events_lost), ("media", ears.media_lost)):
            trial.require(len(told) == 1, f"told its {sink} sink {len(told)} times of one loss")
            if told[0] is not None:
                trial.require_expected(told[0], "as the cause of a loss")


@CONNECTION.case(
    "a request whose answer is lost raises Lost, with the outcome unknown",
    "break_connection",
    "fall_silent",
)
async def _unknown(trial: Trial) -> None:
    committed = trio.Event()
    raised: list[Exception] = []

    async def ask(source: Playable) -> None:
        try:
            await trial.enqueue(source, commit=committed.set)
        except Exception as failure:  # noqa: BLE001 - which it is is the question
            raised.append(failure)

    async with trial.listening() as (source, _), trio.open_nursery() as nursery:
        await trial.rig.fall_silent()
        nursery.start_soon(ask, source)
        with trial.soon("did not commit a request"):
            await committed.wait()
        await trial.quiet()  # so that it has left
        trial.require(not raised, f"raised {raised} before anything was lost")
        await trial.rig.break_connection(source)
        with trial.soon("did not say that an answer is lost"):
            while nursery.child_tasks:
                await trial.quiet()
        if not raised:
            trial.fail("answered a request that was not answered")
        failure = raised[0]
        trial.require(isinstance(failure, Lost), f"raised {failure!r} when an answer was lost")
        outcome = failure.outcome if isinstance(failure, Lost) else None
        trial.require(outcome == "unknown", f"said that the outcome of a lost answer is {outcome}")


@CONNECTION.case("what is asked while there is no connection is not submitted", "break_connection")
async def _without(trial: Trial) -> None:
    committed: list[None] = []
    async with trial.listening() as (source, ears):
        await trial.rig.break_connection(source)
        await trial.heard(ears, lambda: ears.events_lost, "did not tell that it was lost")
        try:
            with trial.soon("did not say that there is no connection"):
                await trial.enqueue(source, commit=lambda: committed.append(None))
        except ReactorError as failure:
            outcome = failure.outcome
        else:
            trial.fail("took a request although its connection was lost")
        trial.require(
            outcome == "not-submitted" and not committed,
            f"had no connection, called a commit {len(committed)} times, and said {outcome}",
        )


async def _make_again(trial: Trial, source: Playable, *, broken: bool) -> None:
    again = trial.reconnectable(source)
    if broken:
        await trial.rig.break_connection(source)
        await trial.quiet()
    with trial.soon("did not reconnect"):
        await again.reconnect()


def _ways(trial: Trial) -> tuple[bool, ...]:
    """Whether the connection is broken before it is made again."""
    return (False, True) if trial.rig.offers("break_connection") else (False,)


@RECONNECTING.case(
    "after a reconnect the new sinks are told everything, and the old ones nothing",
    "playable",
)
async def _new_sinks(trial: Trial) -> None:
    for broken in _ways(trial):
        async with trial.listening() as (source, old):
            await source.set_autoplay(True)
            playing = await trial.enqueue(source, "long")
            await trial.started(old, playing)
            await _make_again(trial, source, broken=broken)
            amount = old.amount
            new = Ears()
            await source.attach(new.events)
            await source.open_media(new.media)
            await source.set_autoplay(True)
            await source.pause_and_stop()
            await source.set_autoplay(True)
            clip = await trial.enqueue(source)
            await trial.over(new, clip)
            trial.require(new.pictures, "put no frames into the new sink after a reconnect")
            trial.require(old.amount == amount, "put something into an old sink after a reconnect")
            for told in (old.events_lost, old.media_lost):
                trial.require(len(told) <= 1, f"told an old sink {len(told)} times of its end")


@RECONNECTING.case(
    "a reconnect brings a higher generation, and what the old one lost can be told until its end",
    "playable",
)
async def _generation(trial: Trial) -> None:
    for broken in _ways(trial):
        async with trial.playing() as source:
            first = Ears()
            await source.attach(first.events)
            old = await source.open_media(first.media)
            before, lost = checked(trial, old), losses(trial, old, "before a reconnect")
            await _make_again(trial, source, broken=broken)
            again = losses(trial, old, "after a reconnect")
            trial.require(again.frames >= lost.frames, f"lost {lost} before, and {again} after it")
            second = Ears()
            await source.attach(second.events)
            after = checked(trial, await source.open_media(second.media))
            trial.require(after > before, f"has a media generation {after} after {before}")
            losses(trial, old, "after a new generation has begun")
            with trial.soon("did not end the generation of a lost connection"):
                await old.aclose()
                await old.aclose()
            await source.set_autoplay(True)
            clip = await trial.enqueue(source)
            await trial.over(second, clip)
            trial.require(second.pictures, "ended the new media generation with the old one")


@RECONNECTING.case("a reconnect keeps its identity, and its clips", "playable")
async def _kept(trial: Trial) -> None:
    for broken in _ways(trial):
        async with trial.playing() as source:
            identity, clip = source.id, await trial.enqueue(source)
            await _make_again(trial, source, broken=broken)
            trial.require(source.id == identity, f"has become {source.id!r} by a reconnect")
            there = await trial.clips(source)
            trial.require(there == [clip], f"has {there} after a reconnect, and had {[clip]}")
            await trial.close(source)
        await trial.until_allocated(0, "after one that had reconnected")


@RECONNECTING.case("one that was closed does not reconnect")
async def _closed(trial: Trial) -> None:
    async with trial.opened() as source:
        again = trial.reconnectable(source)
        await trial.close(source)
        try:
            with trial.soon("did not refuse to reconnect"):
                await again.reconnect()
        except AssertionError:
            raise
        except Exception as failure:  # noqa: BLE001 - which it is is the question
            trial.require_expected(failure, "when it was to reconnect and was closed")
        else:
            trial.fail("reconnected although it was closed")
    await trial.until_allocated(0, "after it was to reconnect and was closed")


@RECONNECTING.case("a reconnect that is not answered leaves promptly", "fall_silent")
async def _silent(trial: Trial) -> None:
    with trial.soon("did not leave after a reconnect that was not answered"):
        async with trial.opened() as source:
            again = trial.reconnectable(source)
            await trial.rig.fall_silent()
            await trial.leaves_promptly(again.reconnect, "a reconnect")
