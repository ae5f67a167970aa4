"""Following the authority: connecting, opening, listening, and beginning anew when it is lost.

An opening goes in this order.  What is there is discovered; a stream is told what is held and
answers which of it is beyond the horizon; every room is carried, those first; then what was found
to be beyond the horizon meanwhile is replaced; then conversations are caught up with; and only then
is the connection open.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, assert_never, final

import msgspec
import trio

from trio_reactor.errors import Lost, TimedOut, is_expected
from trio_reactor.events import FailureRecord
from trio_reactor.rooms import events
from trio_reactor.rooms.errors import (
    ConnectionRefused,
    ProviderFault,
    ReplicaError,
    ReplicaUnusable,
    TooLarge,
)
from trio_reactor.rooms.model.checking import check_discovery, check_listing, twice_listed
from trio_reactor.rooms.model.held import Draft
from trio_reactor.rooms.model.terms import CONTRACT, Discovery, Listing
from trio_reactor.rooms.provider.protocol import (
    Alive,
    Announced,
    Announcement,
    Client,
    Conversing,
    Holding,
    Link,
    Part,
    Provider,
    Relisted,
    Revoked,
    Said,
    Writing,
)
from trio_reactor.rooms.store.content import Content

from .carrying import Carrying
from .core import Core, only
from .generation import Generation
from .room import Room

__all__ = ["Following", "Wants"]

T = TypeVar("T")

_log = logging.getLogger("trio_reactor.rooms")
_announcement = msgspec.json.Decoder(Announcement).decode
_LEFT_BEHIND = 8
"""How many connections may be leaving at one time, before the next one waits for one of them."""


class Wants(msgspec.Struct, frozen=True):
    """What an application wants of its authority."""

    capabilities: tuple[str, ...] = ()
    """Without which it is of no use."""
    model: str | None = None
    """The identity of what documents mean; `None`: any."""


@final
class Following:
    """Keeps a connection to the authority, one generation after the other."""

    def __init__(self, core: Core, carrying: Carrying, provider: Provider, wants: Wants) -> None:
        self._core = core
        self._carrying = carrying
        self._provider = provider
        self._wants = wants
        self._count = 0
        self._leaving = trio.CapacityLimiter(_LEFT_BEHIND)
        self._again = trio.Event()
        self._owed = False
        self.current: Generation | None = None
        core.on_erased = self._erased

    def wake(self, room: Room) -> None:
        """See to it that a room is carried, if there is a connection."""
        self._carrying.wake(room, self.current)

    def _erased(self) -> None:
        generation = self.current
        if generation is not None and generation.live and self._owed:
            self._owed = False
            generation.relist()

    # ------------------------------------------------------------------------------- generations

    async def run(self) -> None:
        """Connect, and connect again, until everything is closed or stopped."""
        core, options = self._core, self._core.options
        pause = options.pause
        while not core.stopping:
            self._count += 1
            generation = Generation(self._count, reads=options.max_reads)
            self.current = generation
            core.halted = False
            core.reached("connecting")
            core.owner.start_soon(self._live, generation, name=f"connection {self._count}")
            await generation.over.wait()
            if core.stopping:
                break
            if generation.refusal is not None:
                refusal = generation.refusal
                self._again = trio.Event()
                core.reached("refused")
                core.say(
                    events.ConnectionRefused(
                        refusal.code, refusal.reauthorize, FailureRecord.of(refusal)
                    )
                )
                await self._again.wait()
                pause = options.pause
                continue
            if generation.completed:
                pause = options.pause
            wait = pause * (1 - options.jitter * core.world.random.random())
            core.reached("unreachable")
            core.say(
                events.ConnectionUnreachable(
                    generation.number,
                    FailureRecord.of(generation.failure or Lost("the connection was lost")),
                    wait,
                )
            )
            pause = min(pause * 2, options.max_pause)
            self._again = trio.Event()
            with trio.move_on_after(wait):
                await self._again.wait()
        core.reached("stopped")

    async def reauthorize(self) -> None:
        """Connect anew: after what is under way, if there is a connection, else at once."""
        generation = self.current
        if generation is not None and generation.live:
            await generation.wait_quiet()
            await self._core.writer.wait_quiet()
            generation.end(Lost("the connection is made anew"))
        self._again.set()
        await trio.lowlevel.checkpoint()

    def reopen(self) -> None:
        """Give the current connection up, and connect anew."""
        if self.current is not None:
            self.current.end(Lost("the connection is made anew"))
        self._again.set()

    async def _live(self, generation: Generation) -> None:
        """Live through one connection."""
        try:
            async with self._leaving:
                with generation.scope:
                    await self._connect(generation)
        except Exception as raised:  # noqa: BLE001 - what is a defect is raised again
            self._met(raised, generation)
        finally:
            generation.end()

    def _met(self, raised: Exception, generation: Generation) -> None:
        """Take in what ended a connection; what is a defect is raised."""
        failure = only(raised)
        generation.end(failure)
        if isinstance(failure, ReplicaUnusable) or not is_expected(failure):
            raise failure from None

    async def _connect(self, generation: Generation) -> None:
        core = self._core
        client = Client(core.incarnation, CONTRACT)
        attempt = core.owner.start(
            partial(self._provider.connect, client),
            name=f"connection {generation.number}",
            on_lost=lambda _: generation.end(Lost("the connection was lost")),
            on_ended=lambda ended: generation.end(
                only(ended.failure or Lost("the connection has ended"))
            ),
        )
        try:
            with trio.move_on_after(core.options.connect_timeout) as budget:
                await attempt.wait_opened()
            if budget.cancelled_caught:
                raise TimedOut("the authority took too long to connect")
            generation.check()
            generation.link = attempt.value
            async with trio.open_nursery() as nursery:
                generation.nursery = nursery
                try:
                    await self._open(generation, attempt.value)
                    await self._relist(generation, attempt.value)
                except Exception as raised:  # noqa: BLE001 - what is a defect is raised again
                    # Here, where nothing else is raised together with it.
                    self._met(raised, generation)
        finally:
            generation.nursery = None
            # A request, which its own task carries out: nobody waits for it here.
            attempt.request_retire()

    # ----------------------------------------------------------------------------------- opening

    async def _open(self, generation: Generation, link: Link) -> None:
        core = self._core
        core.reached("opening")
        await self._discover(generation, link)
        streams = link.events is not None
        generation.stage = "holding"
        for room in core.registry:
            room.unconfirmed = room.held is not None and not streams
            room.owed = room.expired = False
            room.offered = None
            room.resting = False
            room.faults = 0
            room.refused = None
        if streams:
            parts = await core.writer.read(lambda content: content.parts())
            versions = {
                room.name: room.held
                for room in core.registry
                if room.held is not None and room.listed and not room.renewed
            }
            assert generation.nursery is not None  # noqa: S101 - it is open
            expired = await self._ask(generation, partial(link.hold, Holding(versions, parts)))
            generation.nursery.start_soon(self._listen, generation, link, name="listening")
            for name in expired:
                found = core.registry.get(name)
                if found is not None and found.held == versions.get(name):
                    found.expired = True
        generation.stage = "carrying"
        self._wake_all(generation)
        await generation.wait_quiet()
        generation.check()
        generation.stage = "replacing"
        self._wake_all(generation)
        await generation.wait_quiet()
        generation.check()
        generation.stage = "talking"
        if isinstance(link, Conversing):
            for room in core.registry:
                room.unheard = room.held is not None and room.listing.position != room.position
            self._wake_all(generation)
            await generation.wait_quiet()
            generation.check()
        generation.stage = "open"
        generation.completed = True
        self._wake_all(generation)
        core.say(events.ConnectionOpened(core.member or "", generation.number))
        core.reached("open")

    def _wake_all(self, generation: Generation) -> None:
        # What the stream said to be expired goes first, each in its own task.
        for room in sorted(self._core.registry, key=lambda room: not room.expired):
            self._carrying.wake(room, generation)

    async def _relist(self, generation: Generation, link: Link) -> None:
        """Discover again whenever that is wanted."""
        while True:
            await generation.relisting.wait()
            generation.relisting = trio.Event()
            generation.discovering = True
            try:
                await self._discover(generation, link)
            finally:
                generation.discovering = False
            self._wake_all(generation)

    async def _ask(self, generation: Generation, call: Callable[[], Awaitable[T]]) -> T:
        with trio.fail_after(self._core.options.request_timeout):
            found = await call()
        generation.check()
        return found

    # -------------------------------------------------------------------------------- discovering

    async def _discover(self, generation: Generation, link: Link) -> None:
        """Find out what there is; what is lost, new, given back or owed follows from that."""
        core = self._core
        number = core.registry.fences.begin()
        with trio.fail_after(core.options.request_timeout):
            discovery = await link.discover()
        generation.check()
        check_discovery(discovery)
        await self._check_terms(generation, discovery)
        rooms, faulty = self._listings(discovery)
        names = {listing.room for listing in discovery.rooms}
        unlisted = [room for room in core.registry if room.name not in names]
        if discovery.terms.exhaustive:
            core.fence(tuple(room.name for room in unlisted))
            unlisted = []
        admission = core.registry.fences.admit((listing.room for listing in rooms), number)
        self._owed = self._owed or admission.owes
        if self._owed and not core.registry.fences.unerased:
            self._owed = False
            generation.relist()
        names = set(admission.admitted)
        admitted = [listing for listing in rooms if listing.room in names]
        await self._take_in(generation, discovery, admitted, unlisted)
        for fault in faulty:
            core.say(events.ProviderFaulty(fault.room, FailureRecord.of(fault)))
            faulted = None if fault.room is None else core.registry.get(fault.room)
            if faulted is not None:
                faulted.refused = "provider-fault"
                core.registry.count(faulted)

    def _listings(self, discovery: Discovery) -> tuple[list[Listing], list[ProviderFault]]:
        """The rooms that are listed as they have to be, and what is wrong with the others."""
        twice = twice_listed(discovery.rooms)
        faults = [
            ProviderFault(f"{name}: the room is listed twice", room=name) for name in sorted(twice)
        ]
        rooms: list[Listing] = []
        for listing in discovery.rooms:
            if listing.room in twice:
                continue
            try:
                check_listing(listing)
            except ProviderFault as fault:
                faults.append(fault)
            else:
                rooms.append(listing)
        return rooms, faults

    async def _check_terms(self, generation: Generation, discovery: Discovery) -> None:
        core, terms = self._core, discovery.terms
        if terms.contract != CONTRACT:
            raise ConnectionRefused(
                f"the authority speaks version {terms.contract} of the contract, not {CONTRACT}",
                code="contract",
            )
        missing = sorted(set(self._wants.capabilities) - set(terms.capabilities))
        if missing:
            raise ConnectionRefused(
                f"the authority cannot do what is needed: {', '.join(missing)}",
                code="capabilities",
            )
        if self._wants.model is not None and terms.model != self._wants.model:
            raise ConnectionRefused(
                "the authority's documents are of another model than this application's",
                code="model",
            )
        if core.member is not None and core.member != discovery.member:
            # Nothing of the former's is shown to the other: this ends everything.
            raise ReplicaUnusable(
                "the store belongs to another member than the one who is signed in",
                store=str(core.owner.name),
            )
        generation.terms = terms
        core.terms = terms

    async def _take_in(
        self,
        generation: Generation,
        discovery: Discovery,
        admitted: list[Listing],
        unlisted: list[Room],
    ) -> None:
        core = self._core
        restarted = core.epoch is not None and core.epoch != discovery.epoch
        written = core.world.wall()
        gone = [room.name for room in unlisted]

        def take(content: Content) -> dict[str, tuple[Draft, ...]]:
            if core.member is None:
                content.set_fact("member", discovery.member)
            content.set_fact("epoch", discovery.epoch)
            content.set_fact("terms", msgspec.json.encode(discovery.terms).decode())
            for listing in admitted:
                content.list_room(listing)
            for name in gone:
                content.unlist(name)
            given: dict[str, tuple[Draft, ...]] = {}
            if restarted:
                for held in content.rooms():
                    number = content.room(held.listing.room)
                    if number is not None and held.version is not None:
                        given[held.listing.room] = content.restored(number, 0, written=written)
            return given

        def taken(given: dict[str, tuple[Draft, ...]]) -> None:
            core.member = discovery.member
            core.epoch = discovery.epoch
            if restarted:
                count = sum(len(drafts) for drafts in given.values())
                core.say(events.AuthorityRestored(None, count))
            for listing in admitted:
                self._list(listing, given.get(listing.room), restarted=restarted)
            for room in unlisted:
                if not room.lost:
                    self._unlist(room)

        await core.writer.write(take, taken)
        generation.check()
        for listing in admitted:
            room = core.registry.get(listing.room)
            if (
                room is not None
                and room.held is not None
                and listing.version < room.held
                and not room.renewed
            ):
                await self._carrying.reading.restore(room, listing.version)
                generation.check()

    def _list(self, listing: Listing, drafts: tuple[Draft, ...] | None, *, restarted: bool) -> None:
        core = self._core
        if listing.room in core.registry.fences:
            return  # it was lost meanwhile
        try:
            room, fresh = core.registry.list(listing)
        except TooLarge as refusal:
            core.say(events.ProviderFaulty(listing.room, FailureRecord.of(refusal)))
            return
        if restarted and room.held is not None:
            room.renewed = True
            room.known = listing.version
            room.waiting = "nothing" if room.waiting == "accepted" else room.waiting
            if drafts:
                room.drafts += len(drafts)
                core.say_drafts(room, drafts)
        room.known = max(room.known, listing.version)
        if room.held is not None and room.selection != listing.selection:
            room.renewed = True
        if fresh:
            core.say(events.RoomListed(listing, room.held is not None))
        core.registry.count(room)

    def _unlist(self, room: Room) -> None:
        core = self._core
        kept = room.held is not None
        if kept and not room.listed:
            return
        if kept:
            room.listed = False
            core.registry.count(room)
        else:
            core.registry.drop(room)
        core.say(events.RoomUnlisted(room.name, kept))

    # ---------------------------------------------------------------------------------- listening

    async def _listen(self, generation: Generation, link: Link) -> None:
        """Hear what is announced, until the stream ends."""
        core = self._core
        stream = link.events
        assert stream is not None  # noqa: S101 - it streams
        timeout = core.options.heartbeat_timeout
        try:
            while True:
                try:
                    with trio.fail_after(math.inf if timeout is None else timeout):
                        announcement = await stream.receive()
                except trio.EndOfChannel:
                    generation.end(Lost("the authority ended the stream"))
                    return
                except trio.TooSlowError:
                    generation.end(TimedOut("the authority's stream has fallen silent"))
                    return
                generation.check()
                await self._hear(generation, announcement)
        except Exception as raised:
            failure = only(raised)
            if isinstance(failure, ProviderFault):
                core.say(events.ProviderFaulty(failure.room, FailureRecord.of(failure)))
            elif not is_expected(failure):
                raise
            generation.end(failure)

    async def _hear(self, generation: Generation, announcement: Announcement) -> None:
        core = self._core
        match announcement:
            case Announced(room=name, version=version, change=change):
                room = core.registry.get(name)
                if room is None or not room.listed:
                    if name not in core.registry.fences:
                        generation.relist()
                    return
                room.known = max(room.known, version)
                if change is not None and change.room == name and change.since == room.held:
                    room.offered = change
                self._carrying.wake(room, generation)
            case Revoked(room=name):
                core.fence((name,))
            case Relisted():
                generation.relist()
            case Said(room=name):
                room = core.registry.get(name)
                if room is not None:
                    room.unheard = room.held is not None
                    self._carrying.wake(room, generation)
            case Writing(allowed=allowed):
                core.halted = not allowed
                core.stood()
                if allowed:
                    self._wake_all(generation)
            case Alive():
                pass
            case Part():
                whole = await self._keep(announcement)
                generation.check()
                if whole is not None:
                    await self._hear(generation, whole)
            case _:
                assert_never(announcement)

    async def _keep(self, part: Part) -> Announcement | None:
        """Keep a part of an announcement, durably; returns the announcement once it is whole."""
        core = self._core
        if part.room in core.registry.fences:
            return None
        if not 0 <= part.number < part.of <= core.options.max_part_bytes:
            raise ProviderFault(f"part {part.number} of {part.of}", room=part.room or None)
        try:
            data = await core.writer.write(
                lambda content: content.keep_part(
                    part.key,
                    part.number,
                    part.of,
                    part.room,
                    part.data,
                    most=core.options.max_part_bytes,
                ),
                lambda found: found,
            )
        except ReplicaError:
            return Relisted()  # what it would have said is found out in another way
        if data is None:
            return None
        try:
            whole = _announcement(data)
        except msgspec.MsgspecError as failure:
            fault = ProviderFault(
                "an announcement cannot be decoded", room=part.room or None, detail=str(failure)
            )
            self._set_aside(fault)
            return None
        return None if isinstance(whole, Part) else whole

    def _set_aside(self, fault: ProviderFault) -> None:
        """Read the one room anew that something undecodable is about."""
        core = self._core
        core.say(events.ProviderFaulty(fault.room, FailureRecord.of(fault)))
        room = None if fault.room is None else core.registry.get(fault.room)
        if room is None:
            if self.current is not None:
                self.current.relist()
            return
        room.renewed = True
        self.wake(room)
