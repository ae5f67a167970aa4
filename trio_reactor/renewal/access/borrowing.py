"""Borrowing: the source on air, for as long as a block lasts, and the block no longer than it.

What is borrowed is whole.  A switch to the next source does not disturb the block: the old source
leaves the air at once, and leaves altogether once the last block that uses it has ended, or its
life has.  Until then it counts as one of the two sources that may be owned, so that there is no
room for another: who borrows for long delays the next preparation, by no more than the rest of the
old source's life.

If the source is lost, the block is cancelled at once.  At close the blocks have `cleanup_timeout`
to end, and are cancelled after that.

Who comes while no source is whole waits for the next that is.  Nothing polls: who waits is woken by
the steps of the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Any, Generic, cast, final

import trio
from trio.lowlevel import enable_ki_protection

from trio_reactor.errors import Expired, Lost, ReactorError, Retired
from trio_reactor.owner import Owner
from trio_reactor.owner.using import out_of, settle
from trio_reactor.renewal.chain.chain import Chain
from trio_reactor.renewal.errors import SessionRetired
from trio_reactor.renewal.policy import phases
from trio_reactor.renewal.slot.loans import Loan, LoanEnd
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import S_co

__all__ = ["Borrow", "Borrowing"]

_ON_AIR = phases.OnAir


@final
class Borrow(Generic[S_co]):
    """A block that uses the source on air.  Made by `Renewal.borrow`, entered once.

    Entering can always be cancelled, and yields to other tasks only if it has to wait: like a
    cancel scope it is a block around what is done with the source, which has checkpoints of its
    own.  Leaving is no checkpoint.
    """

    __slots__ = ("_borrowing", "_cut", "_depth", "_late", "_scope", "_task", "_unfollowed", "slot")

    def __init__(self, borrowing: Borrowing, *, late: bool = False) -> None:
        self._borrowing = borrowing
        self._late = late
        self._scope = trio.CancelScope()
        self._cut: LoanEnd | None = None
        self._task: trio.lowlevel.Task | None = None
        self._unfollowed: BaseException | None = None
        self._depth = 0
        self.slot: Slot | None = None
        """Whose source is used."""

    @enable_ki_protection
    async def __aenter__(self) -> S_co:
        await trio.lowlevel.checkpoint_if_cancelled()
        borrowing = self._borrowing
        slot = borrowing.lendable(late=self._late)
        if not borrowing.attended:
            borrowing.attend()
        if slot is None:
            slot = await borrowing.next_lendable(late=self._late)
        # Nothing is awaited from here on: what was found whole is what the block gets.
        self._scope.__enter__()
        self._task = task = trio.lowlevel.current_task()
        self._depth = len(task.child_nurseries)
        self.slot = slot
        slot.loans[self] = None
        return cast("S_co", slot.source)

    @enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._borrowing.given_back(self)
        if error is None:
            self._scope.__exit__(None, None, None)
            return False
        rest = out_of(self._scope, error)
        if rest is None and self._scope.cancelled_caught:
            rest = self._gone()
        try:
            return settle(error, rest)
        finally:
            del error, traceback, rest

    def cut(self, why: LoanEnd) -> None:
        """Cancel the block: its source goes."""
        self._cut = why
        self._unfollowed = self._borrowing.unfollowed(self) if why == "expired" else None
        self._borrowing.cut_short[self] = None
        self._scope.cancel()

    @property
    def whole(self) -> bool:
        """Whether its source has not been taken back."""
        return self._cut is None

    def holds(self, task: trio.lowlevel.Task, nursery: trio.Nursery | None) -> bool:
        """Whether a task, or a child of it in this nursery of its, runs inside the block."""
        if task is not self._task:
            return False
        return nursery is None or nursery in task.child_nurseries[self._depth :]

    def _gone(self) -> ReactorError:
        slot = self.slot
        assert slot is not None  # noqa: S101 - it was entered
        what = f"source {slot.incarnation}"
        match self._cut:
            case "expired":
                expired = Expired(f"{what} reached the end of its life while it was borrowed")
                expired.__cause__ = self._unfollowed
                return expired
            case "retired":
                retired = Retired(f"{what} was retired while it was borrowed")
                retired.__cause__ = self._borrowing.failure  # if that is why it closes
                return retired
            case _:
                lost = Lost(f"{what} was lost while it was borrowed")
                lost.__cause__ = slot.loss
                return lost


@final
class Borrowing:
    """Who has borrowed from one renewal, and who waits to.

    Args:
        owner: Says when it is over.
        chain: Has the source on air.
    """

    def __init__(self, owner: Owner, chain: Chain) -> None:
        self._owner = owner
        self._chain = chain
        self.waiting = 0
        """Tasks that wait for a source."""
        self.cut_short: dict[Loan, None] = {}
        """Blocks that were cancelled and have not ended yet."""
        self.draining: list[Callable[[], bool]] = []
        """What close waits for too, while one of these says that it is not finished."""
        self.attended = False
        """Whether somebody sees to those who wait and those who use."""
        self._woken: trio.Event | None = None
        self._returned: trio.Event | None = None
        self._over = False
        """Whether close has taken back what was lent."""
        chain.on_step.append(self._look)
        owner.on_failed(lambda _: chain.told())

    @property
    def failure(self) -> BaseException | None:
        """The terminal failure of the renewal, if there is one."""
        return self._owner.failure

    @property
    def lent(self) -> int:
        """How many blocks use a source now."""
        return sum(len(slot.loans) for slot in self._lenders())

    def lendable(self, *, late: bool = False) -> Slot | None:
        """The slot whose source can be borrowed in this step, if there is one.

        Args:
            late: Also while close lets those finish who have borrowed.

        Raises:
            SessionRetired: The last source is gone.
            Closed, Failed: The handle is closed, or has failed; or nothing is opened any more, and
                what is there is not whole.
        """
        chain = self._chain
        if not late or self._over:
            self._owner.check()
        slot = chain.on_air
        if slot is not None and type(slot.phase) is _ON_AIR:
            span = slot.lifespan
            ends = None if span is None else span.expires_at
            # At the very end of its life it may be found before the chain has noticed.
            if ends is None or ends > chain.world.clock():
                return slot
        if chain.finished:
            raise SessionRetired(f"{self._owner.name}: the last source is gone")
        self._owner.stopping.check()
        return None

    async def next_lendable(self, *, late: bool = False) -> Slot:
        """Wait for a slot whose source can be borrowed.  Cancelling leaves nothing behind.

        Raises:
            ReactorError: As `lendable`.
        """
        self.waiting += 1
        try:
            while True:
                if self._woken is None:
                    self._woken = trio.Event()
                await self._woken.wait()
                slot = self.lendable(late=late)
                if slot is not None:
                    return slot
        finally:
            self.waiting -= 1

    def unfollowed(self, borrow: Borrow[Any]) -> BaseException | None:
        """Why nothing followed the source that a block uses, if that is for a failure."""
        on_air = self._chain.on_air
        followed = on_air is not None and on_air is not borrow.slot
        return None if followed else self._chain.unfollowed

    def given_back(self, borrow: Borrow[Any]) -> None:
        """A block has ended."""
        slot = borrow.slot
        assert slot is not None  # noqa: S101 - it was entered
        slot.give_back(borrow)
        if self.cut_short:
            self.cut_short.pop(borrow, None)
        if self._returned is not None:
            self._returned.set()

    def check_outside(self) -> None:
        """Raise unless this task runs outside of every block that uses a source.

        Raises:
            RuntimeError: It runs inside of one, or in a nursery that was opened there.
        """
        if self._inside(self.cut_short) or self.used_here():
            name = self._owner.name
            raise RuntimeError(f"{name} cannot be closed inside a block that borrows from it")

    def used_here(self) -> list[Slot]:
        """The slots whose sources are used by blocks that this task runs inside of."""
        return [slot for slot in self._lenders() if self._inside(slot.loans)]

    def _inside(self, loans: Collection[Loan]) -> bool:
        """Whether this task runs inside of one of these, or in a nursery opened in one."""
        if not loans:
            return False
        task = trio.lowlevel.current_task()
        nursery: trio.Nursery | None = None
        while not any(loan.holds(task, nursery) for loan in loans):
            nursery = task.parent_nursery
            if nursery is None:
                return False
            task = nursery.parent_task
        return True

    def attend(self) -> None:
        """See to it that those who wait hear of the end, and that close waits for those who use.

        Raises:
            Closed, Failed: It is over.
        """
        if not self.attended:
            self._owner.start_soon(self._see_out, name=f"{self._owner.name} borrowing", drain=True)
            self.attended = True

    async def _see_out(self) -> None:
        owner, chain = self._owner, self._chain
        await owner.stopping.wait()
        chain.told()
        await owner.closing.wait()
        chain.told()
        with trio.CancelScope(deadline=chain.world.clock() + chain.options.cleanup_timeout):
            while self.lent or any(unfinished() for unfinished in self.draining):
                self._returned = trio.Event()
                await self._returned.wait()
        self._returned = None
        self._over = True
        for slot in self._lenders():
            slot.recall("retired")
        chain.told()

    def _lenders(self) -> Iterator[Slot]:
        if self._chain.on_air is not None:
            yield self._chain.on_air
        yield from tuple(self._chain.leaving.values())

    def _look(self) -> None:
        """After a step of the chain's: wake those for whom it makes a difference."""
        if self._returned is not None:
            self._returned.set()
        if self._woken is not None and self._concerns_those_who_wait():
            self._woken.set()
            self._woken = None

    def _concerns_those_who_wait(self) -> bool:
        try:
            return self.lendable(late=True) is not None or self._owner.closing.is_set
        except ReactorError:
            return True
