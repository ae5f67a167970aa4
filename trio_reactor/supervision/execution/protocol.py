"""What an execution does: it makes children, and makes sure that they end.

The order of a child's life is the same everywhere:

1. `Execution.launch` is entered: a child exists, its identity is known, and it waits.  It runs none
   of the user's code, and ends itself at `LaunchOrder.launch.by` if it hears nothing.
2. Its identity is journaled by the supervisor.
3. `Unit.renew` tells it its deadline, `Unit.start` has it load the code.
4. It ends: by itself, when it is asked (`interrupt`), when it is killed, at its deadline, or when
   its supervisor is gone (at once or at its deadline, as `LaunchOrder.orphaned` says).

Nobody but an observed exit confirms an end.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, runtime_checkable

import msgspec
import trio

from trio_reactor.supervision.model.child import Child, Launch, Orphan
from trio_reactor.supervision.model.ends import ExitStatus
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.work import CodeIdentity, Enforced, Limits, Work

__all__ = [
    "Adopting",
    "Execution",
    "LaunchOrder",
    "OrphanPolicy",
    "Output",
    "OutputStatistics",
    "Unit",
]

OrphanPolicy = Literal["kill", "adopt"]
"""What a child does whose supervisor is gone: end at once, or live to its deadline, so that the
next supervisor can adopt it."""


class LaunchOrder(msgspec.Struct, frozen=True):
    """What a child is made from."""

    key: Key
    generation: int
    """With the key, the fencing token that the code gives to whatever it writes to."""
    launch: Launch
    """What the child carries, and when it ends itself unless it is renewed."""
    work: Work
    limits: Limits
    orphaned: OrphanPolicy = "kill"


class OutputStatistics(msgspec.Struct, frozen=True):
    """How much a child wrote."""

    written: int
    """Bytes, over its life."""
    dropped: int
    """Of these, the bytes that were not kept."""


class Output(Protocol):
    """What a child wrote to its standard output and error, captured with a bound.

    Readable at any time, also after the child has ended.
    """

    def tail(self) -> bytes:
        """The last bytes of it, as many as are kept."""
        ...

    def statistics(self) -> OutputStatistics:
        """How much was written and dropped."""
        ...


class Unit(Protocol):
    """One child, from its launch to its observed end."""

    @property
    def child(self) -> Child:
        """What it can be found by."""
        ...

    @property
    def enforced(self) -> Enforced:
        """How each of its limits holds."""
        ...

    @property
    def deadline(self) -> float:
        """When it has to end, as it was last told; until then, when its launch has."""
        ...

    @property
    def exit(self) -> ExitStatus | None:
        """How it ended; `None` until that was observed."""
        ...

    @property
    def heard_at(self) -> float:
        """When it last gave a sign of life, on the world's clock, from its start on.

        Signs are bytes on its channel and `alive()` called by its code.
        """
        ...

    @property
    def channel(self) -> trio.abc.HalfCloseableStream:
        """The application's end of the channel to the code.

        What the code sent before it ended can still be received after that; then it ends.
        """
        ...

    @property
    def output(self) -> Output:
        """What it wrote."""
        ...

    async def start(self) -> CodeIdentity:
        """Have it load the code and run it; returns when the code is loaded.

        Called once, after `renew`.  Cancelling only leaves.

        Raises:
            CodeFailed: The code is missing, does not import, or failed in that.
            ExecutionFailed: The child ended, or did not do what it has to.
        """
        ...

    def renew(self, deadline: float, /) -> None:
        """Tell it when it has to end, in seconds on the machine's clock.

        Never waits and never raises: what cannot be told is found out at its end.
        """
        ...

    def interrupt(self) -> None:
        """Ask it to end.  Never waits and never raises."""
        ...

    def kill(self) -> None:
        """End it and whatever it started.  Never waits and never raises."""
        ...

    async def wait_exited(self) -> ExitStatus:
        """Sleep until its end, and that of whatever it started, was observed.

        For any number of tasks; cancelling only leaves.

        Raises:
            TerminationUnconfirmed: Its end can no longer be observed.
        """
        ...

    async def wait_lost(self) -> None:
        """Sleep until it has ended, as `wait_exited`; so the owner that holds it learns of it."""
        ...

    async def stack(self) -> str:
        """Where its code is, as text for a person; also if its loop is blocked.

        Raises:
            ExecutionFailed: It cannot be told.
        """
        ...


class Execution(Protocol):
    """Makes children."""

    @property
    def boot_id(self) -> str:
        """Which start of the machine they live on; no child outlives it.  Empty if not known."""
        ...

    def launch(self, order: LaunchOrder, /) -> AbstractAsyncContextManager[Unit]:
        """Make a child that waits to be started.

        Entering returns once the child exists and can be found again by what it carries.  If it is
        cancelled, the child is ended and reaped before it leaves.  Leaving ends a child that still
        lives, observes its end, and lets go of what was held for it.

        Entering raises:
            ExecutionFailed: No child could be made; none is left.
            LimitRefused: A limit cannot be enforced here.

        Leaving raises:
            TerminationUnconfirmed: The child may still run.
        """
        ...

    async def recover(self, orphan: Orphan, /) -> ExitStatus | None:
        """Find the child of a supervisor that is gone, and end it.

        It ends whatever the child started too, and observes that.

        Returns:
            How it ended as far as that can be known; `None` if there is none.

        Raises:
            TerminationUnconfirmed: It may still run.
        """
        ...


@runtime_checkable
class Adopting(Protocol):
    """An execution whose children outlive their supervisor, and can be taken over by the next."""

    def adopt(self, orphan: Orphan, order: LaunchOrder, /) -> AbstractAsyncContextManager[Unit]:
        """Take over a live, started child that proves who it is; both ends prove it.

        Leaving is as that of `Execution.launch`.

        Entering raises:
            AdoptionFailed: It is gone, or did not prove itself; it is not left running.
        """
        ...
