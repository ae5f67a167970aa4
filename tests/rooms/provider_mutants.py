"""Providers each of which breaks one rule of the suite."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from msgspec.structs import replace
from provider_rigs import MemoryRig, ReplayingRig

from trio_reactor.errors import Lost
from trio_reactor.rooms.errors import RoomNotReadable, RoomRefused
from trio_reactor.rooms.model.answers import (
    Accepted,
    Advanced,
    BeyondHorizon,
    Clash,
    Conflicted,
    Current,
    Discontinued,
    Halted,
    HistoryPage,
    Message,
    MessagePage,
    Page,
    Rejected,
    Unknown,
)
from trio_reactor.rooms.model.edits import Delete, Move, Put, PutBinary, Submission
from trio_reactor.rooms.model.entries import Document
from trio_reactor.rooms.model.paths import check_path
from trio_reactor.rooms.provider.deciding import Remembered, recall
from trio_reactor.rooms.provider.memory import MemoryLink, MemoryOptions
from trio_reactor.rooms.provider.protocol import (
    Announced,
    Announcement,
    Client,
    Holding,
    Relisted,
    Revoked,
    Said,
    Writing,
)


class Good:
    """A link that does everything as the one in memory does."""

    def __init__(self, rig: MutantRig, inner: MemoryLink) -> None:
        self.rig = rig
        self.inner = inner
        self.authority = rig.authority
        self.begin()

    def begin(self) -> None:
        """What a mutant does when it is made."""

    @property
    def queue(self) -> Any:
        return self.inner.announcements

    @property
    def events(self) -> Any:
        return self.inner.events

    async def discover(self) -> Any:
        return await self.inner.discover()

    async def hold(self, holding: Holding, /) -> Any:
        return await self.inner.hold(holding)

    def published(self, room: str, version: int, /) -> None:
        self.inner.published(room, version)

    async def bootstrap(self, room: str, selection: str, token: str | None, /) -> Any:
        return await self.inner.bootstrap(room, selection, token)

    async def refresh(self, room: str, since: int, /) -> Any:
        return await self.inner.refresh(room, since)

    async def submit(self, submission: Submission, /) -> Any:
        return await self.inner.submit(submission)

    async def history(self, room: str, path: str, token: str | None, /) -> HistoryPage:
        return await self.inner.history(room, path, token)

    async def binary(self, room: str, digest: str, offset: int, most: int, /) -> bytes:
        return await self.inner.binary(room, digest, offset, most)

    async def upload(self, room: str, digest: str, size: int, offset: int, data: bytes, /) -> int:
        return await self.inner.upload(room, digest, size, offset, data)

    async def messages(self, room: str, position: str, /) -> MessagePage:
        return await self.inner.messages(room, position)

    async def say(self, room: str, thread: str, message: str, text: str, /) -> Message:
        return await self.inner.say(room, thread, message, text)

    async def act(self, action: str, room: str | None, inputs: Mapping[str, Any], /) -> str:
        return await self.inner.act(action, room, inputs)


class MutantRig(MemoryRig):
    name = "the mutant"
    link: type[Good] = Good

    def __init__(self) -> None:
        super().__init__()
        self.state: dict[Any, Any] = {}
        self.member = ""

    def provider(self, member: str, /) -> Any:
        self.member = member
        return MutantProvider(self, super().provider(member))


class MutantProvider:
    def __init__(self, rig: MutantRig, inner: Any) -> None:
        self.rig = rig
        self.inner = inner

    @asynccontextmanager
    async def connect(self, client: Client, /) -> AsyncGenerator[Good]:
        async with self.inner.connect(client) as inner:
            yield self.rig.link(self.rig, inner)


class ReplayingMutantRig(MutantRig, ReplayingRig):
    name = "the mutant"


class Events:
    """Announcements of which a mutant makes something else."""

    def __init__(self, inner: Any, change: Callable[[Announcement], Announcement | None]) -> None:
        self.inner = inner
        self.change = change

    async def receive(self) -> Announcement:
        while True:
            told = self.change(await self.inner.receive())
            if told is not None:
                return told


class Retelling(Good):
    """It announces something else."""

    @property
    def events(self) -> Any:
        return Events(self.inner.events, self.told)

    def told(self, told: Announcement) -> Announcement | None:
        return told


# ---------------------------------------------------------------------------------------- reading


class Anonymous(Good):
    async def discover(self) -> Any:
        return replace(await super().discover(), member="ada")


class Listed(Good):
    """It says something else of its rooms."""

    async def discover(self) -> Any:
        found = await super().discover()
        return replace(found, rooms=tuple(self.listed(listing) for listing in found.rooms))

    def listed(self, listing: Any) -> Any:
        return listing


class Stale(Listed):
    def listed(self, listing: Any) -> Any:
        return replace(listing, version=0)


class Writable(Listed):
    def listed(self, listing: Any) -> Any:
        return replace(listing, readonly=())


class Rising(Listed):
    """Its versions never go back."""

    def listed(self, listing: Any) -> Any:
        highest = max(listing.version, self.rig.state.get(listing.room, 0))
        self.rig.state[listing.room] = highest
        return replace(listing, version=highest)


class Open(Good):
    async def refresh(self, room: str, since: int, /) -> Any:
        try:
            return await super().refresh(room, since)
        except RoomNotReadable:
            if room not in self.authority._rooms:
                raise
            return self.authority.room(room).since(since)


class Trusting(Good):
    """Whoever could read a room when they came can read it until they go."""

    def begin(self) -> None:
        self.seen: set[str] = set()

    async def bootstrap(self, room: str, selection: str, token: str | None, /) -> Any:
        found = await super().bootstrap(room, selection, token)
        self.seen.add(room)
        return found

    async def refresh(self, room: str, since: int, /) -> Any:
        try:
            return await super().refresh(room, since)
        except RoomNotReadable:
            if room not in self.seen:
                raise
            return self.authority.room(room).since(since)


class Grudging(MutantRig):
    """What was revoked once is never read on."""

    async def revoke(self, member: str, room: str, /) -> None:
        await super().revoke(member, room)
        self.authority.trim(room, self.authority.room(room).version)


class Clinging(Good):
    """It lists what there was."""

    async def discover(self) -> Any:
        found = await super().discover()
        there = {listing.room: listing for listing in found.rooms}
        self.rig.state.update(there)
        gone = tuple(each for room, each in self.rig.state.items() if room not in there)
        return replace(found, rooms=found.rooms + gone)


class Shy(Good):
    async def bootstrap(self, room: str, selection: str, token: str | None, /) -> Any:
        found = await super().bootstrap(room, selection, token)
        empty = isinstance(found, Page) and found.version == 0
        return Discontinued() if empty else found


class Bulky(MutantRig):
    def __init__(self) -> None:
        super().__init__()
        bulky = MemoryOptions(page_size=self.page_size * 10)
        self.authority.options = bulky
        self.authority.transfers._options = bulky


def marked(token: str) -> tuple[str, int, str | None, int]:
    name, number, after, since = json.loads(token)
    return name, number, after, since


class Mixed(Good):
    """Each page is as the room is when it is read, and that is all."""

    async def bootstrap(self, room: str, selection: str, token: str | None, /) -> Any:
        page = await super().bootstrap(room, selection, token)
        if isinstance(page, Page) and page.next is not None and marked(page.next)[2] is None:
            return replace(page, next=None, version=self.authority.room(room).version)
        return page


class MixedRig(ReplayingMutantRig):
    link = Mixed


class Spent(Good):
    """What a page had is not given twice."""

    async def bootstrap(self, room: str, selection: str, token: str | None, /) -> Any:
        page = await super().bootstrap(room, selection, token)
        if token is not None and self.rig.state.setdefault(token, self) and isinstance(page, Page):
            if (token, "given") in self.rig.state:
                return replace(page, entries=())
            self.rig.state[token, "given"] = True
        return page


class Restarting(Good):
    async def bootstrap(self, room: str, selection: str, token: str | None, /) -> Any:
        page = await super().bootstrap(room, selection, token)
        if isinstance(page, Discontinued):
            return await super().bootstrap(room, selection, None)
        return page


class Haunted(Good):
    async def refresh(self, room: str, since: int, /) -> Any:
        found = await super().refresh(room, since)
        return replace(found, removed=()) if isinstance(found, Advanced) else found


class Agreeable(Good):
    """Whatever is asked about is current, if nothing newer is known."""

    async def refresh(self, room: str, since: int, /) -> Any:
        found = await super().refresh(room, since)
        return Current(room, since) if isinstance(found, BeyondHorizon) else found


class Hopeful(Good):
    """A transfer that cannot go on is over."""

    async def bootstrap(self, room: str, selection: str, token: str | None, /) -> Any:
        page = await super().bootstrap(room, selection, token)
        if isinstance(page, Discontinued) and token is not None:
            name, number, _, since = marked(token)
            return Page(room, name, number, max(since, 1), (), None)
        return page


class HopefulRig(ReplayingMutantRig):
    link = Hopeful


class Eternal(Good):
    async def discover(self) -> Any:
        return replace(await super().discover(), epoch="the one")


# ---------------------------------------------------------------------------------------- writing


class Writer(Good):
    """It submits something else."""

    async def submit(self, submission: Submission, /) -> Any:
        operations = tuple(
            each for operation in submission.operations for each in self.mutated(operation)
        )
        return await super().submit(replace(submission, operations=operations))

    def mutated(self, operation: Any) -> tuple[Any, ...]:
        return (operation,)

    def entry(self, path: str) -> Any:
        return self.authority.room("plans").entry(path)


class Answering(Good):
    """It answers something else."""

    async def submit(self, submission: Submission, /) -> Any:
        room = self.authority.room(submission.room)
        key = (self.inner.member, submission.client)
        self.before(room, key, submission)
        known = room.clients.get(key)
        answer = await super().submit(submission)
        return self.answered(room, key, known, submission, answer)

    def before(self, room: Any, key: Any, submission: Submission) -> None:
        pass

    def answered(self, room: Any, key: Any, known: Any, submission: Submission, answer: Any) -> Any:
        return answer


class Ahead(Answering):
    def answered(self, room: Any, key: Any, known: Any, submission: Any, answer: Any) -> Any:
        return Accepted(answer.version + 1) if isinstance(answer, Accepted) else answer


class Piecemeal(Good):
    async def submit(self, submission: Submission, /) -> Any:
        await trio.lowlevel.checkpoint()
        answer: Any = Rejected("invalid")
        for operation in submission.operations:
            answer = self.authority.write(submission.room, operation)
        return answer


class Late(Answering):
    """It looks at the version when others may have written."""

    async def submit(self, submission: Submission, /) -> Any:
        answer = await super().submit(submission)
        await trio.lowlevel.checkpoint()
        version = self.authority.room(submission.room).version
        return Accepted(version) if isinstance(answer, Accepted) else answer


class Racing(Good):
    """It looks whether the base is there, and then writes."""

    async def submit(self, submission: Submission, /) -> Any:
        (operation,) = submission.operations
        assert isinstance(operation, Put)
        if self.authority._base(submission.room, operation.path) != operation.base:
            return await super().submit(submission)
        await trio.lowlevel.checkpoint()
        return Accepted(self.authority.put(submission.room, operation.path, operation.text))


class Emptying(Writer):
    def mutated(self, operation: Any) -> tuple[Any, ...]:
        if isinstance(operation, Move):
            return Delete(operation.path, operation.base), Put(operation.to, "")
        return (operation,)


class Tidy(Writer):
    def mutated(self, operation: Any) -> tuple[Any, ...]:
        return (replace(operation, text=operation.text.replace("\r\n", "\n")),)


class Forgetful(Good):
    """It remembers nothing of what was submitted."""

    async def submit(self, submission: Submission, /) -> Any:
        await trio.lowlevel.checkpoint()
        return self.authority.write(submission.room, *submission.operations)


class Lenient(Answering):
    """What it refused it decides anew."""

    def answered(self, room: Any, key: Any, known: Any, submission: Any, answer: Any) -> Any:
        if isinstance(answer, Conflicted | Rejected):
            room.clients.pop(key)
            if known is not None:
                room.clients[key] = known
        return answer


class Doubling(Good):
    """It looks whether a submission is new, and then applies it."""

    async def submit(self, submission: Submission, /) -> Any:
        room = self.authority.room(submission.room)
        key = ("ada", submission.client)
        known = recall(room.clients.get(key), submission.sequence)
        await trio.lowlevel.checkpoint()
        if known is not None:
            return known
        answer = self.authority.write(submission.room, *submission.operations)
        room.clients[key] = Remembered(submission.sequence, answer)
        return answer


class Skipping(Answering):
    """Whatever is later than the last is new."""

    def before(self, room: Any, key: Any, submission: Submission) -> None:
        known = room.clients.get(key)
        if submission.sequence > (known.sequence if known else 0):
            room.clients[key] = Remembered(submission.sequence - 1, Unknown())


class Mingling(Good):
    """A client has one sequence in all rooms."""

    async def submit(self, submission: Submission, /) -> Any:
        last = self.rig.state.get(submission.client, ("", 0))
        if last[0] not in {"", submission.room} and last[1] >= submission.sequence:
            return Unknown()
        self.rig.state[submission.client] = (submission.room, submission.sequence)
        return await super().submit(submission)


class Welcoming(Answering):
    """What the first it hears of a client is, is new."""

    def before(self, room: Any, key: Any, submission: Submission) -> None:
        room.clients.setdefault(key, Remembered(submission.sequence - 1, Unknown()))


class Cleaning(MutantRig):
    """It forgets the clients of whom it revokes a room."""

    async def revoke(self, member: str, room: str, /) -> None:
        await super().revoke(member, room)
        self.authority.room(room).clients.clear()


class Stubborn(Answering):
    """What came while writing was halted was refused for good."""

    def answered(self, room: Any, key: Any, known: Any, submission: Any, answer: Any) -> Any:
        if answer == Halted():
            room.clients[key] = Remembered(submission.sequence, answer)
        return answer


class Discreet(Answering):
    """It does not show what is there."""

    def answered(self, room: Any, key: Any, known: Any, submission: Any, answer: Any) -> Any:
        if isinstance(answer, Conflicted):
            return Conflicted(tuple(Clash(clash.path, None) for clash in answer.clashes))
        return answer


class Brief(Answering):
    """It names the first conflict."""

    def answered(self, room: Any, key: Any, known: Any, submission: Any, answer: Any) -> Any:
        return Conflicted(answer.clashes[:1]) if isinstance(answer, Conflicted) else answer


class Comparing(Writer):
    """What has the text of the base is the base."""

    def mutated(self, operation: Any) -> tuple[Any, ...]:
        entry = self.entry(operation.path)
        if isinstance(entry, Document) and entry.text == "first" and operation.base is not None:
            return (replace(operation, base=entry.revision),)
        return (operation,)


class Correcting(Writer):
    """It spells paths as they should be."""

    def mutated(self, operation: Any) -> tuple[Any, ...]:
        try:
            return (replace(operation, path=check_path(operation.path)),)
        except ValueError:
            return (operation,)


class Lasting(Good):
    """What is named last is meant."""

    async def submit(self, submission: Submission, /) -> Any:
        operations = tuple({each.path: each for each in submission.operations}.values())
        return await super().submit(replace(submission, operations=operations))


class Exact(Good):
    """It takes paths that differ for two."""

    async def submit(self, submission: Submission, /) -> Any:
        self.authority.room(submission.room).colliding = lambda _fold: None  # type: ignore[method-assign]
        return await super().submit(submission)


class Outgoing(Answering):
    """What is moved into a directory was not written there."""

    async def submit(self, submission: Submission, /) -> Any:
        if isinstance(submission.operations[0], Move):
            await trio.lowlevel.checkpoint()
            return self.authority.write(submission.room, *submission.operations)
        return await super().submit(submission)


class Counting(Good):
    """It counts characters."""

    async def submit(self, submission: Submission, /) -> Any:
        limits = self.authority.limits
        self.authority.limits = replace(limits, max_document_bytes=limits.max_document_bytes * 2)
        try:
            return await super().submit(submission)
        finally:
            self.authority.limits = limits


class Vague(Answering):
    def answered(self, room: Any, key: Any, known: Any, submission: Any, answer: Any) -> Any:
        if isinstance(answer, Rejected) and answer.code == "too-large":
            return Rejected("missing-binary")
        return answer


# --------------------------------------------------------------------------------------- listening


class Momentary(Good):
    """It announces what happens while somebody listens."""

    def begin(self) -> None:
        put = self.queue.put
        self.queue.put = lambda told, room=None: self.queue._reading and put(told, room)


class Assuming(Good):
    """Whatever is held is held as it is now."""

    async def hold(self, holding: Holding, /) -> Any:
        versions = {
            room: self.authority.room(room).version if room in self.authority._rooms else version
            for room, version in holding.versions.items()
        }
        return await super().hold(Holding(versions, holding.parts))


class Patient(Good):
    async def hold(self, holding: Holding, /) -> Any:
        await super().hold(holding)
        return ()


class Silent(Good):
    """It does not look at what is held and may not be."""

    async def hold(self, holding: Holding, /) -> Any:
        readable = {listing.room for listing in (await self.discover()).rooms}
        versions = {room: at for room, at in holding.versions.items() if room in readable}
        return await super().hold(Holding(versions, holding.parts))


class Secretive(Retelling):
    def told(self, told: Announcement) -> Announcement | None:
        return None if isinstance(told, Revoked) else told


class Euphemistic(Retelling):
    def told(self, told: Announcement) -> Announcement | None:
        gone = isinstance(told, Revoked) and told.room not in self.authority._rooms
        return Relisted() if gone else told


class Beginning(Good):
    """It announces what happens after it was said what is held, and nothing before."""

    async def hold(self, holding: Holding, /) -> Any:
        self.queue._waiting.clear()
        return await super().hold(holding)


class Gossiping(Good):
    """It announces every room there is."""

    async def hold(self, holding: Holding, /) -> Any:
        expired = await super().hold(holding)
        for room in self.authority._rooms:
            self.queue.put(Announced(room, 1), room)
        return expired


class Exclusive(Good):
    """It announces what was written in rooms that are held when it is."""

    def begin(self) -> None:
        self.held: set[str] = set()
        put = self.queue.put
        self.queue.put = lambda told, room=None: (
            put(told, room) if room is None or room in self.held else None
        )

    async def hold(self, holding: Holding, /) -> Any:
        self.held |= set(holding.versions)
        return await super().hold(holding)

    def published(self, room: str, version: int, /) -> None:
        self.held.add(room)


class Optimistic(Retelling):
    """In what it announces nothing is removed."""

    def told(self, told: Announcement) -> Announcement | None:
        if isinstance(told, Announced) and told.change is not None:
            return replace(told, change=replace(told.change, removed=()))
        return told


class Dropping(Good):
    """What is oldest gives way, without a word."""

    def begin(self) -> None:
        put = self.queue.put

        def dropping(told: Announcement, room: str | None = None) -> None:
            if len(self.queue._waiting) >= self.rig.backlog:
                self.queue._waiting.popleft()
            put(told, room)

        self.queue.put = dropping


class Repeating(Good):
    """It sends all parts again."""

    async def hold(self, holding: Holding, /) -> Any:
        return await super().hold(Holding(holding.versions, dict.fromkeys(holding.parts, ())))


class Single(Good):
    """A member has one link."""

    def begin(self) -> None:
        for link in self.authority._links.values():
            if link is not self.queue and link.member == self.inner.member:
                link.lose("there is another one")


class Deathless(Good):
    """It waits on for what will never come."""

    @property
    def events(self) -> Any:
        return self

    async def receive(self) -> Any:
        try:
            return await self.queue.receive()
        except Lost:
            await trio.sleep_forever()


class Unprepared(Good):
    """Whoever comes later is not told that writing is halted."""

    async def hold(self, holding: Holding, /) -> Any:
        expired = await super().hold(holding)
        waiting = [each for each in self.queue._waiting if not isinstance(each[1], Writing)]
        self.queue._waiting.clear()
        self.queue._waiting.extend(waiting)
        return expired


class Slipping(Good):
    """An announcement is lost with who waited for it."""

    @property
    def events(self) -> Any:
        return self

    async def receive(self) -> Any:
        told = await self.queue.receive()
        await trio.lowlevel.checkpoint()
        return told


# ---------------------------------------------------------------------------------------- storing


class Pouring(Good):
    async def binary(self, room: str, digest: str, offset: int, most: int, /) -> bytes:
        return await super().binary(room, digest, offset, 10**9)


class Appending(Good):
    """Whatever comes comes behind what there is."""

    async def upload(self, room: str, digest: str, size: int, offset: int, data: bytes, /) -> int:
        received = await super().upload(room, digest, size, 10**9, b"")
        return await super().upload(room, digest, size, received, data)


class Linked(Good):
    """What was received is the link's."""

    def begin(self) -> None:
        self.authority.uploads._received.clear()


