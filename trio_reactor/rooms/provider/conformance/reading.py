"""What is listed and read, page by page and since a version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from trio_reactor.rooms.errors import RoomNotReadable
from trio_reactor.rooms.model.answers import Advanced, BeyondHorizon, Current, Discontinued, Page
from trio_reactor.rooms.model.edits import Delete, Move, Put, Submission
from trio_reactor.rooms.model.entries import digest_of
from trio_reactor.rooms.model.terms import CONTRACT
from trio_reactor.rooms.provider.protocol import Acting, Conversing, Historic, Link, Storing
from trio_reactor.testing.conformance import Part

from .replica import State, laid
from .trial import ADA, BEN, ROOM, Trial

__all__ = ["READING", "reads"]

READING: Final = Part(Trial)


def reads(link: Link, room: str) -> dict[str, Callable[[], Awaitable[object]]]:
    """Everything that may be asked of a room only by who may read it."""
    digest = digest_of(b"x")
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "a page of the room": lambda: link.bootstrap(room, "", None),
        "what is newer in it": lambda: link.refresh(room, 0),
        "a submission to it": lambda: link.submit(
            Submission(room, "store", 1, (Put("x.md", "x"),))
        ),
    }
    if isinstance(link, Historic):
        calls["a history in it"] = lambda: link.history(room, "a.md", None)
    if isinstance(link, Storing):
        calls["a binary of it"] = lambda: link.binary(room, digest, 0, 1)
        calls["bytes for it"] = lambda: link.upload(room, digest, 1, 0, b"x")
    if isinstance(link, Conversing):
        calls["what was said in it"] = lambda: link.messages(room, "")
        calls["a message to it"] = lambda: link.say(room, "thread", "message", "hello")
    return calls


@READING.case("what is told of it names the contract, an epoch and the member", decisive=True)
async def _terms(trial: Trial) -> None:
    async with trial.linked() as one:
        pass
    async with trial.linked() as two:
        pass
    async with trial.linked(BEN) as three:
        pass
    trial.require(one.discovery.member == ADA, f"calls {ADA} {one.discovery.member}")
    trial.require(three.discovery.member == BEN, f"calls {BEN} {three.discovery.member}")
    trial.require(one.discovery.terms.contract == CONTRACT, "is of another contract")
    epochs = {each.discovery.epoch for each in (one, two, three)}
    trial.require(len(epochs) == 1, f"told {len(epochs)} epochs over three links")
    known = {"history": Historic, "binaries": Storing, "conversations": Conversing}
    for capability, kind in {**known, "actions": Acting}.items():
        named = capability in one.discovery.terms.capabilities
        claimed = trial.rig.offers(capability)
        trial.require(named == claimed, f"names {one.discovery.terms.capabilities}")
        trial.require(not named or isinstance(one.link, kind), f"is not {kind.__name__}")


@READING.case("a room is listed, once and at its version, for exactly those who may read it")
async def _listed(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.room(ADA, BEN, room="notes")
    await trial.put("a.md", "a")
    async with trial.linked(ADA) as ada, trial.linked(BEN) as ben:
        for linked, expected in ((ada, {ROOM: 1, "notes": 0}), (ben, {"notes": 0})):
            listed = await linked.listed()
            found = {room: listing.version for room, listing in listed.items()}
            trial.require(found == expected, f"listed {found}, not {expected}")
        await trial.put("b.md", "b")
        version = (await ada.listed())[ROOM].version
        trial.require(version == 2, f"listed a room of version 2 at {version}")


@READING.case("directories that may not be written are listed")
async def _readonly(trial: Trial) -> None:
    await trial.room()
    await trial.rig.grant(ADA, ROOM, readonly=("kept", "old/ones"))
    async with trial.linked() as linked:
        found = (await linked.listed())[ROOM].readonly
        trial.require(set(found) == {"kept", "old/ones"}, f"listed {found} as read-only")


@READING.case("of a room that may not be read nothing is given and nothing is taken")
async def _not_readable(trial: Trial) -> None:
    await trial.room(BEN)
    async with trial.linked() as linked:
        for room in (ROOM, "a room that never was"):
            for what, call in reads(linked.link, room).items():
                await trial.refused(RoomNotReadable, f"asked for {what}", call)
    async with trial.linked(BEN) as linked:
        await linked.unchanged()


@READING.case("a room that was revoked is not read from then on, over any link")
async def _revoked(trial: Trial) -> None:
    await trial.room(ADA, BEN)
    for name in range(trial.rig.page_size + 1):
        await trial.put(f"{name}.md", "a")
    async with trial.linked() as linked, trial.linked(client="other") as other:
        page = await linked.page(ROOM, None)
        await other.accepted(1, Put("b.md", "b"))
        await trial.rig.revoke(ADA, ROOM)
        for each in (linked, other):
            trial.require(ROOM not in await each.listed(), "listed a room that was revoked")
            for what, call in reads(each.link, ROOM).items():
                await trial.refused(RoomNotReadable, f"asked for {what}, after revoking", call)
        token = page.next if isinstance(page, Page) else None
        trial.require(token is not None, "gave a whole room in a page that is too small for it")
        await trial.refused(
            RoomNotReadable,
            "asked for its next page",
            lambda: linked.link.bootstrap(ROOM, "", token),
        )
    async with trial.linked(BEN) as linked:
        await linked.unchanged()


@READING.case("a room that was revoked and granted again is read as before")
async def _granted_again(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "a")
    async with trial.linked() as linked:
        await trial.rig.revoke(ADA, ROOM)
        await trial.put("b.md", "b")
        await trial.rig.grant(ADA, ROOM)
        await linked.unchanged()
        await linked.caught_up(0)


@READING.case("a room that was removed is not read any more", "remove")
async def _removed(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "a")
    async with trial.linked() as linked:
        await trial.rig.remove(ROOM)
        trial.require(ROOM not in await linked.listed(), "listed a room that was removed")
        for what, call in reads(linked.link, ROOM).items():
            await trial.refused(RoomNotReadable, f"asked for {what}, after removing it", call)


@READING.case("an empty room is one page of nothing")
async def _empty(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        page = await linked.whole()
        trial.require((page.number, page.version) == (0, 0), f"gave {page}")


@READING.case("a room is read whole in pages, each of which is bounded")
async def _pages(trial: Trial) -> None:
    await trial.room(ADA)
    size = trial.rig.page_size
    paths = [f"d{number % 3}/é{number}.md" for number in range(size * 3 + 1)]
    for path in paths:
        await trial.put(path, f"the text of {path}\n\u2028\t\U0001f680")
    await trial.delete(paths[0])
    await trial.put(paths[1], "")
    async with trial.linked() as linked:
        sizes: list[int] = []
        page = await linked.page(ROOM, None)
        while isinstance(page, Page):
            sizes.append(len(page.entries))
            if page.next is None:
                break
            page = await linked.page(ROOM, page)
        trial.require(max(sizes) <= size, f"gave pages of {sizes} entries; page_size is {size}")
        await linked.unchanged()


@READING.case("a room that is written while it is read is whole as of its last page")
async def _moving(trial: Trial) -> None:
    await trial.room(ADA)
    size = trial.rig.page_size
    for number in range(size * 3):
        await trial.put(f"m{number:03}.md", "first")

    async def write(number: int) -> None:
        """Something of each kind, before and after what was read so far."""
        if number >= 3:
            return
        first, last = f"m{number:03}.md", f"m{size * 3 - 1 - number:03}.md"
        await trial.put(f"m{number + 10:03}.md", "second")
        await trial.write(Delete(first, trial.base(first)), Put(f"z{number}.md", "new"))
        await trial.write(Move(last, f"a{number}.md", trial.base(last)), Put(first, "back"))

    async with trial.linked() as linked:
        page = await linked.whole(between=write)
        await linked.caught_up(page.version)
        await linked.unchanged()


@READING.case("a page that is asked for again is the page, or its transfer is discontinued")
async def _again(trial: Trial) -> None:
    await trial.room(ADA)
    for number in range(trial.rig.page_size * 2 + 1):
        await trial.put(f"{number:03}.md", "a")
    async with trial.linked() as linked, trial.linked(client="other") as other:
        page = await linked.page(ROOM, None)
        if isinstance(page, Discontinued):
            trial.fail("discontinued a transfer at its first page")
        state: State = laid({}, page)
        await trial.put("late.md", "while it is read")
        while page.next is not None:
            before = page
            # The link that it was begun over is not the only one that may go on with it.
            for each in (linked, other, linked):
                found = await each.page(ROOM, before)
                if isinstance(found, Discontinued):
                    return
                page = found
            state = laid(state, page)
        trial.same(state, trial.states[ROOM][page.version], "with each page asked for thrice")


@READING.case("a token that is none of a transfer's is answered as discontinued")
async def _no_token(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.room(ADA, room="notes")
    for number in range(trial.rig.page_size + 1):
        await trial.put(f"{number:03}.md", "a")
    async with trial.linked() as linked:
        for token in ("", "never given", "0", "[]", "\u2028"):
            with trial.soon("did not answer"):
                found = await linked.link.bootstrap(ROOM, "", token)
            trial.require(found == Discontinued(), f"answered {found!r} to a token that is none")
        page = await linked.page(ROOM, None)
        trial.require(isinstance(page, Page) and page.next is not None, "gave no token")
        if isinstance(page, Page):
            with trial.soon("did not answer"):
                found = await linked.link.bootstrap("notes", "", page.next)
            trial.require(
                found == Discontinued(), f"answered {found!r} to the token of another room's"
            )


@READING.case("what is newer than each version leads to what there is, in bounded changes")
async def _since(trial: Trial) -> None:
    await trial.room(ADA)
    size = trial.rig.page_size
    for number in range(size + 2):
        await trial.put(f"{number}.md", "first")
    await trial.write(Delete("0.md", trial.base("0.md")), Put("A.md", "a"))
    await trial.write(Move("1.md", "b/1.md", trial.base("1.md")))
    await trial.put("0.md", "again")
    for number in range(3):
        await trial.put("2.md", f"often {number}")
    await trial.delete("3.md")
    async with trial.linked() as linked:
        for since in range(trial.version() + 1):
            await linked.caught_up(since)
        found = await linked.refreshed(0)
        trial.require(
            isinstance(found, Advanced) and found.more, f"gave all of a long log at once: {found}"
        )


@READING.case("a version that is the room's is current, and one beyond it is never taken for one")
async def _current(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        found = await linked.refreshed(0)
        trial.require(isinstance(found, Current), f"answered {found!r} about an empty room")
        await trial.put("a.md", "a")
        found = await linked.refreshed(1)
        trial.require(isinstance(found, Current), f"answered {found!r} about its version")
        found = await linked.refreshed(9)
        trial.require(
            isinstance(found, BeyondHorizon), f"answered {found!r} about a version not reached"
        )


@READING.case("what was trimmed is beyond the horizon, and nothing else is", "trim")
async def _trimmed(trial: Trial) -> None:
    await trial.room(ADA)
    for number in range(6):
        await trial.put(f"{number % 4}.md", f"{number}")
    async with trial.linked() as linked:
        for floor in (0, 2, 4, 3, 6):
            await trial.rig.trim(ROOM, floor)
            highest = max(floor, 4) if floor > 2 else floor
            for since in range(7):
                found = await linked.refreshed(since)
                beyond = isinstance(found, BeyondHorizon)
                trial.require(
                    beyond == (since < highest),
                    f"answered {found!r} since {since} when trimmed up to {highest}",
                )
        await linked.unchanged()
        await trial.put("a.md", "after")
        await linked.caught_up(6)


@READING.case("a room whose log was trimmed is read whole, or its transfer is discontinued", "trim")
async def _trimmed_under(trial: Trial) -> None:
    await trial.room(ADA)
    for number in range(trial.rig.page_size * 2 + 1):
        await trial.put(f"{number:03}.md", "a")
    async with trial.linked() as linked:
        page = await linked.page(ROOM, None)
        state: State = {}
        await trial.delete("000.md")
        await trial.put("zzz.md", "late")
        await trial.rig.trim(ROOM, trial.version())
        while isinstance(page, Page):
            state = laid(state, page)
            if page.next is None:
                trial.same(state, trial.states[ROOM][page.version], "although it was trimmed")
                break
            page = await linked.page(ROOM, page)
        await linked.unchanged()


@READING.case("a new epoch is told as another one", "begin_epoch")
async def _epoch(trial: Trial) -> None:
    async with trial.linked() as linked:
        before = linked.discovery.epoch
    await trial.rig.begin_epoch()
    async with trial.linked() as linked:
        trial.require(linked.discovery.epoch != before, "told the same epoch after it began anew")


@READING.case(
    "an authority that went back tells the version that it went back to", "keep", "go_back"
)
async def _went_back(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.put("a.md", "kept")
    await trial.rig.keep()
    await trial.put("a.md", "lost")
    await trial.put("b.md", "lost")
    async with trial.linked() as linked:
        before = linked.discovery.epoch
        await linked.unchanged()
    await trial.rig.go_back()
    del trial.states[ROOM][2:]
    async with trial.linked() as linked:
        trial.require(linked.discovery.epoch == before, "told another epoch")
        version = (await linked.listed())[ROOM].version
        trial.require(version == 1, f"listed version {version}; it went back to 1")
        await linked.unchanged()
        found = await linked.refreshed(3)
        trial.require(isinstance(found, BeyondHorizon), f"answered {found!r} to what it has lost")
