"""A provider of simulated sources, for tests: in process, on the world's clock, no threads.

    provider = SimulatedProvider(world, SimulationOptions(lifetime=60.0))
    async with open_renewal(provider, world=world) as renewal:
        await renewal.enqueue(ClipRequest({"frames": 50}))

A source does what a real one does: it takes requests that need time to arrive and be answered,
builds clips, plays them at its frame rate, reconnects, and is cut off some time after its life.
Its pictures carry a stamp (`read_stamp`) that says which source, clip and frame they are, so that a
test can check order by content; its sound is a tone, one pitch for each source.

A request's payload is `{"frames": 50}`; `"build"` sets the seconds that this clip takes to build,
and `"fails": true` makes the building fail.

What is to go wrong is planned with `trio_reactor.testing.Faults`.  These are its places, each
counted over all sources of the provider:

| place | what passes there |
|---|---|
| `open` | an open, before anything is allocated |
| `attach`, `media` | the setting up of events, and of a media generation |
| `request` | a request on its way, before it has had any effect |
| `reply` | an answer on its way, after the request took effect |
| `event` | an event on its way: late, twice, out of order or never |
| `connection` | a connection; failing is its loss, after so many seconds |
| `life` | a source; failing is its end, after so many seconds |
| `reconnect` | a reconnect |
| `losses` | a look at the losses of a media generation; in one step |
| `media-close`, `close` | the end of a media generation, and of a source |

Where a test wants to decide the moment by itself, it calls the source: `lose_connection`, `die`,
`crash`, `end_media`, `go_away`, `tell`, `forget`, `drop`.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, final

import msgspec
import trio

from trio_reactor.errors import Lost, ReactorError, Refused
from trio_reactor.testing.faults import Faults, Wire
from trio_reactor.world import World

from .evidence import Cleanup
from .source import (
    AudioFrame,
    Clip,
    ClipEnded,
    ClipFailed,
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
    Source,
    SourceEvent,
    SourceState,
    VideoFrame,
)

__all__ = [
    "ReconnectableSource",
    "Recorder",
    "SimulatedMedia",
    "SimulatedProvider",
    "SimulatedSource",
    "SimulationOptions",
    "Stamp",
    "read_stamp",
]

T = TypeVar("T")

_STAMP: Final = struct.Struct(">4sIII")
_MAGIC: Final = b"sim1"
_LOUDNESS: Final = 8_000


class Stamp(NamedTuple):
    """What a simulated picture says of itself."""

    source: int
    """The number of its source at the provider, from 1."""
    clip: int
    """The number of its clip at that source, from 1."""
    frame: int
    """Its number within the clip, from 0."""


def read_stamp(frame: VideoFrame) -> Stamp:
    """Which source, clip and frame a simulated picture is.

    Raises:
        ValueError: If it is no simulated picture.
    """
    if len(frame.data) < _STAMP.size:
        raise ValueError("this is no simulated picture: it is too small")
    magic, *numbers = _STAMP.unpack_from(frame.data)
    if magic != _MAGIC:
        raise ValueError("this is no simulated picture: it has no stamp")
    return Stamp(*numbers)


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the sources of a provider behave.  Durations are in seconds.

    Raises:
        ValueError: If a number is out of its range.
    """

    lifetime: float | None = 60.0
    """How long a source lives, from when it was opened; `None` for no end."""
    cut_after: float | None = 1.0
    """How long after its life a source is cut off; `None` for never."""
    open_delay: float = 0.2
    build_delay: float = 0.5
    """How long a clip takes to build, where the request does not say."""
    reply_delay: float = 0.01
    """How long a request and its answer take, there and back."""
    reconnect_delay: float = 0.05
    close_delay: float = 0.01
    frame_rate: float = 25.0
    """Pictures a second."""
    width: int = 32
    height: int = 18
    """The size of a picture, in pixels of one byte; at least 16 of them hold the stamp."""
    sound: bool = True
    sample_rate: int = 48_000
    """Samples a second and channel, in Hz."""
    channels: int = 2
    reconnectable: bool = True
    exclusive: bool = False
    """Whether the provider refuses a second source while one lives."""
    resumable: bool = False
    """Whether a source leaves its successor a handle to resume from."""
    generation_step: int = 1
    """How much a source's media generation rises each time; 0 is against the protocol."""
    stubborn: bool = False
    """Whether an open that is cancelled while it takes its `open_delay` succeeds all the same."""

    def __post_init__(self) -> None:
        delays = (
            self.open_delay,
            self.build_delay,
            self.reply_delay,
            self.reconnect_delay,
            self.close_delay,
            self.cut_after or 0.0,
        )
        if min(delays) < 0 or not all(map(math.isfinite, delays)):
            raise ValueError("a delay is a finite number of seconds, at least 0")
        if not (math.isfinite(self.frame_rate) and self.frame_rate > 0):
            raise ValueError(f"frame_rate is more than 0, not {self.frame_rate}")
        if self.width < 1 or self.height < 1 or self.width * self.height < _STAMP.size:
            raise ValueError(f"a picture has at least {_STAMP.size} pixels")
        if self.sample_rate < 1 or self.channels < 1:
            raise ValueError("sample_rate and channels are at least 1")


