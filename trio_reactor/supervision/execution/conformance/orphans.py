"""Cases: what becomes of a child whose supervisor is gone."""

from __future__ import annotations

from typing import Final

import msgspec

from trio_reactor.supervision.errors import AdoptionFailed
from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.model.child import Launch, Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.testing.conformance import Part

from .trial import Trial

__all__ = ["ADOPTING", "ORPHANS"]

ORPHANS: Final = Part(Trial)
ADOPTING: Final = Part(Trial, "adopting")


async def _recovered(trial: Trial, orphan: Orphan) -> ExitStatus | None:
    with trial.soon("did not recover what was left"):
        return await trial.rig.execution.recover(orphan)
    raise AssertionError  # `soon` has raised


@ORPHANS.case(
    "a child ends at once when its supervisor is gone, if it is ordered so", "leave_behind"
)
async def _at_once(trial: Trial) -> None:
    order = trial.order(trial.rig.forever(), orphaned="kill")
    await trial.rig.leave_behind(order, deadline=trial.at(2 * trial.rig.patience))
    await trial.until_gone("after its supervisor died", within=trial.rig.prompt)


@ORPHANS.case("one that waits to be started does too", "leave_behind")
async def _at_once_waiting(trial: Trial) -> None:
    await trial.rig.leave_behind(trial.order(trial.rig.forever(), orphaned="kill"), deadline=None)
    await trial.until_gone("after its supervisor died", within=trial.rig.prompt)
    trial.require(trial.rig.ran() == 0, "ran code in a child that was not started")


@ORPHANS.case(
    "one that is to be adopted lives to its deadline, and no longer",
    "leave_behind",
    "adopting",
)
async def _to_its_deadline(trial: Trial) -> None:
    order = trial.order(trial.rig.forever(), orphaned="adopt")
    deadline = trial.at(2 * trial.rig.lease)
    await trial.rig.leave_behind(order, deadline=deadline)
    await trial.quiet()
    trial.require(trial.rig.alive(), "ended a child that is to be adopted")
    left = deadline - trial.rig.world.boottime()
    await trial.until_gone("after the deadline of an orphan", within=left + trial.rig.prompt)


@ORPHANS.case(
    "a child that was registered is found, ended and told of",
    "leave_behind",
    "adopting",
)
async def _registered(trial: Trial) -> None:
    order = trial.order(trial.rig.forever(), orphaned="adopt")
    orphan = await trial.rig.leave_behind(order, deadline=trial.at(2 * trial.rig.patience))
    trial.require(trial.rig.alive(), "ended a child that is to be adopted")
    status = await _recovered(trial, orphan)
    trial.require(status is not None, "found no child where one was")
    trial.require(not trial.rig.alive(), "told of an end while processes were left")
    await _recovered(trial, orphan)  # that it is gone by now is no failure


@ORPHANS.case(
    "of a child that was not registered nothing is left, though only its nonce is known",
    "leave_behind",
    "adopting",
)
async def _not_registered(trial: Trial) -> None:
    order = trial.order(trial.rig.forever(), by=2 * trial.rig.patience, orphaned="adopt")
    orphan = await trial.rig.leave_behind(order, deadline=None, registered=False)
    trial.require(orphan.child is None, "was told which child it is")
    await _recovered(trial, orphan)  # unless it has ended by itself, on losing its supervisor
    trial.require(not trial.rig.alive(), "told of an end while processes were left")
    trial.require(trial.rig.ran() == 0, "ran code in a child that was not started")


@ORPHANS.case("where there never was a child none is found, and every other is left alone")
async def _nobody(trial: Trial) -> None:
    async with trial.running(trial.rig.forever()) as unit:
        nobody = Orphan(Launch(trial.rig.world.token(), trial.at(trial.rig.patience)), None)
        status = await _recovered(trial, nobody)
        trial.require(status is None, f"found a child that never was, and told {status}")
        await trial.quiet()
        trial.require(unit.exit is None, f"ended another child, with {unit.exit}")


