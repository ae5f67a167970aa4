"""What takes its time for a source that lives: to reconnect it, check it, tell it what was set.

Each runs in a task of the owner's, and what comes of it passes the phase of the slot before it
changes anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Protocol, final

import trio

from trio_reactor.errors import TimedOut, is_expected
from trio_reactor.fence import Token
from trio_reactor.owner import Owner
from trio_reactor.renewal.events import LossReason
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.slot.settings import Applied, is_refusal
from trio_reactor.renewal.slot.setup import reconnect
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.slot.underway import Underway
from trio_reactor.renewal.source import Source
from trio_reactor.world import World

from .announcer import Announcer

__all__ = ["Check", "Upkeep", "UpkeepHearing", "UpkeepHost", "defects_are_terminal"]

Check = Callable[[Source], Awaitable[object]]
"""Looks at a source before it goes on air; what it raises is why it must not."""


class UpkeepHearing(Protocol):
    """Who hears what comes of the upkeep.  Everything is synchronous."""

    def lost(self, slot: Slot, why: LossReason, cause: BaseException | None) -> None:
        """Something of a slot that lives was lost."""
        ...

    def recovering(self, slot: Slot, why: LossReason, cause: BaseException | None) -> None:
        """A slot has begun to recover, or its recovery has escalated."""
        ...


class UpkeepHost(Protocol):
    """What the upkeep needs of its chain.  Everything is synchronous."""

    @property
    def hearing(self) -> UpkeepHearing:
        """Who hears what comes of it."""
        ...

    @property
    def on_air(self) -> Slot | None:
        """The slot that feeds the output now."""
        ...

    @property
    def announce(self) -> Announcer:
        """Where it is said what happens."""
        ...

    @property
    def world(self) -> World:
        """Its clock."""
        ...

    @property
    def options(self) -> RenewalOptions:
        """Its budgets."""
        ...

    def changed(self) -> None:
        """Look again at what decides."""
        ...


@contextlib.contextmanager
def defects_are_terminal(owner: Owner) -> Generator[None]:
    """Around synchronous questions to adapters: their defects are terminal, whoever asks."""
    try:
        yield
    except Exception as defect:  # noqa: BLE001 - the terminal failure
        owner.fail(defect)


@final
class Upkeep:
    """The upkeep of one chain's sources.

    Args:
        host: The chain.
        owner: Runs the work.
    """

    def __init__(self, host: UpkeepHost, owner: Owner) -> None:
        self._host = host
        self._owner = owner

    # In each the task comes first: who leaves waits for what is recorded as under way.

    def reconnect(self, slot: Slot, deadline: float) -> None:
        """Begin to make the connection of a source again, until this instant on the clock."""
        recovery = Underway(deadline)
        self._owner.start_soon(self._recover, slot, recovery)
        slot.recovery = recovery

    def check(self, slot: Slot, check: Check, deadline: float) -> None:
        """Begin to check a source before it goes on air, until this instant on the clock."""
        checking = Underway(deadline)
        self._owner.start_soon(self._check, slot, checking, check)
        slot.checking = checking

    def tell(self, slot: Slot, deadline: float) -> None:
        """Begin to tell a source what was set, until this instant on the clock."""
        applied = slot.applied
        assert applied is not None  # noqa: S101 - else it has nothing to take
        self._owner.start_soon(self._tell, slot, applied, slot.connection, deadline)
        applied.tellers += 1

    async def _recover(self, slot: Slot, recovery: Underway) -> None:
        async def make_whole() -> None:
            await reconnect(slot)
            slot.check_whole()

        try:
            failure = await recovery.run(
                make_whole, f"source {slot.incarnation} did not reconnect within its budget"
            )
        finally:
            slot.recovery = None
        if failure is not None:
            if slot.advance("recovery-failed"):
                self._host.hearing.recovering(slot, "reconnect-failed", failure)
        elif slot.advance("recovered"):
            slot.book.regained()
            now = self._host.world.clock()
            self._host.announce.recovered(
                slot, now - (now if slot.lost_at is None else slot.lost_at)
            )
            slot.lost_at = None
        self._host.changed()

    async def _check(self, slot: Slot, checking: Underway, check: Check) -> None:
        """Have a source checked.  What comes of it counts for the connection it was begun on."""
        source = slot.source
        assert source is not None  # noqa: S101 - it is open
        try:
            failure = await checking.run(
                lambda: check(source),
                f"the check of source {slot.incarnation} was not over in time",
            )
        finally:
            slot.checking = None
        if slot.live and not checking.cancelled:
            if failure is None:
                slot.checked = True
            else:
                self._host.hearing.lost(slot, "check-failed", failure)
        self._host.changed()

    async def _tell(self, slot: Slot, applied: Applied, connection: Token, deadline: float) -> None:
        """Have a source take what was set; what is lost by that is recovered.

        What comes of it after the connection that it was sent on has ended is no news.
        """
        budget = trio.CancelScope(deadline=deadline)
        try:
            try:
                with budget:
                    await applied.tell()
            except Exception as failure:
                # Around the budget: what breaks when that cancels it comes in a group with it.
                if not is_expected(failure):
                    raise
                if connection.live and not budget.cancelled_caught:
                    self._not_taken(slot, applied, failure)
            if budget.cancelled_caught and connection.live:
                late = TimedOut("what was set was not answered in time", outcome="unknown")
                self._host.hearing.lost(slot, "outcome-unknown", late)
        finally:
            applied.tellers -= 1
            self._host.changed()

    def _not_taken(self, slot: Slot, applied: Applied, failure: Exception) -> None:
        if not is_refusal(failure):
            self._host.hearing.lost(slot, "events-lost", failure)
        elif slot is not self._host.on_air:
            # It cannot follow as it is.
            self._host.hearing.lost(slot, "check-failed", failure)
        elif applied.tellers > 1:
            pass  # who asked for it tells it again, and is to hear the refusal
        elif not applied.take_back():
            self._host.hearing.lost(slot, "events-lost", failure)
