"""Conversations and actions."""

from __future__ import annotations

from typing import Final

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.rooms.errors import RoomNotReadable, RoomRefused
from trio_reactor.rooms.model.answers import Message
from trio_reactor.rooms.model.terms import Action, Input
from trio_reactor.rooms.provider.protocol import Said
from trio_reactor.testing.conformance import Part

from .trial import ADA, BEN, MOST_PAGES, ROOM, Linked, Trial

__all__ = ["CONVERSING"]

CONVERSING: Final = Part(Trial)


async def _say(trial: Trial, linked: Linked, thread: str, message: str, text: str) -> Message:
    with trial.soon("did not take a message"):
        said = await linked.conversing.say(ROOM, thread, message, text)
    trial.require(
        (said.thread, said.id, said.text) == (thread, message, text), f"took {said} instead"
    )
    return said


async def _heard(trial: Trial, linked: Linked, position: str = "") -> tuple[list[Message], str]:
    """All that was said after a position, and the position then."""
    found: list[Message] = []
    for _ in range(MOST_PAGES):
        with trial.soon("did not give what was said"):
            page = await linked.conversing.messages(ROOM, position)
        size = trial.rig.page_size
        trial.require(page.room == ROOM, f"gave what was said in {page.room}")
        trial.require(len(page.messages) <= size, f"gave a page of {len(page.messages)} messages")
        trial.require(page.messages or not page.more, "gave an empty page and says there is more")
        found += page.messages
        position = page.position
        if not page.more:
            return found, position
    raise trial.broken(f"gave {MOST_PAGES} pages and no last one")


@CONVERSING.case("what was said is read in the order in which it was taken", "conversations")
async def _order(trial: Trial) -> None:
    await trial.room(ADA, BEN)
    async with trial.linked() as ada, trial.linked(BEN) as ben:
        nothing, position = await _heard(trial, ada)
        trial.require(nothing == [], f"gave {nothing} before anything was said")
        said: list[Message] = []
        for number in range(trial.rig.page_size + 2):
            linked, thread = (ada, ben)[number % 2], ("one", "two")[number % 3 % 2]
            said.append(await _say(trial, linked, thread, f"m{number}", f"text {number} \u2028"))
        for each in (ada, ben):
            found, after = await _heard(trial, each)
            trial.require(found == said, f"gave {found}; taken were {said}")
            more, _ = await _heard(trial, each, after)
            trial.require(more == [], f"gave {more} after everything")
        found, _ = await _heard(trial, ada, position)
        trial.require(found == said, f"gave {found} after a position before all of {said}")
        for thread in ("one", "two"):
            numbers = [each.number for each in said if each.thread == thread]
            trial.require(
                numbers == list(range(1, len(numbers) + 1)), f"numbered a thread {numbers}"
            )
        authors = [each.author for each in said[:2]]
        trial.require(authors == [ADA, BEN], f"called the authors {authors}")


@CONVERSING.case("each position is followed by what was said after it", "conversations")
async def _positions(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        positions: list[str] = [""]
        said: list[Message] = []
        for number in range(4):
            said.append(await _say(trial, linked, "one", f"m{number}", "text"))
            positions.append((await _heard(trial, linked, positions[-1]))[1])
    async with trial.linked() as linked:
        for number, position in enumerate(positions):
            found, _ = await _heard(trial, linked, position)
            trial.require(
                found == said[number:], f"gave {found} after {position!r}, not {said[number:]}"
            )


@CONVERSING.case(
    "a message that is said again is answered as it was, and said once", "conversations"
)
async def _once(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked, trial.linked(client="other") as other:
        first = await _say(trial, linked, "one", "m1", "text")
        await _say(trial, linked, "one", "m2", "more")
        for each in (linked, other):
            again = await _say(trial, each, "one", "m1", "text")
            trial.require(again == first, f"answered {again}; before, {first}")
        both: list[Message] = []

        async def send(each: Linked) -> None:
            both.append(await _say(trial, each, "one", "m3", "at once"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, linked)
            nursery.start_soon(send, other)
        trial.require(both[0] == both[1], f"answered {both} to the same message")
        found, _ = await _heard(trial, linked)
        trial.require(len(found) == 3, f"has {len(found)} messages; three were said")


@CONVERSING.case("a message that cannot be is refused and not said", "conversations")
async def _impossible(trial: Trial) -> None:
    await trial.room(ADA)
    async with trial.linked() as linked:
        most = linked.limits.max_message_bytes
        for thread, message, text in (
            ("", "m", "text"),
            ("one", "", "text"),
            ("x" * 257, "m", "text"),
            ("one\n", "m", "text"),
            ("one", "m", "\ud800"),
            ("one", "m", "é" * (most // 2) + "é"),
        ):
            await trial.refused(
                RoomRefused,
                f"was told {text[:20]!a} as {message!r} in {thread[:20]!r}",
                lambda thread=thread, message=message, text=text: linked.conversing.say(  # type: ignore[misc]
                    ROOM, thread, message, text
                ),
            )
        await _say(trial, linked, "one", "m", "é" * (most // 2))
        found, _ = await _heard(trial, linked)
        trial.require(len(found) == 1, f"has {len(found)} messages; one was said")


@CONVERSING.case("what is said is announced", "conversations", "streaming")
async def _announced(trial: Trial) -> None:
    await trial.room(ADA, BEN)
    async with trial.linked() as ada, trial.linked(BEN) as ben:
        await ada.hold(ROOM)
        position = ""
        for number in range(3):
            said = await _say(trial, ben, "one", f"m{number}", "hello")
            told, _ = await ada.told(
                "what was said", lambda told: isinstance(told, Said) and told.room == ROOM
            )
            if isinstance(told, Said) and told.message is not None:
                trial.require(told.message == said, f"announced {told.message}, not {said}")
                more, _ = await _heard(trial, ada, told.position)
                trial.require(more == [], f"gave {more} after the position of the last")
            found, position = await _heard(trial, ada, position)
            trial.require(found == [said], f"gave {found}, not {said}")


# ------------------------------------------------------------------------------------------ actions


@CONVERSING.case("an action is offered, and does what it is for", "actions", "offer")
async def _acted(trial: Trial) -> None:
    await trial.room(ADA)
    await trial.room(BEN, room="notes")
    text = Input("text")
    await trial.rig.offer(Action("echo", "Echo", "account", (text,)))
    await trial.rig.offer(Action("echo-room", "Echo there", "room", (text,)))
    async with trial.linked() as linked:
        offered = [action.name for action in linked.discovery.terms.actions]
        trial.require(offered == ["echo"], f"offers {offered} to everybody")
        listed = [action.name for action in (await linked.listed())[ROOM].actions]
        trial.require(listed == ["echo-room"], f"offers {listed} in a room")
        for action, room in (("echo", None), ("echo-room", ROOM)):
            with trial.soon("did not act"):
                found = await linked.acting.act(action, room, {"text": "héllo"})
            trial.require(found == "héllo", f"answered {found!r}")
        await trial.refused(
            RoomNotReadable,
            "was asked to act in a room that may not be read",
            lambda: linked.acting.act("echo-room", "notes", {"text": "a"}),
        )
        await trial.refused(
            ReactorError,
            "was asked to do what it does not offer",
            lambda: linked.acting.act("never offered", None, {}),
        )
