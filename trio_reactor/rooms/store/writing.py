"""The task that writes into a local store.

However many ask, one task commits, one group after the other, so the order of what was asked for is
the order in the store.  Each piece of work is a function of the store's content; what it refuses is
its own, and undone alone.  Right after the commit, in this task and before anybody runs who waits,
each piece's callback is called: so what is durable and what is in memory change in one step.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar, cast, final

import trio
from trio.lowlevel import enable_ki_protection

from trio_reactor.errors import Closed, Overflow, ReactorError
from trio_reactor.rooms.errors import ReplicaError, ReplicaFailed

from .content import Content

__all__ = ["MAX_GROUP", "MAX_WAITING", "Outcome", "Storage", "Work", "Writer"]

T = TypeVar("T")
R = TypeVar("R")

MAX_GROUP: Final = 128
"""How many pieces of work are committed together at most."""
MAX_WAITING: Final = 65_536
"""How many pieces of work may wait at most."""

_log = logging.getLogger("trio_reactor.rooms.store")

Work = Callable[[Content], object]
Outcome = tuple[object, ReactorError | None]
"""What a piece of work returned, or why it alone was refused."""


class Storage(Protocol):
    """An open store, as the writer uses it: one call at a time."""

    async def commit(self, works: Sequence[Work], /) -> Sequence[Outcome]:
        """Do the work in its order, in one durable transaction; each refusal is undone alone.

        Called shielded from cancellation; it ends by itself.

        Raises:
            ReplicaError: None of it was done, or nobody can know (`outcome`).
        """
        ...

    async def read(self, work: Callable[[Content], T], /) -> T:
        """Read what is committed.  Called at any time, from any task; may be cancelled."""
        ...

    async def erase(self, rooms: Sequence[str], /) -> None:
        """Delete everything of rooms from the files; they were marked before.

        When it returns, nothing of them is in the bytes of any file of the store.
        """
        ...


class _Write(Generic[T, R]):
    """One piece of work that waits, and who is told."""

    __slots__ = ("_event", "committed", "erases", "failure", "result", "settled", "work")

    def __init__(
        self,
        work: Callable[[Content], T],
        committed: Callable[[T], R],
        erases: tuple[str, ...] = (),
    ) -> None:
        self.work = work
        self.committed = committed
        self.erases = erases
        self.result: R | None = None
        self.failure: BaseException | None = None
        self.settled = False
        self._event: trio.Event | None = None

    def settle(self, outcome: T, failure: BaseException | None) -> None:
        self.settled = True
        self.failure = failure
        if failure is None:
            try:
                self.result = self.committed(outcome)
            except BaseException:
                self.failure = _untold()
                raise

    def wake(self) -> None:
        if self._event is not None:
            self._event.set()

    async def wait(self) -> R:
        if not self.settled:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()
        else:
            await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise _afresh(self.failure)
        return cast("R", self.result)


@final
class Writer:
    """Writes into a store, in order, many pieces of work to a commit.

    Args:
        storage: The open store; this writer is the only one that commits to it.
        on_failed: Told when the store has failed, before anybody whose work was lost by that.
    """

    def __init__(self, storage: Storage, *, on_failed: Callable[[BaseException], None]) -> None:
        self._storage = storage
        self._on_failed = on_failed
        self._queue: deque[_Write[Any, Any]] = deque()
        self._failure: ReplicaFailed | None = None
        self._closed = False
        self._idle: trio.Event | None = None
        self._quiet: trio.Event | None = None
        self._busy = False

    @property
    def waiting(self) -> int:
        """How many pieces of work wait."""
        return len(self._queue)

    @enable_ki_protection
    def submit(self, work: Callable[[Content], T], committed: Callable[[T], R]) -> _Write[T, R]:
        """Queue work.  Synchronous: the order of the calls is the order in the store.

        Args:
            work: What is to be done, in the store's thread; it may raise a `ReactorError` to undo
                itself.
            committed: Called with what it returned, in the writer's task, once that is durable.

        Raises:
            Overflow: `MAX_WAITING` wait.
            Closed: The writer was closed.
        """
        return self._add(_Write(work, committed))

    async def write(self, work: Callable[[Content], T], committed: Callable[[T], R]) -> R:
        """Queue work and wait until it is durable.  Cancelling only leaves: the work goes on.

        Returns:
            What `committed` returned.

        Raises:
            ReplicaError: It could not be done.
            ReactorError: What the work refused.
            Overflow, Closed: As of `submit`.
        """
        return await self.submit(work, committed).wait()

    async def erase(self, rooms: tuple[str, ...], erased: Callable[[], None]) -> None:
        """Erase rooms, once everything that was queued before is done; cancelling only leaves."""
        await self._add(_Write(_nothing, lambda _: erased(), rooms)).wait()

    async def read(self, work: Callable[[Content], T]) -> T:
        """Read what is committed.

        Raises:
            ReplicaError: It could not be read.
        """
        return await self._storage.read(work)

    @enable_ki_protection
    def close(self) -> None:
        """Take no more; `run` returns when what is queued is written."""
        self._closed = True
        self._rouse()

    async def wait_quiet(self) -> None:
        """Sleep until nothing waits and nothing is being written."""
        while self._queue or self._busy:
            if self._quiet is None:
                self._quiet = trio.Event()
            await self._quiet.wait()
        await trio.lowlevel.checkpoint()

    @enable_ki_protection
    async def run(self) -> None:
        """Write, until it was closed and nothing is left.

        Cancelled, it finishes the commit that has begun and refuses what is left with `Closed`.
        """
        try:
            while True:
                await trio.lowlevel.checkpoint_if_cancelled()
                if self._queue:
                    await self._next()
                elif self._closed:
                    break
                else:
                    if self._quiet is not None:
                        self._quiet.set()
                        self._quiet = None
                    self._idle = trio.Event()
                    try:
                        await self._idle.wait()
                    finally:
                        self._idle = None
        finally:
            self._closed = True
            left = list(self._queue)
            self._queue.clear()
            closed = Closed("the store was closed before this was written")
            self._settle(left, [(None, closed) for _ in left])
            if self._quiet is not None:
                self._quiet.set()

    # ------------------------------------------------------------------------------- in the task

    def _add(self, write: _Write[T, R]) -> _Write[T, R]:
        if self._closed:
            raise Closed("the store is closed")
        if len(self._queue) >= MAX_WAITING:
            raise Overflow(f"{MAX_WAITING} writes wait already", missed=1, retryable=True)
        self._queue.append(write)
        self._rouse()
        return write

    def _rouse(self) -> None:
        if self._idle is not None:
            self._idle.set()

    async def _next(self) -> None:
        queue = self._queue
        group = [queue.popleft()]
        if not group[0].erases:
            while queue and len(group) < MAX_GROUP and not queue[0].erases:
                group.append(queue.popleft())
        if self._failure is not None:
            self._settle(group, [(None, self._failure) for _ in group])
            return
        outcomes: Sequence[Outcome] = ()
        self._busy = True
        try:
            with trio.CancelScope(shield=True):
                if group[0].erases:
                    await self._storage.erase(group[0].erases)
                    outcomes = [(None, None)]
                else:
                    outcomes = await self._storage.commit([write.work for write in group])
        except ReplicaError as failure:
            outcomes = [(None, failure) for _ in group]
            if isinstance(failure, ReplicaFailed):
                self._failure = failure
                _log.debug("the store has failed")
                self._on_failed(failure)
        except BaseException:
            # A defect of one ends the writer; nobody else sleeps on because of that.
            outcomes = [(None, Closed("the writer ended before this was written")) for _ in group]
            raise
        finally:
            self._busy = False
            self._settle(group, outcomes)

    def _settle(self, writes: Sequence[_Write[Any, Any]], outcomes: Sequence[Outcome]) -> None:
        """Call every callback, then wake everybody who waits."""
        try:
            for write, (result, failure) in zip(writes, outcomes, strict=True):
                write.settle(result, failure)
        finally:
            for write in writes:
                if not write.settled:  # the callback of one before it raised
                    write.settled = True
                    write.failure = _untold()
                write.wake()


def _untold() -> Closed:
    return Closed("the writer ended while this was taken in; it was written", outcome="replied")


def _nothing(_: Content) -> None:
    return


def _afresh(failure: BaseException) -> BaseException:
    """The failure for one of several who share it."""
    if isinstance(failure, ReplicaError):
        fresh = type(failure)(
            failure.message,
            store=failure.store,
            outcome=failure.outcome,
            retryable=failure.retryable,
            detail=failure.detail,
        )
        fresh.__cause__ = failure
        return fresh
    return failure
