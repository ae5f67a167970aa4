"""Executions that break one rule each, for the suite to catch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import trio
from execution_rigs import SimulationRig

from trio_reactor.errors import Busy
from trio_reactor.supervision.errors import AdoptionFailed, CodeFailed, ExecutionFailed
from trio_reactor.supervision.execution.protocol import (
    Execution,
    LaunchOrder,
    OutputStatistics,
    Unit,
)
from trio_reactor.supervision.model.child import Launch, Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import CodeIdentity, Enforced, Work
from trio_reactor.supervision.simulation import SimulatedExecution, SimulatedUnit

__all__ = ["MUTANTS"]

MUTANTS: dict[str, list[type[SimulationRig]]] = {}
"""By the rule that they break, rigs whose executions break it."""


def breaks(*sentences: str) -> Callable[[type[SimulationRig]], type[SimulationRig]]:
    def add(kind: type[SimulationRig]) -> type[SimulationRig]:
        for sentence in sentences:
            MUTANTS.setdefault(sentence, []).append(kind)
        return kind

    return add


class Wrapped:
    """A unit that does what the one beneath does, but for what a subclass says."""

    def __init__(self, unit: SimulatedUnit) -> None:
        self.unit = unit

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unit, name)


class Twisted:
    """An execution that does what the simulated one does, but for what a subclass says."""

    wrap: type[Wrapped] | None = None

    def __init__(self, execution: SimulatedExecution) -> None:
        self.inner = execution
        self.machine = execution.machine

    def order(self, order: LaunchOrder) -> LaunchOrder:
        return order

    def wrapped(self, unit: Unit) -> Any:
        return unit if self.wrap is None else self.wrap(unit)  # type: ignore[arg-type]

    @asynccontextmanager
    async def launch(self, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        async with self.inner.launch(self.order(order)) as unit:
            yield self.wrapped(unit)

    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        return await self.inner.recover(orphan)

    @asynccontextmanager
    async def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        async with self.inner.adopt(orphan, order) as unit:
            yield self.wrapped(unit)


class MutantRig(SimulationRig):
    twist: type[Twisted]

    def make(self) -> Execution:
        return self.twist(SimulatedExecution(self.machine))


def rig(twist: type[Twisted]) -> type[SimulationRig]:
    return type(f"{twist.__name__}Rig", (MutantRig,), {"twist": twist, "name": twist.__name__})


def unit_breaks(*sentences: str) -> Callable[[type[Wrapped]], type[Wrapped]]:
    def add(kind: type[Wrapped]) -> type[Wrapped]:
        breaks(*sentences)(rig(type(kind.__name__, (Twisted,), {"wrap": kind})))
        return kind

    return add


def execution_breaks(*sentences: str) -> Callable[[type[Twisted]], type[Twisted]]:
    def add(kind: type[Twisted]) -> type[Twisted]:
        breaks(*sentences)(rig(kind))
        return kind

    return add


# ---------------------------------------------------------------------------------- launching


@breaks("it can do what its rig says, and no more")
class SaysTooLittle(SimulationRig):
    capabilities = frozenset()


@execution_breaks("a child exists once it is launched, and runs nothing before it is started")
class StartsAtOnce(Twisted):
    def wrapped(self, unit: Any) -> Any:
        unit.simulated.begin()
        return unit


@execution_breaks("a child that is told no deadline ends by that of its launch, and ran nothing")
class LaunchesForLong(Twisted):
    def order(self, order: LaunchOrder) -> LaunchOrder:
        launch = msgspec.structs.replace(order.launch, by=order.launch.by + 100)
        return msgspec.structs.replace(order, launch=launch)


@unit_breaks("a start tells what was loaded, the same for the same work")
class NamesTheProcess(Wrapped):
    async def start(self) -> CodeIdentity:
        code = await self.unit.start()
        return msgspec.structs.replace(code, name=str(self.unit.simulated.process.pid))


@unit_breaks("what cannot be loaded is the code's failure, with what it said")
class BlamesItself(Wrapped):
    async def start(self) -> CodeIdentity:
        try:
            return await self.unit.start()
        except CodeFailed as failure:
            raise ExecutionFailed("no code") from failure


@unit_breaks("what cannot be loaded is the code's failure, with what it said")
class SaysNothing(Wrapped):
    async def start(self) -> CodeIdentity:
        try:
            return await self.unit.start()
        except CodeFailed as failure:
            raise CodeFailed("no code") from failure


@unit_breaks("a child that ends while it loads is the execution's failure")
class BlamesTheCode(Wrapped):
    async def start(self) -> CodeIdentity:
        try:
            return await self.unit.start()
        except ExecutionFailed as failure:
            raise CodeFailed("it died") from failure


@unit_breaks("a start that is cancelled only leaves: the child goes on")
class KillsWhenLeft(Wrapped):
    async def start(self) -> CodeIdentity:
        try:
            return await self.unit.start()
        except trio.Cancelled:
            self.unit.kill()
            raise


@unit_breaks("a start that is cancelled only leaves: the child goes on")
class StartsShielded(Wrapped):
    async def start(self) -> CodeIdentity:
        with trio.move_on_after(5) as scope:
            scope.shield = True
            return await self.unit.start()
        await trio.lowlevel.checkpoint()
        raise AssertionError


@execution_breaks("a launch that is cancelled at any moment leaves no child")
class SpawnsBefore(Twisted):
    @asynccontextmanager
    async def launch(self, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        child = await self.machine.spawn(order)
        async with self.inner.launch(order) as unit:
            child.end(ExitStatus())
            yield unit


@unit_breaks("each launch makes a child of its own, which stays the same to its end")
class TellsOfAnother(Wrapped):
    @property
    def child(self) -> Any:
        child = self.unit.child
        ended = self.unit.exit is not None
        return msgspec.structs.replace(child, address="elsewhere") if ended else child


@unit_breaks("each launch makes a child of its own, which stays the same to its end")
class AllTheSame(Wrapped):
    @property
    def child(self) -> Any:
        return msgspec.structs.replace(self.unit.child, process=None, address="", secret="")


@unit_breaks("a limit is enforced and said how, or refused by its name")
class SaysNoLimit(Wrapped):
    enforced = Enforced()


@unit_breaks("a limit is enforced and said how, or refused by its name")
class SaysEveryLimit(Wrapped):
    enforced = Enforced("cgroup", "cgroup", "cgroup", "cgroup")


# ------------------------------------------------------------------------------------- ending


@unit_breaks("a child that ends by itself ends with the status that is told")
class AlwaysWell(Wrapped):
    async def wait_exited(self) -> ExitStatus:
        await self.unit.wait_exited()
        return ExitStatus(code=0)


@unit_breaks("a child that ends by itself ends with the status that is told")
class ForgetsTheExit(Wrapped):
    exit = None


@unit_breaks("everybody who waits for an end learns of it, and who comes later too")
class TellsOne(Wrapped):
    waiting = False

    async def wait_exited(self) -> ExitStatus:
        if self.waiting:
            raise Busy("somebody waits already")
        self.waiting = True
        return await self.unit.wait_exited()


@unit_breaks("a child that is asked to end does, before it is started and after")
class AsksNobody(Wrapped):
    def interrupt(self) -> None:
        pass


@unit_breaks("a request is no end: a child that ignores it goes on until it is killed")
class TakesARequestForAnEnd(Wrapped):
    asked = False

    def interrupt(self) -> None:
        self.asked = True

    @property
    def exit(self) -> ExitStatus | None:
        return ExitStatus(signal=15) if self.asked else self.unit.exit


@unit_breaks("a request is no end: a child that ignores it goes on until it is killed")
class KillsAtOnce(Wrapped):
    def interrupt(self) -> None:
        self.unit.kill()


@unit_breaks("a request is no end: a child that ignores it goes on until it is killed")
class TakesAKillForAnEnd(Wrapped):
    killed = False

    def kill(self) -> None:
        self.killed = True
        self.unit.kill()

    async def wait_exited(self) -> ExitStatus:
        return ExitStatus(signal=9) if self.killed else await self.unit.wait_exited()


@unit_breaks("a child that waits to be started can be killed")
class KillsOnlyTheStarted(Wrapped):
    started = False

    async def start(self) -> CodeIdentity:
        self.started = True
        return await self.unit.start()

    def kill(self) -> None:
        if self.started:
            self.unit.kill()


@unit_breaks(
    "a child ends at its deadline by itself", "it does so whatever it is asked and ignores"
)
class TellsNoDeadline(Wrapped):
    def renew(self, deadline: float, /) -> None:
        self.unit.renew(deadline + 1_000)


@unit_breaks("a child ends at its deadline by itself")
class EndsTooEarly(Wrapped):
    def renew(self, deadline: float, /) -> None:
        self.unit.renew(deadline - 1)


@unit_breaks("it does so though its code blocks what it runs in")
class LeavesTheDeadlineToTheCode(Wrapped):
    def renew(self, deadline: float, /) -> None:
        child = self.unit.simulated
        blocked = child.program.silent_after is not None
        self.unit.renew(deadline + 1_000 if blocked else deadline)


class Strays(SimulationRig):
    """What a child of `spawns` starts is left."""

    def __init__(self, machine: Any) -> None:
        self.strays = 0
        super().__init__(machine)

    def spawns(self) -> Work:
        self.strays = 1
        return super().spawns()

    def alive(self) -> int:
        return super().alive() + (self.strays if self.ran() else 0)


breaks(
    "it does so with whatever it started", "a child that is killed ends with whatever it started"
)(Strays)


@unit_breaks("the newest deadline counts, later or earlier than the one before")
class HearsOne(Wrapped):
    heard = False

    def renew(self, deadline: float, /) -> None:
        if not self.heard:
            self.heard = True
            self.unit.renew(deadline)


@unit_breaks("the newest deadline counts, later or earlier than the one before")
class HearsTheLatest(Wrapped):
    latest = 0.0

    def renew(self, deadline: float, /) -> None:
        self.latest = max(self.latest, deadline)
        self.unit.renew(self.latest)


@unit_breaks(
    "a child that is told no deadline ends by that of its launch, and ran nothing",
    "the newest deadline counts, later or earlier than the one before",
)
class DoesNotKnowItsDeadline(Wrapped):
    deadline = 0.0


@unit_breaks("what a child is told that has ended does nothing")
class TellsTheLastKill(Wrapped):
    killed = False

    def kill(self) -> None:
        self.killed = True
        self.unit.kill()

    @property
    def exit(self) -> ExitStatus | None:
        return ExitStatus(signal=9) if self.killed else self.unit.exit


@unit_breaks("what a child is told that has ended does nothing")
class RaisesToTheDead(Wrapped):
    def interrupt(self) -> None:
        if self.unit.exit is not None:
            raise ProcessLookupError(3, "No such process")
        self.unit.interrupt()


@execution_breaks("leaving ends a child that lives, and has observed that")
class LeavesItRunning(Twisted):
    @asynccontextmanager
    async def launch(self, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        execution = SimulatedExecution(self.machine)
        async with execution.launch(msgspec.structs.replace(order, orphaned="adopt")) as unit:
            yield unit
            execution.die()


@execution_breaks("so does leaving that is cancelled")
class LeavesItWhenCancelled(Twisted):
    @asynccontextmanager
    async def launch(self, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        execution = SimulatedExecution(self.machine)
        async with execution.launch(msgspec.structs.replace(order, orphaned="adopt")) as unit:
            try:
                yield unit
            except trio.Cancelled:
                execution.die()
                raise


# ------------------------------------------------------------------------------------ talking


class Upper(trio.abc.Stream):
    """A channel that changes what is received."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self.stream.receive_some(max_bytes)).upper()

    async def aclose(self) -> None:
        await self.stream.aclose()


