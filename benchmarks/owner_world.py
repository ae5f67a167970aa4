"""A randomized world of attempts, workers, losses, cancellations and closes around one owner.

What happens in it follows from a seed: who acquires what and in which of the ways there are, what
goes wrong with it, who is cancelled, which worker crashes, when and how the block is left.  What
must hold is checked as the run goes on and at its end; above all that each failure was told once,
to somebody who received it or by the block, whatever else was happening.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias

import trio

from trio_reactor.channel import EventChannel
from trio_reactor.errors import Closed, Expired, Lost, ReactorError, TimedOut, is_expected, leaves
from trio_reactor.owner import Attempt, Owner, OwnerOptions, open_owner
from trio_reactor.testing import (
    Always,
    Ended,
    Fails,
    Fault,
    Never,
    NothingAfter,
    Once,
    Plan,
    Simulation,
    Slow,
    Summary,
    simulate,
)

__all__ = ["draw_faults", "owner_world", "play"]

Open: TypeAlias = Callable[[], AbstractAsyncContextManager[str]]

MENU: Final[dict[str, tuple[Fault, ...]]] = {
    "open": (
        Fails("refused", after=2.0),
        Fails("lost", after=2.0),
        Fails("defect"),
        Slow(4.0),
        Never(),
    ),
    "life": (Fails("lost", after=8.0), Fails("lost"), Fails("defect", after=8.0), Slow(6.0)),
    "leave": (Fails("timed-out", after=2.0), Fails("defect"), Slow(2.5), Never()),
}
OPTIONS: Final = OwnerOptions(cleanup_timeout=4.0, retire_timeout=3.0)
HOLDS_OUT: Final = 2.0
"""The most seconds for which a thing that leaves cannot be cancelled."""
HARDY: Final = 5.0
"""The most seconds for which a thing that opens cannot be cancelled."""


def draw_faults(chance: random.Random) -> Plan:
    """What goes wrong with the things of one run."""
    return Plan.draw(chance, MENU, rate=0.3, tries=12)


async def owner_world(sim: Simulation) -> None:
    """The scenario: one owner from its beginning to its end."""
    await _World(sim).run()


def play(seeds: range) -> Summary:
    """Play it under each of these seeds.

    Raises:
        SimulationFailed: Something that must hold does not.
    """
    return simulate(owner_world, seeds, faults=draw_faults)


class BodyError(Exception):
    """The body's own."""


class Crash(Exception):
    """A worker's."""


class _Book:
    """Keeps account of every failure: where it arose, and who was told."""

    def __init__(self) -> None:
        self._arose: dict[int, BaseException] = {}
        self._told: dict[int, BaseException] = {}
        """To somebody, as it is or as the cause of another error."""
        self._told_late: dict[int, BaseException] = {}
        """As a cause, when close was over and may have told it as well."""
        self._raised: list[int] = []
        """Each time that it was raised, as it is, to somebody."""
        self._mixed: set[int] = set()
        """Told together with a defect, so that close tells it too."""
        self.listened: list[Attempt[str]] = []
        """Whose failure somebody has received by listening."""

    def arises(self, failure: BaseException) -> BaseException:
        """A failure is about to be raised where it belongs."""
        self._arose[id(failure)] = failure
        return failure

    def told(self, error: BaseException, *, late: bool) -> None:
        """Somebody got this error."""
        originals = [leaf for leaf in leaves(error) if id(leaf) in self._arose]
        self._raised.extend(map(id, originals))
        self._note(originals, self._told)
        for leaf in leaves(error):
            if leaf.__cause__ is not None:
                self.told_as_cause(leaf.__cause__, late=late)

    def told_as_cause(self, cause: BaseException, *, late: bool) -> None:
        """Somebody got this failure as the cause of an error, or as the end of an attempt."""
        self._note(list(_all_of(cause)), self._told_late if late else self._told)

    def _note(self, failures: list[BaseException], where: dict[int, BaseException]) -> None:
        where.update((id(leaf), leaf) for leaf in failures)
        if not all(map(is_expected, failures)):
            self._mixed.update(map(id, failures))

    def check(self, left: BaseException | None) -> None:
        """Every failure was told, and none twice that needs to be told only once."""
        told = [] if left is None else list(leaves(left))
        by_block = {id(each) for leaf in told for each in _all_of(leaf)}
        assert len(told) == len({id(leaf) for leaf in told}), f"told twice by the block: {left!r}"
        listened = {
            id(leaf)
            for attempt in self.listened
            if attempt.failure is not None
            for leaf in leaves(attempt.failure)
        }
        for key, failure in self._arose.items():
            assert self._raised.count(key) <= 1, f"{failure!r} was raised twice"
            if not is_expected(failure):
                assert key in by_block, f"{failure!r} was lost"
            elif key in self._told:
                assert key not in by_block or key in self._mixed, f"{failure!r} was told twice"
            else:
                assert key in by_block | listened | set(self._told_late), f"{failure!r} was lost"
        for leaf in told:
            known = id(leaf) in self._arose or isinstance(leaf, TimedOut)
            assert known or isinstance(leaf, ReactorError), f"{leaf!r} came from nowhere"


