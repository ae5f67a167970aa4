"""What the parts of a connection share: the store, the rooms, what is said, and how all stands."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple, Unpack, final

import trio
from trio.lowlevel import enable_ki_protection

from trio_reactor.channel import Publisher
from trio_reactor.errors import Closed, Failed, leaves
from trio_reactor.events import Event, FailureRecord
from trio_reactor.owner import Owner
from trio_reactor.rooms.errors import ReplicaError, RoomNotReadable
from trio_reactor.rooms.events import (
    MAX_NAMED_PATHS,
    DraftMade,
    ErasureFailed,
    RoomChanged,
    RoomErased,
    RoomLost,
    StatusChanged,
)
from trio_reactor.rooms.model.held import Draft
from trio_reactor.rooms.model.status import Attention, Reach, Status
from trio_reactor.rooms.model.terms import Terms
from trio_reactor.rooms.options import RoomsOptions
from trio_reactor.rooms.store.content import Content, Glance, Landing
from trio_reactor.rooms.store.file import Opened
from trio_reactor.rooms.store.writing import Writer
from trio_reactor.rooms.sync.standing import overall

from .generation import Generation
from .registry import Registry
from .room import Room

__all__ = ["Core", "only"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_log = logging.getLogger("trio_reactor.rooms")


@final
class Core:
    """What the parts of one connection share."""

    def __init__(
        self,
        owner: Owner,
        writer: Writer,
        publisher: Publisher,
        options: RoomsOptions,
        opened: Opened,
        wanted: frozenset[str] | None,
    ) -> None:
        self.owner = owner
        self.world = owner.world
        self.writer = writer
        self.publisher = publisher
        self.options = options
        self.incarnation = opened.stored.incarnation
        self.member = opened.stored.member
        self.epoch = opened.stored.epoch
        self.terms = Terms()
        self.reach: Reach = "connecting"
        self.halted = False
        self.stopping = False
        self.more: set[Attention] = set()
        self._synchronized = opened.stored.synchronized
        self._recorded = False
        self._recording = False
        self.registry = Registry(
            wanted=wanted,
            interrupted=opened.fences,
            most=options.max_rooms,
            on_standing=self.stood,
        )
        self._status = self._overall()
        self.registry.load(opened.rooms)
        self._status = self._overall()
        self.erasures: dict[str, trio.Event] = {}
        self.on_erased: Callable[[], None] = _nothing

    # ------------------------------------------------------------------------------------- saying

    @enable_ki_protection
    def say(self, event: Event) -> None:
        """Publish, unless everything has been said."""
        if not self.publisher.ended:
            self.publisher.publish(event)

    def say_changed(self, room: Room, landing: Landing) -> None:
        """Publish what is to be seen differently in a room."""
        paths = landing.paths
        if paths is not None and len(paths) > MAX_NAMED_PATHS:
            paths = None
        self.say(RoomChanged(room.name, landing.change, room.held, paths))

    def say_drafts(self, room: Room, drafts: tuple[Draft, ...]) -> None:
        """Publish that edits were given back."""
        for draft in drafts:
            self.say(DraftMade(room.name, draft.id, draft.reason, draft.code))

    # ------------------------------------------------------------------------------------- writing

    async def write(
        self,
        room: Room,
        work: Callable[[Content, int], T],
        committed: Callable[[T], None] | None = None,
    ) -> T:
        """Do work on a room's content; what it was found to wait for is taken in with it.

        Args:
            room: Which room; the work is given its number.
            work: Runs in the store's thread.
            committed: Called when it is durable, in the writer's step, unless the room was lost.

        Raises:
            RoomNotReadable: The room was lost, before or meanwhile.
            ReplicaError: It could not be written.
        """
        room.check()

        def run(content: Content) -> tuple[T, Glance]:
            number = content.room(room.name)
            if number is None:
                raise RoomNotReadable(room.name)
            found = work(content, number)
            return found, content.glance(number)

        def settle(found: tuple[T, Glance]) -> T:
            result, glance = found
            if not room.lost:
                room.glanced(glance)
                if committed is not None:
                    committed(result)
                self.registry.count(room)
            return result

        result = await self.writer.write(run, settle)
        room.check()
        return result

    async def read(self, room: Room, work: Callable[[Content, int], T]) -> T:
        """Read of a room's content.

        Raises:
            RoomNotReadable: The room was lost, before or meanwhile.
            ReplicaError: It could not be read.
        """
        room.check()

        def run(content: Content) -> T:
            number = content.room(room.name)
            if number is None:
                raise RoomNotReadable(room.name)
            return work(content, number)

        found = await self.writer.read(run)
        room.check()
        return found

    # -------------------------------------------------------------------------------------- asking

    async def ask(
        self,
        room: Room,
        generation: Generation,
        call: Callable[[Unpack[Ts]], Awaitable[T]],
        *args: Unpack[Ts],
    ) -> T:
        """Ask the authority about a room; pass both fences with its answer.

        Raises:
            RoomNotReadable: The room was lost meanwhile.
            Closed: The connection was.
            trio.TooSlowError: It took longer than `request_timeout`.
        """
        with trio.fail_after(self.options.request_timeout):
            found = await call(*args)
        room.check()
        generation.check()
        return found

    def landed(self, room: Room, generation: Generation, landing: Landing | int | None) -> None:
        """Let memory follow the store, say what has changed, and tell the provider.

        Args:
            room: Which room.
            generation: By which connection it came.
            landing: What was published; or, where nothing was, the version that is held.
        """
        room.faults = 0
        if isinstance(landing, Landing):
            room.held = landing.version
            self.say_changed(room, landing)
        else:
            room.held = landing
        if room.held is not None:
            room.known = max(room.known, room.held)
            if generation.live and generation.link is not None:
                generation.link.published(room.name, room.held)

    # -------------------------------------------------------------------------------------- losing

    @enable_ki_protection
    def fence(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Lose rooms in this one step, and have them erased.  Returns those that were not lost."""
        fresh, gone = self.registry.fence(names)
        for room in gone:
            self.say(RoomLost(room.name))
        if fresh:
            for name in fresh:
                self.erasures[name] = trio.Event()
            self._have_erased(fresh)
        return fresh

    def erase_interrupted(self, names: tuple[str, ...]) -> None:
        """Finish what an earlier process began to erase."""
        for name in names:
            self.erasures[name] = trio.Event()
        if names:
            self._have_erased(names)

    def _have_erased(self, names: tuple[str, ...]) -> None:
        # Both are queued in this step, so that nothing comes between, and close waits for both.
        try:
            marked = self.writer.submit(lambda content: content.fence(names), lambda _: None)
            self.owner.start_soon(
                self._erase, names, marked.wait, name="erasing what is lost", drain=True
            )
        except (Closed, Failed) as closed:
            self._not_erased(names, closed)

    async def _erase(self, names: tuple[str, ...], marked: Callable[[], Awaitable[None]]) -> None:
        try:
            await marked()
            await self.writer.erase(names, lambda: self._erased(names))
        except (ReplicaError, Closed) as failure:
            self._not_erased(names, failure)

    def _erased(self, names: tuple[str, ...]) -> None:
        self.registry.fences.erased(names)
        for name in names:
            self.say(RoomErased(name))
            self._settle_erasure(name)
        if not self.registry.fences.unerased:
            self.more.discard("erasure")
        self.stood()
        self.on_erased()

    def _not_erased(self, names: tuple[str, ...], failure: BaseException) -> None:
        self.more.add("erasure")
        self.say(ErasureFailed(names, FailureRecord.of(failure)))
        for name in names:
            self._settle_erasure(name)
        self.stood()

    def _settle_erasure(self, name: str) -> None:
        event = self.erasures.pop(name, None)
        if event is not None:
            event.set()

    # -------------------------------------------------------------------------------------- status

    @property
    def status(self) -> Status:
        """How all the rooms stand."""
        return self._status

    def reached(self, reach: Reach) -> None:
        """Take in how far the connection is."""
        self.reach = reach
        self.stood()

    @enable_ki_protection
    def stood(self) -> None:
        """Look at how all the rooms stand, and say so if that is new."""
        status = self._overall()
        quiet = (
            self.reach == "open"
            and not self.registry.tally.behind
            and not self.registry.tally.queued
        )
        if not quiet:
            self._recorded = False
        elif not self._recorded and not self._recording:
            self._record()
        if status != self._status:
            self._status = status
            self.say(StatusChanged(status))

    def _overall(self) -> Status:
        more: set[Attention] = set(self.more)
        if self.halted:
            more.add("writing-halted")
        return overall(
            self.registry.tally,
            reach=self.reach,
            synchronized=self._synchronized,
            recorded=self._recorded,
            more=more,
        )

    def _record(self) -> None:
        """Record that all is synchronized, before that is said."""
        at = self.world.wall()
        self._recording = True
        try:
            self.writer.submit(
                lambda content: content.set_fact("synchronized", repr(at)),
                lambda _: self._is_recorded(at),
            )
        except Closed:
            self._recording = False

    def _is_recorded(self, at: float) -> None:
        self._recording = False
        tally = self.registry.tally
        if self.reach == "open" and not tally.behind and not tally.queued:
            self._recorded = True
            self._synchronized = at
        self.stood()


def only(failure: BaseException) -> BaseException:
    """What a failure is about: the one in it, if it is a group of one."""
    found = list(leaves(failure))
    return found[0] if len(found) == 1 else failure


def _nothing() -> None:
    return
