"""A request on its way to a source, in a task of its own.

The caller only waits for it.  Cancelled before the request left, it leaves nothing behind.
Cancelled after, the request goes on: while its answer is out the source is not idle, so nothing is
handed over under it, and what comes of it is told by the source's events.

A request of which it is not known what became is never sent again, and its source is not trusted
any more.
"""

from __future__ import annotations

from typing import Protocol, cast, final

import trio

from trio_reactor.errors import Lost, ReactorError, Refused, Retired, is_expected

from .errors import ContractBroken
from .events import LossReason
from .slot import MAX_IDENTITY, Slot
from .source import ClipRequest, Playable

__all__ = ["Dispatch", "DispatchHost"]


class DispatchHost(Protocol):
    """What a dispatch needs of its chain.  Everything is synchronous."""

    def check_route(self, slot: Slot) -> None:
        """Raise unless the slot is still the one that takes the work."""
        ...

    def slot_lost(self, slot: Slot, why: LossReason, cause: BaseException | None) -> None:
        """Hear that a slot is not trusted any more."""
        ...

    def slot_accepted(self, slot: Slot, clip: str) -> None:
        """Hear that a slot took a clip."""
        ...

    def changed(self) -> None:
        """Look again at what decides."""
        ...


@final
class Dispatch:
    """One request for a clip, and what became of it.

    Args:
        host: Its chain.
        slot: Where it goes.
        source: The slot's source.
        request: What is asked for.
        position: Where in the source's queue; at its end if `None`.
    """

    def __init__(
        self,
        host: DispatchHost,
        slot: Slot,
        source: Playable,
        request: ClipRequest,
        position: int | None,
    ) -> None:
        self._host = host
        self._slot = slot
        self._source = source
        self._request = request
        self._position = position
        self._withdrawn = False
        self._committed = False
        self._scope = trio.CancelScope()
        self._over = trio.Event()
        self._clip: str | None = None
        self._failure: BaseException | None = None
        slot.pending[self] = None

    async def run(self) -> None:
        """Send it and take the answer; a worker of the owner's.  Raises nothing."""
        try:
            with self._scope:
                clip = await self._source.enqueue(
                    self._request, position=self._position, commit=self._commit
                )
                self._taken(clip)
        except Exception as failure:  # noqa: BLE001 - it is raised to the caller
            self._failed(failure)
        finally:
            if self._clip is None and self._failure is None:
                self._failure = self._lost()
            self.drop()
            self._over.set()

    def drop(self) -> None:
        """Be no longer on its way."""
        self._slot.pending.pop(self, None)
        self._host.changed()

    async def outcome(self) -> str:
        """Wait for the answer: the identity of the clip.

        Cancelled before the request left, nothing will leave; cancelled after, it goes on.

        Raises:
            BaseException: What became of it otherwise; see `Renewal.enqueue`.
        """
        try:
            await self._over.wait()
        except BaseException:
            # Cancelled: what has not been sent is not sent any more.
            if not self._committed:
                self._withdrawn = True
                self._scope.cancel()
                with trio.CancelScope(shield=True):
                    await self._over.wait()
            raise
        if self._failure is not None:
            raise self._failure
        assert self._clip is not None  # noqa: S101 - else it failed
        return self._clip

    def give_up(self) -> None:
        """End it, because its source has: no answer will come."""
        self._scope.cancel()

    def _commit(self) -> None:
        if self._withdrawn:
            raise Retired("the caller has left before the request was sent")
        if self._committed:
            raise ContractBroken("a request is sent once", outcome="unknown")
        self._host.check_route(self._slot)
        self._committed = True

    def _taken(self, clip: str) -> None:
        identity = cast("object", clip)  # an adapter may answer anything
        if not isinstance(identity, str) or not 0 < len(identity) <= MAX_IDENTITY:
            raise ContractBroken(
                f"a clip has no identity of 1 to {MAX_IDENTITY} characters", outcome="unknown"
            )
        if self._slot.gone:
            raise self._lost()
        self._clip = clip
        self._host.slot_accepted(self._slot, clip)

    def _failed(self, failure: Exception) -> None:
        self._failure = failure
        expected = is_expected(failure)
        outcome = failure.outcome if isinstance(failure, ReactorError) else None
        if self._committed and not isinstance(failure, Refused) and outcome != "replied":
            if expected and outcome != "unknown":
                # Once it has left, only an answer can tell that nothing came of it.
                self._failure = self._lost()
                self._failure.__cause__ = failure
            outcome = "unknown"
        if outcome == "unknown":
            why: LossReason = "outcome-unknown"
            if isinstance(failure, ContractBroken):
                why = "contract-broken"
            self._host.slot_lost(self._slot, why, failure if expected else None)

    def _lost(self) -> Lost:
        return Lost(
            f"source {self._slot.incarnation} ended before it answered",
            outcome="unknown" if self._committed else "not-submitted",
            retryable=not self._committed,
        )
