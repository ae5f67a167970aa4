"""One acquisition, alive in a task of its own.

Trio forbids entering a nursery or cancel scope in one task and leaving it in another.  So whatever
is acquired is entered, kept open and left by one and the same task, the attempt's, and every
ordinary Trio context manager can be owned as it is.

An attempt goes one way::

    opening ──▶ held ──▶ leaving ──▶ ended
       └───────────────────┴──────────▲

While it opens it can be cancelled.  Once it is open it is only ever *asked* to leave: its context
manager leaves in the ordinary way and can still await.  What is asked to leave has a budget, and is
cancelled at the end of it.

Two nested scopes make that so.  The outer one is cancelled to give up an opening; the inner one
becomes a shield against it, with no checkpoint between the moment the context manager has entered
and the moment it is shielded, and carries the budget of leaving as its deadline.
"""

from __future__ import annotations

import contextlib
import math
import types
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Generic, TypeVar, cast, final

import trio
from trio.lowlevel import disable_ki_protection, enable_ki_protection

from trio_reactor.errors import (
    Busy,
    Closed,
    Failed,
    ReactorError,
    Retired,
    TimedOut,
    is_expected,
)

from .ends import GONE, AttemptEnd, EndReason, Phase
from .using import Using
from .verdict import grouped, split_cancelled, stray
from .waiting import Waiting
from .worker import unprotected

if TYPE_CHECKING:
    from .owner import Owner

