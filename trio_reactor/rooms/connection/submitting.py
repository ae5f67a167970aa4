"""Submitting edits: sending the first of a room, and doing what its answer leads to."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from trio_reactor.rooms import events
from trio_reactor.rooms.errors import (
    ProviderFault,
    RoomRefused,
)
from trio_reactor.rooms.model.answers import (
    Answer,
    Conflicted,
)
from trio_reactor.rooms.model.checking import check_clashes
from trio_reactor.rooms.model.edits import PutBinary, Submission, paths_of
from trio_reactor.rooms.model.held import Draft, QueuedEdit, Step
from trio_reactor.rooms.provider.protocol import Link, Storing
from trio_reactor.rooms.store.content import BLOB_BYTES, Content, Landing
from trio_reactor.rooms.sync.answering import Again, Anew, Back, Hold, Land, Merge, consequence

from .core import Core
from .generation import Generation
from .room import Room

__all__ = ["Submitting"]


@final
class Submitting:
    """Sends edits to the authority.

    Args:
        core: What the parts of the connection share.
        merge_of: How documents at a path of a room are merged, if they are.
        later: Has a room carried again after so many seconds.
    """

    def __init__(
        self,
        core: Core,
        merge_of: Callable[[str, str], Merge | None],
        later: Callable[[Room, Generation, float], None],
    ) -> None:
        self._core = core
        self._merge_of = merge_of
        self._later = later

    async def submit(self, room: Room, generation: Generation, link: Link) -> None:
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
        answer = await self._core.ask(room, generation, link.submit, submission)
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
                core.landed(room, generation, landing)

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
            if not isinstance(step.operation, PutBinary):
                continue
            if not isinstance(link, Storing):
                raise RoomRefused(room.name, "binaries")
            await self._upload_one(room, generation, link, step.operation)

    async def _upload_one(
        self, room: Room, generation: Generation, link: Storing, operation: PutBinary
    ) -> None:
        core, name = self._core, room.name
        digest, size = operation.digest, operation.size
        data = await core.read(room, lambda content, number: content.blob(number, digest))
        if data is None:
            return  # the authority will say that it has none
        received = await core.ask(room, generation, link.upload, name, digest, size, 0, b"")
        while received < size:
            piece = data[received : received + BLOB_BYTES]
            more = await core.ask(
                room, generation, link.upload, name, digest, size, received, piece
            )
            if not received < more <= size:
                raise ProviderFault(f"{name}: an upload went from {received} to {more}", room=name)
            received = more
