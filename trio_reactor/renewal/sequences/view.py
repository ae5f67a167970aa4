"""The sequences of a renewal, as its application sees them."""

from __future__ import annotations

from typing import final

from .book import SequenceState
from .register import SequenceRegister

__all__ = ["Sequences"]


@final
class Sequences:
    """The sequences of a renewal.

    All of it can be asked for and done after the renewal was closed, too.
    """

    def __init__(self, register: SequenceRegister) -> None:
        self._register = register

    def get(self, name: str) -> SequenceState | None:
        """The sequence of this name as it stands; `None` if there is none."""
        return self._register.get(name)

    def snapshots(self) -> tuple[SequenceState, ...]:
        """All of them as they stand, in the order in which they were bound."""
        return self._register.snapshots()

    async def seal(self, name: str) -> SequenceState:
        """Have a sequence take no more members, and wait until none of it is pending.

        It takes no more from the call on.  Cancelling only leaves.  Always a checkpoint.

        Returns:
            The sequence: `Sealed`, or as its source's end left it.

        Raises:
            SequenceUnknown: There is none of this name.
        """
        return await self._register.seal(name)

    def acknowledge(self, name: str) -> None:
        """Say that somebody has looked at what is not known of a sequence; it can be released then.

        Raises:
            SequenceUnknown: There is none of this name.
            SequenceUnresolved: Nothing of it is indeterminate, or a member is still pending.
        """
        self._register.acknowledge(name)

    def release(self, name: str) -> None:
        """Forget a sequence that is over; its name is free from then on.

        Raises:
            SequenceUnknown: There is none of this name.
            SequenceUnresolved: It is not over, or what is not known of it was not acknowledged.
        """
        self._register.release(name)
