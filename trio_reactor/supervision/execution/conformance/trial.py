"""A case under way: launches children of the execution under test, and says what is wrong."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, final

import trio

from trio_reactor.supervision.execution.protocol import (
    Adopting,
    LaunchOrder,
    OrphanPolicy,
    Unit,
)
from trio_reactor.supervision.model.child import Launch
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.work import UNLIMITED, Limits, Work
from trio_reactor.testing import conformance

from .rig import Rig

__all__ = ["Trial"]

_HAIR: Final = 0.05
"""Seconds by which a child may end before its deadline, or tell of it as another."""


@final
class Trial(conformance.Trial[Rig]):
    """What the body of a case works with.

    Args:
        rig: The execution, its witness and its works.
        required: The rule that is tested.
    """

    def __init__(self, rig: Rig, required: str) -> None:
        super().__init__(rig, required)
        self._generation = 0

    @property
    def adopting(self) -> Adopting:
        """The same, which can adopt."""
        execution = self.rig.execution
        if not isinstance(execution, Adopting):
            self.fail("is not Adopting")
        return execution

    # ------------------------------------------------------------------------------ the children

    def order(
        self,
        work: Work,
        *,
        by: float | None = None,
        limits: Limits = UNLIMITED,
        orphaned: OrphanPolicy = "kill",
    ) -> LaunchOrder:
        """What a child is launched from: of a generation and with a nonce of its own.

        Args:
            work: What it is to run.
            by: Seconds from now after which it ends if it is told no deadline; by default more than
                is waited for.
            limits: What it may use.
            orphaned: What becomes of it if its supervisor dies.
        """
        self._generation += 1
        ends = self.at(2 * self.rig.patience if by is None else by)
        launch = Launch(self.rig.world.token(), ends, self.rig.boot_id)
        key = Key("conformance", str(self._generation))
        return LaunchOrder(key, self._generation, launch, work, limits, orphaned)

    def at(self, seconds: float) -> float:
        """The instant so many seconds from now, on the machine's clock."""
        return self.rig.world.boottime() + seconds

    @contextlib.asynccontextmanager
    async def entered(self, manager: AbstractAsyncContextManager[Unit]) -> AsyncGenerator[Unit]:
        """A launch or an adoption that has to be entered and left within patience."""
        with trio.CancelScope() as scope:
            scope.deadline = trio.current_time() + self.rig.patience
            async with manager as unit:
                scope.deadline = math.inf
                try:
                    yield unit
                finally:
                    scope.deadline = trio.current_time() + self.rig.patience
        if scope.cancelled_caught:
            self.fail(f"did not launch or leave a child within {self.rig.patience:g} s")

    def launched(self, order: LaunchOrder) -> AbstractAsyncContextManager[Unit]:
        """A child that waits to be started."""
        return self.entered(self.rig.execution.launch(order))

    @contextlib.asynccontextmanager
    async def running(self, work: Work, *, lease: float | None = None) -> AsyncGenerator[Unit]:
        """A child that has loaded a work.

        Args:
            work: What it runs.
            lease: Seconds from before the start that it has; by default more than is waited for.
        """
        async with self.launched(self.order(work)) as unit:
            unit.renew(self.at(2 * self.rig.patience if lease is None else lease))
            with self.soon("did not load a work"):
                await unit.start()
            yield unit

    # ------------------------------------------------------------------------- waiting for facts

    async def ended(self, unit: Unit, after: str, *, within: float | None = None) -> ExitStatus:
        """Wait for an end."""
        with self.soon(f"did not tell the end of a child {after}", within):
            return await unit.wait_exited()
        raise AssertionError  # `soon` has raised

    def tells(self, unit: Unit, deadline: float, whose: str) -> None:
        """See that the deadline that is told is this one."""
        off = unit.deadline - deadline
        self.require(abs(off) <= _HAIR, f"tells a deadline {off:g} s off {whose}")

    async def ends_at(self, unit: Unit, deadline: float, whose: str) -> ExitStatus:
        """Wait for an end that has to be at this instant of the machine's clock."""
        late = deadline - self.rig.world.boottime() + self.rig.prompt
        status = await self.ended(unit, f"at {whose} deadline", within=late)
        early = deadline - self.rig.world.boottime()
        self.require(early <= _HAIR, f"ended a child {early:g} s before {whose} deadline")
        return status

    async def until_gone(self, after: str, *, within: float | None = None) -> None:
        """Wait until the witness sees no process of any child."""
        await self.comes_true(lambda: not self.rig.alive(), within)
        self.require_gone(after)

    def require_gone(self, after: str) -> None:
        """Raise unless the witness sees no process of any child."""
        alive = self.rig.alive()
        self.require(not alive, f"has {alive} processes left {after}")

    async def quiet(self) -> None:
        """Let the time pass in which nothing must happen."""
        await trio.sleep(self.rig.quiet)

    async def leaves_promptly(self, call: Callable[[], Awaitable[object]], name: str) -> None:
        """Call what does not return, cancel it, and see that it leaves without delay."""
        before = trio.current_time()
        with trio.move_on_after(self.rig.quiet) as scope:
            await call()
        self.require(scope.cancelled_caught, f"returned from {name}, which cannot have been")
        took = trio.current_time() - before - self.rig.quiet
        self.require(took <= self.rig.prompt, f"took {took:g} s to leave {name} that was cancelled")
