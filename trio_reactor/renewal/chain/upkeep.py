"""What takes its time for a source that lives: to reconnect it, check it, tell it what was set.

Each runs in a task of the owner's, and what comes of it passes the phase of the slot before it
changes anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Protocol, final

import trio

from trio_reactor.errors import TimedOut, is_expected
from trio_reactor.fence import Token
from trio_reactor.owner import Owner
from trio_reactor.renewal.events import LossReason
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.slot.checking import Check, Checking
from trio_reactor.renewal.slot.recovery import Recovery
from trio_reactor.renewal.slot.settings import Applied, is_refusal
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.world import World

from .announcer import Announcer

__all__ = ["Upkeep", "UpkeepHost", "defects_are_terminal"]


class UpkeepHost(Protocol):
    """What the upkeep needs of its chain.  Everything is synchronous."""

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

    def slot_lost(self, slot: Slot, why: LossReason, cause: BaseException | None) -> None:
        """Something of a slot that lives was lost."""
        ...

    def say_recovering(self, slot: Slot, why: LossReason, cause: BaseException | None) -> None:
        """A slot has begun to recover, or its recovery has escalated."""
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

    def reconnect(self, slot: Slot, deadline: float) -> None:
        """Begin to make the connection of a source again, until this instant on the clock."""
        slot.recovery = Recovery(slot, deadline)
        self._owner.start_soon(self._recover, slot, slot.recovery)

    def check(self, slot: Slot, check: Check, deadline: float) -> None:
        """Begin to check a source before it goes on air, until this instant on the clock."""
        slot.checking = Checking(slot, check, deadline)
        self._owner.start_soon(self._check, slot, slot.checking)

    def tell(self, slot: Slot, deadline: float) -> None:
        """Begin to tell a source what was set, until this instant on the clock."""
        applied = slot.applied
        assert applied is not None  # noqa: S101 - else it has nothing to take
        self._owner.start_soon(self._tell, slot, applied, slot.connection, deadline)
        applied.tellers += 1

    async def _recover(self, slot: Slot, recovery: Recovery) -> None:
        failure = await recovery.run()
        if failure is not None:
            if slot.advance("recovery-failed"):
                self._host.say_recovering(slot, "reconnect-failed", failure)
        elif slot.advance("recovered"):
            slot.book.regained()
            now = self._host.world.clock()
            self._host.announce.recovered(
                slot, now - (now if slot.lost_at is None else slot.lost_at)
            )
            slot.lost_at = None
        self._host.changed()

    async def _check(self, slot: Slot, checking: Checking) -> None:
        connection = slot.connection
        failure = await checking.run()
        if failure is None:
            # What was made again meanwhile has not been looked at.
            slot.checked = connection.live
        elif slot.live:
            self._host.slot_lost(slot, "check-failed", failure)
        self._host.changed()

    async def _tell(self, slot: Slot, applied: Applied, connection: Token, deadline: float) -> None:
        """Have a source take what was set; what is lost by that is recovered.

        What comes of it after the connection that it was sent on has ended is no news.
        """
        try:
            with trio.CancelScope(deadline=deadline) as budget:
                try:
                    await applied.tell()
                except Exception as failure:
                    if not is_expected(failure):
                        raise
                    if connection.live:
                        self._not_taken(slot, applied, failure)
            if budget.cancelled_caught and connection.live:
                late = TimedOut("what was set was not answered in time", outcome="unknown")
                self._host.slot_lost(slot, "outcome-unknown", late)
        finally:
            applied.tellers -= 1
            self._host.changed()

    def _not_taken(self, slot: Slot, applied: Applied, failure: Exception) -> None:
        if not is_refusal(failure):
            self._host.slot_lost(slot, "events-lost", failure)
        elif slot is not self._host.on_air:
            # It cannot follow as it is.
            self._host.slot_lost(slot, "check-failed", failure)
        elif applied.tellers > 1:
            pass  # who asked for it tells it again, and is to hear the refusal
        elif not applied.take_back():
            self._host.slot_lost(slot, "events-lost", failure)
