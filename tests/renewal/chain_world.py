"""A whole chain in a simulation: an application, a provider, faults, and what must hold."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import trio

from trio_reactor.channel import EventChannel
from trio_reactor.errors import Failed, ReactorError, is_expected
from trio_reactor.events import Event
from trio_reactor.renewal import (
    ClipRequest,
    LossesUnknown,
    Renewal,
    RenewalOptions,
    SequenceMember,
    Sequences,
    SourceStatus,
    open_renewal,
)
from trio_reactor.renewal.engine.sequences import (
    Indeterminate,
    MemberIndeterminate,
    Open,
    Sealing,
)
from trio_reactor.renewal.events import (
    ClipChanged,
    ClipLost,
    HandedOver,
    OnAir,
    RenewalClosed,
    RenewalFailed,
    Replaced,
    SequenceRetired,
    SequenceSealed,
    SourceClosed,
    SourceOpened,
    SourceOpening,
)
from trio_reactor.renewal.simulation import SimulatedProvider, SimulationOptions, read_stamp
from trio_reactor.renewal.source import ClipEnded, ClipFailed, VideoFrame
from trio_reactor.testing import (
    Always,
    AtMost,
    Ended,
    Fails,
    Never,
    NothingAfter,
    Once,
    Plan,
    Simulation,
    Slow,
    Swapped,
    Twice,
)

__all__ = ["Viewer", "bound_world", "draw_faults", "world"]

OPTIONS = RenewalOptions(
    lead=6.0,
    jitter=0.5,
    handoff_grace=0.2,
    open_timeout=4.0,
    reconnect_timeout=2.0,
    cleanup_timeout=3.0,
    accounting_timeout=1.0,
    first_pause=0.2,
    max_pause=1.0,
    max_failures=12,
    stable_after=4.0,
    max_frames=10_000,
    retention="bounded",
    max_unresolved_cleanups=64,
)


def draw_faults(chance: random.Random) -> Plan:
    """What goes wrong in one run."""
    return Plan.draw(
        chance,
        {
            "open": (Slow(3.0), Fails("refused", after=1.0), Fails("lost"), Never()),
            "attach": (Slow(1.0), Fails("lost"), Never()),
            "media": (Slow(1.0), Fails("lost")),
            "request": (Slow(0.5), Fails("refused"), Never()),
            "reply": (Slow(1.0), Fails("timed-out"), Never()),
            "event": (Slow(0.3), Twice(), Swapped(0.3)),
            "connection": (Fails("lost", after=20.0),),
            "life": (Fails("lost", after=20.0),),
            "reconnect": (Slow(1.5), Fails("lost"), Never()),
            "close": (Slow(2.0), Fails("refused"), Never()),
            "media-close": (Slow(0.5), Fails("lost"), Never()),
        },
        rate=chance.choice((0.0, 0.05, 0.15, 0.3)),
        tries=24,
    )


class Viewer:
    """Counts what was asked for, what came and what is said to be lost."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.received: Counter[str] = Counter()
        self.expected: dict[str, int] = {}
        self.over: Counter[str] = Counter()
        self.lost: dict[str, ClipLost] = {}
        self.last: dict[int, tuple[int, int]] = {}
        self.sources: list[int] = []

    async def watch(self, renewal: Renewal) -> None:
        """Read every picture; they come in order."""
        async for frame in renewal.video:
            self._see(frame)

    def drain(self, renewal: Renewal) -> None:
        """Read what is left when all is over."""
        with contextlib.suppress(trio.EndOfChannel, Failed):
            while True:
                self._see(renewal.video.receive_nowait())

    def _see(self, frame: VideoFrame) -> None:
        stamp = read_stamp(frame)
        assert frame.clip is not None
        self.received[frame.clip] += 1
        if not self.sources or self.sources[-1] != stamp.source:
            assert stamp.source not in self.sources, "an old source came back"
            self.sources.append(stamp.source)
        before = self.last.get(stamp.source, (0, -1))
        assert (stamp.clip, stamp.frame) > before, (stamp, before)
        self.last[stamp.source] = (stamp.clip, stamp.frame)

    def hear(self, event: Event) -> None:
        """Take what is said of clips."""
        match event:
            case ClipChanged(change=ClipEnded(clip=clip, frames=frames)):
                self.over[clip] += 1
                assert frames is not None
                self.expected[clip] = frames
            case ClipChanged(change=ClipFailed(clip=clip)):
                self.over[clip] += 1
            case ClipLost(clip=clip):
                assert clip not in self.lost, "lost twice"
                self.lost[clip] = event
            case _:
                pass


