"""Each case of the suite for stores can fail: it finds the store that breaks just its rule."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from store_rigs import MemoryRig

from trio_reactor.errors import Closed, ReactorError
from trio_reactor.supervision.errors import RecordUnreadable, StoreBusy
from trio_reactor.supervision.model.codec import MAX_RECORD_BYTES, decode, encode
from trio_reactor.supervision.model.keys import Handle, Key
from trio_reactor.supervision.model.records import Open, SessionRecord
from trio_reactor.supervision.store.conformance import (
    CASES,
    Case,
    Nonconforming,
    Rig,
    RigFailed,
    cases,
    run_all,
)
from trio_reactor.supervision.store.conformance.lives import largest, life
from trio_reactor.supervision.store.memory import MemoryJournal
from trio_reactor.supervision.store.protocol import Change, Contents


class Good:
    """A journal that does everything as the one in memory does."""

    def __init__(self, rig: MutantRig, inner: MemoryJournal) -> None:
        self.rig = rig
        self.inner = inner

    async def load(self) -> Contents:
        return await self.inner.load()

    async def commit(self, changes: Sequence[Change], /) -> Sequence[ReactorError | None]:
        return await self.inner.commit(changes)


class MutantRig(MemoryRig):
    name = "the mutant"
    journal: type[Good] = Good

    def store(self) -> Any:
        return self

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Good]:
        async with self.memory.open() as journal:
            yield self.journal(self, journal)


def loaded(contents: Contents, *records: SessionRecord) -> Contents:
    return Contents(records, contents.high_water)


class Haunted(Good):
    async def load(self) -> Contents:
        found = await super().load()
        return Contents(found.records, {Key("ghost"): 1, **found.high_water})


class Deaf(Good):
    """It keeps the first record of a session."""

    async def commit(self, changes: Sequence[Change], /) -> Any:
        return await super().commit([each for each in changes if self.first(each)]) + [
            None for each in changes if not self.first(each)
        ]

    def first(self, change: Change) -> bool:
        return isinstance(change.record.phase, Open)


class Leaping(Good):
    """It takes any higher generation."""

    async def commit(self, changes: Sequence[Change], /) -> Any:
        for change in changes:
            handle = change.record.handle
            if isinstance(change.record.phase, Open) and handle.generation > 1:
                highest = self.inner._store._high_water
                if handle.generation > highest.get(handle.key, 0):
                    highest[handle.key] = handle.generation - 1
        return await super().commit(changes)


class Welcoming(Good):
    """It takes a later record without an earlier one."""

    async def commit(self, changes: Sequence[Change], /) -> Any:
        for change in changes:
            handle = change.record.handle
            if not isinstance(change.record.phase, Open):
                self.inner._store._records.setdefault((handle.key, handle.generation), change)
        return await super().commit(changes)


class Forgetful(Good):
    """It forgets a generation with its record."""

    async def commit(self, changes: Sequence[Change], /) -> Any:
        outcomes = await super().commit(changes)
        for change in changes:
            for handle in change.forgets:
                self.inner._store._high_water.pop(handle.key, None)
        return outcomes


class Sweeping(Good):
    """It forgets all generations of a key."""

    async def commit(self, changes: Sequence[Change], /) -> Any:
        outcomes = await super().commit(changes)
        for change in changes:
            for handle in change.forgets:
                for session in [*self.inner._store._records]:
                    if session[0] == handle.key:
                        del self.inner._store._records[session]
        return outcomes


class Sorted(Good):
    async def load(self) -> Contents:
        found = await super().load()
        return loaded(found, *sorted(found.records, key=lambda each: each.handle.key))


class Backward(Good):
    """It makes first records last."""

    async def commit(self, changes: Sequence[Change], /) -> Any:
        order = sorted(
            range(len(changes)), key=lambda at: isinstance(changes[at].record.phase, Open)
        )
        made = await super().commit([changes[at] for at in order])
        return [made[order.index(at)] for at in range(len(changes))]


class Strict(Good):
    """What is refused takes the rest of its group with it."""

    async def commit(self, changes: Sequence[Change], /) -> Any:
        store = self.inner._store
        before = (dict(store._records), dict(store._high_water))
        outcomes = await super().commit(changes)
        refused = next((each for each in outcomes if each is not None), None)
        if refused is not None:
            store._records, store._high_water = before
            return [refused for _ in changes]
        return outcomes


class Hasty(Good):
    """It returns at once when there is nothing to do."""

    async def commit(self, changes: Sequence[Change], /) -> Any:
        return await super().commit(changes) if changes else []


class Small(Good):
    async def commit(self, changes: Sequence[Change], /) -> Any:
        return (await super().commit(changes))[:999]


class Narrow(Good):
    """It keeps 64,000 bytes of a record."""

    async def load(self) -> Contents:
        for change in self.inner._store._records.values():
            if len(change.encoded) > 64_000:
                raise RecordUnreadable("a record is damaged", name="a record")
        return await super().load()


class Folding(Good):
    """It does not tell letters by their case, as many a database."""

    async def commit(self, changes: Sequence[Change], /) -> Any:
        def folded(record: SessionRecord) -> SessionRecord:
            key = Key(record.handle.key.identity.lower(), record.handle.key.instance)
            handle = msgspec.structs.replace(record.handle, key=key)
            return msgspec.structs.replace(record, handle=handle)

        return await super().commit(
            [msgspec.structs.replace(each, record=folded(each.record)) for each in changes]
        )


class Live(Good):
    """What it gives is its own."""

    async def load(self) -> Contents:
        found = await super().load()
        return Contents(found.records, self.inner._store._high_water)


class Lossy(Good):
    """It loses what was replaced when it is opened again."""

    def __init__(self, rig: MutantRig, inner: MemoryJournal) -> None:
        super().__init__(rig, inner)
        for session, change in [*inner._store._records.items()]:
            if not isinstance(change.record.phase, Open):
                del inner._store._records[session]


class Shared(MutantRig):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Good]:
        await trio.lowlevel.checkpoint()
        yield self.journal(self, MemoryJournal(self.memory))


class Fragile(MutantRig):
    """Whoever is turned away empties it."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Good]:
        try:
            async with super().open() as journal:
                yield journal
        except StoreBusy:
            self.memory._high_water[Key("intruder")] = 1
            raise


