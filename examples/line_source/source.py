"""The adapter: a session of the service that speaks in lines, as a source of a renewal."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import cast

import trio

from trio_reactor.errors import Lost, Overflow, Refused
from trio_reactor.renewal.allocation import AllocationRecord
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import (
    Clip,
    ClipEnded,
    ClipPhase,
    ClipRequest,
    ClipStarted,
    ClipUpdated,
    Commit,
    EventSink,
    GoingAway,
    MediaLosses,
    MediaSink,
    OpenFailed,
    Predecessor,
    SourceEvent,
    SourceOpener,
    SourceState,
    VideoFrame,
)

from .client import LineClient

__all__ = ["LineSource", "line_source"]


# --8<-- [start:opener]
def line_source(host: str, port: int, *, close_timeout: float = 2.0) -> SourceOpener[LineSource]:
    """What opens sessions of the service at this address.

    Args:
        host: Where it is.
        port: Where it is.
        close_timeout: Seconds for its word that a session is gone.
    """

    @asynccontextmanager
    async def opened(adopt: AllocationRecord | None) -> AsyncGenerator[LineSource]:
        if adopt is not None:
            raise OpenFailed("a session ends with its connection: there is nothing to adopt")
        try:
            stream = await trio.open_tcp_stream(host, port)
        except OSError as failure:
            raise OpenFailed("the service cannot be reached", retryable=True) from failure
        async with stream:  # given up from here on, the session ends with its connection
            client = LineClient(stream)
            try:
                greeting = await client.greet()
            except trio.BrokenResourceError as failure:
                raise OpenFailed("the service hung up", outcome="unknown") from failure
            match greeting:
                case ["hello", session, seconds]:
                    source = LineSource(client, session, float(seconds), close_timeout)
                case ["no", *why]:
                    raise OpenFailed("the service gives no session", detail=" ".join(why))
                case _:
                    raise OpenFailed("this is not the service")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.write)
                nursery.start_soon(source.run)
                try:
                    yield source
                finally:
                    with trio.CancelScope(shield=True):
                        await source.close()
                    nursery.cancel_scope.cancel()

    def open_source(predecessor: Predecessor, /) -> AbstractAsyncContextManager[LineSource]:
        return opened(predecessor.adopt)

    return open_source


# --8<-- [end:opener]


# --8<-- [start:media]
class LineMedia:
    """One media generation; implements `Media`."""

    def __init__(self, generation: int, sink: MediaSink) -> None:
        self.generation = generation
        self.sink: MediaSink | None = sink

    def losses(self) -> MediaLosses:
        """Nothing: a line that TCP has taken comes, or the connection ends."""
        return MediaLosses()

    async def aclose(self) -> None:
        """End it."""
        self.sink = None
        await trio.lowlevel.checkpoint()


# --8<-- [end:media]


# --8<-- [start:source]
class LineSource:
    """One session; implements `Playable` and `Mortal`.  Made by `line_source`."""

    def __init__(
        self, client: LineClient, session: str, lifetime: float, close_timeout: float
    ) -> None:
        self.id = session
        self.lifetime: float | None = lifetime
        self._client = client
        self._close_timeout = close_timeout
        self._events: EventSink | None = None
        self._media: LineMedia | None = None
        self._generation = 0
        self._gone = False
        """Whether the server said that the session is."""
        self._closing = trio.Lock()
        self._cleanup: Cleanup | None = None

    # --8<-- [end:source]

    # --8<-- [start:hear]
    async def run(self) -> None:
        """Hear what the server says until the connection has ended; a task of the opener's."""
        await self._client.read(self._hear)
        loss = self._loss()
        events, self._events = self._events, None
        media, self._media = self._media, None
        if events is not None:
            events.lost(loss)
        if media is not None and media.sink is not None:
            media.sink.lost(loss)

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["clip", clip, phase, frames]:
                self._tell(ClipUpdated(Clip(clip, cast("ClipPhase", phase), int(frames))))
            case ["start", clip, frames]:
                self._tell(ClipStarted(clip, int(frames)))
            case ["end", clip, frames]:
                self._tell(ClipEnded(clip, int(frames)))
            case ["soon", seconds, *why]:
                self._tell(GoingAway(float(seconds), " ".join(why)))
            case ["frame", clip, index, pixels] if self._media and self._media.sink:
                data, number = bytes.fromhex(pixels), int(index)
                frame = VideoFrame(data, 8, 8, "gray", number / 50, clip, number)
                self._media.sink.video(frame)
            case ["over", *_]:
                self._confirm()
            case _:
                pass  # what a later version of the service tells

    def _tell(self, event: SourceEvent) -> None:
        if self._events is not None:
            self._events.event(event)

    # --8<-- [end:hear]

    # --8<-- [start:ask]
    async def attach(self, sink: EventSink, /) -> SourceState:
        """Give the state, and every event that comes after it."""

        def listen() -> None:
            self._events = sink

        return _state(await self._client.ask("state", then=listen))

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        """Queue a clip of some frames."""
        frames = request.payload.get("frames")
        if not isinstance(frames, int):
            raise Refused("a clip is asked for by its number of frames")
        place = "-" if position is None else position
        return " ".join(await self._client.ask("queue", frames, place, before=commit))

    # --8<-- [end:ask]

    # --8<-- [start:commands]
    async def remove(self, clip: str, /) -> None:
        """Take a clip out of the queue."""
        await self._client.ask("remove", _word(clip))

    async def move(self, clip: str, /, position: int) -> None:
        """Give a clip another place."""
        await self._client.ask("move", _word(clip), position)

    async def set_autoplay(self, enabled: bool, /) -> None:
        """Whether what is ready is played."""
        await self._client.ask("play" if enabled else "hold")

    async def pause_and_stop(self) -> None:
        """End what plays, and hold what waits."""
        await self._client.ask("stop")

    async def set_canvas(self, width: int, height: int, /) -> None:
        """Be refused: there is one size."""
        await trio.lowlevel.checkpoint()
        raise Refused("the service has pictures of one size")

    async def open_media(self, sink: MediaSink, /) -> LineMedia:
        """Begin a media generation; the one before gets no more."""
        self._generation += 1
        media = LineMedia(self._generation, sink)

        def begin() -> None:
            self._media = media

        await self._client.ask("hello", then=begin)  # there still is a session
        return media

    # --8<-- [end:commands]

    # --8<-- [start:end]
    async def wait_lost(self) -> None:
        """Return when it has ended; raise why if it ended by itself."""
        await self._client.over.wait()
        if self._cleanup is None:
            raise self._loss()

    def _loss(self) -> Lost:
        lost = Lost("the service ended the session" if self._gone else "the connection ended")
        lost.__cause__ = self._client.cause
        return lost

    def _confirm(self) -> None:
        self._gone = True

    async def close(self) -> Cleanup:
        """End it on the server's side; everyone gets the same evidence."""
        async with self._closing:
            if self._cleanup is None:
                self._events = self._media = None  # nothing is pushed any more
                with trio.move_on_after(self._close_timeout), contextlib.suppress(Lost, Overflow):
                    await self._client.ask("close", then=self._confirm)
                self._cleanup = Cleanup.of(
                    self.id,
                    allocation="owned",
                    termination="confirmed" if self._gone else "unconfirmed",
                    connection="closed",
                )
        return self._cleanup

    # --8<-- [end:end]


def _word(clip: str) -> str:
    if len(clip.split()) != 1:
        raise Refused("a clip is named by one word")
    return clip


def _state(words: list[str]) -> SourceState:
    try:
        autoplay, *clips = words
        parts = (clip.split(":") for clip in clips)
        told = tuple(
            Clip(name, cast("ClipPhase", phase), int(count)) for name, phase, count in parts
        )
    except ValueError as failure:
        raise Lost("the service gave a state that cannot be read") from failure
    return SourceState(told, autoplay == "on")
