"""The journal in a file: durable, exclusive, and careful with what is not its own."""

from __future__ import annotations

import functools
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import assert_checkpoints

from trio_reactor.errors import Closed, Overflow
from trio_reactor.renewal import Cleanup, Predecessor, RenewalOptions, Source, open_renewal
from trio_reactor.renewal.allocation import (
    AllocationJournal,
    AllocationRecord,
    Allocations,
    JournalBusy,
    JournalError,
    JournalFailed,
    JournalUnusable,
    SqliteJournal,
    open_journal,
)
from trio_reactor.renewal.allocation import journal as journal_module
from trio_reactor.renewal.simulation import SimulatedJournal

ONE = AllocationRecord("one", "renewal", 1.0, "source-1", {"at": ["a", 1, None]}, 61.5)
TWO = AllocationRecord("two", "renewal", 2.0)

HOLDER = """
import sys, trio
from trio_reactor.renewal.allocation import AllocationRecord, open_journal

async def hold():
    async with open_journal(sys.argv[1]) as journal:
        await journal.put(AllocationRecord("one", "renewal", 1.0))
        print("held", end="", flush=True)
        await trio.sleep_forever()

trio.run(hold)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "allocations.journal"


async def fill(path: Path) -> None:
    async with open_journal(path) as journal:
        await journal.put(ONE)


Opening = Callable[[Path], AbstractAsyncContextManager[AllocationJournal]]

_MEMORY: dict[Path, SimulatedJournal] = {}


@asynccontextmanager
async def simulated(path: Path) -> AsyncGenerator[AllocationJournal]:
    await trio.lowlevel.checkpoint()
    yield _MEMORY.setdefault(path, SimulatedJournal())


@pytest.mark.parametrize(
    "opening",
    [open_journal, functools.partial(open_journal, inline=True), simulated],
    ids=["threads", "inline", "simulated"],
)
async def test_what_every_journal_keeps_is_there_after_it_was_opened_again(
    path: Path, opening: Opening
) -> None:
    async with opening(path) as journal:
        assert await journal.load() == ()
        with assert_checkpoints():
            await journal.put(TWO)
        await journal.put(AllocationRecord("one", "renewal", 1.0))
        await journal.put(ONE)  # in its place
        with assert_checkpoints():
            assert await journal.load() == (ONE, TWO)
        with journal.claimed("first"), pytest.raises(JournalBusy), journal.claimed("second"):
            pytest.fail("claimed twice")
    async with opening(path) as journal:
        assert await journal.load() == (ONE, TWO)
        with assert_checkpoints():
            await journal.forget("two")
        await journal.forget("unknown")
        assert await journal.load() == (ONE,)


async def test_one_that_is_full_takes_no_more_and_still_changes_what_it_has(path: Path) -> None:
    async with open_journal(path, max_records=1) as journal:
        await journal.put(ONE)
        with pytest.raises(Overflow, match="max_records: the journal has 1"):
            await journal.put(TWO)
        await journal.put(AllocationRecord("one", "renewal", 1.0))
        assert len(await journal.load()) == 1
    with pytest.raises(ValueError, match="max_records"):
        async with open_journal(path, max_records=0):
            pytest.fail("opened")


async def test_many_tasks_write_at_once_and_all_of_it_is_recorded(path: Path) -> None:
    async with open_journal(path) as journal:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                record = AllocationRecord(f"key {number:02}", "renewal", float(number))
                nursery.start_soon(journal.put, record)
        assert [record.intended_at for record in await journal.load()] == list(
            map(float, range(20))
        )


async def test_a_task_that_is_cancelled_before_its_turn_has_written_nothing(path: Path) -> None:
    async with open_journal(path) as journal:
        with trio.CancelScope() as scope:
            scope.cancel()
            await journal.put(ONE)
        assert scope.cancelled_caught
        assert await journal.load() == ()


async def test_a_transaction_that_has_begun_is_finished_whoever_is_cancelled(
    path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, put = trio.Event(), threading.Event(), journal_module._put
    token = trio.lowlevel.current_trio_token()

    def slow(*args: object) -> None:
        token.run_sync_soon(begun.set)
        assert go_on.wait(10)
        put(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(journal_module, "_put", slow)
    async with open_journal(path) as journal:
        scope = trio.CancelScope()

        async def write() -> None:
            with scope:
                await journal.put(ONE)

        nursery.start_soon(write)
        await begun.wait()
        scope.cancel()
        go_on.set()
        assert await journal.load() == (ONE,)


# --------------------------------------------------------------------------- a disk that hangs


class Disk:
    """Holds up the thread that does one thing to the journal, until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
        self.reached, self.returned = trio.Event(), trio.Event()
        self._go_on = threading.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._work = getattr(journal_module, what)
        monkeypatch.setattr(journal_module, what, self._held)

    def go_on(self) -> None:
        self._go_on.set()

    def _held(self, *args: object) -> object:
        self._token.run_sync_soon(self.reached.set)
        try:
            assert self._go_on.wait(60)
            return self._work(*args)
        finally:
            self._token.run_sync_soon(self.returned.set)