@ORPHANS.case("one that has ended by now is no failure", "leave_behind")
async def _gone(trial: Trial) -> None:
    order = trial.order(trial.rig.forever(), orphaned="kill")
    orphan = await trial.rig.leave_behind(order, deadline=trial.at(2 * trial.rig.patience))
    await trial.until_gone("after its supervisor died")
    await _recovered(trial, orphan)


async def _left_to_adopt(trial: Trial, *, lease: float) -> tuple[LaunchOrder, Orphan]:
    order = trial.order(trial.rig.echoes(), orphaned="adopt")
    return order, await trial.rig.leave_behind(order, deadline=trial.at(lease))


@ADOPTING.case(
    "a child that was left is adopted: it is the same, heard, told and renewed",
    "leave_behind",
    "echoes",
)
async def _adopted(trial: Trial) -> None:
    order, orphan = await _left_to_adopt(trial, lease=2 * trial.rig.lease)
    async with trial.entered(trial.adopting.adopt(orphan, order)) as unit:
        trial.require(unit.child == orphan.child, f"adopted {unit.child} for {orphan.child}")
        trial.require(trial.rig.ran() == 1, f"ran code {trial.rig.ran()} times for one child")
        with trial.soon("did not carry what was sent to an adopted child and back"):
            await unit.channel.send_all(b"x")
            received = await unit.channel.receive_some(1)
        trial.require(bytes(received) == b"x", f"gave {received!r} for what was sent")
        later = trial.at(3 * trial.rig.lease)
        unit.renew(later)
        await trial.ends_at(unit, later, "its newest")
    trial.require(not trial.rig.alive(), "told an end while processes were left")


@ADOPTING.case(
    "an adopted child that is told nothing keeps the deadline that it had", "leave_behind", "echoes"
)
async def _keeps_deadline(trial: Trial) -> None:
    deadline = trial.at(2 * trial.rig.lease)
    order, orphan = await _left_to_adopt(trial, lease=2 * trial.rig.lease)
    async with trial.entered(trial.adopting.adopt(orphan, order)) as unit:
        trial.tells(unit, deadline, "its old")
        await trial.ends_at(unit, deadline, "its old")


@ADOPTING.case("leaving an adopted child ends it", "leave_behind", "echoes")
async def _left(trial: Trial) -> None:
    order, orphan = await _left_to_adopt(trial, lease=2 * trial.rig.patience)
    async with trial.entered(trial.adopting.adopt(orphan, order)) as unit:
        pass
    trial.require_gone("after a child was left")
    trial.require(unit.exit is not None, "has left a child without having observed its end")


@ADOPTING.case(
    "who does not know its secret cannot adopt a child, and it is not left running",
    "leave_behind",
    "echoes",
)
async def _unproven(trial: Trial) -> None:
    order, orphan = await _left_to_adopt(trial, lease=2 * trial.rig.patience)
    trial.require(orphan.child and orphan.child.secret, "made a child that has no secret")
    assert orphan.child is not None  # noqa: S101 - required just now
    child = msgspec.structs.replace(orphan.child, secret=trial.rig.world.token())
    try:
        async with trial.entered(trial.adopting.adopt(Orphan(orphan.launch, child), order)):
            trial.fail("was adopted by who did not know its secret")
    except AdoptionFailed:
        pass
    trial.require(not trial.rig.alive(), "left a child running that was not adopted")


@ADOPTING.case("a child that is gone cannot be adopted", "leave_behind", "echoes")
async def _gone_before(trial: Trial) -> None:
    order, orphan = await _left_to_adopt(trial, lease=2 * trial.rig.patience)
    await _recovered(trial, orphan)
    try:
        async with trial.entered(trial.adopting.adopt(orphan, order)):
            trial.fail("adopted a child that is gone")
    except AdoptionFailed:
        pass