class Believing(Answering):
    """It takes a binary for sent."""

    def before(self, room: Any, key: Any, submission: Submission) -> None:
        for operation in submission.operations:
            if isinstance(operation, PutBinary) and operation.digest not in room.binaries:
                room.binaries[operation.digest] = bytes(operation.size)


class Unchecked(Good):
    """It takes bytes for what their digest says."""

    async def upload(self, room: str, digest: str, size: int, offset: int, data: bytes, /) -> int:
        try:
            return await super().upload(room, digest, size, offset, data)
        except RoomRefused:
            self.authority.room(room).binaries[digest] = data
            return len(data)


class Unmoved(Good):
    """It ignores bytes that it does not take."""

    async def upload(self, room: str, digest: str, size: int, offset: int, data: bytes, /) -> int:
        try:
            return await super().upload(room, digest, size, offset, data)
        except RoomRefused:
            return 0


class Shared(Good):
    """A binary is a binary, wherever it is."""

    async def binary(self, room: str, digest: str, offset: int, most: int, /) -> bytes:
        await trio.lowlevel.checkpoint()
        for each in self.authority._rooms.values():
            if digest in each.binaries:
                return each.binaries[digest][offset : offset + most]
        return await super().binary(room, digest, offset, most)


class Chronological(Good):
    async def history(self, room: str, path: str, token: str | None, /) -> HistoryPage:
        found = await super().history(room, path, token)
        return replace(found, revisions=found.revisions[::-1])


