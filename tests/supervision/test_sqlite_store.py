"""The store in a file: what it refuses, who has it, and what becomes of it when the disk fails."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio
from store_rigs import execute

from trio_reactor.errors import Closed
from trio_reactor.supervision.errors import (
    RecordUnreadable,
    StaleSession,
    StoreBusy,
    StoreFailed,
    StoreUnusable,
)
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.records import SessionRecord
from trio_reactor.supervision.store.conformance.lives import largest, life
from trio_reactor.supervision.store.protocol import Change
from trio_reactor.supervision.store.sqlite import SqliteStore
from trio_reactor.testing.cancellation import cancel_at


def changes(*records: SessionRecord) -> list[Change]:
    return [Change(record, encode(record)) for record in records]


async def filled(path: Path, count: int = 1) -> None:
    async with SqliteStore(path).open() as journal:
        records = [life(Key(f"key-{number}"), 1, "")[0] for number in range(count)]
        assert await journal.commit(changes(*records)) == [None] * count


async def opening(path: Path) -> None:
    async with SqliteStore(path).open():
        pytest.fail("it was opened")


def files(directory: Path) -> dict[str, int]:
    """What is there, and who may do what with it."""
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in directory.iterdir()}


def content(path: Path) -> bytes:
    return path.read_bytes()


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


# What it is


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_names_no_file_is_refused_at_once(path: str) -> None:
    with pytest.raises(ValueError, match="names no file"):
        SqliteStore(path)


async def test_nobody_else_may_read_what_it_makes(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "journal").open() as journal:
        await journal.commit(changes(life(Key("a"), 1, "")[0]))
        modes = files(tmp_path)
    assert modes == {"journal": 0o600, "journal-lock": 0o600, "journal-wal": 0o600}
    assert sorted(files(tmp_path)) == ["journal", "journal-lock"]


async def test_a_name_with_a_meaning_elsewhere_is_a_file_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:journal?mode=memory", "jour nal'\U0001f4d3"):
        await filled(Path(name))
        assert (tmp_path / name).stat().st_size > 0


async def test_it_syncs_every_commit_to_the_disk(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "journal").open() as journal:
        database: Any = journal._rows._database
        assert database.execute("PRAGMA synchronous").get == 2
        assert database.execute("PRAGMA journal_mode").get == "wal"
        assert database.execute("PRAGMA locking_mode").get == "exclusive"


async def test_once_its_block_is_left_it_is_closed(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "journal").open() as journal:
        pass
    with pytest.raises(Closed, match="this journal is closed"):
        await journal.load()


@pytest.mark.parametrize("step", range(4))
async def test_a_load_that_is_cancelled_leaves_the_journal_as_it_is(
    tmp_path: Path, step: int
) -> None:
    await filled(tmp_path / "journal")
    async with SqliteStore(tmp_path / "journal").open() as journal:
        with cancel_at(step):
            await journal.load()
        assert len((await journal.load()).records) == 1


# Who has it


async def test_in_one_process_only_one_has_it_by_whatever_name(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    (tmp_path / "link").symlink_to(path)
    async with SqliteStore(path).open():
        for name in (path, tmp_path / "link", tmp_path / "." / "journal"):
            with pytest.raises(StoreBusy, match="another supervisor uses this journal"):
                await opening(name)
        (tmp_path / "hard").hardlink_to(path)
        with pytest.raises(StoreBusy):
            await opening(tmp_path / "hard")
    await filled(tmp_path / "link")


OTHER = """
import sys, trio
from trio_reactor.supervision.errors import StoreBusy
from trio_reactor.supervision.store.sqlite import SqliteStore
async def main():
    try:
        async with SqliteStore(sys.argv[1]).open():
            print("opened")
    except StoreBusy as failure:
        print(failure)
trio.run(main)
"""


async def test_another_process_does_not_get_it_while_this_one_has_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with SqliteStore(path).open() as journal:
        # Whatever this process does with the file besides, its lock holds.
        shutil.copy(path, tmp_path / "copy")
        with closing(sqlite3.connect(path)), pytest.raises(StoreBusy):
            await opening(path)
        assert "another supervisor uses this journal" in run(OTHER, path).stdout
        await journal.commit(changes(life(Key("a"), 1, "")[0]))
    assert run(OTHER, path).stdout == "opened\n"


FORKING = """
import os, signal, sys, trio
from trio_reactor.supervision.store.sqlite import SqliteStore
async def main():
    async with SqliteStore(sys.argv[1]).open():
        ready, told = os.pipe()
        child = os.fork()
        if not child:
            for stream in range(3):
                os.close(stream)
            os.write(told, b".")
            signal.pause()
        os.read(ready, 1)
        with open(sys.argv[2], "w") as said:
            said.write(str(child))
        os.kill(os.getpid(), signal.SIGKILL)
