"""Editing: seen at once, durable, sent on, and given back with all of its text if it must be."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import trio
from pydantic import BaseModel
from rooms_story import ADA, Stage, kept, synchronized, texts, until

from trio_reactor.rooms import (
    ActionRefused,
    Collection,
    Delete,
    EditRefused,
    ErasureFailed,
    Move,
    PathRefused,
    Put,
    ReplicaError,
    RoomNotHeld,
    RoomNotReadable,
    RoomsStopped,
    TooLarge,
)
from trio_reactor.rooms.events import DraftMade, EditAccepted, RoomErased
from trio_reactor.rooms.model.answers import Expired, Retry, Unknown
from trio_reactor.rooms.model.terms import Action, Input
from trio_reactor.rooms.store.file import OpenStore


async def test_an_edit_is_seen_at_once_and_arrives(autojump_clock: object, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        with rooms.events.subscribe(EditAccepted) as events:
            await rooms.write("plans", "one.md", "mine")
            seen = await rooms.read("plans", "one.md")
            assert seen is not None
            assert seen.edited
            await events.receive()
        await synchronized(rooms)
        assert stage.texts("plans") == {"one.md": "mine"}
        seen = await rooms.read("plans", "one.md")
        assert seen is not None
        assert not seen.edited


async def test_edits_made_without_the_authority_arrive_in_their_order(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first", two="second")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
    stage.authority.reachable = False
    async with stage.rooms() as rooms:
        await rooms.write("plans", "one.md", "mine")
        await rooms.write("plans", "one.md", "mine again")
        await rooms.move("plans", "one.md", "moved.md")
        await rooms.delete("plans", "two.md")
        await rooms.edit("plans", Put("two.md", "anew"), Put("three.md", "third"))
        expected = {"moved.md": "mine again", "two.md": "anew", "three.md": "third"}
        assert await texts(rooms, "plans") == expected
    async with stage.rooms() as rooms:
        assert await texts(rooms, "plans") == expected
        assert len(await rooms.edits("plans")) == 5
        stage.authority.reachable = True
        await synchronized(rooms)
        assert stage.texts("plans") == expected
        assert await rooms.drafts("plans") == ()


async def test_a_conflict_keeps_both_texts(autojump_clock: object, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        stage.authority.reachable = False
        stage.authority.cut()
        await rooms.write("plans", "one.md", "mine")
        stage.authority.put("plans", "one.md", "theirs")
        with rooms.events.subscribe(DraftMade) as events:
            stage.authority.reachable = True
            assert (await events.receive()).event == DraftMade("plans", 1, "conflict", "conflict")
        (draft,) = await rooms.drafts("plans")
        assert draft.steps[0].operation == Put("one.md", "mine", 1)
        assert draft.steps[0].was == "first"
        assert draft.theirs[0].current.text == "theirs"  # type: ignore[union-attr]

        async def theirs() -> bool:
            return (await texts(rooms, "plans"))["one.md"] == "theirs"

        await until(theirs)
        assert rooms.status().attention == ("drafts",)
        await rooms.resubmit("plans", draft.id)
        await synchronized(rooms)
        assert stage.texts("plans") == {"one.md": "mine"}


class Note(BaseModel):
    title: str
    stars: int


async def test_a_collection_that_can_merge_has_no_conflict(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    merging = Collection("", Note, merge=lambda base, mine, theirs: f"{base}|{mine}|{theirs}")
    async with stage.rooms(collections=[merging]) as rooms:
        await synchronized(rooms)
        stage.authority.reachable = False
        stage.authority.cut()
        await rooms.write("plans", "one.md", "mine")
        stage.authority.put("plans", "one.md", "theirs")
        stage.authority.reachable = True
        await trio.sleep(1)
        await synchronized(rooms)
        assert stage.texts("plans") == {"one.md": "first|mine|theirs"}
        assert await rooms.drafts("plans") == ()


async def test_documents_of_a_collection_are_values_or_say_what_is_wrong(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans")
    stage.authority.put("plans", "notes/good.json", '{"title": "a", "stars": 3}')
    stage.authority.put("plans", "notes/bad.json", '{"title": "a", "stars": "many"}')
    stage.authority.put("plans", "notes/worse.json", "{")
    stage.authority.put("plans", "other.json", "{}")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        items = {
            item.seen.entry.path: item
            for item in await rooms.items("plans", Collection("notes", Note))
        }
        assert items["notes/good.json"].value == Note(title="a", stars=3)
        assert [problem.where for problem in items["notes/bad.json"].problems] == ["stars"]
        assert items["notes/worse.json"].value is None
        assert len(items) == 3


@pytest.mark.parametrize("answer", [Expired(), Retry(3.0)])
async def test_an_edit_that_was_not_applied_is_sent_until_it_is(
    autojump_clock: object, tmp_path: Path, answer: Any
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        stage.authority.answer_next("plans", answer)
        await rooms.write("plans", "one.md", "mine")
        await synchronized(rooms)
        assert stage.texts("plans") == {"one.md": "mine"}
        assert stage.authority.room("plans").version == 2


async def test_an_edit_of_which_nobody_knows_becomes_a_draft(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        stage.authority.answer_next("plans", Unknown(), Unknown())
        with rooms.events.subscribe(DraftMade) as events:
            await rooms.write("plans", "one.md", "mine")
            made = (await events.receive()).event
        assert isinstance(made, DraftMade)
        assert made.reason == "unknown"
        assert stage.texts("plans") == {"one.md": "first"}


async def test_a_halt_of_writing_holds_the_queue(autojump_clock: object, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        stage.authority.halt()
        await trio.sleep(1)
        await rooms.write("plans", "one.md", "mine")
        await trio.sleep(1_000)
        assert rooms.status().attention == ("writing-halted",)
        assert stage.texts("plans") == {"one.md": "first"}
        stage.authority.resume()
        await synchronized(rooms)
        assert stage.texts("plans") == {"one.md": "mine"}


@pytest.mark.parametrize(
    ("operation", "seen", "code"),
    [
        (Delete("nothing.md"), {}, "gone"),
        (Move("nothing.md", "x.md"), {}, "gone"),
        (Move("one.md", "two.md"), {}, "exists"),
        (Move("one.md", "one.md"), {}, "invalid"),
        (Put("ONE.md", "collides"), {}, "collision"),
        (Put("one.md", "stale"), {"one.md": 7}, "stale"),
        (Put("three.md", "deleted meanwhile"), {"three.md": 1}, "gone"),
        (Put("fixed/a.md", "x"), {}, "read-only"),
    ],
)
async def test_an_edit_that_cannot_be_made_is_refused_by_name(
    autojump_clock: object, tmp_path: Path, operation: Any, seen: dict[str, int], code: str
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first", two="second")
    stage.authority.grant(ADA, "plans", readonly=("fixed",))
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        with pytest.raises(EditRefused, match="plans") as caught:
            await rooms.edit("plans", operation, seen=seen)
        assert caught.value.code == code
        assert await rooms.edits("plans") == ()
        assert await texts(rooms, "plans") == {"one.md": "first", "two.md": "second"}


@pytest.mark.parametrize("path", ["../x", "a//b", "C:\\x", "a\0b", "/x", "x" * 10_000, "con", "a."])
async def test_a_path_that_cannot_be_one_is_refused(
    autojump_clock: object, tmp_path: Path, path: str
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        with pytest.raises(PathRefused):
            await rooms.write("plans", path, "text")
        with pytest.raises(ValueError, match="path"):
            await rooms.read("plans", path)


async def test_an_edit_of_a_room_that_is_not_held_is_refused(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.authority.reachable = False
    async with stage.rooms() as rooms:
        with pytest.raises(RoomNotHeld, match="plans"):
            await rooms.write("plans", "one.md", "mine")


async def test_what_is_too_large_is_refused_with_its_bound(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        with pytest.raises(TooLarge) as caught:
            await rooms.write("plans", "one.md", "x" * 2_000_000)
        assert (caught.value.bound, caught.value.limit) == ("max_document_bytes", 1_048_576)


async def test_a_binary_is_uploaded_before_it_is_put_and_read_by_its_digest(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    data = bytes(range(256)) * 4_096
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        await rooms.attach("plans", "image.png", data)
        assert await rooms.binary("plans", "image.png") == data
        await synchronized(rooms)
    async with stage.rooms("other") as rooms:
        await synchronized(rooms)
        found = await rooms.binary("plans", "image.png")
        assert hashlib.sha256(found).digest() == hashlib.sha256(data).digest()
        with pytest.raises(FileNotFoundError, match=r"one\.md"):
            await rooms.binary("plans", "one.md")


async def test_what_was_said_offline_is_said_once(autojump_clock: object, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        stage.authority.reachable = False
        stage.authority.cut()
        await rooms.say("plans", "general", "hello")
    stage.authority.reachable = True
    async with stage.rooms() as rooms:
        await synchronized(rooms)

        async def are_said(number: int) -> None:
            async def are() -> bool:
                return len(await rooms.messages("plans", "general")) == number

            await until(are)

        await are_said(1)
        stage.authority.say("plans", "general", "hello yourself", member=ADA)
        await are_said(2)
        said = await rooms.messages("plans", "general")
        assert [message.text for message in said] == ["hello", "hello yourself"]


async def test_history_and_actions_are_asked_of_the_authority(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    stage.authority.put("plans", "one.md", "later")
    action = Action("shout", inputs=(Input("text", max_length=5),))
    stage.authority.offer(action, lambda _member, _room, inputs: str(inputs["text"]).upper())
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        page = await rooms.history("plans", "one.md")
        assert [found.entry.text for found in page.revisions] == ["later", "first"]  # type: ignore[union-attr]
        assert await rooms.act("shout", {"text": "hey"}) == "HEY"
        with pytest.raises(ActionRefused, match="'text' has 9 characters"):
            await rooms.act("shout", {"text": "too long!"})
        with pytest.raises(ActionRefused, match="no such action"):
            await rooms.act("whisper")


async def test_a_narrowed_handle_reaches_its_rooms_only(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="the word")
    stage.room("notes", two="the word")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        narrowed = rooms.within(["plans"])
        assert [listing.room for listing in narrowed.listed()] == ["plans"]
        assert [found.room for found in await narrowed.search("word")] == ["plans"]
        assert [found.room for found in await narrowed.search("word", rooms=["notes"])] == []
        with pytest.raises(RoomNotReadable, match="out of reach"):
            await narrowed.read("notes", "two.md")
        with pytest.raises(RoomNotReadable):
            await narrowed.within(["notes"]).read("notes", "two.md")


async def test_a_lost_room_is_gone_to_the_byte_and_comes_back_only_as_a_new_one(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="distinctive quagga")
    stage.room("notes", two="second")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        await rooms.write("plans", "mine.md", "another zebu")
        await synchronized(rooms)
        with rooms.events.subscribe(RoomErased) as events:
            await rooms.lose(["plans"])
            assert (await events.receive()).event == RoomErased("plans")
        whole = kept(tmp_path)
        for word in (b"quagga", b"zebu", b"mine.md", b"plans"):
            assert word not in whole
        assert await rooms.search("quagga") == ()
        with pytest.raises(RoomNotReadable):
            await rooms.write("plans", "one.md", "late")
        assert [listing.room for listing in rooms.listed()] == ["notes"]
        await rooms.refresh()

        async def given_back() -> bool:
            return len(rooms.listed()) == 2

        await until(given_back)
        await synchronized(rooms)
        await rooms.write("plans", "mine.md", "again")
        await synchronized(rooms)
        assert stage.texts("plans")["mine.md"] == "again"


async def test_an_erasure_that_fails_is_told_and_finished_at_the_next_start(
    autojump_clock: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="distinctive quagga")
    async with stage.rooms() as rooms:
        await synchronized(rooms)

        async def fail(self: object, rooms: object) -> None:
            raise ReplicaError("no room", store="store")

        with monkeypatch.context() as patch:
            patch.setattr(OpenStore, "erase", fail)
            with pytest.raises(ErasureFailed, match="plans"):
                await rooms.lose(["plans"])
        assert rooms.status().attention == ("erasure",)
    stage.authority.reachable = False
    async with stage.rooms() as rooms:
        assert rooms.listed() == ()

        async def erased() -> bool:
            return b"quagga" not in kept(tmp_path)

        await until(erased)


async def test_stop_sends_what_is_queued_and_takes_no_more(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        await rooms.write("plans", "one.md", "mine")
        assert await rooms.stop(10)
        assert stage.texts("plans") == {"one.md": "mine"}
        with pytest.raises(RoomsStopped):
            await rooms.write("plans", "one.md", "late")
