"""Opening a renewal: its block, and what it says last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, cast, final

from trio_reactor.channel import EventChannel, Publisher
from trio_reactor.errors import Failed
from trio_reactor.events import FailureRecord
from trio_reactor.owner import CloseReport, OwnerOptions, open_owner
from trio_reactor.owner.verdict import without
from trio_reactor.world import SystemWorld, World

from .allocation import Allocations
from .chain.chain import Chain
from .chain.replay import Context
from .chain.upkeep import Check
from .events import RenewalClosed, RenewalFailed
from .options import RenewalOptions
from .session import Renewal
from .slot.opener import check_opener
from .source import Source, SourceOpener

__all__ = ["open_renewal"]

S = TypeVar("S", bound=Source)


@asynccontextmanager
async def open_renewal(
    open_source: SourceOpener[S],
    *,
    check: Callable[[S], Awaitable[object]] | None = None,
    context: Context | None = None,
    allocations: Allocations | None = None,
    options: RenewalOptions | None = None,
    events: EventChannel | None = None,
    world: World | None = None,
    name: str = "renewal",
) -> AsyncGenerator[Renewal[S]]:
    """Open one logical session out of many sources, each of which lives only so long.

    Entering opens the first source and puts it on air.  Leaving closes everything, within
    `cleanup_timeout`; those who have borrowed a source have as long before that.

    Args:
        open_source: Opens a source.
        check: Looks at each source right before it goes on air, within `check_timeout`: once per
            connection, when its turn first comes.  What it raises is a loss of that source, which
            another follows; a defect is terminal.  If the connection is lost meanwhile, it is
            cancelled, and what comes of it does not count.
        context: Called, synchronously, when a successor is opened that has nothing to resume from:
            returns what it has to be told again (`Predecessor.context`), as JSON of at most
            `max_context_bytes`.  What it raises ends the renewal, and so does what is not JSON.
        allocations: Where what is allocated is recorded before it is used, and who ends what a
            process that died has left there; by default nothing is recorded.
        options: Leads, budgets and bounds.
        events: The application's channel, if it has one; else the handle has one of its own.
        world: Where clock and chance come from; the real ones by default.
        name: What it is called in messages and events.

    Raises:
        JournalError: What is recorded could not be read within `open_timeout`, or not deleted; or
            another renewal uses it.
        OpenFailed: The first source could not be opened; `cleanup` says what is proven of it.
        TypeError: What is given to open a source is no opener, or what it opened is no source.
        BaseException: What the block of an owner raises: the body's error, the terminal failure,
            what close found, or a group of them.
    """
    check_opener(open_source)
    options = options or RenewalOptions()
    world = world or SystemWorld()
    publisher = (events or EventChannel(world=world)).publisher(name)
    budgets = OwnerOptions(
        cleanup_timeout=options.cleanup_timeout + options.accounting_timeout,
        retire_timeout=options.cleanup_timeout + options.accounting_timeout,
        drain_timeout=options.cleanup_timeout,
    )
    async with _claimed(allocations, name), open_owner(name, world=world, options=budgets) as owner:
        chain = Chain(
            owner,
            open_source,
            options,
            publisher,
            check=cast("Check | None", check),
            context=context,
            allocations=allocations,
        )
        ending = _Ending(chain, publisher)
        owner.on_failed(ending.failed)
        owner.on_closed(ending.closed)
        await chain.open_first()
        try:
            yield Renewal(owner, chain, publisher)
        except BaseException as raised:
            # What only says that the renewal has failed, to a reader in the body, would be a
            # second failure beside the original, which the block raises.
            own = without(raised, lambda leaf: _echoes(leaf, owner.failure))
            if own is raised:
                raise
            if own is not None:
                raise own from None


@asynccontextmanager
async def _claimed(allocations: Allocations | None, name: str) -> AsyncGenerator[None]:
    """Around a renewal: it alone uses its journal.  No checkpoint."""
    if allocations is None:
        yield
        return
    with allocations.journal.claimed(name):
        yield


def _echoes(leaf: BaseException, terminal: BaseException | None) -> bool:
    return terminal is not None and isinstance(leaf, Failed) and leaf.__cause__ is terminal


@final
class _Ending:
    """What a renewal says, last, and to whom."""

    def __init__(self, chain: Chain, publisher: Publisher) -> None:
        self._chain = chain
        self._publisher = publisher

    def failed(self, failure: BaseException) -> None:
        """Carry the failure to the outputs and to the observers, before anybody is woken."""
        slot = self._chain.on_air
        self._chain.output.fail(failure)
        tail = self._chain.last_tail()
        self._chain.end_yield()
        for tell in self._chain.on_failed:
            tell()
        # The application's channel may have ended before; its own observers hear of it.
        if not self._publisher.ended:
            self._publisher.publish(
                RenewalFailed(
                    source=None if slot is None else slot.ref,
                    age=0.0 if slot is None else slot.age,
                    failure=FailureRecord.of(failure),
                    tail=tail,
                )
            )
        self._publisher.fail(failure)

    def closed(self, report: CloseReport) -> None:
        """End the outputs and the observations."""
        last = self._chain.last
        self._chain.end_yield()
        self._chain.output.end()
        if not self._publisher.ended:
            self._publisher.publish(
                RenewalClosed(
                    source=None if last is None else last.ref,
                    age=0.0 if last is None else last.age,
                    report=self._chain.ledger.report(),
                )
            )
            self._publisher.end()