@unit_breaks("what is sent to the code arrives, and what it sends comes, in order")
class ChangesBytes(Wrapped):
    @property
    def channel(self) -> trio.abc.Stream:
        return Upper(self.unit.channel)


@unit_breaks("what the code sent before it ended comes after that, and then the end")
class LosesTheLast(Wrapped):
    async def wait_exited(self) -> ExitStatus:
        status = await self.unit.wait_exited()
        await self.unit.channel.receive_some()
        return status


@unit_breaks("what comes from the code is a sign of life")
class HearsNothing(Wrapped):
    heard_at = 0.0


@unit_breaks("what comes from the code is a sign of life")
class HearsWhatIsToCome(Wrapped):
    @property
    def heard_at(self) -> float:
        return trio.current_time() + 1


class KeepsTheFirst:
    def __init__(self, output: Any) -> None:
        self.output = output

    def tail(self) -> bytes:
        return b"0" + self.output.tail()[1:]

    def statistics(self) -> OutputStatistics:
        return self.output.statistics()


class CountsNothing(KeepsTheFirst):
    def tail(self) -> bytes:
        return self.output.tail()

    def statistics(self) -> OutputStatistics:
        return msgspec.structs.replace(self.output.statistics(), dropped=0)


@unit_breaks("of what the code writes the last is kept, and all is counted")
class Keeps(Wrapped):
    @property
    def output(self) -> KeepsTheFirst:
        return KeepsTheFirst(self.unit.output)


