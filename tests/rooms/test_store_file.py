"""The store in a file: what it refuses, who has it, what it lost, and what a bad disk does."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio
from replica_story import admitted, page, queue
from store_story import published, store_at

from trio_reactor.errors import Closed
from trio_reactor.rooms.errors import (
    EditRefused,
    ReplicaBusy,
    ReplicaError,
    ReplicaFailed,
    ReplicaUnusable,
)
from trio_reactor.rooms.model.edits import Delete, Put
from trio_reactor.rooms.model.entries import Document
from trio_reactor.rooms.store.content import Content
from trio_reactor.rooms.store.file import Opened, ReplicaStore
from trio_reactor.world import SystemWorld


async def opened(path: Path) -> Opened:
    async with store_at(path).open(SystemWorld()) as (_, found):
        return found


async def filled(path: Path, *, documents: int = 3) -> None:
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit([published("room", 1, "", documents=documents, count=100)])


async def refused(path: Path, match: str) -> None:
    """It is unusable, and not a byte of it is changed, also the second time."""
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(ReplicaUnusable, match=match) as caught:
            await opened(path)
        assert caught.value.store == str(path)
        assert str(path) in str(caught.value)
        assert path.read_bytes() == before


def seen(content: Content) -> int:
    number = content.room("room")
    return 0 if number is None else len(content.seen(number))


# What it is


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_names_no_file_is_refused_at_once(path: str) -> None:
    with pytest.raises(ValueError, match="names no file"):
        ReplicaStore(path)


async def test_nobody_else_may_read_what_it_makes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit([published("room", 1, "", documents=1, count=3)])
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert set(modes) == {"store", "store-lock", "store-witness", "store-wal", "store-shm"}
    assert set(modes.values()) == {0o600}
    assert {each.name for each in tmp_path.iterdir()} == {"store", "store-lock", "store-witness"}


@pytest.mark.parametrize("inline", [True, False])
async def test_what_was_committed_is_there_at_the_next_opening(
    tmp_path: Path, inline: bool
) -> None:
    store = ReplicaStore(tmp_path / "store", inline=inline)
    async with store.open(SystemWorld()) as (first, found):
        assert found.rooms == ()
        assert found.loss is None
        await first.commit([published("room", 1, "", documents=3, count=5)])
        assert await first.read(seen) == 3
    with pytest.raises(Closed):
        await first.read(seen)
    with pytest.raises(Closed):
        await first.commit([])
    async with store.open(SystemWorld()) as (second, again):
        assert [room.version for room in again.rooms] == [1]
        assert again.stored.incarnation == found.stored.incarnation
        assert again.stored.generation == found.stored.generation + 1
        assert again.stored.change == 1
        assert await second.read(seen) == 3


async def test_a_refusal_undoes_itself_alone_in_a_commit(tmp_path: Path) -> None:
    def half(content: Content) -> None:
        content.set_fact("half", "done")
        content.next_change()
        raise EditRefused("room", "path", "gone", "there is nothing")

    async with store_at(tmp_path / "store").open(SystemWorld()) as (store, _):
        outcomes = await store.commit(
            [
                published("room", 1, "", documents=1, count=3),
                half,
                lambda content: content.set_fact("after", "done"),
            ]
        )
        assert [type(failure) for _, failure in outcomes] == [type(None), EditRefused, type(None)]
        assert await store.read(lambda content: content.fact("half")) is None
        assert await store.read(lambda content: content.fact("after")) == "done"
        assert (await store.read(Content.stored)).change == 1


async def test_a_defect_leaves_no_transaction_open(tmp_path: Path) -> None:
    def broken(content: Content) -> None:
        content.set_fact("half", "done")
        content.next_change()
        raise ZeroDivisionError

    async with store_at(tmp_path / "store").open(SystemWorld()) as (store, _):
        with pytest.raises(ZeroDivisionError):
            await store.commit([broken])
        await store.commit([lambda content: content.set_fact("after", "done")])
        assert await store.read(lambda content: content.fact("half")) is None
        assert (await store.read(Content.stored)).change == 0


async def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    async with store_at(tmp_path / "store").open(SystemWorld()) as (store, _):
        with pytest.raises(ReplicaError):
            await store.read(lambda content: content.set_fact("a", "b"))
        await store.commit([lambda content: content.set_fact("a", "c")])


async def test_in_one_process_only_one_has_it_by_whatever_name(tmp_path: Path) -> None:
    path = tmp_path / "store"
    (tmp_path / "link").symlink_to(path)
    async with store_at(path).open(SystemWorld()):
        for name in (path, tmp_path / "link", tmp_path / "." / "store"):
            with pytest.raises(ReplicaBusy, match="in use"):
                await opened(name)
    await opened(path)


OTHER = """
import sys, trio
from trio_reactor.rooms.errors import ReplicaBusy
from trio_reactor.rooms.store.file import ReplicaStore
from trio_reactor.world import SystemWorld
async def main():
    try:
        async with ReplicaStore(sys.argv[1]).open(SystemWorld()):
            print("opened")
    except ReplicaBusy as failure:
        print(failure)
