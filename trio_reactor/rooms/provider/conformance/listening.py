"""What a stream announces, and that it misses nothing."""

from __future__ import annotations

from typing import Final

import trio

from trio_reactor.errors import is_expected
from trio_reactor.rooms.model.edits import Delete, Put
from trio_reactor.rooms.provider.protocol import (
    Announced,
    Announcement,
    Relisted,
    Revoked,
    Said,
    Writing,
)
from trio_reactor.rooms.provider.protocol import Part as AnnouncedPart
from trio_reactor.testing.cancellation import cancel_at
from trio_reactor.testing.conformance import Part

from .trial import ADA, BEN, ROOM, Linked, Trial

__all__ = ["LISTENING"]

LISTENING: Final = Part(Trial, "streaming")

MOST_STEPS: Final = 50
"""How many checkpoints of a wait for an announcement are tried at most."""


async def _reaches(trial: Trial, linked: Linked, version: int, room: str = ROOM) -> None:
    """Listen until a room is announced at a version; each change on the way must be right."""
    for announcement in await _heard(linked, version, room):
        _check(trial, linked, announcement, room)


async def _heard(linked: Linked, version: int, room: str = ROOM) -> list[Announced]:
    """What is announced of a room until it is at a version."""
    heard: list[Announced] = []

    def fits(announcement: Announcement) -> bool:
        if not isinstance(announcement, Announced) or announcement.room != room:
            return False
        heard.append(announcement)
        return announcement.version >= version

    await linked.told(f"version {version} of {room}", fits)
    return heard


def _check(trial: Trial, linked: Linked, announcement: Announced, room: str) -> None:
    """See that what was announced of a room is so, now that nobody writes."""
    trial.require(
        announcement.version <= trial.version(room),
        f"announced version {announcement.version} of a room of {trial.version(room)}",
    )
    if announcement.change is not None:
        trial.require(
            announcement.change.version == announcement.version,
            f"announced version {announcement.version} with the change {announcement.change}",
        )
        linked.advanced(announcement.change, announcement.change.since)