trio.run(main)
"""


async def test_a_child_that_was_forked_does_not_keep_the_next_one_out(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    said = tmp_path / "said"
    run(FORKING, path, said)
    orphan = int(content(said))
    try:
        os.kill(orphan, 0)
        await filled(path)
    finally:
        os.kill(orphan, 9)


async def test_a_program_in_the_middle_of_a_transaction_keeps_it_out(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    await filled(path)
    with closing(apsw.Connection(str(path))) as database:
        database.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="another process uses this journal"):
            await opening(path)
    await filled_twice(path)


async def filled_twice(path: Path) -> None:
    async with SqliteStore(path).open() as journal:
        assert len((await journal.load()).records) == 1


async def test_a_lock_file_that_was_removed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with SqliteStore(path).open():
        (tmp_path / "journal-lock").unlink()
        # The database itself is locked as well.
        with pytest.raises(StoreBusy):
            await opening(path)
        assert "another process uses this journal" in run(OTHER, path).stdout
    await filled(path)


# What is no journal


async def refused(path: Path, match: str) -> None:
    """It is unusable, and not a byte of it is changed, also the second time."""
    before = content(path)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match=match) as caught:
            await opening(path)
        assert caught.value.store == str(path)
        assert content(path) == before


async def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"not a database, but long enough to be one " * 50)
    await refused(path, "not a journal, or it is damaged")


@pytest.mark.parametrize("mode", ["delete", "wal"])
async def test_somebody_elses_database_is_refused(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "journal"
    script = """
import os, sys, apsw
database = apsw.Connection(sys.argv[1])
for statement in (f"PRAGMA journal_mode = {sys.argv[2]}", "CREATE TABLE theirs (a)",
                  "INSERT INTO theirs VALUES (1)"):
    list(database.execute(statement))
os._exit(0)  # so that its log stays
"""
    assert run(script, path, mode).returncode == 0
    log = tmp_path / "journal-wal"
    assert log.exists() == (mode == "wal")
    await refused(path, "not a journal of sessions")
    assert execute(path, "SELECT a FROM theirs") == [(1,)]


async def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    await filled(path)
    execute(path, "PRAGMA user_version = 2")
    await refused(path, "this journal has version 2; this library reads 1")


async def test_a_journal_without_its_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    await filled(path)
    execute(path, "DROP TABLE record")
    with pytest.raises(StoreUnusable, match="damaged"):
        await opening(path)


async def test_a_journal_with_bad_bytes_is_refused_or_names_the_record(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    await filled(path, 40)
    whole = path.read_bytes()
    told: set[str] = set()
    for at in range(0, len(whole), 1021):
        broken = bytearray(whole)
        broken[at : at + 16] = bytes(255 - byte for byte in broken[at : at + 16])
        path.write_bytes(broken)
        try:
            async with SqliteStore(path).open() as journal:
                contents = await journal.load()
        except (StoreUnusable, StoreFailed, RecordUnreadable) as failure:
            told.add(type(failure).__name__)
        else:
            # Nothing but what means nothing was hit.
            assert contents.records == tuple(
                life(Key(f"key-{number}"), 1, "")[0] for number in range(40)
            )
    assert {"StoreUnusable", "RecordUnreadable"} <= told


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("UPDATE record SET encoded = x'00' WHERE identity = 'key-1'", "record of key-1 gen"),
        ("UPDATE record SET generation = 7 WHERE identity = 'key-1'", "record of key-1 gen"),
        ("UPDATE record SET identity = 'key-9' WHERE identity = 'key-1'", "record of key-9 gen"),
        ("UPDATE record SET identity = '' WHERE identity = 'key-1'", "record of  gen"),
        ("UPDATE record SET identity = CAST(x'ff00' AS TEXT) WHERE identity = 'key-1'", "xff"),
        ("UPDATE high_water SET generation = 7 WHERE identity = 'key-1'", "generation of key-1"),
        ("UPDATE high_water SET identity = 'x' WHERE identity = 'key-1'", "generation of x"),
        ("DELETE FROM high_water WHERE identity = 'key-1'", "record of key-1 gen"),
    ],
)
async def test_a_damaged_row_is_named(tmp_path: Path, statement: str, name: str) -> None:
    path = tmp_path / "journal"
    await filled(path, 3)
    execute(path, statement)
    for _ in range(2):
        async with SqliteStore(path).open() as journal:
            with pytest.raises(RecordUnreadable) as caught:
                await journal.load()
        assert name in caught.value.name
        assert str(path) in caught.value.name


async def test_a_record_of_a_newer_version_is_named(tmp_path: Path) -> None:
    record = life(Key("a"), 1, "")[0]
    path = tmp_path / "journal"
    newer = encode(record).replace(b'"version":1', b'"version":9')
    async with SqliteStore(path).open() as journal:
        await journal.commit([Change(record, newer)])
        with pytest.raises(RecordUnreadable, match=r"of a generation 1 has version 9"):
            await journal.load()


# What cannot be written


UNPRIVILEGED = """
import os, sys, trio
from trio_reactor.supervision.store.sqlite import SqliteStore
if not os.geteuid():
    os.setgid(65534); os.setuid(65534)