class Recorder(Protocol):
    """Hears what happens at a provider; `Simulation.record` is one."""

    def __call__(self, what: str, /, **about: object) -> None:
        """Take one fact: `opened`, `dispatched`, `closed` or `left`, each with its `source`."""
        ...


class _Clip:
    """A clip at its source."""

    __slots__ = ("frames", "id", "number", "phase", "shown")

    def __init__(self, identity: str, number: int, frames: int) -> None:
        self.id = identity
        self.number = number
        self.frames = frames
        self.phase: ClipPhase = "queued"
        self.shown = 0

    def told(self) -> Clip:
        return Clip(self.id, self.phase, self.frames)


class _Exchange(Generic[T]):
    """A request that was sent, until its answer comes."""

    def __init__(self) -> None:
        self._over = trio.Event()
        self._reply: T | None = None
        self._failure: BaseException | None = None

    def answer(self, reply: T) -> None:
        self._reply = reply
        self._over.set()

    def fail(self, failure: BaseException) -> None:
        if not self._over.is_set():
            self._failure = failure
            self._over.set()

    async def wait(self) -> T:
        await self._over.wait()
        if self._failure is not None:
            raise self._failure
        return self._reply  # type: ignore[return-value]  # the reply of an exchange of nothing


class _Connection:
    """One connection of a source: what is lost together."""

    def __init__(self) -> None:
        self.lost = False
        self.sink: EventSink | None = None
        self.media: SimulatedMedia | None = None
        self.exchanges: dict[_Exchange[Any], None] = {}


@final
class SimulatedMedia:
    """One media generation of a simulated source; implements `Media`."""

    def __init__(
        self, source: SimulatedSource, sink: MediaSink, generation: int, lost: MediaLosses
    ) -> None:
        self._source = source
        self._generation = generation
        self._frames = lost.frames
        self._samples = lost.samples
        self.sink: MediaSink | None = sink
        """Where its frames go; `None` once it is over."""

    @property
    def generation(self) -> int:
        """Its number."""
        return self._generation

    @property
    def frame_rate(self) -> float | None:
        """Pictures a second."""
        return self._source.options.frame_rate

    def losses(self) -> MediaLosses:
        """What was dropped so far, and what went into the void before it was opened."""
        with self._source.faults.around("losses"):
            pass
        return MediaLosses(self._frames, self._samples)

    def give(self, picture: VideoFrame, sound: AudioFrame | None, *, drop: bool) -> None:
        """Send one picture and its sound, or drop and count them."""
        if self.sink is None or drop:
            self._frames += 1
            self._samples += 0 if sound is None else sound.samples
            return
        if sound is not None:
            self.sink.audio(sound)
        self.sink.video(picture)

    async def aclose(self) -> None:
        """End it.  Idempotent."""
        self.sink = None
        await self._source.faults.meet("media-close")


