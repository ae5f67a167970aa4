"""The owner: it holds what does not last.

Everything that an owner starts ends before its block is left.  Acquisitions and workers run in
tasks of its own nursery, shielded one by one, so that when the surrounding scope is cancelled the
body sees it first and what it uses is still there in its `finally` blocks.  Then the owner closes.

Two fences say how far that has come.  `stopping` rises when the surrounding scope is cancelled, the
body is left or close begins, whichever is first, in the same synchronous step: nothing new is
acquired.  `closing` rises when close begins: commands are refused.  Between the two an
application's own clean-up can issue its last commands.

Close goes in this order, within one budget, `cleanup_timeout`:

1. attempts that are still opening are cancelled and joined;
2. workers that drain finish;
3. held things retire, side by side, while the workers they need still run;
4. the remaining workers are cancelled;
5. observations end.

What drains can be given a budget of its own, `drain_timeout`, which comes before that of the rest.

At the end of the budget whatever remains is cancelled, recorded as timed out, named in
`statistics()` and logged; the block still waits for it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple, Unpack, final

import trio
from trio.lowlevel import enable_ki_protection

from trio_reactor.channel import Publisher
from trio_reactor.errors import Closed, Failed, Overflow
from trio_reactor.events import FailureRecord
from trio_reactor.fence import Fence
from trio_reactor.world import World

from .attempt import Attempt, Factory, checked_lifetime
from .closing import Closing
from .hold import Hold, interrupted
from .ledger import Ledger, named
from .records import (
    CloseReport,
    OwnerClosed,
    OwnerFailed,
    OwnerOptions,
    OwnerStatistics,
)
from .using import Using
from .verdict import grouped, split_cancelled
from .worker import Worker

__all__ = ["Owner"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_log = logging.getLogger("trio_reactor.owner")


@final
class Owner:
    """Holds what does not last.  Made by `open_owner`; its block is `async with`."""

    def __init__(
        self, name: str, world: World, events: Publisher | None, options: OwnerOptions
    ) -> None:
        self.name = name
        self.world = world
        self.options = options
        self.events = events
        self.stopping = Fence(f"{name} acquires nothing new")
        self.closing = Fence(f"{name} takes no more commands")
        self._terminal: BaseException | None = None
        self._report: CloseReport | None = None
        self._close_failures: list[BaseException] = []
        self._ledger = Ledger(name, events, options.retained_failures, self._crashed)
        self._close_began = math.inf
        self._close_deadline = math.inf
        self._closing: Closing | None = None
        self._done = trio.Event()
        self._on_failed: list[Callable[[BaseException], None]] = []
        self._on_closed: list[Callable[[CloseReport], None]] = []
        self._body = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._sentinel: trio.lowlevel.Task | None = None

    def __repr__(self) -> str:
        state = self.closing.reason or self.stopping.reason or "open"
        return (
            f"<Owner {self.name}: {len(self._ledger.attempts)} attempts, "
            f"{len(self._ledger.workers)} workers; "
            f"{state}>"
        )

    # ---------------------------------------------------------------------------------- acquiring

    @enable_ki_protection
    def start(
        self,
        factory: Factory[T],
        *,
        name: str | None = None,
        expected: tuple[type[BaseException], ...] = (),
        lifetime: float | None = None,
        on_lost: Callable[[Attempt[T]], None] | None = None,
        on_ended: Callable[[Attempt[T]], None] | None = None,
    ) -> Attempt[T]:
        """Begin to acquire a thing, in a task of the owner's.  Synchronous.

        Args:
            factory: Makes the async context manager that acquires the thing when it is entered.
            name: What it is called in messages.
            expected: Exceptions of the adapter's that are weather, beside `errors.EXPECTED`.
            lifetime: Seconds from its opening until it expires; `None`: never.
            on_lost: Called synchronously, once, when the held thing is lost or expires; what went
                wrong may not be known yet.
            on_ended: Called synchronously, once, when it has left, however it came to that.  An
                expected failure counts as received by whoever listens in either way.

        Raises:
            Closed: The owner is stopping.
            Failed: The owner has failed, and has not begun to close.
            Overflow: `max_attempts` is reached.
            ValueError: The lifetime is not a number.
        """
        self.check()
        if self.stopping.is_set:
            raise self._refusal(self.stopping)
        checked_lifetime(lifetime)
        if len(self._ledger.attempts) >= self.options.max_attempts:
            raise Overflow(f"{self.name}: max_attempts={self.options.max_attempts} is reached")
        attempt = Attempt(
            self,
            factory,
            name or self.world.identifier("attempt"),
            expected,
            lifetime,
            on_lost,
            on_ended,
        )
        self._spawn(attempt._run, attempt.name)
        self._ledger.started(attempt)
        return attempt

    @enable_ki_protection
    async def acquire(
        self,
        factory: Factory[T],
        *,
        name: str | None = None,
        expected: tuple[type[BaseException], ...] = (),
        lifetime: float | None = None,
        on_lost: Callable[[Attempt[T]], None] | None = None,
        on_ended: Callable[[Attempt[T]], None] | None = None,
    ) -> Attempt[T]:
        """Acquire a thing and wait until it is open.  The arguments are those of `start`.

        It is handed over only if it is still held when this task runs.  If this task is cancelled,
        the attempt is cancelled and its clean-up joined before going on.  A task that is cancelled
        already gets that rather than a refusal.

        Raises:
            Closed: The owner stopped it, or is stopping.
            Retired: It was ended while the owner still admitted.
            Lost, Expired: It was open, and gone before this task ran.
            BaseException: The acquisition's own failure.
        """
        try:
            attempt = self.start(
                factory,
                name=name,
                expected=expected,
                lifetime=lifetime,
                on_lost=on_lost,
                on_ended=on_ended,
            )
        except (Closed, Failed):
            # What stopped the owner has mostly cancelled this task too: then that is what it gets.
            await trio.lowlevel.checkpoint_if_cancelled()
            raise
        attempt._owed = True
        try:
            await attempt._settled()
            if attempt.phase == "leaving":
                await attempt._ended()
        except BaseException as error:
            # Cancelled, or interrupted: nothing is left behind.
            attempt._owed = False
            attempt._ask("cancelled")
            interrupts = await attempt._join(receiving=False)
            if interrupts:
                raise interrupted(attempt.name, [error, *interrupts]) from None
            raise
        if attempt.held:
            attempt._owed = False
            return attempt
        try:
            failed = attempt.reason == "failed"
            raise (attempt._claim(acquirer=True) if failed else None) or attempt._gone()
        finally:
            del attempt  # this frame is in the traceback of a failure that the attempt keeps

    @enable_ki_protection
    async def retire(self, attempt: Attempt[T]) -> None:
        """Ask a thing to leave and wait until it has.

        Cancelling only leaves: the thing goes on leaving.

        Raises:
            BaseException: What went wrong while it left: the original to the first who asks, a
                fresh `Failed` to the others.
        """
        attempt.request_retire()
        await attempt._ended()
        failure = attempt._claim()
        if failure is not None:
            try:
                raise failure
            finally:
                del attempt, failure  # this frame is in its traceback

    def using(self, attempt: Attempt[T]) -> Using[T]:
        """A block that uses a held thing: the same as `attempt.using()`."""
        return attempt.using()

    def hold(
        self,
        factory: Factory[T],
        *,
        name: str | None = None,
        expected: tuple[type[BaseException], ...] = (),
        lifetime: float | None = None,
        on_lost: Callable[[Attempt[T]], None] | None = None,
    ) -> Hold[T]:
        """A block that holds a thing: `async with owner.hold(factory) as thing:`.

        The block is cancelled when the thing is lost, expires or is retired, and `Lost`, `Expired`
        or `Retired` comes out of it.  Leaving the block retires the thing and waits for that,
        shielded.  The arguments are those of `start`, and entering raises what `acquire` raises.
        """
        return Hold(self, factory, name, expected, lifetime, on_lost)

    # ------------------------------------------------------------------------------------ workers

    @enable_ki_protection
    def start_soon(
        self,
        fn: Callable[[Unpack[Ts]], Awaitable[object]],
        *args: Unpack[Ts],
        name: str | None = None,
        drain: bool = False,
    ) -> None:
        """Start a worker.  Its crash is the owner's terminal failure; its return is its end.

        So is the `Closed`, `Retired` or `Failed` by which the owner told it that it is over.

        Args:
            fn: The async function.
            *args: Its arguments.
            name: What it is called in messages.
            drain: Whether close lets it finish before anything held retires.

        Raises:
            Closed: Close began.
            Failed: The owner has failed.
            Overflow: `max_workers` is reached.
        """
        self.check()
        if len(self._ledger.workers) >= self.options.max_workers:
            raise Overflow(f"{self.name}: max_workers={self.options.max_workers} is reached")
        worker = Worker(name or f"worker {_name_of(fn)}", drain, self._worker_ended)
        self._spawn(worker.run, worker.name, fn, *args)
        self._ledger.employed(worker)

    @enable_ki_protection
    def _worker_ended(self, worker: Worker, crash: BaseException | None) -> None:
        real = None if crash is None else self._ledger.not_refused(crash)
        if real is not None:
            self._crashed(real)
        self._ledger.released(worker)

    # ------------------------------------------------------------------------------------- failing

    @property
    def close_deadline(self) -> float:
        """When everything has to have left, on the world's clock; infinite before close began."""
        return self._close_deadline

    @property
    def failure(self) -> BaseException | None:
        """The terminal failure, if there is one."""
        return self._terminal

    @enable_ki_protection
    def fail(self, failure: BaseException) -> bool:
        """Claim the terminal failure; returns whether it became that.

        The first one wins.  State, channel and queues carry it before anybody is woken; then the
        body is cancelled, and the block raises it.  After close began it joins close's report; once
        close is over it is only refused.  A cancellation is no failure and changes nothing.
        """
        real = split_cancelled(failure)
        return real is not None and self._crashed(real)

    def on_failed(self, callback: Callable[[BaseException], None]) -> None:
        """Call this when the owner fails, in the claiming step, before any waiter is woken.

        At once if it has failed.
        """
        if self._terminal is None:
            self._on_failed.append(callback)
        else:
            self._ledger.call(callback, self._terminal)

    def on_closed(self, callback: Callable[[CloseReport], None]) -> None:
        """Call this when close is over and its report stands, before any waiter is woken.

        At once if it is over.
        """
        if self._report is None:
            self._on_closed.append(callback)
        else:
            callback(self._report)

    def check(self) -> None:
        """Raise unless commands are taken.

        Raises:
            Failed: The owner has failed; afresh for every caller.
            Closed: Close began.
        """
        if self.closing.is_set:
            raise self._refusal(self.closing)
        if self._terminal is not None:
            failed = Failed(f"{self.name} has failed")
            raise self._ledger.refusal(failed) from self._terminal

    def _refusal(self, fence: Fence) -> Closed:
        what = "takes no more commands" if fence is self.closing else "acquires nothing new"
        return self._ledger.refusal(Closed(f"{self.name} {what}: {fence.reason}"))

    def _crashed(self, crash: BaseException) -> bool:
        if self._terminal is not None or self.closing.is_set:
            if self._done.is_set():
                _log.warning("%s had closed before %s", self.name, type(crash).__name__)
            elif crash is not self._terminal:
                self._ledger.failures.defect(crash)
            return False
        self._terminal = crash
        _log.debug("%s failed: %s", self.name, type(crash).__name__)
        self.stopping.mark("it has failed")
        for callback in self._on_failed:
            self._ledger.call(callback, crash)
        if self.events is not None:
            self._ledger.publish(lambda: OwnerFailed(FailureRecord.of(crash)))
            self.events.fail(crash)
        self._stop_opening()
        self.stopping.announce()
        self._body.cancel()
        return True

    # ------------------------------------------------------------------------------------- closing

    @property
    def report(self) -> CloseReport | None:
        """What close found; `None` until it is over."""
        return self._report

    async def close(self) -> CloseReport:
        """Close, once, however many tasks ask; all get the same report or the same failures.

        Close begins before the first checkpoint and runs in a task of the owner's: a task that is
        cancelled while it waits here leaves, and close goes on.

        Returns:
            The report.

        Raises:
            RuntimeError: Called from inside one of its own attempts or workers.
            BaseExceptionGroup: Defects, and expected failures that nobody received.
        """
        if self._inside():
            raise RuntimeError(f"{self.name} cannot be closed from a task that close waits for")
        self._begin_close("close was called")
        await self._done.wait()
        if self._close_failures:
            raise grouped(f"{self.name} at close", self._close_failures)
        assert self._report is not None  # noqa: S101 - set before `_done`
        return self._report

    def _inside(self) -> bool:
        nursery = trio.lowlevel.current_task().parent_nursery
        while nursery is not None and nursery is not self._nursery:
            nursery = nursery.parent_task.parent_nursery
        return nursery is not None

    @enable_ki_protection
    def _begin_close(self, reason: str) -> None:
        self.stopping.set(reason)
        if self.closing.mark(reason):
            self._close_began = self.world.clock()
            self._close_deadline = self._close_began + self.options.cleanup_timeout
            self._stop_opening()
            self.closing.announce()
            self._closing = Closing(self, self._close_deadline)
            self._ledger.progress = self._closing.advance
            self._spawn(self._close, f"{self.name} closing", self._closing)

    @enable_ki_protection
    async def _close(self, closing: Closing) -> None:
        try:
            with trio.CancelScope(shield=True):
                await closing.run()
        finally:
            self._conclude()

    @enable_ki_protection
    def _conclude(self) -> None:
        try:
            self._report = self._make_report()
            for callback in self._on_closed:
                self._ledger.call(callback, self._report)
            self._ledger.publish(lambda: OwnerClosed(self.closing.reason or ""))
            if self.events is not None:
                self.events.end()
        finally:
            # Whatever a callback does: nobody waits for ever.
            self._close_failures = self._ledger.failures.unreceived(self._terminal)
            for source in self._ledger.failures.sources():
                if isinstance(source, Attempt):
                    source._raised = True  # close tells it; who asks later gets a fresh one
            if self._sentinel is not None:
                trio.lowlevel.reschedule(self._sentinel)
                self._sentinel = None
            self._on_failed.clear()
            self._on_closed.clear()
            self._done.set()

    def _make_report(self) -> CloseReport:
        ledger, terminal = self._ledger, self._terminal
        failures = ledger.failures.unreceived(terminal)
        return CloseReport(
            name=self.name,
            reason=self.closing.reason or "",
            duration=self.world.clock() - self._close_began,
            acquired=ledger.acquired,
            lost=ledger.lost,
            expired=ledger.expired,
            timed_out=named(ledger.timed_out),
            failures=tuple(map(FailureRecord.of, failures)),
            failures_omitted=ledger.failures.omitted,
            terminal=None if terminal is None else FailureRecord.of(terminal),
        )

    def _spawn(
        self, fn: Callable[[Unpack[Ts]], Awaitable[object]], name: str, *args: Unpack[Ts]
    ) -> None:
        if self._nursery is None:
            raise RuntimeError(f"the block of {self.name} has not been entered")
        self._nursery.start_soon(fn, *args, name=name)

    @enable_ki_protection
    def _stop_opening(self) -> None:
        """Give up whatever is still opening; comes with `stopping`."""
        if self._ledger.opening:
            for attempt in list(self._ledger.attempts):
                if attempt.phase == "opening":
                    attempt._ask("closed")

    # ------------------------------------------------------------------------------------ reading

    def statistics(self) -> OwnerStatistics:
        """What is held at this moment.  Readable at any time, also after close."""
        ledger = self._ledger
        attempts, opening = ledger.attempts, ledger.opening
        held = sum(1 for attempt in attempts if attempt.held)
        if self._closing is None or self._done.is_set():
            late = [attempt.name for attempt in attempts if attempt._overdue]
        else:
            late = self._closing.overdue()
        return OwnerStatistics(
            opening=opening,
            held=held,
            leaving=len(attempts) - opening - held,
            workers=len(ledger.workers),
            waiting=sum(attempt._waited_for for attempt in attempts)
            + self._done.statistics().tasks_waiting,
            acquired=ledger.acquired,
            lost=ledger.lost,
            expired=ledger.expired,
            failures_retained=len(ledger.failures),
            failures_omitted=ledger.failures.omitted,
            stopping=self.stopping.reason,
            closing=self.closing.reason,
            overdue=named(late),
        )


def _name_of(fn: object) -> str:
    return str(getattr(fn, "__qualname__", None) or type(fn).__qualname__)
