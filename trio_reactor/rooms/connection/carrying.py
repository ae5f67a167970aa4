"""Carrying a room: one step after the other, until there is nothing to be done about it.

One task of a generation's carries a room at a time.  Each step asks the authority, passes two
fences (the room's and the generation's), and has the store and memory changed in one step.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, assert_never, final

import trio

from trio_reactor.errors import Closed, is_expected
from trio_reactor.events import FailureRecord
from trio_reactor.rooms import events
from trio_reactor.rooms.errors import (
    ConnectionRefused,
    ProviderFault,
    ReplicaError,
    RoomNotReadable,
    RoomRefused,
)
from trio_reactor.rooms.model.answers import (
    Advanced,
    Answer,
    BeyondHorizon,
    Conflicted,
    Current,
    Discontinued,
    Page,
)
from trio_reactor.rooms.model.checking import check_advanced, check_clashes, check_page
from trio_reactor.rooms.model.edits import PutBinary, Submission, paths_of
from trio_reactor.rooms.model.held import Draft, QueuedEdit, Step, Transfer
from trio_reactor.rooms.provider.protocol import Conversing, Link, Storing
from trio_reactor.rooms.store.content import BLOB_BYTES, Content, Landing
from trio_reactor.rooms.sync.answering import (
    Again,
    Anew,
    Back,
    Hold,
    Land,
    Merge,
    consequence,
)
from trio_reactor.rooms.sync.steps import next_step

from .core import Core, only
from .generation import Generation
from .room import Room

__all__ = ["Carrying"]

T = TypeVar("T")

_REPEATS = 3
"""How often in a row a page that is here already is taken for a repeat."""


@final
class Carrying:
    """Carries rooms.

    Args:
        core: What the parts of the connection share.
        merge_of: How documents at a path of a room are merged, if they are.
    """

    def __init__(self, core: Core, merge_of: Callable[[str, str], Merge | None]) -> None:
        self._core = core
        self._merge_of = merge_of

    def wake(self, room: Room, generation: Generation | None) -> None:
        """See to it that a room is carried, if there is something to be done about it."""
        self._core.registry.count(room)
        if (
            generation is None
            or not generation.live
            or generation.nursery is None
            or room.lost
            or room.carrier is generation
            or self._step(room, generation) == "rest"
        ):
            return
        room.carrier = generation
        generation.began()
        generation.nursery.start_soon(self._carry, room, generation, name=f"carrying {room.name}")

    def _step(self, room: Room, generation: Generation) -> str:
        facts = room.facts(
            generation.phase,
            writable=not self._core.halted,
            converses=isinstance(generation.link, Conversing),
        )
        return next_step(facts)

    async def _carry(self, room: Room, generation: Generation) -> None:
        try:
            while not room.lost and generation.live:
                step = self._step(room, generation)
                if step == "rest":
                    break
                async with generation.reads, self._weather(room, generation) as link:
                    match step:
                        case "bootstrap":
                            await self._bootstrap(room, generation, link)
                        case "refresh":
                            await self._refresh(room, generation, link)
                        case "submit":
                            await self._submit(room, generation, link)
                        case _:
                            await self._converse(room, generation, link)
        finally:
            # In one step with the decision to rest: whoever wakes it now starts another task.
            if room.carrier is generation:
                room.carrier = None
            generation.rested()
            self._core.registry.count(room)

    @asynccontextmanager
    async def _weather(self, room: Room, generation: Generation) -> AsyncGenerator[Link]:
        """Take in what may go wrong with a step."""
        link = generation.link
        assert link is not None  # noqa: S101 - rooms are carried while there is one
        try:
            room.check()
            generation.check()
            yield link
        except Exception as raised:  # noqa: BLE001 - what is a defect is raised again
            self.met(only(raised), room, generation)

    def met(self, failure: BaseException, room: Room, generation: Generation) -> None:
        """Take in what went wrong about a room; what is a defect is raised."""
        core = self._core
        match failure:
            case RoomNotReadable():
                if not room.lost and generation.live:
                    core.fence((room.name,))
            case RoomRefused() if generation.live and not room.lost:
                room.refused = "room-refused"
                core.say(events.RoomRefused(room.name, failure.code, failure.retryable))
                if failure.retryable:
                    self._later(room, generation, failure.after)
            case ProviderFault() if generation.live and not room.lost:
                core.say(events.ProviderFaulty(room.name, FailureRecord.of(failure)))
                room.faults += 1
                room.renewed = True
                room.offered = room.transfer = None
                if room.faults >= core.options.max_faults:
                    room.refused = "provider-fault"
            case ConnectionRefused():
                generation.end(failure)
            case ReplicaError() if not room.lost:
                room.refused = "store"
                if failure.retryable:
                    self._later(room, generation, 0.0)
            case Closed():
                pass  # a fence was met, or everything is being closed
            case _:
                if room.lost or not generation.live:
                    if not is_expected(failure):
                        raise failure
                    return
                if not is_expected(failure):
                    raise failure
                generation.end(failure)

    def _later(self, room: Room, generation: Generation, after: float) -> None:
        """Ask again about a room that was refused for the time being."""
        pause = max(after, self._core.options.pause)
        if generation.nursery is not None and generation.live:
            room.resting = True
            generation.nursery.start_soon(self._resume, room, generation, pause)

    async def _resume(self, room: Room, generation: Generation, pause: float) -> None:
        await trio.sleep(pause)
        if generation.live and not room.lost:
            room.resting = False
            room.refused = None
            self.wake(room, generation)

    async def _ask(self, room: Room, generation: Generation, call: Callable[[], Awaitable[T]]) -> T:
        """Ask the authority; pass the fences with its answer."""
        with trio.fail_after(self._core.options.request_timeout):
            found = await call()
        room.check()
        generation.check()
        return found

    # ------------------------------------------------------------------------------------- reading

    async def _bootstrap(self, room: Room, generation: Generation, link: Link) -> None:
        """Read a whole room, page by page, from where that stopped."""
        core = self._core
        selection = room.listing.selection
        transfer = room.transfer
        if transfer is not None and transfer.selection != selection:
            transfer = None
        repeats = 0
        while True:
            token = None if transfer is None else transfer.token
            page = await self._ask(
                room, generation, lambda token=token: link.bootstrap(room.name, selection, token)
            )
            match page:
                case Discontinued():
                    if transfer is None:
                        raise ProviderFault(
                            f"{room.name}: a transfer was discontinued that was not begun",
                            room=room.name,
                        )
                    await core.write(room, lambda content, number: content.abandon(number))
                    transfer = room.transfer = None
                    continue
                case Page():
                    pass
                case _:
                    assert_never(page)
            if (
                transfer is not None
                and page.transfer == transfer.name
                and page.number < transfer.next
                and repeats < _REPEATS
            ):
                repeats += 1
                continue
            repeats = 0
            check_page(
                page,
                room=room.name,
                transfer=None if transfer is None else transfer.name,
                number=0 if transfer is None else transfer.next,
                version=None if transfer is None else transfer.version,
                limits=generation.terms.limits,
            )
            generation.check()
            if page.next is None:
                await self._publish_whole(room, generation, page, selection)
                return
            transfer = Transfer(page.transfer, selection, page.version, page.number + 1, page.next)

            def staged(_: None, transfer: Transfer = transfer) -> None:
                room.transfer = transfer

            await core.write(
                room,
                lambda content, number, page=page: content.stage(number, page, selection),
                staged,
            )
            generation.check()

    async def _publish_whole(
        self, room: Room, generation: Generation, page: Page, selection: str
    ) -> None:
        core = self._core

        def publish(content: Content, number: int) -> Landing | int | None:
            return content.publish_whole(number, page, selection) or content.version(number)

        def published(landing: Landing | int | None) -> None:
            room.renewed = room.expired = room.owed = room.unconfirmed = False
            room.transfer = None
            room.selection = selection
            self._landed(room, generation, landing)
            if room.listing.selection != selection:
                room.renewed = True  # it was listed anew meanwhile

        await core.write(room, publish, published)

    async def _refresh(self, room: Room, generation: Generation, link: Link) -> None:
        """Read what is newer than what is held."""
        since = room.held
        assert since is not None  # noqa: S101 - it is refreshed because it is held
        offered, room.offered = room.offered, None
        if offered is not None and offered.since == since:
            answer: Advanced | Current | BeyondHorizon = offered
        else:
            answer = await self._ask(room, generation, lambda: link.refresh(room.name, since))
            if answer.room != room.name:
                raise ProviderFault(f"{room.name}: another room was answered", room=room.name)
        if room.held != since:
            return  # it has moved meanwhile
        match answer:
            case Current(version=version):
                if version > since:
                    raise ProviderFault(
                        f"{room.name}: version {version} is said to be no newer than {since}",
                        room=room.name,
                    )
                if version < since or room.waiting == "accepted":
                    await self._restored(room, version)
                    return
                room.known = since
                room.unconfirmed = False
                room.faults = 0
            case BeyondHorizon():
                room.owed = True
                room.unconfirmed = False
            case Advanced():
                check_advanced(answer, room=room.name, since=since, limits=generation.terms.limits)
                room.known = max(room.known, answer.version + answer.more)
                await self._publish_change(room, generation, answer)
            case _:
                assert_never(answer)

    async def _publish_change(self, room: Room, generation: Generation, change: Advanced) -> None:
        def publish(content: Content, number: int) -> Landing | int | None:
            return content.publish_change(
                number,
                since=change.since,
                version=change.version,
                entries=change.entries,
                removed=change.removed,
            ) or content.version(number)

        def published(landing: Landing | int | None) -> None:
            room.unconfirmed = room.expired = False
            self._landed(room, generation, landing)

        await self._core.write(room, publish, published)

    def _landed(self, room: Room, generation: Generation, landing: Landing | int | None) -> None:
        """Let memory follow the store, say what has changed, and tell the provider."""
        room.faults = 0
        if isinstance(landing, Landing):
            room.held = landing.version
            self._core.say_changed(room, landing)
        else:
            room.held = landing
        if room.held is not None:
            room.known = max(room.known, room.held)
            if generation.live and generation.link is not None:
                generation.link.published(room.name, room.held)

    async def _restored(self, room: Room, version: int) -> None:
        """Take in that the authority went back: what it had accepted since is offered again."""
        core = self._core
        written = core.world.wall()

        def restore(content: Content, number: int) -> tuple[Draft, ...]:
            return content.restored(number, version, written=written)

        def restored(drafts: tuple[Draft, ...]) -> None:
            room.known = version
            room.renewed = True
            room.unconfirmed = False
            core.say(events.AuthorityRestored(room.name, len(drafts)))
            core.say_drafts(room, drafts)

        await core.write(room, restore, restored)

    async def restore(self, room: Room, version: int) -> None:
        """Take in that a listing says that the room's version went back."""
        await self._restored(room, version)

    # ------------------------------------------------------------------------------------- writing

    async def _submit(self, room: Room, generation: Generation, link: Link) -> None:
        """Send the first edit, under the name that it has or gets now."""
        core = self._core
        head = await core.read(room, lambda content, number: content.outbox.head(number))
        if head is None:
            await core.write(room, lambda content, number: None)
            return
        await self._upload(room, generation, link, head)
        generation.check()

        def mark(content: Content, number: int) -> tuple[Submission | None, QueuedEdit | None]:
            return content.outbox.mark(number, room.name), content.outbox.head(number)

        submission, edit = await core.write(room, mark)
        generation.check()
        if submission is None or edit is None or core.halted:
            return
        answer = await self._ask(room, generation, lambda: link.submit(submission))
        if isinstance(answer, Conflicted):
            paths = [path for each in submission.operations for path in paths_of(each)]
            check_clashes(room.name, answer, paths, generation.terms.limits)
        match consequence(answer, edit, lambda path: self._merge_of(room.name, path)):
            case Land(version=version):
                if version <= 0:
                    raise ProviderFault(f"{room.name}: accepted as {version}", room=room.name)
                await self._land(room, generation, edit, version)
            case Anew(steps=steps):
                await self._anew(room, edit, steps, answer)
            case Back(reason="unknown") if room.doubted != edit.id:
                # What is there now may tell; then it is asked for once more.
                room.doubted = edit.id
                room.unconfirmed = True
            case Back() as back:
                await self._give_back(room, edit, back)
            case Again(after=after):
                self._later(room, generation, after)
            case Hold():
                core.halted = True
                core.stood()

    async def _land(
        self, room: Room, generation: Generation, edit: QueuedEdit, version: int
    ) -> None:
        core = self._core

        def land(content: Content, number: int) -> Landing | int | None:
            outbox, held = content.outbox, content.version(number)
            outbox.accept(number, edit, version)
            if held is None or version != held + 1:
                if held is None or version > held:
                    return held
                return content.arrived(number, held) or held
            results = outbox.results(number, edit, version)
            written = [entry for entry in results if entry is not None]
            kept = {entry.path for entry in written}
            paths = {path for step in edit.steps for path in paths_of(step.operation)}
            return content.publish_change(
                number,
                since=held,
                version=version,
                entries=written,
                removed=sorted(paths - kept),
            )

        def landed(landing: Landing | int | None) -> None:
            room.known = max(room.known, version)
            room.doubted = None
            core.say(events.EditAccepted(room.name, edit.id, version))
            if landing is not None:
                self._landed(room, generation, landing)

        await core.write(room, land, landed)

    async def _anew(
        self, room: Room, edit: QueuedEdit, steps: tuple[Step, ...] | None, answer: Answer
    ) -> None:
        core = self._core
        room.faults += 1
        if room.faults >= core.options.max_faults * 2:
            room.refused = "provider-fault"

        def requeue(content: Content, number: int) -> Landing | None:
            content.outbox.requeue(edit, steps)
            if steps is None:
                return None
            paths = content.outbox.relay(number)
            version = content.version(number) or 0
            return Landing(version, tuple(sorted(paths)), content.next_change())

        def requeued(landing: Landing | None) -> None:
            room.unconfirmed = True
            if isinstance(answer, Conflicted):
                self._know(room, answer)
            if landing is not None:
                core.say_changed(room, landing)

        await core.write(room, requeue, requeued)

    async def _give_back(self, room: Room, edit: QueuedEdit, back: Back) -> None:
        core = self._core
        written = core.world.wall()

        def give(content: Content, number: int) -> tuple[tuple[Draft, ...], Landing]:
            if back.reason == "unknown" and content.is_there(number, edit):
                # It was applied after all: what it makes of its paths is there.
                paths = content.let_go(number, edit)
                drafts: tuple[Draft, ...] = ()
            else:
                drafts, paths = content.outbox.give_back(
                    number,
                    edit,
                    back.reason,
                    written=written,
                    code=back.code,
                    detail=back.detail,
                    theirs=back.theirs,
                )
            version = content.version(number) or 0
            return drafts, Landing(version, tuple(sorted(paths)), content.next_change())

        def given(found: tuple[tuple[Draft, ...], Landing]) -> None:
            drafts, landing = found
            room.doubted = None
            room.unconfirmed = True
            core.say_drafts(room, drafts)
            core.say_changed(room, landing)

        await core.write(room, give, given)

    def _know(self, room: Room, conflicted: Conflicted) -> None:
        for clash in conflicted.clashes:
            if clash.current is not None:
                room.known = max(room.known, clash.current.revision)

    async def _upload(
        self, room: Room, generation: Generation, link: Link, edit: QueuedEdit
    ) -> None:
        """Send the bytes that an edit needs and the authority does not have yet."""
        for step in edit.steps:
            operation = step.operation
            if not isinstance(operation, PutBinary):
                continue
            if not isinstance(link, Storing):
                raise RoomRefused(room.name, "binaries")
            digest, size = operation.digest, operation.size
            data = await self._core.read(
                room, lambda content, number, digest=digest: content.blob(number, digest)
            )
            if data is None:
                return  # the authority will say that it has none
            received = await self._ask(
                room,
                generation,
                lambda digest=digest, size=size: link.upload(room.name, digest, size, 0, b""),
            )
            while received < size:
                piece = data[received : received + BLOB_BYTES]
                more = await self._ask(
                    room,
                    generation,
                    lambda digest=digest, size=size, at=received, piece=piece: link.upload(
                        room.name, digest, size, at, piece
                    ),
                )
                if not received < more <= size:
                    raise ProviderFault(
                        f"{room.name}: an upload went from {received} to {more}", room=room.name
                    )
                received = more

    # ----------------------------------------------------------------------------------- conversing

    async def _converse(self, room: Room, generation: Generation, link: Link) -> None:
        """Hear what was said, then say what waits."""
        core = self._core
        assert isinstance(link, Conversing)  # noqa: S101 - it is asked for only then
        room.unheard = False
        while True:
            position = room.position
            page = await self._ask(
                room, generation, lambda position=position: link.messages(room.name, position)
            )
            if page.room != room.name:
                raise ProviderFault(f"{room.name}: another room was answered", room=room.name)
            if page.more and page.position == position:
                raise ProviderFault(f"{room.name}: messages lead nowhere", room=room.name)

            def heard(_: None, position: str = page.position) -> None:
                room.position = position

            await core.write(
                room,
                lambda content, number, page=page: content.hear(
                    number, page.messages, page.position
                ),
                heard,
            )
            for message in page.messages:
                core.say(events.MessageHeard(room.name, message))
            if not page.more:
                break
        for thread, identity, text in await core.read(
            room, lambda content, number: content.unsaid(number)
        ):
            said = await self._ask(
                room,
                generation,
                lambda thread=thread, identity=identity, text=text: link.say(
                    room.name, thread, identity, text
                ),
            )
            if said.thread != thread or said.id != identity:
                raise ProviderFault(f"{room.name}: another message was answered", room=room.name)
            # Its place among the others is heard of with them.
            await core.write(
                room,
                lambda content, number, thread=thread, identity=identity: content.unsay(
                    number, thread, identity
                ),
            )
            room.unheard = True
