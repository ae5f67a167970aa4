"""The other sides of the sources that are put to the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from broken_line import Line
from websocket_story import film, scene

from examples.film_server.options import FilmServerOptions
from examples.film_server.server import FilmServer
from examples.line_source.server import LineServer
from examples.line_source.source import line_source
from trio_reactor.renewal import ClipRequest, OpenFailed
from trio_reactor.renewal.conformance import Length, Rig
from trio_reactor.renewal.simulation import SimulatedProvider, SimulatedSource, SimulationOptions
from trio_reactor.renewal.source import Source, SourceOpener
from trio_reactor.renewal.websocket import WebSocketOptions, websocket_source
from trio_reactor.renewal.websocket.wire import CloseCode
from trio_reactor.testing import Faults, Never, Plan
from trio_reactor.world import SeededWorld

SILENCE = Plan(
    {
        place: dict.fromkeys(range(1, 100), Never())
        for place in ("open", "request", "reconnect", "close")
    }
)
"""Nothing is answered."""


class SimulationRig(Rig):
    """The provider of simulated sources, on a virtual clock."""

    name = "the simulated source"
    # Whether it is exclusive, and what it leaves, it can always be asked.
    capabilities = frozenset({"playable", "reconnectable", "exclusive", "resumable", "mortal"})
    exclusive = False

    def __init__(self) -> None:
        self.provider = SimulatedProvider(
            SeededWorld(1), SimulationOptions(resumable=True, exclusive=self.exclusive)
        )

    @property
    def opener(self) -> SourceOpener:
        return self.provider

    def allocated(self) -> int:
        return sum(source.alive for source in self.provider.live.values())

    def request(self, length: Length, /) -> ClipRequest:
        return ClipRequest({"frames": 5 if length == "short" else 500})

    def refused(self) -> ClipRequest:
        return ClipRequest({"frames": 0})

    async def break_connection(self, source: Source, /) -> None:
        self._live(source).lose_connection(OSError("the cable"))

    async def end(self, source: Source, /) -> None:
        self._live(source).die()

    async def fall_silent(self) -> None:
        faults = self.provider.faults = Faults(SILENCE)
        for source in self.provider.live.values():
            source.faults = faults

    async def refuse_opens(self) -> None:
        self.provider.refusing = lambda: OpenFailed("the simulated provider is full")

    def _live(self, source: Source) -> SimulatedSource:
        return self.provider.live[source.id]


class ExclusiveRig(SimulationRig):
    """The same, where there can be only one."""

    name = "the exclusive simulated source"
    exclusive = True


@asynccontextmanager
async def simulation(kind: type[SimulationRig] = SimulationRig) -> AsyncGenerator[SimulationRig]:
    yield kind()


class WebSocketRig(Rig):
    """A film server in this process, at the end of a line that can be cut."""

    name = "the WebSocket source"
    capabilities = frozenset({"playable", "reconnectable", "mortal"})
    quiet = 0.05

    def __init__(self, server: FilmServer, line: Line, port: int) -> None:
        self._server = server
        self._line = line
        self._opener = websocket_source(
            f"ws://127.0.0.1:{port}/film",
            options=WebSocketOptions(
                open_timeout=2.0, reply_timeout=2.0, terminate_timeout=0.5, close_timeout=0.5
            ),
        )

    @property
    def opener(self) -> SourceOpener:
        return self._opener

    def allocated(self) -> int:
        return len(self._server.statistics().sessions)

    def request(self, length: Length, /) -> ClipRequest:
        return scene(0, 5 if length == "short" else 100)

    def refused(self) -> ClipRequest:
        return scene(0, 0)

    async def break_connection(self, source: Source, /) -> None:
        self._line.cut()

    async def end(self, source: Source, /) -> None:
        for session in self._server._sessions.values():
            if session.id == source.id:
                session.end(CloseCode.GOING_AWAY, "enough")

    async def fall_silent(self) -> None:
        self._line.silent = True

    async def refuse_opens(self) -> None:
        self._line.down = True


@asynccontextmanager
async def film_server() -> AsyncGenerator[WebSocketRig]:
    async with trio.open_nursery() as nursery:
        server = FilmServer(film(), FilmServerOptions(build_time=0.0, grace=1.0, lifetime=30.0))
        line = Line(await nursery.start(server.serve))
        yield WebSocketRig(server, line, await nursery.start(line.serve))
        nursery.cancel_scope.cancel()


class LineRig(Rig):
    """The service that speaks in lines, at the end of a line that can be cut."""

    name = "the line source"
    capabilities = frozenset({"playable", "mortal"})
    quiet = 0.05

    def __init__(self, server: LineServer, line: Line, port: int) -> None:
        self._server = server
        self._line = line
        self._opener = line_source("127.0.0.1", port, close_timeout=0.3)

    @property
    def opener(self) -> SourceOpener:
        return self._opener

    def allocated(self) -> int:
        return len(self._server.sessions)

    def request(self, length: Length, /) -> ClipRequest:
        return ClipRequest({"frames": 5 if length == "short" else 500})

    def refused(self) -> ClipRequest:
        return ClipRequest({"frames": 0})

    async def break_connection(self, source: Source, /) -> None:
        self._line.cut()

    async def end(self, source: Source, /) -> None:
        self._server.end(source.id)

    async def fall_silent(self) -> None:
        self._line.silent = True

    async def refuse_opens(self) -> None:
        self._line.down = True


@asynccontextmanager
async def line_server() -> AsyncGenerator[LineRig]:
    async with trio.open_nursery() as nursery:
        server = LineServer()
        line = Line(await nursery.start(server.serve))
        yield LineRig(server, line, await nursery.start(line.serve))
        nursery.cancel_scope.cancel()
