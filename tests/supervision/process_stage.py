"""Real children for tests: orders, code that they run, and what is left of them."""

from __future__ import annotations

import gc
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from trio_reactor.supervision.execution.processes.carriers import carriers_of
from trio_reactor.supervision.execution.protocol import LaunchOrder, OrphanPolicy
from trio_reactor.supervision.model.child import Launch
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.work import UNLIMITED, Command, Limits, PythonCode
from trio_reactor.world import SystemWorld

WORLD = SystemWorld()
HERE = str(Path(__file__).parent)


def code(name: str, argument: str | None = None) -> PythonCode:
    """A callable of `process_code`."""
    return PythonCode(f"process_code:{name}", path=(HERE,), argument=argument)


def shell(script: str) -> Command:
    return Command(("sh", "-c", script))


def order(
    work: PythonCode | Command,
    *,
    limits: Limits = UNLIMITED,
    orphaned: OrphanPolicy = "kill",
    by: float = 30.0,
    generation: int = 7,
) -> LaunchOrder:
    launch = Launch(uuid.uuid4().hex, WORLD.boottime() + by)
    return LaunchOrder(Key("plugin", "a"), generation, launch, work, limits, orphaned)


def soon(seconds: float = 30.0) -> float:
    """A deadline."""
    return WORLD.boottime() + seconds


def left_of(made: LaunchOrder) -> list[int]:
    """The processes that still carry its nonce."""
    return [process.pid for process in carriers_of(made.launch.nonce)]


def lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def open_fds() -> int:
    gc.collect()  # what an earlier test dropped may still hold some
    return len(os.listdir("/proc/self/fd"))


def lines(text: bytes) -> Iterator[str]:
    return iter(text.decode().splitlines())
