"""Bad input of the whole: real stores and real processes under a supervisor.

Each is a typed error that names what is wrong, and the other sessions go on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
import trio
from process_stage import WORLD, code, lives
from pydantic import ValidationError

from trio_reactor.errors import TimedOut, leaves
from trio_reactor.supervision import (
    UNLIMITED,
    CodeFailed,
    CodeIdentity,
    Command,
    Enforced,
    Exited,
    ExitStatus,
    Handle,
    Key,
    Killed,
    LeaseExpired,
    Loaded,
    Loading,
    LocalProcesses,
    MemoryStore,
    Open,
    PythonCode,
    RecordUnreadable,
    SessionRecord,
    SessionStopped,
    SqliteStore,
    StaleSession,
    Stopped,
    Stopping,
    StoreBusy,
    StoreFailed,
    StoreUnusable,
    Supervisor,
    SupervisorOptions,
    SupervisorPoisoned,
    Work,
    open_supervisor,
)
from trio_reactor.supervision.execution.processes.carriers import carriers_of
from trio_reactor.supervision.execution.processes.identity import identity_of
from trio_reactor.supervision.model.child import Child, Launch
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.simulation.store import FaultyStore
from trio_reactor.supervision.store.protocol import Change

BAD = """
import os, signal, sys, time
if "hang" in __name__:
    time.sleep(1000)
if "spin" in __name__:
    all(True for _ in iter(int, 1))
if "broken" in __name__:
    raise OSError("no such device")
if "vanish" in __name__:
    os._exit(3)
value = 5
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@asynccontextmanager
async def beside_another(path: Path, **options: Any) -> AsyncGenerator[Supervisor]:
    """A supervisor with one session that must still answer when the block ends."""
    chosen = SupervisorOptions(**{"grace": 0.2, "lease": 60.0} | options)
    async with open_supervisor(SqliteStore(path), LocalProcesses(), options=chosen) as supervisor:
        other = (await supervisor.open("another")).handle
        await supervisor.load(other, code("echo"))
        yield supervisor
        with trio.fail_after(10):
            await supervisor.channel(other).send_all(b"still there")
            assert await supervisor.channel(other).receive_some() == b"STILL THERE"
        assert supervisor.renew(other) == 60.0
        assert isinstance(supervisor.status(other).phase, Loaded)


async def ended(supervisor: Supervisor, handle: Handle) -> Stopped:
    with trio.fail_after(20):
        return await supervisor.wait_stopped(handle)


def loaded(supervisor: Supervisor, handle: Handle) -> Loaded:
    phase = supervisor.status(handle).phase
    assert isinstance(phase, Loaded)
    return phase


@contextmanager
def open_pidfd(pid: int) -> Iterator[int]:
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)


# ------------------------------------------------------------------------- what is to run


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (PythonCode("no_such_module:main"), "No module named 'no_such_module'"),
        (PythonCode("json:no_such_name"), "no_such_name"),
        (PythonCode("bad_broken:main", path=("{}",)), "OSError: no such device"),
        (PythonCode("bad_value:value", path=("{}",)), "bad_value:value is not callable: it is int"),
        (Command(("no-such-program",)), "no-such-program: No such file"),
        (Command(("/etc/passwd",)), "/etc/passwd: Permission denied"),
        (Command(("true",), directory="/nowhere"), "/nowhere"),
    ],
    ids=str,
)
async def test_code_that_cannot_be_loaded_is_its_own_sessions_failure(
    path: Path, tmp_path: Path, work: Work, said: str
) -> None:
    for name in ("bad_broken", "bad_value"):
        (tmp_path / f"{name}.py").write_text(BAD)
    if isinstance(work, PythonCode) and work.path:
        work = msgspec.structs.replace(work, path=(str(tmp_path),))
    async with beside_another(path) as supervisor:
        for number in range(5):  # whichever is heard of first: that it failed, or that it ended
            handle = (await supervisor.open(Key("bad", str(number)))).handle
            with pytest.raises(CodeFailed) as told:
                await supervisor.load(handle, work)
            assert said in (told.value.detail or "")
            stop = (await ended(supervisor, handle)).stop
            if stop.failure is None:
                assert (stop.reason, stop.exit) == ("exited", ExitStatus(code=1))
            else:
                assert stop.reason == "load-failed"
                assert said in (stop.failure.detail or "")
            with pytest.raises(SessionStopped, match=stop.reason):
                await supervisor.load(handle, work)


@pytest.mark.parametrize("name", ["hang", "spin"])
async def test_an_import_that_never_ends_is_ended_by_the_lease(
    path: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / f"bad_{name}.py").write_text(BAD)
    async with beside_another(path) as supervisor:
        handle = (await supervisor.open("bad", lease=0.7)).handle
        begun = WORLD.boottime()
        with pytest.raises(LeaseExpired, match="the lease of bad generation 1 has run out"):
            await supervisor.load(handle, PythonCode(f"bad_{name}:f", path=(str(tmp_path),)))
        await ended(supervisor, handle)
        assert 0.6 < WORLD.boottime() - begun < 5