@unit_breaks("of what the code writes the last is kept, and all is counted")
class Counts(Wrapped):
    @property
    def output(self) -> KeepsTheFirst:
        return CountsNothing(self.unit.output)


@breaks("of what the code writes the last is kept, and all is counted")
class KeepsTooMuch(SimulationRig):
    most_kept = 100


@unit_breaks("where the code is can be told while it runs, and not after")
class AlwaysHasAStack(Wrapped):
    async def stack(self) -> str:
        return "somewhere"


@unit_breaks("where the code is can be told while it runs, and not after")
class EmptyStack(Wrapped):
    async def stack(self) -> str:
        await self.unit.stack()
        return ""


# ------------------------------------------------------------------------------------ orphans


@breaks(
    "a child ends at once when its supervisor is gone, if it is ordered so",
    "one that waits to be started does too",
    "one that has ended by now is no failure",
)
class OutlivesItsSupervisor(SimulationRig):
    async def leave_behind(self, order: LaunchOrder, /, **how: Any) -> Orphan:
        return await super().leave_behind(msgspec.structs.replace(order, orphaned="adopt"), **how)


@breaks("one that is to be adopted lives to its deadline, and no longer")
class DiesWithItsSupervisor(SimulationRig):
    async def leave_behind(self, order: LaunchOrder, /, **how: Any) -> Orphan:
        return await super().leave_behind(msgspec.structs.replace(order, orphaned="kill"), **how)


