"""One paid session: it builds clips, plays them in real time, and ends when its time is over."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Sequence
from functools import partial
from typing import Annotated, final

import msgspec
import trio

from trio_reactor.renewal.source import Clip, GoingAway, SourceEvent
from trio_reactor.renewal.websocket.wire import (
    CloseCode,
    CloseMedia,
    Command,
    Denied,
    Done,
    Enqueue,
    FromServer,
    GetState,
    Happened,
    MediaOpened,
    Move,
    OpenMedia,
    PauseAndStop,
    Picture,
    Queued,
    Remove,
    Reply,
    Request,
    Result,
    SetAutoplay,
    SetCanvas,
    Snapshot,
    Sound,
    Terminate,
    Terminated,
)

from .film import CHANNELS, PIXELS, RATE, SAMPLES, Film, check_canvas, render
from .options import FilmServerOptions
from .outbox import Farewell, Outbox
from .playlist import NotPossible, Playlist

__all__ = ["Scene", "Session", "SessionStatistics"]

logger = logging.getLogger("film_server")

Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class Scene(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run of pictures of the film, which repeats."""

    frames: Annotated[int, msgspec.Meta(ge=1)]
    start: Count | None = None
    """The first picture; by default where the clip that is continued ends, else 0."""
    stamp: Annotated[int, msgspec.Meta(ge=0, le=2**23)] | None = None
    """A number to burn into the first picture, counted up from there."""


