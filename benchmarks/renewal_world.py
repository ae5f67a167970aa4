"""A randomized world of one renewal: an application, a provider, faults, and what must hold.

What happens in it follows from a seed: how the sources behave, what the application asks for and
when it changes its mind, what befalls the sources, how the block is left.  What must hold is
checked as the run goes on and at its end.

The story is drawn from a table of acts, `ACTS`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final, TypeVar, cast

import trio

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Failed, ReactorError, is_expected, leaves
from trio_reactor.events import Event
from trio_reactor.renewal import (
    Cleanup,
    ClipRequest,
    LossesUnknown,
    MediaReceiver,
    Pressure,
    Renewal,
    RenewalOptions,
    open_renewal,
)
from trio_reactor.renewal.events import (
    HandedOver,
    OnAir,
    RenewalClosed,
    RenewalFailed,
    Replaced,
    SourceClosed,
    SourceOpened,
    SourceOpening,
)
from trio_reactor.renewal.simulation import (
    SimulatedProvider,
    SimulatedSource,
    SimulationOptions,
)
from trio_reactor.renewal.source import AudioFrame, Predecessor, Source, VideoFrame
from trio_reactor.testing import (
    Always,
    AtMost,
    Ended,
    Fact,
    Fails,
    Fault,
    Invariant,
    Never,
    NothingAfter,
    Once,
    Plan,
    Simulation,
    Slow,
    Summary,
    Swapped,
    Twice,
    cancel_at,
    simulate,
)

from .renewal_account import Account
from .renewal_acts import ACTS, Defect

__all__ = ["World", "draw_faults", "play", "renewal_world"]

F = TypeVar("F", VideoFrame, AudioFrame)

MENU: Final[dict[str, tuple[Fault, ...]]] = {
    "open": (Slow(1.5), Fails("refused", after=0.5), Fails("lost"), Never()),
    "attach": (Slow(0.5), Fails("lost"), Never()),
    "media": (Slow(0.5), Fails("lost")),
    "request": (Slow(0.3), Fails("refused"), Never(), Fails("lost", after=0.3)),
    "reply": (Slow(0.5), Fails("timed-out"), Never()),
    "event": (Slow(0.3), Twice(), Swapped(0.3)),
    "connection": (Fails("lost", after=4.0),),
    "life": (Fails("lost", after=4.0),),
    "reconnect": (Slow(1.0), Fails("lost"), Never()),
    "close": (Slow(1.0), Fails("refused"), Never()),
    "media-close": (Slow(0.3), Fails("lost"), Never()),
    "losses": (Fails("lost"),),
}
RATE: Final = 8.0
"""Pictures a second: few, as each costs steps and one is like the other."""


def draw_faults(chance: random.Random) -> Plan:
    """What goes wrong in one run."""
    return Plan.draw(chance, MENU, rate=chance.choice((0.0, 0.03, 0.1, 0.2)), tries=12)


async def renewal_world(simulation: Simulation) -> None:
    """The scenario: one renewal from its beginning to its end."""
    await World(simulation).run()


def play(seeds: Iterable[int]) -> Summary:
    """Play it under each of these seeds.

    Raises:
        SimulationFailed: Something that must hold does not.
    """
    return simulate(renewal_world, seeds, faults=draw_faults)


class BodyError(Exception):
    """The application's own."""


def _draw_sources(chance: random.Random) -> SimulationOptions:
    return SimulationOptions(
        lifetime=chance.choice((1.5, 2.5, 2.5, 4.0, None)),
        cut_after=chance.choice((0.0, 0.5)),
        open_delay=chance.choice((0.05, 0.3)),
        build_delay=chance.uniform(0.0, 0.3),
        reply_delay=chance.choice((0.01, 0.01, 0.1)),
        frame_rate=RATE,
        width=4,
        height=4,
        sound=chance.random() < 0.25,
        sample_rate=100,
        reconnectable=chance.random() < 0.7,
        exclusive=chance.random() < 0.2,
        resumable=chance.random() < 0.3,
        stubborn=chance.random() < 0.3,
    )


