"""A randomized world of one renewal: an application, a provider, faults, and what must hold.

What happens in it follows from a seed: how the sources behave, what the application asks for and
when it changes its mind, what befalls the sources, how the block is left.  What must hold is
checked as the run goes on and at its end.

The story is drawn from a table of acts, `ACTS`.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final, TypeVar, cast

import trio

from trio_reactor.channel import EventChannel, Subscription
from trio_reactor.errors import Expired, Failed, Lost, ReactorError, Retired, is_expected, leaves
from trio_reactor.events import Event
from trio_reactor.renewal import (
    Accepted,
    Allocations,
    Borrow,
    Cleanup,
    ClipRequest,
    InputOverflow,
    LossesUnknown,
    MediaReceiver,
    OpenFailed,
    Pressure,
    Renewal,
    RenewalOptions,
    SequenceMember,
    Source,
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
    SimulatedJournal,
    SimulatedProvider,
    SimulatedSource,
    SimulationOptions,
)
from trio_reactor.renewal.source import (
    AudioFrame,
    Commit,
    GoingAway,
    Json,
    Predecessor,
    VideoFrame,
)
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
from .renewal_requests import Asked, source_of
from .renewal_uses import Loans

__all__ = ["World", "draw_faults", "play", "renewal_world"]

F = TypeVar("F", VideoFrame, AudioFrame)

MENU: Final[dict[str, tuple[Fault, ...]]] = {
    "open": (Slow(1.5), Fails("refused", after=0.5), Fails("lost"), Never()),
    "attach": (Slow(0.5), Fails("lost"), Never()),
    "media": (Slow(0.5), Fails("lost"), Never()),
    "request": (Slow(0.3), Fails("refused"), Never(), Fails("lost", after=0.3)),
    "reply": (Slow(0.5), Fails("timed-out"), Never()),
    "event": (Slow(0.3), Twice(), Swapped(0.3)),
    "connection": (Fails("lost", after=4.0),),
    "life": (Fails("lost", after=4.0),),
    "reconnect": (Slow(1.0), Fails("lost"), Never()),
    "close": (Slow(1.0), Fails("refused"), Never()),
    "media-close": (Slow(0.3), Fails("lost"), Never()),
    "losses": (Fails("lost"),),
    "input": (Slow(0.3), Fails("refused"), Never(), Fails("lost")),
    "check": (Slow(0.5), Fails("lost"), Never()),
    "journal": (Slow(0.3), Never()),
    "record": (Fails("lost"), Fails("refused"), Fails("lost", done=True)),
    "terminate": (Slow(0.3), Fails("lost"), Never()),
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
        outlives=chance.random() < 0.2,
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
        check_timeout=0.4,
        first_pause=0.1,
        max_pause=0.5,
        max_failures=chance.choice((2, 8, 8, 16)),
        stable_after=1.0,
        max_frames=chance.choice((8, 1_000, 1_000, 1_000, 1_000)),
        max_clips=chance.choice((4, 100, 100)),
        max_input_bytes=chance.choice((8, 1_000)),
        max_sequences=chance.choice((2, 2, 2, 256)),
        max_members=chance.choice((2, 256)),
        max_queue=chance.choice((2, 256, 256)),
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


class _NotLent(Invariant):
    """No source is closed under a block that uses it."""

    def __init__(self, loans: Loans) -> None:
        super().__init__("no source is closed under its user")
        self._loans = loans

    def see(self, fact: Fact, /) -> str | None:
        if fact.what not in ("closing", "left"):
            return None
        source = str(fact.about["source"])
        return f"{source} is {fact.what}" if self._loans.disturbs(source) else None


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

    def announce_to(self, tell: Callable[[GoingAway], None], /) -> None:
        self._source.on_going_away.append(tell)

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
        self.asked: list[Asked] = []
        """Submissions that were prepared to be submitted later."""
        self.loans = Loans()
        self.opens = 0
        """Opens that were begun."""
        self.began: dict[str, int] = {}
        """By source, how many had been begun when it was."""
        self.checks = chance.random() < 0.3
        self.checked: set[str] = set()
        """Sources that the check has passed."""
        self.context: int | None = 0 if chance.random() < 0.5 else None
        """How often the context was asked for; `None` if there is none."""
        self.refusals: set[str] = set()
        """The handles that were refused."""
        self._fresh = False
        """Whether the next open follows a refusal."""
        self.handles: dict[str, str | None] = {}
        """By source, what it leaves to be resumed from."""
        self.journal: SimulatedJournal | None = None
        if chance.random() < 0.3:
            left = [
                self.provider.leave_behind(identified=chance.random() < 0.6, lifetime=4.0)
                for _ in range(chance.choice((0, 0, 1, 2)))
            ]
            self.journal = SimulatedJournal(left, faults=simulation.faults)
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
        self.outside.deadline = trio.current_time() + 20.0  # a journal may never answer
        async with open_renewal(
            self._open,
            check=self._check if self.checks else None,
            context=None if self.context is None else self._tell_context,
            allocations=self._allocations(),
            options=self.options,
            events=self.channel,
            world=self.simulation.world,
        ) as self.renewal:
            self.outside.deadline = math.inf
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
        self.opens += 1
        number = self.opens
        self._check_predecessor(predecessor)
        if self.provider.options.exclusive:
            assert not self.provider.live, "an exclusive source is still there"
        self._fresh = False
        if predecessor.resumption is not None and self.chance.random() < 0.4:
            self._fresh = True
            self.refusals.add(predecessor.resumption)
            self.simulation.record("resumption refused")
            await trio.sleep(0.02)
            raise OpenFailed("it does not resume", resumption_refused=True)
        async with self.provider(predecessor) as source:
            assert isinstance(source, SimulatedSource)
            self.began[source.id] = number
            self.handles[source.id] = source.resumption
            self.account.numbers[source.number] = source.id
            self._listen_in(source)
            yield _Plain(source) if self.plain else source

    def _check_predecessor(self, predecessor: Predecessor) -> None:
        before, resumption = predecessor.source, predecessor.resumption
        assert resumption is None or predecessor.context is None
        assert resumption not in self.refusals, "a handle was offered after it was refused"
        assert resumption is None or not self._fresh, "no fresh open followed a refusal"
        if resumption is not None:
            assert before is not None
            assert resumption == self.handles[before]
        elif before is not None and self.context is not None:
            assert predecessor.context == {"told": self.context}, "it was not told what it needs"

    def _tell_context(self) -> Json:
        assert self.context is not None
        self.context += 1
        return {"told": self.context}

    async def _check(self, source: Source) -> None:
        self.simulation.record("checked", source=source.id)
        assert source.id in self.provider.live
        await self.simulation.faults.meet("check")
        self.checked.add(source.id)

    def _allocations(self) -> Allocations | None:
        if self.journal is None:
            return None
        return Allocations(
            journal=self.journal,
            terminate=self.provider.terminate,
            adopt=self.chance.random() < 0.7,
            terminate_timeout=0.5,
        )

    def _listen_in(self, source: SimulatedSource) -> None:
        """Hear what a source is asked and shows."""
        show, enqueue, requests = source._player._show, source.enqueue, self.account.requests

        def shown(clip: str, number: int, index: int) -> None:
            self.account.shown[clip] += 1
            show(clip, number, index)

        async def asked(
            request: ClipRequest, /, *, position: int | None = None, commit: Commit
        ) -> str:
            number = cast("int", request.payload["number"])
            before = request.payload["before"] is True
            requests.placed(number, position, before=before)
            clip = None
            try:
                clip = await enqueue(request, position=position, commit=commit)
            except ReactorError as failure:
                if failure.outcome != "replied":
                    raise
                if source.id in self.provider.live:
                    requests.replied(number, None)
                raise
            if source.id in self.provider.live:
                requests.replied(number, clip)
            return clip

        source._player._show = shown
        source.enqueue = asked  # type: ignore[method-assign]

    def look_at_sequences(self) -> None:
        """Look into the book of the sequences, and not only at what it says."""
        if self.renewal is not None:
            for _ in range(self.account.requests.look(self.renewal._chain.sequences._book)):
                self.simulation.record("sequence forgotten to make room")

    def a_source(self) -> SimulatedSource | None:
        """One that lives, if one does; mostly the older, which is on air."""
        live = list(self.provider.live.values())
        return None if not live else live[-1] if self.chance.random() < 0.3 else live[0]

    def a_clip(self) -> str | None:
        """One that a source has, if one has any."""
        having = [source.clips for source in self.provider.live.values() if source.clips]
        return self.chance.choice(self.chance.choice(having)).id if having else None

    def any_clip(self) -> str | None:
        """One of a source that lives, over or not, if there is any."""
        clips = self.account.requests.accepted
        having = {source_of(clip) for clip in clips} & self.provider.live.keys()
        if not having:
            return None
        source = self.chance.choice(sorted(having))
        return self.chance.choice([clip for clip in clips if source_of(clip) == source])

    def _record(self, what: str, /, **about: object) -> None:
        request = about.pop("request", None)
        if what == "dispatched":
            assert isinstance(request, dict)
            about["request"] = request["number"]
        self.simulation.record(what, **about)
        if what == "dispatched":
            number, source = cast("int", about["request"]), cast("str", about["source"])
            self.account.requests.dispatch(number, source)
            self.look_at_sequences()

    # ---------------------------------------------------------------------------- the application

    def prepare(
        self,
        *,
        position: int | None = None,
        continue_from: str | None = None,
        before: str | None = None,
        same_session_as: str | None = None,
        sequence: str | None = None,
        final: bool = False,
    ) -> Asked:
        """Prepare a request for a clip, and account for it."""
        assert self.renewal is not None
        self.requests += 1
        number = self.requests
        payload: dict[str, Json] = {"frames": self.chance.randint(1, 4), "number": number}
        payload["before"] = before is not None
        member = None
        if sequence is not None:
            member = SequenceMember(sequence, f"request-{number}", final)
            if self.chance.random() < 0.1:
                payload["frames"] = 0  # which is refused
        submission = self.renewal.prepare(
            ClipRequest(payload, continue_from),
            position=position,
            before=before,
            same_session_as=same_session_as,
            sequence=member,
        )
        payload["number"] = payload["frames"] = -1  # what was prepared is a copy
        named = tuple(clip for clip in (continue_from, before, same_session_as) if clip)
        asked = Asked(number, submission, named, position, member)
        self.account.requests.prepared(asked)
        return asked

    async def submit(self, asked: Asked) -> Accepted:
        """Submit what was prepared, and account for the answer."""
        requests = self.account.requests
        part = requests.begin(asked)
        try:
            accepted = await asked.submission.submit()
        except ReactorError as failure:
            requests.refused(asked, part, failure)
            raise
        finally:
            requests.end(asked)
        requests.answered(asked, accepted)
        return accepted

    async def request(self, position: int | None = None) -> None:
        """Ask for a clip, and account for the answer."""
        await self.submit(self.prepare(position=position))

    async def send_input(self) -> None:
        """Send a piece upstream, and account for it."""
        assert self.renewal is not None
        account = self.account.input
        piece = account.piece()
        try:
            await self.renewal.send_input(piece)
        except InputOverflow:
            account.refused()
            raise
        account.accepted(piece)
        self.simulation.record("input accepted")
        account.adds_up(self.renewal.statistics().input)

    async def renew(self) -> None:
        """Ask for a successor, and see that it is one that was opened after that."""
        assert self.renewal is not None
        before = self.opens
        source = await self.renewal.renew("because")
        self.simulation.record("renewed")
        assert self.began[str(source.id)] > before, f"{source} was opened before"

    async def borrow(self, depth: int = 0) -> None:
        """Use the source on air for a while."""
        assert self.renewal is not None
        lent = self.renewal.borrow()
        inside = False
        try:
            async with lent as source:
                inside = True
                await self._use(lent, source, depth)
        except Retired:
            stopping = self.renewal._owner.stopping.is_set
            assert stopping, "a switch has disturbed its user"
            raise
        except (Lost, Expired):
            self.simulation.record("cut short" if inside else "told to wait no more")
            raise

    async def _use(self, lent: Borrow[Source], source: Source, depth: int) -> None:
        chance, simulated = self.chance, self.provider.live.get(source.id)
        assert simulated is not None, f"{source.id} was lent after it had left"
        self.loans.entered(lent, simulated)
        try:
            for _ in range(chance.randint(1, 4)):
                match chance.randrange(8):
                    case 0 if depth < 2:
                        await self.borrow(depth + 1)
                    case 1:
                        await self._close_inside()
                    case 2:
                        with trio.move_on_after(0.5), contextlib.suppress(RuntimeError):
                            await self.renew()
                    case _:
                        await trio.sleep(chance.uniform(0.0, 0.8))
                self.loans.used(lent)
        finally:
            self.loans.left(lent)

    async def _close_inside(self) -> None:
        assert self.renewal is not None
        refused = False
        try:
            await self.renewal.close()
        except RuntimeError:
            refused = True
            self.simulation.record("told not to close inside")
        finally:
            # It is refused before anything is awaited: also who is cancelled in there was let in.
            assert refused, "it was closed inside of a block that borrows from it"

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
            Once("checked", by="source"),
            Always("what is allocated is recorded", self._is_recorded),
            Always("what is lent is there", lambda: self.loans.sources() <= provider.live.keys()),
            _NotLent(self.loans),
            _AtFacts("clean-ups have room", self._has_room, "opening", "opened", "left"),
        )

    def _is_recorded(self) -> bool:
        """Whether of everything that the provider has there is a record."""
        if self.journal is None:
            return True
        records = self.journal.records.values()
        return all(
            any(record.source == identity or record.key == allocated.key for record in records)
            for identity, allocated in self.provider.allocated.items()
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
                self.look_at_sequences()
                match event:
                    case SourceOpening(source=source):
                        record("attempt", source=source.incarnation)
                    case SourceOpened(source=source):
                        record("ready", source=source.incarnation)
                    case OnAir(source=source):
                        on_air = source.incarnation
                        record("on-air", source=on_air)
                        assert not self.checks or source.id in self.checked, "it was not checked"
                        self._check_canvas(source.id, on_air)
                    case HandedOver(old=old) | Replaced(old=old):
                        if old.incarnation == on_air:  # an exclusive one has left before
                            on_air = 0
                            record("off-air", source=old.incarnation)
                        record("handed over" if isinstance(event, HandedOver) else "replaced")
                    case SourceClosed(source=source):
                        if source.incarnation == on_air:
                            on_air = 0
                            record("off-air", source=source.incarnation)
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
        account, renewal = self.account, self.renewal
        account.requests.settle(account.handed_over, renewal.sequences if renewal else None)
        if renewal is not None:
            failed = renewal._owner.failure is not None
            account.input.settle(renewal.statistics().input, self.provider.heard, failed=failed)
        self.account.settle(pressure, per_picture)


def _read(output: MediaReceiver[F], take: Callable[[F], None]) -> None:
    with contextlib.suppress(trio.EndOfChannel, trio.WouldBlock, Failed):
        while True:
            take(output.receive_nowait())


def _ours(failure: BaseException) -> bool:
    return all(isinstance(leaf, Defect) or is_expected(leaf) for leaf in leaves(failure))
