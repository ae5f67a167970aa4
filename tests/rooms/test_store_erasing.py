"""An erased room is in no byte of any file of its store."""

from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest
import trio
from replica_story import admitted, page, same_words
from store_story import LOST, SECRET, lived, published, stale_terms, store_at, traces

from trio_reactor.rooms.errors import ReplicaError
from trio_reactor.rooms.model.entries import Document
from trio_reactor.rooms.store.content import Content
from trio_reactor.rooms.store.file import ReplicaStore
from trio_reactor.rooms.store.writing import Work
from trio_reactor.world import SystemWorld


def fenced(content: Content) -> None:
    content.fence([LOST])


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "among others"])
@pytest.mark.parametrize("grouped", [True, False], ids=["at once", "one by one"])
async def test_nothing_of_a_room_that_lived_is_left(
    tmp_path: Path, alone: bool, grouped: bool
) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        if not alone:
            await store.commit([published("kept", 1, "", documents=30, count=120)])
        if grouped:
            await store.commit(lived(LOST))
        else:
            for work in lived(LOST):
                await store.commit([work])
        found = await store.read(lambda content: content.search(SECRET, None, 10))
        assert found
        if not alone:
            await store.commit([published("kept", 2, "", documents=30, count=120)])
        assert traces(path)
        await store.commit([fenced])
        await store.erase([LOST])
        assert traces(path) == {}
        assert stale_terms(path) == []
        assert await store.read(lambda content: content.search(SECRET, None, 10)) == []
        assert await store.read(lambda content: content.fences()) == ()
        assert await store.read(lambda content: len(content.rooms())) == (0 if alone else 1)
    assert traces(path) == {}


async def test_rooms_are_erased_one_after_the_other_from_an_index_of_one_piece(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit([published("kept", 1, "", documents=60, count=200)])
        for number in range(4):
            name = f"{LOST}{number}"
            await store.commit([published(name, 1, f"{SECRET}{number}x", documents=9, count=150)])
        for number in range(4):
            name = f"{LOST}{number}"
            await store.commit([lambda content, name=name: content.fence([name])])
            await store.erase([name])
            assert stale_terms(path) == []
            database = apsw.Connection(str(path))
            database.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
            database.close()
        assert traces(path) == {}


async def test_words_that_were_edited_away_before_are_gone_with_the_room(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit([published("kept", 1, "", documents=20, count=200)])
        for version in range(1, 41):
            await store.commit([published(LOST, version, SECRET, documents=3, count=60)])
        await store.commit([fenced])
        await store.erase([LOST])
        assert traces(path) == {}
        assert stale_terms(path) == []


async def test_a_reader_of_another_program_keeps_the_fence(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit(lived(LOST))
        await store.commit([fenced])
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM entry").get
        with pytest.raises(ReplicaError) as failed:
            await store.erase([LOST])
        assert failed.value.retryable
        assert await store.read(lambda content: content.fences()) == (LOST,)
        reader.close()
        await store.erase([LOST])
        assert await store.read(lambda content: content.fences()) == ()
        assert traces(path) == {}


async def test_a_read_that_is_under_way_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with ReplicaStore(path).open(SystemWorld()) as (store, _):
        await store.commit(lived(LOST))
        await store.commit([fenced])
        begun = trio.Event()
        token = trio.lowlevel.current_trio_token()
        go_on = threading.Event()
        read: list[int] = []

        def slow(content: Content) -> None:
            trio.from_thread.run_sync(begun.set, trio_token=token)
            go_on.wait()
            read.append(len(content.seen(admitted_number(content))))

        async def reading() -> None:
            await store.read(slow)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reading)
            await begun.wait()
            nursery.start_soon(store.erase, [LOST])
            await trio.testing.wait_all_tasks_blocked()
            go_on.set()
        assert read == [5]
        assert traces(path) == {}


def admitted_number(content: Content) -> int:
    number = content.room(LOST)
    assert number is not None
    return number


async def test_a_room_that_is_given_back_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        clients: list[str] = []

        def client(content: Content) -> None:
            admitted(content, LOST)
            clients.append(str(content._database.execute("SELECT client FROM room").get))

        await store.commit([client])
        await store.commit([fenced])
        await store.erase([LOST])
        await store.commit([client])
        assert clients[0] != clients[1]


async def test_another_members_store_forgets_all_of_the_formers(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit([*lived(LOST), fenced])
        await store.commit([lambda content: content.forget_all()])
        await store.erase([])
        assert traces(path) == {}
        assert stale_terms(path) == []


async def test_a_word_that_fills_pages_can_be_written_anew_and_erased(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def written(version: int) -> Work:
        def work(content: Content) -> None:
            text = f"{SECRET} " * (5_000 + version)
            whole = page(LOST, version, Document(f"{SECRET}.md", version, text))
            content.publish_whole(admitted(content, LOST), whole, "")
            same_words(content._database)

        return work

    async with store_at(path).open(SystemWorld()) as (store, _):
        for version in range(1, 6):
            await store.commit([written(version)])
        await store.commit([fenced])
        await store.erase([LOST])
        assert traces(path) == {}


async def test_what_was_written_and_deleted_in_one_commit_is_erased_too(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def emptied(content: Content) -> None:
        content.publish_whole(admitted(content, LOST), page(LOST, 9), "")

    async with store_at(path).open(SystemWorld()) as (store, _):
        works = [published(LOST, 1, SECRET, documents=3, count=60), emptied]
        await store.commit(works)
        assert traces(path)
        await store.commit([fenced])
        await store.erase([LOST])
        assert traces(path) == {}
        assert stale_terms(path) == []