async def _say(channel: EventChannel, simulation: Simulation, viewer: Viewer) -> None:
    """Record what a chain says, for the invariants."""
    on_air: set[int] = set()
    with channel.subscribe(capacity=65_536) as events:
        async for envelope in events:
            event = envelope.event
            viewer.hear(event)
            match event:
                case SourceOpening(source=source):
                    simulation.record("attempt", source=source.incarnation)
                case SourceOpened(source=source):
                    simulation.record("ready", source=source.incarnation)
                case OnAir(source=source):
                    on_air.add(source.incarnation)
                    simulation.record("on-air", source=source.incarnation)
                case HandedOver(old=old, gap=0.0) | Replaced(old=old):
                    on_air.discard(old.incarnation)
                    simulation.record("off-air", source=old.incarnation)
                case SequenceSealed(sequence=sequence, source=source):
                    simulation.record("sealed", source=source.incarnation, sequence=sequence)
                case SequenceRetired(sequence=sequence, source=source):
                    simulation.record("sequence-over", source=source.incarnation, sequence=sequence)
                case SourceClosed(source=source):
                    if source.incarnation in on_air:  # an exclusive one, or at the end
                        simulation.record("off-air", source=source.incarnation)
                    simulation.record("source-closed", source=source.incarnation)
                case RenewalClosed() | RenewalFailed():
                    simulation.record("over", how=type(event).__name__)
                case _:
                    pass


def _promises(provider: SimulatedProvider) -> tuple[object, ...]:
    return (
        AtMost(2, "opened", until="left", by="source"),
        AtMost(1, "on-air", until="off-air", by="source"),
        Ended("opened", until="left", by="source", within="gone"),
        Once("closing", by="source"),
        Once("on-air", by="source"),
        Once("source-closed", by="source"),
        Once("over"),
        NothingAfter("over", "attempt", "ready", "on-air", "off-air", "source-closed"),
        NothingAfter("stopping", "opening"),
        NothingAfter("source-closed", "on-air", "off-air", by="source"),
        NothingAfter("source-closed", "sealed", "sequence-over", by="source"),
        Always("two sources are owned at most", lambda: len(provider.live) <= 2),
    )


async def world(simulation: Simulation) -> Viewer:
    """One session of some minutes: what happens to it is the seed's."""
    viewer, lost = await _session(simulation, bound=False)
    _adds_up(simulation, viewer, lost)
    return viewer


async def bound_world(simulation: Simulation) -> None:
    """The same with requests that are bound: to the clips they continue, and to sequences."""
    await _session(simulation, bound=True)


async def _session(simulation: Simulation, *, bound: bool) -> tuple[Viewer, int | None]:
    chance = simulation.random
    provider = SimulatedProvider(
        simulation.world,
        SimulationOptions(
            lifetime=chance.choice((12.0, 20.0, None)),
            sound=chance.random() < 0.2,
            reconnectable=chance.random() < 0.8,
            exclusive=chance.random() < 0.2,
            stubborn=chance.random() < 0.3,
            build_delay=chance.uniform(0.0, 1.0),
            cut_after=chance.choice((0.0, 1.0)),
            frame_rate=10.0,
        ),
        faults=simulation.faults,
        record=simulation.record,
    )
    channel = EventChannel(world=simulation.world)
    viewer = Viewer(simulation)
    simulation.check(*_promises(provider))  # type: ignore[arg-type]
    lost: int | None = None
    renewal: Renewal | None = None

    async with trio.open_nursery() as background:
        background.start_soon(_say, channel, simulation, viewer)
        await trio.testing.wait_all_tasks_blocked()
        try:
            with simulation.cancelling() as scope:
                async with open_renewal(
                    provider, options=OPTIONS, events=channel, world=simulation.world
                ) as renewal:
                    try:
                        await _application(
                            simulation, provider, renewal, viewer, scope, bound=bound
                        )
                    finally:
                        if renewal._owner.stopping.is_set:
                            simulation.record("stopping")
        except BaseException as failure:
            left = (
                failure.split(trio.Cancelled)[1]
                if isinstance(failure, BaseExceptionGroup)
                else failure
            )
            if isinstance(left, trio.Cancelled) or (left is not None and not is_expected(left)):
                raise
            simulation.record("failed")
        else:
            try:
                lost = None if renewal is None else renewal.pressure().frames_lost
            except LossesUnknown:
                lost = None
        if renewal is not None:
            viewer.drain(renewal)
            _are_settled(renewal.sequences)
        simulation.record("gone")
        await trio.testing.wait_all_tasks_blocked()
        channel.end()
    return viewer, lost