trio.run(main)
"""


def run(script: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        **options,
    )


async def test_another_process_does_not_get_it_while_this_one_has_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        shutil.copy(path, tmp_path / "copy")
        assert "this store is in use" in run(OTHER, path).stdout
        await store.commit([published("room", 1, "", documents=1, count=3)])
    assert run(OTHER, path).stdout == "opened\n"


async def test_a_program_in_the_middle_of_a_transaction_keeps_it_out_or_is_waited_for(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    await filled(path)
    with closing(apsw.Connection(str(path))) as database:
        database.execute("BEGIN IMMEDIATE")
        with pytest.raises(ReplicaBusy, match="another process uses it"):
            await opened(path)
    async with store_at(path).open(SystemWorld()) as (store, _):
        with closing(apsw.Connection(str(path))) as database:
            database.execute("BEGIN IMMEDIATE")
            with pytest.raises(ReplicaError, match="another process") as busy:
                await store.commit([published("room", 2, "", documents=1, count=3)])
            assert busy.value.retryable
            assert busy.value.outcome == "not-submitted"
        await store.commit([published("room", 2, "", documents=1, count=3)])
        assert await store.read(seen) == 1


# What is no store


async def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(b"not a database, but long enough to be one " * 50)
    await refused(path, "not a store of rooms, or it is damaged")


@pytest.mark.parametrize("mode", ["delete", "wal"])
async def test_somebody_elses_database_is_refused(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "store"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA journal_mode = {mode}")
        database.execute("CREATE TABLE theirs (a)")
    await refused(path, "not a store of rooms")


async def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await filled(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    await refused(path, "version 2; this library reads 1")


async def test_a_store_whose_header_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await filled(path)
    whole = path.read_bytes()
    path.write_bytes(bytes(100) + whole[100:])
    await refused(path, "damaged")


async def test_a_store_with_bad_bytes_says_so_and_names_itself(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await filled(path, documents=30)
    whole = path.read_bytes()
    told: set[str] = set()
    for at in range(4096, len(whole), 2039):
        broken = bytearray(whole)
        broken[at : at + 64] = bytes(255 - byte for byte in broken[at : at + 64])
        path.write_bytes(broken)
        try:
            async with store_at(path).open(SystemWorld()) as (store, _):
                await store.read(seen)
                await store.read(lambda content: content.search("nothing OR some*", None, 5))
                await store.commit([published("room", 2, "", documents=9, count=50)])
        except (ReplicaUnusable, ReplicaFailed) as failure:
            assert failure.store == str(path)  # noqa: PT017 - it may also not fail
            assert str(path) in str(failure)  # noqa: PT017 - it may also not fail
            told.add(type(failure).__name__)
        except BaseExceptionGroup as group:
            pytest.fail(f"{group!r}")
    assert told


async def test_what_cannot_be_decoded_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit(
            [lambda content: queue(content, admitted(content, "room"), Put("a", "b"))]
        )
        with closing(apsw.Connection(str(path))) as database:
            database.execute("UPDATE edit SET steps = x'7b'")
        with pytest.raises(ReplicaFailed, match="damaged"):
            await store.read(lambda content: content.outbox.edits(1))
        with pytest.raises(ReplicaFailed, match="damaged"):
            await store.commit([lambda content: content.outbox.head(1)])
    with closing(apsw.Connection(str(path))) as database:
        database.execute("UPDATE room SET listing = x'7b'")
    with pytest.raises(ReplicaUnusable, match=str(path)):
        await opened(path)


async def test_a_damaged_witness_is_not_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await filled(path)
    for data in (b"", b"seven", b"\xff\xfe"):
        (tmp_path / "store-witness").write_bytes(data)
        with pytest.raises(ReplicaUnusable, match="witness"):
            await opened(path)


READ_ONLY = """
import sys, trio
from trio_reactor.rooms.errors import ReplicaError
from trio_reactor.rooms.store.file import ReplicaStore
from trio_reactor.world import SystemWorld
import os
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
async def main():
    try:
        async with ReplicaStore(sys.argv[1]).open(SystemWorld()):
            print("opened")
    except ReplicaError as failure:
        print(type(failure).__name__, failure)
