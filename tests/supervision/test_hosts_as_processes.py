"""Several hosts, each a process, share a journal in PostgreSQL; and anything may happen to them."""

from __future__ import annotations

import itertools
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import defaultdict
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
from trio_reactor.supervision.store.postgres import PostgresStore

ROOT = Path(__file__).parent.parent.parent
KEYS = ("red", "green", "blue", "white")
LEASE = 0.8
MARGIN = 1.0
"""More than a guard is late on a machine that has other things to do."""
GENERATIONS = 200
ENOUGH = 90.0
"""Seconds after which it is enough, if so many generations have not come by then."""
LEAST = 40

pytestmark = [pytest.mark.server("postgres"), pytest.mark.timeout(240)]


class Host:
    """One host: its process, its way to the database, and what is done to it."""

    def __init__(self, name: str, proxy: Proxy, told: dict[str, object], mark: str) -> None:
        self.name = name
        self.proxy = proxy
        self.told = told
        self._environment = os.environ | {"PYTHONPATH": str(ROOT), "HOST_STORY": mark}
        self.process = self._start()
        self.starts = 1

    def _start(self) -> subprocess.Popen[bytes]:
        script = Path(__file__).parent / "host_story.py"
        with open(Path(str(self.told["here"]), f"{self.name}.log"), "a") as log:
            return subprocess.Popen(
                [sys.executable, script, json.dumps(self.told)], env=self._environment, stderr=log
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def kill_and_start(self, chance: random.Random) -> None:
        self.kill()
        self.told["orphaned"] = chance.choice(["kill", "adopt"])
        self.process = self._start()
        self.starts += 1

    def stop(self, chance: random.Random) -> None:
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(chance.uniform(0.2, 3.0) * LEASE)
        self.process.send_signal(signal.SIGCONT)

    def cut(self, chance: random.Random) -> None:
        self.proxy.cut()
        if chance.random() < 0.5:
            self.proxy.accepts = False
            time.sleep(chance.uniform(0.2, 3.0) * LEASE)
            self.proxy.accepts = True

    def stall(self, chance: random.Random) -> None:
        self.proxy.stall()
        time.sleep(chance.uniform(0.2, 3.0) * LEASE)
        self.proxy.resume()

    def delay(self, chance: random.Random) -> None:
        self.proxy.delay = chance.choice([0.0, 0.0, 0.01, 0.1])

    def suffer(self, chance: random.Random) -> None:
        acts = (self.kill_and_start, self.stop, self.cut, self.stall, self.delay)
        chance.choices(acts, weights=(3, 3, 3, 3, 2))[0](chance)


def ran(here: Path) -> dict[str, list[int]]:
    """The generations that ran, of each key, in the order in which they began."""
    return {
        key: [int(line) for line in (here / f"{key}.ran").read_text().split()]
        if (here / f"{key}.ran").exists()
        else []
        for key in KEYS
    }


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
                told = {
                    "conninfo": f"{conninfo} port={proxy.port}",
                    "host": name,
                    "lease": LEASE,
                    "margin": MARGIN,
                    "session_lease": 1.5,
                    "orphaned": chance.choice(["kill", "adopt"]),
                    "keys": KEYS,
                    "here": str(tmp_path),
                    "seed": seed,
                }
                hosts.append(Host(name, proxy, told, mark))
            until = time.monotonic() + ENOUGH
            while time.monotonic() < until and sum(map(len, ran(tmp_path).values())) < GENERATIONS:
                time.sleep(chance.uniform(0.1, 0.8))
                chance.choice(hosts).suffer(chance)
                no_overlap(tmp_path)
        finally:
            for host in hosts:
                host.kill()
        gone = time.monotonic() + LEASE + MARGIN + 1.0
        while alive(mark) and time.monotonic() < gone:
            time.sleep(0.02)
        assert not alive(mark), "what a dead host ran has outlived its horizon"
        no_overlap(tmp_path)
        acknowledged: defaultdict[str, list[int]] = defaultdict(list)
        for line in (tmp_path / "acknowledged").read_text().splitlines():
            key, generation, _ = line.split()
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
