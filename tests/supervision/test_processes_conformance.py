"""Local processes conform: real children, on the real clock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from trio_reactor.supervision.execution.conformance import Case, Rig, cases
from trio_reactor.supervision.execution.processes import LocalProcesses
from trio_reactor.supervision.execution.protocol import Execution, LaunchOrder
from trio_reactor.supervision.model.child import Child, Orphan
from trio_reactor.supervision.model.work import PythonCode, Work
from trio_reactor.world import SystemWorld, World

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="local processes need Linux")

MARKER = "CONFORMANCE_RIG"
"""In the environment of whatever the children of a rig are, by which its witness knows them."""

HEAD = """
import os, pathlib, signal, sys, time
pathlib.Path({here!r}, f"ran-{{os.getpid()}}").touch()
"""

WORKS = {
    "forever": "def main(session): time.sleep(1000)",
    "exits": "def main(session): sys.exit(int(session.argument))",
    "dies_loading": "os._exit(7)",
    "never_loads": "time.sleep(1000)",
    "ignores": """
def main(session):
    time.sleep(1000)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
""",
    "spins": "def main(session): all(True for _ in iter(int, 1))",
    "spawns": """
def main(session):
    time.sleep(1000)
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, b"x")
        time.sleep(1000)
    os._exit(0)
os.wait()
os.read(reader, 1)
""",
    "echoes": """
def main(session):
    while data := session.receive():
        session.send(data)
""",
    "says": "def main(session): session.send(session.argument.encode())",
    "prints": "def main(session): os.write(1, pathlib.Path(session.argument).read_bytes())",
}


def _environment(process: Path) -> bytes:
    """What a process was started with; of one that is just becoming its program, once it has."""
    while True:
        environment = (process / "environ").read_bytes()
        if environment or not os.readlink(process / "exe"):
            return environment
        if (process / "stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X"):
            return b""
        if (process / "cmdline").read_bytes():
            return b""  # it has none


class ProcessRig(Rig):
    """Guards and their children, watched in `/proc`."""

    name = "local processes"
    capabilities = frozenset({"adopting", "stacks"})
    patience = 20.0
    quiet = 0.3
    prompt = 2.0
    lease = 2.0

    def __init__(self, here: Path) -> None:
        self.here = here
        self.made = LocalProcesses(max_output=self.most_kept, unenforceable="record")
        for name, text in WORKS.items():
            (here / f"work_{name}.py").write_text(HEAD.format(here=str(here)) + text)

    @property
    def world(self) -> World:
        return SystemWorld()

    @property
    def execution(self) -> Execution:
        return self.made

    def alive(self) -> int:
        wanted = f"{MARKER}={self.here}".encode()
        found = 0
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                try:
                    found += wanted in _environment(Path("/proc", entry)).split(b"\0")
                except OSError:
                    continue  # it has ended, or is another user's
        return found

    def ran(self) -> int:
        return len(list(self.here.glob("ran-*")))

    def work(self, name: str, argument: str | None = None) -> Work:
        return PythonCode(f"work_{name}:main", path=(str(self.here),), argument=argument)

    def forever(self) -> Work:
        return self.work("forever")

    def exits(self, code: int, /) -> Work:
        return self.work("exits", str(code))

    def unloadable(self) -> Work:
        return self.work("that_is_nowhere")

    def dies_loading(self) -> Work:
        return self.work("dies_loading")

    def never_loads(self) -> Work:
        return self.work("never_loads")

    def ignores_interrupt(self) -> Work:
        return self.work("ignores")

    def spins(self) -> Work:
        return self.work("spins")

    def spawns(self) -> Work:
        return self.work("spawns")

    def echoes(self) -> Work:
        return self.work("echoes")

    def says(self, data: bytes, /) -> Work:
        return self.work("says", data.decode())

    def prints(self, data: bytes, /) -> Work:
        path = self.here / "printed"
        path.write_bytes(data)
        return self.work("prints", str(path))

    async def leave_behind(
        self, order: LaunchOrder, /, *, deadline: float | None, registered: bool = True
    ) -> Orphan:
        told = self.here / f"child-{order.launch.nonce}"
        await trio.run_process(
            [sys.executable, str(Path(__file__).with_name("process_orphaner.py")), str(told)],
            stdin=msgspec.json.encode({"order": order, "deadline": deadline}),
            stdout=subprocess.DEVNULL,
            check=False,
        )
        child = msgspec.json.decode(told.read_bytes(), type=Child)
        return Orphan(order.launch, child if registered else None)


@asynccontextmanager
async def process_rig(here: Path, patch: pytest.MonkeyPatch) -> AsyncGenerator[ProcessRig]:
    patch.setenv(MARKER, str(here))
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    yield ProcessRig(here)


@pytest.mark.parametrize("case", cases(ProcessRig), ids=str)
async def test_local_processes_conform(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with process_rig(tmp_path, monkeypatch) as rig:
        await case.run(rig)
        with trio.fail_after(10):
            while rig.alive():  # noqa: ASYNC110 - a witness is not told
                await trio.sleep(0.02)