async def _application(
    simulation: Simulation,
    provider: SimulatedProvider,
    renewal: Renewal,
    viewer: Viewer,
    scope: trio.CancelScope,
    *,
    bound: bool,
) -> None:
    chance = simulation.random

    async def feed() -> None:
        while True:
            state = renewal.state
            source = state.next if state.next and state.next.phase == "Prepared" else state.on_air
            if source is None or len(source.clips) >= 2:
                await trio.sleep(0.2)
                continue
            try:
                with trio.move_on_after(chance.choice((0.02, 5.0))):
                    await renewal.enqueue(
                        ClipRequest(
                            {"frames": chance.randint(1, 20)},
                            _continued(chance, source) if bound else None,
                        ),
                        sequence=_member(chance) if bound else None,
                    )
            except ReactorError as failure:
                simulation.record("refused", failure=failure)
                await trio.sleep(0.2)

    async def disturb() -> None:
        while True:
            await trio.sleep(chance.uniform(2, 20))
            if not provider.live:
                continue
            source = chance.choice(list(provider.live.values()))
            match chance.randrange(7):
                case 0:
                    source.die()
                case 1:
                    source.crash(OSError("gone"))
                case 2:
                    source.end_media()
                case 3:
                    source.go_away(chance.uniform(0, 10))
                case 4:
                    source.drop(chance.randint(1, 5))
                case 5:
                    source.lose_connection(OSError("cable"))
                case _:
                    if source.clips:
                        source.forget(source.clips[-1].id)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(viewer.watch, renewal)
        nursery.start_soon(feed)
        if chance.random() < 0.7:
            nursery.start_soon(disturb)
        await trio.sleep(chance.uniform(5, 60))
        match chance.randrange(4):
            case 0:
                await renewal.stop_renewal()
                await trio.sleep(chance.uniform(0, 20))
            case 1:
                await renewal.close()
            case 2:
                scope.cancel()
            case _:
                pass
        nursery.cancel_scope.cancel()


def _continued(chance: random.Random, source: SourceStatus) -> str | None:
    """Now and then a clip that a request continues, and sometimes one of nobody."""
    if chance.random() < 0.8:
        return None
    return chance.choice([clip.id for clip in source.clips] or ["nobody's"])


def _member(chance: random.Random) -> SequenceMember | None:
    """Now and then a place in one of a few sequences, most of which are sealed soon."""
    if chance.random() < 0.6:
        return None
    return SequenceMember(f"sequence-{chance.randrange(40)}", final=chance.random() < 0.6)


def _are_settled(sequences: Sequences) -> None:
    """Once all is closed, no sequence is open, and each that is doubted says so."""
    for each in sequences.snapshots():
        assert not isinstance(each.phase, Open | Sealing), each
        assert each.pending == 0, each
        doubted = each.count(MemberIndeterminate) > 0
        assert isinstance(each.phase, Indeterminate) == doubted, each


def _adds_up(simulation: Simulation, viewer: Viewer, lost: int | None) -> None:
    """Every picture of every clip that was told of is accounted for, where that can be told."""
    for clip, said in viewer.lost.items():
        if said.why == "source-lost":
            assert said.frames_received == viewer.received[clip], clip
    missing = 0
    for clip, frames in viewer.expected.items():
        assert viewer.received[clip] <= frames, clip
        if clip not in viewer.lost:
            missing += frames - viewer.received[clip]
    simulation.record("adds-up", missing=missing, lost=lost, clips_lost=len(viewer.lost))
    if lost is not None:
        # What a clip that was lost was to give was not all dropped: it never came to that.
        assert missing <= lost
        if not viewer.lost:
            assert missing == lost
