"""Work on a file that blocks: in a worker thread, one piece at a time, each within a budget.

A thread that a disk holds up cannot be interrupted.  So one that is not back in time, or whose work
nobody waits for any more, is *left*: from then on the file is that thread's alone, which closes it
when it comes back, however late, and everybody else is refused.  Which of the two came first, the
end of the work or of the patience, is decided under a lock, once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar, final

import trio

from .records import JournalFailed

__all__ = ["FileWriter"]

T = TypeVar("T")
F = TypeVar("F", bound="_File")

_State: TypeAlias = Literal["due", "running", "over", "called-off", "left"]

_log = logging.getLogger("trio_reactor.renewal")


class _File(Protocol):
    """What is kept open."""

    def close(self) -> None: ...


class _CalledOff(Exception):
    """The thread has come too late to begin; nobody is told."""


@final
class _Errand(Generic[T]):
    """One piece of work in a thread.

    Args:
        work: What is to be done.
        late: What is to be done after it, in the same thread, if that was left meanwhile.
    """

    def __init__(self, work: Callable[[], T], late: Callable[[], None]) -> None:
        self._work = work
        self._late = late
        self._lock = threading.Lock()
        self._state: _State = "due"

    def run(self) -> T:
        """Do it; in the thread."""
        with self._lock:
            if self._state == "called-off":
                raise _CalledOff
            self._state = "running"
        try:
            return self._work()
        finally:
            if self._came_back_late():
                self._late()

    def _came_back_late(self) -> bool:
        with self._lock:
            before, self._state = self._state, "over"
            return before == "left"

    def leave(self) -> bool:
        """Wait for it no longer; returns whether a thread is at it, and was left."""
        with self._lock:
            if self._state == "due":
                self._state = "called-off"
            elif self._state == "running":
                self._state = "left"
            return self._state == "left"


@final
class FileWriter(Generic[F]):
    """Owns an open file, and whatever is done to it.

    Args:
        path: What it is called in messages.
        timeout: Seconds that a piece of work may take, with the wait for its turn.
        inline: Whether work is done in the calling task; then there is no budget.
    """

    def __init__(self, path: str, timeout: float, *, inline: bool) -> None:
        self._path = path
        self._timeout = timeout
        self._inline = inline
        self._turn = trio.Semaphore(1)
        self._threads = trio.CapacityLimiter(1)
        self._left = False
        self.file: F | None = None
        """What is open.  Only to be used in a turn."""

    async def open(self, opened: Callable[[], F]) -> None:
        """Open it.  Cancelled, this leaves at once, and what is opened after that is closed.

        Raises:
            JournalFailed: It took too long.
            BaseException: What opening raised.
        """

        def work() -> None:
            self.file = opened()

        try:
            await self._do(work, "opened", finish=False)
        except BaseException:
            # It may have been opened in the very moment in which this was cancelled.
            if self.file is not None:
                with trio.CancelScope(shield=True):  # within the budget of closing
                    await self.close()
            raise

    async def run(self, work: Callable[[F], T], *, finish: bool) -> T:
        """Do something with the file.  Always a checkpoint, before it begins.

        Args:
            work: What is to be done.
            finish: Whether it is waited for, once it can begin, also by who is cancelled.

        Raises:
            JournalFailed: It took too long, or something before it did.
            BaseException: What the work raised.
        """

        def use() -> T:
            assert self.file is not None  # noqa: S101 - it was opened, and is closed last
            return work(self.file)

        return await self._do(use, "changed" if finish else "read", finish=finish)

    async def close(self) -> None:
        """Close it, or leave that to the thread that is at it; that is logged."""
        try:
            await self._do(self._shut, "closed", finish=True)
        except JournalFailed as failed:
            _log.warning("%s; the thread that uses it closes it when it comes back", failed.message)

    def _shut(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            file.close()

    async def _do(self, work: Callable[[], T], did: str, *, finish: bool) -> T:
        if self._inline:
            await trio.lowlevel.checkpoint()
            return work()
        errand, left = _Errand(work, self._shut), False
        with trio.CancelScope(deadline=trio.current_time() + self._timeout) as budget:
            await self._turn.acquire()
            try:
                if self._left:
                    raise JournalFailed(
                        f"{self._path}: the journal did not answer, and is used no more",
                        path=self._path,
                    )
                budget.shield = finish
                return await trio.to_thread.run_sync(
                    errand.run, limiter=self._threads, abandon_on_cancel=True
                )
            finally:
                left = errand.leave()
                self._left = left or self._left
                self._turn.release()
        raise JournalFailed(
            f"{self._path}: the journal was not {did} within {self._timeout} s",
            path=self._path,
            outcome="unknown" if left and finish else "not-submitted",
        )
