"""What the tests of the lanes tell their stories with."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from trio_reactor.errors import Closed, Overflow
from trio_reactor.lanes import Lanes, LanesStatistics

__all__ = ["AT_REST", "Story"]

AT_REST = LanesStatistics(generation=0, held=0, waiting=0, queued=0, left_behind=0)


class Story:
    """Turns that are taken with either face and left when the story says so."""

    def __init__(self, lanes: Lanes[str], nursery: trio.Nursery) -> None:
        self.lanes = lanes
        self.nursery = nursery
        self.told: list[str] = []
        self._leave: dict[str, trio.Event] = {}
        self._scopes: dict[str, trio.CancelScope] = {}

    async def enter(self, name: str, key: str = "room") -> None:
        """Let a task of its own take a turn; comes back when it is inside or in line."""
        self._leave[name] = trio.Event()
        self._scopes[name] = trio.CancelScope()
        self.nursery.start_soon(self._turn, name, key)
        await wait_all_tasks_blocked()

    async def queue(self, name: str, key: str = "room") -> None:
        """Queue work; comes back when it is begun or in line."""
        self.queue_now(name, key)
        await wait_all_tasks_blocked()

    async def leave(self, name: str) -> None:
        """Let it leave; comes back when what follows from it has happened."""
        self.leave_now(name)
        await wait_all_tasks_blocked()

    def queue_now(self, name: str, key: str) -> None:
        self._leave[name] = trio.Event()
        self.lanes.start_soon(key, self._inside, name)

    def leave_now(self, name: str) -> None:
        self._leave[name].set()

    def cancel(self, name: str) -> None:
        self._scopes[name].cancel()

    async def _turn(self, name: str, key: str) -> None:
        with self._scopes[name] as scope:
            try:
                async with self.lanes(key):
                    await self._inside(name)
            except Closed:
                self.told.append(f"{name} refused")
            except Overflow:
                self.told.append(f"{name} overflow")
        if scope.cancelled_caught:
            self.told.append(f"{name} cancelled")

    async def _inside(self, name: str) -> None:
        self.told.append(f"{name} in")
        await self._leave[name].wait()
        self.told.append(f"{name} out")