trio.run(main)
"""


# What was lost


async def test_a_store_that_was_removed_is_a_loss(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await filled(path)
    before = await opened(path)
    path.unlink()
    found = await opened(path)
    assert found.loss == "missing"
    assert found.rooms == ()
    assert found.stored.incarnation != before.stored.incarnation
    assert found.stored.generation > before.stored.generation
    assert (await opened(path)).loss is None


async def test_an_old_copy_is_a_loss_and_writes_under_new_names(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit(
            [
                lambda content: queue(content, admitted(content, "room"), Put("a", "1")),
                lambda content: queue(content, admitted(content, "room"), Put("b", "2")),
                lambda content: content.outbox.mark(admitted(content, "room"), "room"),
            ]
        )
    shutil.copy(path, tmp_path / "copy")
    async with store_at(path).open(SystemWorld()) as (store, before):
        await store.commit(
            [lambda content: queue(content, admitted(content, "room"), Put("c", "3"))]
        )
    shutil.copy(tmp_path / "copy", path)
    async with store_at(path).open(SystemWorld()) as (store, found):
        assert found.loss == "restored"
        assert found.stored.incarnation != before.stored.incarnation
        edits = await store.read(lambda content: content.outbox.edits(1))
        # What was on its way is asked for under its old name; what is new has a new one.
        old = edits[0].client
        assert edits[0].sequence == 1
        [(submission, _)] = await store.commit([_accepted_and_marked])
        assert submission.client != old  # type: ignore[attr-defined]
        assert submission.sequence == 1  # type: ignore[attr-defined]
    assert (await opened(path)).loss is None


def _accepted_and_marked(content: Content) -> object:
    head = content.outbox.head(1)
    assert head is not None
    content.outbox.accept(1, head, 5)
    return content.outbox.mark(1, "room")


async def test_a_witness_that_was_removed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await filled(path)
    (tmp_path / "store-witness").unlink()
    found = await opened(path)
    assert found.loss is None
    assert int((tmp_path / "store-witness").read_text()) == found.stored.generation


async def test_a_store_that_is_ahead_of_its_witness_was_interrupted_and_lost_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    await filled(path)
    found = await opened(path)
    (tmp_path / "store-witness").write_text(str(found.stored.generation - 1))
    assert (await opened(path)).loss is None


# While it is used


async def test_a_store_that_is_replaced_while_it_is_open_fails(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit([published("room", 1, "", documents=1, count=3)])
        path.rename(tmp_path / "elsewhere")
        shutil.copy(tmp_path / "elsewhere", path)
        with pytest.raises(ReplicaFailed, match="the store is gone") as failed:
            await store.commit([published("room", 2, "", documents=1, count=3)])
        assert failed.value.outcome == "unknown"


async def test_a_full_disk_is_not_the_end_of_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with store_at(path).open(SystemWorld()) as (store, _):
        await store.commit([published("room", 1, "", documents=3, count=50)])
        pages = store._database.execute("PRAGMA page_count").get
        store._database.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        with pytest.raises(ReplicaError, match="no room") as full:
            await store.commit([published("room", 2, "", documents=900, count=50)])
        assert not isinstance(full.value, ReplicaFailed)
        assert full.value.retryable
        assert full.value.outcome == "not-submitted"
        assert await store.read(seen) == 3
        assert (await store.read(Content.stored)).change == 1
        # What needs no room can be written, and all else later.
        await store.commit([lambda content: content.set_fact("a", "b")])
        store._database.execute("PRAGMA max_page_count = 1000000").fetchall()
        await store.commit([published("room", 2, "", documents=900, count=50)])
        assert await store.read(seen) == 900
    assert [room.version for room in (await opened(path)).rooms] == [2]


async def test_what_may_not_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await filled(path)
    for each in (tmp_path, path, tmp_path / "store-lock", tmp_path / "store-witness"):
        each.chmod(0o555 if each.is_dir() else 0o444)
    above = tmp_path.parent
    passable = above.parent
    if os.geteuid() == 0:
        for each in (above, passable):
            each.chmod(0o755)
    said = run(READ_ONLY, path)
    assert said.stdout.startswith("ReplicaUnusable"), said
    assert "read-only" in said.stdout
    tmp_path.chmod(0o755)


async def test_a_read_that_is_cancelled_leaves_the_store_usable(tmp_path: Path) -> None:
    async with store_at(tmp_path / "store").open(SystemWorld()) as (store, _):
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.read(seen)
        assert scope.cancelled_caught
        assert await store.read(seen) == 0


async def test_a_whole_that_is_older_than_what_is_held_changes_nothing(tmp_path: Path) -> None:
    async with store_at(tmp_path / "store").open(SystemWorld()) as (store, _):
        await store.commit([published("room", 5, "", documents=4, count=5)])

        def older(content: Content) -> object:
            number = admitted(content, "room")
            whole = page("room", 4, Document("old", 4, "old"))
            assert content.publish_whole(number, whole, "") is None
            assert (
                content.publish_change(number, since=4, version=6, entries=(), removed=()) is None
            )
            queue(content, number, Delete("0.md"))
            return content.version(number)

        [(version, _)] = await store.commit([older])
        assert version == 5
        assert await store.read(seen) == 3
