"""What is asked of a supervisor in a randomized world, and what must hold of its answers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from trio_reactor.errors import Closed, Failed, ReactorError
from trio_reactor.supervision import (
    CodeIdentity,
    Handle,
    Key,
    SessionRecord,
    StaleSession,
    Stopped,
    Stopping,
    Supervisor,
    SupervisorPoisoned,
    Termination,
    TerminationUnconfirmed,
)

from .supervision_ledger import named

if TYPE_CHECKING:
    from .supervision_world import World

__all__ = ["Asks"]


class Asks:
    """Everything that an application can ask of one supervisor, each answer judged.

    Args:
        world: Where it lives.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance: random.Random = world.chance
        self.dead = False
        self.poisoned = False
        """Whether it was told that it is poisoned."""
        self.supervisor: Supervisor

    def wrong(self, what: str) -> None:
        """Something does not hold, unless nobody is there any more who could have told it."""
        if not self.dead:
            self.world.wrong(what)

    @property
    def is_poisoned(self) -> bool:
        """Whether it is poisoned, perhaps so late that nobody was told."""
        return self.supervisor._engine.health.failure is not None

    @contextmanager
    def _refusing(self, what: str) -> Generator[None]:
        """A poisoned supervisor takes none of these."""
        poisoned = self.poisoned
        try:
            yield
        except Exception as failure:
            if poisoned and not _says_so(failure):
                self.wrong(f"{what} of a poisoned supervisor: {failure!r}")
            raise
        if poisoned:
            self.wrong(f"{what} of a poisoned supervisor succeeded")

    async def open(self, key: str, request: str, expected: int) -> SessionRecord:
        """Open a session, and see that it is the one."""
        lease = self.chance.choice((None, None, 1.0, 5.0))
        with self._refusing("an open"):
            record = await self.supervisor.open(
                key, request=request, expected_generation=expected or None, lease=lease
            )
        handle = record.handle
        self.world.simulation.record("acknowledged open", key=key, generation=handle.generation)
        if handle.generation != expected + 1:
            self.wrong(f"{handle} was opened where generation {expected} was expected")
        self._acknowledge(record, request)
        return record

    async def reopen(self, record: SessionRecord) -> None:
        """Ask for what was opened before."""
        handle = record.handle
        try:
            with self._refusing("an open"):
                again = await self.supervisor.open(
                    handle.key,
                    request=record.request,
                    expected_generation=(handle.generation - 1) or None,
                )
        except StaleSession:
            if named(handle) not in self.world.ledger.forgotten:
                self.wrong(f"{handle} was acknowledged, and is not there")
            return
        self.world.simulation.record("found again")
        if again.handle != handle:
            self.wrong(f"{record.request} opened {handle}, then {again.handle}")
        self._acknowledge(again, record.request)

    def _acknowledge(self, record: SessionRecord, request: str) -> None:
        handle, world = record.handle, self.world
        if world.ledger.requests.get((handle.key, request)) != handle:
            self.wrong(f"{handle} was acknowledged, and is not in the journal")
        if record not in world.acknowledged:
            world.acknowledged.append(record)

    async def load(self, handle: Handle, work: str) -> CodeIdentity:
        """Load, and see that it is what was to be loaded."""
        with self._refusing("a load"):
            code = await self.supervisor.load(handle, work)
        self.world.simulation.record("acknowledged load", key=str(handle.key))
        loaded = self.world.ledger.loaded.get(named(handle))
        if loaded is None or loaded.code != code:
            self.wrong(f"{handle} has loaded {code.name}, and it is not in the journal")
        if code.name != work:
            self.wrong(f"{handle} was asked to load {work}, and loaded {code.name}")
        return code

    async def renew(self, handle: Handle) -> None:
        """Renew, and see that its lease had not run out."""
        await trio.lowlevel.checkpoint()
        world, name = self.world, named(handle)
        now, before = world.boottime(), world.leases.get(name, 0.0)
        record = world.ledger.records.get(name)
        if record is not None:  # its child is told in the same step
            world.leases[name] = max(before, now + record.lease)
        try:
            with self._refusing("a renewal"):
                left = self.supervisor.renew(handle)
        except BaseException:
            world.leases[name] = before
            raise
        world.simulation.record("renewed")
        if now >= before:
            self.wrong(f"{handle} was renewed after its lease had run out")
        remaining = self.supervisor.status(handle).remaining
        if record is None or left != record.lease or remaining != left:
            self.wrong(f"{handle} was renewed for {left}, of which {remaining} is left")

    async def dispose(self, handle: Handle) -> None:
        """Stop it, and see that it has stopped."""
        try:
            termination = await self.supervisor.dispose(handle)
        except ReactorError as failure:
            self._judge_stop(handle, failure)
            raise
        self.world.simulation.record("acknowledged stop")
        self._has_stopped(handle, termination)

    async def wait_stopped(self, handle: Handle) -> None:
        """Wait for its end, and see that it has come."""
        try:
            stopped = await self.supervisor.wait_stopped(handle)
        except ReactorError as failure:
            self._judge_stop(handle, failure)
            raise
        self._has_stopped(handle, stopped.termination)

    def _judge_stop(self, handle: Handle, failure: ReactorError) -> None:
        if isinstance(failure, StaleSession):
            self._judge_stale(handle)
        elif isinstance(failure, TerminationUnconfirmed):
            if not self.is_poisoned:
                self.wrong(f"{handle} may still run, and nothing is poisoned")
        else:
            self.wrong(f"a stop of {handle} was told {failure!r}")

    def _judge_stale(self, handle: Handle) -> None:
        name = named(handle)
        if name in self.world.ledger.records and name not in self.world.unsure:
            self.wrong(f"{handle} is in the journal, and unknown")

    def _has_stopped(self, handle: Handle, termination: Termination) -> None:
        world, name = self.world, named(handle)
        for child in world.machine.children.values():
            if (str(child.order.key), child.order.generation) == name:
                self.wrong(f"{handle} has ended, and {child!r}")
        record = world.ledger.records.get(name)
        if record is None:
            if name not in world.ledger.forgotten:
                self.wrong(f"{handle} has stopped, and is not in the journal")
        elif isinstance(record.phase, Stopped):
            if record.phase.termination != termination:
                self.wrong(f"{handle}: {termination} is not what is in the journal")
        elif name not in world.refused and not self.is_poisoned:
            self.wrong(f"{handle} has stopped, and the journal does not have it")

    def look_at(self, handle: Handle) -> None:
        """See that it is known, whatever befell the supervisor."""
        try:
            status = self.supervisor.status(handle)
        except StaleSession:
            self._judge_stale(handle)
            return
        live = not isinstance(status.phase, Stopping | Stopped)
        if live == (status.remaining is None):
            self.wrong(f"{handle} is {status.phase}, and {status.remaining} s are left")

    async def high_water(self, key: Key) -> None:
        """See that it never falls."""
        world = self.world
        before = {str(each): high for each, high in world.ledger.high.items()}[str(key)]
        high = await self.supervisor.high_water(str(key))
        unsure = any(name == str(key) for name, _ in world.unsure)
        if not before <= (high or 0) and not unsure:
            self.wrong(f"{key} had {before} generations, and has {high}")

    async def forged(self, handle: Handle) -> None:
        """See that nobody gets anything by a handle that is not one."""
        try:
            self.supervisor.status(handle)
        except StaleSession:
            pass
        else:
            self.wrong(f"a forged handle of {handle} was taken")
        with self._refusing("a renewal"):
            self.supervisor.renew(handle)

    async def drain(self) -> None:
        """Drain, and see that nothing is left that runs."""
        timeout = self.chance.choice((0.0, 0.5, 3.0))
        rest = await self.supervisor.drain(timeout)
        self.world.simulation.record("drained")
        for handle in rest:
            with contextlib.suppress(StaleSession):
                if self.supervisor.status(handle).remaining is not None:
                    self.wrong(f"{handle} was drained, and is live")
        for session in self.supervisor._engine.registry:
            if session.is_live:
                self.wrong(f"{session!r} is live after everything was drained")


def _says_so(failure: BaseException) -> bool:
    return isinstance(failure, SupervisorPoisoned | Closed | Failed)