__all__ = ["Attempt", "Factory"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Factory = Callable[[], AbstractAsyncContextManager[T]]
"""Makes the context manager that acquires the thing when entered and releases it when left."""


@final
class Attempt(Generic[T_co]):
    """One acquisition and the thing it holds.  Made by `Owner.start` and `Owner.acquire`."""

    __slots__ = (
        "__weakref__",
        "_asking",
        "_declared",
        "_entered",
        "_expires_at",
        "_factory",
        "_failure",
        "_leaving",
        "_lifetime",
        "_on_ended",
        "_on_lost",
        "_opening",
        "_owed",
        "_owner",
        "_parked",
        "_phase",
        "_raised",
        "_reason",
        "_told",
        "_users",
        "_value",
        "_waiting",
        "name",
        "opened_at",
    )

    def __init__(
        self,
        owner: Owner,
        factory: Factory[T_co],
        name: str,
        declared: tuple[type[BaseException], ...],
        lifetime: float | None,
        on_lost: Callable[[Attempt[T_co]], None] | None,
        on_ended: Callable[[Attempt[T_co]], None] | None,
    ) -> None:
        self.name = name
        self.opened_at: float | None = None
        self._owner = owner
        self._factory: Factory[T_co] | None = factory
        self._declared = declared
        self._lifetime = lifetime
        self._on_lost = on_lost
        self._on_ended = on_ended
        self._phase: Phase = "opening"
        self._reason: EndReason | None = None
        self._failure: BaseException | None = None
        # Who gets the original failure: the first to ask, but before all others the acquirer.
        self._raised = False
        self._owed = False
        # Whether somebody was told of its loss before its failure was known.
        self._told = False
        self._entered = False
        self._expires_at = math.inf
        self._value: T_co | None = None
        self._users: dict[trio.CancelScope, None] | None = None
        self._waiting: Waiting | None = None
        self._opening = trio.CancelScope(shield=True)
        self._leaving = trio.CancelScope()
        # How the parked task is asked to leave: by rescheduling it or, where there is a deadline or
        # a loss to wait for, by cancelling a scope that encloses nothing but that wait.
        self._parked: trio.lowlevel.Task | None = None
        self._asking: trio.CancelScope | None = None

    def __repr__(self) -> str:
        return f"<Attempt {self.name}: {self._phase}{f' ({self._reason})' if self._reason else ''}>"

    # ------------------------------------------------------------------------------------ reading

    @property
    def phase(self) -> Phase:
        """Where it is on its way."""
        return self._phase

    @property
    def reason(self) -> EndReason | None:
        """Why it left or is leaving; `None` before that."""
        return self._reason

    @property
    def failure(self) -> BaseException | None:
        """What went wrong, once it has ended; a group where several things did."""
        return self._failure

    @property
    def is_defect(self) -> bool:
        """Whether what went wrong is a bug in somebody's code rather than weather."""
        return self._failure is not None and not is_expected(self._failure, self._declared)

    @property
    def held(self) -> bool:
        """Whether the thing is there to be used."""
        return self._phase == "held"

    @property
    def value(self) -> T_co:
        """The thing.

        Raises:
            Lost, Expired, Retired, Closed: It is not held any more.
            Busy: It is still opening.
        """
        if self._phase != "held":
            raise self._gone()
        return cast("T_co", self._value)

    # ------------------------------------------------------------------------------------- asking

    @enable_ki_protection
    def request_retire(self) -> None:
        """Ask it to leave, at once and without waiting; an opening is given up."""
        self._ask("retired")

    @enable_ki_protection
    def cancel(self) -> None:
        """Give up the opening; does nothing once the thing is open."""
        if self._phase == "opening" and self._reason is None:
            self._reason = "retired"
            self._opening.cancel()

    @enable_ki_protection
    def set_lifetime(self, seconds: float | None) -> None:
        """Let the thing expire this many seconds from now; `None`: never.

        Of an attempt that is still opening it is the lifetime from its opening.

        Raises:
            ValueError: It is not a number.
        """
        self._lifetime = checked_lifetime(seconds)
        if self._phase == "held":
            self._expires_at = _deadline(self._owner.world.clock(), seconds)
            if self._asking is not None:
                self._asking.deadline = self._expires_at
            else:
                self._wake()

    # -------------------------------------------------------------------------------------- using

    def using(self) -> Using[T_co]:
        """A block that uses the thing: `with attempt.using() as thing:`.

        The block is cancelled when the thing goes, and `Lost`, `Expired` or `Retired` comes out of
        it.  Leaving the block does nothing to the thing.  Entering raises what `value` raises.
        """
        return Using(self)

    # ------------------------------------------------------------------------------------ waiting

    @enable_ki_protection
    async def wait_opened(self) -> T_co:
        """Join the opening; returns the thing if it is held when this task runs.

        Cancelling only leaves: the attempt goes on.

        Raises:
            Failed: It could not be opened; the original failure is the cause.
            Closed: The owner stopped it.
            Retired, Lost, Expired: It was ended, or ended by itself, meanwhile.
        """
        await self._settled()
        if self._phase == "held":
            return self.value
        if self._phase != "ended":
            await self._ended()
        raise self._gone()

    @enable_ki_protection
    async def wait_ended(self) -> AttemptEnd:
        """Sleep until it has left altogether.  Whoever calls this has received its failure.

        Cancelling only leaves.
        """
        await self._ended()
        self._owner._ledger.failures.received(self)
        assert self._reason is not None  # noqa: S101 - set on every way out
        return AttemptEnd(self._reason, self._failure)

    # --------------------------------------------------------------------- the attempt's own task

    @enable_ki_protection
    async def _run(self) -> None:
        """Enter, keep and leave the context manager.  Raises nothing."""
        failure: BaseException | None = None
        try:
            with self._opening, self._leaving:
                # Nothing is acquired once `stopping` rose, also where that was in this very batch.
                if self._reason is None and not self._owner.stopping.is_set:
                    await self._live()
                elif self._reason is None:
                    self._reason = "closed"
        except BaseException as raised:  # noqa: BLE001 - told where the attempt ends, whatever it is
            # Our own two scopes have absorbed their cancellations by now.
            failure = split_cancelled(raised) or stray(self.name)
            _forget_us(failure)
        try:
            self._end(failure)
        finally:
            # Its traceback may hold this frame; since Python 3.12 also by way of those we called.
            del failure, self

    @disable_ki_protection
    async def _live(self) -> None:
        factory = cast("Factory[T_co]", self._factory)
        self._factory = None
        async with factory() as value:
            if not self._take(value):
                return
            del value
            try:
                self._failure = await self._wait()
            except BaseException:
                # Cancelled from within: the thing's own nursery is going down.
                self._depart("lost")
                raise
            expired = self._asking is not None and self._asking.cancel_called
            self._depart("expired" if expired else "lost")

    @enable_ki_protection
    async def _wait(self) -> BaseException | None:
        """Sleep until it is to leave, expires, or ends by itself; returns why it did, if told."""
        try:
            wait_lost = cast(
                "Callable[[], Awaitable[None]] | None", getattr(self._value, "wait_lost", None)
            )
            while wait_lost is None and self._expires_at == math.inf:
                self._parked = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._unpark)
                if self._reason is not None:
                    return None
                # Woken to be given a lifetime.
            with trio.CancelScope(deadline=self._expires_at) as self._asking:
                if wait_lost is None:
                    await trio.sleep_forever()
                else:
                    await unprotected(wait_lost)
        except Exception as failure:  # noqa: BLE001 - whatever it raises is the loss, and kept
            _forget_us(failure)
            return failure
        return None

    def _unpark(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        if self._parked is not None:
            trio.lowlevel.reschedule(self._parked)
            self._parked = None

    # ------------------------------------------------------------------------ synchronous changes

    @enable_ki_protection
    def _take(self, value: object) -> bool:
        """Take what was opened; returns whether it is held.  No checkpoint comes before this."""
        self._leaving.shield = True
        self._entered = True
        if self._reason is None and self._owner.stopping.is_set:
            self._reason = "closed"
        if self._reason is not None:
            self._phase = "leaving"
            self._set_budget()
            self._owner._ledger.opened(self)
            return False
        self._phase = "held"
        self._value = cast("T_co", value)
        now = self.opened_at = self._owner.world.clock()
        self._expires_at = _deadline(now, self._lifetime)
        self._owner._ledger.opened(self)
        if self._waiting is not None:
            self._waiting.open()
        return True

    def _ask(self, reason: EndReason) -> None:
        if self._phase == "opening":
            if self._reason is None:
                self._reason = reason
                self._opening.cancel()
        elif self._phase == "held":
            self._depart(reason)

    @enable_ki_protection
    def _depart(self, reason: EndReason) -> None:
        """Go from held to leaving, once: the first reason stays, and whoever uses it is told."""
        if self._phase != "held":
            return
        self._phase = "leaving"
        self._reason = reason
        self._value = None
        self._set_budget()
        self._wake()
        if self._asking is not None:
            self._asking.cancel()
        for scope in self._users or ():
            scope.cancel()
        self._owner._ledger.departed(self, reason)
        if reason in ("lost", "expired") and self._on_lost is not None:
            self._owner._ledger.call(self._on_lost, self)

    def _set_budget(self) -> None:
        owner = self._owner
        self._leaving.deadline = (
            owner._close_deadline
            if owner.closing.is_set
            else owner.world.clock() + owner.options.retire_timeout
        )

    @property
    def _overdue(self) -> bool:
        """Whether it has had all the time there was for its leaving."""
        return self._phase == "leaving" and self._leaving.cancel_called

    @enable_ki_protection
    def _end(self, failure: BaseException | None) -> None:
        self._depart("lost")  # only if it was interrupted in between
        if self._reason is None:
            self._reason = "failed"
        problems = [problem for problem in (self._failure, failure) if problem is not None]
        late = self._leaving.cancel_called
        if late:
            problems.append(TimedOut(f"{self.name} did not leave within its budget"))
        if len(problems) > 1:
            self._failure = grouped(self.name, problems)
        elif problems:
            self._failure = problems[0]
        self._phase = "ended"
        self._factory = None
        # Whoever waits to receive it runs, and whoever listens or was told of the loss had it.
        waiting, on_ended = self._waiting, self._on_ended
        listened = self._told or self._on_lost is not None
        received = (
            on_ended is not None
            or (waiting is not None and waiting.receivers > 0)
            or (listened and self._reason in ("lost", "expired"))
        )
        self._on_lost = self._on_ended = None
        self._owner._ledger.ended(self, received=received, late=late)
        if on_ended is not None:
            self._owner._ledger.call(on_ended, self)
        if waiting is not None:
            waiting.end()

    def _gone(self, *, cut: bool = False) -> ReactorError:
        """A fresh error that says why the thing is not there; the caller raises it.

        Args:
            cut: To somebody whose block it cut short: there, what its owner ended was retired.
        """
        if self._reason is None:
            return Busy(f"{self.name} is still opening", retryable=True)
        kind, words = GONE[self._reason]
        if cut and kind is Closed:
            kind = Retired
        error = kind(f"{self.name} {words}")
        error.__cause__ = self._failure
        if self._failure is not None:
            self._owner._ledger.failures.received(self)
        elif self._reason == "closed":
            # Where the owner closes because it failed, that is why.
            error.__cause__ = self._owner.failure
            self._owner._ledger.refusal(error)
        if self._reason in ("lost", "expired"):
            self._told = True
        return error

    def _claim(self, *, acquirer: bool = False) -> BaseException | None:
        """The failure, for the caller to raise: the original to one, a fresh one to the others."""
        failure = self._failure
        if failure is None:
            return None
        self._owner._ledger.failures.received(self)
        if not self._raised and (acquirer or not self._owed):
            self._raised = True
            return failure
        error = Failed(f"{self.name} failed")
        error.__cause__ = failure
        return error

    async def _settled(self) -> None:
        """Sleep until it is not opening any more, to receive what became of it.  A checkpoint."""
        if self._phase != "opening":
            await trio.lowlevel.checkpoint()
        else:
            await self._audience().settled()

    async def _ended(self) -> None:
        """Sleep until it has left, to receive how.  Always a checkpoint."""
        if self._phase == "ended":
            await trio.lowlevel.checkpoint()
        else:
            await self._audience().ended()

    @enable_ki_protection
    async def _join(self, *, receiving: bool) -> list[BaseException]:
        """Sleep until it has left, whatever comes; a checkpoint that is not cancelled.

        Args:
            receiving: Whether the caller goes on to receive its failure.

        Returns:
            The interrupts that came meanwhile, for the caller to raise.
        """
        interrupts: list[BaseException] = []
        with trio.CancelScope(shield=True):
            if self._phase == "ended":
                await trio.lowlevel.cancel_shielded_checkpoint()
            while self._phase != "ended":
                audience = self._audience()
                try:
                    await (audience.ended() if receiving else audience.left())
                except trio.Cancelled:  # its shield was taken away
                    raise
                except BaseException as interrupt:  # noqa: BLE001 - KeyboardInterrupt; returned
                    interrupts.append(interrupt)
        return interrupts

    @property
    def _waited_for(self) -> int:
        """How many tasks wait for it."""
        return 0 if self._waiting is None else self._waiting.asleep

    def _audience(self) -> Waiting:
        if self._waiting is None:
            self._waiting = Waiting()
        return self._waiting


def _deadline(now: float, seconds: float | None) -> float:
    return math.inf if seconds is None else now + seconds


def checked_lifetime(seconds: float | None) -> float | None:
    """The lifetime as it is.

    Raises:
        ValueError: It is not a number.
    """
    if seconds is not None and math.isnan(seconds):
        raise ValueError("a lifetime is a number of seconds or None")
    return seconds


_OURS = frozenset(
    cast("types.FunctionType", vars(Attempt)[name]).__code__ for name in ("_run", "_live", "_wait")
)


def _forget_us(failure: BaseException) -> None:
    """Let a failure's traceback begin in the code that was called.

    Our frames hold the attempt, which holds the failure: a cycle that would keep everything in
    those frames until the garbage collector finds it.
    """
    traceback = failure.__traceback__
    while traceback is not None and traceback.tb_frame.f_code in _OURS:
        with contextlib.suppress(RuntimeError):  # the one that is still running
            traceback.tb_frame.clear()
        traceback = traceback.tb_next
    if traceback is not None:
        failure.__traceback__ = traceback
