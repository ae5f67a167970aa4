"""What the cases do with a provider, with a message for whatever it does wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar, final

import msgspec

from trio_reactor.errors import ReactorError
from trio_reactor.rooms.model.answers import (
    Accepted,
    Advanced,
    Answer,
    BeyondHorizon,
    Conflicted,
    Current,
    Discontinued,
    Page,
    Refreshed,
)
from trio_reactor.rooms.model.checking import (
    check_advanced,
    check_clashes,
    check_discovery,
    check_listing,
    check_page,
    twice_listed,
)
from trio_reactor.rooms.model.edits import Delete, Operation, Put, Submission, paths_of
from trio_reactor.rooms.model.terms import Discovery, Listing
from trio_reactor.rooms.provider.protocol import (
    Acting,
    Announcement,
    Client,
    Conversing,
    Historic,
    Holding,
    Link,
    Part,
    Storing,
)
from trio_reactor.testing import conformance

from .replica import State, laid, shown, stepped
from .rig import Rig

__all__ = ["ADA", "BEN", "ROOM", "Linked", "Trial"]

ADA: Final = "ada"
BEN: Final = "ben"
ROOM: Final = "plans"

MOST_PAGES: Final = 200
"""How many pages no room of a case has."""

A = TypeVar("A")


@final
class Trial(conformance.Trial[Rig]):
    """What the body of a case works with.

    Args:
        rig: The provider.
        required: The rule that is tested.
    """

    def __init__(self, rig: Rig, required: str) -> None:
        super().__init__(rig, required)
        self.states: dict[str, list[State]] = {}
        """What each room was, by its version, as far as it is known here."""

    async def room(self, *members: str, room: str = ROOM) -> None:
        """Make a room that these members may read and write."""
        await self.rig.create(room)
        self.states[room] = [{}]
        for member in members:
            await self.rig.grant(member, room)

    def version(self, room: str = ROOM) -> int:
        """The version of a room."""
        return len(self.states[room]) - 1

    def state(self, room: str = ROOM) -> State:
        """What is in a room."""
        return self.states[room][-1]

    def base(self, path: str, room: str = ROOM) -> int | None:
        """The revision of what is at a path."""
        entry = self.state(room).get(path)
        return None if entry is None else entry.revision

    async def write(self, *operations: Operation, room: str = ROOM) -> None:
        """Write as somebody else."""
        version = await self.rig.write(room, *operations)
        self.applied(version, operations, room)

    async def put(self, path: str, text: str, *, room: str = ROOM) -> None:
        """Write a document over whatever is there, as somebody else."""
        await self.write(Put(path, text, self.base(path, room)), room=room)

    async def delete(self, path: str, *, room: str = ROOM) -> None:
        """Delete what is there, as somebody else."""
        await self.write(Delete(path, self.base(path, room)), room=room)

    def applied(self, version: int, operations: tuple[Operation, ...], room: str = ROOM) -> None:
        """Note what was accepted, which must have been the room's next version."""
        due = self.version(room) + 1
        self.require(version == due, f"gave a room of version {due - 1} the version {version} next")
        self.states[room].append(stepped(self.state(room), due, operations))

    @asynccontextmanager
    async def linked(self, member: str = ADA, client: str = "store") -> AsyncGenerator[Linked]:
        """A link, over which was asked what there is."""
        async with self.rig.provider(member).connect(Client(client)) as link:
            with self.soon("did not say what there is"):
                discovery = await link.discover()
            yield Linked(self, link, client, discovery)

    def same(self, found: State, expected: State, when: str) -> None:
        """Require that this is what a room was to be."""
        self.require(
            found == expected, f"gave {when}: {shown(found)}; there was: {shown(expected)}"
        )

    async def refused(
        self, kind: type[ReactorError], did: str, call: Callable[[], Awaitable[object]]
    ) -> None:
        """Require that a call raises an error of this kind."""
        with self.soon(f"did not refuse: {did}"):
            try:
                found = await call()
            except kind:
                return
            except Exception as failure:
                raise self.broken(f"raised {failure!r} instead of {kind.__name__}: {did}") from (
                    failure
                )
        self.fail(f"answered {found!r} instead of {kind.__name__}: {did}")


