"""The service that looks words up: it gives sessions, answers in order, and ends them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

import trio

__all__ = ["LookupServer"]

MAX_LINE: Final = 4096
"""Bytes of the longest line."""
GOODBYE: Final = 1.0
"""Seconds that telling a client of the end may take."""


class LookupServer:
    """Gives a session to everyone who asks.

    Args:
        meanings: The words that it knows.
        lifetime: Seconds that a session lives.
    """

    def __init__(self, meanings: Mapping[str, str], lifetime: float = 60.0) -> None:
        self._meanings = meanings
        self._lifetime = lifetime
        self._numbers = itertools.count(1)
        self._sessions: dict[str, _Session] = {}
        self.full = False
        """Whether there are no more sessions for anybody."""
        self.silent = False
        """Whether everything is taken, and nothing is answered."""

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions that there are."""
        return tuple(self._sessions)

    def end(self, session: str) -> None:
        """End a session, and tell its client."""
        self._sessions[session].life.cancel()

    async def end_in(self, session: str, seconds: float) -> None:
        """Tell the client of a session that it ends in so many seconds, and end it then."""
        ending = self._sessions[session]
        ending.life.deadline = min(ending.life.deadline, trio.current_time() + seconds)
        await ending.say(f"ends {seconds}")

    async def serve(self, *, task_status: trio.TaskStatus[int]) -> None:
        """Serve until cancelled; tells the port."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._converse, listeners)
            task_status.started(listeners[0].socket.getsockname()[1])

    async def _converse(self, stream: trio.SocketStream) -> None:
        session = f"lookup-{next(self._numbers)}"
        try:
            async with stream:
                with trio.CancelScope() as life:
                    await self._answer(stream, session, life)
                self._sessions.pop(session, None)
                if life.cancelled_caught:
                    with trio.move_on_after(GOODBYE):
                        await stream.send_all(b"bye it is over\n")
        except trio.BrokenResourceError:
            pass  # the client has gone first
        finally:
            self._sessions.pop(session, None)

    async def _answer(
        self, stream: trio.SocketStream, session: str, life: trio.CancelScope
    ) -> None:
        rest = b""
        async for more in stream:
            *lines, rest = (rest + more).split(b"\n")
            for line in lines:
                if self.silent:
                    continue
                match line.decode(errors="replace").split(" "):
                    case ["open"] if self.full:
                        await stream.send_all(b"no there are too many\n")
                    case ["open"]:
                        life.deadline = trio.current_time() + self._lifetime
                        opened = self._sessions[session] = _Session(stream, life)
                        await opened.say(f"hello {session} {self._lifetime}")
                    case ["find", word] if session in self._sessions:
                        await self._sessions[session].say(self._look_up(word))
                    case ["close"]:
                        self._sessions.pop(session, None)
                        await stream.send_all(b"bye as you like\n")
                        return
                    case _:
                        return  # nobody who speaks this
            if len(rest) > MAX_LINE:
                return

    def _look_up(self, word: str) -> str:
        meaning = self._meanings.get(word)
        return "not" if meaning is None else f"is {meaning}"


class _Session:
    """One session, to whose client two tasks may have something to say."""

    def __init__(self, stream: trio.SocketStream, life: trio.CancelScope) -> None:
        self.life = life
        self._stream = stream
        self._turn = trio.Lock()

    async def say(self, line: str) -> None:
        """Say a line, after what is being said."""
        async with self._turn:
            await self._stream.send_all(line.encode() + b"\n")
