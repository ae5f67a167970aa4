"""Following an authority: what is held arrives, follows, and is there at the next start."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from rooms_story import ADA, Stage, synchronized, texts, until

from trio_reactor.channel import EventChannel
from trio_reactor.rooms import (
    ReplicaBusy,
    ReplicaUnusable,
    RoomNotHeld,
    RoomNotReadable,
    RoomsOptions,
    Wants,
)
from trio_reactor.rooms.events import (
    AuthorityRestored,
    ConnectionRefused,
    RoomLost,
    RoomUnlisted,
    StorageLost,
)


async def test_a_first_connection_brings_every_room(autojump_clock: object, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first", two="second")
    stage.room("notes", three="third")
    async with stage.rooms() as rooms:
        assert rooms.status().state == "unreachable"
        await synchronized(rooms)
        assert [listing.room for listing in rooms.listed()] == ["plans", "notes"]
        assert await texts(rooms, "plans") == {"one.md": "first", "two.md": "second"}
        assert rooms.member == ADA


async def test_what_is_held_is_there_before_anybody_was_asked(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
    stage.authority.reachable = False
    async with stage.rooms() as rooms:
        assert await texts(rooms, "plans") == {"one.md": "first"}
        assert rooms.status().state == "unreachable"
        assert rooms.status().synchronized is not None


async def test_a_change_is_announced_and_watched_with_no_gap(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        async with rooms.watch("plans") as watch:
            assert [seen.entry.path for seen in watch.rows] == ["one.md"]
            for number in range(20):
                stage.authority.put("plans", "two.md", f"number {number}")
            stage.authority.delete("plans", "one.md")
            seen: dict[str, str] = {"one.md": "first"}
            while "one.md" in seen:
                change = await watch.receive()
                seen.update({row.entry.path: row.entry.text for row in change.rows})
                for path in change.removed:
                    del seen[path]
            assert seen == {"two.md": "number 19"}


async def test_a_watch_that_falls_behind_gets_the_whole(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, change_bytes=0)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        async with rooms.watch("plans", capacity=2) as watch:
            for number in range(6):
                await rooms.write("plans", f"{number}.md", "mine")
                await synchronized(rooms)
            change = await watch.receive()
            assert change.whole
            assert len(change.rows) == 7


async def test_a_lost_connection_is_made_again_and_catches_up(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        stage.authority.reachable = False
        stage.authority.cut()
        stage.authority.put("plans", "one.md", "later")
        await trio.sleep(100)
        assert rooms.status().state == "unreachable"
        stage.authority.reachable = True

        async def caught_up() -> bool:
            return (await texts(rooms, "plans"))["one.md"] == "later"

        await until(caught_up)
        await synchronized(rooms)


async def test_a_room_beyond_the_horizon_is_read_again(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first", two="second")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
    stage.authority.put("plans", "one.md", "later")
    stage.authority.delete("plans", "two.md")
    stage.authority.trim("plans", stage.authority.room("plans").version)
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        assert await texts(rooms, "plans") == {"one.md": "later"}


@pytest.mark.parametrize("paging", ["snapshot", "replay"])
async def test_a_large_room_is_read_page_by_page_while_it_moves(
    autojump_clock: object, tmp_path: Path, paging: str
) -> None:
    stage = Stage(tmp_path, page_size=3, paging=paging)
    stage.room("plans", **{f"d{number:02}": f"text {number}" for number in range(20)})
    async with trio.open_nursery() as nursery:

        async def move() -> None:
            for number in range(30):
                await trio.lowlevel.checkpoint()
                stage.authority.put("plans", f"d{number % 7:02}.md", f"moved {number}")
            stage.authority.delete("plans", "d19.md")

        nursery.start_soon(move)
        async with stage.rooms() as rooms:

            async def same() -> bool:
                return await _held(rooms) == stage.texts("plans")

            await until(same)


async def _held(rooms: object) -> dict[str, str]:
    try:
        return await texts(rooms, "plans")  # type: ignore[arg-type]
    except RoomNotHeld:
        return {}


async def test_only_the_rooms_that_are_asked_for_are_held(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    stage.room("notes", two="second")
    async with stage.rooms(rooms=["plans"]) as rooms:
        await synchronized(rooms)
        assert len(rooms.listed()) == 2
        with pytest.raises(RoomNotHeld):
            await rooms.read("notes", "two.md")
        rooms.ask_for(["notes"])
        await synchronized(rooms)
        assert await texts(rooms, "notes") == {"two.md": "second"}


async def test_a_revoked_room_is_gone_at_once(autojump_clock: object, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    stage.room("notes", two="second")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        with rooms.events.subscribe(RoomLost) as losses:
            stage.authority.revoke(ADA, "notes")
            assert (await losses.receive()).event == RoomLost("notes")
        with pytest.raises(RoomNotReadable):
            await rooms.read("notes", "two.md")
        assert await rooms.search("second") == ()
        await synchronized(rooms)
        stage.authority.grant(ADA, "notes")

        async def given_back() -> bool:
            return len(rooms.listed()) == 2

        await until(given_back)
        await synchronized(rooms)
        assert await texts(rooms, "notes") == {"two.md": "second"}


async def test_a_room_that_is_not_listed_is_kept_if_the_listing_is_not_exhaustive(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, exhaustive=False)
    stage.room("plans", one="first")
    stage.room("notes", two="second")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
    del stage.authority._grants[ADA]["notes"]
    async with stage.rooms() as rooms:
        with rooms.events.subscribe(RoomUnlisted) as events:
            assert (await events.receive()).event == RoomUnlisted("notes", kept=True)
        assert await texts(rooms, "notes") == {"two.md": "second"}
        assert rooms.room_status("notes").attention == ("not-listed",)


@pytest.mark.parametrize(
    ("wants", "code"),
    [(Wants(capabilities=("telepathy",)), "capabilities"), (Wants(model="other"), "model")],
)
async def test_an_authority_of_no_use_is_refused_by_name(
    autojump_clock: object, tmp_path: Path, wants: Wants, code: str
) -> None:
    stage = Stage(tmp_path, model="this")
    stage.room("plans", one="first")
    async with stage.rooms(wants=wants) as rooms:
        with rooms.events.subscribe(ConnectionRefused) as events:
            refused = (await events.receive()).event
        assert isinstance(refused, ConnectionRefused)
        assert refused.code == code
        assert rooms.status().attention == ("connection-refused",)


async def test_a_refused_member_is_asked_for_again_only_on_request(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    stage.authority.refuse(ADA, "unauthorized", reauthorize=True)
    async with stage.rooms() as rooms:
        with rooms.events.subscribe(ConnectionRefused) as events:
            await events.receive()
        await trio.sleep(10_000)
        assert rooms.statistics().generation == 1
        stage.authority.admit(ADA)
        await rooms.reauthorize()
        await synchronized(rooms)


async def test_another_members_account_is_not_shown_what_is_the_formers(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
    with pytest.raises(ReplicaUnusable, match="another member"):
        async with stage.rooms(member="ben"):
            pass


async def test_a_store_is_used_by_one_at_a_time(autojump_clock: object, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    async with stage.rooms():
        with pytest.raises(ReplicaBusy, match=r"store\.db"):
            async with stage.rooms():
                pass


async def test_a_store_that_is_gone_is_not_taken_for_an_empty_account(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
    (tmp_path / "store.db").unlink()
    channel_losses = []
    channel = EventChannel(world=stage.world)
    with channel.subscribe(StorageLost) as losses:
        async with stage.rooms(events=channel) as rooms:
            channel_losses.append((await losses.receive()).event)
            await synchronized(rooms)
            assert await texts(rooms, "plans") == {"one.md": "first"}
    assert channel_losses == [StorageLost("missing")]


async def test_what_an_authority_forgot_is_offered_again(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        copy = stage.authority.snapshot()
        await rooms.write("plans", "mine.md", "precious")
        await synchronized(rooms)
        with rooms.events.subscribe(AuthorityRestored) as events:
            stage.authority.restore(copy)
            stage.authority.cut()
            restored = (await events.receive()).event
        assert isinstance(restored, AuthorityRestored)
        assert restored.drafts == 1
        (draft,) = await rooms.drafts("plans")
        assert draft.reason == "restored"
        async with rooms.watch("plans") as watch:
            if len(watch.rows) == 2:  # the held copy is kept until what is there now has arrived
                assert [row.entry.path for row in (await watch.receive()).rows] == ["one.md"]
        await rooms.resubmit("plans", draft.id)
        await synchronized(rooms)
        assert stage.texts("plans") == {"one.md": "first", "mine.md": "precious"}


async def test_a_new_epoch_offers_everything_accepted_again(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        await rooms.write("plans", "mine.md", "precious")
        await synchronized(rooms)
        with rooms.events.subscribe(AuthorityRestored) as events:
            stage.authority.begin_epoch()
            stage.authority.cut()
            assert (await events.receive()).event == AuthorityRestored(None, 1)


async def test_a_stream_that_falls_silent_is_opened_again(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    stage.room("plans", one="first")
    async with stage.rooms(options=RoomsOptions(heartbeat_timeout=5.0)) as rooms:
        await synchronized(rooms)
        await trio.sleep(60)
        assert rooms.statistics().generation > 3


async def test_without_a_stream_it_is_asked_for_what_is_new(
    autojump_clock: object, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, streaming=False)
    stage.room("plans", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        stage.authority.put("plans", "one.md", "later")
        await trio.sleep(100)
        assert (await texts(rooms, "plans"))["one.md"] == "first"
        await rooms.refresh()

        async def caught_up() -> bool:
            return (await texts(rooms, "plans"))["one.md"] == "later"

        await until(caught_up)


async def test_idle_rooms_wake_nobody(autojump_clock: object, tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for number in range(50):
        stage.room(f"room {number}", one="first")
    async with stage.rooms() as rooms:
        await synchronized(rooms)
        steps = 0

        class Counter(trio.abc.Instrument):
            def before_task_step(self, task: object) -> None:
                nonlocal steps
                steps += 1

        counter = Counter()
        await trio.sleep(1)
        trio.lowlevel.add_instrument(counter)
        await trio.sleep(80_000)
        trio.lowlevel.remove_instrument(counter)
        assert steps <= 2  # this task's own
