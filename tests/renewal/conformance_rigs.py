"""The other sides of the sources that are put to the conformance suite."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from broken_line import Line
from websocket_story import film, scene

from examples.film_server.options import FilmServerOptions
from examples.film_server.server import FilmServer
from examples.line_source.server import LineServer
from examples.line_source.source import line_source
from trio_reactor.renewal import AllocationRecord, Cleanup, ClipRequest, OpenFailed, Predecessor
from trio_reactor.renewal.conformance import Length, Rig
from trio_reactor.renewal.simulation import SimulatedProvider, SimulatedSource, SimulationOptions
from trio_reactor.renewal.source import Source, SourceOpener
from trio_reactor.renewal.websocket import (
    WebSocketOptions,
    WebSocketSource,
    websocket_source,
    websocket_terminate,
)
from trio_reactor.renewal.websocket.wire import CloseCode
from trio_reactor.testing import Fails, Faults, Never, Plan
from trio_reactor.world import SeededWorld

SILENCE = Plan(
    {
        place: dict.fromkeys(range(1, 100), Never())
        for place in ("open", "request", "reconnect", "close", "input")
    }
)
"""Nothing is answered."""

TOKEN = "the token of the rig"
"""What admits to the film server, and is not to be recorded."""


class SimulationRig(Rig):
    """The provider of simulated sources, on a virtual clock."""

    name = "the simulated source"
    # Whether it is exclusive, and what it leaves, it can always be asked.
    capabilities = frozenset(
        {
            "playable",
            "reconnectable",
            "exclusive",
            "resumable",
            "recordable",
            "mortal",
            "receptive",
        }
    )
    exclusive = False

    def __init__(self) -> None:
        self.provider = SimulatedProvider(
            SeededWorld(1), SimulationOptions(resumable=True, exclusive=self.exclusive)
        )

    @property
    def opener(self) -> SourceOpener:
        return self.provider

    def allocated(self) -> int:
        return len(self.provider.allocated)

    def request(self, length: Length, /) -> ClipRequest:
        return ClipRequest({"frames": 5 if length == "short" else 500})

    def refused(self) -> ClipRequest:
        return ClipRequest({"frames": 0})

    def heard(self, source: Source, /) -> bytes:
        return b"".join(data for by, data in self.provider.heard if by == source.id)

    async def leave_behind(self) -> AllocationRecord:
        return self.provider.leave_behind()

    async def terminate(self, record: AllocationRecord, /) -> Cleanup:
        return await self.provider.terminate(record)

    async def break_connection(self, source: Source, /) -> None:
        self._live(source).lose_connection(OSError("the cable"))

    async def end(self, source: Source, /) -> None:
        self._live(source).die()

    async def fall_silent(self) -> None:
        faults = self.provider.faults = Faults(SILENCE)
        for source in self.provider.live.values():
            source.faults = faults

    async def refuse_input(self, source: Source, /) -> None:
        self._live(source).faults = Faults(Plan({"input": {1: Fails("refused")}}))

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
    capabilities = frozenset({"playable", "reconnectable", "recordable", "mortal"})
    secrets = (TOKEN,)
    quiet = 0.05

    def __init__(self, server: FilmServer, line: Line, port: int) -> None:
        self._server = server
        self._line = line
        url = f"ws://127.0.0.1:{port}/film"
        options = WebSocketOptions(
            open_timeout=2.0, reply_timeout=2.0, terminate_timeout=0.5, close_timeout=0.5
        )
        self._opener = websocket_source(url, token=TOKEN, options=options)
        self._terminate = websocket_terminate(url, token=TOKEN, options=options)
        self._left_behind = 0

    @property
    def opener(self) -> SourceOpener:
        return self._opener

    def allocated(self) -> int:
        return len(self._server.statistics().sessions)

    def request(self, length: Length, /) -> ClipRequest:
        return scene(0, 5 if length == "short" else 100)

    def refused(self) -> ClipRequest:
        return scene(0, 0)

    async def leave_behind(self) -> AllocationRecord:
        # Nothing that is sent to end it arrives any more, as if its process had been killed.
        self._left_behind += 1
        key, intended_at = f"left-behind-{self._left_behind}", time.time()
        async with self._opener(Predecessor(key=key)) as source:
            assert isinstance(source, WebSocketSource)
            assert source.lifetime is not None
            ends_by = time.time() + source.lifetime
            record = AllocationRecord(
                key, "rig", intended_at, source.id, source.allocation, ends_by
            )
            self._line.down = True
            self._line.cut()
        self._line.down = False
        return record

    async def terminate(self, record: AllocationRecord, /) -> Cleanup:
        return await self._terminate(record)

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
        options = FilmServerOptions(token=TOKEN, build_time=0.0, grace=20.0, lifetime=30.0)
        server = FilmServer(film(), options)
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
