"""What holds for every source: who it is, how long it lives, how it opens and how it ends."""

from __future__ import annotations

from typing import Final, cast

import msgspec
import trio

from trio_reactor.errors import leaves
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.policy.lifespan import lifetime_fault
from trio_reactor.renewal.slot.validity import MAX_IDENTITY
from trio_reactor.renewal.source import (
    Announcing,
    Exclusive,
    Mortal,
    Playable,
    Predecessor,
    Receptive,
    Reconnectable,
    Recordable,
    Resumable,
    Source,
)
from trio_reactor.testing.cancellation import cancel_at
from trio_reactor.testing.conformance import Part

from .rig import Capability
from .trial import Trial

__all__ = ["LIFE", "MAX_STEPS"]

MAX_STEPS: Final = 500
"""At how many checkpoints of one call it is cancelled at most."""

LIFE: Final = Part(Trial)


class _Interrupted(Exception):
    """An error of whoever uses a source."""


# All others rest on it: that the source can do what its rig says, and no more.
@LIFE.case("it has exactly the capabilities that are expected of it", decisive=True)
async def _capabilities(trial: Trial) -> None:
    protocols: dict[Capability, type] = {
        "playable": Playable,
        "reconnectable": Reconnectable,
        "exclusive": Exclusive,
        "resumable": Resumable,
        "recordable": Recordable,
        "mortal": Mortal,
        "announcing": Announcing,
        "receptive": Receptive,
    }
    async with trial.opened() as source:
        trial.require(isinstance(cast("object", source), Source), "is not a Source")
        found = frozenset(name for name, kind in protocols.items() if isinstance(source, kind))
        expected = trial.rig.capabilities
        trial.require(found == expected, f"is {sorted(found)} instead of {sorted(expected)}")


@LIFE.case("its identity is a string of 1 to 1,024 characters, and stays the same")
async def _identity(trial: Trial) -> None:
    async with trial.opened() as source:
        identity = cast("object", source.id)
        trial.require(isinstance(identity, str), f"has the identity {identity!r}")
        trial.require(
            0 < len(source.id) <= MAX_IDENTITY,
            f"has an identity of {len(source.id)} characters",
        )
        await trial.quiet()
        trial.require(source.id == identity, f"changed its identity to {source.id!r}")
        await trial.close(source)
        trial.require(source.id == identity, f"changed its identity to {source.id!r} when closed")


@LIFE.case("its lifetime is None or a finite number of seconds, more than 0")
async def _lifetime(trial: Trial) -> None:
    async with trial.opened() as source:
        fault = lifetime_fault(source.lifetime, 0.0)
        trial.require(fault is None, f"is wrong: {fault}")


@LIFE.case("its lifetime is counted from when it was opened, and stays the same")
async def _whole_lifetime(trial: Trial) -> None:
    async with trial.opened() as source:
        lifetime = source.lifetime
        await trial.quiet()
        later = source.lifetime
        trial.require(later == lifetime, f"said {lifetime} of its lifetime, and later {later}")


@LIFE.case("two that live have distinct identities")
async def _distinct(trial: Trial) -> None:
    async with trial.opened() as one:
        if isinstance(one, Exclusive) and one.exclusive:
            return
        async with trial.opened() as other:
            trial.require(one.id != other.id, "has the identity of another one that is alive")


@LIFE.case("it opens after a plan, after a loss, and with context")
async def _predecessors(trial: Trial) -> None:
    for predecessor in (
        Predecessor(),
        Predecessor("gone", "plan", None, None),
        Predecessor("gone", "loss", None, {"said": ["before", 1, None]}),
    ):
        async with trial.opened(predecessor) as source:
            await trial.close(source)
        await trial.until_allocated(0, f"after one that was opened after {predecessor.cause}")


@LIFE.case("closing it gives evidence that is complete, names it, and can be recorded")
async def _evidence(trial: Trial) -> None:
    async with trial.opened() as source:
        with trial.soon("did not close"):
            cleanup = cast("object", await source.close())
        if not isinstance(cleanup, Cleanup):
            trial.fail(f"returned {cleanup!r} when it was closed")
        trial.require(cleanup.complete, f"left evidence that is not complete: {cleanup}")
        trial.require(cleanup.source == source.id, f"left evidence of {cleanup.source!r}")
        recorded = msgspec.json.encode(cleanup)
        again = msgspec.json.decode(recorded, type=Cleanup)
        trial.require(again == cleanup, f"left evidence that is recorded as {recorded!r}")