class ScenePayload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for: `{"scene": {"start": 0, "frames": 25}}`."""

    scene: Scene


class _Order(msgspec.Struct, frozen=True):
    """A clip that was asked for."""

    start: int
    frames: int
    stamp: int | None


class SessionStatistics(msgspec.Struct, frozen=True):
    """What a session was asked for and did."""

    clips: int
    due_frames: int
    """Pictures due while a media generation was open."""
    due_samples: int
    void_frames: int
    """Of these, pictures that no socket was there to take."""
    generation: int


@final
class Session:
    """A session, which lives in `run` and outlives its sockets.

    Args:
        identity: Its name, distinct from every other's.
        secret: What takes it up again.
        film: What it plays.
        options: Its terms and bounds.
        chance: Of the clips that cannot be built.
    """

    def __init__(
        self,
        identity: str,
        secret: str,
        film: Film,
        options: FilmServerOptions,
        chance: random.Random,
    ) -> None:
        self.id = identity
        self.secret = secret
        self.over: Farewell | None = None
        """How it ended."""
        self._film = film
        self._options = options
        self._chance = chance
        self._canvas = (film.width, film.height)
        self._playlist = Playlist(bound=options.max_clips, ready_bound=options.max_ready_clips)
        self._orders: dict[str, _Order] = {}
        self._renditions: dict[str, tuple[tuple[bytes, ...], tuple[int, int]]] = {}
        self._numbered = 0
        self._scope = trio.CancelScope(deadline=self._first_deadline())
        self._run_on_air = trio.CancelScope()
        self._shown = 0
        self._changed = trio.Event()
        self._outbox: Outbox | None = None
        self._media_outbox: Outbox | None = None
        """The socket on which the current media generation was begun."""
        self._generation = 0
        self._media_open = False
        self._due_frames = 0
        self._due_samples = 0
        self._void_frames = 0

    @property
    def remaining(self) -> float | None:
        """Seconds that it has to live; `None` for no end."""
        deadline = self._scope.deadline
        return None if math.isinf(deadline) else max(0.0, deadline - trio.current_time())

    def statistics(self) -> SessionStatistics:
        """What it was asked for and did."""
        return SessionStatistics(
            self._numbered,
            self._due_frames,
            self._due_samples,
            self._void_frames,
            self._generation,
        )

    async def run(self) -> None:
        """Build and play, until it is over; then everybody on its socket hears how."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._build)
                nursery.start_soon(self._play)
                nursery.start_soon(self._outlive)
                nursery.start_soon(self._go_away)
        self.end(CloseCode.LIFETIME_OVER, "the lifetime of the session is over")
        self._media_open = False
        if self._outbox is not None and self.over is not None:
            self._outbox.finish(self.over.code, self.over.reason)

    def end(self, code: CloseCode, reason: str) -> None:
        """End it; the first reason stays."""
        if self.over is None:
            self.over = Farewell(code, reason)
            logger.info("%s: over, with code %d", self.id, code)
            self._scope.cancel()

    def attach(self, outbox: Outbox) -> None:
        """Speak on this socket; one that was there is closed."""
        if self._outbox is not None:
            self._outbox.finish(CloseCode.SUPERSEDED, "another socket took the session up")
        self._outbox = outbox
        self._wake()

    def detach(self, outbox: Outbox) -> None:
        """This socket is gone; the session lives on for its grace."""
        if self._outbox is outbox:
            self._outbox = None
            self._wake()

    def handle(self, request: Request) -> None:
        """Carry out a request in one step; its answer goes before what follows from it."""
        try:
            result, events = self._carry_out(request.command)
        except NotPossible as denial:
            self._send(Denied(request.id, denial.code, denial.reason[:1024]))
            return
        self._send(Reply(request.id, result))
        if isinstance(result, Terminated):
            self.end(CloseCode.DONE, "terminated on request")
        self._publish(events)

    # ------------------------------------------------------------------------------- requests

    def _carry_out(self, command: Command) -> tuple[Result, Sequence[SourceEvent]]:
        match command:
            case Enqueue():
                return self._enqueue(command)
            case Remove(clip=clip):
                events = self._playlist.remove(clip)
                self._renditions.pop(clip, None)
                return Done(), events
            case Move(clip=clip, position=position):
                return Done(), self._playlist.move(clip, position)
            case SetAutoplay(enabled=enabled):
                self._playlist.set_autoplay(enabled)
                return Done(), ()
            case PauseAndStop():
                self._playlist.set_autoplay(False)
                return Done(), self._take_off_air()
            case SetCanvas(width=width, height=height):
                try:
                    check_canvas(width, height)
                except ValueError as error:
                    raise NotPossible("bad-request", str(error)) from error
                self._canvas = (width, height)
                return Done(), ()
            case GetState():
                return Snapshot(self._playlist.state), ()
            case OpenMedia():
                return self._open_media(), ()
            case CloseMedia(generation=generation):
                self._media_open = self._media_open and generation != self._generation
                return Done(), ()
            case Terminate():
                return Terminated(), ()

    def _enqueue(self, command: Enqueue) -> tuple[Result, Sequence[SourceEvent]]:
        order = self._order(command)
        clip = f"{self.id}-clip-{self._numbered + 1}"
        events = self._playlist.enqueue(clip, order.frames, command.position)
        self._numbered += 1
        self._orders[clip] = order
        for known in list(self._orders)[: -self._options.max_known_clips]:
            if not self._playlist.holds(known):
                del self._orders[known]
        return Queued(clip), events

    def _order(self, command: Enqueue) -> _Order:
        try:
            scene = msgspec.msgpack.decode(command.payload, type=ScenePayload).scene
        except (msgspec.MsgspecError, RecursionError) as error:
            raise NotPossible("bad-request", f"payload: {error}") from error
        if scene.frames > self._options.max_scene_frames:
            raise NotPossible(
                "bad-request",
                f"scene.frames: at most {self._options.max_scene_frames}, not {scene.frames}",
            )
        start = scene.start
        if command.continue_from is not None:
            before = self._orders.get(command.continue_from)
            if before is None:
                raise NotPossible("unknown-clip", "continue_from: no clip of this session")
            start = before.start + before.frames if start is None else start
        return _Order(start or 0, scene.frames, scene.stamp)

    def _open_media(self) -> MediaOpened:
        self._generation += 1
        self._media_open = True
        self._media_outbox = self._outbox
        if self._outbox is not None:
            self._outbox.begin(self._generation)
        return MediaOpened(
            self._generation, float(self._film.frame_rate), self._due_frames, self._due_samples
        )

    def _take_off_air(self) -> Sequence[SourceEvent]:
        self._run_on_air.cancel()
        return self._playlist.end(self._shown)

    # ----------------------------------------------------------------------------- what is said

    def _send(self, message: FromServer) -> None:
        if self._outbox is not None:
            self._outbox.put(message)

    def _publish(self, events: Sequence[SourceEvent]) -> None:
        """Tell what happened, and wake who has work of it."""
        for event in events:
            self._send(Happened(event))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # ---------------------------------------------------------------------------------- its life

    async def _build(self) -> None:
        while True:
            while (clip := self._playlist.next_to_build) is None:
                await self._changed.wait()
            self._publish(self._playlist.building(clip.id))
            await self._build_one(clip)

    async def _build_one(self, clip: Clip) -> None:
        order, canvas = self._orders[clip.id], self._canvas
        began = trio.current_time()
        try:
            self._check(order, canvas)
            pictures = self._film.excerpt(order.start, order.frames)
            if order.stamp is not None or canvas != (self._film.width, self._film.height):
                work = partial(render, self._film, pictures, canvas=canvas, first_stamp=order.stamp)
                pictures = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
            await trio.sleep_until(began + self._options.build_time)
        except ValueError as error:
            self._publish(self._playlist.failed(clip.id, str(error)))
            return
        if self._playlist.holds(clip.id):
            self._renditions[clip.id] = (pictures, canvas)
        self._publish(self._playlist.built(clip.id))

    def _check(self, order: _Order, canvas: tuple[int, int]) -> None:
        if self._chance.random() < self._options.faults.fail_rate:
            raise ValueError("it went wrong on purpose")
        size, bound = order.frames * canvas[0] * canvas[1] * 3 // 2, self._options.max_scene_bytes
        if size > bound:
            raise ValueError(f"scene: {size} bytes at this canvas, over the bound of {bound}")

    async def _play(self) -> None:
        while True:
            while not self._playlist.can_start:
                await self._changed.wait()
            with trio.CancelScope() as self._run_on_air:
                await self._play_run()

    async def _play_run(self) -> None:
        """Play clip after clip without a gap; each picture is due by the schedule of the run."""
        rate = self._film.frame_rate
        began = trio.current_time()
        before = 0
        while (started := self._playlist.start()) is not None:
            clip, events = started
            self._shown = 0
            self._publish(events)
            pictures, canvas = self._renditions.pop(clip.id)
            for index, picture in enumerate(pictures):
                await trio.sleep_until(began + float((before + index) / rate))
                if self._playlist.on_air != clip.id:  # it was taken off in this very step
                    return
                self._show(clip.id, index, picture, canvas)
            before += len(pictures)
            await trio.sleep_until(began + float(before / rate))
            if self._playlist.on_air != clip.id:
                return
            self._publish(self._playlist.end(len(pictures)))

    def _show(self, clip: str, index: int, picture: bytes, canvas: tuple[int, int]) -> None:
        self._shown = index + 1
        if not self._media_open:
            return
        heard = self._film.sound_of(self._orders[clip].start + index)
        time = float(index / self._film.frame_rate)
        samples = len(heard) // 2
        self._due_frames += 1
        self._due_samples += samples
        if self._outbox is None or self._outbox is not self._media_outbox:
            self._void_frames += 1
            return
        generation = self._generation
        self._outbox.put(
            Picture(generation, clip, index, time, *canvas, PIXELS, memoryview(picture))
        )
        self._outbox.put(Sound(generation, clip, time, RATE, CHANNELS, samples, SAMPLES, heard))

    async def _outlive(self) -> None:
        """End the session when it was without a socket for its grace."""
        while True:
            while self._outbox is not None:
                await self._changed.wait()
            with trio.move_on_after(self._options.grace) as grace:
                while self._outbox is None:
                    await self._changed.wait()
            if grace.cancelled_caught:
                self.end(CloseCode.GOING_AWAY, "the session was without a socket for too long")

    async def _go_away(self) -> None:
        faults = self._options.faults
        if faults.going_away_after is None:
            return
        await trio.sleep(faults.going_away_after)
        self._publish([GoingAway(faults.going_away_notice, "the service is being restarted")])
        await trio.sleep(faults.going_away_notice)
        self.end(CloseCode.GOING_AWAY, "the service is being restarted")

    def _first_deadline(self) -> float:
        lifetime = self._options.lifetime
        return math.inf if lifetime is None else trio.current_time() + lifetime
