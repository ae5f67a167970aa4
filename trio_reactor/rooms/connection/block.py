"""Opening a connection to rooms: its block, and what it says last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from pydantic import BaseModel

from trio_reactor.channel import EventChannel, Publisher
from trio_reactor.errors import Lost
from trio_reactor.owner import CloseReport, Owner, OwnerOptions, open_owner
from trio_reactor.rooms.errors import ReplicaUnusable
from trio_reactor.rooms.events import RoomsClosed, StorageLost
from trio_reactor.rooms.model.collections import Collection
from trio_reactor.rooms.model.names import check_name
from trio_reactor.rooms.model.terms import Terms
from trio_reactor.rooms.options import RoomsOptions
from trio_reactor.rooms.provider.protocol import Provider
from trio_reactor.rooms.store.file import ReplicaStore
from trio_reactor.rooms.store.writing import Writer
from trio_reactor.rooms.sync.answering import Merge
from trio_reactor.world import SystemWorld, World

from .carrying import Carrying
from .core import Core
from .following import Following, Wants
from .rooms import Rooms

__all__ = ["open_rooms"]


@asynccontextmanager
async def open_rooms(
    provider: Provider,
    store: ReplicaStore,
    *,
    member: str | None = None,
    rooms: Iterable[str] | None = None,
    collections: Iterable[Collection[Any]] = (),
    wants: Wants | None = None,
    options: RoomsOptions | None = None,
    events: EventChannel | None = None,
    world: World | None = None,
    name: str = "rooms",
) -> AsyncGenerator[Rooms]:
    """Hold rooms: local copies that follow their authority, and can be edited without it.

    Entering opens what is held, and waits for nobody else; the authority is connected to in the
    background, again and again.  Leaving closes at once: what was acknowledged is durable, and goes
    on at the next start.

    Args:
        provider: How the authority is reached.
        store: Where the copies are.
        member: Who is expected to be signed in; a store of another member's is refused.
        rooms: The rooms that are to be held, by name; `None`: all.  Of the others there is the
            listing only.
        collections: The typed collections whose documents are to be merged.
        wants: What the authority must be able to do.
        options: Budgets and bounds.
        events: The application's channel, if it has one; else the handle has one of its own.
        world: Where clocks, chance and tokens come from; the real ones by default.
        name: What it is called in messages and events.

    Raises:
        TypeError, ValueError: An argument cannot be; it is named, and nothing was opened.
        ReplicaBusy, ReplicaUnusable, ReplicaFailed: The store could not be opened; nothing in it
            was changed.
        BaseException: What the block of an owner raises.
    """
    options = RoomsOptions() if options is None else options
    _check("provider", provider, "connect", "LocalProvider(path, member='ada')")
    _check("store", store, "open", "ReplicaStore(path)")
    wanted = None
    if rooms is not None:
        if isinstance(rooms, str):
            raise TypeError(f"rooms: names of rooms, not the text {rooms!r}")
        wanted = frozenset(check_name("a room's name", room) for room in rooms)
    if member is not None:
        check_name("member", member)
    typed = tuple(collections)
    world = world or SystemWorld()
    publisher = (events or EventChannel(world=world)).publisher(name)
    budgets = OwnerOptions(
        cleanup_timeout=options.close_timeout, retire_timeout=options.close_timeout
    )
    async with open_owner(name, world=world, options=budgets) as owner:
        owner.on_closed(lambda report: _say_closed(publisher, report))
        owner.on_failed(publisher.fail)
        attempt = await owner.acquire(
            lambda: store.open(world),
            name=f"store of {name}",
            on_lost=lambda _: owner.start_soon(_lost, name),
        )
        opened_store, opened = attempt.value
        if member is not None and opened.stored.member not in {None, member}:
            raise ReplicaUnusable(
                f"{store.path}: this store is of another member", store=store.path
            )
        writer = Writer(opened_store, on_failed=lambda failure: _fail(owner, failure))
        core = Core(owner, writer, publisher, options, opened, wanted)
        terms = await writer.read(lambda content: content.fact("terms"))
        if terms is not None:
            core.terms = msgspec.json.decode(terms, type=Terms)

        def merge_of(room: str, path: str) -> Merge | None:
            for collection in typed:
                if collection.covers(path):
                    return collection.merge
            return None

        following = Following(core, Carrying(core, merge_of), provider, wants or Wants())
        if opened.loss is not None:
            core.say(StorageLost(opened.loss))
        owner.start_soon(writer.run, name=f"writer of {name}", drain=True)
        owner.start_soon(_close_writer, owner, writer, name="closing the writer", drain=True)
        core.erase_interrupted(opened.fences)
        owner.start_soon(following.run, name=f"following of {name}")
        models: tuple[Collection[BaseModel], ...] = typed
        yield Rooms(core, following, models)


async def _close_writer(owner: Owner, writer: Writer) -> None:
    """Let the writer finish what is queued when everything is closed."""
    await owner.closing.wait()
    writer.close()


async def _lost(name: str) -> None:
    """Fail: without its store there are no rooms."""
    raise Lost(f"the store of {name} was lost")


def _fail(owner: Owner, failure: BaseException) -> None:
    async def raise_it() -> None:
        raise failure

    if not owner.closing.is_set:
        owner.start_soon(raise_it, name="the store has failed")


def _check(name: str, given: object, has: str, example: str) -> None:
    """See that an argument can be what it stands for, and not its class."""
    if isinstance(given, type) or not hasattr(given, has):
        raise TypeError(f"{name} must be one, such as {example}, not {given!r}")


def _say_closed(publisher: Publisher, report: CloseReport) -> None:
    if not publisher.ended:
        publisher.publish(
            RoomsClosed(report.reason, len(report.failures) + report.failures_omitted)
        )
        publisher.end()
