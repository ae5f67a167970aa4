# --8<-- [start:imports]
"""The adapter: a session of the service that looks words up, as a source of a renewal."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from trio_reactor.errors import Lost, Overflow, Refused
from trio_reactor.renewal import Cleanup, OpenFailed, Predecessor, SourceOpener
from trio_reactor.renewal.source import GoingAway

__all__ = ["LookupSource", "lookup_source"]

MAX_LINE: Final = 4096  # bytes
MAX_ASKED: Final = 64  # questions that wait for their answers
SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
# --8<-- [end:imports]


# --8<-- [start:opener]
def lookup_source(host: str, port: int, *, goodbye: float = 1.0) -> SourceOpener[LookupSource]:
    """What opens sessions of the service there; saying goodbye takes `goodbye` seconds at most."""

    @asynccontextmanager
    async def open_source(predecessor: Predecessor, /) -> AsyncGenerator[LookupSource]:
        if predecessor.adopt is not None:
            raise OpenFailed("a session ends with its connection: there is nothing to adopt")
        began = trio.current_time()
        stream = await trio.open_tcp_stream(host, port)
        async with trio.open_nursery() as nursery, stream:  # closed first, which ends `run`
            source = LookupSource(stream, goodbye)
            nursery.start_soon(source.run)
            match await source.ask("open"):
                case ["hello", session, seconds] if SECONDS.fullmatch(seconds):
                    # Counted from before the server did: so it is not over before we think so.
                    left = float(seconds) - (trio.current_time() - began)
                    source.id, source.lifetime = session, left
                case ["no", *why]:
                    raise OpenFailed("the service gives no session", detail=" ".join(why))
                case _:
                    raise OpenFailed("this is not the service")
            try:
                yield source
            finally:
                with trio.CancelScope(shield=True):
                    await source.close()

    return open_source


# --8<-- [end:opener]


# --8<-- [start:source]
class LookupSource:
    """One session; implements `Mortal` and `Announcing`, and is borrowed to look words up."""

    id: str
    lifetime: float

    def __init__(self, stream: trio.SocketStream, goodbye: float) -> None:
        self._stream, self._goodbye = stream, goodbye
        self._say, self._said = trio.open_memory_channel[bytes](MAX_ASKED + 1)
        self._asked: deque[trio.MemorySendChannel[list[str]]] = deque()
        self._ended, self._cause = trio.Event(), Lost("the server said goodbye")
        self._ends_at: float | None = None
        self._tell: Callable[[GoingAway], None] | None = None
        self._confirmed = self._closed = False
        self._cleanup: Cleanup | None = None

    # --8<-- [end:source]

    # --8<-- [start:ask]
    async def find(self, word: str) -> str | None:
        """The meaning of a word; `None` if there is none.  Raises what `ask` raises."""
        if word.split() != [word] or len(word.encode()) > MAX_LINE // 2:
            raise Refused("what is looked up is one word")
        match await self.ask("find", word):
            case ["is", *meaning]:
                return " ".join(meaning)
            case ["not"]:
                return None
            case _:
                raise Lost("the answer cannot be read", outcome="replied")

    async def ask(self, *words: str) -> list[str]:
        """The words of the answer.  `Lost` if none comes, `Overflow` if too many are asked for."""
        await trio.lowlevel.checkpoint()  # cancelled here nothing leaves, and after it all of it
        if self._ended.is_set():
            raise Lost("the session has ended") from self._cause
        if len(self._asked) >= MAX_ASKED + self._closed:  # there always is room for a goodbye
            raise Overflow("too many questions wait for their answers", retryable=True)
        answer, answered = trio.open_memory_channel[list[str]](1)
        self._asked.append(answer)
        self._say.send_nowait(" ".join(words).encode() + b"\n")
        try:
            return await answered.receive()
        except trio.EndOfChannel:
            raise Lost("the session ended meanwhile", outcome="unknown") from self._cause

    # --8<-- [end:ask]

    # --8<-- [start:tasks]
    async def run(self) -> None:
        """Talk to the server until the connection has ended; a task of the opener's.

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

    async def _read(self) -> None:
        rest = b""
        try:
            async for more in self._stream:
                *lines, rest = (rest + more).split(b"\n")
                for line in lines:
                    verdict, *words = line.decode().split(" ")
                    if verdict == "bye":
                        self._confirmed = True
                        return
                    if verdict == "ends":
                        self._announced(words[0])
                        continue
                    self._asked.popleft().send_nowait([verdict, *words])
                if len(rest) > MAX_LINE:
                    break
            self._cause = Lost("the connection ended without a goodbye")
        except (trio.BrokenResourceError, trio.ClosedResourceError, ValueError, IndexError) as why:
            self._cause = Lost("the connection broke, or said what was not asked")
            self._cause.__cause__ = why
        finally:
            self._ended.set()
            for answer in self._asked:
                answer.close()

    def _announced(self, seconds: str) -> None:
        if not SECONDS.fullmatch(seconds):
            raise ValueError(seconds)
        self._ends_at = trio.current_time() + float(seconds)
        if self._tell is not None:
            self._tell(GoingAway(float(seconds)))

    # --8<-- [end:tasks]

    # --8<-- [start:announce]
    def announce_to(self, tell: Callable[[GoingAway], None]) -> None:
        """Tell of an end that the server announces; at once, if it has done so already."""
        self._tell = tell
        if self._ends_at is not None:
            tell(GoingAway(self._ends_at - trio.current_time()))

    # --8<-- [end:announce]

    # --8<-- [start:end]
    async def wait_lost(self) -> None:
        """Return when it has ended; raise why if it ended by itself."""
        await self._ended.wait()
        if not self._closed:
            raise Lost("the session ended by itself") from self._cause

    async def close(self) -> Cleanup:
        """Say goodbye and hang up; everyone gets the same evidence."""
        self._closed = True
        if self._cleanup is None:
            with trio.move_on_after(self._goodbye), contextlib.suppress(Lost, Overflow):
                await self.ask("close")  # which the end answers
            await self._stream.aclose()
            # Nothing can be heard any more: so whoever comes here at the same time says the same.
            self._cleanup = Cleanup.of(
                self.id,
                allocation="owned",
                termination="confirmed" if self._confirmed else "unconfirmed",
                connection="closed",
            )
        return self._cleanup


# --8<-- [end:end]
