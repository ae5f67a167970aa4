"""The service that speaks in lines: it queues clips, plays them, and tells what happens."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

import trio

__all__ = ["LineServer"]

RATE: Final = 50.0
"""Pictures a second."""
BUILDING: Final = 0.01
"""Seconds that a clip takes to be built."""
MAX_UNSENT: Final = 4096
"""Lines that a client may leave unread."""


class _Clip:
    def __init__(self, name: str, frames: int) -> None:
        self.name = name
        self.frames = frames
        self.phase = "queued"


class LineServer:
    """Gives a session to everyone who asks.

    Args:
        lifetime: Seconds that a session lives.
    """

    def __init__(self, lifetime: float = 60.0) -> None:
        self._lifetime = lifetime
        self._names = itertools.count(1)
        self._sessions: dict[str, _Session] = {}

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions that there are."""
        return tuple(self._sessions)

    def end(self, session: str) -> None:
        """End a session, and tell its client."""
        self._sessions[session].end("enough")

    async def serve(self, *, task_status: trio.TaskStatus[int]) -> None:
        """Serve until cancelled; tells the port."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._converse, listeners)
            task_status.started(listeners[0].socket.getsockname()[1])

    async def _converse(self, stream: trio.SocketStream) -> None:
        name = f"session-{next(self._names)}"
        try:
            async with stream, trio.open_nursery() as nursery:
                session = _Session(stream, nursery)
                with trio.move_on_after(self._lifetime):
                    await session.run(lambda: self._begin(name, session))
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        finally:
            self._sessions.pop(name, None)

    def _begin(self, name: str, session: _Session) -> str:
        self._sessions[name] = session
        return f"hello {name} {self._lifetime}"


class _Session:
    def __init__(self, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
        self._stream = stream
        self._nursery = nursery
        self._say, self._said = trio.open_memory_channel[str](MAX_UNSENT)
        self._numbers = itertools.count(1)
        self._clips: list[_Clip] = []
        self._playing: _Clip | None = None
        self._showing = trio.CancelScope()
        self._autoplay = False
        self._changed = trio.Event()

    async def run(self, begin: Callable[[], str]) -> None:
        """Serve one client, until it goes."""
        self._nursery.start_soon(self._write)
        left = b""
        async for received in self._stream:
            *lines, left = (left + received).split(b"\n")
            for line in lines:
                if line == b"open":
                    self._say.send_nowait(begin())
                    self._nursery.start_soon(self._play)
                else:
                    self._answer(line.decode())

    def end(self, why: str) -> None:
        """Say that it is over, then hang up."""
        self._say.send_nowait(f"over {why}")
        self._say.close()

    async def _write(self) -> None:
        async for line in self._said:
            await self._stream.send_all(line.encode() + b"\n")
        self._nursery.cancel_scope.cancel()

    def _answer(self, line: str) -> None:
        number, *words = line.split(" ")
        try:
            answer = self._do(words)
        except LookupError:
            self._say.send_nowait(f"no {number} there is no such clip")
        except ValueError as why:
            self._say.send_nowait(f"no {number} {why}")
        else:
            self._say.send_nowait(f"ok {number} {answer}".rstrip())
            if words == ["close"]:
                self._say.close()
            elif words[0] == "queue":
                self._tell(self._find(answer))

    def _do(self, words: list[str]) -> str:
        match words:
            case ["hello"] | ["close"]:
                pass
            case ["state"]:
                clips = (f"{clip.name}:{clip.phase}:{clip.frames}" for clip in self._clips)
                return " ".join(("on" if self._autoplay else "off", *clips))
            case ["queue", frames, place]:
                return self._queue(int(frames), place)
            case ["remove", name]:
                self._drop(self._waiting(name), 0)
            case ["move", name, place]:
                clip = self._waiting(name)
                self._clips.remove(clip)
                self._insert(clip, int(place))
            case ["play" | "hold" as how]:
                self._autoplay = how == "play"
                self._wake()
            case ["stop"]:
                self._autoplay = False
                self._showing.cancel()
            case _:
                raise ValueError("there is no such command")
        return ""

    def _queue(self, frames: int, place: str) -> str:
        if frames < 1:
            raise ValueError("a clip has at least one frame")
        clip = _Clip(f"clip-{next(self._numbers)}", frames)
        self._insert(clip, len(self._clips) if place == "-" else int(place))
        self._nursery.start_soon(self._build, clip)
        return clip.name

    def _insert(self, clip: _Clip, place: int) -> None:
        self._clips.insert(place + (self._playing in self._clips), clip)

    def _find(self, name: str) -> _Clip:
        return next(clip for clip in self._clips if clip.name == name)

    def _waiting(self, name: str) -> _Clip:
        for clip in self._clips:
            if clip.name == name and clip is not self._playing:
                return clip
        raise LookupError(name)

    def _tell(self, clip: _Clip) -> None:
        self._say.send_nowait(f"clip {clip.name} {clip.phase} {clip.frames}")

    def _drop(self, clip: _Clip, shown: int) -> None:
        self._clips.remove(clip)
        self._say.send_nowait(f"end {clip.name} {shown}")

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _build(self, clip: _Clip) -> None:
        await trio.sleep(BUILDING)
        if clip in self._clips:
            clip.phase = "ready"
            self._tell(clip)
            self._wake()

    async def _play(self) -> None:
        while True:
            clip = self._clips[0] if self._clips else None
            if not self._autoplay or clip is None or clip.phase != "ready":
                await self._changed.wait()
                continue
            self._playing, clip.phase, shown = clip, "playing", 0
            self._say.send_nowait(f"start {clip.name} {clip.frames}")
            with trio.CancelScope() as self._showing:
                for index in range(clip.frames):
                    self._say.send_nowait(
                        f"frame {clip.name} {index} {bytes([index % 256] * 64).hex()}"
                    )
                    shown += 1
                    await trio.sleep(1 / RATE)
            self._playing = None
            self._drop(clip, shown)
