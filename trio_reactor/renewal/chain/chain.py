"""The chain: one logical source out of many physical ones.

It gathers what is known, asks the pure policy for the next step, and takes it, all in one go;
whatever takes time happens in tasks of the owner's and comes back as a change.  Every result that
comes back passes a fence first: the phase of its slot, which never returns from leaving.

A slot has a role: it is *on air*, or the *next*, or *leaving*.  It leaves in its own task and
counts as owned until it has left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import assert_never, final

import trio

from trio_reactor.channel import Publisher
from trio_reactor.errors import Overflow
from trio_reactor.owner import Owner
from trio_reactor.renewal import events
from trio_reactor.renewal.allocation.allocations import Allocations
from trio_reactor.renewal.errors import RouteChanged
from trio_reactor.renewal.media.output import MediaOutput
from trio_reactor.renewal.options import RenewalOptions
from trio_reactor.renewal.policy import phases, steps
from trio_reactor.renewal.policy.decision import decide
from trio_reactor.renewal.policy.facts import ChainFacts
from trio_reactor.renewal.slot.settings import Setting
from trio_reactor.renewal.slot.slot import Slot
from trio_reactor.renewal.source import (
    SourceOpener,
)
from trio_reactor.world import World

from .announcer import Announcer
from .facts import facts_of, route_in
from .first import never_on_air, not_opened, open_first
from .hearing import Hearing
from .inherited import Inheritance
from .ledger import CleanupLedger
from .lineup import Lineup, Trace
from .replay import Context, Replay
from .tally import FailureTally
from .upkeep import Check, Upkeep, defects_are_terminal

__all__ = ["Chain"]


@final
class Chain:
    """Keeps one source on air, prepares the next, and lets go of those before.

    Args:
        owner: Holds the sources and runs the work.
        opener: Opens a source.
        options: Leads, budgets and bounds.
        publisher: Where it says what happens.
        context: What is told again to a source that has nothing to resume from.
        allocations: Where allocations are recorded, if they are.
        check: Looks at each source before it goes on air.
    """

    def __init__(
        self,
        owner: Owner,
        opener: SourceOpener,
        options: RenewalOptions,
        publisher: Publisher,
        *,
        check: Check | None = None,
        context: Context | None = None,
        allocations: Allocations | None = None,
    ) -> None:
        self._owner = owner
        self.options = options
        self.allocations = allocations
        self._check = check
        self.announce = Announcer(publisher, owner.world)
        self.output = MediaOutput(options, self._overflowed)
        self.ledger = CleanupLedger(options, owner.name)
        self.autoplay = Setting(True)
        self.canvas = Setting[tuple[int, int] | None](None)
        self.renewing = True
        self.finished = False
        self.on_failed: list[Callable[[], None]] = []
        """Told, synchronously, when it has failed, while what they say is still heard."""
        self.on_step: list[Callable[[], None]] = []
        """Told, synchronously, after each step and each change: look again."""
        self._begun = False
        """Whether a source has been on air."""
        self._wanted_beyond = 0
        """A source with a higher number than this is wanted, if one on air has none."""
        self._tally = FailureTally(options, owner.world.random)
        self._upkeep = Upkeep(self, owner)
        self._lineup = Lineup(
            self,
            owner,
            opener,
            self.announce,
            self.ledger,
            self._tally,
            Replay(context, options.max_context_bytes),
        )
        self.hearing = Hearing(
            owner,
            options,
            lineup=self._lineup,
            ledger=self.ledger,
            tally=self._tally,
            announce=self.announce,
            changed=self.changed,
        )
        self.sequences = self.hearing.sequences
        self.retired_clips = self.hearing.retired_clips
        self._change = trio.Event()

    @property
    def on_air(self) -> Slot | None:
        """The slot that feeds the output, or would if it could be reached."""
        return self._lineup.on_air

    @property
    def next(self) -> Slot | None:
        """The slot that is to follow."""
        return self._lineup.next

    @property
    def leaving(self) -> Mapping[int, Slot]:
        """The slots that were let go and have not left yet, by their numbers."""
        return self._lineup.leaving

    @property
    def last(self) -> Trace | None:
        """What is known of the source that is on air, or was the last to be."""
        return self._lineup.last

    @property
    def unfollowed(self) -> BaseException | None:
        """Why nothing is prepared to follow the source on air, if that is for a failure."""
        following = self.next
        prepared = following is not None and not isinstance(following.phase, phases.Opening)
        return None if prepared else self._tally.last

    @property
    def name(self) -> str:
        """The owner's."""
        return self._owner.name

    @property
    def world(self) -> World:
        """The owner's."""
        return self._owner.world

    @property
    def has_check(self) -> bool:
        """Whether a source is to be checked before it goes on air."""
        return self._check is not None

    @property
    def close_deadline(self) -> float:
        """When everything has to have left, on the clock; infinite before close began."""
        return self._owner.close_deadline

    # ------------------------------------------------------------------------------------ its life

    async def open_first(self) -> None:
        """Open the first source and put it on air.

        One that loses its connection before it is on air may recover; one that ends has not opened.
        What a dead process left is terminated before, or is the first source.

        Raises:
            OpenFailed: It could not be opened; carries what is proven of its clean-up.
            JournalError: What is recorded could not be read or deleted.
            BaseException: The defect that its adapter raised.
        """
        left = None
        if self.allocations is not None:
            found = Inheritance(
                self.name,
                self.allocations,
                self.world,
                self.announce,
                load_timeout=self.options.open_timeout,
            )
            left = await found.settle()
        slot = await open_first(self._owner, self._lineup, left)
        attempt = slot.attempt
        assert attempt is not None  # noqa: S101 - it is open
        while True:
            self._change = trio.Event()
            until = self._settle()
            if self.on_air is not None:
                break
            if slot is not self.next:
                await attempt.wait_ended()
                raise not_opened(slot, attempt, never_on_air(slot))
            await self._wait(until)
        self._begun = True
        self._owner.start_soon(self.run, name=f"{self._owner.name} chain")

    async def run(self) -> None:
        """Take each step when it is due, until the last source is gone and none is to follow."""
        while not self.finished:
            # Before the steps: what changes from here on is looked at again.
            self._change = trio.Event()
            await self._wait(self._settle())

    async def _wait(self, until: float | None) -> None:
        with trio.CancelScope(deadline=math.inf if until is None else until):
            await self._change.wait()

    async def stop_renewing(self) -> None:
        """Want no successors any more; cancel and join one that opens.  Always a checkpoint."""
        if self.renewing:
            self.renewing = False
            self.announce.stopped(self.on_air)
        opening = [
            slot.attempt
            for slot in (self.next, *self.leaving.values())
            if slot is not None and slot.attempt is not None and slot.opening
        ]
        self.changed()
        if self.next is not None and self.next.opening:
            self._lineup.discard("retired")
        await trio.lowlevel.checkpoint()
        for attempt in opening:
            await attempt.wait_ended()

    def want(self, beyond: int) -> None:
        """Want a source on air with a higher number than this."""
        self._wanted_beyond = max(self._wanted_beyond, beyond)
        self.changed()

    def changed(self) -> None:
        """Something that decides has changed: look again."""
        self._change.set()

    def told(self) -> None:
        """Tell those who wait for a step to look."""
        for look in self.on_step:
            look()

    def _settle(self) -> float | None:
        """Take every step that is due; returns until when to wait, `None` for a change only."""
        lineup = self._lineup
        while not self.finished:
            self.told()
            now = self.world.clock()
            self._tally.settle(now, None if self.on_air is None else self.on_air.lifespan)
            decision = decide(self._facts(now), self.options)
            match decision:
                case steps.Wait(until=until):
                    return until
                case steps.Idle():
                    return None
                case steps.Fail():
                    self._owner.fail(self._tally.failure())
                case steps.Finish():
                    self._finish()
                case steps.Prepare(cause=cause):
                    lineup.prepare(cause)
                case steps.Abandon():
                    lineup.discard("retired")
                case steps.Discard(why=why):
                    lineup.discard(why)
                case steps.Check(role=role):
                    assert self._check is not None  # noqa: S101 - else it counts as checked
                    by = now + self.options.check_timeout
                    self._upkeep.check(self._of(role), self._check, by)
                case steps.Activate(cause=cause):
                    lineup.activate(cause)
                case steps.HandOver(evidence=evidence):
                    lineup.hand_over(evidence)
                case steps.Yield(evidence=evidence):
                    lineup.give_way(evidence)
                case steps.Reconnect(role=role, within=within):
                    self._upkeep.reconnect(self._of(role), now + within)
                case steps.Tell(role=role):
                    self._upkeep.tell(self._of(role), now + self.options.reconnect_timeout)
                case steps.Replace():
                    lineup.replace("replaced")
                case steps.Expire():
                    lineup.replace("expired")
                case _:
                    assert_never(decision)
        self.told()
        return None

    def _facts(self, now: float) -> ChainFacts:
        on_air = self.on_air
        return facts_of(
            now,
            self._lineup,
            self._tally,
            self.sequences,
            begun=self._begun,
            renewing=self.renewing,
            wanted=on_air is not None and self.is_wanted_after(on_air),
            stopping=self._owner.stopping.is_set,
        )

    def _of(self, role: steps.Role) -> Slot:
        slot = self.on_air if role == "current" else self.next
        assert slot is not None  # noqa: S101 - the policy saw it
        return slot

    def _finish(self) -> None:
        self.finished = True
        self.end_yield()
        last = self.last
        self.announce.finished(
            None if last is None else last.ref, 0.0 if last is None else last.age
        )
        self.output.end()

    def end_yield(self) -> None:
        """Tell of an exclusive source that gave way and was followed by none."""
        self._lineup.end_yield()

    # ------------------------------------------------------------------------ for who commands it

    def route(self) -> Slot | None:
        """The slot that takes work bound to none, if any does now."""
        return route_in(self._lineup)

    def check_working(self, slot: Slot) -> None:
        """Raise unless commands are taken, and the slot is one that takes them.

        Raises:
            RouteChanged: It takes none any more.
            Closed, Failed: No commands are taken.
        """
        self._owner.check()
        if not phases.takes_work(slot.phase):
            raise RouteChanged("the source that was to be told does not take it", retryable=True)

    def is_wanted_after(self, slot: Slot) -> bool:
        """Whether the application has asked for a successor of this source."""
        return slot.incarnation <= self._wanted_beyond

    def is_taken(self, identity: str) -> bool:
        """Whether a source that is owned has this identity."""
        return self._lineup.is_taken(identity)

    def last_tail(self) -> events.Tail | None:
        """The tail of the source on air, if there is one; its losses are not counted any more."""
        if self.on_air is None:
            return None
        lost = None
        with defects_are_terminal(self._owner):
            lost = self.output.losses.end_feed()
        return self.on_air.tail((None, None) if lost is None else (lost.frames, lost.samples))

    def _overflowed(self, overflow: Overflow) -> None:
        """Fail, because the output was not drained; once close began nobody has to any more."""
        if not self._owner.closing.is_set:
            self._owner.fail(overflow)