@breaks("one that is to be adopted lives to its deadline, and no longer")
class OutlivesItsDeadline(SimulationRig):
    async def leave_behind(self, order: LaunchOrder, /, **how: Any) -> Orphan:
        how["deadline"] += 100
        return await super().leave_behind(order, **how)


@execution_breaks(
    "a child that was registered is found, ended and told of",
    "of a child that was not registered nothing is left, though only its nonce is known",
)
class FindsNobody(Twisted):
    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        await trio.lowlevel.checkpoint()
        return None


@execution_breaks(
    "a child that was registered is found, ended and told of",
    "of a child that was not registered nothing is left, though only its nonce is known",
)
class OnlyAsks(Twisted):
    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        await trio.lowlevel.checkpoint()
        return ExitStatus()


@execution_breaks("a child that was registered is found, ended and told of")
class FailsAtTheGone(Twisted):
    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        if not self.machine.find(orphan):
            raise ProcessLookupError(3, "No such process")
        return await self.inner.recover(orphan)


@execution_breaks("one that has ended by now is no failure")
class FailsAtTheGoneToo(FailsAtTheGone):
    pass


@execution_breaks(
    "of a child that was not registered nothing is left, though only its nonce is known"
)
class NeedsAProcess(Twisted):
    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        return None if orphan.child is None else await self.inner.recover(orphan)


@execution_breaks("where there never was a child none is found, and every other is left alone")
class EndsEverybody(Twisted):
    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        for child in list(self.machine.children.values()):
            child.kill()
        return await self.inner.recover(orphan)


@execution_breaks("where there never was a child none is found, and every other is left alone")
class FindsSomebody(Twisted):
    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        return await self.inner.recover(orphan) or ExitStatus()


# ----------------------------------------------------------------------------------- adopting


@execution_breaks(
    "a child that was left is adopted: it is the same, heard, told and renewed",
    "an adopted child that is told nothing keeps the deadline that it had",
)
class MakesAnother(Twisted):
    @asynccontextmanager
    async def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        await self.inner.recover(orphan)
        launch = Launch(order.launch.nonce, self.machine.world.boottime() + 100)
        async with self.inner.launch(msgspec.structs.replace(order, launch=launch)) as unit:
            unit.renew(launch.by)
            await unit.start()
            yield unit


class Deaf(Wrapped):
    def renew(self, deadline: float, /) -> None:
        pass


@execution_breaks("a child that was left is adopted: it is the same, heard, told and renewed")
class AdoptsTheDeaf(Twisted):
    @asynccontextmanager
    async def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        async with self.inner.adopt(orphan, order) as unit:
            yield Deaf(unit)  # type: ignore[arg-type, misc]


@execution_breaks("an adopted child that is told nothing keeps the deadline that it had")
class GivesALeaseOfItsOwn(Twisted):
    @asynccontextmanager
    async def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        async with self.inner.adopt(orphan, order) as unit:
            unit.renew(self.machine.world.boottime() + 100)
            yield unit


class Unaware(Wrapped):
    deadline = 0.0


@execution_breaks("an adopted child that is told nothing keeps the deadline that it had")
class ForgetsTheDeadline(Twisted):
    @asynccontextmanager
    async def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        async with self.inner.adopt(orphan, order) as unit:
            yield Unaware(unit)  # type: ignore[arg-type, misc]


@execution_breaks("leaving an adopted child ends it")
class LeavesTheAdopted(Twisted):
    @asynccontextmanager
    async def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        execution = SimulatedExecution(self.machine)
        async with execution.adopt(orphan, order) as unit:
            yield unit
            execution.die()


@execution_breaks("who does not know its secret cannot adopt a child, and it is not left running")
class BelievesAnybody(Twisted):
    def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AbstractAsyncContextManager[Unit]:
        (child,) = self.machine.find(orphan)
        return self.inner.adopt(Orphan(orphan.launch, child.identity), order)


@execution_breaks("who does not know its secret cannot adopt a child, and it is not left running")
class LeavesTheUnproven(Twisted):
    @asynccontextmanager
    async def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AsyncGenerator[Unit]:
        (child,) = self.machine.find(orphan)
        if child.identity != orphan.child:
            await trio.lowlevel.checkpoint()
            raise AdoptionFailed("somebody else")
        async with self.inner.adopt(orphan, order) as unit:
            yield unit


@execution_breaks("a child that is gone cannot be adopted")
class RevivesTheGone(MakesAnother):
    pass
