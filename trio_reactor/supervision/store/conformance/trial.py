"""What the cases do with a store, with a message for whatever it does wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import cast, final

from trio.testing import assert_checkpoints

from trio_reactor.errors import ReactorError, leaves
from trio_reactor.supervision.errors import StaleSession, StoreBusy
from trio_reactor.supervision.model.codec import encode
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import SessionRecord
from trio_reactor.supervision.store.protocol import Change, Contents, Journal, SharedJournal
from trio_reactor.testing import conformance

from .lives import life
from .rig import Rig

__all__ = ["Opened", "Trial"]


@final
class Trial(conformance.Trial[Rig]):
    """What the body of a case works with.

    Args:
        rig: The store.
        required: The rule that is tested.
    """

    @contextmanager
    def watched(self, what: str) -> Generator[None]:
        """A block in which the store must neither raise nor dawdle."""
        with self.soon(f"did not {what}"):
            try:
                yield
            except Exception as failure:
                raise self.broken(f"raised {failure!r} when it was to {what}") from failure

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Opened]:
        """The open journal, which must open and close."""
        block = self.rig.store().open()
        with self.watched("open"):
            journal = await block.__aenter__()
        try:
            yield Opened(self, journal)
        except BaseException as raised:
            # As a `with` statement does: what was raised comes out, unless the store says more.
            try:
                await block.__aexit__(type(raised), raised, raised.__traceback__)
            except BaseException as came:
                if any(leaf is raised for leaf in leaves(came)):
                    raise
                raise self.broken(f"raised {came!r} when it was left by an error") from came
            raise
        with self.watched("close"):
            await block.__aexit__(None, None, None)

    async def busy(self) -> None:
        """Require that the store cannot be opened now."""
        store = self.rig.store()
        try:
            async with store.open():
                pass
        except StoreBusy:
            return
        except Exception as failure:
            raise self.broken(f"raised {failure!r} when it was open already") from failure
        self.fail("opened for two at one time")


@final
class Opened:
    """An open journal under test."""

    def __init__(self, trial: Trial, journal: Journal) -> None:
        self._trial = trial
        self.journal = journal
        self._host = journal.incarnation if isinstance(journal, SharedJournal) else ""

    def life(self, name: str | Key, generation: int = 1) -> Sequence[SessionRecord]:
        """The records of a session's life, from `Open` to `Stopped`."""
        key = Key(name) if isinstance(name, str) else name
        return life(key, generation, self._host)

    async def outcomes(
        self, *records: SessionRecord, forgets: tuple[Handle, ...] = ()
    ) -> Sequence[ReactorError | None]:
        """Commit these together, and return the outcomes; the last of them forgets.

        It must be a checkpoint, and return one outcome each.
        """
        trial = self._trial
        last = len(records) - 1
        changes = [
            Change(record, encode(record), forgets if index == last else ())
            for index, record in enumerate(records)
        ]
        with trial.watched(f"commit {len(changes)} changes"), self._a_checkpoint("commit"):
            found = cast("object", await self.journal.commit(changes))
        if not isinstance(found, Sequence):
            trial.fail(f"returned {found!r} from a commit")
        outcomes = cast("Sequence[ReactorError | None]", found)
        trial.require(
            len(outcomes) == len(changes),
            f"returned {len(outcomes)} outcomes for {len(changes)} changes",
        )
        return outcomes

    async def commit(self, *records: SessionRecord, forgets: tuple[Handle, ...] = ()) -> None:
        """Commit these together; all must be made."""
        for record, outcome in zip(
            records, await self.outcomes(*records, forgets=forgets), strict=True
        ):
            if outcome is not None:
                self._trial.fail(f"refused {_shown(record)} for {outcome!r}")

    async def stale(self, *records: SessionRecord) -> None:
        """Commit these together; each must be refused with `StaleSession`."""
        for record, outcome in zip(records, await self.outcomes(*records), strict=True):
            self._trial.require(
                isinstance(outcome, StaleSession), f"said {outcome!r} of {_shown(record)}"
            )

    async def load(self) -> Contents:
        """What is in it."""
        with self._trial.watched("load"), self._a_checkpoint("load"):
            return await self.journal.load()

    async def holds(
        self, *records: SessionRecord, high_water: dict[Key, int], when: str = ""
    ) -> None:
        """Require that a load gives exactly this."""
        found = await self.load()
        expected = [_shown(record) for record in records]
        gave = [_shown(record) for record in found.records]
        self._trial.require(gave == expected, f"held {gave} instead of {expected}{when}")
        self._trial.require(
            found.records == records, f"gave records that were not what was committed{when}"
        )
        self._trial.require(
            dict(found.high_water) == high_water,
            f"held the generations {dict(found.high_water)} instead of {high_water}{when}",
        )

    @contextmanager
    def _a_checkpoint(self, what: str) -> Generator[None]:
        ended = False
        try:
            with assert_checkpoints():
                yield
                ended = True
        except AssertionError as failure:
            if not ended:
                raise
            raise self._trial.broken(f"did not checkpoint when it was to {what}") from failure


def _shown(record: SessionRecord) -> str:
    return f"{record.handle} {type(record.phase).__name__}"
