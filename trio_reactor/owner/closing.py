"""The order in which an owner closes, and the budget it has for that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, final

import trio

from trio_reactor.errors import TimedOut

from .ledger import named

if TYPE_CHECKING:
    from .owner import Owner

__all__ = ["Closing"]

_log = logging.getLogger("trio_reactor.owner")


@final
class Closing:
    """One owner's close, once.

    Args:
        owner: Whose.
        deadline: When its budget is over, on the clock.
    """

    def __init__(self, owner: Owner, deadline: float) -> None:
        self._owner = owner
        self._deadline = deadline
        self._progress: trio.Event | None = None

    def advance(self) -> None:
        """Something ended: look again."""
        if self._progress is not None:
            self._progress.set()

    async def run(self) -> None:
        """End everything, in order; returns when nothing is left, however long that takes."""
        owner = self._owner
        ledger = owner._ledger
        attempts, workers = ledger.attempts, ledger.workers

        def nothing_left() -> bool:
            return not attempts and not workers

        # Attempts that are still opening were cancelled when `stopping` rose.
        await self._until(lambda: ledger.opening == 0)
        await self._drain()
        for attempt in tuple(attempts):
            attempt._ask("closed")
        await self._until(lambda: not attempts)
        in_time = owner.world.clock() < self._deadline
        self._cut()
        for worker in tuple(workers):
            worker.scope.cancel()
        await self._until(nothing_left)
        if in_time:
            for worker in workers:
                self._blame(worker.name, "did not end, although cancelled,")
        self._warn([*(a.name for a in attempts), *(w.name for w in workers if w.drain or in_time)])
        while not nothing_left():
            # However long it takes, and saying so each time that the budget is over once more.
            self._deadline = owner.world.clock() + owner.options.cleanup_timeout
            await self._until(nothing_left)
            self._warn([*(a.name for a in attempts), *(w.name for w in workers)])

    async def _drain(self) -> None:
        """Let the workers that drain finish; where that has a budget of its own, add it."""
        owner, ledger = self._owner, self._owner._ledger
        budget = owner.options.drain_timeout
        if budget is None:
            await self._until(lambda: ledger.draining == 0)
            return
        began, rest = owner.world.clock(), self._deadline
        self._deadline = owner._close_began + budget
        await self._until(lambda: ledger.draining == 0)
        # What was left of the budget when it began is left when it is over.
        self._deadline = owner._close_deadline = rest + owner.world.clock() - began

    def overdue(self) -> list[str]:
        """What is there although it has had all the time there was."""
        owner = self._owner
        attempts, workers = owner._ledger.attempts, owner._ledger.workers
        if owner.world.clock() >= owner._close_deadline:
            return [*(each.name for each in attempts), *(each.name for each in workers)]
        return [attempt.name for attempt in attempts if attempt._overdue]

    def _cut(self) -> None:
        """Cancel what had the whole budget to leave; an attempt tells that where it ends."""
        for attempt in self._owner._ledger.attempts:
            attempt._leaving.cancel()
        for worker in self._owner._ledger.workers:
            if worker.drain:
                self._blame(worker.name, "did not finish")

    def _warn(self, overdue: list[str]) -> None:
        if overdue:
            names = ", ".join(named(overdue))
            _log.warning("%s waits for what is overdue: %s", self._owner.name, names)

    def _blame(self, name: str, what: str) -> None:
        ledger = self._owner._ledger
        ledger.timed_out.append(name)
        ledger.failures.defect(TimedOut(f"{name} {what} within the budget of close"))

    async def _until(self, reached: Callable[[], bool]) -> None:
        """Wait until this is so, or the budget is over.  The caller is shielded."""
        with trio.CancelScope(deadline=self._deadline):
            while not reached():
                self._progress = trio.Event()
                await self._progress.wait()
