"""What holds for sources that take what an application sends upstream."""

from __future__ import annotations

from typing import Final

from trio_reactor.errors import Lost, Refused
from trio_reactor.renewal.source import Receptive, Source
from trio_reactor.testing.conformance import Part

from .trial import Trial

__all__ = ["RECEPTIVE"]

RECEPTIVE: Final = Part(Trial, "receptive")

_PIECES: Final = (b"one", b"\x00", b"two\nthree", b"four" * 1000, b"five")
"""What is sent: text, an end of line in the midst of it, bytes that are no text, and many."""


def _receptive(trial: Trial, source: Source) -> Receptive:
    if not isinstance(source, Receptive):
        trial.fail("is not Receptive")
    return source


@RECEPTIVE.case("what it is given is heard by the other side, once and in order", "heard")
async def _in_order(trial: Trial) -> None:
    async with trial.opened() as source:
        receptive = _receptive(trial, source)
        with trial.soon("did not take a piece of input"):
            for piece in _PIECES:
                await receptive.send_input(piece)
        given = b"".join(_PIECES)
        await trial.until_heard(source, given)
        await trial.quiet()  # what is sent once more would come now
        await trial.until_heard(source, given)


@RECEPTIVE.case(
    "a piece of input that is refused raises Refused, and the next is heard",
    "heard",
    "refuse_input",
)
async def _refused(trial: Trial) -> None:
    async with trial.opened() as source:
        receptive = _receptive(trial, source)
        await receptive.send_input(b"before")
        await trial.rig.refuse_input(source)
        with trial.soon("did not take a piece of input"):
            failure = await _failure(receptive)
            trial.require(isinstance(failure, Refused), f"raised {failure!r} for refused input")
            await receptive.send_input(b"after")
        await trial.until_heard(source, b"beforeafter")


@RECEPTIVE.case("input for a connection that is lost raises Lost", "break_connection")
async def _lost(trial: Trial) -> None:
    async with trial.opened() as source:
        receptive = _receptive(trial, source)
        await receptive.send_input(b"before")
        await trial.rig.break_connection(source)
        # A piece or two may still seem to leave, for as long as this end has not heard of it.
        with trial.soon("went on taking input for a connection that was lost"):
            while (failure := await _failure(receptive)) is None:
                await trial.quiet()
            trial.require(isinstance(failure, Lost), f"raised {failure!r} for input that was lost")


@RECEPTIVE.case("input for one that was closed raises what is expected")
async def _closed(trial: Trial) -> None:
    async with trial.opened() as source:
        receptive = _receptive(trial, source)
        await trial.close(source)
        with trial.soon("did not say that it takes no input any more"):
            failure = await _failure(receptive)
        if failure is None:
            trial.fail("took input although it was closed")
        trial.require_expected(failure, "when it was given input and was closed")


@RECEPTIVE.case("input that is not answered leaves promptly when it is cancelled", "fall_silent")
async def _silent(trial: Trial) -> None:
    with trial.soon("did not leave after input that was not answered"):
        async with trial.opened() as source:
            receptive = _receptive(trial, source)
            await trial.rig.fall_silent()
            await trial.leaves_promptly(lambda: receptive.send_input(b"a piece"), "send_input")


async def _failure(receptive: Receptive) -> Exception | None:
    """What giving it a piece raises."""
    try:
        await receptive.send_input(b"a piece")
    except AssertionError:
        raise
    except Exception as failure:  # noqa: BLE001 - which it is is the question
        return failure
    return None