async def test_an_import_that_never_ends_is_ended_by_the_timeout_of_loads(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad_spin.py").write_text(BAD)
    async with beside_another(path, load_timeout=2.0) as supervisor:
        handle = (await supervisor.open("bad")).handle
        with pytest.raises(TimedOut, match="bad generation 1: the code did not load in time"):
            await supervisor.load(handle, PythonCode("bad_spin:f", path=(str(tmp_path),)))
        assert (await ended(supervisor, handle)).stop.reason == "load-failed"


async def test_a_process_that_ends_while_it_imports_is_no_failure_of_code(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad_vanish.py").write_text(BAD)
    async with beside_another(path) as supervisor:
        handle = (await supervisor.open("bad")).handle
        with pytest.raises(SessionStopped, match="exited, with status 3") as told:
            await supervisor.load(handle, PythonCode("bad_vanish:f", path=(str(tmp_path),)))
        assert (told.value.reason, told.value.exit_code) == ("exited", 3)


@pytest.mark.parametrize(
    "name", ["spin", "fork_many", "ignore", "close_everything", "close_channel", "block_async"]
)
async def test_whatever_code_does_its_lease_ends_it(path: Path, name: str) -> None:
    async with beside_another(path) as supervisor:
        handle = (await supervisor.open("bad", lease=1.5)).handle
        await supervisor.load(handle, code(name))
        nonce = loaded(supervisor, handle).launch.nonce
        stopped = await ended(supervisor, handle)
        assert stopped.stop.reason == "expired"
        assert list(carriers_of(nonce)) == []
        with pytest.raises(LeaseExpired):
            supervisor.renew(handle)


async def test_code_that_ignores_being_asked_is_killed_after_its_grace(path: Path) -> None:
    async with beside_another(path) as supervisor:
        handle = (await supervisor.open("bad")).handle
        await supervisor.load(handle, code("ignore"))
        await supervisor.channel(handle).receive_some()
        assert isinstance(await supervisor.dispose(handle), Killed)


async def test_a_daemon_ends_with_the_session_that_left_it(path: Path) -> None:
    async with beside_another(path) as supervisor:
        handle = (await supervisor.open("bad")).handle
        await supervisor.load(handle, code("daemonize", "stay"))
        daemon = int(await supervisor.channel(handle).receive_some())
        assert lives(daemon)
        await supervisor.dispose(handle)
        assert not lives(daemon)


async def test_two_hundred_megabytes_of_output_are_its_own_affair(path: Path) -> None:
    async with beside_another(path) as supervisor:
        handle = (await supervisor.open("bad")).handle
        await supervisor.load(handle, code("chatter", str(200 << 20)))
        assert (await ended(supervisor, handle)).stop.reason == "exited"
        output = supervisor.output(handle)
        assert output.tail().endswith(b"the end")
        assert output.statistics().written == (200 << 20) + 7
        assert output.statistics().dropped > 190 << 20


async def test_a_program_that_ends_at_once_is_told_as_ended_either_way(path: Path) -> None:
    async with beside_another(path) as supervisor:
        for number in range(10):
            handle = (await supervisor.open(Key("brief", str(number)))).handle
            told: CodeIdentity | SessionStopped
            try:
                told = await supervisor.load(handle, Command(("false",)))
            except SessionStopped as stopped:
                told = stopped
            if isinstance(told, SessionStopped):
                assert (told.reason, told.exit_code) == ("exited", 1)
            else:
                assert told.name.endswith("/false")
            end = await ended(supervisor, handle)
            assert end.stop.reason == "exited"
            assert end.termination == Exited(ExitStatus(code=1))


# ------------------------------------------------------------------------- what is asked


@pytest.mark.parametrize("lease", [float("nan"), float("inf"), 0, -1, 31_536_001.0, "5", True])
async def test_a_lease_that_cannot_be_is_named(path: Path, lease: Any) -> None:
    async with beside_another(path, max_lease=31_536_000.0) as supervisor:
        with pytest.raises((ValueError, TypeError), match=f"lease must be .*, not '?{lease}"):
            await supervisor.open("bad", lease=lease)
        assert await supervisor.high_water("bad") is None


@pytest.mark.parametrize("timeout", [float("nan"), 0, "5"])
async def test_a_hang_timeout_that_cannot_be_changes_nothing(path: Path, timeout: Any) -> None:
    async with beside_another(path) as supervisor:
        handle = (await supervisor.open("bad")).handle
        with pytest.raises((ValueError, TypeError), match="hang_timeout must be"):
            await supervisor.load(handle, code("echo"), hang_timeout=timeout)
        await supervisor.load(handle, code("echo"))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"request": ""}, "request must not be empty"),
        ({"request": "x" * 257}, "request has 257 characters; 256 are allowed"),
        ({"request": "a\nb"}, "request holds a character that is not printable"),
        ({"request": 5}, "request must be a text"),
        ({"key": ""}, "identity must not be empty"),
        ({"key": 5}, "a key must be a Key or a text, not 5"),
        ({"expected_generation": -1}, "expected_generation must not be negative"),
        ({"expected_generation": "1"}, "expected_generation must be a whole number or None"),
        ({"limits": {"memory": 5}}, "limits must be Limits"),
    ],
)
async def test_what_is_asked_wrongly_is_named(path: Path, asked: Any, named: str) -> None:
    async with beside_another(path) as supervisor:
        with pytest.raises((ValueError, TypeError), match=named):
            await supervisor.open(**{"key": "bad"} | asked)
        assert await supervisor.high_water("bad") is None


