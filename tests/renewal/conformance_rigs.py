"""The other sides of the sources that are put to the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from trio_reactor.renewal import ClipRequest, OpenFailed
from trio_reactor.renewal.conformance import Length, Rig
from trio_reactor.renewal.simulation import SimulatedProvider, SimulatedSource, SimulationOptions
from trio_reactor.renewal.source import Source, SourceOpener
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