class Strict(Good):
    async def history(self, room: str, path: str, token: str | None, /) -> HistoryPage:
        found = await super().history(room, path, token)
        if not found.revisions:
            raise RoomRefused(room, "no-such-path")
        return found


# ------------------------------------------------------------------------------------- conversing


class Threaded(Good):
    async def messages(self, room: str, position: str, /) -> MessagePage:
        found = await super().messages(room, position)
        ordered = tuple(sorted(found.messages, key=lambda each: (each.thread, each.number)))
        return replace(found, messages=ordered)


class Overlapping(Good):
    """It gives the last again."""

    async def messages(self, room: str, position: str, /) -> MessagePage:
        before = str(int(position) - 1) if position else ""
        return await super().messages(room, before)


class Echoing(Good):
    """Whatever is said is new."""

    async def say(self, room: str, thread: str, message: str, text: str, /) -> Message:
        await trio.lowlevel.checkpoint()
        return self.authority.room(room).say(self.inner.member, thread, message, text, 0.0)


class Shortening(Good):
    async def say(self, room: str, thread: str, message: str, text: str, /) -> Message:
        try:
            return await super().say(room, thread, message, text)
        except RoomRefused as refused:
            if refused.code != "too-large":
                raise
            return await super().say(room, thread, message, text[:100])


