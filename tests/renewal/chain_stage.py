"""The stage on which the tests of the chain play: a simulated provider, and all that is said."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import trio
from trio.testing import wait_all_tasks_blocked

from trio_reactor.channel import EventChannel
from trio_reactor.events import Envelope, Event
from trio_reactor.renewal import Cleanup, ClipRequest, Renewal, RenewalOptions, open_renewal
from trio_reactor.renewal.events import ClipChanged
from trio_reactor.renewal.simulation import SimulatedProvider, SimulationOptions, Stamp, read_stamp
from trio_reactor.renewal.source import Predecessor, Source, SourceOpener
from trio_reactor.testing import Faults, Plan
from trio_reactor.world import SeededWorld

E = TypeVar("E", bound=Event)


def scene(frames: int = 25, **more: Any) -> ClipRequest:
    return ClipRequest({"frames": frames, **more})


class Stage:
    """A renewal on a simulated provider, with everything it said so far."""

    def __init__(
        self,
        *,
        faults: dict[str, Any] | None = None,
        renewal: dict[str, Any] | None = None,
        **simulation: Any,
    ) -> None:
        self.world = SeededWorld(1)
        self.channel = EventChannel(world=self.world)
        self.provider = SimulatedProvider(
            self.world,
            SimulationOptions(**({"sound": False} | simulation)),
            faults=Faults(Plan(faults or {})),
        )
        self.options = RenewalOptions(
            **({"jitter": 0.0, "lead": 10.0, "pause_jitter": 0.0} | (renewal or {}))
        )
        self._envelopes: list[Envelope[Event]] = []
        self._subscription = self.channel.subscribe(capacity=65_536)
        self.stamps: list[Stamp] = []
        self.at: list[float] = []

    def open(
        self,
        opener: SourceOpener | None = None,
        check: Callable[[Source], Awaitable[object]] | None = None,
    ) -> AbstractAsyncContextManager[Renewal]:
        return open_renewal(
            opener or self.provider,
            check=check,
            options=self.options,
            events=self.channel,
            world=self.world,
        )

    @property
    def envelopes(self) -> list[Envelope[Event]]:
        """Everything that was said so far."""
        with contextlib.suppress(trio.WouldBlock):
            while True:
                self._envelopes.append(self._subscription.receive_nowait())
        return self._envelopes

    async def watch(self, renewal: Renewal) -> None:
        async for frame in renewal.video:
            self.stamps.append(read_stamp(frame))
            self.at.append(trio.current_time())

    def said(self, *kinds: type[E]) -> list[E]:
        return [each.event for each in self.envelopes if isinstance(each.event, kinds)]  # type: ignore[misc]

    @property
    def story(self) -> list[str]:
        """The names of what was said, clips apart."""
        return [
            type(each.event).__name__
            for each in self.envelopes
            if not isinstance(each.event, ClipChanged)
        ]


class Token:
    """The least that a source can be: no clips, no media, no word of its end."""

    def __init__(self, identity: str, lifetime: float | None = 60.0) -> None:
        self.id = identity
        self.lifetime = lifetime
        self.closes = 0

    async def close(self) -> Cleanup:
        await trio.lowlevel.checkpoint()
        self.closes += 1
        return Cleanup.of(self.id, allocation="owned", termination="confirmed", connection="closed")


def tokens(*given: Token) -> SourceOpener:
    """Opens these, in order."""
    left = iter(given)

    @asynccontextmanager
    async def opener(_: Predecessor) -> AsyncGenerator[Source]:
        await trio.lowlevel.checkpoint()
        yield next(left)

    return opener


async def until(condition: Callable[[], bool], *, within: float = 120.0) -> None:
    """Let virtual time pass until it is so."""
    deadline = trio.current_time() + within
    while not condition():
        assert trio.current_time() < deadline, "it never became so"
        await trio.sleep(0.05)
    await wait_all_tasks_blocked()