async def until_it_can_be_opened(path: Path) -> None:
    """A thread closes the file right after it came back; what it did then is not told."""
    with trio.fail_after(30):
        while True:
            try:
                async with open_journal(path):
                    return
            except JournalBusy:
                await trio.sleep(0.01)


@pytest.mark.parametrize("what", ["_opened", "_take"], ids=["before it is open", "as it is read"])
@pytest.mark.parametrize("how", ["its own budget", "a cancellation"])
async def test_a_disk_that_hangs_does_not_hang_who_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch, what: str, how: str
) -> None:
    await fill(path)
    disk = Disk(monkeypatch, what)
    began = trio.current_time()
    if how == "its own budget":
        with pytest.raises(JournalFailed, match=r"was not opened within 0\.2 s") as caught:
            async with open_journal(path, timeout=0.2):
                pytest.fail("opened")
        assert (caught.value.outcome, caught.value.path) == ("not-submitted", str(path))
    else:
        with trio.move_on_after(0.2) as scope:
            async with open_journal(path):
                pytest.fail("opened")
        assert scope.cancelled_caught
    assert trio.current_time() - began < 9, "the thread still waits for the disk"
    assert disk.reached.is_set()
    assert not disk.returned.is_set()
    disk.go_on()
    await disk.returned.wait()
    monkeypatch.undo()
    await until_it_can_be_opened(path)  # what came back late was closed


async def test_a_disk_that_hangs_while_it_is_read_hangs_nobody_and_the_journal_is_over(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = trio.current_time()
    async with open_journal(path) as journal:
        await journal.put(ONE)
        disk = Disk(monkeypatch, "_load")
        with trio.move_on_after(0.2) as scope:
            await journal.load()
        assert scope.cancelled_caught
        for use in (journal.load(), journal.put(TWO), journal.forget("one")):
            with pytest.raises(JournalFailed, match="did not answer, and is used no more"):
                await use
    assert trio.current_time() - began < 9
    assert not disk.returned.is_set()
    with pytest.raises(JournalBusy):
        async with open_journal(path):
            pytest.fail("opened beside the thread that has it")
    disk.go_on()
    await disk.returned.wait()
    monkeypatch.undo()
    await until_it_can_be_opened(path)
    async with open_journal(path) as journal:
        assert await journal.load() == (ONE,)


async def test_a_renewal_does_not_hang_on_a_journal_whose_disk_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def terminate(_: AllocationRecord) -> Cleanup:
        await trio.lowlevel.checkpoint()
        pytest.fail("terminated")

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Source]:
        await trio.lowlevel.checkpoint()
        pytest.fail("opened")
        yield

    began = trio.current_time()
    async with open_journal(path) as journal:
        disk = Disk(monkeypatch, "_load")
        allocations = Allocations(journal=journal, terminate=terminate)
        options = RenewalOptions(open_timeout=0.3)
        with pytest.raises(JournalFailed, match=r"was not read within 0\.3 s"):
            async with open_renewal(opener, allocations=allocations, options=options):
                pytest.fail("opened")
    assert trio.current_time() - began < 9
    assert not disk.returned.is_set()
    disk.go_on()
    await disk.returned.wait()
    monkeypatch.undo()
    await until_it_can_be_opened(path)


