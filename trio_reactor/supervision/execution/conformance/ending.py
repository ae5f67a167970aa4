"""Cases: how a child ends, and how that is told."""

from __future__ import annotations

from typing import Final

import trio

from trio_reactor.supervision.execution.protocol import Unit
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import Work
from trio_reactor.testing.conformance import Part

from .trial import Trial

__all__ = ["ENDING"]

ENDING: Final = Part(Trial)

_WAITERS: Final = 8


@ENDING.case("a child that ends by itself ends with the status that is told", "exits")
async def _status(trial: Trial) -> None:
    for code in (0, 3):
        async with trial.running(trial.rig.exits(code)) as unit:
            status = await trial.ended(unit, "that ended by itself")
            trial.require(status == ExitStatus(code=code), f"told {status} of status {code}")
            trial.require(unit.exit == status, f"says {unit.exit} after it has told {status}")
    await trial.until_gone("after they had ended")


@ENDING.case("everybody who waits for an end learns of it, and who comes later too", "exits")
async def _waiters(trial: Trial) -> None:
    told: list[ExitStatus] = []

    async def wait(unit: Unit) -> None:
        told.append(await unit.wait_exited())

    async with trial.launched(trial.order(trial.rig.exits(0))) as unit:
        with trial.soon("did not tell the end of a child to all who waited"):
            async with trio.open_nursery() as nursery:
                for _ in range(_WAITERS):
                    nursery.start_soon(wait, unit)
                nursery.start_soon(unit.wait_lost)
                await trial.leaves_promptly(unit.wait_exited, "the wait for an end")
                unit.renew(trial.at(trial.rig.patience))
                await unit.start()
        await wait(unit)
        trial.require(len(set(told)) == 1, f"told {set(told)} of one end")


@ENDING.case("a child that is asked to end does, before it is started and after")
async def _asked(trial: Trial) -> None:
    async with trial.launched(trial.order(trial.rig.forever())) as unit:
        unit.interrupt()
        await trial.ended(unit, "that was asked to end before its start")
    trial.require(trial.rig.ran() == 0, "ran code in a child that was not started")
    async with trial.running(trial.rig.forever()) as unit:
        unit.interrupt()
        await trial.ended(unit, "that was asked to end")


@ENDING.case(
    "a request is no end: a child that ignores it goes on until it is killed", "ignores_interrupt"
)
async def _ignores(trial: Trial) -> None:
    async with trial.running(trial.rig.ignores_interrupt()) as unit:
        unit.interrupt()
        await trial.quiet()
        trial.require(unit.exit is None, f"told {unit.exit} of a child that ignores being asked")
        trial.require(trial.rig.alive(), "ended a child that was only asked")
        unit.kill()
        status = await trial.ended(unit, "that was killed")
        trial.require(not status.is_success, f"told {status} of a child that was killed")
        trial.require(not trial.rig.alive(), "told an end while processes were left")


@ENDING.case("a child that waits to be started can be killed")
async def _killed_early(trial: Trial) -> None:
    async with trial.launched(trial.order(trial.rig.forever())) as unit:
        unit.kill()
        await trial.ended(unit, "that was killed before its start")
    trial.require(trial.rig.ran() == 0, "ran code in a child that was not started")


@ENDING.case("a child ends at its deadline by itself")
async def _deadline(trial: Trial) -> None:
    await _ends_at_its_deadline(trial, trial.rig.forever())


@ENDING.case("it does so whatever it is asked and ignores", "ignores_interrupt")
async def _deadline_ignoring(trial: Trial) -> None:
    await _ends_at_its_deadline(trial, trial.rig.ignores_interrupt())


@ENDING.case("it does so though its code blocks what it runs in", "spins")
async def _deadline_spinning(trial: Trial) -> None:
    await _ends_at_its_deadline(trial, trial.rig.spins())


@ENDING.case("it does so with whatever it started", "spawns")
async def _deadline_spawning(trial: Trial) -> None:
    await _ends_at_its_deadline(trial, trial.rig.spawns())


async def _ends_at_its_deadline(trial: Trial, work: Work) -> None:
    deadline = trial.at(trial.rig.lease)
    async with trial.running(work, lease=trial.rig.lease) as unit:
        await trial.ends_at(unit, deadline, "its")
        trial.require(not trial.rig.alive(), "told an end while processes were left")


@ENDING.case("the newest deadline counts, later or earlier than the one before")
async def _renewed(trial: Trial) -> None:
    async with trial.running(trial.rig.forever(), lease=trial.rig.lease) as unit:
        later = trial.at(2 * trial.rig.lease)
        unit.renew(later)
        trial.tells(unit, later, "its newest")
        await trial.ends_at(unit, later, "its newest")
    async with trial.running(trial.rig.forever()) as unit:
        earlier = trial.at(trial.rig.lease / 2)
        unit.renew(earlier)
        trial.tells(unit, earlier, "its newest")
        await trial.ends_at(unit, earlier, "its newest")


@ENDING.case("what a child is told that has ended does nothing", "exits")
async def _after_the_end(trial: Trial) -> None:
    async with trial.running(trial.rig.exits(0)) as unit:
        status = await trial.ended(unit, "that ended by itself")
        unit.renew(trial.at(trial.rig.patience))
        unit.interrupt()
        unit.kill()
        await trial.quiet()
        trial.require(unit.exit == status, f"tells {unit.exit} after {status}")


@ENDING.case("leaving ends a child that lives, and has observed that")
async def _left(trial: Trial) -> None:
    async with trial.running(trial.rig.forever()) as unit:
        pass
    trial.require_gone("after a child was left")
    trial.require(unit.exit is not None, "has left a child without having observed its end")


@ENDING.case("so does leaving that is cancelled")
async def _left_cancelled(trial: Trial) -> None:
    units: list[Unit] = []
    with trio.CancelScope() as scope:
        async with trial.running(trial.rig.forever()) as unit:
            units.append(unit)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    trial.require_gone("after a child was left")
    trial.require(units[0].exit is not None, "has left a child without having observed its end")


@ENDING.case("a child that is killed ends with whatever it started", "spawns")
async def _killed_whole(trial: Trial) -> None:
    async with trial.running(trial.rig.spawns()) as unit:
        unit.kill()
        await trial.ended(unit, "that was killed")
        trial.require(not trial.rig.alive(), "told an end while what the child started was left")
