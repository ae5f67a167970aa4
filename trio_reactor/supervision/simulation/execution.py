"""An execution that is only simulated; each stands for one supervisor's life."""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import final

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.fence import Fence
from trio_reactor.supervision.errors import (
    AdoptionFailed,
    ExecutionFailed,
    LimitRefused,
    TerminationUnconfirmed,
)
from trio_reactor.supervision.execution.protocol import LaunchOrder, Unit
from trio_reactor.supervision.model.child import Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.work import Enforced, Enforcement, Limits
from trio_reactor.testing.faults import Crashed, Faults, Twice, Wire

from .child import SimulatedChild
from .machine import SimulatedMachine
from .unit import SimulatedUnit

__all__ = ["SimulatedExecution"]


@final
class SimulatedExecution:
    """Makes the children of one supervisor on a machine; an `Execution`, and `Adopting`.

    A supervisor that comes after one that died is given an execution of its own on the same
    machine, and finds there what the other left.

    Args:
        machine: Where the children are.
        faults: What goes wrong; by default what is planned for the machine.
    """

    def __init__(self, machine: SimulatedMachine, *, faults: Faults | None = None) -> None:
        self.machine = machine
        self.faults = faults or machine.faults
        self.gone = Fence("the simulated supervisor")
        """Up once the supervisor has died."""
        self._units: dict[SimulatedUnit, None] = {}

    def __repr__(self) -> str:
        return f"<SimulatedExecution: {len(self._units)} units{', dead' if self.dead else ''}>"

    @property
    def dead(self) -> bool:
        """Whether the supervisor that it is of has died."""
        return self.gone.is_set

    def die(self) -> None:
        """Be the execution of a supervisor that dies at this moment, without a word to anybody.

        Its children find out, and do as they were ordered.  Whatever the dead one still asks for
        has no effect, and whoever waits for it is told `Crashed`.
        """
        if self.gone.set("it died"):
            for unit in self._units:
                unit.orphan()

    def check(self) -> None:
        """See that the supervisor lives.

        Raises:
            Crashed: It has died.
        """
        if self.dead:
            raise Crashed("the simulated supervisor died before")

    @property
    def boot_id(self) -> str:
        """Which start of the simulated machine this is."""
        return self.machine.boot_id

    def launch(self, order: LaunchOrder, /) -> AbstractAsyncContextManager[Unit]:
        """Make a child that waits to be started."""
        return self._launch(order)

    def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AbstractAsyncContextManager[Unit]:
        """Take over a child that an earlier supervisor left."""
        return self._adopt(orphan, order)

    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        """Find a child that an earlier supervisor left, and end it."""
        self.check()
        try:
            await self.faults.meet("recover")
        except ReactorError as failure:
            raise TerminationUnconfirmed(
                "what was left behind cannot be looked for", causes=(failure,)
            ) from failure
        found = self.machine.find(orphan)
        await self._end(found)
        if not found:
            return None if orphan.child is None else ExitStatus()
        registered = [child for child in found if child.identity == orphan.child]
        return (registered or found)[0].exit

    @asynccontextmanager
    async def _launch(self, order: LaunchOrder) -> AsyncGenerator[Unit]:
        self.check()
        enforced = self._enforced(order.limits)
        try:
            await self.faults.meet("launch")
        except ReactorError as failure:
            raise ExecutionFailed("no child could be made", outcome=failure.outcome) from failure
        options = self.machine.options
        with trio.CancelScope(shield=options.stubborn) as making:
            await trio.sleep(options.launch_delay)
            self.check()
            twin = await self.machine.spawn(order) if self._lies() else None
            unit = SimulatedUnit(self, await self.machine.spawn(order), enforced, twin)
            self._units[unit] = None
            if self.dead:  # it died while the child was made, which finds out by itself
                unit.orphan()
            try:
                self.check()
                try:
                    await self.faults.meet("launched")
                except ReactorError as failure:
                    raise ExecutionFailed("the child does not answer") from failure
                making.shield = False
                yield unit
            finally:
                making.shield = False
                await self._leave(unit)

    @asynccontextmanager
    async def _adopt(self, orphan: Orphan, order: LaunchOrder) -> AsyncGenerator[Unit]:
        self.check()
        try:
            try:
                await self.faults.meet("adopt")
            except ReactorError as failure:
                raise AdoptionFailed("the child did not answer") from failure
            await trio.sleep(self.machine.options.adopt_delay)
            self.check()
            child = self._proven(orphan, order)
            enforced = self._enforced(order.limits)
        except BaseException:
            # Whatever was in the way, a cancellation too: it is not left running.
            with trio.CancelScope(shield=True):
                await self._end(self.machine.find(orphan))
            raise
        child.adopted(order)
        unit = SimulatedUnit(self, child, enforced)
        self._units[unit] = None
        try:
            yield unit
        finally:
            await self._leave(unit)

    def _lies(self) -> bool:
        return isinstance(self.faults.at("twin"), Twice)

    def _proven(self, orphan: Orphan, order: LaunchOrder) -> SimulatedChild:
        """The child that is to be adopted, which has proved itself, as this end has."""
        known = orphan.child
        if known is None:
            raise AdoptionFailed("a child that was not registered cannot be adopted")
        of = [child for child in self.machine.find(orphan) if child.process == known.process]
        if not of:
            raise AdoptionFailed("the child is gone")
        (child,) = of
        ours = (order.key, order.generation) == (child.order.key, child.order.generation)
        if not (ours and hmac.compare_digest(child.secret, known.secret)):
            raise AdoptionFailed("the child did not prove who it is")
        if not child.is_adoptable():
            raise AdoptionFailed("the child cannot be adopted: it runs no code, or is held")
        return child

    def _enforced(self, limits: Limits) -> Enforced:
        def how(name: str) -> Enforcement | None:
            if getattr(limits, name) is None:
                return None
            if name in self.machine.options.unenforceable:
                raise LimitRefused(f"the limit {name} cannot be enforced here", limit=name)
            return self.machine.options.enforcement

        return Enforced(how("memory"), how("cpu_time"), how("open_files"), how("processes"))

    async def _end(self, children: Iterable[SimulatedChild]) -> None:
        """End what an earlier supervisor left, and see it end."""
        self.check()
        kill = Wire(self.faults, "kill", SimulatedChild.kill, self.machine.nursery)
        children = list(children)
        for child in children:
            kill.send(child)
        with trio.move_on_after(self.machine.options.confirmation):
            for child in children:
                await child.ended.wait()
        left = [child for child in children if child.alive]
        self.check()
        if left:
            raise TerminationUnconfirmed(f"{left[0]!r} may still run")
        await trio.sleep(self.machine.options.exit_delay)

    async def _leave(self, unit: SimulatedUnit) -> None:
        try:
            await unit.reap()
        except Crashed:
            return  # the dead do not clean up
        finally:
            self._units.pop(unit, None)
        await unit.channel.aclose()
        try:
            await self.faults.meet("leave")
        except ReactorError as failure:
            raise ExecutionFailed("what the child held was not let go") from failure
