"""One connection to the authority, from entering its block to its loss: a generation.

All work that needs the authority belongs to a generation and is cancelled with it.  The next one
never waits for it: a call that hangs, or a block that is slow to leave, holds up nobody.
"""

from __future__ import annotations

from typing import final

import trio

from trio_reactor.errors import Closed
from trio_reactor.rooms.errors import ConnectionRefused
from trio_reactor.rooms.model.terms import Terms
from trio_reactor.rooms.provider.protocol import Link
from trio_reactor.rooms.sync.steps import Phase

__all__ = ["Generation"]


@final
class Generation:
    """What is known of one connection.

    Args:
        number: Which of the handle's, from 1.
        reads: How many rooms are read at one time.
    """

    def __init__(self, number: int, *, reads: int) -> None:
        self.number = number
        self.reads = trio.CapacityLimiter(reads)
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.failure: BaseException | None = None
        self.refusal: ConnectionRefused | None = None
        self.completed = False
        self.terms = Terms()
        self.stage: Phase = "discovering"
        self.discovering = False
        self.carried = 0
        self.link: Link | None = None
        self.nursery: trio.Nursery | None = None
        self.relisting = trio.Event()
        self._quiet = trio.Event()

    def __repr__(self) -> str:
        return f"<Generation {self.number}: {'over' if self.over.is_set() else self.phase}>"

    @property
    def live(self) -> bool:
        """Whether it is the current one still, so that its results may change something."""
        return not self.over.is_set()

    @property
    def phase(self) -> Phase:
        """How far it is."""
        return "discovering" if self.discovering else self.stage

    def check(self) -> None:
        """Pass the fence.

        Raises:
            Closed: It is over.
        """
        if self.over.is_set():
            raise Closed(f"connection {self.number} is over")

    def end(self, failure: BaseException | None = None) -> None:
        """End it, in this one step; the first reason stays."""
        if self.over.is_set():
            return
        self.failure = failure
        if isinstance(failure, ConnectionRefused):
            self.refusal = failure
        self.over.set()
        self.scope.cancel()

    def relist(self) -> None:
        """Want another discovery."""
        self.relisting.set()

    def began(self) -> None:
        """Count a room that is carried."""
        self.carried += 1

    def rested(self) -> None:
        """Count a room that is carried no more."""
        self.carried -= 1
        if not self.carried:
            self._quiet.set()

    async def wait_quiet(self) -> None:
        """Sleep until no room is carried."""
        while self.carried:
            self._quiet = trio.Event()
            await self._quiet.wait()
        await trio.lowlevel.checkpoint()