class SimulatedSource:
    """One simulated source; implements `Playable`, `Exclusive`, `Resumable` and `Mortal`.

    Made by a `SimulatedProvider`.

    Attributes:
        number: Its number at the provider, from 1.
        predecessor: What it was opened after.
        options: How it behaves.
        faults: What goes wrong.
        closes: How often `close` was called.
        requested: The requests that took effect, by the clip that came of each.
    """

    def __init__(
        self,
        provider: SimulatedProvider,
        number: int,
        predecessor: Predecessor,
        nursery: trio.Nursery,
    ) -> None:
        self._provider = provider
        self._nursery = nursery
        self.number = number
        self.predecessor = predecessor
        self.options = provider.options
        self.faults = provider.faults
        self.closes = 0
        self.autoplay = False
        self.canvas: tuple[int, int] | None = None
        self._clips: dict[str, _Clip] = {}
        self._clip_count = 0
        self._connection: _Connection | None = None
        self._generation = 0
        self._unsent = MediaLosses()
        self._to_drop = 0
        self._showing = trio.CancelScope()
        self._changed = trio.Event()
        self._over = trio.Event()
        self._why: Exception | None = None
        self._cleanup: Cleanup | None = None
        self._wire: Wire[SourceEvent] = Wire(self.faults, "event", self._deliver, nursery)
        self._body = bytes(
            (number * 16 + pixel) % 256
            for pixel in range(self.options.width * self.options.height - _STAMP.size)
        )
        self._run = _tone(self.options, number) if self.options.sound else None

    def __repr__(self) -> str:
        return f"<SimulatedSource {self.id}>"

    # ------------------------------------------------------------------------- what a source is

    @property
    def id(self) -> str:
        """Its identity."""
        return f"simulated-{self.number}"

    @property
    def lifetime(self) -> float | None:
        """Seconds it lives."""
        return self.options.lifetime

    @property
    def exclusive(self) -> bool:
        """Whether there can be no second one while it lives."""
        return self.options.exclusive

    @property
    def resumption(self) -> str | None:
        """A handle to resume from, if it leaves one."""
        return f"after-{self.number}" if self.options.resumable else None

    @property
    def alive(self) -> bool:
        """Whether it has neither ended nor been closed."""
        return not self._over.is_set()

    @property
    def clips(self) -> tuple[Clip, ...]:
        """What it has, in playing order."""
        return tuple(clip.told() for clip in self._clips.values())

    @property
    def playing(self) -> bool:
        """Whether a clip is on."""
        return any(clip.phase == "playing" for clip in self._clips.values())

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
            return self._state()

        return await self._ask(attach)

    async def state(self) -> SourceState:
        """The state."""
        return await self._ask(self._state)

    async def enqueue(
        self, request: ClipRequest, /, *, position: int | None = None, commit: Commit
    ) -> str:
        """Queue a clip."""

        def queue() -> str:
            return self._queue(request, position)

        def dispatch() -> None:
            commit()
            self._provider.dispatched += 1
            self._provider.note("dispatched", self)

        return await self._ask(queue, dispatch)

    async def remove(self, clip: str, /) -> None:
        """Take a clip out of the queue."""

        def remove() -> None:
            if self._known(clip).phase == "playing":
                raise Refused("a clip that plays cannot be removed", outcome="replied")
            self._clips.pop(clip)
            self.tell(ClipEnded(clip, 0))

        await self._ask(remove)

    async def move(self, clip: str, /, position: int) -> None:
        """Give a clip another position among those that wait."""

        def move() -> None:
            moved = self._known(clip)
            del self._clips[clip]
            self._insert(moved, position)
            self.tell(ClipUpdated(moved.told()))

        await self._ask(move)

    async def set_autoplay(self, enabled: bool, /) -> None:
        """Whether what is ready is played."""

        def set_autoplay() -> None:
            self.autoplay = enabled
            self._changed.set()

        await self._ask(set_autoplay)

    async def pause_and_stop(self) -> None:
        """End what is playing and hold what is queued."""

        def stop() -> None:
            self.autoplay = False
            self._showing.cancel()

        await self._ask(stop)

    async def set_canvas(self, width: int, height: int, /) -> None:
        """Set the size of the picture; only kept."""

        def set_canvas() -> None:
            self.canvas = (width, height)

        await self._ask(set_canvas)

    async def open_media(self, sink: MediaSink, /) -> SimulatedMedia:
        """Begin a media generation; one that was open ends."""
        connection = self._connected()
        await self.faults.meet("media")

        def begin() -> SimulatedMedia:
            if connection.media is not None:
                connection.media.sink = None
            self._generation += self.options.generation_step
            lost, self._unsent = self._unsent, MediaLosses()
            connection.media = SimulatedMedia(self, sink, self._generation, lost)
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
        self.tell(GoingAway(expires_in, reason))
        self._nursery.start_soon(self._cut, expires_in)

    def tell(self, event: SourceEvent) -> None:
        """Send an event, whatever it says."""
        self._wire.send(event)

    def forget(self, clip: str) -> None:
        """Lose a clip without a word; a later state does not have it."""
        if self._clips.pop(clip).phase == "playing":
            self._showing.cancel()

    def drop(self, frames: int) -> None:
        """Drop the next pictures, with their sound, and count them as lost."""
        self._to_drop += frames

    # ------------------------------------------------------------------------------- internal

    def start(self) -> None:
        """Begin to live; the provider does that."""
        self._connect()
        self._nursery.start_soon(self._play)
        self._nursery.start_soon(self._meet_end)
        if self.options.lifetime is not None and self.options.cut_after is not None:
            self._nursery.start_soon(self._cut, self.options.lifetime + self.options.cut_after)

    def _connect(self) -> None:
        connection = self._connection = _Connection()
        self._nursery.start_soon(self._meet_loss, connection)

    def _connected(self) -> _Connection:
        if self._connection is None:
            raise Lost("the simulated source has no connection", retryable=True)
        return self._connection

    async def _ask(self, effect: Callable[[], T], commit: Commit | None = None) -> T:
        connection = self._connected()
        if commit is not None:
            await trio.lowlevel.checkpoint()  # a request may wait for its turn
            connection = self._connected()
            commit()
        exchange: _Exchange[T] = _Exchange()
        connection.exchanges[exchange] = None
        self._nursery.start_soon(self._serve, connection, exchange, effect)
        return await exchange.wait()

    async def _serve(
        self, connection: _Connection, exchange: _Exchange[T], effect: Callable[[], T]
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

    def _state(self) -> SourceState:
        return SourceState(self.clips, self.autoplay)

    def _known(self, clip: str) -> _Clip:
        if clip not in self._clips:
            raise Refused("there is no such clip", outcome="replied")
        return self._clips[clip]

    def _queue(self, request: ClipRequest, position: int | None) -> str:
        frames = request.payload.get("frames")
        build = request.payload.get("build", self.options.build_delay)
        if not isinstance(frames, int) or frames < 1:
            raise Refused("a clip has a number of frames, at least 1", outcome="replied")
        if not isinstance(build, int | float) or build < 0:
            raise Refused("the seconds to build a clip are at least 0", outcome="replied")
        self._clip_count += 1
        clip = _Clip(f"{self.id}/clip-{self._clip_count}", self._clip_count, frames)
        self._insert(clip, position)
        self.tell(ClipUpdated(clip.told()))
        fails = request.payload.get("fails") is True
        self._nursery.start_soon(self._build, clip, float(build), fails)
        return clip.id

    def _insert(self, clip: _Clip, position: int | None) -> None:
        waiting = [known for known in self._clips.values() if known.phase != "playing"]
        first = [known for known in self._clips.values() if known.phase == "playing"]
        waiting.insert(len(waiting) if position is None else position, clip)
        self._clips = {known.id: known for known in (*first, *waiting)}

    async def _build(self, clip: _Clip, seconds: float, fails: bool) -> None:
        clip.phase = "building"
        self.tell(ClipUpdated(clip.told()))
        await trio.sleep(seconds)
        if clip.id not in self._clips:
            return
        if fails:
            del self._clips[clip.id]
            self.tell(ClipFailed(clip.id, "it could not be built"))
            return
        clip.phase = "ready"
        self.tell(ClipUpdated(clip.told()))
        self._changed.set()

    async def _play(self) -> None:
        """Play what is ready, in order, at the frame rate, one clip right after the other."""
        due = self._provider.world.clock()
        while True:
            clip = next(iter(self._clips.values()), None)
            if not self.autoplay or clip is None or clip.phase != "ready":
                self._changed = trio.Event()
                await self._changed.wait()
                due = self._provider.world.clock()
                continue
            with trio.CancelScope() as self._showing:
                due = await self._show(clip, due)
            if self._showing.cancelled_caught:
                due = self._provider.world.clock()
            if self._clips.pop(clip.id, None) is not None:
                self.tell(ClipEnded(clip.id, clip.shown))

    async def _show(self, clip: _Clip, due: float) -> float:
        clip.phase = "playing"
        self.tell(ClipStarted(clip.id, clip.frames))
        rate = self.options.frame_rate
        for index in range(clip.frames):
            self._give(clip, index)
            clip.shown += 1
            await trio.sleep_until(due + (index + 1) / rate)
        return due + clip.frames / rate

    def _give(self, clip: _Clip, index: int) -> None:
        options = self.options
        time = index / options.frame_rate
        stamped = _STAMP.pack(_MAGIC, self.number, clip.number, index)
        picture = VideoFrame(
            stamped + self._body, options.width, options.height, "gray", time, clip.id, index
        )
        sound = None
        if self._run is not None:
            samples = len(self._run) // 2
            sound = AudioFrame(
                self._run, samples, options.channels, options.sample_rate, "s16", time, clip.id
            )
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

    async def _meet_loss(self, connection: _Connection) -> None:
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

    def _end(self, why: Exception | None) -> None:
        if not self._over.is_set():
            self._why = why
            self._over.set()
            self.autoplay = False
            self._showing.cancel()
            self.lose_connection(why)

    def leave(self) -> None:
        """Be left by the context manager; the provider does that."""
        self._end(None)


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


@final
class SimulatedProvider:
    """Opens simulated sources, and knows of all of them; a `SourceOpener`.

    Args:
        world: Whose clock counts.
        options: How its sources behave; may be set anew for those to come.
        faults: What goes wrong; nothing by default.
        record: Hears what happens.
    """

    def __init__(
        self,
        world: World,
        options: SimulationOptions | None = None,
        *,
        faults: Faults | None = None,
        record: Recorder | None = None,
    ) -> None:
        self.world = world
        self.options = options or SimulationOptions()
        self.faults = faults or Faults()
        self._record = record
        self.refusing: Callable[[], OpenFailed] | None = None
        """Makes what every open is refused with from now on, if anything."""
        self.live: dict[str, SimulatedSource] = {}
        """The sources whose context managers have been entered and not been left."""
        self.attempts = 0
        """How many opens were begun."""
        self.opened = 0
        """How many succeeded."""
        self.closed = 0
        """How many sources ended because they were closed, confirmed."""
        self.left = 0
        """How many context managers were left."""
        self.dispatched = 0
        """How many requests for clips were sent."""
        self.most_live = 0
        """The most sources there were at one time."""

    def __repr__(self) -> str:
        return f"<SimulatedProvider: {self.opened} opened, {len(self.live)} live>"

    def __call__(self, predecessor: Predecessor, /) -> AbstractAsyncContextManager[Source]:
        """Open a source."""
        return self._open(predecessor)

    @property
    def newest(self) -> SimulatedSource:
        """The source that was opened last.

        Raises:
            LookupError: If none is live.
        """
        if not self.live:
            raise LookupError("no simulated source is live")
        return next(reversed(self.live.values()))

    def note(self, what: str, source: SimulatedSource) -> None:
        """Record what happened to a source."""
        if self._record is not None:
            self._record(what, source=source.id)

    @asynccontextmanager
    async def _open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        self.attempts += 1
        if self._record is not None:
            self._record("opening", cause=predecessor.cause)
        await self.faults.meet("open")
        if self.refusing is not None:
            raise self.refusing()
        with trio.CancelScope(shield=self.options.stubborn):
            await trio.sleep(self.options.open_delay)
        if self.options.exclusive and any(source.alive for source in self.live.values()):
            raise OpenFailed("another simulated source is alive", retryable=True)
        async with trio.open_nursery() as nursery:
            self.opened += 1
            kind = ReconnectableSource if self.options.reconnectable else SimulatedSource
            source = kind(self, self.opened, predecessor, nursery)
            self.live[source.id] = source
            self.most_live = max(self.most_live, len(self.live))
            self.note("opened", source)
            source.start()
            try:
                yield source
            finally:
                source.leave()
                del self.live[source.id]
                self.left += 1
                self.note("left", source)
                nursery.cancel_scope.cancel()


def _tone(options: SimulationOptions, number: int) -> bytes:
    """Sound for the time of one picture, at a pitch that runs on from one to the next."""
    length = max(1, round(options.sample_rate / options.frame_rate))
    cycles = 8 + number % 24
    wave = (
        int(_LOUDNESS * math.sin(2 * math.pi * cycles * sample / length))
        for sample in range(length)
    )
    return array("h", (value for value in wave for _ in range(options.channels))).tobytes()
