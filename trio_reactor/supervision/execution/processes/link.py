"""What connects a supervisor with a guard: it is heard, told, signalled, and let go of.

A link has the control socket, the code's output, the guard's timer, and a descriptor of the guard's
process that was opened when it was made, so that no other process is ever meant by it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from . import traces
from .hub import Hub
from .output import Tail
from .spawn import Ends
from .timer import set_timer
from .words import Word, heard

__all__ = ["Link"]

_MAX_MESSAGE: Final = 131_072
_MAX_PIECE: Final = 65_536
_MAX_BURST: Final = 64
"""The most messages that are read without looking at other units."""
_MAX_LAST: Final = 4_096
"""The most that are read of what a guard said before it ended; sockets hold fewer."""


@final
class Link:
    """The supervisor's side.

    Args:
        hub: Watches for it.
        ends: What there is to watch; the link closes all but the channel.
        pidfd: The guard's process; the link closes it, too.
        output: Takes what the code writes.
        said: Told of each word of the guard's.
        fell_silent: Told once, when it speaks no more: it is ending, or was tampered with.
        ended: Told once, when its process has ended and all that it said was heard.

    Raises:
        OSError: They cannot be watched; nothing was closed.
    """

    __slots__ = (
        "_ended",
        "_ends",
        "_fell_silent",
        "_hub",
        "_is_heard",
        "_output",
        "_pidfd",
        "_said",
    )

    def __init__(
        self,
        *,
        hub: Hub,
        ends: Ends,
        pidfd: int,
        output: Tail,
        said: Callable[[Word], None],
        fell_silent: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._hub = hub
        self._ends: Ends | None = ends
        self._pidfd = pidfd
        self._output = output
        self._said = said
        self._fell_silent = fell_silent
        self._ended = ended
        self._is_heard = True
        watched: tuple[tuple[int, Callable[[], None]], ...] = (
            (ends.control.fileno(), self._on_control),
            (ends.output, self._on_output),
            (pidfd, self._on_exit),
        )
        try:
            for fd, ready in watched:
                hub.watch(fd, ready)
        except OSError:
            for fd, _ in watched:
                hub.forget(fd)  # they are closed by whoever made them
            raise

    @property
    def is_held(self) -> bool:
        """Whether it was not let go of."""
        return self._ends is not None

    # What it tells.

    def send(self, message: bytes) -> None:
        """Tell the guard something.  Never waits.

        Raises:
            OSError: It has ended, or takes no messages.
        """
        if self._ends is None or not self._is_heard:
            raise BrokenPipeError("it has ended")
        self._ends.control.send(message)

    def set_deadline(self, deadline: float) -> None:
        """Have the timer go off then, on which the guard sleeps; on a link that is held."""
        if self._ends is not None:
            set_timer(self._ends.timer, deadline)

    def signal(self, number: int) -> None:
        """Send the guard a signal.  Whether it arrives, its end tells."""
        if self._ends is None:
            return
        # It may have ended, or have another user's rights: its end is observed or is not.
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._pidfd, number)

    # What it hears.

    def _on_control(self) -> None:
        self._listen(_MAX_BURST)

    def _listen(self, most: int) -> None:
        for _ in range(most):
            if self._ends is None:
                return  # let go of by what was heard
            try:
                message = self._ends.control.recv(_MAX_MESSAGE)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._fall_silent()
                return
            self._said(heard(message))

    def _fall_silent(self) -> None:
        if self._is_heard and self._ends is not None:
            self._is_heard = False
            self._hub.forget(self._ends.control.fileno())
            self._fell_silent()

    def _on_output(self) -> None:
        assert self._ends is not None  # noqa: S101 - it is watched while they are
        try:
            piece = os.read(self._ends.output, _MAX_PIECE)
        except BlockingIOError:
            return
        if piece:
            self._output.add(piece)
        else:
            self._hub.forget(self._ends.output)

    def _on_exit(self) -> None:
        self._hub.forget(self._pidfd)
        if self._is_heard:
            self._listen(_MAX_LAST)
            self._fall_silent()
        self._ended()

    # Its end.

    def read_rest(self) -> None:
        """Read what the code wrote last, once nothing of it is left."""
        if self._ends is not None:
            traces.read_rest(self._ends.output, self._output)

    def let_go(self) -> None:
        """Close all but the channel."""
        ends, self._ends = self._ends, None
        if ends is None:
            return
        for fd in (ends.control.fileno(), ends.output, self._pidfd):
            self._hub.forget(fd)
        ends.control.close()
        for fd in (ends.output, ends.timer, self._pidfd):
            os.close(fd)
