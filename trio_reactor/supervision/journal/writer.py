"""The task that writes.

However many submit, one task commits, one group after the other, so a journal needs no lock and its
order is the order of submission.  Each write is settled exactly once, in that task: right after the
commit that made it durable, or failed, its callback is called; then who waits for it is woken.

When the journal fails, nobody knows what it holds, and a later write would leave a hole.  So
everything that is queued, and everything that is submitted from then on, is refused with an error
of its own whose cause is that failure, until `resume` is called.  The failure itself is handed to
`on_failed`, before any callback: what the callbacks look at is known to be broken by then.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast, final

import msgspec
import trio
from trio.lowlevel import enable_ki_protection

from trio_reactor.errors import Closed, Outcome, Overflow, ReactorError, is_expected
from trio_reactor.supervision.errors import HostFenced, StoreError, StoreFailed
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.model.keys import Handle
from trio_reactor.supervision.model.records import SessionRecord
from trio_reactor.supervision.store.protocol import Change, Journal

from .write import Write, afresh

__all__ = ["DEFAULT_MAX_BATCH", "DEFAULT_MAX_TRANSITIONS", "Writer", "WriterStatistics"]

DEFAULT_MAX_TRANSITIONS: Final = 65_536
"""How many transitions may wait for the journal, unless told otherwise."""
DEFAULT_MAX_BATCH: Final = 1_024
"""How many transitions are committed together at most, unless told otherwise."""

_log = logging.getLogger("trio_reactor.supervision.journal")


class WriterStatistics(msgspec.Struct, frozen=True):
    """A writer at one moment, and what it has done."""

    waiting: int
    """Transitions that wait for their turn."""
    in_flight: int
    """Transitions that are being committed."""
    committed: int
    """Transitions that became durable."""
    refused: int
    """Transitions that did not."""
    commits: int
    """Transactions that were made."""
    largest: int
    """The most transitions that were committed in one of them."""
    failed: bool
    """Whether the journal has failed, and everything is refused."""


@final
class Writer:
    """Writes transitions into a journal, in order, many to a commit.

    Args:
        journal: Where they go; this writer is the only one that commits to it.
        name: What the journal is called in messages.
        on_failed: Told of each failure of the journal, and of what a callback of a write raised;
            a defect is what `errors.is_expected` says it is.  Synchronous; must not raise.
        max_transitions: How many may wait, those that are being committed included; the ends of
            sessions are counted, but not refused.
        max_batch: How many are committed together at most.

    Raises:
        ValueError: If a bound is not at least 1.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        on_failed: Callable[[BaseException], None],
        name: str = "the journal",
        max_transitions: int = DEFAULT_MAX_TRANSITIONS,
        max_batch: int = DEFAULT_MAX_BATCH,
    ) -> None:
        for bound, value in (("max_transitions", max_transitions), ("max_batch", max_batch)):
            if isinstance(value, bool) or value < 1:
                raise ValueError(f"{bound}: at least 1, not {value!r}")
        self.name = name
        self._journal = journal
        self._on_failed = on_failed
        self._max_transitions = max_transitions
        self._max_batch = max_batch
        self._queue: deque[Write] = deque()
        self._in_flight: list[Write] = []
        self._failure: BaseException | None = None
        self._running = False
        self._closed = False
        self._ended = False
        self._idle: trio.Event | None = None
        self._committed = self._refused = self._commits = self._largest = 0

    def __repr__(self) -> str:
        return f"<Writer to {self.name}: {len(self._queue)} wait, {len(self._in_flight)} in flight>"

    @property
    def failure(self) -> BaseException | None:
        """What the journal failed with; while there is something, all is refused."""
        return self._failure

    def statistics(self) -> WriterStatistics:
        """What it has done, and has to do."""
        return WriterStatistics(
            waiting=len(self._queue),
            in_flight=len(self._in_flight),
            committed=self._committed,
            refused=self._refused,
            commits=self._commits,
            largest=self._largest,
            failed=self._failure is not None,
        )

    @enable_ki_protection
    def submit(
        self,
        record: SessionRecord,
        *,
        forgets: tuple[Handle, ...] = (),
        ends: bool = False,
        committed: Callable[[], None],
        refused: Callable[[BaseException], None],
    ) -> Write:
        """Queue a transition.  Synchronous: the order of the calls is the order in the journal.

        Unless this raises, exactly one of the two callbacks is called, in the writer's task, in the
        order of submission, and before anybody who waits runs.

        Args:
            record: What the session has become.
            forgets: Stopped sessions whose records are deleted in the same transaction.
            ends: Whether it is of a session's end, which cannot be put off: taken beyond
                `max_transitions` too.  A session has two of these at most, which bounds them.
            committed: Called when it is durable.
            refused: Called with what it was refused for, when it is not.

        Raises:
            RecordRefused: It cannot be encoded; nothing was queued.
            Overflow: `max_transitions` wait; later there may be room.
            Closed: The writer was closed, or has ended.
        """
        if self._closed or self._ended:
            raise Closed(f"{self.name}: the writer is closed")
        if not ends:
            self.check_room()
        change = Change(record, encode(record), forgets)
        write = Write(change, committed, refused, self._failure)
        self._queue.append(write)
        self._rouse()
        return write

    def check_room(self) -> None:
        """See that a transition which ends nothing would be taken.

        Raises:
            Overflow: `max_transitions` wait; later there may be room.
        """
        if len(self._queue) + len(self._in_flight) >= self._max_transitions:
            raise Overflow(
                f"{self.name}: max_transitions={self._max_transitions} is reached",
                missed=1,
                retryable=True,
            )

    @enable_ki_protection
    def resume(self) -> None:
        """Take writes again after a failure: whoever calls this knows what the journal holds.

        What was submitted before is refused all the same.
        """
        self._failure = None

    @enable_ki_protection
    def close(self) -> None:
        """Take no more; `run` returns when what is queued is written.  Idempotent."""
        self._closed = True
        self._rouse()

    @enable_ki_protection
    async def run(self) -> None:
        """Write, until it was closed and nothing is left.

        It never ends by a failure of the store.  Cancelled, it finishes the commit that has begun,
        refuses what is left with `Closed`, and leaves.

        Raises:
            RuntimeError: It runs already, or has run.
        """
        if self._running:
            raise RuntimeError(f"{self.name}: a writer runs once")
        self._running = True
        try:
            while True:
                await trio.lowlevel.checkpoint_if_cancelled()
                if self._queue:
                    await self._next()
                elif self._closed:
                    break
                else:
                    self._idle = trio.Event()
                    try:
                        await self._idle.wait()
                    finally:
                        self._idle = None
        finally:
            # Left by cancellation, or by what `on_failed` raised: nobody waits for ever.
            self._ended = True
            left = [*self._in_flight, *self._queue]
            self._in_flight = []
            self._queue.clear()
            closed = f"{self.name}: the writer ended before this was written"
            self._settle(left, [Closed(closed) for _ in left])

    # ------------------------------------------------------------------------------- in the task

    def _rouse(self) -> None:
        if self._idle is not None:
            self._idle.set()

    async def _next(self) -> None:
        """Settle what is next in line: what was submitted in vain, or one group."""
        queue = self._queue
        vain = queue[0]._vain
        group = [queue.popleft()]
        while queue and len(group) < self._max_batch and queue[0]._vain is vain:
            group.append(queue.popleft())
        if vain is not None:
            self._settle(group, [self._refusal(vain, "not-submitted") for _ in group])
            return
        self._in_flight = group
        failure: BaseException | None = None
        outcomes: Sequence[ReactorError | None] = ()
        try:
            with trio.CancelScope(shield=True):
                outcomes = self._checked(
                    await self._journal.commit([write._change for write in group]), len(group)
                )
        except Exception as raised:  # noqa: BLE001 - weather or defect, the journal has failed
            failure = raised
        if failure is None:
            self._commits += 1
            self._largest = max(self._largest, len(group))
            self._in_flight = []
            self._settle(group, outcomes)
            return
        # Recorded before anybody is told, so that what the callbacks submit is refused as well.
        self._failure = failure
        followed = list(queue)
        queue.clear()
        _log.debug("%s failed: %s", self.name, type(failure).__name__)
        try:
            self._on_failed(failure)
        finally:
            self._in_flight = []
            outcome: Outcome = failure.outcome if isinstance(failure, ReactorError) else "unknown"
            self._settle(
                [*group, *followed],
                [
                    *(self._refusal(failure, outcome) for _ in group),
                    *(self._refusal(failure, "not-submitted") for _ in followed),
                ],
            )
            del failure  # its traceback holds this frame

    def _settle(self, writes: Sequence[Write], outcomes: Sequence[ReactorError | None]) -> None:
        """Tell every callback, then wake everybody who waits."""
        defects: list[Exception] = []
        for write, outcome in zip(writes, outcomes, strict=True):
            if outcome is None:
                self._committed += 1
            else:
                self._refused += 1
            try:
                write._settle(outcome)
            except Exception as defect:  # noqa: BLE001 - the others are told all the same
                defects.append(defect)
        for write in writes:
            write._wake()
        for told in defects:
            self._on_failed(told)

    def _refusal(self, failure: BaseException, outcome: Outcome) -> ReactorError:
        """An error of one write's own, for a failure that it shares with others."""
        refusal: ReactorError
        if isinstance(failure, (StoreError, HostFenced)):
            refusal = afresh(failure)
            refusal.outcome, refusal.retryable = outcome, False
            return refusal
        what = "failed" if is_expected(failure) else "has a defect"
        refusal = StoreFailed(
            f"{self.name} {what}: {type(failure).__name__}", store=self.name, outcome=outcome
        )
        refusal.__cause__ = failure
        return refusal

    def _checked(self, outcomes: object, count: int) -> Sequence[ReactorError | None]:
        """What a commit returned, if it is what one returns; otherwise nobody knows what it did."""
        if not isinstance(outcomes, Sequence):
            raise TypeError(f"{self.name}: a commit returned {type(outcomes).__name__}")
        found = cast("Sequence[object]", outcomes)
        if len(found) != count:
            raise TypeError(f"{self.name}: a commit of {count} returned {len(found)} outcomes")
        for outcome in found:
            if outcome is not None and not isinstance(outcome, ReactorError):
                raise TypeError(f"{self.name}: a commit gave the outcome {outcome!r}")
        return cast("Sequence[ReactorError | None]", found)