async def test_a_handle_that_is_forged_or_of_another_key_is_stale(path: Path) -> None:
    async with beside_another(path) as supervisor:
        mine = (await supervisor.open("mine")).handle
        yours = (await supervisor.open("yours")).handle
        replace = msgspec.structs.replace
        for forged in (
            replace(mine, token="guessed"),
            replace(mine, token=yours.token),
            replace(mine, key=yours.key),
            replace(mine, generation=2),
        ):
            with pytest.raises(StaleSession, match=str(forged)):
                supervisor.renew(forged)
            with pytest.raises(StaleSession):
                await supervisor.dispose(forged)
        secret: Any = mine.token
        with pytest.raises(TypeError, match="a handle must be a Handle") as told:
            supervisor.renew(secret)
        assert mine.token not in str(told.value)
        with pytest.raises(TypeError, match=r"what runs must be .* not list"):
            await supervisor.load(mine, ["true"])  # type: ignore[arg-type]
        assert supervisor.renew(mine) == 60.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease": 0},
        {"lease": "5"},
        {"grace": -1},
        {"start_timeout": float("nan")},
        {"hang_timeout": float("inf")},
        {"max_sessions": 0},
        {"max_stopped": 1.5},
        {"orphaned": "spare"},
        {"limits": None},
        {"leese": 5},
    ],
)
def test_an_option_that_is_wrong_is_named(wrong: Any) -> None:
    with pytest.raises(ValidationError) as told:
        SupervisorOptions(**wrong)
    assert [error["loc"] for error in told.value.errors()] == [tuple(wrong)]


def test_a_default_lease_beyond_the_longest_is_named() -> None:
    with pytest.raises(ValueError, match=r"lease .7200.0. is longer than max_lease .3600.0."):
        SupervisorOptions(lease=7200.0)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"store": "journal.db"}, "store must be .*, not 'journal.db'"),
        ({"store": MemoryStore}, "store must be .*, not <class"),
        ({"execution": None}, "execution must be .*, not None"),
        ({"options": {"lease": 3.0}}, "options must be .*, not {'lease'"),
    ],
)
async def test_what_a_supervisor_cannot_be_made_from_is_named(given: Any, named: str) -> None:
    chosen: Any = {"store": MemoryStore(), "execution": LocalProcesses()} | given
    with pytest.raises(TypeError, match=named):
        async with open_supervisor(**chosen):
            raise AssertionError("it was served")


# ------------------------------------------------------------------------- the journal


async def filled(path: Path) -> Handle:
    async with open_supervisor(SqliteStore(path), LocalProcesses()) as supervisor:
        return (await supervisor.open("key")).handle


def execute(path: Path, statement: str) -> None:
    database = apsw.Connection(str(path))
    database.execute(statement).fetchall()
    database.close()


@pytest.mark.parametrize(
    ("damage", "error", "named"),
    [
        (None, StoreUnusable, "journal"),
        ("PRAGMA user_version = 999", StoreUnusable, "999"),
        ("DROP TABLE record", StoreUnusable, "journal"),
        ("UPDATE record SET encoded = x'00'", RecordUnreadable, "key"),
    ],
)
async def test_a_journal_that_cannot_be_read_is_refused_and_left_as_it_is(
    path: Path, damage: str | None, error: type[Exception], named: str
) -> None:
    await filled(path)
    if damage is None:
        path.write_bytes(b"a letter to somebody\n" * 1000)
    else:
        execute(path, damage)
    before = path.read_bytes()
    with pytest.raises(error, match=named):
        async with open_supervisor(SqliteStore(path), LocalProcesses()):
            raise AssertionError("it was served")
    assert path.read_bytes() == before