@LISTENING.case("what is written after it was said what is held is announced", decisive=True)
async def _announced(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        expired = await linked.hold(ROOM)
        trial.require(expired == (), f"called {expired} beyond the horizon")
        await trial.put("a.md", "a")  # before anybody listens
        await _reaches(trial, linked, 1)
        heard: list[Announced] = []

        async def listen() -> None:
            heard.extend(await _heard(linked, 2))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await trial.put("a.md", "b")
        # It may be announced before whoever writes it hears that it was written.
        for announcement in heard:
            _check(trial, linked, announcement, ROOM)
        await linked.accepted(1, Put("b.md", "its own too"))
        await _reaches(trial, linked, 3)
        await linked.caught_up(0)


@LISTENING.case("every room that is held at an older version is announced first")
async def _behind(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.room(ADA, room="notes")
    for room in (ROOM, "notes"):
        await trial.put("a.md", "a", room=room)
        await trial.put("a.md", "b", room=room)
    async with trial.linked() as linked:
        expired = await linked.hold(ROOM, "notes", at=1)
        trial.require(expired == (), f"called {expired} beyond the horizon")
        seen: set[str] = set()
        while seen != {ROOM, "notes"}:
            found, _ = await linked.told("what is newer", lambda told: isinstance(told, Announced))
            trial.require(isinstance(found, Announced) and found.version == 2, f"said {found}")
            seen.add(found.room if isinstance(found, Announced) else "")


@LISTENING.case(
    "what is held from before the horizon, or is not reached, has to be read again", "trim"
)
async def _beyond(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.room(ADA, room="notes")
    for number in range(4):
        await trial.put("a.md", f"{number}")
    await trial.rig.trim(ROOM, 2)
    for at, expected in ((1, (ROOM,)), (2, ()), (4, ()), (9, (ROOM,))):
        async with trial.linked() as linked:
            expired = await linked.hold(ROOM, at=at)
            trial.require(expired == expected, f"called {expired} expired when held at {at}")
            await trial.put("b.md", "goes on", room="notes")
            await linked.unchanged()


@LISTENING.case("a room that is held and may not be read any more is revoked at once")
async def _held_not_readable(trial: Trial) -> None:
    await trial.room(BEN)
    await trial.room(ADA, room="notes")
    async with trial.linked() as linked:
        await linked.hold(ROOM, "notes")
        await linked.told("that it was revoked", lambda told: told == Revoked(ROOM))


@LISTENING.case("that a room was revoked is announced, and nothing of it after that")
async def _revoked(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.room(ADA, room="notes")
    async with trial.linked() as linked, trial.linked(client="other") as other:
        for each in (linked, other):
            await each.hold(ROOM, "notes")
        await trial.rig.revoke(ADA, ROOM)
        await trial.put("a.md", "what they may not see")
        await trial.put("a.md", "a", room="notes")
        for each in (linked, other):
            await each.told("that it was revoked", lambda told: told == Revoked(ROOM))
            _, before = await each.told("another room", lambda told: isinstance(told, Announced))
            trial.require(not any(_is_of(ROOM, told) for told in before), f"told {before} after")


def _is_of(room: str, told: Announcement) -> bool:
    return isinstance(told, Announced | Said) and told.room == room


def _version(told: Announcement) -> int | None:
    return told.version if isinstance(told, Announced) else None


@LISTENING.case("that a room was removed is announced as a revocation", "remove")
async def _removed(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await linked.hold(ROOM)
        await trial.rig.remove(ROOM)
        await linked.told("that it was removed", lambda told: told == Revoked(ROOM))


@LISTENING.case(
    "a room that is granted after the discovery is announced as a change of the listing"
)
async def _granted(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.room(room="notes")
    await trial.room(room="more")
    async with trial.linked() as linked:
        await trial.rig.grant(ADA, "notes")  # between the discovery and what is held
        await linked.hold(ROOM)
        await linked.told("a granted room", lambda told: told == Relisted())
        trial.require("notes" in await linked.listed(), "did not list what was granted")
        await trial.rig.grant(ADA, "more")
        await linked.told("another granted room", lambda told: told == Relisted())


@LISTENING.case("of a room that may not be read nothing is announced")
async def _not_theirs(trial: Trial) -> None:
    await trial.room(BEN)
    await trial.room(ADA, room="notes")
    async with trial.linked() as linked:
        await linked.hold("notes")
        await trial.put("a.md", "ben's")
        await trial.put("a.md", "ada's", room="notes")
        _, before = await linked.told("ada's", lambda told: _is_of("notes", told))
        trial.require(not any(_is_of(ROOM, told) for told in before), f"told {before}")


@LISTENING.case("a room that was published behind what was announced meanwhile is announced")
async def _published(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await linked.hold()  # it is being read, and not held yet
        await linked.whole()
        await trial.put("a.md", "a")
        linked.link.published(ROOM, 0)
        await _reaches(trial, linked, 1)
        linked.link.published(ROOM, 1)
        linked.link.published("a room that never was", 1)
        await trial.put("a.md", "b")
        await _reaches(trial, linked, 2)


@LISTENING.case(
    "a change that an announcement brings is what the version before it led to", "changes"
)
async def _changes(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await linked.hold(ROOM)
        await trial.put("a.md", "a")
        await trial.write(Put("b.md", "b"), Delete("a.md", 1))
        brought = 0
        for version in (1, 2):
            found, _ = await linked.told(
                f"version {version}",
                lambda told: isinstance(told, Announced) and told.version == version,  # noqa: B023 - called in this turn
            )
            change = found.change if isinstance(found, Announced) else None
            if change is not None:
                linked.advanced(change, version - 1)
                brought += 1
        trial.require(brought == 2, f"brought {brought} small changes of 2 with what it announced")


@LISTENING.case("whoever falls behind is told to discover again, and nothing is missed unsaid")
async def _overflow(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.room(ADA, room="notes")
    async with trial.linked() as linked:
        await linked.hold(ROOM, "notes")
        await trial.put("a.md", "the first", room="notes")
        writes = trial.rig.backlog * 2 + 2
        for number in range(writes):
            await trial.put("a.md", f"{number}")
        heard: list[Announcement] = []

        def fits(told: Announcement) -> bool:
            heard.append(told)
            trial.require(
                len(heard) <= trial.rig.backlog + 2,
                f"kept {len(heard)} announcements; backlog is {trial.rig.backlog}",
            )
            return told == Relisted() or (_is_of(ROOM, told) and _version(told) == writes)

        found, _ = await linked.told("that something was missed", fits)
        if found == Relisted():
            version = (await linked.listed())[ROOM].version
            trial.require(version == writes, f"listed version {version} of {writes}")
        else:
            missed = not any(_is_of("notes", told) for told in heard)
            trial.require(not missed, "announced the last, and not that the first was missed")
        await trial.put("a.md", "after")
        await _reaches(trial, linked, writes + 1)


@LISTENING.case(
    "an announcement in parts is put together, and only what is missing sent again", "large"
)
async def _parts(trial: Trial) -> None:
    await trial.room(ADA)
    held: dict[str, tuple[int, ...]] = {}
    async with trial.linked() as linked:
        await linked.hold(ROOM)
        await trial.put("a.md", trial.rig.large())
        first = await linked.heard()
        if not isinstance(first, AnnouncedPart):
            trial.fail(f"announced {first} in one")
        trial.require(first.of > 1, "announced one part of one")
        held[first.key] = (first.number,)
        linked.joined(first)
        await _reaches(trial, linked, 1)
    async with trial.linked() as linked:
        await linked.hold(ROOM, parts={**held, "a key that never was": (0,)})
        # What is missing completes it, with the part that there was.
        linked.joined(first)
        await trial.put("b.md", "b")
        numbers: list[int] = []
        whole: Announcement | None = None
        while first.of - 1 > len(numbers):
            part = await linked.heard()
            if isinstance(part, AnnouncedPart):
                trial.require(part.key == first.key, f"sent a part of {part.key}")
                trial.require(part.number not in held[first.key], "sent again what was there")
                numbers.append(part.number)
                whole = linked.joined(part)
        trial.require(
            isinstance(whole, Announced) and whole.version == 1, f"put together to {whole!r:.200}"
        )


@LISTENING.case("two links of one member are told the same, and each ends alone")
async def _two(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as one:
        async with trial.linked(client="other") as two:
            for each in (one, two):
                await each.hold(ROOM)
            await trial.put("a.md", "a")
            for each in (one, two):
                await _reaches(trial, each, 1)
        await trial.put("a.md", "b")
        await _reaches(trial, one, 2)


@LISTENING.case("what happened while there was no link is announced over the next")
async def _meanwhile(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await linked.hold(ROOM)
    await trial.put("a.md", "a")
    async with trial.linked() as linked:
        await linked.hold(ROOM, at=0)
        await _reaches(trial, linked, 1)


@LISTENING.case(
    "a lost link ends its announcements and its calls, and the next misses nothing", "cut"
)
async def _cut(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await linked.hold(ROOM)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ends, trial, linked)
            await trio.testing.wait_all_tasks_blocked()
            await trial.rig.cut()
        with trial.soon("did not end a call of a lost link"):
            try:
                await linked.link.refresh(ROOM, 0)
            except Exception as failure:
                if not is_expected(failure):
                    raise trial.broken(f"raised {failure!r} when its link was lost") from failure
            else:
                trial.fail("answered over a lost link")
        linked.link.published(ROOM, 0)
    await trial.put("a.md", "a")
    async with trial.linked() as linked:
        await linked.hold(ROOM, at=0)
        await _reaches(trial, linked, 1)


async def _ends(trial: Trial, linked: Linked) -> None:
    """Listen until the link is lost."""
    events = linked.link.events
    if events is None:
        trial.fail("announces nothing")
    with trial.soon("did not end its announcements when its link was lost"):
        while True:
            try:
                await events.receive()
            except trio.EndOfChannel:
                return
            except Exception as failure:
                if not is_expected(failure):
                    raise trial.broken(f"raised {failure!r} when its link was lost") from failure
                return


@LISTENING.case("that writing is halted is announced, also to who comes later, and its end", "halt")
async def _halted(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await linked.hold(ROOM)
        await trial.rig.halt()
        await linked.told("that it is halted", lambda told: told == Writing(allowed=False))
        async with trial.linked(client="later") as later:
            await later.hold(ROOM)
            for each in (linked, later):
                if each is later:
                    await each.told(
                        "that it is halted", lambda told: told == Writing(allowed=False)
                    )
            await trial.rig.resume()
            for each in (linked, later):
                await each.told("that it goes on", lambda told: told == Writing(allowed=True))


@LISTENING.case("a wait for an announcement that is cancelled loses none, at whichever checkpoint")
async def _cancelled(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        await linked.hold(ROOM)
        events = linked.link.events
        if events is None:
            trial.fail("announces nothing")
        for step in range(MOST_STEPS):
            await trial.put("a.md", f"{step}")
            due, reached = trial.version(), 0
            with cancel_at(step) as scope, trial.soon("announced nothing"):
                while reached < due:
                    told = await events.receive()
                    reached = told.version if isinstance(told, Announced) else reached
            if not scope.cancelled_caught and reached == due:
                return
            if reached < due:
                await _reaches(trial, linked, due)
