"""Who uses sources directly in one simulated session: blocks that borrow, and input upstream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias

from trio_reactor.renewal import Borrow, Source
from trio_reactor.renewal.events import InputLost
from trio_reactor.renewal.simulation import SimulatedSource
from trio_reactor.renewal.statistics import InputStatistics

__all__ = ["Input", "Loans"]

_Lent: TypeAlias = "Borrow[Source]"

PIECE: Final = 4
"""Bytes of a piece of input."""


class Loans:
    """The blocks that use a source now."""

    def __init__(self) -> None:
        self._lent: dict[_Lent, SimulatedSource] = {}

    def entered(self, borrow: _Lent, source: SimulatedSource) -> None:
        """A block has begun."""
        self._lent[borrow] = source
        self.used(borrow)

    def used(self, borrow: _Lent) -> None:
        """A block goes on: unless it is cancelled, its source is not closed."""
        source = self._lent[borrow]
        assert not borrow.whole or not source.closes, f"{source.id} was closed under its user"

    def left(self, borrow: _Lent) -> None:
        """A block has ended."""
        del self._lent[borrow]

    def disturbs(self, source: str) -> bool:
        """Whether a block that uses this source has not been cancelled."""
        return any(borrow.whole and each.id == source for borrow, each in self._lent.items())

    def sources(self) -> set[str]:
        """The sources that are used by blocks which nobody cancelled."""
        return {each.id for borrow, each in self._lent.items() if borrow.whole}


class Input:
    """What was sent upstream, and what became of it."""

    def __init__(self) -> None:
        self._count = 0
        self._accepted: list[bytes] = []
        self._refused = 0
        self._lost = 0

    def piece(self) -> bytes:
        """The next piece to be sent."""
        self._count += 1
        return b"%04d" % self._count

    def accepted(self, piece: bytes) -> None:
        """It was accepted, in this step."""
        self._accepted.append(piece)

    def refused(self) -> None:
        """It did not fit."""
        self._refused += 1

    def take(self, event: InputLost) -> None:
        """Some of it was lost."""
        assert event.bytes == PIECE * event.pieces
        self._lost += event.pieces

    def adds_up(self, now: InputStatistics) -> None:
        """Everything that was given is held, delivered, lost or refused; at any time."""
        known = now.held_pieces + now.delivered_pieces + now.lost_pieces
        assert known == len(self._accepted), f"{len(self._accepted)} were accepted: {now}"
        assert now.refused_pieces == self._refused, f"{self._refused} were refused: {now}"
        for pieces, size in (
            (now.held_pieces, now.held_bytes),
            (now.delivered_pieces, now.delivered_bytes),
            (now.lost_pieces, now.lost_bytes),
            (now.refused_pieces, now.refused_bytes),
        ):
            assert size == PIECE * pieces, now

    def settle(
        self, end: InputStatistics, heard: Iterable[tuple[str, bytes]], *, failed: bool
    ) -> None:
        """Compare with what the provider heard, when all is over.

        Args:
            end: What the renewal counts.
            heard: What came, by which source.
            failed: Whether the renewal has failed: what is lost by that it tells nobody.
        """
        self.adds_up(end)
        assert not end.held_pieces, f"{end.held_pieces} pieces are held for nobody"
        assert self._lost <= end.lost_pieces, f"{self._lost} were said to be lost: {end}"
        assert failed or self._lost == end.lost_pieces, f"only {self._lost} were told: {end}"
        came = [piece for _, piece in heard]
        left = deque(self._accepted)
        for piece in came:
            while left and left[0] != piece:
                left.popleft()
            assert left, f"{piece!r} came twice, out of order, or was never accepted: {came}"
            left.popleft()
        assert end.delivered_pieces <= len(came) <= end.delivered_pieces + end.lost_pieces