class Sticky(MutantRig):
    """It stays open when it was left by an error."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Good]:
        try:
            async with super().open() as journal:
                yield journal
        except BaseException:
            self.memory._open = True
            raise


class Leaking(MutantRig):
    """It stays open when its opening was cancelled half-way."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Good]:
        if self.memory._open:
            raise StoreBusy("the mutant is open", store="the mutant")
        self.memory._open = True
        await trio.lowlevel.checkpoint()
        try:
            yield self.journal(self, MemoryJournal(self.memory))
        finally:
            self.memory._open = False


class Halving(Good):
    async def commit(self, changes: Sequence[Change], /) -> Any:
        half = len(changes) // 2
        first = await super().commit(changes[:half])
        return [*first, *await super().commit(changes[half:])]


class Undead(Good):
    def __init__(self, rig: MutantRig, inner: MemoryJournal) -> None:
        super().__init__(rig, inner)
        self.again = MemoryJournal(inner._store)

    async def load(self) -> Contents:
        with contextlib.suppress(Closed):
            return await super().load()
        return await self.again.load()


class Nameless(Good):
    async def load(self) -> Contents:
        try:
            return await super().load()
        except RecordUnreadable as failure:
            raise RecordUnreadable("a record is damaged", name="a record") from failure


MUTANTS: dict[str, type[MutantRig | Good]] = {
    "a new journal is empty": Haunted,
    "a later record takes the place of the one before": Deaf,
    "a first record is refused unless its generation is one more than its key ever had": Leaping,
    "a later record is refused where there is none before it": Welcoming,
    "what was forgotten is gone, does not come back, and its generation stays": Forgetful,
    "only what is named is forgotten, and what is not there can be": Sweeping,
    "what it gives is in the order in which it was last written": Sorted,
    "of a group each change is made after those before it": Backward,
    "what a change is refused for is its own, and it forgets nothing": Strict,
    "an empty group changes nothing": Hasty,
    "a thousand changes are committed together": Small,
    "a record as large as one may be is kept whole": Narrow,
    "names are kept as they are, and none is taken for another": Folding,
    "what it gave does not change afterwards": Live,
    "what was acknowledged is there when it is opened again": Lossy,
    "while one supervisor has it no other gets it; then the next one does": Shared,
    "who was turned away harms nothing": Fragile,
    "it is given up also by an error, which comes out, and by cancellation": Sticky,
    "an opening that is cancelled, at whichever checkpoint, leaves it to the next one": Leaking,
    "a group whose commit was cancelled is there as a whole, or not at all": Halving,
    "it is of no use once its block was left": Undead,
    "a damaged record is named, and left as it is": Nameless,
}


