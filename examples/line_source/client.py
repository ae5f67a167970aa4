"""The client's end of a connection that speaks in lines: it asks, is answered, and hears."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final, NamedTuple

import trio

from trio_reactor.errors import Lost, Overflow, Refused

__all__ = ["LineClient"]

MAX_LINE: Final = 65_536
"""Bytes of the longest line."""

MAX_OUTGOING: Final = 64
"""Requests that may wait for the socket to take them."""


def _nothing() -> None:
    """Do nothing about it."""


class _Request(NamedTuple):
    answer: trio.MemorySendChannel[list[str]]
    then: Callable[[], None]


class LineClient:
    """Speaks on one connection.

    Args:
        stream: The connection, open.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = b""
        self._numbers = itertools.count(1)
        self._asked: dict[int, _Request] = {}
        self._outgoing, self._to_send = trio.open_memory_channel[str](MAX_OUTGOING)
        self.over = trio.Event()
        """Set when it has ended, after whoever waited for an answer was told."""
        self.cause: Exception | None = None

    async def greet(self) -> list[str]:
        """Ask for a session; returns the words of the first line, none if there is no line."""
        await self._stream.send_all(b"open\n")
        return (await self._next() or "").split(" ")

    async def ask(
        self,
        *words: object,
        before: Callable[[], None] = _nothing,
        then: Callable[[], None] = _nothing,
    ) -> list[str]:
        """Ask something; returns the words of the answer.

        Cancelled before it left, nothing leaves; after that the answer is ignored.

        Args:
            words: What is asked.
            before: Called in the step in which it leaves; if it raises, nothing does.
            then: Called when it was answered, before anything else is heard.

        Raises:
            Refused: The server said no.
            Lost: The connection has ended; with the outcome unknown if that was after it left.
            Overflow: Too many requests wait to be sent.
        """
        # --8<-- [start:leaves]
        await trio.lowlevel.checkpoint()
        if self.over.is_set():
            raise Lost("the connection has ended")
        if self._outgoing.statistics().current_buffer_used == MAX_OUTGOING:
            raise Overflow("too many requests wait to be sent", retryable=True)
        before()
        number = next(self._numbers)
        answer, answered = trio.open_memory_channel[list[str]](1)
        self._asked[number] = _Request(answer, then)
        self._outgoing.send_nowait(" ".join(map(str, (number, *words))))
        try:
            verdict, *rest = await answered.receive()
        except trio.EndOfChannel:
            raise Lost("the connection ended before the answer", outcome="unknown") from self.cause
        finally:
            self._asked.pop(number, None)
        # --8<-- [end:leaves]
        if verdict == "no":
            raise Refused("the service said no", outcome="replied", detail=" ".join(rest))
        return rest

    async def write(self) -> None:
        """Send what is to be sent, until cancelled."""
        try:
            async for line in self._to_send:
                await self._stream.send_all(line.encode() + b"\n")
        except trio.BrokenResourceError:
            pass  # which who reads hears, too

    async def read(self, heard: Callable[[list[str]], None]) -> None:
        """Pass on what is heard, in the step in which it came, until the connection has ended.

        It ends, too, with what cannot be read: `heard` says so with a `ValueError`.
        """
        try:
            while (line := await self._next()) is not None:
                words = line.split(" ")
                if words[0] in ("ok", "no"):
                    self._answered(words)
                else:
                    heard(words)
        except (trio.BrokenResourceError, ValueError) as failure:
            self.cause = failure  # it broke, or says what cannot be read
        self.over.set()
        for request in self._asked.values():
            request.answer.close()

    def _answered(self, words: list[str]) -> None:
        verdict, number, *rest = words
        request = self._asked.pop(int(number), None)
        if request is None:
            return  # whoever asked has left
        if verdict == "ok":
            request.then()
        request.answer.send_nowait([verdict, *rest])

    async def _next(self) -> str | None:
        """The next line; `None` if there is none any more."""
        while b"\n" not in self._received:
            if len(self._received) > MAX_LINE:
                raise trio.BrokenResourceError("a line has no end")
            more = await self._stream.receive_some()
            if not more:
                return None
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()
