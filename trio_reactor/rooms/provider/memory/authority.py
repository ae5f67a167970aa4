"""The authority: what it has, what its operator can do, and what it answers its links.

Everything here is synchronous, so each method is one step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

import msgspec

from trio_reactor.errors import Lost
from trio_reactor.rooms.errors import ActionRefused, ConnectionRefused, RoomNotReadable, RoomRefused
from trio_reactor.rooms.model.answers import (
    Accepted,
    Advanced,
    Answer,
    Halted,
    Message,
    Rejected,
    Retry,
)
from trio_reactor.rooms.model.edits import Delete, Operation, Put, PutBinary, Submission
from trio_reactor.rooms.model.entries import digest_of
from trio_reactor.rooms.model.names import check_name
from trio_reactor.rooms.model.paths import check_root
from trio_reactor.rooms.model.terms import CONTRACT, Action, Discovery, Limits, Listing, Terms
from trio_reactor.rooms.provider.deciding import Remembered, recall
from trio_reactor.rooms.provider.protocol import (
    Announced,
    Announcement,
    Client,
    Relisted,
    Revoked,
    Said,
    Writing,
)
from trio_reactor.world import World

from .announcing import Announcements
from .options import MemoryOptions
from .parting import Parting
from .room import Room
from .transfers import Transfers
from .uploads import Uploads

__all__ = ["Copy", "Grant", "Handler", "Inputs", "MemoryAuthority"]

Inputs: TypeAlias = Mapping[str, str | int | float | bool]

Handler: TypeAlias = Callable[[str, str | None, Inputs], str]
"""Does what an action is for; given the member, the room and the inputs."""

OPERATOR: Final = "operator"
"""Who writes what nobody else is said to have written."""


class Grant(msgspec.Struct, frozen=True):
    """That a member may read a room, and what more."""

    readonly: tuple[str, ...] = ()
    """Directories that may not be written."""
    selection: str = ""


class Copy(msgspec.Struct, frozen=True):
    """An authority as it was once; for `MemoryAuthority.restore`."""

    epoch: str
    rooms: Mapping[str, Room]
    ended: Mapping[str, int]
    grants: Mapping[str, Mapping[str, Grant]]


@final
class MemoryAuthority:
    """An authority in memory.

    Args:
        world: Its time and its names.
        options: How it behaves, and what it keeps.
        limits: What it takes at most, as it tells its clients.
    """

    def __init__(
        self, *, world: World, options: MemoryOptions | None = None, limits: Limits | None = None
    ) -> None:
        self.options = MemoryOptions() if options is None else options
        self.limits = Limits() if limits is None else limits
        self.epoch = world.token()
        self.halted = False
        self.reachable = True
        """Whether anybody can connect."""
        self._world = world
        self._rooms: dict[str, Room] = {}
        self._ended: dict[str, int] = {}
        self._grants: dict[str, dict[str, Grant]] = {}
        self._links: dict[int, Announcements] = {}
        self._connected = 0
        self._refused: dict[str, tuple[str, bool]] = {}
        self._actions: dict[str, tuple[Action, Handler]] = {}
        self._answers: dict[str, deque[Answer]] = {}
        self.transfers = Transfers(self.options, lambda: world.identifier("transfer"))
        self.uploads = Uploads(self.options.max_uploads)
        self.parting = Parting(self.options, lambda: world.identifier("announcement"))

    def __repr__(self) -> str:
        return f"<MemoryAuthority {len(self._rooms)} rooms, {len(self._links)} links>"

    # --------------------------------------------------------------------- what its operator does

    def create(self, room: str, *, title: str = "") -> None:
        """Make a room, which nobody may read yet.

        One that has the name of a room there was begins at a later version than that had, so that
        nobody takes a copy of the one for the other.

        Raises:
            ValueError: There is one of this name, it cannot be a name, or `max_rooms` is reached.
        """
        check_name("a room's name", room)
        if room in self._rooms:
            raise ValueError(f"{room}: there is such a room")
        if room not in self._ended and len(self._rooms) + len(self._ended) >= (
            self.options.max_rooms
        ):
            raise ValueError(f"{room}: max_rooms is {self.options.max_rooms}")
        ended = self._ended.pop(room, None)
        version = 0 if ended is None else ended + 1
        self._rooms[room] = Room(room, title, version, self.options)

    def remove(self, room: str) -> None:
        """End a room; whoever could read it cannot any more."""
        self._ended[room] = self.room(room).version
        for member in tuple(self._grants):
            self.revoke(member, room)
        del self._rooms[room]
        self._answers.pop(room, None)
        self.transfers.end(room)
        self.uploads.end(room)
        self.parting.end(room)

    def grant(
        self, member: str, room: str, *, readonly: tuple[str, ...] = (), selection: str = ""
    ) -> None:
        """Let a member read a room, and write it but for some directories.

        Raises:
            ValueError: There is no such room, or a name or a directory cannot be.
        """
        check_name("a member", member)
        self.room(room)
        roots = tuple(check_root(root) for root in readonly)
        self._grants.setdefault(member, {})[room] = Grant(roots, selection)
        self._tell(member, Relisted())

    def revoke(self, member: str, room: str) -> None:
        """Let a member not read a room any more; nothing if that was so already."""
        if self._grants.get(member, {}).pop(room, None) is None:
            return
        self.transfers.end(room, member)
        for link in self._links_of(member):
            link.forget(room)
        self._tell(member, Revoked(room))

    def write(self, room: str, *operations: Operation, member: str = OPERATOR) -> Answer:
        """Apply operations as one step; nobody's read-only directories matter.

        Returns:
            Its answer, as to a submission that is new.
        """
        return self._apply(self.room(room), operations, member, ())

    def put(self, room: str, path: str, text: str, *, member: str = OPERATOR) -> int:
        """Write a document over whatever is there.

        Returns:
            The version of the room then.

        Raises:
            ValueError: It cannot be written; the message says why.
        """
        return self._must(room, Put(path, text, self._base(room, path)), member)

    def put_binary(self, room: str, path: str, data: bytes, *, member: str = OPERATOR) -> int:
        """Write a binary over whatever is there; as `put`."""
        digest, size = digest_of(data), len(data)
        most = self.limits.max_binary_bytes
        self.uploads.take(room, member, digest, size, 0, data, most=most)
        return self._must(room, PutBinary(path, digest, size, self._base(room, path)), member)

    def delete(self, room: str, path: str, *, member: str = OPERATOR) -> int:
        """Delete what is at a path; as `put`."""
        return self._must(room, Delete(path, self._base(room, path)), member)

    def say(
        self, room: str, thread: str, text: str, *, member: str = OPERATOR, message: str = ""
    ) -> Message:
        """Append a message to a thread.

        Raises:
            RoomRefused: It is not taken.
        """
        return self.spoken(
            self.room(room), member, thread, message or self._world.identifier("message"), text
        )

    def trim(self, room: str, floor: int) -> None:
        """Forget what changed up to a version: who holds an older one has to read all again."""
        self.room(room).trim(floor)

    def forget(self, room: str, client: str) -> None:
        """Forget what a client's last submission to a room was answered."""
        clients = self.room(room).clients
        for known in tuple(clients):
            if known[1] == client:
                del clients[known]

    def answer_next(self, room: str, *answers: Answer) -> None:
        """Answer the next new submissions to a room so, and apply nothing."""
        self._answers.setdefault(self.room(room).name, deque()).extend(answers)

    def halt(self) -> None:
        """Let nobody write for the time being."""
        self.halted = True
        self._tell_all(Writing(allowed=False))

    def resume(self) -> None:
        """Let everybody write again."""
        self.halted = False
        self._tell_all(Writing(allowed=True))

    def offer(self, action: Action, handler: Handler) -> None:
        """Offer an action; `handler` does it."""
        self._actions[action.name] = (action, handler)
        self._tell_all(Relisted())

    def refuse(self, member: str, code: str = "unauthorized", *, reauthorize: bool = False) -> None:
        """Refuse a member's connections, also those there are."""
        self._refused[member] = (code, reauthorize)
        self.cut(member)

    def admit(self, member: str) -> None:
        """Refuse a member's connections no longer."""
        self._refused.pop(member, None)

    def cut(self, member: str | None = None) -> None:
        """Lose every link, or a member's."""
        for link in tuple(self._links.values()):
            if member in {None, link.member}:
                link.lose("it was cut")

    def begin_epoch(self) -> None:
        """Begin a new epoch: what clients hold cannot be compared any more."""
        self.epoch = self._world.token()
        self.cut()

    def snapshot(self) -> Copy:
        """What there is now, to go back to."""
        return Copy(
            self.epoch,
            {name: room.copied() for name, room in self._rooms.items()},
            dict(self._ended),
            {member: dict(grants) for member, grants in self._grants.items()},
        )

    def restore(self, copy: Copy) -> None:
        """Go back to what there was, epoch and versions and all, as from an old backup."""
        self.cut()
        self.epoch = copy.epoch
        self._rooms = {name: room.copied() for name, room in copy.rooms.items()}
        self._ended = dict(copy.ended)
        self._grants = {member: dict(grants) for member, grants in copy.grants.items()}
        self.transfers.clear()
        self.parting.clear()

    def room(self, room: str) -> Room:
        """A room, to look at.

        Raises:
            ValueError: There is none of this name.
        """
        found = self._rooms.get(room)
        if found is None:
            raise ValueError(f"{room}: there is no such room")
        return found

    @property
    def links(self) -> int:
        """How many links there are."""
        return len(self._links)

    # -------------------------------------------------------------------- what its links ask of it

    def admitted(self, link: Announcements, client: Client) -> int:
        """Take a link that is being made; returns its number.

        Raises:
            ConnectionRefused: It is not wanted.
            Lost: Nothing can be reached.
        """
        if not self.reachable:
            raise Lost("the authority cannot be reached")
        if client.contract != CONTRACT:
            raise ConnectionRefused(
                f"contract {client.contract} is asked for; this is {CONTRACT}", code="contract"
            )
        if link.member in self._refused:
            code, reauthorize = self._refused[link.member]
            raise ConnectionRefused("this member is not let in", code=code, reauthorize=reauthorize)
        self._connected += 1
        self._links[self._connected] = link
        return self._connected

    def left(self, number: int) -> None:
        """Forget a link."""
        self._links.pop(number, None)

    def discovery(self, member: str) -> Discovery:
        """What is told to who connects."""
        options = self.options
        actions = tuple(action for action, _ in self._actions.values())
        terms = Terms(
            capabilities=options.capabilities,
            model=options.model,
            limits=self.limits,
            actions=tuple(action for action in actions if action.scope == "account"),
            exhaustive=options.exhaustive,
        )
        listed = tuple(
            Listing(
                name,
                self._rooms[name].title,
                self._rooms[name].version,
                grant.selection,
                grant.readonly,
                tuple(action for action in actions if action.scope == "room"),
            )
            for name, grant in self._grants.get(member, {}).items()
        )
        return Discovery(self.epoch, member, terms, listed)

    def readable(self, member: str, room: str) -> tuple[Room, Grant]:
        """A room that a member may read.

        Raises:
            RoomNotReadable: The member may not.
        """
        grant = self._grants.get(member, {}).get(room)
        if grant is None:
            raise RoomNotReadable(room)
        return self._rooms[room], grant

    def submitted(self, member: str, submission: Submission) -> Answer:
        """Apply a submission, if it is new, and remember the answer.

        Raises:
            RoomNotReadable: The member may not read the room.
            RoomRefused: The room remembers too many clients.
        """
        room, grant = self.readable(member, submission.room)
        try:
            key = (member, check_name("a client", submission.client))
        except (TypeError, ValueError) as flaw:
            return Rejected("invalid", str(flaw))
        known = recall(room.clients.get(key), submission.sequence)
        if known is not None:
            return known
        if self.halted:
            return Halted()
        if key not in room.clients and len(room.clients) >= self.options.max_clients:
            raise RoomRefused(room.name, "clients", detail="max_clients is reached")
        planned = self._answers.get(room.name)
        if planned:
            answer = planned.popleft()
            if isinstance(answer, Retry | Halted):
                return answer
        else:
            answer = self._apply(room, submission.operations, member, grant.readonly)
        room.clients[key] = Remembered(submission.sequence, answer)
        return answer

    def spoken(self, room: Room, member: str, thread: str, message: str, text: str) -> Message:
        """Append a message, unless this member said it before.

        Raises:
            RoomRefused: It is not taken.
        """
        said = room.said(member, message)
        if said is not None:
            return said
        try:
            check_name("a thread", thread)
            check_name("a message", message)
            size = len(text.encode())
        except (TypeError, ValueError) as flaw:
            raise RoomRefused(room.name, "invalid", detail=str(flaw)) from flaw
        if self.halted:
            raise RoomRefused(room.name, "halted", retryable=True)
        if size > self.limits.max_message_bytes:
            raise RoomRefused(room.name, "too-large", detail="max_message_bytes")
        if len(room.messages) >= self.options.max_messages:
            raise RoomRefused(room.name, "full", detail="max_messages is reached")
        new = room.say(member, thread, message, text, self._world.wall())
        self._tell_room(room.name, self.parting.divide(Said(room.name, new, room.position)))
        return new

    def acted(self, member: str, action: str, room: str | None, inputs: Inputs) -> str:
        """Do what an action is for.

        Raises:
            ActionRefused: There is no such action, or it is not one of a room's, or is.
            RoomNotReadable: The member may not read the room.
        """
        offered = self._actions.get(action)
        if offered is None:
            raise ActionRefused(action, "this is not offered")
        if (offered[0].scope == "room") != (room is not None):
            raise ActionRefused(action, f"this is asked of {offered[0].scope}s")
        if room is not None:
            self.readable(member, room)
        return offered[1](member, room, inputs)

    # ---------------------------------------------------------------------------------- announcing

    def _announce(self, room: Room) -> None:
        step = room.log[-1]
        change = Advanced(room.name, step.version - 1, step.version, step.written, step.removed)
        announced = Announced(room.name, step.version, change)
        self._tell_room(room.name, self.parting.divide(announced))

    def _tell_room(self, room: str, announcements: tuple[Announcement, ...]) -> None:
        for link in self._links.values():
            if link.holding and room in self._grants.get(link.member, {}):
                for announcement in announcements:
                    link.put(announcement, room)

    def _tell(self, member: str, announcement: Announcement) -> None:
        for link in self._links_of(member):
            link.put(announcement)

    def _tell_all(self, announcement: Announcement) -> None:
        for link in self._links.values():
            link.put(announcement)

    def _links_of(self, member: str) -> list[Announcements]:
        return [link for link in self._links.values() if link.member == member]

    # ----------------------------------------------------------------------------------- beneath it

    def _apply(
        self, room: Room, operations: tuple[Operation, ...], member: str, readonly: tuple[str, ...]
    ) -> Answer:
        digests = [each.digest for each in operations if isinstance(each, PutBinary)]
        answer = room.apply(
            operations,
            author=member,
            at=self._world.wall(),
            limits=self.limits,
            readonly=readonly,
            uploaded=self.uploads.whole(room.name, member, digests),
        )
        if isinstance(answer, Accepted):
            for digest in digests:
                self.uploads.end(room.name, digest)
            self._announce(room)
        return answer

    def _base(self, room: str, path: str) -> int | None:
        entry = self.room(room).entry(path)
        return None if entry is None else entry.revision

    def _must(self, room: str, operation: Operation, member: str) -> int:
        answer = self.write(room, operation, member=member)
        if not isinstance(answer, Accepted):
            raise ValueError(f"{room}: {answer}")  # noqa: TRY004 - an answer is no wrong type
        return answer.version