@LIFE.case("closing it ends it on the other side")
async def _closed(trial: Trial) -> None:
    async with trial.opened() as source:
        await trial.until_allocated(1, "when it was open")
        with trial.soon("did not close"):
            cleanup = await source.close()
        if cleanup.allocation != "attached":
            await trial.until_allocated(0, "after it was closed")


@LIFE.case("closing it twice gives the same evidence")
async def _twice(trial: Trial) -> None:
    async with trial.opened() as source:
        with trial.soon("did not close twice"):
            first, second = await source.close(), await source.close()
        trial.require(first == second, f"left {first}, and then {second}")


@LIFE.case("closing it from two tasks at once gives both the same evidence")
async def _at_once(trial: Trial) -> None:
    found: list[Cleanup] = []

    async def close(source: Source) -> None:
        found.append(await source.close())

    async with trial.opened() as source:
        with trial.soon("did not close for two"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(close, source)
                nursery.start_soon(close, source)
        trial.require(found[0] == found[1], f"left {found[0]} to one, and {found[1]} to another")


@LIFE.case("a close that is cancelled, at whichever checkpoint, is made good by leaving")
async def _half_closed(trial: Trial) -> None:
    for step in range(MAX_STEPS):
        async with trial.opened() as source:
            with cancel_at(step) as scope:
                await source.close()
            if step % 2:  # whoever was cancelled may also ask again
                await trial.close(source)
        await trial.until_allocated(0, f"after its close was cancelled at checkpoint {step}")
        # Of the steps that follow the last one, one is left without another close.
        if not scope.cancel_called and not step % 2:
            return


@LIFE.case("leaving it without closing it ends it on the other side")
async def _left(trial: Trial) -> None:
    async with trial.opened():
        await trial.until_allocated(1, "when it was open")
    await trial.until_allocated(0, "after it was left")


@LIFE.case("leaving it by an error ends it, and the error comes out")
async def _left_by_error(trial: Trial) -> None:
    mine = _Interrupted("an error of whoever uses it")
    try:
        async with trial.opened():
            raise mine  # noqa: TRY301 - of whoever uses it
    except Exception as raised:  # noqa: BLE001 - what comes out is the question
        came = raised
    else:
        trial.fail("swallowed an error of whoever uses it")
    trial.require(mine in tuple(leaves(came)), f"turned an error of whoever uses it into {came!r}")
    await trial.until_allocated(0, "after it was left by an error")


@LIFE.case("leaving it by cancellation ends it")
async def _left_by_cancellation(trial: Trial) -> None:
    with trio.CancelScope() as scope:
        async with trial.opened():
            scope.cancel()
            await trio.sleep_forever()
    trial.require(scope.cancelled_caught, "swallowed a cancellation")
    await trial.until_allocated(0, "after it was left by cancellation")


@LIFE.case("an opening that is cancelled leaves nothing behind, at whichever checkpoint")
async def _cancelled(trial: Trial) -> None:
    for step in range(MAX_STEPS):
        with cancel_at(step, tasks="all") as scope:
            try:
                async with trial.rig.opener(Predecessor()):
                    pass
            except Exception as failure:  # noqa: BLE001 - what may come of it, if it is expected
                trial.require_expected(failure, f"cancelled at checkpoint {step}")
        await trial.until_allocated(0, f"after it was cancelled at checkpoint {step}")
        if not scope.cancel_called:
            break
    await trial.quiet()  # what was on its way may arrive late
    await trial.until_allocated(0, "after the last of them")


@LIFE.case("an opening that is refused raises what is expected, and leaves nothing", "refuse_opens")
async def _refused(trial: Trial) -> None:
    await trial.rig.refuse_opens()
    opened = False
    try:
        async with trial.opened():
            opened = True
    except Exception as failure:  # noqa: BLE001 - which it is is the question
        trial.require_expected(failure, "when it was refused")
    trial.require(not opened, "opened although it was refused")
    await trial.until_allocated(0, "after it was refused")


@LIFE.case("an opening that is not answered leaves promptly when it is cancelled", "fall_silent")
async def _silent(trial: Trial) -> None:
    await trial.rig.fall_silent()

    async def open_it() -> None:
        async with trial.rig.opener(Predecessor()):
            trial.fail("opened although nothing was answered")

    await trial.leaves_promptly(open_it, "an opening")


@LIFE.case("a close that is not answered leaves promptly when it is cancelled", "fall_silent")
async def _silent_close(trial: Trial) -> None:
    with trial.soon("did not leave after a close that was not answered"):
        async with trial.opened() as source:
            await trial.rig.fall_silent()
            await trial.leaves_promptly(source.close, "a close")
