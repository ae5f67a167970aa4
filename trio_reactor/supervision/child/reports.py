"""What the code's side says on its pipe: that it is loaded or not, and that it is alive.

The code can write there what it likes, in pieces as small as it likes.  Reading costs as much as
was written, and no more is kept than one frame.
"""

from __future__ import annotations

import os

from .given import MAX_FRAME

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    from .voice import Voice


class Reports:
    """The guard's end of that pipe; what is heard is passed on."""

    def __init__(self, fd: int, voice: Voice) -> None:
        self.fd = fd
        self._voice = voice
        self._heard = bytearray()
        self._program: bytes | None = None
        """What the program said before it became another: to be told if it does."""
        self._is_settled = False
        """Whether it was told that the code is loaded or is not."""

    def read(self) -> bool:
        """Read what there is.

        Returns:
            Whether there can be more.
        """
        piece = os.read(self.fd, MAX_FRAME)
        self._heard += piece
        at, end = 0, not piece
        alive = False
        while len(self._heard) - at >= 4:
            size = int.from_bytes(self._heard[at : at + 4], "big")
            if size > MAX_FRAME:
                at, end = len(self._heard), True  # not what our side writes: it is not heard
                break
            if len(self._heard) - at - 4 < size:
                break
            said = bytes(self._heard[at + 4 : at + 4 + size])
            at += 4 + size
            if said == b"alive":
                alive = True
            else:
                self._hear(said)
        del self._heard[:at]
        if alive:
            self._voice.tell(b"alive")
        if end and self._program is not None:
            # It closed on becoming another program; its failure would have been told first.
            self._settle(self._program)
        return not end

    def _hear(self, said: bytes) -> None:
        kind = said.partition(b"\0")[0]
        if kind == b"program":
            self._program = b"loaded" + said[7:]
        elif kind in (b"loaded", b"failed"):
            self._settle(said)

    def _settle(self, said: bytes) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._program = None
            self._voice.tell_whole(said)
