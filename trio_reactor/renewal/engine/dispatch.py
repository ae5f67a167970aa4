"""A command on its way to a source, in a task of its own.

Its callers only wait for it.  If the last of them is cancelled before the request left, it leaves
nothing behind.  Cancelled after, the request goes on: while its answer is out the source is not
idle, so nothing is handed over under it, and what comes of it is told by the source's events.

A request of which it is not known what became is never sent again, and its source is not trusted
any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar, cast, final

import trio

from trio_reactor.errors import Failed, Lost, Outcome, ReactorError, Retired, TimedOut, is_expected
from trio_reactor.renewal.errors import ContractBroken, sole
from trio_reactor.renewal.events import LossReason
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.slot.settings import is_refusal
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.slot.validity import MAX_IDENTITY, is_identity
from trio_reactor.renewal.source import Commit
from trio_reactor.world import World

from .failure import Failure

__all__ = ["Dispatch", "DispatchHearing", "DispatchHost", "identity_of"]

T = TypeVar("T")


class DispatchHearing(Protocol):
    """Who hears what a dispatch finds out of its slot.  Everything is synchronous."""

    def lost(self, slot: Slot, why: LossReason, cause: BaseException | None) -> None:
        """Hear that a slot is not trusted any more."""
        ...

    def failed(self, slot: Slot, defect: Exception) -> None:
        """Hear that a slot's adapter has a defect, which is terminal."""
        ...

    def replied(self, slot: Slot) -> None:
        """Hear that a command to a slot is over."""
        ...


class DispatchHost(Protocol):
    """What a dispatch needs of its chain.  Everything is synchronous."""

    @property
    def hearing(self) -> DispatchHearing:
        """Who hears what it finds out."""
        ...

    @property
    def world(self) -> World:
        """Its clock."""
        ...

    @property
    def options(self) -> RenewalOptions:
        """Its budgets."""
        ...


