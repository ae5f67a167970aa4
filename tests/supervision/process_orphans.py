"""Supervisors in processes of their own, which a test kills or stops, and what they leave."""

from __future__ import annotations

import hmac
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import trio
from process_stage import HERE, left_of

from trio_reactor.supervision.execution.protocol import LaunchOrder
from trio_reactor.supervision.model.child import Child, Orphan

SUPERVISOR = Path(HERE) / "process_supervisor.py"
PATIENCE = 10.0


class Gone:
    """A supervisor in a process of its own, that is killed or stopped."""

    def __init__(self, name: str, orphaned: str, lease: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SUPERVISOR), name, orphaned, str(lease)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.order, self.child, self.deadline = msgspec.json.decode(
            line, type=tuple[LaunchOrder, Child, float]
        )
        self.orphan = Orphan(self.order.launch, self.child)

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def until_none_is_left(made: LaunchOrder, seconds: float) -> None:
    with trio.fail_after(seconds):
        while left_of(made):  # noqa: ASYNC110 - nobody else can tell
            await trio.sleep(0.01)


def come(gone: Gone) -> tuple[socket.socket, bytes]:
    """Come to its guard's door, and be asked."""
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    caller.settimeout(PATIENCE)
    caller.connect("\0" + gone.child.address[1:])
    kind, _, challenge = caller.recv(4096).partition(b"\0")
    assert kind == b"hello"
    return caller, challenge


def answer(gone: Gone, caller: socket.socket, challenge: bytes) -> None:
    ours = b"0" * 32
    proof = hmac.digest(gone.child.secret.encode(), b"adopter" + challenge + ours, "sha256")
    caller.send(b"\0".join((b"prove", ours, proof.hex().encode())))
