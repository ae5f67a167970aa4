"""A film server in a process of its own, held like anything else that can be lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec
import trio

from trio_reactor.errors import Lost, ReactorError

__all__ = ["FilmServer", "FilmServerFailed", "film_server"]

MAX_LINE: Final = 4096
"""Bytes of what the server says that are kept."""
STOPPING: Final = 5.0
"""Seconds that the server may take to end in the ordinary way."""


class _Ready(msgspec.Struct):
    port: int


class FilmServerFailed(ReactorError):
    """The film server did not start; the message says why, in its own words."""


class FilmServer:
    """A film server that runs."""

    def __init__(self, process: trio.Process, port: int) -> None:
        self.url = f"ws://127.0.0.1:{port}"
        self._process = process

    async def wait_lost(self) -> None:
        """Wait until its process has ended, which it should not by itself.

        Raises:
            Lost: Once it has.
        """
        status = await self._process.wait()
        raise Lost(f"the film server ended by itself, with status {status}")


@asynccontextmanager
async def film_server(arguments: Sequence[str]) -> AsyncGenerator[FilmServer]:
    """Start a film server; leaving ends it, by its own process, within a few seconds.

    It is in a session of its own, so that an interrupt on the terminal reaches only this program,
    and it ends with its standard input, so that it does not outlive this program whatever happens.

    Args:
        arguments: What follows `python -m examples.film_server`.

    Raises:
        FilmServerFailed: If it ends before it is ready.
    """
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "examples.film_server", *arguments, "--until-eof"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    complaints = bytearray()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_end, process, complaints)
            ready = await _first_line(process)
            if ready:
                port = msgspec.json.decode(ready, type=_Ready).port
                yield FilmServer(process, port)
                nursery.cancel_scope.cancel()
            else:  # it has ended, so what it complained of soon ends too
                nursery.cancel_scope.deadline = trio.current_time() + STOPPING
    finally:
        await _end(process)
    if not ready:
        said = complaints.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"status {process.returncode}"
        raise FilmServerFailed(f"the film server did not start: {reason}")


async def _first_line(process: trio.Process) -> bytes:
    """The line with which the server says that it is ready; empty if it ended instead."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    line = bytearray()
    async for piece in process.stdout:
        line += piece
        if b"\n" in line or len(line) > MAX_LINE:
            return bytes(line.partition(b"\n")[0])
    return b""


async def _keep_end(process: trio.Process, complaints: bytearray) -> None:
    """Read what the server complains of, so that it never waits for us; keep the end of it."""
    assert process.stderr is not None  # noqa: S101 - it is a pipe
    async for piece in process.stderr:
        complaints += piece
        del complaints[:-MAX_LINE]


async def _end(process: trio.Process) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    assert process.stderr is not None  # noqa: S101 - it is a pipe
    with trio.CancelScope(shield=True):
        async with process.stdout, process.stderr:
            with trio.move_on_after(STOPPING):
                await process.stdin.aclose()
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