class Private(Retelling):
    def told(self, told: Announcement) -> Announcement | None:
        return None if isinstance(told, Said) else told


class Willing(Good):
    """It does whatever it is asked to."""

    async def act(self, action: str, room: str | None, inputs: Mapping[str, Any], /) -> str:
        return await super().act(action, room, inputs) if inputs else "done"


# ------------------------------------------------------------------------------------- cancelling


class Sticky(Good):
    """A call that was cancelled is in the way of the next."""

    def begin(self) -> None:
        self.busy = False

    async def refresh(self, room: str, since: int, /) -> Any:
        await self.alone()
        found = await super().refresh(room, since)
        self.busy = False
        return found

    async def upload(self, room: str, digest: str, size: int, offset: int, data: bytes, /) -> int:
        await self.alone()
        found = await super().upload(room, digest, size, offset, data)
        self.busy = False
        return found

    async def alone(self) -> None:
        if self.busy:
            await trio.sleep_forever()
        self.busy = True


class Halfway(Good):
    """It applies, gives way, and remembers."""

    async def submit(self, submission: Submission, /) -> Any:
        room = self.authority.room(submission.room)
        key = (self.inner.member, submission.client)
        known = recall(room.clients.get(key), submission.sequence)
        if known is None:
            known = self.authority.write(submission.room, *submission.operations)
            await trio.lowlevel.checkpoint()
            room.clients[key] = Remembered(submission.sequence, known)
        return known