async def test_a_change_that_hangs_is_waited_for_within_its_budget_also_by_who_is_cancelled(
    path: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    async with open_journal(path, timeout=1.0) as journal:
        disk = Disk(monkeypatch, "_put")
        began = trio.current_time()
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                await disk.reached.wait()
                scope.cancel()

            nursery.start_soon(cancel)
            with pytest.raises(JournalFailed) as caught:
                await journal.put(ONE)
        assert scope.cancel_called
        assert "was not changed within 1.0 s" in str(caught.value)
        assert caught.value.outcome == "unknown"
        assert trio.current_time() - began >= 0.9, "who is cancelled waits too"
    disk.go_on()
    await disk.returned.wait()
    monkeypatch.undo()
    await until_it_can_be_opened(path)
    async with open_journal(path) as journal:
        assert await journal.load() == (ONE,), "what was begun was finished, late"


async def test_what_waits_behind_a_change_that_hangs_was_not_submitted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[str] = []
    async with open_journal(path, timeout=0.3) as journal:
        disk = Disk(monkeypatch, "_put")

        async def write(record: AllocationRecord) -> None:
            with pytest.raises(JournalFailed) as caught:
                await journal.put(record)
            outcomes.append(caught.value.outcome)

        async with trio.open_nursery() as writers:
            writers.start_soon(write, ONE)
            await disk.reached.wait()
            writers.start_soon(write, TWO)
    assert sorted(outcomes) == ["not-submitted", "unknown"]
    disk.go_on()
    await disk.returned.wait()
    monkeypatch.undo()
    await until_it_can_be_opened(path)
    async with open_journal(path) as journal:
        assert await journal.load() == (ONE,)


async def test_a_close_that_hangs_is_left_to_its_thread(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()
    async with open_journal(path, timeout=0.2) as journal:
        connection = journal._writer.file
        assert connection is not None

        class Slow:
            def close(self) -> None:
                assert go_on.wait(60)
                connection.close()

        monkeypatch.setattr(journal._writer, "file", Slow())
    assert "was not closed within 0.2 s" in caplog.text
    go_on.set()
    await until_it_can_be_opened(path)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf"), True])
async def test_a_timeout_that_is_no_time_is_refused(path: Path, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout: seconds"):
        async with open_journal(path, timeout=timeout):
            pytest.fail("opened")
    assert not contents(path.parent)


async def test_a_closed_one_says_so(path: Path) -> None:
    async with open_journal(path) as journal:
        pass
    with pytest.raises(Closed, match=str(path)):
        await journal.load()
    with assert_checkpoints():
        await journal.aclose()


async def test_two_renewals_cannot_use_one_at_the_same_time(path: Path) -> None:
    async with open_journal(path) as journal:
        with journal.claimed("first"):
            with pytest.raises(JournalBusy, match="'first'") as caught, journal.claimed("second"):
                pytest.fail("claimed twice")
            assert caught.value.path == str(path)
            assert isinstance(caught.value, trio.BusyResourceError)
        with journal.claimed("second"):
            pass


async def test_this_process_cannot_open_one_twice(path: Path) -> None:
    async with open_journal(path):
        with pytest.raises(JournalBusy, match=str(path)):
            async with open_journal(path):
                pytest.fail("opened twice")
    await fill(path)


async def test_another_process_gets_it_only_when_the_first_is_gone_however_that_ended(
    path: Path,
) -> None:
    holder = await trio.lowlevel.open_process(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    try:
        assert await holder.stdout.receive_some() == b"held"
        with pytest.raises(JournalBusy, match=str(path)) as caught:
            async with open_journal(path):
                pytest.fail("opened twice")
        assert caught.value.path == str(path)
    finally:
        holder.kill()
        await holder.wait()
        await holder.stdout.aclose()
    async with open_journal(path) as journal:
        assert [record.key for record in await journal.load()] == ["one"]


# ------------------------------------------------------------------ files that are no such journal


def text(path: Path) -> None:
    path.write_text("These are the minutes of a meeting, and no journal.\n" * 100)


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE allocation (key, intended_at, record)")
    other.close()


def foreign_wal(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE t (a)")
    other.commit()
    other.close()


def crashed_wal(path: Path) -> None:
    """What a process leaves that dies in the middle of its work."""
    script = (
        "import os, sqlite3, sys\n"
        "other = sqlite3.connect(sys.argv[1])\n"
        "other.execute('PRAGMA journal_mode = WAL')\n"
        "other.execute('CREATE TABLE t (a)')\n"
        "other.commit()\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)


def newer(path: Path) -> None:
    with sqlite3.connect(path) as ours:
        ours.execute("PRAGMA user_version = 2")
    ours.close()


def no_json(path: Path) -> None:
    with sqlite3.connect(path) as ours:
        ours.execute("UPDATE allocation SET allocation = '{'")
    ours.close()


def no_table(path: Path) -> None:
    with sqlite3.connect(path) as ours:
        ours.execute("DROP TABLE allocation")
    ours.close()


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def scribbled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:4200] = b"\xff" * 104
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("spoil", [text, foreign, foreign_wal, crashed_wal])
async def test_a_foreign_file_is_refused_by_its_name_and_is_not_changed(
    path: Path, spoil: object
) -> None:
    spoil(path)  # type: ignore[operator]
    await refused_unchanged(path)


@pytest.mark.parametrize("spoil", [newer, no_json, no_table, torn, scribbled])
async def test_a_newer_or_damaged_journal_is_refused_by_its_name_and_is_not_changed(
    path: Path, spoil: object
) -> None:
    await fill(path)
    spoil(path)  # type: ignore[operator]
    await refused_unchanged(path)


async def refused_unchanged(path: Path) -> None:
    before = contents(path.parent)
    with pytest.raises(JournalUnusable, match=str(path)) as caught:
        async with open_journal(path):
            pytest.fail("opened")
    assert caught.value.path == str(path)
    assert contents(path.parent) == before


def contents(directory: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in directory.iterdir()}


@pytest.mark.parametrize("name", ["missing/a.journal", "."])
async def test_a_path_where_no_file_can_be_is_refused_by_its_name(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(JournalError, match="could not be opened") as caught:
        async with open_journal(tmp_path / name):
            pytest.fail("opened")
    assert str(tmp_path) in caught.value.message
    assert isinstance(caught.value, JournalFailed)


READER = """
import os, sys, trio
from trio_reactor.renewal.allocation import JournalUnusable, open_journal
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)

async def read():
    try:
        async with open_journal(sys.argv[1]):
            print("opened")
    except JournalUnusable as refused:
        print(refused.message)

trio.run(read)
"""


async def test_one_that_may_only_be_read_is_refused_by_its_name() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path = directory / "a.journal"
        await fill(path)
        os.chmod(path, 0o444)
        os.chmod(directory, 0o755)
        before = contents(directory)
        done = await trio.run_process(
            [sys.executable, "-c", READER, str(path)],
            capture_stdout=True,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )
        assert done.stdout.decode() == f"{path}: this journal is read-only\n"
        assert contents(directory) == before


async def test_a_disk_that_is_full_fails_the_write_and_not_the_journal(path: Path) -> None:
    async with open_journal(path) as journal:
        await journal.put(ONE)
        connection = journal._writer.file
        assert connection is not None
        connection.execute("PRAGMA max_page_count = 3")
        large = AllocationRecord("large", "renewal", 3.0, "s", "x" * 50_000)
        with pytest.raises(JournalFailed, match=str(path)) as caught:
            await journal.put(large)
        assert caught.value.outcome == "unknown"
        assert not caught.value.retryable
        assert await journal.load() == (ONE,)
        connection.execute("PRAGMA max_page_count = 1000")
        await journal.put(large)
        assert len(await journal.load()) == 2


def test_its_name_is_in_its_repr(path: Path) -> None:
    async def show() -> str:
        async with open_journal(path) as journal:
            assert isinstance(journal, SqliteJournal)
            return repr(journal)

    assert trio.run(show) == f"<SqliteJournal {path}>"
