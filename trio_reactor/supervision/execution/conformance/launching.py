"""Cases: how a child comes to be, and to run code."""

from __future__ import annotations

import re
from typing import Final

import trio

from trio_reactor.supervision.errors import CodeFailed, ExecutionFailed, LimitRefused
from trio_reactor.supervision.execution.protocol import Adopting
from trio_reactor.supervision.model.work import CodeIdentity, Limits
from trio_reactor.testing.conformance import Part

from .trial import Trial

__all__ = ["LAUNCHING"]

LAUNCHING: Final = Part(Trial)

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")

_MOMENTS: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Parts of the time of a launch after which it is cancelled."""


# All others rest on it.
@LAUNCHING.case("it can do what its rig says, and no more", decisive=True)
async def _capabilities(trial: Trial) -> None:
    adopting = isinstance(trial.rig.execution, Adopting)
    said = "adopting" in trial.rig.capabilities
    trial.require(adopting == said, f"is {'' if adopting else 'not '}Adopting, against its rig")


@LAUNCHING.case("a child exists once it is launched, and runs nothing before it is started")
async def _waits(trial: Trial) -> None:
    async with trial.launched(trial.order(trial.rig.forever())) as unit:
        trial.require(trial.rig.alive(), "entered a launch without a child")
        unit.renew(trial.at(trial.rig.patience))
        await trial.quiet()
        trial.require(trial.rig.ran() == 0, "ran code in a child that was not started")
        trial.require(unit.exit is None, f"ended a child that waits, with {unit.exit}")
        with trial.soon("did not load a work"):
            await unit.start()
        trial.require(trial.rig.ran() == 1, f"ran code {trial.rig.ran()} times after one start")


@LAUNCHING.case("a child that is told no deadline ends by that of its launch, and ran nothing")
async def _unregistered(trial: Trial) -> None:
    order = trial.order(trial.rig.forever(), by=trial.rig.lease)
    async with trial.launched(order) as unit:
        trial.tells(unit, order.launch.by, "its launch's")
        await trial.ends_at(unit, order.launch.by, "its launch's")
    trial.require(trial.rig.ran() == 0, "ran code in a child that was not started")
    await trial.until_gone("after the deadline of a launch")


@LAUNCHING.case("a start tells what was loaded, the same for the same work")
async def _identity(trial: Trial) -> None:
    found: list[CodeIdentity] = []
    for _ in range(2):
        async with trial.launched(trial.order(trial.rig.forever())) as unit:
            unit.renew(trial.at(trial.rig.patience))
            with trial.soon("did not load a work"):
                found.append(await unit.start())
    first, second = found
    trial.require(first == second, f"told {first} and {second} of one work")
    trial.require(first.name, "loaded what has no name")
    trial.require(_DIGEST.fullmatch(first.digest), f"told the digest {first.digest!r}")


@LAUNCHING.case("what cannot be loaded is the code's failure, with what it said", "unloadable")
async def _unloadable(trial: Trial) -> None:
    async with trial.launched(trial.order(trial.rig.unloadable())) as unit:
        unit.renew(trial.at(trial.rig.patience))
        try:
            with trial.soon("did not say that a work cannot be loaded"):
                await unit.start()
        except CodeFailed as failure:
            trial.require(failure.detail, "did not say what the code said")
        else:
            trial.fail("loaded what cannot be loaded")


@LAUNCHING.case("a child that ends while it loads is the execution's failure", "dies_loading")
async def _dies(trial: Trial) -> None:
    async with trial.launched(trial.order(trial.rig.dies_loading())) as unit:
        unit.renew(trial.at(trial.rig.patience))
        try:
            with trial.soon("did not say that a child ended while it loaded"):
                await unit.start()
        except ExecutionFailed:
            pass
        else:
            trial.fail("loaded a work whose process ended in that")
        await trial.ended(unit, "that ended while it loaded")


@LAUNCHING.case("a start that is cancelled only leaves: the child goes on", "never_loads")
async def _cancelled_start(trial: Trial) -> None:
    async with trial.launched(trial.order(trial.rig.never_loads())) as unit:
        unit.renew(trial.at(2 * trial.rig.patience))
        await trial.leaves_promptly(unit.start, "a start")
        await trial.quiet()
        trial.require(unit.exit is None and trial.rig.alive(), "ended a child whose start was left")


@LAUNCHING.case("a launch that is cancelled at any moment leaves no child")
async def _cancelled_launch(trial: Trial) -> None:
    order = trial.order(trial.rig.forever())
    before = trio.current_time()
    async with trial.launched(order):
        took = trio.current_time() - before
    await trial.until_gone("after one was left")
    for part in _MOMENTS:
        with trio.move_on_after(part * took):
            async with trial.rig.execution.launch(trial.order(trial.rig.forever())):
                await trio.sleep_forever()
        trial.require_gone("after a launch was cancelled")
    trial.require(trial.rig.ran() == 0, "ran code in a child that was not started")


@LAUNCHING.case("each launch makes a child of its own, which stays the same to its end", "exits")
async def _one_each(trial: Trial) -> None:
    async with (
        trial.launched(trial.order(trial.rig.exits(0))) as one,
        trial.launched(trial.order(trial.rig.exits(0))) as other,
    ):
        first = one.child
        trial.require(first != other.child, "told one child of two launches")
        for unit in (one, other):
            unit.renew(trial.at(trial.rig.patience))
            with trial.soon("did not load a work"):
                await unit.start()
        await trial.ended(one, "that ended by itself")
        trial.require(one.child == first, "told another child than it had told at the launch")


@LAUNCHING.case("a limit is enforced and said how, or refused by its name")
async def _limits(trial: Trial) -> None:
    for limits in (Limits(open_files=256), Limits(memory=1 << 30), Limits(processes=64)):
        (asked,) = (name for name in limits.__struct_fields__ if getattr(limits, name) is not None)
        try:
            async with trial.launched(trial.order(trial.rig.forever(), limits=limits)) as unit:
                for name in limits.__struct_fields__:
                    how = getattr(unit.enforced, name)
                    said = f"said of {name} that it is enforced by {how} when {asked} was asked for"
                    trial.require((how is not None) == (name == asked), said)
        except LimitRefused as refusal:
            trial.require(refusal.limit == asked, f"refused {refusal.limit} for {asked}")
            trial.require(not trial.rig.alive(), "left a child whose limit it refused")
