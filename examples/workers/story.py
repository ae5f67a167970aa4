"""The story: a host is started, killed in the midst of its work, and started again.

What is left of it is counted at the operating system, whatever the host says of it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final, Literal, final

import msgspec
import trio

from trio_reactor.errors import ReactorError
from trio_reactor.events import Envelope
from trio_reactor.supervision.events import SessionStopped

from .census import MARK, Process, census, wait_ended
from .facts import CODEC, Done, Ready
from .host import Orders
from .report import Ledger, Row

__all__ = ["HostFailed", "Story"]

CLOSING: Final = 15.0
"""Seconds that a host has to end in order."""
MARGIN: Final = 1.0
"""Seconds beyond a deadline after which what still lives is an orphan."""
MAX_TOLD: Final = 4_194_304
"""Bytes of the longest line that a host may say."""
MAX_WORDS: Final = 8_192
"""Bytes that are kept of what a host says of its failure, the last."""


class HostFailed(ReactorError):
    """The host ended by itself, or told what nobody understands; why is the `detail`."""


@final
class Story:
    """One story.

    Args:
        directory: Where the journal is; it must exist.
        files: The user's plugins, absolute.
        changed: Called after each fact.
    """

    def __init__(
        self, directory: Path, files: Sequence[Path], changed: Callable[[], None] = lambda: None
    ) -> None:
        self.ledger = Ledger()
        self.envelopes: list[Envelope] = []
        """All that was told, in order."""
        self._directory = directory
        self._files = tuple(map(str, files))
        self._changed = changed
        self._mark = os.urandom(16).hex()

    async def run(self) -> None:
        """Let it happen.  However it ends, nothing of it runs then; cancelling ends it in order.

        Raises:
            HostFailed: The host ended by itself.
            OSError: A process could not be started.
        """
        try:
            await self._first_life()
            await self._second_life()
        finally:
            with trio.CancelScope(shield=True):
                await self._count(await self._census(), MARGIN)
                for process in await self._census():
                    _kill(process)

    async def _first_life(self) -> None:
        async with self._host("first") as host:
            ready = False
            async with aclosing(self._told_by(host)) as facts:
                async for envelope in facts:
                    if isinstance(envelope.event, Ready):
                        ready = True
                        break
            if not ready:
                raise await host.failed()
            self.ledger.at_work = len(await self._census()) - 1
            host.process.kill()
            await host.process.wait()
            left = await self._census()
            self.ledger.left = len(left)
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            ends = [row.until - now for row in self.ledger.running() if row.until is not None]
            await self._count(left, max(ends, default=0.0) + MARGIN)

    async def _second_life(self) -> None:
        async with self._host("second") as host:
            done = False
            async with aclosing(self._told_by(host)) as facts:
                async for envelope in facts:
                    done = done or isinstance(envelope.event, Done)
            if not done or await host.process.wait():
                raise await host.failed()

    # --------------------------------------------------------------------- what is listened to

    async def _told_by(self, host: _Host) -> AsyncGenerator[Envelope]:
        async with aclosing(host.told()) as facts:
            async for envelope in facts:
                self.envelopes.append(envelope)
                self.ledger.apply(envelope.event)
                match envelope.event:
                    case SessionStopped(key=key, generation=generation):
                        row = self.ledger.rows.get((key, generation))
                        if row is not None:
                            await self._see_gone(row)
                    case _:
                        pass
                self._changed()
                yield envelope

    async def _see_gone(self, row: Row) -> None:
        """A session is said to have ended: nothing that carries its nonce may live."""
        if row.nonce is not None:
            self._orphaned(
                process for process in await self._census() if process.nonce == row.nonce
            )

    # -------------------------------------------------------------------------- what is counted

    async def _census(self) -> list[Process]:
        return await trio.to_thread.run_sync(functools.partial(census, self._mark))

    async def _count(self, processes: Sequence[Process], seconds: float) -> None:
        """See these end within that time; those that do not are orphans, and what they started."""
        await wait_ended(processes, seconds)
        self._orphaned(await self._census())

    def _orphaned(self, processes: Iterable[Process]) -> None:
        self.ledger.orphans.update((process.pid, process.start) for process in processes)

    # --------------------------------------------------------------------------------- the host

    @asynccontextmanager
    async def _host(self, life: Literal["first", "second"]) -> AsyncGenerator[_Host]:
        """A host's process; when the block is left it is asked to end, and made to."""
        orders = msgspec.json.encode(Orders(str(self._directory), life, self._files)).decode()
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "examples.workers.host", orders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, MARK: self._mark},
            start_new_session=True,  # a terminal's interrupt is ours, and its end is told to it
        )
        async with trio.open_nursery() as nursery:
            host = _Host(process, life)
            nursery.start_soon(host.listen)
            try:
                yield host
            finally:
                with trio.CancelScope(shield=True):
                    await host.end()
            nursery.cancel_scope.cancel()


@final
class _Host:
    def __init__(self, process: trio.Process, life: str) -> None:
        self.process = process
        self._life = life
        self._words = bytearray()
        self._heard = trio.Event()

    async def listen(self) -> None:
        """Keep the last of what it says of its failure, so that it is never held up by that."""
        assert self.process.stderr is not None  # noqa: S101 - it is a pipe
        async for piece in self.process.stderr:
            self._words += piece
            del self._words[:-MAX_WORDS]
        self._heard.set()

    async def told(self) -> AsyncGenerator[Envelope]:
        """What it tells, until it ends.  A line that it did not come to finish is none.

        Raises:
            HostFailed: It told what nobody understands.
        """
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        waiting = bytearray()
        async for piece in self.process.stdout:
            waiting += piece
            *lines, rest = waiting.split(b"\n")
            waiting = rest
            if len(waiting) > MAX_TOLD:
                raise HostFailed(f"the host said a line longer than {MAX_TOLD} bytes")
            for line in lines:
                try:
                    envelope = CODEC.decode_json(bytes(line))
                except msgspec.DecodeError as failure:
                    raise HostFailed("the host told no fact", detail=str(failure)) from failure
                yield envelope

    async def failed(self) -> HostFailed:
        """That it ended by itself, and what it said of that."""
        status = await self.process.wait()
        await self._heard.wait()
        return HostFailed(
            f"the host ended by itself in its {self._life} life, with status {status}",
            detail=self._words.decode(errors="replace").strip() or None,
        )

    async def end(self) -> None:
        """Have it end in order; kill it if it does not."""
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None  # noqa: S101 - both are pipes
            await stream.aclose()
        with trio.move_on_after(CLOSING):
            await self.process.wait()
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


def _kill(process: Process) -> None:
    """End what is left of the story, and nothing that was given its number since."""
    with contextlib.suppress(ProcessLookupError):
        fd = os.pidfd_open(process.pid)
        try:
            if process.is_alive():
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            os.close(fd)
