"""What an application sends upstream: held while the source changes, delivered once, in order.

Live input, such as the sound of a microphone, has to go to whichever source is on air, and must
neither be sent twice nor arrive out of order because the source changes.  So a piece is accepted
rather than sent: it is held within a bound in bytes, and one worker gives the pieces to the source
on air, one after the other.  While there is none they wait for the next.

A switch lets the piece under way finish: the worker borrows the source for it.  A piece that was
under way when its source was lost may or may not have arrived: it is never sent again, and said to
be lost.  What does not fit is refused.  So of every byte it is known exactly what became of it.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, TypeAlias, cast, final

import trio

from trio_reactor.errors import Refused, TimedOut, is_expected
from trio_reactor.owner import Owner
from trio_reactor.renewal.chain.chain import Chain
from trio_reactor.renewal.errors import InputOverflow, SessionRetired
from trio_reactor.renewal.events import InputLossReason
from trio_reactor.renewal.slot.settings import is_refusal
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import Source
from trio_reactor.renewal.statistics import InputStatistics
from trio_reactor.wording import a_kind

from .borrowing import Borrow, Borrowing

__all__ = ["MAX_INPUT_PIECES", "Bytes", "Upstream"]

MAX_INPUT_PIECES: Final = 65_536
"""How many pieces are held at a time, however small they are."""

Bytes: TypeAlias = bytes | bytearray | memoryview
"""What a piece is given as; it is copied where it could change."""


@final
class Upstream:
    """The input of one renewal.

    Args:
        owner: Runs the worker.
        chain: Has the source on air.
        borrowing: Lends it.
    """

    def __init__(self, owner: Owner, chain: Chain, borrowing: Borrowing) -> None:
        self._owner = owner
        self._chain = chain
        self._borrowing = borrowing
        self._pieces: deque[bytes] = deque()
        """Accepted, and not begun to be sent."""
        self._under_way: _UnderWay | None = None
        self._held = 0
        """Bytes of all these."""
        self._delivered = _Account()
        self._lost = _Account()
        self._refused = _Account()
        self._working = False
        self._more: trio.Event | None = None

    def statistics(self) -> InputStatistics:
        """What became of what was given."""
        return InputStatistics(
            held_pieces=len(self._pieces) + self._is_sending,
            held_bytes=self._held,
            delivered_pieces=self._delivered.pieces,
            delivered_bytes=self._delivered.bytes,
            lost_pieces=self._lost.pieces,
            lost_bytes=self._lost.bytes,
            refused_pieces=self._refused.pieces,
            refused_bytes=self._refused.bytes,
        )

    async def send(self, data: Bytes) -> None:
        """Accept a piece; see `Renewal.send_input`."""
        piece = _captured(data)
        await trio.lowlevel.checkpoint()
        self._owner.check()
        chain = self._chain
        if chain.finished:
            raise SessionRetired(f"{self._owner.name}: the last source is gone")
        if chain.on_air is not None and chain.on_air.receptive is None:
            raise Refused(f"{self._owner.name}: its sources take no input")
        bound = chain.options.max_input_bytes
        size = len(piece)
        if self._held + size > bound:
            self._refused.add(1, size)
            raise InputOverflow(
                f"{self._owner.name}: max_input_bytes={bound} leaves no room for {size} bytes "
                f"beside {self._held} that are held",
                bytes=size,
            )
        if not piece:
            return
        if len(self._pieces) + self._is_sending >= MAX_INPUT_PIECES:
            self._refused.add(1, size)
            raise InputOverflow(
                f"{self._owner.name}: {MAX_INPUT_PIECES} pieces are held", bytes=size
            )
        if not self._working:
            self._begin()
        self._pieces.append(piece)
        self._held += size
        self._look()

    def _begin(self) -> None:
        self._borrowing.attend()
        self._owner.start_soon(self._deliver, name=f"{self._owner.name} input", drain=True)
        self._borrowing.draining.append(lambda: self._held > 0)
        self._chain.on_step.append(self._look)
        self._chain.on_failed.append(self._lose_all)
        self._working = True

    def _look(self) -> None:
        if self._more is not None and (self._pieces or self._over):
            self._more.set()
            self._more = None

    @property
    def _is_sending(self) -> bool:
        """Whether a piece is under way, and not yet said to be delivered or lost."""
        return self._under_way is not None

    @property
    def _over(self) -> bool:
        """Whether nothing more will be accepted."""
        return self._owner.closing.is_set or self._owner.failure is not None or self._chain.finished

    async def _deliver(self) -> None:
        """Give the pieces to the sources; a worker of the owner's, as long as some may come."""
        try:
            while self._owner.failure is None:
                if self._pieces:
                    await self._deliver_some()
                elif self._over:
                    break
                else:
                    self._more = trio.Event()
                    await self._more.wait()
        finally:
            self._lose_held(None, "no-source")
            self._chain.told()  # close waits for what is held

    async def _deliver_some(self) -> None:
        """Give pieces to the source on air, for as long as it is that."""
        borrow: Borrow[Source] = Borrow(self._borrowing, late=True)
        try:
            async with borrow:
                await self._give(borrow)
        except Exception as failure:
            # Not only that the source went: what broke when that cancelled it comes in a group.
            if not is_expected(failure):
                raise
            # It went under a piece, which is told below; or there is none, and none will come.
            if borrow.slot is None:
                self._lose_held(None, "no-source")
        finally:
            if self._is_sending:
                self._lose_under_way("source-lost")

    async def _give(self, borrow: Borrow[Source]) -> None:
        chain, slot = self._chain, borrow.slot
        assert slot is not None  # noqa: S101 - it was entered
        receptive = slot.receptive
        if receptive is None:
            self._lose_held(slot, "not-taken")
            return
        while self._pieces and borrow.whole and chain.on_air is slot:
            piece = self._pieces.popleft()
            self._under_way = _UnderWay(piece, slot)
            failure: Exception | None = None
            deadline = chain.world.clock() + chain.options.reply_timeout
            budget = trio.CancelScope(deadline=deadline)
            try:
                with budget:
                    await receptive.send_input(piece)
            except Exception as raised:
                # Around the budget: what breaks when that cancels it comes in a group with it.
                if not is_expected(raised):
                    raise
                failure = raised
            if budget.cancelled_caught:
                failure = TimedOut("input was not taken in time", outcome="unknown")
            if not self._is_sending:
                return  # the renewal has failed meanwhile, and the piece was said to be lost
            if failure is None:
                self._settle(self._delivered)
            elif is_refusal(failure):
                self._lose_under_way("refused")
            else:
                # Nobody knows whether it arrived: what follows it would come after a gap, or twice.
                self._lose_under_way("source-lost")
                chain.hearing.lost(slot, "outcome-unknown", failure)

    def _lose_all(self) -> None:
        """Say what was lost when the renewal has failed: it says nothing any more after that."""
        if self._is_sending:
            self._lose_under_way("source-lost")
        self._lose_held(None, "no-source")

    def _settle(self, account: _Account) -> _UnderWay:
        """What is under way has come to this."""
        settled, self._under_way = self._under_way, None
        assert settled is not None  # noqa: S101 - the caller saw it
        size = len(settled.piece)
        self._held -= size
        account.add(1, size)
        return settled

    def _lose_under_way(self, why: InputLossReason) -> None:
        lost = self._settle(self._lost)
        self._chain.announce.input_lost(lost.slot, 1, len(lost.piece), why)

    def _lose_held(self, slot: Slot | None, why: InputLossReason) -> None:
        """Give up what has not begun to be sent."""
        pieces, size = len(self._pieces), sum(map(len, self._pieces))
        self._pieces.clear()
        self._held -= size
        if pieces:
            self._lost.add(pieces, size)
            self._chain.announce.input_lost(slot, pieces, size, why)


def _captured(data: Bytes) -> bytes:
    """A piece as it is now, whatever becomes of the buffer that it was given in."""
    if not isinstance(cast("object", data), bytes | bytearray | memoryview):
        raise TypeError(f"a piece of input is bytes, not {a_kind(data)}")
    return bytes(data)


class _UnderWay(NamedTuple):
    """A piece that was begun to be sent, and where to: which may be off the air by now."""

    piece: bytes
    slot: Slot


@final
class _Account:
    """Pieces and bytes that came to the same end."""

    __slots__ = ("bytes", "pieces")

    def __init__(self) -> None:
        self.pieces = 0
        self.bytes = 0

    def add(self, pieces: int, size: int) -> None:
        """Count these too."""
        self.pieces += pieces
        self.bytes += size