def _draw_options(chance: random.Random, lifetime: float | None) -> RenewalOptions:
    lead = chance.choice((0.0, 0.7, 1.2, 1.4))
    if chance.random() < 0.03 and lifetime is not None:
        lead = lifetime  # no source is good enough then
    return RenewalOptions(
        lead=lead,
        jitter=0.5,
        handoff_grace=chance.choice((0.0, 0.2)),
        open_timeout=1.2,
        reconnect_timeout=0.8,
        reply_timeout=1.5,
        cleanup_timeout=1.5,
        accounting_timeout=0.5,
        first_pause=0.1,
        max_pause=0.5,
        max_failures=chance.choice((2, 8, 8, 16)),
        stable_after=1.0,
        max_frames=chance.choice((8, 1_000, 1_000, 1_000, 1_000)),
        max_clips=chance.choice((4, 100, 100)),
        retention=chance.choice(("bounded", "bounded", "complete")),
        max_sessions=chance.choice((None, None, None, None, 4)),
        retained_successful_cleanups=chance.choice((0, 2, 64)),
        max_unresolved_cleanups=chance.choice((2, 3, 16, 16)),
    )


class _AtFacts(Invariant):
    """A condition on the state that holds whenever one of these is recorded."""

    def __init__(self, name: str, holds: Callable[[], bool], *what: str) -> None:
        super().__init__(name)
        self._holds = holds
        self._what = what

    def see(self, fact: Fact, /) -> str | None:
        return None if fact.what not in self._what or self._holds() else f"not at {fact.what!r}"


class _Plain:
    """A source without clips and media: it lives, and says when it does not."""

    def __init__(self, source: SimulatedSource) -> None:
        self._source = source
        self.id = source.id
        self.lifetime = source.lifetime
        self.exclusive = source.exclusive
        self.resumption = source.resumption

    async def wait_lost(self) -> None:
        await self._source.wait_lost()

    async def close(self) -> Cleanup:
        return await self._source.close()


