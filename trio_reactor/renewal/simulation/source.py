"""A simulated source: one session at the provider, and the connection to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar, final

import trio

from trio_reactor.errors import Lost, ReactorError
from trio_reactor.renewal.evidence import Cleanup
from trio_reactor.renewal.source import (
    Clip,
    ClipRequest,
    Commit,
    EventSink,
    GoingAway,
    Json,
    MediaLosses,
    MediaSink,
    Predecessor,
    SourceEvent,
    SourceState,
)
from trio_reactor.testing.faults import Faults, Wire
from trio_reactor.world import World

from .media import Connection, Exchange, SimulatedMedia
from .options import SimulationOptions
from .picture import Renderer
from .player import Player

__all__ = ["Provider", "ReconnectableSource", "Recorder", "SimulatedSource"]

T = TypeVar("T")


class Recorder(Protocol):
    """Hears what happens at a provider; `Simulation.record` is one."""

    def __call__(self, what: str, /, **about: object) -> None:
        """Take one fact: `opened`, `dispatched`, `closed` or `left`, each with its `source`.

        `dispatched` comes with the `request`, as its payload; before all of them comes `opening`,
        with its `cause`.
        """
        ...


class Provider(Protocol):
    """What a source needs of its provider."""

    options: SimulationOptions
    faults: Faults
    world: World
    closed: int
    dispatched: int
    heard: deque[tuple[str, bytes]]

    def ended(self, source: SimulatedSource, /) -> None:
        """Hear that the session of a source is over."""
        ...

    def note(self, what: str, source: SimulatedSource, /, **about: object) -> None:
        """Record what happened to a source."""
        ...


class SimulatedSource:
    """One simulated source, made by a `SimulatedProvider`.

    Implements `Playable`, `Exclusive`, `Recordable`, `Resumable`, `Mortal` and `Receptive`.

    Attributes:
        number: Its number at the provider, from 1.
        predecessor: What it was opened after.
        options: How it behaves.
        faults: What goes wrong.
        closes: How often `close` was called.
    """

    def __init__(
        self,
        provider: Provider,
        number: int,
        predecessor: Predecessor,
        nursery: trio.Nursery,
        identity: str | None = None,
        lifetime: float | None = None,
    ) -> None:
        self._provider = provider
        self._nursery = nursery
        self._identity = identity or f"simulated-{number}"
        self._lifetime = lifetime
        self.number = number
        self.predecessor = predecessor
        self.options = provider.options
        self.faults = provider.faults
        self.closes = 0
        self.on_going_away: list[Callable[[GoingAway], None]] = []
        """Told of each notice beside its event sink: for what wraps it and has none."""
        self.canvas: tuple[int, int] | None = None
        self._connection: Connection | None = None
        self._generation = 0
        self._unsent = MediaLosses()
        self._to_drop = 0
        self._over = trio.Event()
        self._why: Exception | None = None
        self._cleanup: Cleanup | None = None
        self._wire: Wire[SourceEvent] = Wire(self.faults, "event", self._deliver, nursery)
        self._renderer = Renderer(number, self.options)
        self._player = Player(self.id, provider.world, self.options, nursery, self.tell, self._show)

    def __repr__(self) -> str:
        return f"<SimulatedSource {self.id}>"

    # ------------------------------------------------------------------------- what a source is

    @property
    def id(self) -> str:
        """Its identity."""
        return self._identity

    @property
    def lifetime(self) -> float | None:
        """Seconds it lives."""
        return self._lifetime

    @property
    def exclusive(self) -> bool:
        """Whether there can be no second one while it lives."""
        return self.options.exclusive

    @property
    def resumption(self) -> str | None:
        """A handle to resume from, if it leaves one."""
        return f"after-{self.number}" if self.options.resumable else None

    @property
    def allocation(self) -> Json:
        """What another process needs to find it again."""
        return {"session": self.id}

    @property
    def alive(self) -> bool:
        """Whether it has neither ended nor been closed."""
        return not self._over.is_set()

    @property
    def clips(self) -> tuple[Clip, ...]:
        """What it has, in playing order."""
        return self._player.clips

    @property
    def autoplay(self) -> bool:
        """Whether it plays what is ready."""
        return self._player.autoplay

    async def wait_lost(self) -> None:
        """Return when it has ended; raises why if it was told."""
        await self._over.wait()
        if self._why is not None:
            raise self._why

    async def close(self) -> Cleanup:
        """End it; the evidence says so.  Idempotent."""
        self.closes += 1
        if self._cleanup is None:
            self._provider.note("closing", self)
            await self.faults.meet("close")
            await trio.sleep(self.options.close_delay)
            self._end(None)
            if self._cleanup is None:
                self._cleanup = Cleanup.of(
                    self.id, allocation="owned", termination="confirmed", connection="closed"
                )
                self._provider.closed += 1
                self._provider.note("closed", self)
        else:
            await trio.lowlevel.checkpoint()
        return self._cleanup

    # ------------------------------------------------------------------------ what it is asked

    async def attach(self, sink: EventSink, /) -> SourceState:
        """Give the state, and every event after it."""
        connection = self._connected()
        await self.faults.meet("attach")

        def attach() -> SourceState:
            connection.sink = sink
            return self._player.state()

        return await self._ask(attach)

    async def state(self) -> SourceState:
        """The state."""
        return await self._ask(self._player.state)

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        """Queue a clip."""

        def queue() -> str:
            return self._player.queue(request, position)

        def dispatch() -> None:
            commit()
            self._provider.dispatched += 1
            self._provider.note("dispatched", self, request=request.payload)

        return await self._ask(queue, dispatch)

    async def remove(self, clip: str, /) -> None:
        """Take a clip out of the queue."""
        await self._ask(partial(self._player.remove, clip))

    async def move(self, clip: str, /, position: int) -> None:
        """Give a clip another position among those that wait."""
        await self._ask(partial(self._player.move, clip, position))

    async def set_autoplay(self, enabled: bool, /) -> None:
        """Whether what is ready is played."""
        await self._ask(partial(self._player.set_autoplay, enabled))

    async def pause_and_stop(self) -> None:
        """End what is playing and hold what is queued."""
        await self._ask(self._player.stop)

    async def set_canvas(self, width: int, height: int, /) -> None:
        """Set the size of the picture; only kept."""

        def set_canvas() -> None:
            self.canvas = (width, height)

        await self._ask(set_canvas)

    async def send_input(self, data: bytes, /) -> None:
        """Take a piece of input; its provider keeps what it heard."""
        connection = self._connected()
        await self.faults.meet("input")
        if connection.lost:
            raise Lost("the simulated source has lost its connection", outcome="unknown")
        self._provider.heard.append((self.id, data))

    async def open_media(self, sink: MediaSink, /) -> SimulatedMedia:
        """Begin a media generation; one that was open ends."""
        connection = self._connected()
        await self.faults.meet("media")

        def begin() -> SimulatedMedia:
            if connection.media is not None:
                connection.media.sink = None
            self._generation += self.options.generation_step
            lost, self._unsent = self._unsent, MediaLosses()
            connection.media = SimulatedMedia(self.faults, sink, self._generation, lost)
            return connection.media

        return await self._ask(begin)

    # --------------------------------------------------------------------- what befalls it, on call

    def lose_connection(self, cause: Exception | None = None) -> None:
        """Lose the connection: events and media end, and so does whatever is not answered yet."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.lost = True
        for exchange in list(connection.exchanges):
            exchange.fail(Lost("the simulated connection was lost", outcome="unknown"))
        if connection.sink is not None:
            connection.sink.lost(cause)
        media, connection.media = connection.media, None
        if media is not None:
            self._break(media, cause)

    def end_media(self, cause: Exception | None = None) -> None:
        """End the media, with an error or without; everything else goes on."""
        if self._connection is not None and self._connection.media is not None:
            media, self._connection.media = self._connection.media, None
            self._break(media, cause)

    def die(self, cause: Exception | None = None) -> None:
        """End by itself: `wait_lost` returns, or raises the cause."""
        self._end(cause)

    def crash(self, failure: Exception) -> None:
        """End by raising in a task of its own, which cancels its context manager's block."""

        async def crash() -> None:
            await trio.lowlevel.checkpoint()
            raise failure

        self._nursery.start_soon(crash)

    def go_away(self, expires_in: float, reason: str = "") -> None:
        """Tell that it will end this many seconds from now, and be cut off then."""
        notice = GoingAway(expires_in, reason)
        self.tell(notice)
        for announce in self.on_going_away:
            announce(notice)
        self._nursery.start_soon(self._cut, expires_in)

    def tell(self, event: SourceEvent) -> None:
        """Send an event, whatever it says."""
        self._wire.send(event)

    def forget(self, clip: str) -> None:
        """Lose a clip without a word; a later state does not have it."""
        self._player.forget(clip)

    def drop(self, frames: int) -> None:
        """Drop the next pictures, with their sound, and count them as lost."""
        self._to_drop += frames

    # ------------------------------------------------------------------------------- internal

    def start(self) -> None:
        """Begin to live; the provider does that."""
        self._connect()
        self._nursery.start_soon(self._player.play)
        self._nursery.start_soon(self._meet_end)
        if self._lifetime is not None and self.options.cut_after is not None:
            self._nursery.start_soon(self._cut, self._lifetime + self.options.cut_after)

    def _connect(self) -> None:
        connection = self._connection = Connection()
        self._nursery.start_soon(self._meet_loss, connection)

    def _connected(self) -> Connection:
        if self._connection is None:
            raise Lost("the simulated source has no connection", retryable=True)
        return self._connection

    async def _ask(self, effect: Callable[[], T], commit: Commit | None = None) -> T:
        connection = self._connected()
        if commit is not None:
            await trio.lowlevel.checkpoint()  # a request may wait for its turn
            connection = self._connected()
            commit()
        exchange: Exchange[T] = Exchange()
        connection.exchanges[exchange] = None
        self._nursery.start_soon(self._serve, connection, exchange, effect)
        return await exchange.wait()

    async def _serve(
        self, connection: Connection, exchange: Exchange[T], effect: Callable[[], T]
    ) -> None:
        """Play the provider's side of a request: what was sent is served, whoever still waits."""
        try:
            await trio.sleep(self.options.reply_delay / 2)
            await self.faults.meet("request")
            if connection.lost:
                return
            reply = effect()
            await self.faults.meet("reply")
            await trio.sleep(self.options.reply_delay / 2)
        except (ReactorError, RuntimeError) as failure:
            exchange.fail(failure)
        else:
            if not connection.lost:
                exchange.answer(reply)
        finally:
            connection.exchanges.pop(exchange, None)

    def _show(self, clip: str, number: int, index: int) -> None:
        picture = self._renderer.picture(clip, number, index)
        sound = self._renderer.sound(clip, index)
        media = None if self._connection is None else self._connection.media
        if media is None:
            samples = 0 if sound is None else sound.samples
            self._unsent = MediaLosses(self._unsent.frames + 1, self._unsent.samples + samples)
            return
        drop = self._to_drop > 0
        self._to_drop -= drop
        media.give(picture, sound, drop=drop)

    def _break(self, media: SimulatedMedia, cause: Exception | None) -> None:
        sink, media.sink = media.sink, None
        if sink is not None:
            sink.lost(cause)

    def _deliver(self, event: SourceEvent) -> None:
        if self._connection is not None and self._connection.sink is not None:
            self._connection.sink.event(event)

    async def _cut(self, after: float) -> None:
        await trio.sleep(max(0.0, after))
        self._end(Lost("the simulated provider has ended the session"))

    async def _meet_loss(self, connection: Connection) -> None:
        try:
            await self.faults.meet("connection")
        except (ReactorError, RuntimeError) as cause:
            if self._connection is connection:
                self.lose_connection(cause)

    async def _meet_end(self) -> None:
        try:
            await self.faults.meet("life")
        except (ReactorError, RuntimeError) as cause:
            self._end(cause)

    def _end(self, why: Exception | None, *, unseen: bool = False) -> None:
        if not self._over.is_set():
            self._why = why
            self._over.set()
            if not unseen:
                self._provider.ended(self)
            self._player.stop()
            self.lose_connection(why)

    def leave(self) -> None:
        """Be left by the context manager; the provider does that."""
        self._end(None, unseen=self.options.outlives)


@final
class ReconnectableSource(SimulatedSource):
    """A simulated source that also implements `Reconnectable`."""

    async def reconnect(self) -> None:
        """Make the connection again."""
        self.lose_connection(None)
        await trio.sleep(self.options.reconnect_delay)
        await self.faults.meet("reconnect")
        if not self.alive:
            raise Lost("the simulated source has ended")
        self._connect()