def _all_of(failure: BaseException) -> Iterator[BaseException]:
    """The leaves of a failure, of its causes, and so on."""
    for leaf in leaves(failure):
        yield leaf
        if leaf.__cause__ is not None:
            yield from _all_of(leaf.__cause__)


class _World:
    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._book = _Book()
        self._outside = trio.CancelScope()
        self._scopes: list[trio.CancelScope] = []
        """Of what can be cancelled by itself."""
        self._attempts: list[Attempt[str]] = []
        self._owner: Owner

    def _maybe(self, chance: float) -> bool:
        return self._sim.random.random() < chance

    async def _pause(self, most: float) -> None:
        await trio.sleep(self._sim.random.uniform(0.0, most))

    # ------------------------------------------------------------------------------------ the run

    async def run(self) -> None:
        """Let everything happen, then check what was told."""
        sim, book = self._sim, self._book
        events = EventChannel(world=sim.world).publisher("owner")
        left: BaseException | None = None
        async with trio.open_nursery() as others:
            try:
                with self._outside:
                    async with open_owner(
                        world=sim.world, options=OPTIONS, events=events
                    ) as self._owner:
                        self._watch(self._owner)
                        await self._body(others)
            except Exception as raised:  # noqa: BLE001 - judged below; no cancellation may be in it
                left = raised
            owner = self._owner
            sim.record("block left", raised=left)
            if self._owner.failure is not None:
                sim.record("failed")
            if self._outside.cancelled_caught:
                sim.record("cancelled")
            assert events.ended
        book.check(left)
        self._check_verdict(owner, left)
        report = owner.report
        assert report is not None
        assert report.duration <= OPTIONS.cleanup_timeout + max(HOLDS_OUT, HARDY) + 1e-6
        statistics = owner.statistics()
        there = (statistics.opening, statistics.held, statistics.leaving, statistics.workers)
        assert there == (0, 0, 0, 0)

    def _check_verdict(self, owner: Owner, left: BaseException | None) -> None:
        terminal = owner.failure
        told = [] if left is None else list(leaves(left))
        if terminal is not None:
            assert told[0] is terminal
            assert left is terminal or len(told) > 1, "the original was put into a group"

    def _watch(self, owner: Owner) -> None:
        def adds_up() -> bool:
            counts = owner.statistics()
            there = counts.opening + counts.held + counts.leaving
            fair = counts.opening >= 0 and counts.leaving >= 0
            return fair and there == len(owner._ledger.attempts)

        self._sim.check(
            Ended("opened", until="left", by="thing", within="block left"),
            Once("left", by="thing"),
            NothingAfter("block left", "works"),
            Always("the statistics add up", adds_up),
        )

    async def _body(self, others: trio.Nursery) -> None:
        owner, chance = self._owner, self._sim.random
        for _ in range(chance.randrange(4)):
            work = chance.choice((self._idle, self._brief, self._crash, self._restless))
            owner.start_soon(work, drain=work == self._brief and self._maybe(0.5))
        others.start_soon(self._chaos, others)
        others.start_soon(self._act)
        async with trio.open_nursery() as body:
            for _ in range(chance.randint(1, 4)):
                body.start_soon(self._act)
            await self._pause(12.0)
            if self._maybe(0.2):
                raise self._book.arises(BodyError())
            body.cancel_scope.deadline = trio.current_time() + self._sim.random.choice((0.0, 20.0))

    # ------------------------------------------------------------------------------- what is held

    async def _meet(self, place: str) -> None:
        try:
            await self._sim.faults.meet(place)
        except Exception as failure:
            self._book.arises(failure)
            raise

    @asynccontextmanager
    async def _thing(self, owner: Owner) -> AsyncGenerator[str, None]:
        """A thing with a nursery of its own, in which it may die."""
        sim, task = self._sim, trio.lowlevel.current_task()
        assert not owner.stopping.is_set, "acquired although stopping"
        name = sim.world.identifier("thing")
        hardy, holds_out = self._maybe(0.2), self._maybe(0.1)
        with trio.move_on_after(HARDY if hardy else math.inf, shield=hardy):
            await self._meet("open")
        async with trio.open_nursery() as life:
            sim.record("opened", thing=name)
            life.start_soon(self._live, life)
            try:
                yield name
                await self._meet("leave")
            finally:
                if holds_out:
                    with trio.CancelScope(shield=True):
                        await self._pause(HOLDS_OUT)
                assert task is trio.lowlevel.current_task()
                life.cancel_scope.cancel()
                sim.record("left", thing=name)

    async def _live(self, life: trio.Nursery) -> None:
        faults = self._sim.faults
        fault = faults.plan.faults.get("life", {}).get(faults.tries["life"] + 1)
        await self._meet("life")
        if isinstance(fault, Slow):
            life.cancel_scope.cancel()  # it ends quietly

    @asynccontextmanager
    async def _nested(self) -> AsyncGenerator[str, None]:
        """A thing that is held by an owner of its own."""
        async with open_owner("inner", world=self._sim.world, options=OPTIONS) as inner:
            attempt = await inner.acquire(lambda: self._thing(inner))
            yield attempt.value

    def _factory(self) -> Open:
        return self._nested if self._maybe(0.15) else lambda: self._thing(self._owner)

    def _lifetime(self) -> float | None:
        return self._sim.random.uniform(0.0, 6.0) if self._maybe(0.3) else None

    # ------------------------------------------------------------------------------------ who acts

    async def _act(self) -> None:
        ways = (self._hold, self._hold, self._keep, self._keep, self._start, self._join, self._use)
        for _ in range(self._sim.random.randint(1, 4)):
            await self._pause(3.0)
            with trio.move_on_after(30.0) as scope:
                self._scopes.append(scope)
                await self._hear(self._sim.random.choice(ways))

    async def _hear(self, act: Callable[[], Awaitable[object]]) -> BaseException | None:
        try:
            await act()
        except Exception as error:  # noqa: BLE001 - what everybody gets is what is looked at
            self._book.told(error, late=self._owner.report is not None)
            self._sim.record(f"told {type(error).__name__}", what=error)
            return error
        return None

    async def _hold(self) -> None:
        async with self._owner.hold(self._factory(), lifetime=self._lifetime()):
            await self._pause(6.0)

    async def _keep(self) -> None:
        attempt = await self._owner.acquire(self._factory(), lifetime=self._lifetime())
        assert attempt.held, "handed over although it is not held"
        self._attempts.append(attempt)
        await self._pause(4.0)
        if self._maybe(0.7):
            await self._owner.retire(attempt)

    async def _start(self) -> None:
        attempt = self._owner.start(
            self._factory(),
            lifetime=self._lifetime(),
            on_lost=self._book.listened.append if self._maybe(0.5) else None,
            on_ended=self._book.listened.append if self._maybe(0.3) else None,
        )
        self._attempts.append(attempt)
        if self._maybe(0.5):
            await attempt.wait_opened()

    async def _join(self) -> None:
        if self._attempts:
            attempt = self._sim.random.choice(self._attempts)
            if self._maybe(0.5):
                await attempt.wait_opened()
            else:
                end = await attempt.wait_ended()
                if end.failure is not None:
                    late = self._owner.report is not None
                    self._book.told_as_cause(end.failure, late=late)

    async def _use(self) -> None:
        if self._attempts:
            attempt = self._sim.random.choice(self._attempts)
            try:
                with attempt.using():
                    await self._pause(5.0)
            except (Lost, Expired):
                self._book.listened.append(attempt)
                raise

    async def _idle(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._sim.record("works")

    async def _brief(self) -> None:
        await self._pause(10.0)

    async def _crash(self) -> None:
        await self._pause(30.0)
        raise self._book.arises(Crash())

    async def _restless(self) -> None:
        while True:
            error = await self._hear(self._hold)
            if isinstance(error, Closed) and error.__cause__ is None:
                raise error
            await self._pause(2.0)

    # --------------------------------------------------------------------------------------- chaos

    async def _chaos(self, others: trio.Nursery) -> None:
        owner, chance = self._owner, self._sim.random
        for _ in range(chance.randint(1, 6)):
            await self._pause(6.0)
            match chance.randrange(20):
                case 0 | 1:
                    others.start_soon(self._hear_close)
                case 2:
                    self._outside.cancel()
                case 3 if owner.report is None:
                    owner.fail(self._book.arises(Crash()))
                case 4 | 5 | 6 | 7 | 8 | 9 if self._scopes:
                    chance.choice(self._scopes).cancel()
                case _ if self._attempts:
                    attempt = chance.choice(self._attempts)
                    match chance.randrange(3):
                        case 0:
                            attempt.request_retire()
                        case 1:
                            attempt.set_lifetime(chance.uniform(0.0, 5.0))
                        case _:
                            attempt.cancel()
                case _:
                    pass

    async def _hear_close(self) -> None:
        self._sim.record("close asked for")
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            try:
                assert await self._owner.close() is self._owner.report
            except ExceptionGroup:
                # The block tells the same.
                assert self._owner.report is not None