class Jammed(MutantRig):
    """A connection that was cancelled is in the way of the next."""

    def provider(self, member: str, /) -> Any:
        return JammedProvider(self, super().provider(member))


class JammedProvider(MutantProvider):
    @asynccontextmanager
    async def connect(self, client: Client, /) -> AsyncGenerator[Good]:
        if self.rig.state.get("connecting"):
            await trio.sleep_forever()
        self.rig.state["connecting"] = True
        async with self.inner.connect(client) as link:
            self.rig.state["connecting"] = False
            yield link


class Stammering(Good):
    """It takes a message, gives way, and remembers."""

    async def say(self, room: str, thread: str, message: str, text: str, /) -> Message:
        said = self.rig.state.get(message)
        if said is None:
            said = self.authority.room(room).say(self.inner.member, thread, message, text, 0.0)
            await trio.lowlevel.checkpoint()
            self.rig.state[message] = said
        assert isinstance(said, Message)
        return said


MUTANTS: tuple[type[Good | MutantRig], ...] = (
    Anonymous,
    Stale,
    Writable,
    Open,
    Trusting,
    Grudging,
    Clinging,
    Shy,
    Bulky,
    MixedRig,
    Spent,
    Restarting,
    Haunted,
    Agreeable,
    Agreeable,
    HopefulRig,
    Eternal,
    Rising,
    Ahead,
    Piecemeal,
    Late,
    Racing,
    Emptying,
    Tidy,
    Forgetful,
    Lenient,
    Doubling,
    Skipping,
    Mingling,
    Welcoming,
    Cleaning,
    Stubborn,
    Discreet,
    Brief,
    Comparing,
    Correcting,
    Lasting,
    Exact,
    Outgoing,
    Counting,
    Vague,
    Momentary,
    Assuming,
    Patient,
    Silent,
    Secretive,
    Euphemistic,
    Beginning,
    Gossiping,
    Exclusive,
    Optimistic,
    Dropping,
    Repeating,
    Single,
    Assuming,
    Deathless,
    Unprepared,
    Slipping,
    Pouring,
    Appending,
    Linked,
    Believing,
    Unchecked,
    Unmoved,
    Shared,
    Chronological,
    Strict,
    Threaded,
    Overlapping,
    Echoing,
    Shortening,
    Private,
    Willing,
    Sticky,
    Halfway,
    Jammed,
    Sticky,
    Stammering,
)
"""One for each case of the suite, in its order."""


def rig_of(mutant: type[Good | MutantRig]) -> MutantRig:
    """A rig whose links are of this kind."""
    if issubclass(mutant, MutantRig):
        return mutant()
    rig = MutantRig()
    rig.link = mutant
    return rig
