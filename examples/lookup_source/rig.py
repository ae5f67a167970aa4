"""What the conformance suite needs of the other side of a lookup source."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from trio_reactor.renewal import SourceOpener
from trio_reactor.renewal.conformance import Rig
from trio_reactor.renewal.source import Source

from .server import LookupServer
from .source import LookupSource, lookup_source

__all__ = ["LookupRig", "lookup_rig"]


# --8<-- [start:rig]
class LookupRig(Rig):
    """A server of our own, in this process, that does what a case needs."""

    name = "the lookup source"
    capabilities = frozenset({"mortal", "announcing"})
    quiet = 0.05

    def __init__(self, server: LookupServer, port: int) -> None:
        self._server = server
        self._opener = lookup_source("127.0.0.1", port)

    @property
    def opener(self) -> SourceOpener[LookupSource]:
        """Opens a source at this server."""
        return self._opener

    def allocated(self) -> int:
        """How many sessions the server has."""
        return len(self._server.sessions)

    async def announce_end(self, source: Source, seconds: float, /) -> None:
        """Have the server tell that a session will end."""
        await self._server.end_in(source.id, seconds)

    async def end(self, source: Source, /) -> None:
        """Have the server end a session."""
        self._server.end(source.id)

    async def fall_silent(self) -> None:
        """Have the server answer nothing any more."""
        self._server.silent = True

    async def refuse_opens(self) -> None:
        """Have the server give no more sessions."""
        self._server.full = True


@asynccontextmanager
async def lookup_rig() -> AsyncGenerator[LookupRig]:
    """A server, and its rig."""
    async with trio.open_nursery() as nursery:
        server = LookupServer({})
        yield LookupRig(server, await nursery.start(server.serve))
        nursery.cancel_scope.cancel()


# --8<-- [end:rig]
