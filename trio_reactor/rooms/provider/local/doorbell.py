"""A doorbell: how a process wakes the others once its commit can be read.

Each listener binds a datagram socket of its own in a directory beside the file; to ring is to send
a byte to every socket there.  A ring says nothing: who hears it looks into the file.  It is rung
after the commit, so what woke a listener is there to be read; and a listener that was not heard of
yet looks once after it has bound its socket, so nothing falls between.

A socket on which nobody listens any more is removed by whoever finds that out.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import final

import trio

__all__ = ["Doorbell", "Listener"]

_GONE = frozenset({errno.ECONNREFUSED, errno.ENOENT})


@final
class Doorbell:
    """The doorbell of a file.

    Args:
        path: The file's.
    """

    def __init__(self, path: str) -> None:
        self.directory = f"{path}-doorbell"

    def ring(self) -> None:
        """Wake every listener.  Waits for nobody: one whose socket is full has been woken."""
        try:
            directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return  # nobody has ever listened
        try:
            names = os.listdir(directory)
            if not names:
                return
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
                bell.setblocking(False)
                for name in names:
                    try:
                        # By way of the directory, since the path of a socket may not be long.
                        bell.sendto(b"!", f"/proc/self/fd/{directory}/{name}")
                    except BlockingIOError:
                        pass
                    except OSError as failure:
                        if failure.errno in _GONE:
                            with suppress(FileNotFoundError):
                                os.unlink(name, dir_fd=directory)
                        elif failure.errno != errno.ENOBUFS:
                            raise
        finally:
            os.close(directory)

    @contextmanager
    def listen(self, name: str) -> Generator[Listener]:
        """Listen for a block.

        Args:
            name: A name that no other listener has.

        Raises:
            OSError: The socket cannot be made.
        """
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
                ear.setblocking(False)
                ear.bind(f"/proc/self/fd/{directory}/{name}")
                try:
                    yield Listener(ear)
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=directory)
        finally:
            os.close(directory)


@final
class Listener:
    """One listener's ear."""

    def __init__(self, ear: socket.socket) -> None:
        self._ear = ear

    async def wait(self) -> None:
        """Sleep until it was rung since the last time; however often that was, this returns once.

        Always a checkpoint; cancelling it loses no ring.
        """
        await trio.lowlevel.wait_readable(self._ear)
        with suppress(BlockingIOError):
            while True:
                self._ear.recv(1)
