"""Whether a process can be seen to have ended."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec

from trio_reactor.supervision.store.postgres.process import is_seen_dead, this_process


def test_this_process_lives() -> None:
    here = this_process()
    assert here.pid == os.getpid()
    assert not is_seen_dead(here)


def test_one_whose_id_was_given_again_is_dead() -> None:
    here = this_process()
    assert is_seen_dead(msgspec.structs.replace(here, start_time=here.start_time - 1))


def test_one_that_was_never_reaped_is_dead_and_so_is_one_that_was() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    there = msgspec.structs.replace(this_process(), pid=child.pid, start_time=_start(child.pid))
    assert not is_seen_dead(there)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_seen_dead(there)
    child.stdin.close()
    child.wait()
    assert is_seen_dead(there)


def test_of_another_machine_or_another_namespace_nothing_can_be_seen() -> None:
    here = msgspec.structs.replace(this_process(), start_time=1)
    assert is_seen_dead(here)
    assert not is_seen_dead(msgspec.structs.replace(here, boot_id="another start"))
    assert not is_seen_dead(msgspec.structs.replace(here, pid_namespace=1))


def _start(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])
