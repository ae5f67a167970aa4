"""What a child wrote: the last of it, and how much it was."""

from __future__ import annotations

from typing import final

from trio_reactor.supervision.execution.protocol import OutputStatistics

__all__ = ["Tail"]


@final
class Tail:
    """The last bytes of a stream, within a bound.

    Args:
        keep: How many bytes are kept.
    """

    __slots__ = ("_dropped", "_kept", "_written", "keep")

    def __init__(self, keep: int) -> None:
        self.keep = keep
        """How many bytes are kept."""
        self._kept = b""
        self._written = 0
        self._dropped = 0

    def add(self, piece: bytes, *, dropped_before: int = 0) -> None:
        """Take more of it.

        Args:
            piece: The bytes.
            dropped_before: How many came before it that were not kept by somebody else.
        """
        kept = self._kept if not dropped_before else b""
        whole = kept + piece if kept else piece
        self._kept = whole[-self.keep :] if len(whole) > self.keep else whole
        self._written += len(piece) + dropped_before
        self._dropped = self._written - len(self._kept)

    def tail(self) -> bytes:
        """The last bytes of it, as many as are kept."""
        return self._kept

    def statistics(self) -> OutputStatistics:
        """How much was written and dropped."""
        return OutputStatistics(self._written, self._dropped)
