"""Puts the pieces together: a film server, a renewal of its sessions, a recording, a timeline."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final

import av
import msgspec
import trio
from av.error import FFmpegError
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from examples.film_server.stamp import MIN_HEIGHT, MIN_WIDTH
from trio_reactor.errors import ReactorError
from trio_reactor.owner import open_owner
from trio_reactor.renewal import RenewalOptions
from trio_reactor.renewal.websocket import websocket_source
from trio_reactor.renewal.websocket.address import Address
from trio_reactor.timeline import render_svg

from .broadcast import Broadcast
from .programme import pace, programme
from .recorder import RecordingFailed, open_recorder
from .report import HANDOVERS, IN_WORDS, Gap, Numbers, Term
from .server import film_server

__all__ = ["FilmUnusable", "Result", "Settings", "run"]

DROPS_A_SECOND: Final = 0.15
"""How often a connection breaks, with losses turned on."""
SLOW_OPEN: Final = 0.3
"""Seconds that connecting takes then, in which the pictures that are due are lost."""


class FilmUnusable(ReactorError):
    """The file is no film that can be played."""


class Settings(BaseModel):
    """What can be set about a broadcast.  Times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    film: Path = Path(__file__).parents[1] / "media" / "bigbuckbunny.mp4"
    session_lifetime: Annotated[float, Field(gt=0, le=3600)] = 4.0
    lead: Annotated[float, Field(ge=0)] | None = None
    duration: Annotated[float, Field(gt=0, le=3600)] = 20.0
    drop: bool = False
    seed: int | None = None
    output_dir: Path = Path("build/broadcast")
    url: str | None = None
    width: Annotated[int, Field(ge=MIN_WIDTH, le=1920, multiple_of=2)] = 640
    height: Annotated[int, Field(ge=MIN_HEIGHT, le=1920, multiple_of=2)] = 360
    frame_rate: Annotated[float, Field(ge=1, le=120)] = 25.0

    @field_validator("lead")
    @classmethod
    def _shorter_than_a_session(cls, lead: float | None, info: ValidationInfo) -> float | None:
        lifetime = info.data.get("session_lifetime")
        if lead is not None and lifetime is not None and lead >= lifetime:
            raise ValueError(f"must be shorter than a session lives, which is {lifetime:g} s")
        return lead

    @field_validator("url")
    @classmethod
    def _of_a_websocket(cls, url: str | None) -> str | None:
        if url is not None:
            try:
                Address.parse(url)
            except ValueError as wrong:
                # The option's name is said by whoever tells of it.
                raise ValueError(str(wrong).removeprefix("url: ")) from None
        return url

    @property
    def preparing(self) -> float:
        """Seconds before its end at which a session's successor is prepared."""
        return 0.6 * self.session_lifetime if self.lead is None else self.lead

    @property
    def server_arguments(self) -> list[str]:
        """What a film server of our own is told."""
        arguments = [str(self.film), f"--lifetime={self.session_lifetime}"]
        arguments += [f"--width={self.width}", f"--height={self.height}"]
        if self.seed is not None:
            arguments.append(f"--seed={self.seed}")
        if self.drop:
            arguments += [f"--drop-rate={DROPS_A_SECOND}", f"--slow-open={SLOW_OPEN}"]
        return arguments


class Result(msgspec.Struct, frozen=True):
    """What came of a broadcast."""

    numbers: Numbers
    gaps: tuple[Gap, ...]
    """What was lost, in order; the newest, if that was very much."""
    unproven: int
    """Sessions that are not proven to have ended."""
    terms: tuple[Term, ...]
    """The words in which the timeline tells why a session gave way, or what was lost."""


async def run(settings: Settings, watch: Callable[[Broadcast], None]) -> Result:
    """Play one programme from beginning to end and record it.

    Everything it started has ended when it returns or raises; a recording that is not complete is
    removed.

    Args:
        settings: What to play, how, and where to put it.
        watch: Called whenever one of the numbers has changed.

    Raises:
        ReactorError: If it cannot go on; alone or in a group.
    """
    recording = settings.output_dir / "broadcast.mp4"
    drawing = settings.output_dir / "broadcast.svg"
    rate = settings.frame_rate if settings.url else await _frame_rate(settings.film)
    frames = max(1, round(settings.duration * rate))
    cut = pace(lifetime=settings.session_lifetime, lead=settings.preparing, frame_rate=rate)
    chance = random.Random(settings.seed)  # noqa: S311 - it varies the length of scenes
    async with (
        open_recorder(
            recording, frame_rate=rate, width=settings.width, height=settings.height
        ) as recorder,
        _server(settings) as url,
    ):
        broadcast = Broadcast(recorder, rate, watch)
        await broadcast.play(
            programme(frames, shortest=cut.shortest, longest=cut.longest, chance=chance),
            ahead=cut.ahead,
            open_source=websocket_source(url),
            options=RenewalOptions(lead=settings.preparing, first_pause=0.25, max_pause=2.0),
        )
    tally = broadcast.tally
    broadcast.timeline.description = (
        f"{tally.received} of {tally.expected} frames out of {broadcast.sessions} sessions that "
        f"live {settings.session_lifetime:g} s each; {tally.lost} lost"
    )
    # The line has room for one, and nearly every handover is of one kind.
    usual = max(HANDOVERS, key=lambda kind: broadcast.terms[kind])
    if broadcast.terms[usual]:
        broadcast.timeline.description += f" · {usual}: {IN_WORDS[usual]}"
    await _draw(broadcast, drawing)
    numbers = Numbers(
        sessions=broadcast.sessions,
        handovers=broadcast.handovers,
        frames_expected=tally.expected,
        frames_received=tally.received,
        frames_lost=tally.lost,
        max_gap_ms=None if tally.longest_gap is None else round(1000 * tally.longest_gap, 1),
        recording=str(recording),
        timeline=str(drawing),
    )
    return Result(numbers, tuple(tally.gaps), broadcast.unproven, tuple(broadcast.terms))


@asynccontextmanager
async def _server(settings: Settings) -> AsyncGenerator[str]:
    """The server that is named, or one of our own; losing that one ends the block."""
    if settings.url is not None:
        yield settings.url
        return
    async with (
        open_owner("film server") as owner,
        owner.hold(lambda: film_server(settings.server_arguments)) as server,
    ):
        yield server.url


async def _frame_rate(film: Path) -> float:
    """Pictures a second of a film."""

    def look() -> float:
        with av.open(str(film)) as container:
            rate = container.streams.video[0].average_rate if container.streams.video else None
        if not rate:
            raise FilmUnusable(f"{film}: has no pictures")
        return float(rate)

    try:
        return await trio.to_thread.run_sync(look)
    except (OSError, FFmpegError) as error:
        raise FilmUnusable(f"{film}: cannot be played: {error.strerror}") from error


async def _draw(broadcast: Broadcast, path: Path) -> None:
    svg = render_svg(broadcast.timeline.build())
    try:
        await trio.Path(path).write_text(svg, encoding="utf-8")
    except OSError as error:
        raise RecordingFailed(f"cannot write the timeline {path}: {error.strerror}") from error
