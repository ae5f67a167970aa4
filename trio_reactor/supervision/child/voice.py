"""What the guard says to its supervisor: never waiting for it, and nothing lost that matters."""

from __future__ import annotations

import errno
import os
import select

from .given import CONTROL

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

MAX_UNSENT: Final = 16
"""Messages that wait for a supervisor that takes none at the moment."""
FAREWELL_MS: Final = 1_000
"""Milliseconds that a slow supervisor is given to take one of the last of them."""


class Voice:
    """The guard's end of the socket to its supervisor, whoever that is."""

    def __init__(self, poll: select.poll, lost: Callable[[], None]) -> None:
        self._poll = poll
        self._lost = lost
        self._unsent: list[bytes] = []
        """What the supervisor could not take yet."""
        self.fd: int | None = CONTROL
        """`None` while there is no supervisor."""

    def tell(self, kind: bytes, *parts: bytes) -> None:
        """Tell the supervisor something, made up from its parts."""
        self.tell_whole(b"\0".join((kind, *(part.replace(b"\0", b"?") for part in parts))))

    def tell_whole(self, message: bytes) -> None:
        """Tell the supervisor something, later if it takes none now; signs of life do not wait."""
        if self.fd is None:
            return
        if not self._unsent and self._send(message):
            return
        if message != b"alive" and len(self._unsent) < MAX_UNSENT:
            self._unsent.append(message)
            self._poll.modify(self.fd, select.POLLIN | select.POLLOUT)

    def tell_rest(self) -> None:
        """Tell the supervisor what it could not take before, as far as it takes it now."""
        while self._unsent and self.fd is not None:
            if not self._send(self._unsent[0]):
                return
            del self._unsent[:1]
        if self.fd is not None:
            self._poll.modify(self.fd, select.POLLIN)

    def say_farewell(self) -> None:
        """Wait for a supervisor that is slow, within a bound; nothing else is left to be done."""
        for _ in range(MAX_UNSENT):
            if not self._unsent or self.fd is None:
                break
            writable = select.poll()
            writable.register(self.fd, select.POLLOUT)
            if not writable.poll(FAREWELL_MS):
                break
            self.tell_rest()

    def hang_up(self) -> None:
        """Let go of a supervisor that is gone."""
        if self.fd is not None:
            self._poll.unregister(self.fd)
            os.close(self.fd)
            self.fd = None
            self._unsent.clear()

    def _send(self, message: bytes) -> bool:
        """Send it now.

        Returns:
            Whether that is done with; `False`: the supervisor takes none at the moment.
        """
        if self.fd is None:
            return True  # there is nobody to be told
        try:
            os.write(self.fd, message)
        except BlockingIOError:
            return False
        except OSError as failure:
            if failure.errno == errno.EMSGSIZE:
                return True  # more than this kernel takes at once; the supervisor is there
            self._lost()
        return True