class World:
    """One renewal and all around it."""

    def __init__(self, simulation: Simulation) -> None:
        chance = simulation.random
        self.simulation = simulation
        self.chance = chance
        sources = _draw_sources(chance)
        self.options = _draw_options(chance, sources.lifetime)
        self.account = Account(self.options)
        self.provider = SimulatedProvider(
            simulation.world, sources, faults=simulation.faults, record=self._record
        )
        self.plain = chance.random() < 0.12
        self.channel = EventChannel(world=simulation.world)
        self.renewal: Renewal | None = None
        self.outside = trio.CancelScope()
        """Around the block."""
        self.others: trio.Nursery | None = None
        """Of the application, beside the block's body."""
        self.requests = 0
        self.defects: list[Defect] = []
        self.looking = trio.CancelScope()
        """Cancelled, the viewer looks away for a while."""
        self.listens = sources.sound and chance.random() < 0.8

    # ------------------------------------------------------------------------------- the scenario

    async def run(self) -> None:
        """Play it, and judge it."""
        simulation, channel = self.simulation, self.channel
        simulation.check(*self._promises())
        failure: BaseException | None = None
        async with trio.open_nursery() as background:
            background.start_soon(self._hear, channel.subscribe(capacity=4_096))
            try:
                with simulation.cancelling(), self.outside:
                    async with trio.open_nursery() as self.others:
                        await self._block()
                        self.others.cancel_scope.cancel()
            except Exception as raised:  # noqa: BLE001 - judged below
                failure = raised
            if self.renewal is not None:
                self._drain(self.renewal)
            simulation.record("gone")
            await trio.testing.wait_all_tasks_blocked()
            channel.end()
        self._judge(failure)

    async def _block(self) -> None:
        async with open_renewal(
            self._open, options=self.options, events=self.channel, world=self.simulation.world
        ) as self.renewal:
            others = self.others
            assert others is not None
            others.start_soon(self._watch, self.renewal)
            others.start_soon(self._feed, self.renewal)
            if self.listens:
                others.start_soon(self._listen, self.renewal)
            await self._act()

    async def _act(self) -> None:
        """Do one thing after the other, and leave."""
        chance = self.chance
        names, weights = list(ACTS), [weight for weight, _ in ACTS.values()]
        for _ in range(chance.randint(3, 16)):
            await trio.sleep(chance.uniform(0.0, 1.5))
            name = chance.choices(names, weights)[0]
            self.simulation.record(f"act: {name}")
            assert self.others is not None
            await ACTS[name][1](self)
        match chance.randrange(6):
            case 0:
                raise BodyError
            case 1:
                assert self.renewal is not None
                await self.renewal.close()
            case 2:
                self.outside.cancel()
                await trio.sleep_forever()
            case _:
                await trio.sleep(chance.uniform(0.0, 2.0))

    def later(self, command: Callable[[], Awaitable[object]]) -> None:
        """Ask for it beside, perhaps with little patience, and bear whatever comes of it."""
        chance = self.chance
        patience: AbstractContextManager[trio.CancelScope | None] = contextlib.nullcontext()
        match chance.randrange(4):
            case 0:
                patience = trio.move_on_after(chance.choice((0.0, 0.005, 0.1, 0.6)))
            case 1:
                patience = cancel_at(chance.randint(0, 4))
            case _:
                pass

        async def ask() -> None:
            try:
                with patience as scope:
                    await command()
                if scope is not None and scope.cancelled_caught:
                    self.simulation.record("cancelled")
            except ReactorError as failure:
                self.simulation.record(f"told {type(failure).__name__}")
            except ExceptionGroup as failure:  # what close found
                self.simulation.record("told ExceptionGroup")
                if not _ours(failure):
                    raise
            except Defect:
                self.simulation.record("told Defect")

        assert self.others is not None
        self.others.start_soon(ask)

    # -------------------------------------------------------------------------------- the sources

    @asynccontextmanager
    async def _open(self, predecessor: Predecessor) -> AsyncGenerator[Source]:
        before = predecessor.source
        assert predecessor.resumption is None or predecessor.context is None
        if predecessor.resumption is not None:
            assert before is not None
            assert predecessor.resumption == f"after-{before.rpartition('-')[2]}"
        if self.provider.options.exclusive:
            assert not self.provider.live, "an exclusive source is still there"
        async with self.provider(predecessor) as source:
            assert isinstance(source, SimulatedSource)
            show = source._player._show

            def shown(clip: str, number: int, index: int) -> None:
                self.account.shown[clip] += 1
                show(clip, number, index)

            source._player._show = shown
            yield _Plain(source) if self.plain else source

    def a_source(self) -> SimulatedSource | None:
        """One that lives, if one does; mostly the older, which is on air."""
        live = list(self.provider.live.values())
        return None if not live else live[-1] if self.chance.random() < 0.3 else live[0]

    def a_clip(self) -> str | None:
        """One that a source has, if one has any."""
        clips = [clip.id for source in self.provider.live.values() for clip in source.clips]
        return self.chance.choice(clips) if clips else None

    def _record(self, what: str, /, **about: object) -> None:
        request = about.pop("request", None)
        if what == "dispatched":
            assert isinstance(request, dict)
            about["request"] = request["number"]
        self.simulation.record(what, **about)
        if what == "dispatched":
            self.account.dispatch(cast("int", about["request"]), cast("str", about["source"]))

    # ---------------------------------------------------------------------------- the application

    async def request(self, position: int | None = None) -> None:
        """Ask for a clip, and account for the answer."""
        assert self.renewal is not None
        self.requests += 1
        number = self.requests
        clip = ClipRequest({"frames": self.chance.randint(1, 4), "number": number})
        try:
            accepted = await self.renewal.enqueue(clip, position=position)
        except ReactorError as failure:
            self.account.refused(number, failure)
            raise
        except trio.Cancelled:
            self.account.gave_up(number)
            raise
        self.account.answered(number, accepted.clip)

    async def _feed(self, renewal: Renewal) -> None:
        while True:
            with contextlib.suppress(ReactorError):
                state = renewal.state
                following = state.next if state.next and state.next.phase == "prepared" else None
                source = following or state.on_air
                if source is not None and len(source.clips) < 2:
                    with trio.move_on_after(self.chance.choice((0.01, 5.0, 5.0))):
                        await self.request()
            await trio.sleep(0.3)

    async def _watch(self, renewal: Renewal) -> None:
        """Read every picture; now and then look away."""
        with contextlib.suppress(Failed):
            while True:
                with trio.CancelScope() as self.looking:
                    async for frame in renewal.video:
                        self.account.see(frame)
                    return
                await trio.sleep(self.chance.uniform(0.0, 3.0))

    async def _listen(self, renewal: Renewal) -> None:
        with contextlib.suppress(Failed):
            async for frame in renewal.audio:
                self.account.hear(frame)

    def _drain(self, renewal: Renewal) -> None:
        """Read what is left when all is over."""
        _read(renewal.video, self.account.see)
        if self.listens:
            _read(renewal.audio, self.account.hear)

    # ------------------------------------------------------------------------------- the promises

    def _promises(self) -> tuple[Invariant, ...]:
        provider = self.provider
        return (
            AtMost(2, "opened", until="left", by="source"),
            AtMost(1, "on-air", until="off-air", by="source"),
            Ended("opened", until="left", by="source", within="gone"),
            Once("closing", by="source"),
            Once("dispatched", by="request"),
            Once("on-air", by="source"),
            Once("source-closed", by="source"),
            Once("over"),
            NothingAfter("source-closed", "on-air", "off-air", by="source"),
            Always("two sources are owned at most", lambda: len(provider.live) <= 2),
            _AtFacts("nothing is acquired after close began", self._acquiring, "opening"),
            _AtFacts("clean-ups have room", self._has_room, "opening", "opened", "left"),
        )

    def _acquiring(self) -> bool:
        return self.renewal is None or not self.renewal._owner.stopping.is_set

    def _has_room(self) -> bool:
        limit = self.options.session_limit
        if limit is not None and self.provider.opened > limit:
            return False
        if self.renewal is None or self.options.retention == "complete":
            return True
        ledger = self.renewal._chain.ledger
        return ledger.outstanding + ledger.unresolved <= self.options.max_unresolved_cleanups

    async def _hear(self, events: Subscription[Event]) -> None:
        """Tell the invariants and the account what the renewal says."""
        record, on_air = self.simulation.record, 0
        with events:
            async for envelope in events:
                event = envelope.event
                self.account.take(event)
                match event:
                    case SourceOpening(source=source):
                        record("attempt", source=source.incarnation)
                    case SourceOpened(source=source):
                        record("ready", source=source.incarnation)
                    case OnAir(source=source):
                        on_air = source.incarnation
                        record("on-air", source=on_air)
                        self._check_canvas(source.id, on_air)
                    case HandedOver(old=old, gap=0.0) | Replaced(old=old):
                        on_air = 0
                        record("off-air", source=old.incarnation)
                        record("handed over" if isinstance(event, HandedOver) else "replaced")
                    case SourceClosed(source=source):
                        if source.incarnation == on_air:
                            record("off-air", source=on_air)
                        record("source-closed", source=source.incarnation)
                    case RenewalClosed() | RenewalFailed():
                        record("over")
                        record(
                            "over: closed" if isinstance(event, RenewalClosed) else "over: failed"
                        )
                    case _:
                        pass

    def _check_canvas(self, identity: str | None, number: int) -> None:
        source = self.provider.live.get(identity or "")
        if source is not None and not self.plain:
            assert source.canvas in self.account.canvases(number), source.canvas

    def _judge(self, failure: BaseException | None) -> None:
        told = [] if failure is None else list(leaves(failure))
        for defect in self.defects:
            assert told.count(defect) == 1, f"{defect!r} was told {told.count(defect)} times"
        for leaf in told:
            ours = isinstance(leaf, BodyError | Defect) or is_expected(leaf)
            if not ours:
                raise leaf
        pressure: Pressure | None = None
        if self.renewal is not None and self.renewal._owner.failure is None:
            with contextlib.suppress(LossesUnknown):
                pressure = self.renewal.pressure()
        per_picture = None
        if self.listens:
            per_picture = round(self.provider.options.sample_rate / RATE) * 2
        self.account.settle(pressure, per_picture)


def _read(output: MediaReceiver[F], take: Callable[[F], None]) -> None:
    with contextlib.suppress(trio.EndOfChannel, trio.WouldBlock, Failed):
        while True:
            take(output.receive_nowait())


def _ours(failure: BaseException) -> bool:
    return all(isinstance(leaf, Defect) or is_expected(leaf) for leaf in leaves(failure))
