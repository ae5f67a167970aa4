"""Several hosts, each a process, share a journal in PostgreSQL; and anything may happen to them."""

from __future__ import annotations

import itertools
import json
import os
import random
import secrets
import select
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from host_story import CODE
from postgres_stage import fresh_database, sql
from tcp_proxy import Proxy, open_proxy

from trio_reactor.supervision import (
    Loaded,
    LocalProcesses,
    PythonCode,
    SupervisorOptions,
    open_supervisor,
)
from trio_reactor.supervision.model.codec import decode
from trio_reactor.supervision.store.postgres import PostgresStore

ROOT = Path(__file__).parent.parent.parent
KEYS = ("red", "green", "blue", "white")
LEASE = 0.8
MARGIN = 1.0
"""More than a guard is late on a machine that has other things to do."""
GENERATIONS = 100
ENOUGH = 30.0
"""Seconds after which it is enough, if so many generations have not come by then."""
LEAST = 20

pytestmark = [pytest.mark.server("postgres"), pytest.mark.long]


def told(here: Path, name: str, conninfo: str, **more: object) -> dict[str, object]:
    """What a host is told."""
    return {
        "conninfo": conninfo,
        "host": name,
        "lease": LEASE,
        "margin": MARGIN,
        "session_lease": 1.5,
        "orphaned": "kill",
        "keys": KEYS,
        "keeps": False,
        "here": str(here),
        "seed": 0,
        **more,
    }


def start(told: dict[str, object], mark: str) -> subprocess.Popen[bytes]:
    """Start a host; what it says in vain is in its log."""
    script = Path(__file__).parent / "host_story.py"
    with open(Path(str(told["here"]), f"{told['host']}.log"), "a") as log:
        return subprocess.Popen(
            [sys.executable, script, json.dumps(told)],
            env=os.environ | {"PYTHONPATH": str(ROOT), "HOST_STORY": mark},
            stderr=log,
        )


def no_defect(here: Path, *processes: subprocess.Popen[bytes]) -> None:
    """See that no host met anything but weather, and that none ended by itself."""
    if (here / "defect").exists():
        pytest.fail((here / "defect").read_text(), pytrace=False)
    for process in processes:
        if process.poll() is not None:
            logs = "\n".join(log.read_text() for log in here.glob("*.log"))
            pytest.fail(f"a host ended by itself: {process.returncode}\n{logs}", pytrace=False)


class Host:
    """One host: its process, its way to the database, and what is done to it.

    Whatever is done to it says what undoes it, if that is not to come by itself.
    """

    def __init__(self, proxy: Proxy, told: dict[str, object], mark: str) -> None:
        self.proxy = proxy
        self.told = told
        self.mark = mark
        self.process = start(told, mark)
        self.starts = 1

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def be_killed(self, chance: random.Random) -> Callable[[], None]:
        self.kill()
        self.told["orphaned"] = chance.choice(["kill", "adopt"])
        if chance.random() < 0.5:
            self.start()
            return _nothing
        return self.start

    def start(self) -> None:
        self.process = start(self.told, self.mark)
        self.starts += 1

    def be_stopped(self, chance: random.Random) -> Callable[[], None]:
        self.process.send_signal(signal.SIGSTOP)
        return lambda: self.process.send_signal(signal.SIGCONT)

    def be_cut(self, chance: random.Random) -> Callable[[], None]:
        self.proxy.accepts = chance.random() < 0.5
        self.proxy.cut()
        return self.be_let_in

    def be_let_in(self) -> None:
        self.proxy.accepts = True

    def be_stalled(self, chance: random.Random) -> Callable[[], None]:
        self.proxy.stall()
        return self.proxy.resume

    def be_delayed(self, chance: random.Random) -> Callable[[], None]:
        self.proxy.delay = chance.choice([0.0, 0.0, 0.01, 0.1])
        return _nothing

    def suffer(self, chance: random.Random) -> Callable[[], None]:
        no_defect(Path(str(self.told["here"])), self.process)
        acts = (self.be_killed, self.be_stopped, self.be_cut, self.be_stalled, self.be_delayed)
        return chance.choices(acts, weights=(3, 3, 3, 3, 2))[0](chance)


