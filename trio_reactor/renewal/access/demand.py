"""Successors on demand: whoever asks for one waits until it is on air.

A request is for a source whose opening began after it, because only that is sure to have seen what
it was made for: new settings, a new credential.  Requests for which no opening has begun yet are
one.  A request that comes while a successor already opens waits for that handover and for one more;
nothing that is prepared is thrown away for it.  So each waits for two handovers at most, however
many ask.

Who asked and leaves does not take the request back.
"""

from __future__ import annotations

from typing import Final, cast, final

import trio

from trio_reactor.owner import Owner
from trio_reactor.renewal.chain.chain import Chain
from trio_reactor.renewal.errors import NotRenewing
from trio_reactor.renewal.events import SourceRef
from trio_reactor.renewal.slot.validity import is_unicode

from .borrowing import Borrowing

__all__ = ["MAX_REASON", "Demand"]

MAX_REASON: Final = 1024
"""The longest reason for a successor, in characters."""


@final
class _Request:
    """One request, of as many as ask for the same.

    Args:
        beyond: The number that the wanted source's is higher than.
    """

    __slots__ = ("beyond", "settled", "source")

    def __init__(self, beyond: int) -> None:
        self.beyond = beyond
        self.source: SourceRef | None = None
        self.settled = trio.Event()


@final
class Demand:
    """The requests for successors of one renewal.

    Args:
        owner: Says when it is over.
        chain: Opens them.
        borrowing: Sees to it that the end is heard.
    """

    def __init__(self, owner: Owner, chain: Chain, borrowing: Borrowing) -> None:
        self._owner = owner
        self._chain = chain
        self._borrowing = borrowing
        self._requests: dict[int, _Request] = {}
        """Those that are not fulfilled, by the number they want to be beyond.  A failed open makes
        room for another, so that `max_failures` bounds them."""
        chain.on_step.append(self._look)

    async def renew(self, reason: str) -> SourceRef:
        """Ask for a successor and wait until it is on air; see `Renewal.renew`."""
        _check_reason(reason)
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check()
        self._check_outside()
        self._borrowing.attend()
        beyond = self._chain.ledger.incarnations
        request = self._requests.get(beyond)
        if request is None:
            self._chain.announce.wanted(self._chain.on_air, reason)
            request = self._requests[beyond] = _Request(beyond)
            self._chain.want(beyond)
        await request.settled.wait()
        if request.source is None:
            self._check()
            raise NotRenewing(f"{self._owner.name}: renewal was stopped before a successor came")
        return request.source

    def _check(self) -> None:
        self._owner.check()
        if not self._chain.renewing:
            raise NotRenewing(f"{self._owner.name}: renewal was stopped")
        self._owner.stopping.check()

    def _check_outside(self) -> None:
        """Raise if a block that the caller is in would have to end before this could."""
        for slot in self._borrowing.used_here():
            # The first successor takes the room that the next one needs, or finds none.
            if not slot.live or slot.exclusive or self._chain.next is not None:
                raise RuntimeError(
                    f"{self._owner.name}: this would wait for the block that it is called in"
                )

    def _look(self) -> None:
        """After a step of the chain's: settle what is fulfilled, and what cannot be any more."""
        if not self._requests:
            return
        on_air, following = self._chain.on_air, self._chain.next
        reached = 0 if on_air is None else on_air.incarnation
        hopeless = self._owner.stopping.is_set
        for beyond, request in tuple(self._requests.items()):
            if on_air is not None and reached > beyond:
                request.source = on_air.ref
            elif not hopeless and (
                self._chain.renewing
                # What is prepared when renewal stops is used all the same.
                or (following is not None and following.incarnation > beyond)
            ):
                continue
            del self._requests[beyond]
            request.settled.set()


def _check_reason(reason: str) -> None:
    given = cast("object", reason)  # an application may say anything
    if isinstance(given, str) and len(given) <= MAX_REASON and is_unicode(given):
        return
    raise ValueError(f"reason: it is not Unicode text of at most {MAX_REASON} characters")
