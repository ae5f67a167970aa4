"""What the operating system has of a story: nobody's word is taken for it.

Whatever the host starts inherits its environment, and with it the story's mark.  What has thrown
that away is still below something that has not, or in its session.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import msgspec
import trio

__all__ = ["MARK", "NONCE", "Process", "census", "wait_ended"]

MARK: Final = "WORKERS_STORY"
"""The variable that marks what belongs to a story."""
NONCE: Final = "TRIO_REACTOR_LAUNCH"
"""The variable in which a launch's nonce is."""


class Process(msgspec.Struct, frozen=True):
    """A process that lives; id and start together are no other's."""

    pid: int
    start: int
    nonce: str | None
    """Of the launch that it belongs to, if it carries one."""

    def is_alive(self) -> bool:
        """Whether it lives; its number may have been given to another since."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return False
        return int(fields[19]) == self.start and fields[0] not in (b"Z", b"X")


class _Seen(msgspec.Struct):
    parent: int
    session: int
    start: int
    nonce: str | None
    ours: bool


def census(mark: str) -> list[Process]:
    """All that live and belong to a story.  It reads all of `/proc`, so it is for a thread."""
    seen: dict[int, _Seen] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if fields[0] in (b"Z", b"X"):
            continue
        nonce, ours = None, False
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            variables = []  # another user's, or it ended meanwhile
        for variable in variables:
            name, _, value = variable.partition(b"=")
            if name == MARK.encode():
                ours = value == mark.encode()
            elif name == NONCE.encode():
                nonce = value.decode()
        seen[int(entry)] = _Seen(int(fields[1]), int(fields[3]), int(fields[19]), nonce, ours)
    grown = True
    while grown:
        grown = False
        for process in seen.values():
            above = [seen.get(process.parent), seen.get(process.session)]
            if not process.ours and any(each is not None and each.ours for each in above):
                process.ours = grown = True
    return [
        Process(pid, process.start, process.nonce) for pid, process in seen.items() if process.ours
    ]


async def wait_ended(processes: Iterable[Process], seconds: float) -> None:
    """Sleep until all of these have ended, or the time is over."""

    async def wait_one(process: Process) -> None:
        try:
            fd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return
        try:
            if process.is_alive():
                await trio.lowlevel.wait_readable(fd)
        finally:
            os.close(fd)

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for process in processes:
                nursery.start_soon(wait_one, process)