@final
class Dispatch(Generic[T]):
    """One command, and what became of it.  It has `reply_timeout` from when it is made.

    Args:
        host: Its chain.
        slot: Where it goes.
        send: Sends it and waits for the answer; calls what it is given right before it leaves.
        check: Called in the step in which it leaves; raises if it is not to leave any more.
        take: Takes the answer.
        over: Called once with the dispatch when it is over, before anybody who waits hears of it.
        withdraws: Whether it is taken back if the last who waits leaves before it was sent.
    """

    def __init__(
        self,
        host: DispatchHost,
        slot: Slot,
        send: Callable[[Commit], Awaitable[T]],
        *,
        check: Callable[[], None],
        take: Callable[[T], None] | None = None,
        over: Callable[[Dispatch[T]], None] | None = None,
        withdraws: bool = True,
    ) -> None:
        self._host = host
        self._slot = slot
        self._send = send
        self._check = check
        self._take = take
        self._settled = over
        self._withdraws = withdraws
        self.withdrawn = False
        """Whether everyone who waited has left before it did: it never leaves."""
        self._committed = False
        self._waiting = 0
        self._told = False
        deadline = host.world.clock() + host.options.reply_timeout
        self._scope = trio.CancelScope(deadline=deadline)
        self._abandoned = False
        """Whether its end was asked for, by its callers or by its source."""
        self._over = trio.Event()
        self._answer: tuple[T] | None = None
        self._failure: ReactorError | None = None
        slot.pending[self] = None

    @property
    def slot(self) -> Slot:
        """Where it goes."""
        return self._slot

    @property
    def answer(self) -> tuple[T] | None:
        """The answer, once there is one."""
        return self._answer

    @property
    def failure(self) -> ReactorError | None:
        """What it came to instead of an answer, once it has."""
        return self._failure

    @property
    def committed(self) -> bool:
        """Whether it passed its check and has left."""
        return self._committed

    @property
    def sent(self) -> bool:
        """Whether the request has left, or may have."""
        return self._committed or (self._failure is not None and self._failure.outcome == "unknown")

    async def run(self) -> None:
        """Send it and take the answer; a worker of the owner's.

        What comes of it is raised to its callers; nothing comes out of here but a defect of the one
        that is told that it is over.
        """
        try:
            with self._scope:
                self._taken(await self._send(self._commit))
            if self._scope.cancelled_caught and not self._abandoned:
                self._failed(self._late())
        except Exception as failure:  # noqa: BLE001 - it is raised to the caller
            self._failed(failure)
        finally:
            if not self._is_over:
                self._failure = self._lost()
            try:
                self.drop()
                if self._settled is not None:
                    self._settled(self)
            finally:
                self._over.set()  # whatever else goes wrong, nobody waits for ever

    def drop(self) -> None:
        """Be no longer on its way."""
        self._slot.pending.pop(self, None)
        self._host.hearing.replied(self._slot)

    async def outcome(self) -> T:
        """Wait for the answer.  Any number of tasks may.

        If the last that waits is cancelled before the request left, nothing will leave, unless it
        is not to be withdrawn; cancelled after, it goes on.

        Raises:
            ReactorError: What became of it otherwise; see `Renewal`.  The first gets the original,
                with its cause, and every other one afresh.
        """
        self._waiting += 1
        try:
            await self._over.wait()
        except BaseException:
            # Cancelled: what has not been sent is not sent any more.
            if self._waiting == 1 and not self._committed and self._withdraws:
                self.withdrawn = True
                self.give_up()
                with trio.CancelScope(shield=True):
                    await self._over.wait()
            raise
        finally:
            self._waiting -= 1
        if self._failure is None:
            assert self._answer is not None  # noqa: S101 - else it failed
            return self._answer[0]
        if not self._told:
            self._told = True
            raise self._failure
        failure = Failure.of(self._failure).afresh()
        if isinstance(failure, Failed):
            raise failure from self._failure.__cause__  # the terminal failure: they say so, too
        raise failure

    def give_up(self) -> None:
        """End it: no answer will come, or nobody wants it sent any more."""
        self._abandoned = True
        self._scope.cancel()

    def _commit(self) -> None:
        if self.withdrawn:
            raise Retired("the caller has left before the request was sent")
        if self._is_over:
            # What was told of it stays true: an adapter may have another task write, and late.
            raise Retired("the request was over before it was sent")
        if self._committed:
            raise ContractBroken("a request is sent once", outcome="unknown")
        self._check()
        self._committed = True

    def _taken(self, answer: T) -> None:
        if not self._committed:
            raise ContractBroken("a request was answered that was not sent", outcome="unknown")
        if self._slot.gone:
            raise self._lost()
        if self._take is not None:
            self._take(answer)
        self._answer = (answer,)

    def _failed(self, raised: Exception) -> None:
        failure = cast("Exception", sole(raised))  # an adapter's nursery may have put it in a group
        if not is_expected(failure):
            self._failure = Failed("a source's adapter has a defect", outcome=self._fate)
            self._failure.__cause__ = failure
            self._host.hearing.failed(self._slot, failure)
            return
        if isinstance(failure, ReactorError) and self._is_said(failure):
            if self._committed and is_refusal(failure):
                failure.outcome = "replied"  # that it said no says so, whatever it was made with
            self._failure = failure
        else:
            self._failure = self._lost() if self._committed else self._unreachable()
            self._failure.__cause__ = failure
        if self._failure.outcome == "unknown":
            why: LossReason = "outcome-unknown"
            if isinstance(failure, ContractBroken):
                why = "contract-broken"
            self._host.hearing.lost(self._slot, why, failure)

    def _is_said(self, failure: ReactorError) -> bool:
        """Whether a failure itself says what became of the request.

        Once it has left, only an answer can tell that nothing came of it.
        """
        return not self._committed or is_refusal(failure) or failure.outcome == "unknown"

    @property
    def _is_over(self) -> bool:
        """Whether it is known what it came to."""
        return self._answer is not None or self._failure is not None

    @property
    def _fate(self) -> Outcome:
        return "unknown" if self._committed else "not-submitted"

    def _late(self) -> TimedOut:
        return TimedOut(
            f"source {self._slot.incarnation} did not answer in time",
            outcome=self._fate,
            retryable=not self._committed,
        )

    def _unreachable(self) -> Lost:
        return Lost(
            f"source {self._slot.incarnation} could not be reached",
            outcome="not-submitted",
            retryable=True,
        )

    def _lost(self) -> Lost:
        return Lost(
            f"source {self._slot.incarnation} ended before it answered",
            outcome=self._fate,
            retryable=not self._committed,
        )


def identity_of(clip: str) -> str:
    """The identity of a clip that a source answered with.

    Raises:
        ContractBroken: It is none.
    """
    identity = cast("object", clip)  # an adapter may answer anything
    if not is_identity(identity):
        raise ContractBroken(
            f"a clip has no identity of 1 to {MAX_IDENTITY} characters", outcome="unknown"
        )
    return clip