ELSEWHERE = """
import resource, sys, trio
from trio_reactor.errors import leaves
from trio_reactor.supervision import LocalProcesses, SqliteStore, open_supervisor
path, how = sys.argv[1:]
async def main():
    async with open_supervisor(SqliteStore(path), LocalProcesses()) as supervisor:
        print("up", flush=True)
        if how == "stay":
            await trio.to_thread.run_sync(sys.stdin.read)
        opened = 0
        try:
            while True:
                record = await supervisor.open(f"key {opened}")
                opened += 1
        finally:
            print(opened, flush=True)
if how == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    trio.run(main)
except* Exception as failures:
    for failure in leaves(failures):
        print(type(failure).__name__, failure)
"""


async def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(path: Path) -> None:
    done = await trio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-c", ELSEWHERE, str(path), "full"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    )
    up, opened, *failures = done.stdout.splitlines()
    assert up == "up", done
    assert int(opened) > 5, done
    assert any(line.startswith("StoreFailed") and str(path) in line for line in failures), done
    async with open_supervisor(SqliteStore(path), LocalProcesses()) as supervisor:
        for number in range(int(opened)):
            assert await supervisor.high_water(f"key {number}") == 1


async def test_a_journal_that_another_process_uses_is_busy(path: Path) -> None:
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            lambda task_status: trio.run_process(  # noqa: ASYNC105 - the nursery awaits it
                [sys.executable, "-c", ELSEWHERE, str(path), "stay"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                check=False,
                task_status=task_status,
            )
        )
        assert (await process.stdout.receive_some()).strip() == b"up"
        with pytest.raises(StoreBusy, match=str(path)):
            async with open_supervisor(SqliteStore(path), LocalProcesses()):
                raise AssertionError("it was served")
        process.kill()


async def test_a_recorded_process_id_that_is_somebody_elses_is_left_alone(path: Path) -> None:
    innocent = subprocess.Popen(["sleep", "1000"])  # noqa: ASYNC220
    try:
        found = identity_of(innocent.pid)
        earlier = msgspec.structs.replace(found, start_time=found.start_time - 1)
        record = SessionRecord(
            Handle(Key("key"), 1, "token"), "asked", 30.0, UNLIMITED, 0.0, Open()
        )
        launch = Launch("0" * 32, WORLD.boottime() - 1, earlier.boot_id)
        running = msgspec.structs.replace(
            record, phase=Loading(Command(("sleep", "9")), launch, Child(earlier), Enforced())
        )
        async with SqliteStore(path).open() as journal:
            for each in (record, running):
                assert await journal.commit([Change(each, encode(each))]) == [None]
        async with open_supervisor(SqliteStore(path), LocalProcesses()) as supervisor:
            phase = supervisor.status(record.handle).phase
            assert isinstance(phase, Stopped)
            assert phase.recovered
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


async def test_a_slow_journal_keeps_no_session_beyond_its_lease(path: Path) -> None:
    store = FaultyStore(SqliteStore(path))
    options = SupervisorOptions(grace=0.2)
    async with open_supervisor(store, LocalProcesses(), options=options) as supervisor:
        handle = (await supervisor.open("key", lease=1.0)).handle
        await supervisor.load(handle, code("sleep"))
        pid = int((await supervisor.channel(handle).receive_some()).split()[0])
        store.hold()
        with trio.fail_after(10), open_pidfd(pid) as gone:
            await trio.lowlevel.wait_readable(gone)
        with pytest.raises(LeaseExpired):
            supervisor.renew(handle)
        status = supervisor.status(handle)
        assert isinstance(status.phase, Stopping)
        assert not status.journaled
        store.release()
        assert (await ended(supervisor, handle)).stop.reason == "expired"
        assert supervisor.status(handle).journaled


async def test_a_journal_that_goes_away_poisons_and_every_lease_still_ends(path: Path) -> None:
    options = SupervisorOptions(grace=0.2)
    with pytest.raises(BaseExceptionGroup) as told:
        async with open_supervisor(
            SqliteStore(path), LocalProcesses(), options=options
        ) as supervisor:
            handle = (await supervisor.open("key", lease=1.0)).handle
            await supervisor.load(handle, code("sleep"))
            pid = int((await supervisor.channel(handle).receive_some()).split()[0])
            path.unlink()
            with open_pidfd(pid) as gone:
                with pytest.raises((StoreFailed, SupervisorPoisoned)):
                    await supervisor.open("next")
                with pytest.raises(SupervisorPoisoned):
                    await supervisor.wait_failed()
                with pytest.raises(SupervisorPoisoned):
                    supervisor.renew(handle)
                assert supervisor.status(handle).record.handle == handle
                with trio.fail_after(10):
                    await trio.lowlevel.wait_readable(gone)
    failures = list(leaves(told.value))
    assert any(isinstance(each, StoreFailed) for each in failures), failures
    assert all(isinstance(each, StoreFailed | SupervisorPoisoned) for each in failures), failures
