"""What a successor is given: the handle that the source before it left, or the context.

Both are never given together.  A handle that was refused is discarded: one fresh open follows at
once, which is given the context whatever handle there is by then, and that handle is not offered
again.  So a refusal costs one open and no pause, and a provider that refuses every handle costs at
most one refusal for each fresh open, which counts and is paused after like any other.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["MAX_REFUSED", "Handle", "Offers"]

MAX_REFUSED: Final = 16
"""How many refused handles of one source are remembered; what it leaves after that is no more
offered."""


class Handle(msgspec.Struct, frozen=True):
    """What a source left, to go on where it stopped."""

    source: int
    """The number of that source in the chain."""
    value: str
    """The handle, in the provider's terms."""


class Offers(msgspec.Struct, frozen=True):
    """What was offered and refused, as a value: each method returns the next one."""

    fresh: bool = False
    """Whether the fresh open that follows a refusal is still to come; it needs no pause."""
    refused: tuple[Handle, ...] = ()
    """The handles of one source that were refused."""

    def offer(self, left: Handle | None) -> Handle | None:
        """What the next open is given of what the source before it has left.

        `None` means that it is given the context.
        """
        if left is None or self.fresh or left in self.refused:
            return None
        mine = [handle for handle in self.refused if handle.source == left.source]
        return left if len(mine) < MAX_REFUSED else None

    def opening(self) -> Offers:
        """After an open has begun: the fresh one is not due any more."""
        return msgspec.structs.replace(self, fresh=False)

    def failed(self, offered: Handle | None, *, refused: bool, permanent: bool) -> Offers | None:
        """After an open has failed with what it was given.

        Args:
            offered: The handle that it was given, if it was given one.
            refused: Whether only the resumption was refused.
            permanent: Whether trying again was declared pointless: that is more than a refusal of
                the resumption.

        Returns:
            The next value if the handle is discarded; `None` if it failed like any other open, and
            counts.
        """
        if offered is None or not refused or permanent:
            return None
        mine = (handle for handle in self.refused if handle.source == offered.source)
        return Offers(fresh=True, refused=(*mine, offered)[-MAX_REFUSED:])