async def main():
    try:
        async with SqliteStore(sys.argv[1]).open():
            print("opened")
    except Exception as failure:
        print(type(failure).__name__, failure)
trio.run(main)
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


async def test_a_read_only_file_is_refused_as_that(public: Path) -> None:
    path = public / "journal"
    await filled(path)
    path.chmod(0o444)
    (public / "journal-lock").chmod(0o666)
    said = run(UNPRIVILEGED, path)
    assert said.stdout.startswith("StoreUnusable"), said
    assert "this journal is read-only" in said.stdout


async def test_a_read_only_directory_is_refused_as_that(public: Path) -> None:
    os.chmod(public, 0o555)
    said = run(UNPRIVILEGED, public / "journal")
    assert said.stdout.startswith("StoreUnusable"), said
    assert "this journal is read-only" in said.stdout


async def test_a_directory_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="could not be opened") as caught:
        await opening(tmp_path / "nowhere" / "journal")
    assert caught.value.outcome == "not-submitted"


async def test_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises((StoreFailed, StoreUnusable), match="journal"):
        await opening(tmp_path)


async def test_a_full_journal_refuses_a_group_whole_and_keeps_what_it_had(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    await filled(path)
    async with SqliteStore(path).open() as journal:
        database: Any = journal._rows._database
        database.execute("PRAGMA max_page_count = 12").get  # noqa: B018 - it is run by being read
        big = [largest(life(Key(f"key-{number}"), 1, "")[0]) for number in range(2)]
        first = life(Key("key-1"), 1, "")[0]
        with pytest.raises(StoreFailed, match="there is no room for the journal") as caught:
            await journal.commit(changes(first, *big))
        assert caught.value.outcome == "not-submitted"
        assert not caught.value.retryable
        assert [each.handle.key for each in (await journal.load()).records] == [Key("key-0")]
        # What there is room for is taken as before.
        assert await journal.commit(changes(first)) == [None]
    async with SqliteStore(path).open() as journal:
        assert len((await journal.load()).records) == 2


LIMITED = """
import resource, signal, sys, trio
from trio_reactor.supervision.errors import StoreFailed
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.store.conformance.lives import life
from trio_reactor.supervision.store.protocol import Change
from trio_reactor.supervision.store.sqlite import SqliteStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    async with SqliteStore(sys.argv[1]).open() as journal:
        for number in range(200):
            record = life(Key(f"key-{number}"), 1, "")[0]
            await journal.commit([Change(record, encode(record))])
            print(number, flush=True)
try:
    trio.run(main)
except StoreFailed as failure:
    print(failure.outcome, failure)
"""


async def test_a_file_that_cannot_grow_is_a_failure_and_keeps_all_it_acknowledged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal"
    done = run(LIMITED, path, 200_000)
    *numbers, failure = done.stdout.splitlines()
    assert 5 < len(numbers) < 200, done
    assert failure.startswith(("unknown", "not-submitted"))
    assert str(path) in failure
    async with SqliteStore(path).open() as journal:
        found = len((await journal.load()).records)
    assert found in (len(numbers), len(numbers) + 1)


async def test_a_file_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    done = run(LIMITED, tmp_path / "journal", 0)
    assert done.stdout.startswith("not-submitted"), done
    await filled(tmp_path / "journal")


@pytest.mark.parametrize("gone", ["journal", "journal-wal"])
@pytest.mark.parametrize("replaced", [False, True])
async def test_what_is_written_into_a_file_that_is_gone_is_not_acknowledged(
    tmp_path: Path, gone: str, replaced: bool
) -> None:
    lives = life(Key("a"), 1, "")
    async with SqliteStore(tmp_path / "journal").open() as journal:
        await journal.commit(changes(lives[0]))
        (tmp_path / gone).unlink()
        if replaced:
            (tmp_path / gone).touch()
        with pytest.raises(StoreFailed, match="the journal is gone") as caught:
            await journal.commit(changes(lives[1]))
        assert caught.value.outcome == "unknown"


async def test_a_failure_of_the_disk_while_it_commits_leaves_the_outcome_unknown(
    tmp_path: Path,
) -> None:
    lives = life(Key("a"), 1, "")
    async with SqliteStore(tmp_path / "journal").open() as journal:
        await journal.commit(changes(lives[0]))
        database = journal._rows._database

        class Failing:
            def __getattr__(self, name: str) -> Any:
                return getattr(database, name)

            def execute(self, statement: str, *bindings: Any) -> Any:
                if statement == "COMMIT":
                    raise apsw.IOError("the disk failed")
                return database.execute(statement, *bindings)

        journal._rows._database = Failing()  # type: ignore[assignment]
        with pytest.raises(StoreFailed, match="could not be used: IOError") as caught:
            await journal.commit(changes(lives[1]))
        assert caught.value.outcome == "unknown"
        assert caught.value.detail == "the disk failed"
        journal._rows._database = database
        assert (await journal.load()).records == (lives[0],)
        assert await journal.commit(changes(lives[1])) == [None]


@pytest.mark.parametrize("defect", [RuntimeError, apsw.ThreadingViolationError])
async def test_a_defect_leaves_no_transaction_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: type[Exception]
) -> None:
    lives = life(Key("a"), 1, "")
    async with SqliteStore(tmp_path / "journal").open() as journal:
        with monkeypatch.context() as patch:

            def fail(*_: object) -> None:
                raise defect("a defect")

            patch.setattr(type(journal._rows), "_make", fail)
            with pytest.raises((RuntimeError, StoreFailed)):
                await journal.commit(changes(lives[0]))
        assert await journal.commit(changes(lives[0])) == [None]


