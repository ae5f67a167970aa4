"""How a live child is taken over: both ends prove that they know its secret.

The guard asks first, with something fresh.  The adopter answers with a digest keyed by the secret,
and asks in turn; the guard answers with its own digest and hands over what a supervisor holds.
"""

from __future__ import annotations

import array
import hmac
import marshal
import os
import secrets
import socket
from contextlib import ExitStack
from typing import Final

import msgspec
import trio

from trio_reactor.supervision.errors import AdoptionFailed
from trio_reactor.supervision.model.child import Orphan

from .carriers import check_nonce
from .identity import is_same
from .spawn import Ends

__all__ = ["ADOPTION_PATIENCE", "Handed", "prove"]

ADOPTION_PATIENCE: Final = 5.0
"""Seconds that a guard has to prove itself."""
_AGAIN: Final = 0.01
"""Seconds until it is seen again whether there is room at its door."""
_MAX_MESSAGE: Final = 262_144
_MAX_FDS: Final = 8


class Handed(msgspec.Struct, frozen=True):
    """What a guard hands to whoever adopts it."""

    ends: Ends
    pidfd: int
    page: int
    slot: int
    tail: bytes
    """The last of what the code wrote while it was alone."""
    dropped: int
    """How many bytes it wrote before that, while it was alone."""


async def prove(orphan: Orphan) -> Handed:
    """Become the supervisor of an orphan's guard.  Cancelled, it leaves that alone.

    Raises:
        AdoptionFailed: It is gone, speaks with another supervisor, or did not prove itself.
    """
    child = orphan.child
    if child is None or child.process is None or not child.address or not child.secret:
        raise AdoptionFailed("the child was not made to be adopted")
    with ExitStack() as undo:
        try:
            check_nonce(orphan.launch.nonce)
        except ValueError as failure:
            raise AdoptionFailed(str(failure)) from failure
        try:
            pidfd = os.pidfd_open(child.process.pid)
        except OSError as failure:
            raise AdoptionFailed(f"the child is gone: {failure.strerror}") from failure
        undo.callback(os.close, pidfd)
        try:
            is_meant = is_same(child.process)
        except OSError as failure:
            raise AdoptionFailed(f"the child cannot be seen: {failure.strerror}") from failure
        if not is_meant:
            raise AdoptionFailed("the child is gone; its process id belongs to another")
        control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        undo.callback(control.close)
        control.setblocking(False)
        try:
            with trio.fail_after(ADOPTION_PATIENCE):
                await _connect(control, "\0" + child.address[1:])
                fds, slot, dropped, tail = await _converse(control, child.secret.encode(), undo)
        except trio.TooSlowError as failure:
            raise AdoptionFailed(
                f"the child did not answer within {ADOPTION_PATIENCE} seconds"
            ) from failure
        except (OSError, ValueError) as failure:
            raise AdoptionFailed(f"the child cannot be spoken to: {failure}") from failure
        channel_fd, output, timer, page = fds
        try:
            control.send(marshal.dumps(("taken",)))  # it need not keep what it has told us
        except OSError as failure:
            raise AdoptionFailed(f"the child cannot be spoken to: {failure}") from failure
        os.set_blocking(output, False)
        channel = socket.socket(fileno=channel_fd)
        channel.setblocking(False)
        undo.pop_all()
        return Handed(Ends(control, channel, output, timer), pidfd, page, slot, tail, dropped)


async def _connect(control: socket.socket, address: str) -> None:
    """Come to its door; where others wait already, wait, too.  The caller bounds it."""
    while True:
        try:
            control.connect(address)
        except BlockingIOError:
            await trio.sleep(_AGAIN)  # the kernel tells nobody when there is room
        else:
            return


async def _converse(
    control: socket.socket, secret: bytes, undo: ExitStack
) -> tuple[tuple[int, ...], int, int, bytes]:
    greeting, _ = await _receive(control, undo)
    kind, _, theirs = greeting.partition(b"\0")
    if kind != b"hello":
        raise AdoptionFailed("the child does not greet as a guard does")
    ours = secrets.token_hex(16).encode()
    proof = hmac.digest(secret, b"adopter" + theirs + ours, "sha256").hex().encode()
    control.send(b"\0".join((b"prove", ours, proof)))
    answer, fds = await _receive(control, undo)
    if answer == b"busy":
        raise AdoptionFailed("the child has a supervisor that lives")
    if not answer:
        raise AdoptionFailed("the child does not take us for its supervisor")
    kind, proof, slot, dropped, tail = answer.split(b"\0", 4)
    expected = hmac.digest(secret, b"guard" + ours + theirs, "sha256").hex().encode()
    if kind != b"welcome" or not hmac.compare_digest(proof, expected):
        raise AdoptionFailed("the child did not prove that it is ours")
    if len(fds) != 4:
        raise AdoptionFailed("the child did not hand over what a supervisor holds")
    return fds, int(slot), int(dropped), tail


async def _receive(control: socket.socket, undo: ExitStack) -> tuple[bytes, tuple[int, ...]]:
    """A message, and the descriptors that came with it, which are closed unless all goes well."""
    await trio.lowlevel.wait_readable(control)
    space = socket.CMSG_SPACE(_MAX_FDS * array.array("i").itemsize)
    message, ancillary, _, _ = control.recvmsg(_MAX_MESSAGE, space, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, encoded in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(encoded[: len(encoded) - len(encoded) % fds.itemsize])
    for fd in fds:
        undo.callback(os.close, fd)
    return message, tuple(fds)
