# --8<-- [start:ask]
"""The client: questions and answers on one connection.  It knows nothing of sources."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

__all__ = ["MAX_ASKED", "MAX_LINE", "SECONDS", "LookupClient", "connect"]

MAX_LINE: Final = 4096  # bytes
MAX_ASKED: Final = 64  # questions that wait for their answers
SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@asynccontextmanager
async def connect(host: str, port: int) -> AsyncGenerator[LookupClient]:
    """A connection to the service there, for as long as the block lasts."""
    stream = await trio.open_tcp_stream(host, port)
    async with trio.open_nursery() as nursery, stream:  # closed first, which ends `run`
        client = LookupClient(stream)
        nursery.start_soon(client.run)
        yield client


class LookupClient:
    """One connection, on which several tasks may ask at the same time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream, self._heard = stream, b""
        self._say, self._said = trio.open_memory_channel[bytes](MAX_ASKED)
        self._asked: deque[trio.MemorySendChannel[list[str]]] = deque()
        self.ended = trio.Event()
        self.said_goodbye = False
        self.cause = trio.BrokenResourceError("the connection ended without a goodbye")
        self.ends_at: float | None = None  # by Trio's clock, once the server has announced it
        self.on_ending: Callable[[float], None] | None = None  # is told of that, in seconds

    async def ask(self, *words: str) -> list[str]:
        """The words of the answer.

        Raises:
            ValueError: These are no words, or too long.
            trio.WouldBlock: Too many questions wait for their answers.
            trio.ClosedResourceError: It has ended, and nothing was asked.
            trio.BrokenResourceError: It ended before there was an answer.
        """
        await trio.lowlevel.checkpoint()  # cancelled here nothing leaves, and after it all of it
        line = " ".join(words).encode() + b"\n"
        if any(word.split() != [word] for word in words) or len(line) > MAX_LINE:
            raise ValueError("what is asked is words, in a line that is not too long")
        if self.ended.is_set():
            raise trio.ClosedResourceError("the connection has ended") from self.cause
        if len(self._asked) == MAX_ASKED:
            raise trio.WouldBlock
        self._say.send_nowait(line)
        answer, answered = trio.open_memory_channel[list[str]](1)
        self._asked.append(answer)
        try:
            return await answered.receive()
        except trio.EndOfChannel:
            raise trio.BrokenResourceError("the connection ended meanwhile") from self.cause

    async def say_goodbye(self) -> None:
        """Ask nothing more, and wait for the end; `said_goodbye` tells whether that was agreed."""
        self._say.close()
        await self.ended.wait()

    async def aclose(self) -> None:
        """Hang up: from here on nothing is heard."""
        await self._stream.aclose()

    # --8<-- [end:ask]

    # --8<-- [start:run]
    async def run(self) -> None:
        """Talk to the server until the connection has ended.

        Shielded, so that who is cancelled can still say goodbye.
        """
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                await self._read()
                nursery.cancel_scope.cancel()

    async def _write(self) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for line in self._said:  # who reads hears of an end, too
                await self._stream.send_all(line)
            await self._stream.send_all(b"close\n")

    async def _read(self) -> None:
        try:
            while (line := await self._next()) is not None:
                match line.split(" "):
                    case ["bye", *_]:
                        self.said_goodbye = True
                        self.cause = trio.BrokenResourceError("the server said goodbye")
                        break
                    case ["ends", *seconds]:
                        self._ends_in(" ".join(seconds))
                    case answer:
                        self._asked.popleft().send_nowait(answer)
        except (trio.BrokenResourceError, trio.ClosedResourceError, ValueError, IndexError) as why:
            self.cause = trio.BrokenResourceError("it broke, or the server said what was not asked")
            self.cause.__cause__ = why
        finally:
            self.ended.set()
            for waiting in self._asked:
                waiting.close()

    async def _next(self) -> str | None:
        """The next line, at once if it is here already; `None` if there is none any more."""
        while b"\n" not in self._heard:
            if len(self._heard) > MAX_LINE:
                raise trio.BrokenResourceError("a line has no end")
            more = await self._stream.receive_some()
            if not more:
                return None
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def _ends_in(self, seconds: str) -> None:
        if not SECONDS.fullmatch(seconds):
            raise ValueError(seconds)
        self.ends_at = trio.current_time() + float(seconds)
        if self.on_ending is not None:
            self.on_ending(float(seconds))


# --8<-- [end:run]
