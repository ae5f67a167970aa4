"""Whoever wants to take a guard over: they prove that they know its secret, and get the rest.

Anybody who finds the address can come.  Those of another user are not listened to; of the others
several are asked at once, so one that never answers, or comes again and again, holds up nobody.
What the code wrote while it was alone is kept until whoever was handed it says that they have it.
"""

from __future__ import annotations

import os
import select

from .given import CHANNEL_KEPT, LISTEN, OUTPUT_KEPT, PAGE, TIMER

TYPE_CHECKING = False  # as `typing` has it, whose import would take as long as all the rest
if TYPE_CHECKING:
    from typing import Any, Final

MAX_CANDIDATES: Final = 16
"""Those that are asked at the same time; whoever was asked first has to go for one more."""
MAX_TAIL: Final = 131_072
"""Bytes of output that are handed to an adopter, the last; one message must hold them."""
_MAX_ANSWER: Final = 4_096
_PIECE: Final = 65_536
_CREDENTIALS: Final = 12


class Succession:
    """The candidates, and what is kept for the one who succeeds."""

    def __init__(self, poll: select.poll, secret: bytes, slot: int, max_output: int) -> None:
        # Imported now: when an adopter comes, the files may have become another version's.
        import _socket  # noqa: PLC0415 - a guard that is never adopted does without
        import hmac  # noqa: PLC0415
        from array import array  # noqa: PLC0415

        self._array = array
        self._hmac = hmac
        self._socket: Any = _socket
        self._poll = poll
        self._secret = secret
        self._slot = slot
        self._keep = max_output
        self._challenges: dict[int, bytes] = {}
        self._tail = bytearray()
        self._written = 0
        self._is_reading = False
        os.set_blocking(LISTEN, False)
        poll.register(LISTEN, select.POLLIN)

    def knows(self, fd: int) -> bool:
        """Whether it is a candidate's."""
        return fd in self._challenges

    # What is kept.

    def begin(self) -> None:
        """Nobody else reads the code's output now."""
        self._poll.register(OUTPUT_KEPT, select.POLLIN)
        self._is_reading = True

    def read_output(self) -> None:
        """Keep the last of what the code writes."""
        if not self._is_reading:
            return
        try:
            piece = os.read(OUTPUT_KEPT, _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._stop_reading()  # all that could write to it have closed it
            return
        self._written += len(piece)
        self._tail += piece
        if len(self._tail) > self._keep:
            del self._tail[: len(self._tail) - self._keep]

    def forget(self) -> None:
        """Whoever succeeded has what was kept."""
        self._tail.clear()
        self._written = 0

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._poll.unregister(OUTPUT_KEPT)

    # Who comes.

    def greet(self) -> None:
        """Somebody comes: ask them to prove that they know the secret."""
        listener = self._socket.socket(fileno=LISTEN)
        try:
            fd, _ = listener._accept()
        except OSError:
            return  # they are gone again
        finally:
            listener.detach()
        if not self._is_of_our_user(fd):
            os.close(fd)
            return
        if len(self._challenges) >= MAX_CANDIDATES:
            self._drop(next(iter(self._challenges)))
        os.set_blocking(fd, False)
        self._challenges[fd] = os.urandom(16).hex().encode()
        self._poll.register(fd, select.POLLIN)
        self._say(fd, b"hello\0" + self._challenges[fd])

    def hear(self, fd: int, *, has_supervisor: bool) -> bool:
        """One of them answered; hand over what a supervisor holds, if it is the right answer.

        Args:
            fd: Theirs.
            has_supervisor: Whether there is one, which lives, so that nobody is handed anything.

        Returns:
            Whether they are the supervisor now.
        """
        try:
            answer = os.read(fd, _MAX_ANSWER)
        except BlockingIOError:
            return False
        except OSError:
            answer = b""
        theirs = self._proven(fd, answer)
        if theirs is None:
            self._drop(fd)
            return False
        if has_supervisor:
            self._say(fd, b"busy")
            self._drop(fd)
            return False
        if not self._hand_over(fd, theirs):
            self._drop(fd)
            return False
        del self._challenges[fd]
        self._stop_reading()
        return True

    def _proven(self, fd: int, answer: bytes) -> bytes | None:
        """What they ask in turn, if they have proved themselves."""
        parts = answer.split(b"\0")
        if len(parts) != 3 or parts[0] != b"prove":
            return None
        _, theirs, proof = parts
        expected = self._digest(b"adopter" + self._challenges[fd] + theirs)
        return theirs if self._hmac.compare_digest(proof, expected) else None

    def _hand_over(self, fd: int, theirs: bytes) -> bool:
        kept = bytes(self._tail[-MAX_TAIL:])
        parts = (
            b"welcome",
            self._digest(b"guard" + theirs + self._challenges[fd]),
            str(self._slot).encode(),
            str(self._written - len(kept)).encode(),
            kept,
        )
        fds = self._array("i", (CHANNEL_KEPT, OUTPUT_KEPT, TIMER, PAGE))
        connection = self._socket.socket(fileno=fd)
        try:
            connection.sendmsg(
                [b"\0".join(parts)], [(self._socket.SOL_SOCKET, self._socket.SCM_RIGHTS, fds)]
            )
        except OSError:
            return False  # they are gone again
        finally:
            connection.detach()
        return True

    def _digest(self, text: bytes) -> bytes:
        return self._hmac.digest(self._secret, text, "sha256").hex().encode()

    def _is_of_our_user(self, fd: int) -> bool:
        """Whether the kernel knows them as this process's user, or as root."""
        connection = self._socket.socket(fileno=fd)
        try:
            told = connection.getsockopt(
                self._socket.SOL_SOCKET, self._socket.SO_PEERCRED, _CREDENTIALS
            )
        finally:
            connection.detach()
        return self._array("I", told)[1] in (os.geteuid(), 0)

    def _say(self, fd: int, message: bytes) -> None:
        """Send them something; who does not take it has lost."""
        try:
            os.write(fd, message)
        except OSError:
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        """They did not prove themselves."""
        if self._challenges.pop(fd, None) is not None:
            self._poll.unregister(fd)
            os.close(fd)