@final
class Linked:
    """A link under test."""

    def __init__(self, trial: Trial, link: Link, client: str, discovery: Discovery) -> None:
        check_discovery(discovery)
        self.link = link
        self.discovery = discovery
        self.limits = discovery.terms.limits
        self._trial = trial
        self._client = client
        self._parts: dict[str, dict[int, Part]] = {}

    # --------------------------------------------------------------------------- what it can beside

    @property
    def historic(self) -> Historic:
        """It, as one that has a history."""
        if not isinstance(self.link, Historic):
            self._trial.fail("is not Historic")
        return self.link

    @property
    def storing(self) -> Storing:
        """It, as one that stores binaries."""
        if not isinstance(self.link, Storing):
            self._trial.fail("is not Storing")
        return self.link

    @property
    def conversing(self) -> Conversing:
        """It, as one that has conversations."""
        if not isinstance(self.link, Conversing):
            self._trial.fail("is not Conversing")
        return self.link

    @property
    def acting(self) -> Acting:
        """It, as one that has actions."""
        if not isinstance(self.link, Acting):
            self._trial.fail("is not Acting")
        return self.link

    # -------------------------------------------------------------------------------------- reading

    async def listed(self) -> dict[str, Listing]:
        """What is listed now, by room."""
        with self._trial.soon("did not say what there is"):
            discovery = await self.link.discover()
        check_discovery(discovery)
        twice = twice_listed(discovery.rooms)
        self._trial.require(not twice, f"lists twice: {sorted(twice)}")
        for listing in discovery.rooms:
            check_listing(listing)
        return {listing.room: listing for listing in discovery.rooms}

    async def page(self, room: str, before: Page | None) -> Page | Discontinued:
        """The page after one, or the first, as it must be."""
        token = None if before is None else before.next
        with self._trial.soon("did not give a page"):
            page = await self.link.bootstrap(room, "", token)
        if isinstance(page, Page):
            check_page(
                page,
                room=room,
                transfer=None if before is None else before.transfer,
                number=0 if before is None else before.number + 1,
                version=None if before is None else before.version,
                limits=self.limits,
            )
        return page

    async def whole(
        self, room: str = ROOM, between: Callable[[int], Awaitable[None]] | None = None
    ) -> Page:
        """Read a whole room, which must be what it was at the version that the last page names.

        Args:
            room: Which.
            between: Done after each page that is not the last, with its number.

        Returns:
            The last page.
        """
        state: State = {}
        last: Page | None = None
        for _ in range(MOST_PAGES):
            page = await self.page(room, last)
            if isinstance(page, Discontinued):
                self._trial.fail("discontinued a transfer that nothing was in the way of")
            last, state = page, laid(state, page)
            if page.next is None:
                states = self._trial.states[room]
                self._trial.require(
                    page.version < len(states), f"read a version {page.version} that never was"
                )
                when = f"when it was read whole, at version {page.version}"
                self._trial.same(state, states[page.version], when)
                return page
            if between is not None:
                await between(page.number)
        raise self._trial.broken(f"gave {MOST_PAGES} pages and no last one")

    async def refreshed(self, since: int, room: str = ROOM) -> Refreshed:
        """What is newer than a version, as it must be."""
        with self._trial.soon("did not say what is newer"):
            found = await self.link.refresh(room, since)
        match found:
            case Advanced():
                self.advanced(found, since)
            case Current(of, version):
                self._trial.require(
                    (of, version) == (room, since),
                    f"said that {of} is current at {version}; {room} was asked for since {since}",
                )
            case BeyondHorizon(of):
                self._trial.require(of == room, f"answered about {of}, not {room}")
        return found

    def advanced(self, found: Advanced, since: int) -> None:
        """Require that a change leads from what a room was to what it was."""
        trial, states = self._trial, self._trial.states[found.room]
        check_advanced(found, room=found.room, since=since, limits=self.limits)
        trial.require(
            found.version < len(states), f"leads to a version {found.version} that never was"
        )
        when = f"as what there is at version {found.version}, since {since}"
        trial.same(laid(states[since], found), states[found.version], when)

    async def caught_up(self, since: int, room: str = ROOM) -> int:
        """Follow a room from a version on until it is current; returns how many changes it took."""
        trial = self._trial
        for count in range(MOST_PAGES):
            found = await self.refreshed(since, room)
            match found:
                case Advanced():
                    since = found.version
                    if not found.more:
                        trial.require(
                            since == trial.version(room),
                            f"said at version {since} that there is no more; there was"
                            f" {trial.version(room)}",
                        )
                case Current():
                    trial.require(
                        since == trial.version(room),
                        f"called version {since} current; it was at {trial.version(room)}",
                    )
                    return count
                case BeyondHorizon():
                    trial.fail(f"said that {since} is beyond the horizon; nothing was trimmed")
        raise trial.broken(f"did not become current with {MOST_PAGES} changes")

    # -------------------------------------------------------------------------------------- writing

    async def submit(
        self, sequence: int, *operations: Operation, room: str = ROOM, client: str | None = None
    ) -> Answer:
        """Submit operations, as this sequence of a client's; the link's if none is named."""
        who = self._client if client is None else client
        submission = Submission(room, who, sequence, operations)
        with self._trial.soon("did not answer a submission"):
            answer = await self.link.submit(submission)
        if isinstance(answer, Conflicted):
            paths = [path for operation in operations for path in paths_of(operation)]
            check_clashes(room, answer, paths, self.limits)
        return answer

    async def accepted(
        self, sequence: int, *operations: Operation, room: str = ROOM, client: str | None = None
    ) -> Accepted:
        """Submit what is new and must be accepted."""
        answer = await self.submit(sequence, *operations, room=room, client=client)
        if not isinstance(answer, Accepted):
            self._trial.fail(f"answered {answer!r} to {operations}")
        self._trial.applied(answer.version, operations, room)
        return answer

    async def unchanged(self, room: str = ROOM) -> None:
        """Require that a room is what it is known to be."""
        page = await self.whole(room)
        due = self._trial.version(room)
        self._trial.require(
            page.version == due, f"is at version {page.version}; {due} was the last accepted"
        )

    # ------------------------------------------------------------------------------------ listening

    async def hold(
        self, *rooms: str, at: int | None = None, parts: dict[str, tuple[int, ...]] | None = None
    ) -> tuple[str, ...]:
        """Say that these rooms are held, at their versions now or all at this one."""
        versions = {room: self._trial.version(room) if at is None else at for room in rooms}
        with self._trial.soon("did not take what is held"):
            return await self.link.hold(Holding(versions, parts or {}))

    async def heard(self) -> Announcement:
        """The next announcement, which may be a part of one."""
        events = self.link.events
        if events is None:
            self._trial.fail("announces nothing")
        with self._trial.soon("announced nothing"):
            return await events.receive()

    async def told(
        self, what: str, fits: Callable[[Announcement], object]
    ) -> tuple[Announcement, list[Announcement]]:
        """Listen until something fits; parts are put together.

        Args:
            what: What it is, for who misses it.
            fits: Whether this is it.

        Returns:
            It, and what was announced before it.
        """
        before: list[Announcement] = []
        events = self.link.events
        if events is None:
            self._trial.fail("announces nothing")
        with self._trial.soon(f"did not announce {what}"):
            while True:
                announcement = await events.receive()
                if isinstance(announcement, Part):
                    whole = self.joined(announcement)
                    if whole is None:
                        continue
                    announcement = whole
                if fits(announcement):
                    return announcement, before
                before.append(announcement)

    def joined(self, part: Part) -> Announcement | None:
        """What this part completes, if it does."""
        parts = self._parts.setdefault(part.key, {})
        self._trial.require(
            0 <= part.number < part.of and all(each.of == part.of for each in parts.values()),
            f"numbers a part {part.number} of {part.of}",
        )
        parts[part.number] = part
        if len(parts) < part.of:
            return None
        data = b"".join(parts[number].data for number in range(part.of))
        return msgspec.json.decode(data, type=Announcement)
