"""What a child wrote: the last of it, and how much it was."""

from __future__ import annotations

from typing import final

from trio_reactor.supervision.execution.protocol import OutputStatistics

__all__ = ["Tail"]


@final
class Tail:
    """The last bytes of a stream, within a bound.

    Taking more costs as much as there is more, however small the pieces.

    Args:
        keep: How many bytes are kept.
    """

    __slots__ = ("_dropped", "_kept", "_written", "keep")

    def __init__(self, keep: int) -> None:
        self.keep = keep
        """How many bytes are kept."""
        self._kept = bytearray()
        self._written = 0
        self._dropped = 0

    def add(self, piece: bytes, *, dropped_before: int = 0) -> None:
        """Take more of it.

        Args:
            piece: The bytes.
            dropped_before: How many came before it that were not kept by somebody else.
        """
        if dropped_before:
            self._kept.clear()
        self._kept += piece
        # Of a `bytearray` the first bytes go without the others being moved.
        del self._kept[: max(len(self._kept) - self.keep, 0)]
        self._written += len(piece) + dropped_before
        self._dropped = self._written - len(self._kept)

    def tail(self) -> bytes:
        """The last bytes of it, as many as are kept."""
        return bytes(self._kept)

    def statistics(self) -> OutputStatistics:
        """How much was written and dropped."""
        return OutputStatistics(self._written, self._dropped)
