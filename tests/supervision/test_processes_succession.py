"""Whoever comes to an orphan's guard: none who fails or means ill keeps the right one from it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
import trio
from process_orphans import Gone, answer, come
from process_stage import left_of, soon

from trio_reactor.supervision.execution.processes import LocalProcesses


async def test_what_it_wrote_is_not_lost_with_an_adopter_that_left_too_soon() -> None:
    gone = Gone("count_on", "adopt", 60)
    gone.kill()
    await trio.sleep(0.5)
    for _ in range(2):
        caller, challenge = come(gone)
        answer(gone, caller, challenge)
        caller.recv(1, socket.MSG_PEEK)  # it was handed over, and nobody has looked
        caller.close()
    async with LocalProcesses().adopt(gone.orphan, gone.order) as unit:
        numbers = [int(line) for line in unit.output.tail().split()]
    assert len(numbers) > 100
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_what_it_wrote_is_told_to_one_adopter() -> None:
    gone = Gone("count_on", "adopt", 60)
    gone.kill()
    await trio.sleep(0.2)
    first = LocalProcesses().adopt(gone.orphan, gone.order)
    async with first as unit:
        seen = unit.output.statistics()
        assert seen.written > 0
        unit.kill()
        await unit.wait_exited()
        lines = unit.output.tail().split()
    assert len(lines) == len(set(lines))


async def test_whoever_comes_later_does_not_displace_one_who_is_about_to_answer() -> None:
    gone = Gone("echo", "adopt", 60)
    gone.kill()
    caller, challenge = come(gone)
    others = [come(gone)[0] for _ in range(5)]
    others[0].send(b"prove\0a\0b")
    assert others[0].recv(10) == b""
    answer(gone, caller, challenge)
    assert caller.recv(8) == b"welcome\0"
    for each in (caller, *others):
        each.close()
    async with LocalProcesses().adopt(gone.orphan, gone.order) as unit:
        await unit.channel.send_all(b"again")
        assert await unit.channel.receive_some() == b"AGAIN"


async def test_those_who_never_answer_have_to_go_when_there_are_too_many() -> None:
    gone = Gone("echo", "adopt", 60)
    gone.kill()
    silent = [come(gone)[0] for _ in range(40)]
    assert silent[0].recv(10) == b""
    async with LocalProcesses().adopt(gone.orphan, gone.order) as unit:
        unit.renew(soon())
        await unit.channel.send_all(b"me")
        assert await unit.channel.receive_some() == b"ME"
    for each in silent:
        each.close()


STRANGER = """
import os, socket, sys
os.setresuid(65534, 65534, 65534)
caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
caller.settimeout(10)
caller.connect("\\0" + sys.argv[1])
try:
    print(caller.recv(100))
except ConnectionResetError:
    print(b"")
"""


async def test_another_users_process_is_not_listened_to() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    gone = Gone("echo", "adopt", 60)
    gone.kill()
    told = subprocess.run(
        [sys.executable, "-c", STRANGER, gone.child.address[1:]],
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert told.stdout == b"b''\n"
    async with LocalProcesses().adopt(gone.orphan, gone.order) as unit:
        await unit.channel.send_all(b"me")
        assert await unit.channel.receive_some() == b"ME"


async def test_the_deadline_of_an_adopted_child_is_that_of_its_guard() -> None:
    gone = Gone("echo", "adopt", 20)
    gone.kill()
    async with LocalProcesses().adopt(gone.orphan, gone.order) as unit:
        assert unit.deadline == pytest.approx(gone.deadline, abs=0.001)
    assert left_of(gone.order) == []
