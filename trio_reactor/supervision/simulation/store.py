"""A store of which things go wrong: wraps any other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NoReturn, final

import trio

from trio_reactor.errors import ReactorError
from trio_reactor.fence import Fence
from trio_reactor.supervision.errors import RecordRefused, StoreFailed
from trio_reactor.supervision.model.keys import Key
from trio_reactor.supervision.store.protocol import (
    Change,
    Contents,
    HostFacts,
    Journal,
    KeyFacts,
    SharedJournal,
    Store,
)
from trio_reactor.testing.faults import Crashed, Crashes, Fails, Faults, Never, Slow

__all__ = ["FaultyStore"]


@final
class FaultyStore:
    """A store, and what goes wrong with it.  It stands for one supervisor's life.

    Its places are `open`, `load`, `commit` and `record`, and, of a journal that is shared, `beat`,
    `look` and `fence`.  At `commit`:

    - `Fails` fails before anything was made durable, or after it if it says `done`, and the outcome
      is unknown unless it was refused and not done;
    - `Slow` is late; `Never` waits until `release` is called;
    - `Crashes` is the supervisor's death at this write, before it or, if it says so, after it.

    At `record`, which each record of a commit passes, one that `Fails` is refused alone.

    Args:
        store: The store beneath; it outlives this one.
        faults: What goes wrong; nothing by default.
        crashed: Called at the death, in the task that commits; has the rest die, such as
            `SimulatedExecution.die` and whatever plays the supervisor.
    """

    def __init__(
        self,
        store: Store,
        faults: Faults | None = None,
        *,
        crashed: Callable[[], None] | None = None,
    ) -> None:
        self.faults = faults or Faults()
        self.gone = Fence("the simulated supervisor")
        """Up once the supervisor has died: nothing reaches the store beneath any more."""
        self._store = store
        self._crashed = crashed
        self._held: trio.Event | None = None
        self._releases = trio.Event()

    def __repr__(self) -> str:
        return f"<FaultyStore of {self._store!r}>"

    def open(self) -> AbstractAsyncContextManager[Journal]:
        """Own the journal beneath for a block."""
        return self._open()

    def hold(self) -> None:
        """Have every commit from now on wait until `release`."""
        if self._held is None:
            self._held = trio.Event()

    def release(self) -> None:
        """Let every commit go on that waits, those that were planned to hang too."""
        if self._held is not None:
            self._held.set()
            self._held = None
        self._releases.set()
        self._releases = trio.Event()

    def die(self) -> None:
        """Be the store of a supervisor that dies at this moment."""
        self.gone.set("it died")

    async def passes(self, place: str) -> None:
        """Pass a place at which the store may fail.

        Raises:
            StoreFailed: As planned.
            Crashed: The supervisor is dead.
        """
        self.check()
        try:
            await self.faults.meet(place)
        except ReactorError as failure:
            raise StoreFailed(
                f"the store failed at {place!r}", store="faulty", outcome=failure.outcome
            ) from failure
        except Crashed:
            self.crash()
        self.check()

    def check(self) -> None:
        """See that the supervisor lives.

        Raises:
            Crashed: It has died.
        """
        if self.gone.is_set:
            raise Crashed("the simulated supervisor died before")

    def crash(self) -> NoReturn:
        """Die, with whatever else dies with it."""
        self.die()
        if self._crashed is not None:
            self._crashed()
        raise Crashed("the simulated supervisor died at a write")

    async def until_released(self) -> None:
        """Wait while the store is held."""
        while self._held is not None:
            await self._held.wait()

    async def until_next_release(self) -> None:
        """Wait for the next release, whether or not the store is held."""
        await self._releases.wait()

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[Journal]:
        await self.passes("open")
        async with self._store.open() as journal:
            if isinstance(journal, SharedJournal):
                yield _FaultySharedJournal(self, journal)
            else:
                yield _FaultyJournal(self, journal)


class _FaultyJournal:
    """A journal of a faulty store."""

    def __init__(self, store: FaultyStore, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    async def load(self) -> Contents:
        """Everything in it."""
        await self._store.passes("load")
        return await self._journal.load()

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        """Make the changes durable, as far as the plan lets them."""
        store = self._store
        store.check()
        await store.until_released()
        fault = store.faults.at("commit")
        match fault:
            case None:
                pass
            case Slow(seconds):
                await trio.sleep(seconds)
            case Never():
                await store.until_next_release()
            case Fails(failure, after, done):
                await trio.sleep(after)
                if done:
                    await self._commit(changes)
                if failure == "defect":
                    raise RuntimeError("commit: a defect as planned")
                known = failure == "refused" and not done
                raise StoreFailed(
                    "the commit failed as planned",
                    store="faulty",
                    outcome="not-submitted" if known else "unknown",
                )
            case Crashes(done):
                if done:
                    await self._commit(changes)
                store.crash()
            case _:
                raise ValueError(f"{fault} at 'commit', which no message passes")
        return await self._commit(changes)

    async def _commit(self, changes: Sequence[Change]) -> Sequence[ReactorError | None]:
        self._store.check()
        refused: dict[int, ReactorError] = {}
        for index, change in enumerate(changes):
            if self._store.faults.at("record") is not None:
                refused[index] = RecordRefused(
                    f"the record of {change.record.handle} is refused as planned",
                    outcome="replied",
                )
        taken = [change for index, change in enumerate(changes) if index not in refused]
        if not taken:
            await trio.lowlevel.checkpoint()
            return [refused[index] for index in range(len(changes))]
        answers = iter(await self._journal.commit(taken))
        return [refused[i] if i in refused else next(answers) for i in range(len(changes))]


class _FaultySharedJournal(_FaultyJournal):
    """A journal of a faulty store that is shared."""

    def __init__(self, store: FaultyStore, journal: SharedJournal) -> None:
        super().__init__(store, journal)
        self._shared = journal

    @property
    def incarnation(self) -> str:
        """This start of this host's supervisor."""
        return self._shared.incarnation

    @property
    def lease(self) -> float:
        """Seconds from a beat that this host may hold anything."""
        return self._shared.lease

    async def beat(self) -> bool:
        """Say that this host lives."""
        await self._store.passes("beat")
        return await self._shared.beat()

    async def look(self, key: Key, /) -> KeyFacts:
        """What is there of a key."""
        await self._store.passes("look")
        return await self._shared.look(key)

    async def host(self, incarnation: str, /) -> HostFacts | None:
        """What is there of an incarnation."""
        await self._store.passes("look")
        return await self._shared.host(incarnation)

    async def fence(self, seen: HostFacts, /) -> bool:
        """Fence an incarnation."""
        await self._store.passes("fence")
        return await self._shared.fence(seen)