def rig_of(mutant: type[MutantRig | Good]) -> MutantRig:
    if issubclass(mutant, MutantRig):
        return mutant()
    rig = MutantRig()
    rig.journal = mutant
    return rig


def test_there_is_a_mutant_for_every_case() -> None:
    assert list(MUTANTS) == [case.sentence for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_mutant_is_found_by_the_case_that_names_its_rule(
    autojump_clock: object, case: Case
) -> None:
    with pytest.raises(Nonconforming) as caught:
        await case.run(rig_of(MUTANTS[case.sentence]))
    assert caught.value.required == case.sentence
    assert str(caught.value).startswith("the mutant ")
    assert case.sentence in str(caught.value)


@asynccontextmanager
async def environment_of(mutant: type[MutantRig | Good]) -> AsyncGenerator[Rig]:
    async with trio.open_nursery():
        yield rig_of(mutant)


async def test_what_is_wrapped_and_not_mutated_conforms(autojump_clock: object) -> None:
    told: list[str] = []
    hold = await run_all(MutantRig, lambda: environment_of(Good), told.append)
    assert hold == tuple(case.sentence for case in CASES)
    assert told == [f"holds: {sentence}" for sentence in hold]


async def test_all_that_is_broken_is_told_at_once(autojump_clock: object) -> None:
    told: list[str] = []
    with pytest.raises(ExceptionGroup, match="the mutant does not conform") as caught:
        await run_all(MutantRig, lambda: environment_of(Deaf), told.append)
    assert len(told) == len(CASES)
    assert "holds: a new journal is empty" in told
    assert len(caught.value.exceptions) == sum(line.startswith("does not hold") for line in told)
    assert 1 < len(caught.value.exceptions) < len(CASES)


async def test_what_the_rig_raises_says_nothing_about_the_store(autojump_clock: object) -> None:
    class Broken(MutantRig):
        async def damage(self, handle: Handle, /) -> None:
            raise OSError("the rig's own")

    with pytest.raises(RigFailed, match="failed in `damage`") as caught:
        await CASES[-1].run(Broken())
    assert isinstance(caught.value.__cause__, OSError)


async def test_a_store_that_never_answers_is_found_by_the_first_case(
    autojump_clock: object,
) -> None:
    class Silent(Good):
        async def load(self) -> Contents:
            await trio.sleep_forever()

    with pytest.raises(Nonconforming, match="the mutant did not load within 20 s"):
        await CASES[0].run(rig_of(Silent))


def test_a_case_that_needs_what_a_store_cannot_do_does_not_apply() -> None:
    class Modest(MutantRig):
        capabilities = frozenset()

    applying = cases(Modest)
    assert 0 < len(applying) < len(CASES)
    assert not any(case.needs for case in applying)


def test_a_capability_that_there_is_none_of_is_refused_by_name() -> None:
    class Boasting(MutantRig):
        capabilities: Any = frozenset({"quick"})

    with pytest.raises(ValueError, match="names 'quick'; there are 'damageable', 'exclusive'"):
        cases(Boasting)


def test_records_of_the_suite_are_read_as_they_were_written() -> None:
    records = life(Key("a"), 1, "")
    assert [decode(encode(each), name="it") for each in records] == list(records)
    assert len(encode(largest(records[0]))) == MAX_RECORD_BYTES