def _nothing() -> None:
    pass


def harm(hosts: list[Host], chance: random.Random) -> None:
    """Do something to one of them, or to several at once, and undo it one by one."""
    victims = chance.sample(hosts, chance.choice([1, 1, 2, len(hosts)]))
    undoing = [act for host in victims if (act := host.suffer(chance)) is not _nothing]
    chance.shuffle(undoing)
    for undo in undoing:
        time.sleep(chance.uniform(0.2, 2.5) * LEASE / len(undoing))
        undo()


def ran(here: Path) -> dict[str, list[int]]:
    """The generations that ran, of each key, in the order in which they began."""
    return {
        key: [int(line) for line in (here / f"{key}.ran").read_text().split()]
        if (here / f"{key}.ran").exists()
        else []
        for key in KEYS
    }


def lines(here: Path, name: str) -> list[list[str]]:
    """The words of each whole line of a file that hosts write to."""
    path = here / name
    text = path.read_text() if path.exists() else ""
    return [line.split() for line in text.splitlines()]


def alive(mark: str) -> list[int]:
    wanted = f"HOST_STORY={mark}".encode()
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environment = Path("/proc", entry, "environ").read_bytes().split(b"\0")
                state = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if wanted in environment and state not in (b"Z", b"X"):
                found.append(int(entry))
    return found


def no_overlap(here: Path) -> None:
    for what in ("overlap", "stale"):
        assert not (here / what).exists(), f"{what}: {(here / what).read_text()}"
    for key, generations in ran(here).items():
        assert all(a < b for a, b in itertools.pairwise(generations)), (key, generations)


async def _take_all(conninfo: str, here: Path, acknowledged: dict[str, int]) -> None:
    """Another host takes every key, once all of the others are gone."""
    options = SupervisorOptions(lease=30.0, grace=0.1, margin=MARGIN)
    store = PostgresStore(conninfo, host="the last", lease=LEASE)
    async with open_supervisor(store, LocalProcesses(), options=options) as supervisor:
        for key in KEYS:
            high = await supervisor.high_water(key)
            assert (high or 0) >= acknowledged[key]
            record = await supervisor.open(key, expected_generation=high)
            work = PythonCode("host_code:main", path=(str(here),), argument=str(here))
            await supervisor.load(record.handle, work)
            assert isinstance(supervisor.status(record.handle).phase, Loaded)


def test_whatever_happens_to_three_hosts_no_key_runs_twice(tmp_path: Path) -> None:
    seed, mark = secrets.randbits(32), secrets.token_hex(8)
    print(f"seed {seed}")
    chance = random.Random(seed)
    (tmp_path / "host_code.py").write_text(CODE)
    hosts: list[Host] = []
    with (
        fresh_database() as conninfo,
        open_proxy() as one,
        open_proxy() as two,
        open_proxy() as three,
    ):
        try:
            for name, proxy in (("one", one), ("two", two), ("three", three)):
                way = f"{conninfo} port={proxy.port}"
                orphaned = chance.choice(["kill", "adopt"])
                given = told(tmp_path, name, way, orphaned=orphaned, seed=seed)
                hosts.append(Host(proxy, given, mark))
            until = time.monotonic() + ENOUGH
            while time.monotonic() < until and sum(map(len, ran(tmp_path).values())) < GENERATIONS:
                time.sleep(chance.uniform(0.1, 0.6))
                harm(hosts, chance)
                no_overlap(tmp_path)
            no_defect(tmp_path, *(host.process for host in hosts))
        finally:
            for host in hosts:
                host.kill()
        gone = time.monotonic() + LEASE + MARGIN + 1.0
        while alive(mark) and time.monotonic() < gone:
            time.sleep(0.02)
        assert not alive(mark), "what a dead host ran has outlived its horizon"
        no_overlap(tmp_path)
        no_defect(tmp_path)
        acknowledged: defaultdict[str, list[int]] = defaultdict(list)
        for key, generation, _ in lines(tmp_path, "acknowledged"):
            acknowledged[key].append(int(generation))
        for key, generations in acknowledged.items():
            assert len(set(generations)) == len(generations), f"{key} was given out twice"
            with sql(conninfo) as connection:
                row = connection.execute(
                    "SELECT generation FROM trio_reactor.key WHERE identity = %s", (key,)
                ).fetchone()
            assert row is not None
            assert row[0] >= max(generations)
        trio.run(_take_all, conninfo, tmp_path, {k: max(v) for k, v in acknowledged.items()})
        no_overlap(tmp_path)
    count = sum(map(len, ran(tmp_path).values()))
    print(f"{count} generations; starts: {[host.starts for host in hosts]}")
    assert count >= LEAST


