"""One host's tenure in a shared journal: it beats, and claims what dead hosts have left.

What it may hold, it may hold until its horizon; see `takeover` for why that is enough.  The worker,
`run`, is the only one that beats.  Any number of tasks may claim.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from math import inf, isfinite
from typing import Final, final

import trio

from trio_reactor.supervision.errors import HostFenced, KeyHeld, StoreFailed, StoreUnusable
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.model.records import Stopped
from trio_reactor.supervision.store.protocol import HostFacts, KeyFacts, SharedJournal
from trio_reactor.world import World

from .sleeping import sleep_until
from .takeover import (
    Fence,
    Free,
    Lives,
    Seen,
    Watch,
    beat_period,
    decide,
    default_margin,
    horizon_of,
)

__all__ = ["MAX_WATCHED", "Tenure"]

MAX_WATCHED: Final = 1_024
"""How many incarnations of other hosts are remembered; the least recently seen is forgotten, and
waited for anew."""

RETRIES_A_PERIOD: Final = 8
"""How often a beat that failed is sent again before the next one is due."""

_log = logging.getLogger("trio_reactor.supervision.hosts")


@final
class Tenure:
    """What this host may hold, and until when.

    Args:
        journal: The journal that it shares.
        world: Where its machine's clock comes from.
        margin: Seconds that are waited beyond another host's lease before its keys are taken; at
            least what two machines' clocks may differ in a lease, and a child may take to end at
            its deadline.  `None`: the greater of one second and a tenth of that lease.
        on_horizon: Called synchronously with the new horizon whenever it has moved, in seconds on
            the machine's clock.
        on_fenced: Called synchronously when everything that this host holds must end now: it is
            fenced, or its horizon has passed without an answer to a beat (a *lapse*).  After a
            lapse it goes on beating, and `on_horizon` says when it may hold something again; what
            it held before has ended.

    Raises:
        ValueError: The margin is negative or not finite.
    """

    def __init__(
        self,
        journal: SharedJournal,
        world: World,
        *,
        margin: float | None = None,
        on_horizon: Callable[[float], None],
        on_fenced: Callable[[], None],
    ) -> None:
        if margin is not None and not (isfinite(margin) and margin >= 0):
            raise ValueError(f"margin: seconds, not negative and finite, not {margin!r}")
        self._journal = journal
        self._world = world
        self._margin = margin
        self._on_horizon = on_horizon
        self._on_fenced = on_fenced
        self._horizon = -inf
        self._holding = False
        self._fenced = False
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._changed = trio.Event()

    def __repr__(self) -> str:
        state = "fenced" if self._fenced else f"until {self._horizon:.3f}"
        return f"<Tenure {self._journal.incarnation}: {state}>"

    @property
    def horizon(self) -> float:
        """Until when children may run, in seconds on the machine's clock; `-inf`: not at all yet.

        It may have passed.  It never goes back.
        """
        return self._horizon

    @property
    def fenced(self) -> bool:
        """Whether another host has taken this one for dead, for good."""
        return self._fenced

    async def wait_holding(self) -> float:
        """Sleep until this host may hold something; returns the horizon.  Cancelling only leaves.

        Raises:
            HostFenced: It never will.
        """
        await trio.lowlevel.checkpoint()
        while not self._fenced and self._world.boottime() >= self._horizon:
            await self._changed.wait()
        self._check()
        return self._horizon

    async def run(self) -> None:
        """Beat; returns once this host is fenced.  Cancelled, it leaves at once.

        A journal that cannot be reached is tried again.  What is not weather is raised, and then
        nothing is held beyond the horizon.
        """
        period = beat_period(self._journal.lease)
        due = self._world.boottime()
        while True:
            now = self._world.boottime()
            if self._holding and now >= self._horizon:
                self._lapse()
            if now < due:
                wake = min(due, self._horizon) if self._holding else due
                await trio.sleep(wake - now)
                continue
            sent_at = self._world.boottime()
            # An answer that comes after the horizon is worth as much as none.
            left = max(0.0, self._horizon - sent_at) if self._holding else period
            alive: bool | None = None
            with trio.move_on_after(min(period, left)):
                try:
                    alive = await self._journal.beat()
                except StoreFailed as failure:
                    _log.info("a beat was not answered: %s", failure)
            if self._holding and self._world.boottime() >= self._horizon:
                # It passed before the answer could be told to anybody.
                self._lapse()
            if alive is None:
                pause = period / RETRIES_A_PERIOD
                due = self._world.boottime() + pause * self._world.random.uniform(0.5, 1.0)
            elif alive:
                due = sent_at + period
                self._move(horizon_of(sent_at, self._journal.lease))
            else:
                self._end()
                return

    async def claim(self, key: Key, *, expected_generation: int | None) -> KeyFacts:
        """What an open must know of a key, once the key may be had.

        If another incarnation has it with a session that is not stopped, this waits until that one
        is known to be dead and has been fenced: its lease and the margin, counted from the first
        time that anybody here saw it like that.  What it returns then is final: that incarnation
        writes no more.  A commit of the next generation says whether another host was faster.

        Nothing is waited for if the key's generation is not the one that is expected (`None`: it
        was never opened): the caller sees by what is returned.

        Cancelled, it leaves nothing half done; what was waited already counts for the next claim.

        Raises:
            KeyHeld: The one that has it lives.
            HostFenced: This host is fenced.
            StoreFailed: The journal could not be reached.
            RecordUnreadable: The key's record is damaged or newer.
        """
        dead = missing = ""
        mine: Seen | None = None
        while True:
            facts = await self._journal.look(key)
            self._check()
            holder = facts.host
            if facts.generation != (expected_generation or 0) or self._is_free(facts):
                return facts
            if holder == dead:
                return facts
            host = await self._journal.host(holder)
            now = self._world.boottime()
            self._check()
            if host is None:
                # It was forgotten since, and then it has no key.
                if holder == missing:
                    raise StoreUnusable(
                        f"{key} is held by a host of which the journal knows nothing",
                        store="the shared journal",
                    )
                missing = holder
                continue
            if mine is None or mine.facts.incarnation != holder:
                mine = self._seen.get(holder)
            match decide(host, mine, now=now, margin=self._margin_for(host)):
                case Free():
                    # Looked at again: it may have written up to the moment it was fenced.
                    dead = holder
                    self._seen.pop(holder, None)
                case Lives(seen=seen):
                    self._remember(seen)
                    raise KeyHeld(f"{key} is held by {host.name}, which lives", host=holder)
                case Watch(seen=seen, until=until):
                    mine = seen
                    self._remember(seen)
                    await sleep_until(self._world, until)
                case Fence(seen=seen):
                    if await self._journal.fence(seen.facts):
                        _log.warning("%s was not heard of for its lease: fenced", host.name)

    def _is_free(self, facts: KeyFacts) -> bool:
        """Whether nobody else has an execution of it."""
        return (
            facts.host == self._journal.incarnation
            or facts.record is None  # only what has stopped is ever forgotten
            or isinstance(facts.record.phase, Stopped)
        )

    def _margin_for(self, host: HostFacts) -> float:
        return default_margin(host.lease) if self._margin is None else self._margin

    def _remember(self, seen: Seen) -> None:
        self._seen[seen.facts.incarnation] = seen
        self._seen.move_to_end(seen.facts.incarnation)
        if len(self._seen) > MAX_WATCHED:
            self._seen.popitem(last=False)

    def _check(self) -> None:
        if self._fenced:
            raise HostFenced(f"{self._journal.incarnation} is fenced")

    def _move(self, horizon: float) -> None:
        if horizon <= self._horizon:
            return
        self._horizon = horizon
        if self._world.boottime() < horizon:
            self._holding = True
        self._wake()
        self._on_horizon(horizon)

    def _lapse(self) -> None:
        self._holding = False
        _log.warning("no beat was answered for the whole lease: everything held ends")
        self._on_fenced()

    def _end(self) -> None:
        self._fenced = True
        self._holding = False
        _log.warning("this host was fenced by another: everything held ends")
        self._wake()
        self._on_fenced()

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
