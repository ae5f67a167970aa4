"""A case under way: launches children of the execution under test, and says what is wrong."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from typing import Final, NoReturn, cast, final

import trio

from trio_reactor.supervision.execution.protocol import (
    Adopting,
    Execution,
    LaunchOrder,
    OrphanPolicy,
    Unit,
)
from trio_reactor.supervision.model.child import Launch, Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.work import UNLIMITED, Limits, Work

from .rig import Rig, WorkName

__all__ = ["Nonconforming", "RigFailed", "Trial"]

_LOOK_AGAIN: Final = 0.01
"""Seconds between two looks of the witness, who is not told when something changes."""

_HAIR: Final = 0.05
"""Seconds by which a child may end before its deadline, or tell of it as another."""


class Nonconforming(AssertionError):
    """An execution does not keep a rule.

    Args:
        execution: The name of its rig.
        did: What it did.
        required: The rule.
    """

    def __init__(self, execution: str, did: str, required: str) -> None:
        super().__init__(f"{execution} {did}; required: {required}")
        self.execution = execution
        self.did = did
        self.required = required


class RigFailed(Exception):
    """The rig, or what runs beside it, failed by itself: nothing is said about the execution.

    What it raised, with its traceback, is the cause.

    Args:
        rig: The name of the rig.
        doing: What it was to do.
    """

    def __init__(self, rig: str, doing: str) -> None:
        super().__init__(f"the rig of {rig} failed {doing}; nothing is said about the execution")
        self.rig = rig
        self.doing = doing


@final
class Trial:
    """What the body of a case works with.

    Args:
        rig: The execution, its witness and its works.
        required: The rule that is tested.
    """

    def __init__(self, rig: Rig, required: str) -> None:
        self._rig = rig
        self._required = required
        self._generation = 0
        self.world = rig.world
        self.name = rig.name
        self.capabilities = rig.capabilities
        self.patience = rig.patience
        self.prompt = rig.prompt
        self.lease = rig.lease
        self.most_kept = rig.most_kept

    # ---------------------------------------------------------------------------- what is wrong

    def broken(self, did: str) -> Nonconforming:
        """The failure that says what the execution did."""
        return Nonconforming(self.name, did, self._required)

    def fail(self, did: str) -> NoReturn:
        """Raise what says what the execution did."""
        raise self.broken(did)

    def require(self, holds: object, did: str) -> None:
        """Raise what says what the execution did, unless this holds."""
        if not holds:
            self.fail(did)

    # ------------------------------------------------------------------------------ of the rig

    @property
    def execution(self) -> Execution:
        """The execution under test."""
        with self._doing("execution"):
            return self._rig.execution

    @property
    def adopting(self) -> Adopting:
        """The same, which can adopt."""
        execution = self.execution
        if not isinstance(execution, Adopting):
            self.fail("is not Adopting")
        return execution

    def work(self, name: WorkName, *args: object) -> Work:
        """A work of the rig."""
        with self._doing(name):
            return cast("Callable[..., Work]", getattr(self._rig, name))(*args)

    def alive(self) -> int:
        """How many processes there are."""
        with self._doing("alive"):
            return self._rig.alive()

    def ran(self) -> int:
        """How many children have begun to run a work."""
        with self._doing("ran"):
            return self._rig.ran()

    async def left_behind(
        self, order: LaunchOrder, *, deadline: float | None, registered: bool = True
    ) -> Orphan:
        """What a supervisor has left that died."""
        with self._doing("leave_behind"):
            return await self._rig.leave_behind(order, deadline=deadline, registered=registered)

    @contextlib.contextmanager
    def _doing(self, method: str) -> Generator[None]:
        try:
            yield
        except Exception as failure:
            raise RigFailed(self.name, f"in `{method}`") from failure

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
        ends = self.at(2 * self.patience if by is None else by)
        launch = Launch(self.world.token(), ends, self._rig.boot_id)
        key = Key("conformance", str(self._generation))
        return LaunchOrder(key, self._generation, launch, work, limits, orphaned)

    def at(self, seconds: float) -> float:
        """The instant so many seconds from now, on the machine's clock."""
        return self.world.boottime() + seconds

    @contextlib.asynccontextmanager
    async def entered(self, manager: AbstractAsyncContextManager[Unit]) -> AsyncGenerator[Unit]:
        """A launch or an adoption that has to be entered and left within patience."""
        with trio.CancelScope() as scope:
            scope.deadline = trio.current_time() + self.patience
            async with manager as unit:
                scope.deadline = math.inf
                try:
                    yield unit
                finally:
                    scope.deadline = trio.current_time() + self.patience
        if scope.cancelled_caught:
            self.fail(f"did not launch or leave a child within {self.patience:g} s")

    def launched(self, order: LaunchOrder) -> AbstractAsyncContextManager[Unit]:
        """A child that waits to be started."""
        return self.entered(self.execution.launch(order))

    @contextlib.asynccontextmanager
    async def running(self, work: Work, *, lease: float | None = None) -> AsyncGenerator[Unit]:
        """A child that has loaded a work.

        Args:
            work: What it runs.
            lease: Seconds from before the start that it has; by default more than is waited for.
        """
        async with self.launched(self.order(work)) as unit:
            unit.renew(self.at(2 * self.patience if lease is None else lease))
            with self.soon("did not load a work"):
                await unit.start()
            yield unit

    # ------------------------------------------------------------------------- waiting for facts

    @contextlib.contextmanager
    def soon(self, did_not: str, within: float | None = None) -> Generator[None]:
        """A block that has to be over within the rig's patience, or within these seconds."""
        seconds = self.patience if within is None else within
        with trio.move_on_after(seconds) as budget:
            yield
        if budget.cancelled_caught:
            self.fail(f"{did_not} within {seconds:g} s")

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
        late = deadline - self.world.boottime() + self.prompt
        status = await self.ended(unit, f"at {whose} deadline", within=late)
        early = deadline - self.world.boottime()
        self.require(early <= _HAIR, f"ended a child {early:g} s before {whose} deadline")
        return status

    async def until_gone(self, after: str, *, within: float | None = None) -> None:
        """Wait until the witness sees no process of any child."""
        with trio.move_on_after(self.patience if within is None else within):
            while self.alive():  # noqa: ASYNC110 - a witness is not told
                await trio.sleep(_LOOK_AGAIN)
        self.require(not self.alive(), f"has {self.alive()} processes left {after}")

    async def quiet(self) -> None:
        """Let the time pass in which nothing must happen."""
        await trio.sleep(self._rig.quiet)

    async def leaves_promptly(self, call: Callable[[], Awaitable[object]], name: str) -> None:
        """Call what does not return, cancel it, and see that it leaves without delay."""
        before = trio.current_time()
        with trio.move_on_after(self._rig.quiet) as scope:
            await call()
        self.require(scope.cancelled_caught, f"returned from {name}, which cannot have been")
        took = trio.current_time() - before - self._rig.quiet
        self.require(took <= self.prompt, f"took {took:g} s to leave {name} that was cancelled")
