"""Calls that are cancelled: whatever became of them, they can be made again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from trio_reactor.rooms.model.answers import Accepted, Unknown
from trio_reactor.rooms.model.edits import Put, PutBinary
from trio_reactor.rooms.model.entries import digest_of
from trio_reactor.testing.cancellation import cancel_at
from trio_reactor.testing.conformance import Part

from .reading import reads
from .trial import ADA, ROOM, Trial

__all__ = ["CANCELLING"]

CANCELLING: Final = Part(Trial)

MOST_STEPS: Final = 100
"""How many checkpoints of one call are tried at most."""


async def _cancelled(call: Callable[[], Awaitable[object]], step: int) -> bool:
    """Make a call that is cancelled at a checkpoint; returns whether it was."""
    with cancel_at(step) as scope:
        await call()
    return scope.cancelled_caught


@CANCELLING.case("whatever is asked may be cancelled at any checkpoint, and asked again")
async def _reads(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "a")
    async with trial.linked() as linked:
        calls = {"what there is": linked.link.discover, **reads(linked.link, ROOM)}
        del calls["a submission to it"], calls["a binary of it"]
        for what, call in calls.items():
            for step in range(MOST_STEPS):
                with trial.soon(f"did not give {what}, cancelled at checkpoint {step}"):
                    if not await _cancelled(call, step):
                        break
        await linked.unchanged()


@CANCELLING.case("a submission cancelled at any checkpoint is applied once when it is sent again")
async def _submissions(trial: Trial) -> None:
    await trial.room(ADA)
    cancelled = True
    for step in range(MOST_STEPS):
        if not cancelled:
            break
        sequence, path = step + 1, f"{step}.md"
        async with trial.linked() as linked:
            cancelled = await _cancelled(lambda: linked.submit(sequence, Put(path, "a")), step)  # noqa: B023 - called in this turn
        async with trial.linked() as linked:
            answer = await linked.submit(sequence, Put(path, "a"))
            trial.require(
                answer == Accepted(sequence), f"answered {answer!r}, cancelled at {step} before"
            )
            trial.applied(sequence, (Put(path, "a"),))
            await linked.unchanged()
            answer = await linked.submit(sequence + 2, Put(path, "b"))
            trial.require(answer == Unknown(), f"answered {answer!r} to one too far")


@CANCELLING.case("a link that is cancelled while it is made leaves the next to be made")
async def _connecting(trial: Trial) -> None:
    await trial.room(ADA)
    for step in range(MOST_STEPS):
        with cancel_at(step) as scope:
            async with trial.linked() as linked:
                await linked.unchanged()
        async with trial.linked() as linked:
            await linked.unchanged()
        if not scope.cancelled_caught:
            return


@CANCELLING.case("bytes whose sending was cancelled are sent on from what was received", "binaries")
async def _uploads(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        for step in range(MOST_STEPS):
            data = f"the bytes of {step}".encode()
            digest, size = digest_of(data), len(data)
            storing = linked.storing
            cancelled = await _cancelled(
                lambda: storing.upload(ROOM, digest, size, 0, data[:5]),  # noqa: B023 - called in this turn
                step,
            )
            with trial.soon("did not take bytes"):
                received = await storing.upload(ROOM, digest, size, 0, b"")
                trial.require(0 <= received <= 5, f"received {received} of 5 bytes")
                received = await storing.upload(ROOM, digest, size, received, data[received:])
            trial.require(received == size, f"received {received} of {size} bytes")
            await linked.accepted(step + 1, PutBinary(f"{step}.bin", digest, size))
            if not cancelled:
                return


@CANCELLING.case(
    "a message whose saying was cancelled is said once when it is sent again", "conversations"
)
async def _messages(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        for step in range(MOST_STEPS):
            conversing, message = linked.conversing, f"m{step}"
            cancelled = await _cancelled(
                lambda: conversing.say(ROOM, "one", message, "text"),  # noqa: B023 - called in this turn
                step,
            )
            with trial.soon("did not take a message"):
                said = await conversing.say(ROOM, "one", message, "text")
            trial.require(
                said.number == step + 1, f"numbered {said.number} the message {step + 1} said"
            )
            if not cancelled:
                return
