"""Opening a supervisor: its block, and what it says last."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from trio_reactor.channel import EventChannel, Publisher
from trio_reactor.errors import Failed, Lost
from trio_reactor.owner import CloseReport, OwnerOptions, open_owner
from trio_reactor.owner.verdict import without
from trio_reactor.supervision.events import SupervisorClosed
from trio_reactor.supervision.execution.protocol import Execution
from trio_reactor.supervision.options import SupervisorOptions
from trio_reactor.supervision.store.protocol import Store
from trio_reactor.world import SystemWorld, World

from .engine import Engine
from .supervisor import Supervisor

__all__ = ["open_supervisor"]

_MARGIN = 5.0
"""Seconds that close has beyond what a session may take to end, for the journal."""


@asynccontextmanager
async def open_supervisor(
    store: Store,
    execution: Execution,
    *,
    options: SupervisorOptions | None = None,
    events: EventChannel | None = None,
    world: World | None = None,
    name: str = "supervisor",
) -> AsyncGenerator[Supervisor]:
    """Hold worker processes: leased, fenced and journaled.

    Entering takes exclusive ownership of the journal and sees to whatever an earlier supervisor
    left behind, before anything is served.  Leaving stops every session, side by side, and waits
    for the end of each.

    Args:
        store: Where the journal is: `SqliteStore`, `MemoryStore`, `PostgresStore`.
        execution: What makes the executions: `LocalProcesses`.
        options: Leases, budgets and bounds.
        events: The application's channel, if it has one; else the handle has one of its own.
        world: Where clocks, chance and tokens come from; the real ones by default.
        name: What it is called in messages and events.

    Raises:
        TypeError: The store, the execution or the options are none; nothing was opened.
        StoreError, RecordUnreadable: The journal could not be opened or read; nothing was
            overwritten.
        BaseExceptionGroup: What was left behind may still run, or could not be journaled; or the
            body's error, with everything that failed while it closed.
        BaseException: What the block of an owner raises.
    """
    options = SupervisorOptions() if options is None else options
    _check("store", store, "open", "SqliteStore(path)")
    _check("execution", execution, "launch", "LocalProcesses()")
    _check("options", options, "max_lease", "SupervisorOptions(lease=10.0)")
    world = world or SystemWorld()
    publisher = (events or EventChannel(world=world)).publisher(name)
    ending = options.grace + 3 * options.confirmation_timeout + _MARGIN
    budgets = OwnerOptions(
        cleanup_timeout=ending,
        retire_timeout=ending,
        drain_timeout=ending,
        max_attempts=2 * options.max_sessions + 1,
        max_workers=2 * options.max_sessions + 16,
    )
    async with open_owner(name, world=world, options=budgets) as owner:
        owner.on_closed(lambda report: _say_closed(publisher, report))
        owner.on_failed(publisher.fail)
        attempt = await owner.acquire(
            store.open,
            name=f"journal of {name}",
            on_lost=lambda _: engine.health.poison(Lost(f"the journal of {name} was lost")),
        )
        engine = Engine(owner, attempt.value, execution, options, publisher)
        try:
            await engine.start()
            yield Supervisor(owner, engine, publisher)
        except BaseException as raised:
            # What only says that it is poisoned would be a second failure beside the original,
            # which the block raises.
            poison = engine.health.failure
            own = without(raised, lambda leaf: _echoes(leaf, poison))
            if own is raised:
                raise
            if own is not None:
                raise own from None


def _check(name: str, given: object, has: str, example: str) -> None:
    """See that an argument can be what it stands for, and not its class."""
    if isinstance(given, type) or not hasattr(given, has):
        raise TypeError(f"{name} must be one, such as {example}, not {given!r}")


def _echoes(leaf: BaseException, poison: BaseException | None) -> bool:
    return poison is not None and isinstance(leaf, Failed) and leaf.__cause__ is poison


def _say_closed(publisher: Publisher, report: CloseReport) -> None:
    if not publisher.ended:
        failures = len(report.failures) + report.failures_omitted
        publisher.publish(SupervisorClosed(report.reason, failures))
        publisher.end()