def wait_until(
    happened: Callable[[], bool], here: Path, *processes: subprocess.Popen[bytes]
) -> None:
    """Wait for a fact that hosts bring about."""
    until = time.monotonic() + ENOUGH
    while not happened():
        no_defect(here, *processes)
        assert time.monotonic() < until
        time.sleep(0.01)


def written(conninfo: str) -> list[tuple[object, ...]]:
    """All that a journal says, but for the beats of who lives."""
    with sql(conninfo) as connection:
        return [
            *connection.execute("SELECT incarnation, fenced FROM trio_reactor.host ORDER BY 1"),
            *connection.execute("SELECT * FROM trio_reactor.key ORDER BY identity"),
            *connection.execute("SELECT * FROM trio_reactor.record ORDER BY revision"),
        ]


def settled(
    conninfo: str, generation: int, here: Path, *processes: subprocess.Popen[bytes]
) -> object:
    """What the journal says, once every session of a generation is journaled as loaded."""

    def are_loaded() -> bool:
        with sql(conninfo) as connection:
            bodies = connection.execute(
                "SELECT body FROM trio_reactor.record WHERE generation = %s", (generation,)
            ).fetchall()
        phases = [decode(bytes(body), name="a record").phase for (body,) in bodies]
        return len(phases) == len(KEYS) and all(isinstance(each, Loaded) for each in phases)

    wait_until(are_loaded, here, *processes)
    return written(conninfo)


def test_one_that_goes_on_once_another_has_its_name_changes_nothing(tmp_path: Path) -> None:
    lease, old_mark, new_mark = 2.0, secrets.token_hex(8), secrets.token_hex(8)
    (tmp_path / "host_code.py").write_text(CODE)
    with fresh_database() as conninfo:
        given = told(tmp_path, "one", conninfo, lease=lease, session_lease=30.0, keeps=True)
        old = start(given | {"orphaned": "adopt"}, old_mark)
        new: subprocess.Popen[bytes] | None = None
        try:
            wait_until(lambda: ran(tmp_path) == {key: [1] for key in KEYS}, tmp_path, old)
            settled(conninfo, 1, tmp_path, old)
            old.send_signal(signal.SIGSTOP)
            horizon = time.monotonic() + lease
            children = [os.pidfd_open(pid) for pid in alive(old_mark) if pid != old.pid]
            assert len(children) >= len(KEYS)
            new = start(given, new_mark)
            for child in children:
                left = max(0.0, horizon + MARGIN - time.monotonic())
                assert select.select([child], [], [], left)[0], "it runs beyond its horizon"
                os.close(child)
            assert alive(old_mark) == [old.pid]

            wait_until(lambda: ran(tmp_path) == {key: [1, 2] for key in KEYS}, tmp_path, new)
            assert time.monotonic() > horizon
            before = settled(conninfo, 2, tmp_path, new)

            old.send_signal(signal.SIGCONT)
            ends = str(old.pid)
            wait_until(
                lambda: [ends, "StoreBusy"] in lines(tmp_path, "endings"), tmp_path, old, new
            )
            who, *why = lines(tmp_path, "endings")[0]
            assert (who, set(why)) == (ends, {"HostFenced"})
            assert written(conninfo) == before
            assert alive(old_mark) == [old.pid]
            no_overlap(tmp_path)
            no_defect(tmp_path, old, new)
        finally:
            for process in (old, new):
                if process is not None:
                    process.kill()
                    process.wait()
        wait_until(lambda: not alive(new_mark), tmp_path)
        assert ran(tmp_path) == {key: [1, 2] for key in KEYS}
        no_overlap(tmp_path)
