"""The host's side of speaking with a plugin: ask, and get the answer."""

from __future__ import annotations

from typing import Final, final

import msgspec
import trio

from trio_reactor.errors import Busy, Lost, ReactorError

from .serving import MAX_LINE

__all__ = ["Client", "Told"]


class Told(ReactorError):
    """The plugin said that it could not answer, or said something that is no answer."""


class _Reply(msgspec.Struct, forbid_unknown_fields=True):
    id: int
    answer: object = None
    error: str | None = None


@final
class Client:
    """Asks one plugin, one request at a time.

    Cancelled while it waits for an answer, it is spent: what would be read next may be the answer
    to what nobody waits for any more.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._waiting = bytearray()
        self._decoder: Final = msgspec.json.Decoder(_Reply)
        self._asked = 0
        self._idle = True

    async def ask(self, request: object) -> object:
        """Its answer to a request.

        Raises:
            Told: It says that it cannot answer, or what it says is no answer.
            Lost: It ended before it answered.
            Busy: Another request is on its way, or was abandoned.
        """
        return await self._call("answer", request)

    async def examples(self) -> list[tuple[object, object]]:
        """What it says itself that it should answer.

        Raises:
            Told, Lost, Busy: As of `ask`.
        """
        told = await self._call("examples", None)
        try:
            return msgspec.convert(told, list[tuple[object, object]])
        except msgspec.ValidationError as failure:
            raise Told(
                "its examples are no pairs of a request and an answer", detail=str(failure)
            ) from failure

    async def _call(self, method: str, of: object) -> object:
        if not self._idle:
            raise Busy("a request is on its way to this plugin, or was abandoned")
        self._idle = False
        self._asked += 1
        line = msgspec.json.encode({"id": self._asked, "method": method, "of": of}) + b"\n"
        try:
            await self._stream.send_all(line)
        except trio.BrokenResourceError as failure:
            raise Lost("the plugin ended before it was asked") from failure
        line = await self._line()
        try:
            reply = self._decoder.decode(line)
        except msgspec.DecodeError as failure:
            raise Told("what it says is no answer", detail=repr(line[:200])) from failure
        if reply.id != self._asked:
            raise Told(f"it answered request {reply.id}, and was asked {self._asked}")
        self._idle = True
        if reply.error is not None:
            raise Told("it could not answer", outcome="replied", detail=reply.error)
        return reply.answer

    async def _line(self) -> bytes:
        while (end := self._waiting.find(b"\n")) < 0:
            if len(self._waiting) > MAX_LINE:
                raise Told(f"its answer is longer than {MAX_LINE} bytes")
            piece = await self._stream.receive_some()
            if not piece:
                raise Lost("the plugin ended before it answered", outcome="unknown")
            self._waiting += piece
        line = bytes(self._waiting[:end])
        del self._waiting[: end + 1]
        return line
