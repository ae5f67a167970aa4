"""The handle: what an application does with its rooms."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import TypeVar, TypeVarTuple, Unpack, final

import msgspec
import trio
from pydantic import BaseModel

from trio_reactor.channel import Subscription
from trio_reactor.errors import Closed, Overflow, ReactorError
from trio_reactor.events import Event
from trio_reactor.rooms.errors import (
    ActionRefused,
    ErasureFailed,
    ProviderFault,
    RoomNotHeld,
    RoomNotReadable,
    RoomRefused,
    RoomsStopped,
    TooLarge,
)
from trio_reactor.rooms.events import EditQueued, RoomChanged, RoomLost, StatusChanged
from trio_reactor.rooms.model.answers import HistoryPage, Message
from trio_reactor.rooms.model.collections import Collection, Item
from trio_reactor.rooms.model.edits import Delete, Move, Operation, Put, PutBinary
from trio_reactor.rooms.model.entries import Binary, digest_of
from trio_reactor.rooms.model.held import Draft, QueuedEdit, Seen
from trio_reactor.rooms.model.inputs import checked_inputs
from trio_reactor.rooms.model.names import check_name
from trio_reactor.rooms.model.paths import check_path, check_root
from trio_reactor.rooms.model.status import RoomStatus, Status
from trio_reactor.rooms.model.terms import Action, Listing, Terms
from trio_reactor.rooms.provider.protocol import Acting, Historic, Link, Storing
from trio_reactor.rooms.store.content import BLOB_BYTES, Content, Found, Landing

from .core import Core
from .following import Following
from .generation import Generation
from .room import Room
from .watching import Rows, Watch

__all__ = ["Rooms", "RoomsStatistics"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
M = TypeVar("M", bound=BaseModel)


class RoomsStatistics(msgspec.Struct, frozen=True):
    """What a connection holds and does at one moment."""

    rooms: int
    carried: int
    """Rooms that something is being done about."""
    writes: int
    """Pieces of work that wait for the store."""
    erasing: int
    generation: int
    """How many connections were made."""


@final
class Rooms:
    """Local-first replicas of many rooms.  Made by `open_rooms`, and narrowed by `within`.

    What is held can be read and edited at any time, whether or not the authority is there.
    """

    def __init__(
        self,
        core: Core,
        following: Following,
        collections: tuple[Collection[BaseModel], ...],
        reach: frozenset[str] | None = None,
    ) -> None:
        self._core = core
        self._following = following
        self._collections = collections
        self._reach = reach
        self.events = core.publisher
        """What it has to say, to be observed (`trio_reactor.rooms.events`)."""

    def __repr__(self) -> str:
        return f"<Rooms {self._core.owner.name}: {len(self._core.registry)} rooms>"

    # --------------------------------------------------------------------------------- the listing

    def listed(self) -> tuple[Listing, ...]:
        """The rooms that there are, in the order in which they came, held or not."""
        return tuple(room.listing for room in self._core.registry if self._reaches(room.name))

    @property
    def member(self) -> str | None:
        """Who is signed in, or was when this store was last connected; `None`: nobody yet."""
        return self._core.member

    @property
    def terms(self) -> Terms:
        """What the authority offers and allows, as it said last."""
        return self._core.terms

    def status(self) -> Status:
        """How all the rooms stand."""
        return self._core.status

    def room_status(self, room: str) -> RoomStatus:
        """How one room stands.

        Raises:
            RoomNotReadable: It is lost, or out of reach.
            RoomNotHeld: There is no such room.
        """
        reachable = self._core.reach in {"opening", "open"}
        return self._core.registry.status(self._find(room), reachable=reachable)

    def statistics(self) -> RoomsStatistics:
        """What it holds and does now; also after close."""
        generation = self._following.current
        return RoomsStatistics(
            rooms=len(self._core.registry),
            carried=0 if generation is None else generation.carried,
            writes=self._core.writer.waiting,
            erasing=len(self._core.erasures),
            generation=0 if generation is None else generation.number,
        )

    def within(self, rooms: Iterable[str]) -> Rooms:
        """A handle that reaches only these rooms, and no more than this one does."""
        reach = frozenset(check_name("a room's name", room) for room in rooms)
        if self._reach is not None:
            reach &= self._reach
        return Rooms(self._core, self._following, self._collections, reach)

    def ask_for(self, rooms: Iterable[str]) -> None:
        """Hold rooms from now on, if only those asked for are held."""
        for room in self._core.registry.want(rooms):
            self._following.wake(room)

    # ------------------------------------------------------------------------------------- reading

    async def read(self, room: str, path: str) -> Seen | None:
        """What is at a path, edits that are on their way included; `None`: nothing.

        Raises:
            RoomNotReadable, RoomNotHeld: Nothing of the room can be read.
            ReplicaError: The store could not be read.
            ValueError, TypeError: The path cannot be one.
        """
        found, path = self._held(room), check_path(path)
        return await self._core.read(
            found, lambda content, number: content.overlay.seen(number, path)
        )

    async def documents(
        self, room: str, *, root: str = "", after: str = "", most: int = 1_000
    ) -> tuple[Seen, ...]:
        """What is in a room, in the order of the paths, from after one of them on.

        Args:
            room: Which room.
            root: Only what is beneath this directory.
            after: A path; the last one of the page before.
            most: How many at most.

        Raises:
            RoomNotReadable, RoomNotHeld, ReplicaError, ValueError: As of `read`.
        """
        found, root = self._held(room), check_root(root)
        return tuple(
            await self._core.read(
                found,
                lambda content, number: content.seen(number, root=root, after=after, most=most),
            )
        )

    async def search(
        self, text: str, *, rooms: Iterable[str] | None = None, most: int = 20
    ) -> tuple[Found, ...]:
        """Documents that hold all of these words, the best first.

        Args:
            text: Words; the last one may be the beginning of one.
            rooms: In which rooms; by default all that this handle reaches.
            most: How many at most.

        Raises:
            ReplicaError: The store could not be read.
        """
        query = _query(text)
        among = self._among(rooms)
        if not query or among == ():
            await trio.lowlevel.checkpoint()
            return ()
        found = await self._core.writer.read(lambda content: content.search(query, among, most))
        # What was lost meanwhile is not shown, nor what came back since under the same name.
        return tuple(each for each in found if self._core.registry.get(each.room) is not None)

    def _among(self, rooms: Iterable[str] | None) -> tuple[str, ...] | None:
        if rooms is None:
            return None if self._reach is None else tuple(sorted(self._reach))
        return tuple(name for name in dict.fromkeys(rooms) if self._reaches(name))

    @asynccontextmanager
    async def watch(
        self, room: str, *, root: str = "", capacity: int = 1_024
    ) -> AsyncGenerator[Watch]:
        """See what is in a room, and then every change of it, with no gap between them.

        Args:
            room: Which room.
            root: Only what is beneath this directory.
            capacity: How many events it may fall behind, before it gets the whole again.

        Raises:
            RoomNotReadable, RoomNotHeld, ReplicaError, ValueError: As of `read`.
        """
        found, root = self._held(room), check_root(root)

        async def look(paths: tuple[str, ...] | None) -> Rows:
            def rows(content: Content, number: int) -> Rows:
                if paths is None:
                    return Rows(tuple(content.seen(number, root=root)), content.change)
                each = (content.overlay.seen(number, path) for path in paths)
                return Rows(tuple(seen for seen in each if seen is not None), content.change)

            return await self._core.read(found, rows)

        with ExitStack() as stack:

            def subscribe() -> Subscription[Event]:
                return stack.enter_context(
                    self.events.subscribe(RoomChanged, RoomLost, capacity=capacity)
                )

            events = subscribe()
            first = await look(None)
            yield Watch(room, root, events, first, look, subscribe)

    async def items(self, room: str, collection: Collection[M]) -> tuple[Item[M], ...]:
        """The documents of a typed collection, each with its value or with what is wrong with it.

        Raises:
            RoomNotReadable, RoomNotHeld, ReplicaError: As of `read`.
        """
        found = self._held(room)
        seen = await self._core.read(
            found, lambda content, number: content.seen(number, root=collection.root)
        )
        return tuple(collection.item(each) for each in seen if collection.takes(each))

    # ------------------------------------------------------------------------------------- writing

    async def edit(
        self, room: str, *operations: Operation, seen: Mapping[str, int] | None = None
    ) -> QueuedEdit:
        """Change a room in one step: it is seen at once, durable when this returns, and sent on.

        Cancelling only leaves: the edit may be queued all the same.

        Args:
            room: Which room.
            *operations: What is changed; their bases are set here.
            seen: The revisions that the author saw, by path: whatever is not of that revision any
                more is refused.

        Raises:
            EditRefused: It cannot be made: `read-only`, `gone`, `exists`, `stale`, `collision`,
                `invalid`; nothing was queued.
            PathRefused: A path cannot be one.
            TooLarge: It, or what waits already, is over a bound.
            RoomNotReadable, RoomNotHeld: There is no such room here, or it was lost meanwhile.
            ReplicaError: The store could not take it.
            RoomsStopped: The connection is stopping.
        """
        return await self._edit(room, operations, seen, {})

    async def _edit(
        self,
        room: str,
        operations: tuple[Operation, ...],
        seen: Mapping[str, int] | None,
        blobs: Mapping[str, bytes],
    ) -> QueuedEdit:
        core = self._core
        self._check_open()
        found = self._held(room)
        seen = {check_path(path): revision for path, revision in (seen or {}).items()}

        def queue(content: Content, number: int) -> tuple[QueuedEdit, Landing]:
            edit, paths = content.outbox.queue(
                number,
                room,
                operations,
                seen=seen,
                readonly=found.listing.readonly,
                limits=core.terms.limits,
                most=core.options.max_queued,
            )
            for digest, data in blobs.items():
                content.keep_blob(number, digest, data)
            version = content.version(number) or 0
            return edit, Landing(version, tuple(sorted(paths)), content.next_change())

        def queued(result: tuple[QueuedEdit, Landing]) -> None:
            edit, landing = result
            core.say(EditQueued(room, edit.id))
            core.say_changed(found, landing)
            self._following.wake(found)

        edit, _ = await core.write(found, queue, queued)
        return edit

    async def write(
        self, room: str, path: str, text: str, *, seen: int | None = None
    ) -> QueuedEdit:
        """Write a document; see `edit`."""
        return await self.edit(room, Put(path, text), seen=None if seen is None else {path: seen})

    async def delete(self, room: str, path: str, *, seen: int | None = None) -> QueuedEdit:
        """Delete what is at a path; see `edit`."""
        return await self.edit(room, Delete(path), seen=None if seen is None else {path: seen})

    async def move(self, room: str, path: str, to: str, *, seen: int | None = None) -> QueuedEdit:
        """Move what is at a path to another one; see `edit`."""
        return await self.edit(room, Move(path, to), seen=None if seen is None else {path: seen})

    async def attach(self, room: str, path: str, data: bytes) -> QueuedEdit:
        """Write a binary; its bytes are durable here until the authority has them.  See `edit`."""
        digest = digest_of(data)
        return await self._edit(room, (PutBinary(path, digest, len(data)),), None, {digest: data})

    async def edits(self, room: str) -> tuple[QueuedEdit, ...]:
        """The edits of a room that have not come back from the authority, in their order."""
        return await self._core.read(
            self._find(room), lambda content, number: content.outbox.edits(number)
        )

    async def drafts(self, room: str) -> tuple[Draft, ...]:
        """The edits of a room that were given back, the oldest first."""
        return await self._core.read(
            self._find(room), lambda content, number: content.outbox.drafts(number)
        )

    async def discard(self, room: str, draft: int) -> bool:
        """Delete a draft for good; returns whether it was there."""
        self._check_open()
        return await self._core.write(
            self._find(room), lambda content, number: content.outbox.discard(number, draft)
        )

    async def resubmit(self, room: str, draft: int) -> QueuedEdit:
        """Make an edit of a draft again, on what is there now, in one step.

        Raises:
            KeyError: There is no such draft.
            ReactorError: As of `edit`; it stays a draft then.
        """
        core = self._core
        self._check_open()
        found = self._held(room)

        def queue(content: Content, number: int) -> tuple[QueuedEdit, Landing] | None:
            drafts = {each.id: each for each in content.outbox.drafts(number)}
            if draft not in drafts:
                return None
            edit, paths = content.outbox.queue(
                number,
                room,
                [step.operation for step in drafts[draft].steps],
                seen={},
                readonly=found.listing.readonly,
                limits=core.terms.limits,
                most=core.options.max_queued,
            )
            content.outbox.discard(number, draft)
            version = content.version(number) or 0
            return edit, Landing(version, tuple(sorted(paths)), content.next_change())

        def queued(result: tuple[QueuedEdit, Landing] | None) -> None:
            if result is not None:
                core.say(EditQueued(room, result[0].id))
                core.say_changed(found, result[1])
                self._following.wake(found)

        result = await core.write(found, queue, queued)
        if result is None:
            raise KeyError(draft)
        return result[0]

    # -------------------------------------------------------------------------------- conversations

    async def say(self, room: str, thread: str, text: str) -> str:
        """Say something in a thread; durable when this returns, and said as soon as possible.

        Returns:
            The message's id.

        Raises:
            TooLarge: It is too long, or too much waits already.
            RoomNotReadable, RoomNotHeld, ReplicaError, RoomsStopped: As of `edit`.
        """
        core = self._core
        self._check_open()
        found = self._held(room)
        check_name("a thread's name", thread)
        size, most = len(text.encode()), core.terms.limits.max_message_bytes
        if size > most:
            raise TooLarge(
                f"{room}: a message of {size} bytes; max_message_bytes is {most}",
                bound="max_message_bytes",
                limit=most,
            )
        if found.unsaid >= core.options.max_unsaid:
            raise TooLarge(
                f"{room}: {found.unsaid} messages wait already",
                bound="max_unsaid",
                limit=core.options.max_unsaid,
                retryable=True,
            )
        message = core.world.token()
        await core.write(
            found,
            lambda content, number: content.want_said(number, thread, message, text),
            lambda _: self._following.wake(found),
        )
        self._following.wake(found)
        return message

    async def messages(
        self, room: str, thread: str, *, after: int = 0, most: int = 1_000
    ) -> tuple[Message, ...]:
        """What was said in a thread, in its order, after a number."""
        return tuple(
            await self._core.read(
                self._held(room),
                lambda content, number: content.messages(number, thread, after, most),
            )
        )

    # -------------------------------------------------------------------- asking the authority

    async def history(self, room: str, path: str, *, token: str | None = None) -> HistoryPage:
        """What was at a path, the newest first; asked of the authority.

        Raises:
            RoomNotReadable: The room is lost, or was meanwhile.
            RoomRefused: The authority refuses it, or has no history.
            Closed, Lost, TimedOut, OSError: It is not there, or was lost meanwhile.
        """
        found, path = self._find(room), check_path(path)
        generation, link = self._link()
        if not isinstance(link, Historic):
            raise RoomRefused(room, "history")
        page = await self._ask(found, generation, link.history, room, path, token)
        if page.room != room or page.path != path:
            raise ProviderFault(f"{room}: the history of something else was given", room=room)
        return page

    async def binary(self, room: str, path: str) -> bytes:
        """The bytes at a path: those held here, or else the authority's, which are kept then.

        Raises:
            FileNotFoundError: There is no binary at this path.
            ProviderFault: What the authority gave has another digest.
            RoomNotReadable, RoomRefused, Closed, Lost, TimedOut, OSError: As of `history`.
        """
        seen = await self.read(room, path)
        if seen is None or not isinstance(seen.entry, Binary):
            raise FileNotFoundError(f"{room}: {path}: there is no binary here")
        return await self.binary_of(room, seen.entry)

    async def binary_of(self, room: str, binary: Binary) -> bytes:
        """The bytes of a binary that a room refers to; see `binary`."""
        found = self._find(room)
        digest, size = binary.digest, binary.size
        held = await self._core.read(found, lambda content, number: content.blob(number, digest))
        if held is not None:
            return held
        generation, link = self._link()
        if not isinstance(link, Storing):
            raise RoomRefused(room, "binaries")
        data = bytearray()
        while len(data) < size:
            at = len(data)
            piece = await self._ask(found, generation, link.binary, room, digest, at, BLOB_BYTES)
            data += piece
            if not piece or len(data) > size:
                break
        whole = bytes(data)
        if len(whole) != size or digest_of(whole) != digest:
            raise ProviderFault(f"{room}: the bytes given are not the binary's", room=room)
        await self._core.write(
            found, lambda content, number: content.keep_blob(number, digest, whole)
        )
        return whole

    def actions(self, room: str | None = None) -> tuple[Action, ...]:
        """What the authority can be asked to do: at all, or about a room."""
        if room is None:
            return self._core.terms.actions
        return self._find(room).listing.actions

    async def act(
        self,
        action: str,
        inputs: Mapping[str, str | int | float | bool] | None = None,
        *,
        room: str | None = None,
    ) -> str:
        """Ask the authority to do something, once; returns what it says, for a person.

        Raises:
            ActionRefused: There is no such action, or its input is not what it takes; nothing was
                sent.
            RoomNotReadable, RoomRefused, Closed, Lost, TimedOut, OSError: As of `history`.
        """
        offered = {each.name: each for each in self.actions(room)}
        if action not in offered:
            raise ActionRefused(action, "there is no such action")
        given = checked_inputs(offered[action], inputs or {})
        generation, link = self._link()
        if not isinstance(link, Acting):
            raise ActionRefused(action, "the authority takes no actions")
        found = None if room is None else self._find(room)
        return await self._ask(found, generation, link.act, action, room, given)

    def _link(self) -> tuple[Generation, Link]:
        generation = self._following.current
        if generation is None or not generation.live or generation.link is None:
            raise Closed("the authority is not there", retryable=True)
        return generation, generation.link

    async def _ask(
        self,
        room: Room | None,
        generation: Generation,
        call: Callable[[Unpack[Ts]], Awaitable[T]],
        *args: Unpack[Ts],
    ) -> T:
        """Ask the authority; what comes back for a room that was lost meanwhile is not shown."""
        try:
            with trio.fail_after(self._core.options.request_timeout):
                found = await call(*args)
        except ReactorError as failure:
            if room is not None:
                room.check()
            if isinstance(failure, RoomNotReadable) and room is not None:
                self._core.fence((room.name,))
            raise
        if room is not None:
            room.check()
        return found

    # --------------------------------------------------------------------------------- the whole

    async def lose(self, rooms: Iterable[str]) -> None:
        """Forget rooms, at once and for good.

        Nothing of them is shown from the moment this is called; when it returns, nothing is left of
        them in the store's files.  Cancelling only leaves: it goes on, if need be at the next
        start.

        Raises:
            ErasureFailed: Something is left; they stay lost, and the next start tries again.
        """
        names = tuple(check_name("a room's name", room) for room in rooms)
        names = tuple(name for name in names if self._reaches(name))
        self._core.fence(names)
        for name in names:
            event = self._core.erasures.get(name)
            if event is not None:
                await event.wait()
        await trio.lowlevel.checkpoint()
        left = tuple(name for name in self._core.registry.fences.unerased if name in names)
        if left:
            raise ErasureFailed(left)

    async def refresh(self) -> None:
        """Ask the authority for whatever is new, where it does not announce that by itself."""
        generation = self._following.current
        if generation is not None and generation.live:
            for room in self._core.registry:
                room.unconfirmed = room.held is not None
            generation.relist()
        await trio.lowlevel.checkpoint()

    async def reauthorize(self) -> None:
        """Connect anew, signing in again: after what is under way is done."""
        await self._following.reauthorize()

    async def wait_synchronized(self) -> Status:
        """Sleep until all is synchronized; returns how it stands then."""
        while True:
            with self.events.observe(self.status, StatusChanged) as (_, changes):
                try:
                    while self.status().state != "synchronized":
                        await changes.receive()
                except Overflow:
                    continue  # what matters is how it stands now
                await trio.lowlevel.checkpoint()
                return self.status()

    async def stop(self, timeout: float) -> bool:
        """Take no more edits, and finish what was begun and queued, within a budget.

        Args:
            timeout: Seconds.

        Returns:
            Whether nothing is left; what is left is durable, and goes on at the next start.
        """
        core = self._core
        core.stopping = True
        generation = self._following.current
        done = False
        with trio.move_on_after(timeout):
            await core.writer.wait_quiet()
            if generation is not None and generation.live:
                await generation.wait_quiet()
            await core.writer.wait_quiet()
            done = not core.registry.tally.queued
        if generation is not None:
            generation.end()
        core.reached("stopped")
        return done

    # ------------------------------------------------------------------------------------ checking

    def _reaches(self, name: str) -> bool:
        return self._reach is None or name in self._reach

    def _find(self, name: str) -> Room:
        self._core.owner.check()
        if not self._reaches(name):
            raise RoomNotReadable(name, f"{name}: this room is out of reach of this handle")
        return self._core.registry.find(name)

    def _held(self, name: str) -> Room:
        room = self._find(name)
        if room.held is None:
            raise RoomNotHeld(name)
        return room

    def _check_open(self) -> None:
        self._core.owner.check()
        if self._core.stopping:
            raise RoomsStopped("the connection is stopping and takes no more edits")


def _query(text: str) -> str:
    """Words as a full-text query: all of them, and the last as a beginning."""
    words = ['"' + word.replace('"', '""') + '"' for word in text.replace("\0", " ").split()]
    if not words:
        return ""
    return " ".join(words) + "*"
