"""What holds for sources that are alone, that leave something behind, or that end by themselves."""

from __future__ import annotations

from typing import Final, cast

import trio

from trio_reactor.renewal.errors import refusal
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.policy.lifespan import notice_fault
from trio_reactor.renewal.source import (
    Announcing,
    Exclusive,
    GoingAway,
    Mortal,
    Predecessor,
    Resumable,
    Source,
)
from trio_reactor.testing.conformance import Part

from .trial import Trial

__all__ = ["ANNOUNCING", "EXCLUSIVE", "MORTAL", "RESUMABLE"]

EXCLUSIVE: Final = Part(Trial, "exclusive")
RESUMABLE: Final = Part(Trial, "resumable")
MORTAL: Final = Part(Trial, "mortal")
ANNOUNCING: Final = Part(Trial, "announcing")

_ROUNDING: Final = 0.001


@EXCLUSIVE.case("whether it is exclusive is True or False, and stays the same")
async def _exclusive(trial: Trial) -> None:
    async with trial.opened() as source:
        if not isinstance(source, Exclusive):
            trial.fail("is not Exclusive")
        said = cast("object", source.exclusive)
        trial.require(isinstance(said, bool), f"says {said!r} to whether it is exclusive")
        await trial.close(source)
        trial.require(source.exclusive == said, "changed whether it is exclusive")


@EXCLUSIVE.case("a second one is refused while one lives, and opens after that was closed")
async def _second(trial: Trial) -> None:
    async with trial.opened() as source:
        if not isinstance(source, Exclusive) or not source.exclusive:
            return
        refused = False
        try:
            async with trial.rig.opener(Predecessor()):
                pass
        except Exception as failure:  # noqa: BLE001 - which it is is the question
            trial.require_expected(failure, "when a second one was opened")
            refused = True
        trial.require(refused, "is exclusive, and a second one opened beside it")
        await trial.close(source)
        async with trial.opened(Predecessor(source.id, "plan")):
            pass


def _resumption(trial: Trial, source: Source, when: str) -> str | None:
    # Not by `isinstance`, which before Python 3.12 reads the property itself.
    try:
        handle = cast("object", cast("Resumable", source).resumption)
    except Exception as failure:
        raise trial.broken(f"raised {failure!r} when asked {when} what it leaves") from failure
    if handle is not None and (not isinstance(handle, str) or not handle):
        trial.fail(f"leaves {handle!r} {when}")
    return handle


@RESUMABLE.case("what it leaves to its successor can be read at any time; a string, or None")
async def _readable(trial: Trial) -> None:
    async with trial.opened() as source:
        _resumption(trial, source, "when it is open")
        if trial.rig.offers("break_connection"):
            await trial.rig.break_connection(source)
            await trial.quiet()
            _resumption(trial, source, "when its connection is broken")
        await trial.close(source)
        _resumption(trial, source, "when it is closed")
    _resumption(trial, source, "when it was left")


@RESUMABLE.case("its successor opens with what it left, or refuses only that")
async def _resumed(trial: Trial) -> None:
    async with trial.opened() as source:
        handle = _resumption(trial, source, "when it is open")
        await trial.close(source)
    if handle is None:
        return
    try:
        async with trial.opened(Predecessor(source.id, "loss", handle)):
            pass
    except Exception as failure:
        refused = refusal(failure)
        if refused is None or not refused.resumption_refused:
            raise
    async with trial.opened(Predecessor(source.id, "loss", None, {"instead": "context"})):
        pass


@MORTAL.case("as long as it is left alone it does not end, and who stops waiting ends nothing")
async def _waiting(trial: Trial) -> None:
    async with trial.opened() as source:
        if not isinstance(source, Mortal):
            trial.fail("is not Mortal")
        for _ in range(2):
            with trio.move_on_after(trial.rig.quiet) as scope:
                try:
                    await source.wait_lost()
                except Exception as failure:
                    raise trial.broken(f"told of its end: {failure!r}") from failure
            trial.require(scope.cancelled_caught, "told of its end, and was left alone")
        await trial.until_allocated(1, "after somebody stopped waiting for its end")


@MORTAL.case("its own end is told to everyone who waits for it, or comes later", "end")
async def _ended(trial: Trial) -> None:
    told: list[str] = []

    async def wait(source: Mortal, who: str) -> None:
        try:
            await source.wait_lost()
        except Exception as failure:  # noqa: BLE001 - which it is is the question
            trial.require_expected(failure, "when asked to tell of its end")
        told.append(who)

    async with trial.opened() as source:
        if not isinstance(source, Mortal):
            trial.fail("is not Mortal")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, source, "one")
            nursery.start_soon(wait, source, "another")
            await trial.quiet()
            trial.require(not told, "told of an end that was none")
            await trial.rig.end(source)
            with trial.soon("did not tell of its end"):
                await wait(source, "a third")
                while len(told) < 3:
                    await trial.quiet()
            nursery.cancel_scope.cancel()


@MORTAL.case("after its own end it is closed as ever, and leaves evidence", "end")
async def _closed_after(trial: Trial) -> None:
    async with trial.opened() as source:
        await trial.rig.end(source)
        await trial.quiet()
        with trial.soon("did not close after its own end"):
            cleanup = cast("object", await source.close())
        trial.require(isinstance(cleanup, Cleanup), f"returned {cleanup!r} when it was closed")
    await trial.until_allocated(0, "after its own end")


def _listen(trial: Trial, source: Source) -> list[object]:
    """Have a source announce its end; returns where what it announces will be."""
    if not isinstance(source, Announcing):
        trial.fail("is not Announcing")
    told: list[object] = []
    given = cast("object", source.announce_to(told.append))
    trial.require(given is None, f"returned {given!r} when asked to announce its end")
    return told


def _sooner(trial: Trial, source: Source) -> float:
    """Seconds until an end that comes sooner than a source has said, and later than a case."""
    longest = 4 * trial.rig.patience
    return longest if source.lifetime is None else min(longest, source.lifetime / 2)


def _judge(trial: Trial, told: object, seconds: float) -> None:
    if not isinstance(told, GoingAway):
        trial.fail(f"announced {told!r}, which is no GoingAway")
    fault = notice_fault(told.expires_in)
    trial.require(fault is None, f"announced its end, but {fault}")
    trial.require(
        seconds - trial.rig.patience <= told.expires_in <= seconds + _ROUNDING,
        f"announced its end in {told.expires_in} s, and it was to be in {seconds} s",
    )


@ANNOUNCING.case("an end that the other side announces is told, and no other", "announce_end")
async def _announced(trial: Trial) -> None:
    async with trial.opened() as source:
        told = _listen(trial, source)
        await trial.quiet()
        trial.require(not told, f"announced {told} when nothing was announced to it")
        seconds = _sooner(trial, source)
        await trial.rig.announce_end(source, seconds)
        with trial.soon("did not tell of an end that was announced"):
            while not told:
                await trial.quiet()
        _judge(trial, told[0], seconds)


@ANNOUNCING.case(
    "an end that was announced before somebody listened is told at once", "announce_end"
)
async def _announced_before(trial: Trial) -> None:
    async with trial.opened() as source:
        seconds = _sooner(trial, source)
        await trial.rig.announce_end(source, seconds)
        await trial.quiet()
        told = _listen(trial, source)
        trial.require(bool(told), "did not tell of an end that had been announced")
        _judge(trial, told[-1], seconds)