@pytest.mark.parametrize("own", [OverflowError, apsw.ConstraintError, apsw.TooBigError])
async def test_what_is_wrong_with_one_record_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: type[Exception]
) -> None:
    good, bad, late = (life(Key(name), 1, "")[0] for name in ("good", "bad", "late"))
    async with SqliteStore(tmp_path / "journal").open() as journal:
        make = type(journal._rows)._make

        def fail(rows: Any, change: Change) -> Any:
            outcome = make(rows, change)
            if change.record == bad:
                raise own("it is odd")
            return outcome

        monkeypatch.setattr(type(journal._rows), "_make", fail)
        outcomes = await journal.commit(changes(good, bad, late))
        assert [type(each).__name__ for each in outcomes] == [
            "NoneType",
            "RecordRefused",
            "NoneType",
        ]
        assert "the record of bad generation 1 cannot be stored" in str(outcomes[1])
        contents = await journal.load()
        assert contents.records == (good, late)
        assert contents.high_water == {Key("good"): 1, Key("late"): 1}


async def test_a_generation_beyond_what_a_row_holds_is_stale(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "journal").open() as journal:
        (outcome,) = await journal.commit(changes(life(Key("a"), 2**63, "")[0]))
        assert isinstance(outcome, StaleSession)


async def test_two_tasks_that_commit_at_once_have_a_transaction_each(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "journal").open() as journal:
        async with trio.open_nursery() as nursery:
            for name in "abcdefgh":
                nursery.start_soon(journal.commit, changes(life(Key(name), 1, "")[0]))
        assert len((await journal.load()).records) == 8
