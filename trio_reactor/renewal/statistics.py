"""What a renewal has to tell of itself at any time, in numbers."""

from __future__ import annotations

import msgspec

from .media.queue import QueueStatistics

__all__ = ["BorrowStatistics", "InputStatistics", "RenewalStatistics"]


class BorrowStatistics(msgspec.Struct, frozen=True):
    """Who uses sources directly."""

    lent: int
    """Blocks that use a source now; input that is under way uses one too."""
    waiting: int
    """Tasks that wait for one; that of held input is one too."""


class InputStatistics(msgspec.Struct, frozen=True):
    """What was given to be sent upstream.  What was given is held, delivered, lost or refused."""

    held_pieces: int = 0
    """Accepted and not delivered yet, the one under way included."""
    held_bytes: int = 0
    delivered_pieces: int = 0
    delivered_bytes: int = 0
    lost_pieces: int = 0
    """Accepted, and not known to have been delivered: said by an `InputLost` each time."""
    lost_bytes: int = 0
    refused_pieces: int = 0
    """Not accepted, because they did not fit: each an `InputOverflow`."""
    refused_bytes: int = 0


class RenewalStatistics(msgspec.Struct, frozen=True):
    """A renewal at one moment."""

    video: QueueStatistics
    audio: QueueStatistics
    borrowing: BorrowStatistics
    input: InputStatistics = InputStatistics()
